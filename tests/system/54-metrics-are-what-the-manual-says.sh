# 54-metrics-are-what-the-manual-says.sh - /metrics and its manual name the same metrics, Loki's when they are
# wanted; counters of partitions never fall: not when workers die, not when tallyd is killed or stopped.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"

MANUAL=etc/man/tally-metrics.7
documented() { sed -nE 's/^\.BR ((tally|loki)_[a-z_]+)( .*)?$/\1/p' <(sed -n '/^\.SH METRICS/,/^\.SH NOT GIVEN/p' "$MANUAL") | sort; }
shown() { http /metrics | sed -nE 's/^# TYPE ([a-z_]+) .*/\1/p' | sort; }
metric() { http /metrics | sed -n "s/^$1 //p"; }

# counters FILE: "series value" of all counters that workers and query processes have, but those of tallyd about them.
counters()
{
	http /metrics >"$1.all"
	awk '/^# TYPE .* counter$/ { counter[$3] = 1 } /^tally_/ { name = $1; sub(/\{.*/, "", name); if (name in counter) print }' "$1.all" |
		grep -v -E '^tally_(worker_restarts|query_restarts|process_|rebalances|lost|limits_refused)' | sort >"$1"
}
# fallen FILE FILE: series that are smaller in the second one, or are not there.
fallen() { join -j 1 -a 1 -e gone -o 0,1.2,2.2 "$1" "$2" | awk '$3 == "gone" || $3 < $2'; }
# never_fell NAME: since $T/before.txt; it is replaced.
never_fell()
{
	counters "$T/after.txt"
	is "$(fallen "$T/before.txt" "$T/after.txt")" '' "$1"
	mv "$T/after.txt" "$T/before.txt"
}
# Sum of one counter over its series.
total() { awk -v name="$2{" 'index($1, name) == 1 { s += $2 } END { printf "%.0f\n", s }' "$1"; }
between() { if [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then pass "$1"; else fail "$1" "got $2, not $3 to $4"; fi; }
traffic() { ask --tenant small --streams 9 --first "$1" --per-request 3 --seed "$SEED"; produce --records 500 --partitions 4 --seed "$1"; }
settled() { [ "$(status_json | jq '[.partitions[] | .stats | .outbox] | add')" = 0 ]; }
serving_again() { wait_ready 4 60; wait_until 'http /ready' '"ready":true'; wait_asked; }

"$B/tally-queryd" --print-metrics >"$T/manual.txt"
same "$MANUAL" "$T/manual.txt" 'the manual is what tally-queryd --print-metrics writes'

broker partitions=4
limits small=5
start_tallyd a limits.file="$T/limits.yaml" query.metrics_tenants=7
serving_again
documented >"$T/documented.txt"
ok 'the manual has metrics' test "$(wc -l <"$T/documented.txt")" -gt 100
shown >"$T/shown.txt"
grep -v ^loki_ "$T/documented.txt" >"$T/ours.txt"
same "$T/ours.txt" "$T/shown.txt" 'what is shown is what the manual has'

# However many tenants there are.
of_tenants() { http /metrics | grep -cE '^tally_tenant_(active_streams|window_bytes|bytes_per_second|policies)\{'; }
produce --records 200 --partitions 4 --tenants 20 --tenant-prefix few- --seed "$SEED"
wait_until of_tenants '^28$'
produce --records 2000 --partitions 4 --tenants 400 --tenant-prefix many- --seed "$SEED"
wait_until "http '/api/v1/tenants?limit=1000' | jq '.tenants | length > 300'" true
is "$(of_tenants)" 28 'of 400 tenants there are no more samples than of 20: query.metrics_tenants of each'

# Counters go on over the death of each worker.
traffic 1000
wait_until settled
counters "$T/before.txt"
ok 'streams were asked about' test "$(total "$T/before.txt" tally_streams_asked_new_total)" -ge 5
ok 'and records were written, as their confirmations say' test "$(total "$T/before.txt" tally_records_confirmed_total)" -ge 5
ok 'and commits were made' test "$(total "$T/before.txt" tally_commits_total)" -ge 5
for p in 0 1 2 3; do kill -KILL "$(pid_of $p)"; done
wait_until "http /metrics | grep -c '^tally_worker_restarts_total{.*} 1\$'" '^4$'
serving_again
never_fell 'no counter falls when the workers are killed'
asked=$(total "$T/before.txt" tally_streams_asked_new_total) commits=$(total "$T/before.txt" tally_commits_total)
limits_before=$(total "$T/before.txt" tally_records_total)
reload_limits small=10
traffic 2000
wait_until settled
never_fell 'nor afterwards'
ok 'they go on from where they were' test "$(total "$T/before.txt" tally_streams_asked_new_total)" -ge $((asked + 5))
ok 'those of the worker itself, too' test "$(total "$T/before.txt" tally_commits_total)" -gt "$commits"
ok 'and those of its store' test "$(total "$T/before.txt" tally_records_total)" -ge $((limits_before + 500))

# And over restarts of tallyd, which adopts the stores.
records=$(total "$T/before.txt" tally_records_total)
kill_tallyd
sed -i 's/^query:/query:\n  metrics_names: loki/' "$T/a.yaml"
start_tallyd
serving_again
never_fell 'no counter falls when tallyd is killed and adopts'
shown >"$T/shown.txt"
same "$T/documented.txt" "$T/shown.txt" "with query.metrics_names: loki those are there, too"
is "$(metric 'loki_ingest_limits_partitions{partition="2"}')" 3 "with Loki's number for ready"
between 'a counter of the query process goes on, and does not count twice what others have counted' \
	"$(metric loki_ingest_limits_records_fetched_total)" $((records / 2)) "$records"
before=$(metric loki_ingest_limits_records_fetched_total)
traffic 3000
eventually 'and then counts all' 'metric loki_ingest_limits_records_fetched_total' "^($(seq -s '|' $((before + 500)) $((before + 520))))\$"
is "$(metric loki_ingest_limits_lag_seconds_count | grep -c '^[1-9]')" 1 "Loki's histogram of the lag has observations"
wait_until settled
never_fell 'no counter falls in between'
stop_tallyd
is $? 0 'tallyd stops in order'
start_tallyd
serving_again
never_fell 'no counter falls when it is stopped and started'

is "$(metric tally_up)" 1 'it is up'

done_testing
