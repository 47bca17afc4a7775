# lib.sh - what the measuring scripts have beside lib.sh of the system tests.
#
#	. "$(dirname "$0")/lib.sh"
#	RECORDS=${RECORDS:-$(pick 1000000 10000000)}
#	say replay.raw "$(median "$T/raw.txt")"
#	PLANNED=1
#
# FORM is short or full; RESULTS is the file that run.sh makes its table of.
FORM=${FORM:-short}
ROUNDS=${ROUNDS:-3}
RESULTS=${RESULTS:-/dev/stdout}	# an absolute path

# REAL=1 before this: on real Kafka, where it can be had.
BROKER=embedded
if [ -n "${REAL:-}" ] && "$(dirname "${BASH_SOURCE[0]}")/../kafka/fetch.sh" >/dev/null 2>&1; then BROKER=kafka; fi
KAFKA_HEAP=1g
. "$(dirname "${BASH_SOURCE[0]}")/../system/ask.sh"

pick() { if [ "$FORM" = full ]; then echo "$2"; else echo "$1"; fi; }
broker_kind() { if [ "$KIND" = kafka ]; then echo 'real Kafka'; else echo 'the embedded broker'; fi; }
say() { printf '%s\t%s\n' "$1" "$2" >>"$RESULTS"; }
# measure PREFIX COMMAND...: what a measuring program prints.
measure()
{
	local out
	out=$("${@:2}" 2>>"$T/measure.log") || bail "${*:2}: exit $?: $(tail -n 3 "$T/measure.log")"
	sed "s/^/$1./" <<<"$out" >>"$RESULTS"
}
median() { sort -g "$@" | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)]; else exit 1 }'; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.4f\n", b - a }'; }
calc() { awk "BEGIN { printf \"%.6g\\n\", $* }"; }

# on_core N COMMAND...: it, and what it starts, on one core; a machine with one has no choice.
on_core() { if [ "$(nproc)" -gt 1 ]; then taskset -c "$1" "${@:2}"; else "${@:2}"; fi; }
# The same for what this shell starts from here on.
stay_on() { [ "$(nproc)" -lt 2 ] || taskset -cp "$1" "$BASHPID" >/dev/null; }

# log_time PATTERN FILE: when the first such line was written, in Unix seconds.
log_time() { date -d "$(grep -m 1 -E "$1" "$2" | cut -d ' ' -f 1)" +%s.%N; }

# Ends of the topic's partitions into $T/ends.txt; all records are there (the embedded broker keeps 5 MiB of each).
offsets() { local p; for ((p = 0; p < PARTITIONS; p++)); do kcat -Q -b "$BROKERS" -t "$TOPIC:$p:$1" | awk '{ print $NF }'; done; }
ends()
{
	[ "$(offsets -2 | sum)" = 0 ] || bail 'the broker has dropped records: RECORDS is too large for it'
	offsets -1 >"$T/ends.txt"
	[ "$(sum <"$T/ends.txt")" = "$1" ] || bail "the log has $(sum <"$T/ends.txt") records, not $1"
}

# raw_all: all partitions are read by raw consumers at the same time; the time it took.
raw_all()
{
	local p=0 began=$EPOCHREALTIME pids=() pid end
	while read -r end; do
		"$B/bench/raw_consumer" "$BROKERS" "$TOPIC" $p "$end" >>"$T/raw.log" &
		pids+=($!); p=$((p + 1))
	done <"$T/ends.txt"
	for pid in "${pids[@]}"; do wait "$pid" || bail "raw_consumer: $(tail -n 3 "$T/raw.log")"; done
	since "$began"
}

# Ready, without the pauses of wait_ready.
until_ready()
{
	local end=$((SECONDS + ${1:-120}))
	until [ "$(ready_count)" = "$PARTITIONS" ]; do
		[ $SECONDS -le $end ] || die "not ready in ${1:-120} s"
		sleep 0.02
	done
}
# Processor time of these processes so far, in ns.
cpu_ns()
{
	local p
	for p in "$@"; do cat "/proc/$p/stat"; done 2>/dev/null | sed 's/.*) //' |
		awk -v hz="$(getconf CLK_TCK)" '{ t += $12 + $13 } END { printf "%.0f", t / hz * 1e9 }'
}
workers() { fields "$(facts)" pid; }
