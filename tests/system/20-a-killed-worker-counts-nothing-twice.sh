# 20-a-killed-worker-counts-nothing-twice.sh - 200 workers and 20 query processes are killed while
# records flow: every store says what the log says, and nobody else notices.
. "$(dirname "$0")/lib.sh"

KILLS=${KILLS:-200}
QUERY_EVERY=${QUERY_EVERY:-10}
HERE=00000000000000000000000000000001
THERE=ffffffffffffffffffffffffffffffff

broker partitions=8
produce --records 20000 --seed "$SEED" --tenants 5 --policies 2 --streams 2000 --spread 100m
# The query process must not wait for a minute after the tenth time; workers start over by themselves.
start_tallyd supervisor.restart_max=1s
wait_ready 8
before=$(slots)

# Records of two other stores, numbered and some of them sent twice, among records without a number.
# A fetch from the embedded broker brings one batch: they should not be of one record each.
flow() { load_start --linger 200 --tenants 5 --policies 2 --streams 2000 --popularity zipf:1.05 "$@"; }
flow_here() { flow --seed $((SEED + 1)) --rate 300 --source $HERE --broken duplicate=1000,undecodable=200,too_old=200; }
flow_there() { flow --seed $((SEED + 2)) --rate 300 --zone zone-b --source $THERE --broken duplicate=1000; }
end_flow() { end "$1" || fail "tally-load ended with exit code $?" "$(tail -n 5 "$T/load.log")"; }
flow --seed "$SEED" --rate 600; all=$PID
flow_here; here=$PID
flow_there; there=$PID

# Sets POD[partition] and GENERATION[partition] to what the table says.
declare -a POD GENERATION
look()
{
	local p pid generation rest
	while read -r p pid generation rest; do POD[p]=$pid GENERATION[p]=$generation; done < <(slots)
}

# kill_one PARTITION: and until it has a successor.  What the others are must not change meanwhile.
kill_one()
{
	local victim=$1 p was=("${POD[@]}") generations="${GENERATION[*]}" end=$((SECONDS + 20))
	kill -KILL "${POD[victim]}" || return
	until [ "${POD[victim]}" != 0 ] && [ "${POD[victim]}" != "${was[victim]}" ]; do
		[ $SECONDS -lt $end ] || die "partition $victim has no worker after 20 s"
		look
	done
	killed=$((killed + 1))
	for p in "${!POD[@]}"; do
		[ "$p" = "$victim" ] || [ "${POD[p]}" = "${was[p]}" ] || disturbed="$disturbed $victim:$p"
	done
	[ "${GENERATION[*]}" = "$generations" ] || disturbed="$disturbed $victim:generation"
}

query_pid() { status_json | jq .query_pid; }
query_answers()
{
	local pid
	pid=$(query_pid)
	[ "$pid" != 0 ] && [ "$pid" != "$old_query" ] &&
		[ "$(http '/api/v1/tenants/tenant-0' 2>/dev/null | jq -r .tenant)" = tenant-0 ]
}
kill_query()
{
	wait_until query_answers '' 30
	old_query=$(query_pid)
	kill -KILL "$old_query" && queries=$((queries + 1))
}

killed=0 queries=0 old_query=0 disturbed='' again=
look
started=$SECONDS
while [ $killed -lt "$KILLS" ]; do
	victim=$((RANDOM % 8)) pause=$((RANDOM % 4))
	# Now and then it is left alone until it is ready again; else it dies wherever it is just now.
	[ "$pause" != 3 ] || wait_until "state_of $victim" '^ready$' 60
	[ "$pause" != 2 ] || sleep "0.$(printf %03d $((RANDOM % 200)))"
	look
	[ "${POD[victim]}" = 0 ] || kill_one "$victim"
	[ $((killed % QUERY_EVERY)) != 0 ] || [ $queries -ge $((killed / QUERY_EVERY)) ] || kill_query
	# Half way one of the producers begins again at its first number: all of that has been counted.
	[ -z "$again" ] && [ $killed -ge $((KILLS / 2)) ] && { again=1; end_flow $here; flow_here; here=$PID; }
done
note "$killed workers and $queries query processes killed in $((SECONDS - started)) s"
is $killed "$KILLS" 'so many workers were killed'
is "$disturbed" '' 'no other partition had another worker or generation after a kill'
is $queries $((KILLS / QUERY_EVERY)) 'and so many query processes'
eventually 'the query process answers again' query_answers

for pid in $all $here $there; do end_flow "$pid"; done
eventually 'all are ready again' ready_count '^8$' 60
eventually 'all has been read' "status_json | jq '[.partitions[].stats.lag] | add'" '^0$' 60
same_as_oracle 'every store holds what the log says: nothing lost, nothing twice'
is "$(grep -c '^skipped . duplicate [1-9][0-9][0-9]' "$T/oracle.txt")" 8 'duplicates were among it'

is "$(slots | awk '{ print $1, $3 }')" "$(awk '{ print $1, $3 }' <<<"$before")" 'each partition has the generation it began with'
is "$(status_json | jq '[.partitions[].restarts] | add')" "$KILLS" 'as many restarts as kills'
is "$(status_json | jq -c '[.partitions[].death.detail | select(. != "")] | unique')" '["SIGKILL"]' 'nobody died of anything else'
is "$(status_json | jq '[.partitions[] | .quarantine_listed + .stats.quarantined] | add')" 0 'nothing was quarantined'
is "$(status_json | jq .query_restarts)" "$queries" 'the query process was restarted as often as it was killed'
stop_tallyd
is $? 0 'tallyd stops in order'
same_as_oracle 'and the stores stay right'
done_testing
