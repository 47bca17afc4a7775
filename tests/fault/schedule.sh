#!/bin/bash
# schedule.sh - makes a schedule of faults from a seed: tests/fault/schedule.sh SEED [STEPS]
#
# Equal seeds give equal schedules.  Each fault point has its turn: which one, is drawn.
cd "$(dirname "$0")/../.." || exit 2
points=$(grep -rhoE --include='*.c' 'FAULT\("[a-z._]+"\)' supervisor worker shm | sed 's/.*"\(.*\)".*/\1/' | sort -u)
awk -v seed="$1" -v steps="${2:-12}" -v list="$points" '
function rand_of(n) { return int(rand() * n) }
function one_of(words,    w, n) { n = split(words, w, " "); return w[1 + rand_of(n)] }
function partition() { return rand_of(8) }
function instance() { return one_of("a b") }
function ms(least, most) { return least + rand_of(most - least) }
# What makes the fleet pass the points: somebody dies, leaves, comes.
function move() {
	return one_of("1 2 3") == 1 ? "kill tallyd " instance() : one_of("1 2") == 1 ? "term tallyd " instance() : "kill worker " partition()
}
function fault(    k) {
	k = rand_of(20)
	if (k < 4) return "kill worker " partition()
	if (k < 6) return "stop worker " partition() " " ms(100, 6000)
	if (k < 7) return "kill query " instance()
	if (k < 8) return "stop query " instance() " " ms(100, 4000)
	if (k < 9) return one_of("kill stop") " reader " instance() " " ms(100, 4000)
	if (k < 10) return "kill tallyd " instance()
	if (k < 11) return "term tallyd " instance()
	if (k < 12) return "stop tallyd " instance() " " ms(200, 9000)
	if (k < 13) return "broker down " ms(100, 3000)
	if (k < 14) return "poison " partition()
	if (k < 15) return "corrupt " partition()
	return "arm " one_of(list) " " one_of("kill kill kill stop sleep") " " one_of("1 1 1 2 5 20") " " ms(50, 5000) "\nwait " ms(50, 1000) "\n" move()
}
BEGIN {
	srand(seed)
	print "seed " seed
	for (i = 0; i < steps; i++) {
		print fault()
		if (rand_of(2)) print "wait " ms(0, 1500)
		if (rand_of(3) == 0) print "wait 1500\ncheck"
	}
	print "wait 1500\ncheck"
}'
