# 60-ask.sh - questions: how many, how fast, at what cost, beside a gRPC server of the same stack that says
# back what it is told; look-ups through libtally; where the time of a new stream goes.
#
# Client (tally-load ask), server and broker share the machine.  One call at a time on each connection, and
# once 64 on one.  ROUNDS rounds of SECONDS seconds each, kinds in turn; medians.
. "$(dirname "$0")/../system/ask.sh"

ROUNDS=${ROUNDS:-3}
SECONDS_EACH=${SECONDS_EACH:-2}
KNOWN=${KNOWN:-100000}	# streams that are asked about again and again
FIELDS=(requests_per_s streams_per_s p50_us p99_us p999_us)

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
# Processor time of these processes so far, in ns.
cpu_ns() { local p; for p in "$@"; do cat "/proc/$p/stat"; done 2>/dev/null | sed 's/.*) //' | awk -v hz="$(getconf CLK_TCK)" '{ t += $12 + $13 } END { printf "%.0f", t / hz * 1e9 }'; }
workers() { fields "$(facts)" pid; }

broker partitions=8
start_tallyd limits.max_global_streams_per_user=0 log_level=warn store.map_size=4GiB
wait_ready 8
wait_asked
query=$(status_json | jq .query_pid)
spawn echo "$B/tests/grpc-echo" --listen 127.0.0.1:0
ECHO=$PID
wait_until "cat '$T/echo.log'" 'listening on'
echo_address=$(sed -n 's/.*listening on //p' "$T/echo.log")
ask --tenant known --streams "$KNOWN" --per-request 1000 --concurrency 8 --seed 1
[ "$(said accepted)" = "$KNOWN" ] || bail "not all were accepted: $(cat "$T/ask.txt")"

# one KIND CONNECTIONS CALLS PER_REQUEST: a line of values into its file.
one()
{
	local pids before after what
	case $1 in
	echo) pids=("$ECHO"); what=(--target "$echo_address" --method echo --path /test.Echo/Echo --tenant known --streams "$KNOWN") ;;
	known) pids=("$query"); what=(--tenant known --streams "$KNOWN") ;;
	new) pids=("$query" $(workers)); what=(--tenant "new-$2-$3-$4" --streams 0 --seed $((++round))) ;;
	esac
	before=$(cpu_ns "${pids[@]}")
	ask --rounds 0 --seconds "$SECONDS_EACH" --connections "$2" --concurrency "$3" --per-request "$4" "${what[@]}"
	after=$(cpu_ns "${pids[@]}")
	[ "$(said lost garbled rejected failed other)" = '0 0 0 0 0' ] && [ "$(said ok)" = "$(said requests)" ] ||
		bail "$*: $(cat "$T/ask.txt")"
	echo "$(said "${FIELDS[@]}") $(awk -v c=$((after - before)) -v n="$(said streams)" 'BEGIN { printf "%.0f", c / n }')" >>"$T/$1-$2-$3-$4.txt"
}

round=1
shapes=('1 1 1' '1 1 100' '1 1 1000' '16 1 1' '16 1 100' '16 1 1000' '64 1 1' '64 1 100' '64 1 1000' '1 64 1' '1 64 100')
for ((i = 0; i < ROUNDS; i++)); do
	for shape in "${shapes[@]}"; do for kind in echo known new; do one $kind $shape; done; done
done
column() { awk -v c="$1" '{ print $c }' "$2" | median; }
echo 'connections x calls, streams per request       requests/s    streams/s   p50 us   p99 us p99.9 us  CPU ns/stream   of echo'
for shape in "${shapes[@]}"; do
	read -r c s n <<<"$shape"
	for kind in echo known new; do
		f=$T/$kind-$c-$s-$n.txt
		awk -v name="$(printf '%2d x %2d, %4d, %s' "$c" "$s" "$n" "$kind")" -v r="$(column 1 "$f")" -v e="$(column 1 "$T/echo-$c-$s-$n.txt")" \
			-v st="$(column 2 "$f")" -v a="$(column 3 "$f")" -v b="$(column 4 "$f")" -v d="$(column 5 "$f")" -v cpu="$(column 6 "$f")" \
			'BEGIN { printf "%-44s %12.0f %12.0f %8.0f %8.0f %8.0f %14.0f %9.2f\n", name, r, st, a, b, d, cpu, r / e }'
	done
done

# libtally, with nobody writing, and with new streams coming in as fast as they can.
ask --tenant known --streams "$KNOWN" --per-request 1000 --out "$T/known.out" --seed 1
cut -f 4 "$T/known.out" | shuf --random-source="$B/tally-load" >"$T/hashes.txt"
echo "libtally, ns a stream, idle            $("$B/bench/ask_parts" lookup "$(run_dir)" known "$T/hashes.txt")"
ask_start writer --tenant writer --streams 0 --rounds 0 --per-request 1000 --connections 4 --seconds 60
writer=$PID
echo "libtally, ns a stream, writer          $("$B/bench/ask_parts" lookup "$(run_dir)" known "$T/hashes.txt")"
kill -TERM "$writer"; wait "$writer"
echo "the writer's streams/s meanwhile       $(FROM=$T/writer.log said streams_per_s)"

# A new stream, one at a time: client and gRPC are echo's; the worker is asked by itself; its commit says
# how long it took; what is left is the query process.
"$B/bench/ask_parts" worker "$(echo "$(run_dir)"/p3.*)" 5000 >"$T/worker.txt" || bail 'ask_parts worker'
whole=$(column 3 "$T/new-1-1-1.txt") grpc=$(column 3 "$T/echo-1-1-1.txt")
sed 's/[a-z_]*=//g' "$T/worker.txt" | awk -v whole="$whole" -v grpc="$grpc" '{
	printf "a new stream, p50                      %.0f us = client and gRPC %.0f + query process %.0f + socket and wake-ups %.0f + commit %.0f\n",
		whole, grpc, whole - grpc - $1, $1 - $2, $2 }'
stop_tallyd
PLANNED=1
