#!/bin/bash
# soak.sh - one random schedule after the other: tests/fault/soak.sh MINUTES  (make soak MINUTES=30)
#
# Prints each seed; a schedule that fails is kept under $B/faults, made short, and ends it.
# SEED=n begins with that one, STEPS=n makes them longer.
cd "$(dirname "$0")/../.." || exit 2
B=$(realpath "${B:-build}"); export B
end=$((SECONDS + ${1:-30} * 60)) seed=${SEED:-$((0x$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')))}
runs=0 faults=0
mkdir -p "$B/faults"
while :; do
	schedule=$B/faults/$seed.schedule
	tests/fault/schedule.sh "$seed" "${STEPS:-12}" >"$schedule"
	echo "# seed $seed"
	if ! tests/fault/run.sh "$schedule" >"$schedule.log" 2>&1; then
		grep -a '^not ok' "$schedule.log"
		echo "# it fails: $schedule, $schedule.log"
		tests/fault/shrink.sh "$schedule" "${TRIES:-20}"
		exit 1
	fi
	runs=$((runs + 1)) faults=$((faults + $(sed -n 's/^# \([0-9]*\) faults.*/\1/p' "$schedule.log")))
	grep -ah 'times started again\|not settled' "$schedule.log"
	rm -f "$schedule" "$schedule.log"
	[ $SECONDS -lt $end ] || break
	seed=$((seed + 1))
done
echo "soak: $runs schedules, $faults faults survived"
