# 60-ask.sh - questions over gRPC: how many, how fast, at what cost, beside a server of the same stack that says
# back what it is told; new streams at half of the maximum rate, and on one core; where a new stream's time goes.
#
# Client (tally-load ask), server and broker share the machine.  ROUNDS rounds of SECONDS_EACH seconds each, kinds
# in turn; medians.  The full form has more shapes; its log has them as a table.
. "$(dirname "$0")/lib.sh"

SECONDS_EACH=${SECONDS_EACH:-2}
KNOWN=${KNOWN:-100000}	# streams that are asked about again and again
FIELDS=(requests_per_s streams_per_s p50_us p99_us p999_us)

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

# one NAME KIND CONNECTIONS CALLS PER_REQUEST [more options]: a line of FIELDS and ns of processor time a stream,
# into NAME.txt.
round=1
one()
{
	local pids before after what
	case $2 in
	echo) pids=("$ECHO"); what=(--target "$echo_address" --method echo --path /test.Echo/Echo --tenant known --streams "$KNOWN") ;;
	known) pids=("$query"); what=(--tenant known --streams "$KNOWN") ;;
	new) pids=("$query" $(workers)); what=(--tenant "new-$1" --streams 0 --seed $((++round))) ;;
	esac
	before=$(cpu_ns "${pids[@]}")
	ask --rounds 0 --seconds "$SECONDS_EACH" --connections "$3" --concurrency "$4" --per-request "$5" "${what[@]}" "${@:6}"
	after=$(cpu_ns "${pids[@]}")
	[ "$(said lost garbled rejected failed other)" = '0 0 0 0 0' ] && [ "$(said ok)" = "$(said requests)" ] ||
		bail "$*: $(cat "$T/ask.txt")"
	echo "$(said "${FIELDS[@]}") $(calc "($after - $before) / $(said streams)")" >>"$T/$1.txt"
}
column() { awk -v c="$1" '{ print $c }' "$T/$2.txt" | median; }

shapes=('1 1 1' '16 1 100')
[ "$FORM" = short ] || shapes+=('1 1 100' '1 1 1000' '16 1 1' '16 1 1000' '64 1 1' '64 1 100' '64 1 1000' '1 64 1' '1 64 100')
for ((i = 0; i < ROUNDS; i++)); do
	for shape in "${shapes[@]}"; do
		for kind in echo known new; do one "$kind-${shape// /-}" "$kind" $shape; done
	done
	# At a given rate, whatever the answers do: more calls at once than it takes.
	one half new 16 16 100 --rate "$(($(tail -n 1 "$T/new-16-1-100.txt" | cut -d ' ' -f 1) / 2))"
done
echo '# connections x calls, streams per request: requests/s, streams/s, p50, p99, p99.9 us, CPU ns/stream'
for f in "$T"/{echo,known,new}-*.txt "$T/half.txt"; do
	name=$(basename "$f" .txt)
	echo "# $name $(for c in 1 2 3 4 5 6; do column $c "$name"; done | tr '\n' ' ')"
done
say ask.known_100 "$(column 1 known-16-1-100)"
say ask.echo_100 "$(column 1 echo-16-1-100)"
say ask.known_100_cpu "$(calc "$(column 6 known-16-1-100) / 1e3")"
say ask.known_100_each "$(calc "1e9 / $(column 2 known-16-1-100)")"
say ask.known_1 "$(column 1 known-1-1-1)"
say ask.echo_1 "$(column 1 echo-1-1-1)"
say ask.known_1_each "$(calc "1e9 / $(column 1 known-1-1-1)")"
say ask.new_1_p50 "$(column 3 new-1-1-1)"
say ask.new_100 "$(column 2 new-16-1-100)"
say ask.new_100_half_p50 "$(calc "$(column 3 half) / 1e3")"
say ask.new_100_half_p99 "$(calc "$(column 4 half) / 1e3")"

# A new stream, one at a time: client and gRPC are echo's; the worker is asked by itself; its commit says
# how long it took; what is left is the query process.
"$B/bench/ask_parts" worker "$(echo "$(run_dir)"/p3.*)" 5000 >"$T/worker.txt" || bail 'ask_parts worker'
sed 's/[a-z_]*=//g' "$T/worker.txt" | awk -v whole="$(column 3 new-1-1-1)" -v grpc="$(column 3 echo-1-1-1)" '{
	printf "# a new stream, p50: %.0f us = client and gRPC %.0f + query process %.0f + socket and wake-ups %.0f + commit %.0f\n",
		whole, grpc, whole - grpc - $1, $1 - $2, $2 }'

# All of tallyd on one core, client and broker on the other.
end "$ECHO"
for pid in "${TALLYD[a]}" "$query" $(workers); do taskset -a -c -p 0 "$pid" >/dev/null; done
[ "$(nproc)" -lt 2 ] || taskset -a -c -p 1 "${BROKER_PIDS[0]}" >/dev/null
stay_on 1
for ((i = 0; i < ROUNDS; i++)); do one core new 16 1 100; done
say ask.core_100 "$(column 2 core)"
stop_tallyd
PLANNED=1
