# 32-an-outage-costs-no-replay.sh - brokers away, for a moment and for three session timeouts: answers
# stop when the lease is over, stores are kept, and only what came meanwhile is read.
. "$(dirname "$0")/lib.sh"

broker partitions=8 brokers=3
produce --records 8000 --tenants 3 --streams 500 --seed "$SEED"
start_tallyd kafka.session_timeout=6s
wait_ready 8
records() { status_json | jq '[.partitions[].stats.records] | add'; }
wait_until records '^8000$'
spawn readers "$B/tests/reader-loop" --run-dir "$(run_dir)" --processes 2 --seed "$SEED"
READERS=$PID
wait_until http_address '[0-9]'
ready_code() { curl -s -o /dev/null -w '%{http_code}' --max-time 5 "http://$(http_address)/ready"; }
eventually 'it is ready' ready_code '^200$' 10
before=$(fields "$(facts)" partition generation pid)

# A moment: nobody notices.
short_outage 'ready_count >"$T/meanwhile.txt"'
is "$(cat "$T/meanwhile.txt")" 8 'within the lease, all goes on'
produce --records 800 --tenants 3 --streams 500 --seed "$SEED"
eventually 'after a second without brokers, reading goes on' records '^8800$'
is "$(fields "$(facts)" partition generation pid)" "$before" 'in the same processes'
is "$(status_json | jq .lost_events)" 0 'and nothing was lost'

# Three session timeouts.
down_at=$(now_ms)
broker_do down
read -r away _ </proc/uptime
away=${away/./}0000000	# CLOCK_BOOTTIME: nothing can have been heard of the brokers after that
leases=$(facts)
eventually 'answers stop when the lease is over' ready_count '^0$' 8
lease=$(fields "$leases"$'\n'"$(facts)" lease_until | sort -n | tail -n 1)
ok 'and it is over before the session is' test "$lease" -lt $((away + 6000000000))
is "$(ready_code)" 503 'the query process says not ready'
eventually 'the loss is noticed' 'status_json | jq .lost_events' '^1$' 10
eventually 'and all partitions are parked' 'fields "$(facts)" state | sort | uniq -c' '^ *8 parked$' 10
like "$(status_json | jq -r .group_state)" 'no_broker|lost' 'the status says why'
is "$(fields "$(facts)" partition generation)" "$(cut -d' ' -f1,2 <<<"$before")" 'every store is kept'
is "$(for pid in $(cut -d' ' -f3 <<<"$before"); do alive "$pid" && echo "$pid"; done)" '' 'the workers are gone'
until_true 30 eval '[ $(($(now_ms) - down_at)) -gt 18000 ]'
is "$(ready_count)" 0 'three session timeouts later nobody answers'
is "$(strangers)" '' 'nothing was made anew'

broker_do up
produce --records 800 --tenants 3 --streams 500 --seed $((SEED + 1))
wait_until ready_count '^8$' 45
pass 'when the brokers are back, all partitions are ready again'
is "$(fields "$(facts)" partition generation)" "$(cut -d' ' -f1,2 <<<"$before")" 'from the same stores'
eventually 'each record was counted once' records '^9600$'
ok 'and only the new ones were read' test "$(fields "$(facts)" replayed | sum)" -le 800
is "$(fields "$(facts)" start | sum)" 8800 'from where each store stood'
eventually 'it is ready' ready_code '^200$' 10
is "$(status_json | jq .lost_events)" 1 'it was lost once'
is "$(status_json | jq -r .group_state)" member 'and is a member again'
like "$(grep -h 'state=parked\|group.assign' "$T/a.log" | tail -n 3)" 'group.assign' 'the log tells of both'
sleep 7	# longer than the grace: what came back is not given up later
is "$(ready_count)" 8 'and it stays so'
same_as_oracle 'the stores hold what the log says'
readers_end
stop_tallyd
is $? 0 'it stops in order'
done_testing
