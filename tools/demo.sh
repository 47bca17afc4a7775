#!/bin/bash
# demo.sh - Tally at work: a broker, a load, a supervisor with its workers, and what one can see.
#
#	tally-load -> tally-broker -> tallyd -> 8 x tally-worker -> stores -> tally-queryd, tallyctl
#	                                             ^                             |
#	                                             '---- may they come in? ------'
#
# Goes on until Ctrl-C, or for DEMO_SECONDS.  All it starts has ended and all it wrote is gone
# when it returns.  Run by: make demo.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
B=${B:-build}

if [ -d /dev/shm ] && [ -w /dev/shm ]; then T=/dev/shm; else T=/tmp; fi
T=$(mktemp -d "$T/tally-demo.XXXXXX") || exit 1
chmod 755 "$T"
PIDS=()

say() { if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }
alive() { [ -d "/proc/$1" ] && ! grep -qs '^State:.Z' "/proc/$1/status"; }

cleanup()
{
	local rc=$? i pid
	trap '' INT TERM EXIT
	# The supervisor first: it stops its workers in order.
	for ((i = ${#PIDS[@]} - 1; i >= 0; i--)); do
		pid=${PIDS[i]}
		kill -TERM "$pid" 2>/dev/null
		for _ in $(seq 150); do alive "$pid" || break; sleep 0.1; done
		kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	rm -rf "$T"
	[ $rc = 0 ] && say 'All stopped, nothing left behind.'
	exit $rc
}
trap cleanup EXIT
trap 'exit 0' INT TERM

# In a process group of its own, so that Ctrl-C reaches this script alone; pid in $PID.
start()
{
	set -m
	"${@:2}" >>"$T/$1.log" 2>&1 </dev/null &
	PID=$!
	set +m
	PIDS+=("$PID")
}

fail()
{
	echo "demo: $*" >&2
	tail -n 8 "$T"/*.log >&2
	exit 1
}

# wait_for SECONDS COMMAND...
wait_for()
{
	local end=$((SECONDS + $1))
	while ! "${@:2}" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}
count() { "$B/tallyctl" -d "$T/run" --json status 2>/dev/null | jq "$1"; }
owned() { [ "$(count .owned)" -gt 0 ]; }
all_ready() { [ "$(count .ready)" = 8 ]; }
address() { cat "$T/run/query.http"; }
grpc_address() { cat "$T/run/query.grpc"; }
ctl() { "$B/tallyctl" -d "$T/run" "$@"; }
worker() { count ".partitions[] | select(.partition == $1 and .ready) | .pid"; }
other_worker() { local pid; pid=$(worker "$1") && [ -n "$pid" ] && [ "$pid" != "$2" ]; }

say 'A broker with a topic of 8 partitions'
start broker "$B/tally-broker" --die-with-parent=$$ --topic tally:8 --ready-file "$T/broker.ready"
wait_for 10 test -s "$T/broker.ready" || fail 'the broker did not come up'
BROKERS=$(head -n 1 "$T/broker.ready")
echo "$BROKERS"

say '60,000 records of 6 tenants, over the last 100 minutes'
echo '(20 broken ones and 200 that are too old are mixed in on purpose: they are counted, and stop nothing)'
load=("$B/tally-load" --brokers "$BROKERS" --topic tally --tenants 6 --policies 2 --streams 2000
	--popularity zipf:1.05)
"${load[@]}" --records 60000 --spread 100m --broken undecodable=20,too_old=200 >>"$T/load.log" 2>&1 ||
	fail 'the load could not be written'

cat >"$T/limits.yaml" <<END
overrides:
  guest:
    max_global_streams_per_user: 3
END
cat >"$T/tally.yaml" <<END
run_dir: $T/run
instance: demo
zone: demo
kafka:
  brokers: "$BROKERS"
  topic: tally
  group: tally
  session_timeout: 6s
  heartbeat_interval: 300ms
  properties:
    fetch.wait.max.ms: 10
limits:
  file: $T/limits.yaml
query:
  http_listen: 127.0.0.1:${DEMO_PORT:-0}
  grpc_listen: 127.0.0.1:0
END

say 'tallyd, with a worker for each partition'
for try in 1 2 3; do
	start tallyd "$B/tallyd" -c "$T/tally.yaml"
	wait_for 25 owned && break
	alive "$PID" && [ $try != 3 ] || fail 'tallyd was given no partition'
	echo "the embedded broker's first rebalance is stuck; starting again"
	kill -TERM "$PID"; wait "$PID"; unset 'PIDS[-1]'
done
TALLYD=$PID
wait_for 60 all_ready || fail 'not all partitions became ready'
start load "${load[@]}" --rate 2000 --seed 2

wait_for 10 address && wait_for 10 grpc_address || fail 'the query process did not come up'

ctl status
say 'Tenants with most active streams'
ctl top --once

say 'Five new streams of a tenant that may have three'
echo "$ tallyctl check --admit guest 1 2 3 4 5"
ctl check --admit guest 1 2 3 4 5
echo "$ tallyctl explain guest | tail -n 1"
ctl explain guest | tail -n 1

dead=$(worker 1)
say "The worker of stream 1 is killed (pid $dead) and started again: nothing is forgotten"
kill -KILL "$dead"
wait_for 20 other_worker 1 "$dead" || fail 'the worker did not come back'
echo "$ tallyctl check --admit guest 1 4"
ctl check --admit guest 1 4
echo "$ tallyctl explain guest | tail -n 1"
ctl explain guest | tail -n 1

say "Ask it yourself: gRPC on $(grpc_address) (proto.IngestLimits, proto.IngestLimitsFrontend), or over HTTP:"
echo "    curl -H 'Content-Type: application/json' http://$(address)/api/v1/exceeds-limits \\"
echo "         -d '{\"tenant\":\"guest\",\"streams\":[{\"streamHash\":\"1\"},{\"streamHash\":\"6\"}]}'"
say "Look inside: http://$(address)/ in a browser"
echo "             $B/tallyctl -d $T/run top"
echo "             http://$(address)/api/v1/tenants/tenant-0    http://$(address)/metrics"
echo
if [ -n "${DEMO_SECONDS:-}" ]; then
	echo "The load goes on for $DEMO_SECONDS s."
else
	echo 'The load goes on until Ctrl-C.'
fi

begin=$SECONDS
next=$((begin + 5))
end=$((begin + ${DEMO_SECONDS:-2147483647}))
while [ $SECONDS -lt $end ]; do
	alive "$TALLYD" || fail 'tallyd has ended'
	if [ -n "${DEMO_SECONDS:-}" ] && [ $SECONDS -ge $next ]; then
		next=$((next + 5))
		printf '%3d s: %s records a second, %s of 8 partitions ready\n' $((SECONDS - begin)) \
			"$(count '[.partitions[].stats.records_per_sec] | add')" "$(count .ready)"
	fi
	sleep 0.5
done
say 'The end'
ctl status
say 'Tenants with most active streams'
ctl top --once
exit 0
