# 70-a-store-that-kills-is-built-anew.sh - pages of a ready store are overwritten.  LMDB has no checksums: who
# meets one that is no page any more dies of it.  A query process says which store killed it, and a worker
# too: after the second death of the one or the third of the other, at the latest, it is built anew from the
# log.  Who meets values that are others than they were sees that: no answer is a wrong one, and what nobody
# asks for, the worker finds by itself.  No record is blamed, and the other partitions answer all the time.
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}abort_on_error=1"	# else it would be an exit, which is no crash

broker partitions=3
load() { produce --records 3000 --tenants 300 --streams 600 --seed "$SEED" --spread 60m "$@"; }
load
start_tallyd a supervisor.restart_min=50ms
wait_ready 3

spoil() { "$B/tests/store-spoil" "$1" "$T/a/p$2.$(generation_of "$2")" "${@:3}"; }
# log_since: what the log has got since `mark`.
mark() { MARK=$(wc -l <"$T/a.log"); }
log_since() { tail -n +$((MARK + 1)) "$T/a.log"; }
usage() { http /api/v1/tenants/tenant-7 | jq -c '[.streams, .basis.answered]'; }
all_tenants() { http '/api/v1/tenants?limit=10000' | jq -c '[([.tenants[].streams] | add), .basis.answered]'; }
others() { slots | grep -v "^$1 " | cut -d' ' -f1-4; }
# given_up N GENERATION: it has another one by now.
given_up() { [[ $(generation_of "$1") =~ ^[1-9] && $(generation_of "$1") != "$2" ]]; }
right_again()
{
	wait_ready 3
	eventually 'answers are whole and right again' usage "^\\[${before%,*},3\\]\$"
	same_as_oracle 'the stores hold what the log says'
	is "$(status_json | jq '[.partitions[] | .quarantine_listed + .stats.quarantined] | add')" 0 'no record is blamed for it'
}
wait_until usage ',3\]$'
before=$(usage | tr -d '[]')
same_as_oracle 'the stores hold what the log says'

# --- the query process meets it first -------------------------------------------------------------

mark
generation=$(generation_of 1) rest=$(others 1) worker=$(pid_of 1)
kill -STOP "$worker"	# so that it meets nothing
ok 'pages with names of tenants are overwritten' test "$(spoil deadly 1 tenant-7)" -gt 0
eventually 'the store is built anew, although its worker has met nothing' "usage; given_up 1 $generation"
like "$(log_since | grep 'store.deadly')" "partition=1 generation=$generation kills=query" 'which is said'
is "$(log_since | grep -c 'store.blamed')" 2 'after the second death of a query process'
is "$(log_since | grep -c 'query.died')" 2 'and there is no third'
is "$(others 1)" "$rest" 'the other partitions did not notice'
right_again

# --- the worker meets it first --------------------------------------------------------------------

mark
generation=$(generation_of 2) rest=$(others 2)
ok 'pages with streams are overwritten' test "$(spoil leaves 2 b)" -gt 0
load --partition 2
eventually 'the store is built anew' "given_up 2 $generation"
like "$(log_since | grep 'store.deadly')" "partition=2 generation=$generation kills=worker" 'which is said'
# One is enough when the page is met while the store is opened.
like "$(log_since | grep -c 'worker.died partition=2')" '^[1-3]$' 'after the third death of its worker at the latest'
is "$(others 2)" "$rest" 'the other partitions did not notice'
wait_ready 3
before=$(usage | tr -d '[]')
right_again
is "$(log_since | grep -c 'store.blamed\|query.died')" 0 'no query process had to die for it'

# --- it kills nobody: who asks, sees it ------------------------------------------------------------

mark
wait_until all_tenants '^\[[1-9][0-9]*,3\]$'
generation=$(generation_of 0) rest=$(others 0) worker=$(pid_of 0) all=$(all_tenants)
kill -STOP "$worker"
ok 'bytes of rows are overwritten' test "$(spoil values 0 h)" -gt 0
: >"$T/answers"
eventually 'the store is built anew, because it was read' "all_tenants >>$T/answers; given_up 0 $generation"
is "$(grep ',3\]' "$T/answers" | grep -vcFx "$all")" 0 'no answer was whole and wrong'
is "$(log_since | grep -c 'query.died')" 0 'no query process had to die for it'
is "$(log_since | grep -c 'store.blamed')" 2 'who has read it has said so'
is "$(others 0)" "$rest" 'the other partitions did not notice'
right_again

# --- it kills nobody, and nobody asks ---------------------------------------------------------------

mark
one=$(generation_of 1) two=$(generation_of 2)
ok 'bytes of streams are overwritten' test "$(spoil values 1 b)" -gt 0
ok 'pages that list streams are overwritten, by such pages' test "$(spoil copies 2 b)" -gt 1
eventually 'the worker finds the one' "given_up 1 $one" '' 60
eventually 'the worker finds the other' "given_up 2 $two" '' 60
is "$(log_since | grep -c 'worker.rebuild reason=corrupt')" 2 'both have seen that the store contradicts itself'
right_again

# --- whatever is overwritten ----------------------------------------------------------------------

mark
for p in 0 1 2; do "$B/tests/store-spoil" random "$T/a/p$p.$(generation_of $p)" 200 $((SEED + p)); done
load
usage >/dev/null 2>&1
eventually 'whatever is overwritten, all is read again and counted' "status_json | jq '[.partitions[].stats.lag] | add'" '^0$' 40
wait_until usage ',3\]$'
before=$(usage | tr -d '[]')
right_again
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
