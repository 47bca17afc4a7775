#!/bin/bash
# demo.sh - Tally at work: a broker, a load, a supervisor with its workers, and what one can see.
#
#	tally-load -> tally-broker -> tallyd -> 8 x tally-worker -> stores -> tally-queryd, tallyctl
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

say 'A broker with a topic of 8 partitions'
start broker "$B/tally-broker" --die-with-parent=$$ --topic tally:8 --ready-file "$T/broker.ready"
wait_for 10 test -s "$T/broker.ready" || fail 'the broker did not come up'
BROKERS=$(head -n 1 "$T/broker.ready")
echo "$BROKERS"

say '60,000 records of 6 tenants, over the last 100 minutes'
load=("$B/tally-load" --brokers "$BROKERS" --topic tally --tenants 6 --policies 2 --streams 2000
	--popularity zipf:1.05)
"${load[@]}" --records 60000 --spread 100m --broken undecodable=20,too_old=200 >>"$T/load.log" 2>&1 ||
	fail 'the load could not be written'

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
query:
  http_listen: 127.0.0.1:${DEMO_PORT:-0}
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

"$B/tallyctl" -d "$T/run" status
say 'Tenants with most active streams'
"$B/tallyctl" -d "$T/run" top
wait_for 10 address
say "Look inside: http://$(address)/api/v1/partitions"
echo "             http://$(address)/api/v1/tenants/tenant-0    http://$(address)/metrics"
echo "             $B/tallyctl -d $T/run status"
echo
if [ -n "${DEMO_SECONDS:-}" ]; then echo "The load goes on for $DEMO_SECONDS s."; else echo 'The load goes on until Ctrl-C.'; fi

end=$((SECONDS + ${DEMO_SECONDS:-2147483647}))
while [ $SECONDS -lt $end ]; do
	alive "$TALLYD" || fail 'tallyd has ended'
	sleep 0.5
done
say 'The end'
"$B/tallyctl" -d "$T/run" status
exit 0
