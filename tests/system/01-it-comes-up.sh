# 01-it-comes-up.sh - eight partitions become ready, are shown, and are gone after a stop.
. "$(dirname "$0")/lib.sh"

broker partitions=8
produce --records 800
start_tallyd
wait_ready 8

is "$(ready_count)" 8 'all eight partitions are ready'
is "$(status_json | jq '[.partitions[].pid] | unique | length')" 8 'each has a worker of its own'
like "$(ctl status)" 'ready' 'the status is printed for people'
is "$(status_json | jq '[.partitions[].stats.records] | add')" 800 'every record was read once'
is "$(status_json | jq '[.partitions[].stats.lag] | add')" 0 'nothing is left to read'
same_as_oracle 'the stores hold what the log says'

# Nothing that a worker or the supervisor must not have.
worker=$(pid_of 0)
supervisor=${TALLYD[a]}
unlike "$(tr '\0' ' ' <"/proc/$worker/cmdline")" "$BROKERS|$T" 'a worker is told nothing in its arguments'
unlike "$(cat "/proc/$supervisor/maps")" 'data\.mdb|liblmdb' 'the supervisor has no store open and no LMDB'
is "$(stat -c %a "$(run_dir)")" 2750 'the run directory is closed to others'

# Records that come later are counted too.
produce --records 200
eventually 'records that come later are read' "status_json | jq '[.partitions[].stats.records] | add'" '^1000$'

# HTTP speaks of the same.
wait_until http_address '[0-9]'
is "$(http /healthz | jq -r .status)" ok 'the query process is healthy'
eventually 'and says ready' "curl -s -o /dev/null -w '%{http_code}' http://$(http_address)/ready" '^200$'

# A second supervisor is refused.
"$B/tallyd" -c "$T/a.yaml" >"$T/second.txt" 2>&1
is $? 2 'a second supervisor in the same directory is refused'
like "$(cat "$T/second.txt")" "$(run_dir)" 'and is told which directory'

# The stop is orderly and complete.
query=$(status_json | jq .query_pid)
stop_tallyd
is $? 0 'tallyd stops with exit code 0'
ok 'its workers are gone' gone "$worker"
ok 'its query process is gone' gone "$query"
is "$(holders | grep -vxF "$(printf '%s\n' "${BROKER_PIDS[@]}")")" '' 'nobody has a file of the run directory open'
is "$(state_of 0)" stopped 'the table says stopped'
like "$(ctl status 2>&1)" 'stopped' 'tallyctl answers all the same, and says so'
same_as_oracle 'the stores still hold what the log says'

# And up again: adopted, not replayed.
start_tallyd
wait_ready 8
is "$(status_json | jq '[.partitions[].stats.records] | add')" 1000 'the next start counts nothing twice'
done_testing
