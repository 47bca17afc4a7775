# 50-http-answers.sh - HTTP says what the log holds, says when it cannot, and outlives its own death.
. "$(dirname "$0")/lib.sh"

http_status() { curl -sS -o /dev/null -w '%{http_code}' --max-time 10 "${@:2}" "http://$(http_address)$1"; }
query_pid() { http /api/v1/instance | jq .query_pid; }
metric() { http /metrics | sed -n "s/^$1 //p"; }

# Every page of a list, following `next`; prints field $2 of each element of list $3.
pages()
{
	local after= page
	while :; do
		page=$(http "$1?limit=7${after:+&after=$after}") || return
		jq -r ".$3[].$2" <<<"$page"
		after=$(jq -r '.next // empty | @uri' <<<"$page")
		[ -n "$after" ] || return 0
	done
}

broker partitions=4
produce --records 2000 --policies 2 --tenant-prefix 'team/'
start_tallyd query.metrics_tenants=3 query.metrics_names=loki
wait_ready 4
wait_until http_address '[0-9]'
wait_until 'http_status /ready' '^200$'

is "$(cat "$(run_dir)/query.http")" "$(http_address)" 'the address is in the run directory'
is "$(http /healthz | jq -r .status)" ok 'it is healthy'
is "$(http /api/v1/instance | jq -r '"\(.topic) \(.zone) \(.partitions) \(.owned) \(.ready) \(.alive)"')" \
	"$TOPIC a 4 4 4 true" 'the instance is described'
is "$(http /api/v1/partitions | jq -c '[.partitions[].state] | unique')" '["ready"]' 'all partitions are ready'
eventually 'their records add up' "http /api/v1/partitions | jq '[.partitions[].records] | add'" '^2000$'

# What is asked tenant by tenant is what the lists say.
pages /api/v1/tenants tenant tenants >"$T/tenants.txt"
isnt "$(wc -l <"$T/tenants.txt")" 0 'there are tenants'
is "$(LC_ALL=C sort -u "$T/tenants.txt" | diff - "$T/tenants.txt" && echo same)" same 'the pages are in order, and nobody is in two of them'
tenant=$(head -n 1 "$T/tenants.txt")
encoded=$(jq -rn --arg t "$tenant" '$t | @uri')
listed=$(http "/api/v1/tenants?limit=10000" | jq --arg t "$tenant" '.tenants[] | select(.tenant == $t) | .streams')
is "$(http "/ingest-limits/usage/$encoded" | jq .streams_total)" "$listed" "usage in Loki's shape agrees"
is "$(http "/ingest-limits/usage/$encoded" | jq '[.streams_by_policy[]] | add')" "$listed" 'and its policies add up'
is "$(http "/api/v1/tenants/$encoded" | jq '.streams, ([.histogram.streams[]] | add)' | uniq)" "$listed" 'so do the minutes'
is "$(pages "/api/v1/tenants/$encoded/streams" hash streams | sort -u | wc -l)" "$listed" 'and the streams themselves'
is "$(http "/api/v1/tenants/$encoded" | jq -c .basis)" \
	'{"partitions":4,"owned":4,"answered":4,"partial":0,"complete":true,"stale":false}' 'the answer says what it stands on'
is "$(http '/ingest-limits/usage/no%2Fbody' | jq -c '[.tenant, .streams_total, .complete]')" '["no/body",0,true]' \
	'an unknown tenant has nothing'

is "$(http_status '/api/v1/tenants?limit=abc')" 400 'a bad parameter is refused'
like "$(http '/api/v1/tenants?limit=abc')" 'limit.*1 to 10000' 'and is named with its range'
is "$(http_status /healthz -X POST)" 405 'only GET and HEAD are taken'
is "$(http_status /nothing)" 404 'other paths are not there'

# Metrics.
is "$(metric tally_up)" 1 'metrics: it is up'
is "$(metric 'loki_ingest_limits_partitions{partition="2"}')" 3 "metrics: Loki's number for ready"
is "$(metric loki_ingest_limits_records_fetched_total)" 2000 'metrics: all records'
like "$(http /metrics | grep -c '^tally_tenant_active_streams{')" '^[123]$' 'metrics: no more tenants than configured'

# A worker that dies says so, and costs nobody else a thing.
kill -KILL "$(pid_of 1)"
eventually 'the death is shown' "http /api/v1/partitions/1 | jq -r .death_detail" SIGKILL
eventually 'and it comes back' 'http_status /ready' '^200$'
is "$(http "/ingest-limits/usage/$encoded" | jq .streams_total)" "$listed" 'with the same numbers'
history() { http /api/v1/partitions/1 | jq -r '.history[] | [.from, .to, .why, .death_detail] | join(" ")'; }
is "$(history | head -1)" 'free pending assigned ' 'its history begins with the assignment'
is "$(history | grep -c 'ready pending exited SIGKILL')" 1 'has the death'
like "$(history | tail -1)" '^(pending|replaying) ready ready $' 'and its return'

# A query process that dies is started again.
before=$(query_pid)
kill -KILL "$before"
eventually 'the query process comes back' 'query_pid' "^[0-9]+\$"
isnt "$(query_pid)" "$before" 'as another process'
eventually 'with the same numbers' "http '/ingest-limits/usage/$encoded' | jq .streams_total" "^$listed\$"

# A frozen supervisor: its leases end, and nothing is answered any more.
kill -STOP "${TALLYD[a]}"
eventually 'a frozen supervisor makes it not ready' 'http_status /ready' '^503$'
eventually 'and no tenant is answered' "http_status '/ingest-limits/usage/$encoded'" '^503$'
is "$(http_status /healthz)" 200 'while it is healthy'
kill -CONT "${TALLYD[a]}"
eventually 'it answers again when that is over' "http '/ingest-limits/usage/$encoded' | jq .streams_total" "^$listed\$" 60

last=$(query_pid)
stop_tallyd
ok 'it is gone with its supervisor' gone "$last"

start_tallyd
wait_ready 4
like "$(history | tr '\n' ,)" 'ready pending exited SIGKILL,.*ready stopped exited ,free pending assigned ,.*ready ready ,$' \
	'what was before a restart is still known'
stop_tallyd
done_testing
