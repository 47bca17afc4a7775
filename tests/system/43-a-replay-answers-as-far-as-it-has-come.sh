# 43-a-replay-answers-as-far-as-it-has-come.sh - while a partition is counted for the first time, lists and
# counts have what it has so far, say so, and say up to when; nobody lets streams in there; then all is as ever.
# broker: embedded (it hands out one batch a fetch: many small ones make a replay slow)
. "$(dirname "$0")/ask.sh"

broker partitions=2
produce --partition 1 --records 500 --tenants 1 --streams 50 --out "$T/1.tsv"
produce --partition 0 --records 2000 --tenants 1 --streams 5000 --popularity each --linger 0 --rate 500 --spread 90m --out "$T/0.tsv"
sort -n -k2,2 "$T/0.tsv" >"$T/log.txt"

next() { part 0 stats.next_offset; }
# What its store has, which may be a batch more than stats say when it is stopped between the two.
stored() { "$B/tests/store-dump" --run-dir "$T/a" --no-streams | awk '$1 == "partition" && $2 == 0 { print $4 }'; }
# It stands still where it is, between two commits: the supervisor's lease goes on.
stop_halfway()
{
	local pid end=$((SECONDS + 20)) next
	until next=$(next) && [ "${next:--1}" -gt 100 ] 2>/dev/null; do
		[ $SECONDS -lt $end ] || return 1
	done
	pid=$(part 0 pid)
	while kill -STOP "$pid" && [ "$(next)" != "$(stored)" ]; do
		kill -CONT "$pid"
		sleep 0.01
	done
	[ "$(state_of 0)" = replaying ]
}

start_tallyd a replay.batch=200 supervisor.hang_timeout=120s
ok 'a replay is caught halfway' stop_halfway
stopped=$(part 0 pid) next=$(next)
like "$(awk -v n="$next" 'BEGIN { print (n > 100 && n < 2000) }')" 1 "it has counted $next of 2000 records"
eventually 'the other partition is ready' 'state_of 1' '^ready$'
wait_until http_address '[0-9]'

streams() { { awk -v n="$1" '$1 == 0 && $2 < n { print $5 }' "$T/log.txt"; awk '{ print $5 }' "$T/1.tsv"; } | sort -u | wc -l; }
stamp() { awk -v n="$1" '$2 == n - 1 { print $3 }' "$T/log.txt"; }
all=$(streams 2000)

tenant=/api/v1/tenants/tenant-0
is "$(http $tenant | jq -c .basis)" \
	"{\"partitions\":2,\"owned\":2,\"answered\":1,\"partial\":1,\"counted_to_ms\":$(stamp "$next"),\"complete\":false,\"stale\":false}" \
	'an answer says what it stands on, and up to when'
is "$(http $tenant | jq .streams)" "$(streams "$next")" 'it has the streams of the log so far'
is "$(http /ingest-limits/usage/tenant-0 | jq -c '[.streams_total, .complete, .partitions.partial]')" "[$(streams "$next"),false,1]" \
	"so has Loki's"
is "$(http "$tenant/streams?limit=10000" | jq '.streams | length')" "$(streams "$next")" 'so has the list of streams'
is "$(http '/api/v1/tenants?limit=10' | jq -c '[.tenants[0].streams, .basis.partial]')" "[$(streams "$next"),1]" 'so has the list of tenants'
is "$(ctl tenant tenant-0 >"$T/tenant.txt"; echo $?)" 1 'tallyctl: not all of it is there'
like "$(cat "$T/tenant.txt")" 'NOT COMPLETE: 1 of 2 partitions answered.*1 more is behind: what was counted there so far, up to 20[0-9-]+ [0-9:]+Z, is in it' \
	'tallyctl: and how much is'

# What is there is there; what is not may be yet to come.
seen=$(awk -v n="$next" '$2 == n - 1 { print $5 }' "$T/log.txt")
coming=$(awk '$2 == 1999 { print $5 }' "$T/log.txt")
ok 'a stream that was counted is shown' ctl stream tenant-0 "$seen"
is "$(ctl stream tenant-0 "$coming" >/dev/null 2>"$T/err.txt"; echo $?)" 1 'one that was not is not called absent'
like "$(cat "$T/err.txt")" 'partition 0, which cannot answer' 'but its partition is named'
is "$(curl -sS --max-time 10 "http://$(http_address)/api/v1/check" -H 'Content-Type: application/json' -d "{\"tenant\":\"tenant-0\",\"streams\":[{\"streamHash\":\"$seen\"}]}" |
	jq -r '.results[0].result')" not_ready 'nobody lets it in meanwhile'

kill -CONT "$stopped"
wait_ready 2 100
eventually 'then answers are whole' "http $tenant | jq -c '[.streams, .basis.complete, .basis.partial, .basis.counted_to_ms]'" \
	"^\\[$all,true,0,null\\]\$"
is "$(ctl tenant tenant-0 >"$T/tenant.txt"; echo $?)" 0 'tallyctl: all of it is there'
same_as_oracle 'and the store is what the log says'
stop_tallyd a
done_testing
