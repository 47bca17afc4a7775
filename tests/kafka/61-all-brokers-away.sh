# 61-all-brokers-away.sh - no broker for longer than the session, in the ways that tests/system/32 leaves
# out: tallyd itself starts anew meanwhile, they come back one at a time, or they are frozen, so that
# connections are there and answers are not.
. "$(dirname "$0")/lib.sh"

broker partitions=8 brokers=3
produce --records 8000 --tenants 3 --streams 500 --seed "$SEED"
start_tallyd kafka.session_timeout=6s
wait_ready 8
records() { fields "$(facts)" records | sum; }
generations() { fields "$(facts)" partition generation; }
stores() { (cd "$(run_dir)" && ls -d p* | tr '\n' ' '); }
states() { fields "$(facts)" state | sort | uniq -c | tr -s ' '; }
group_state() { status_json | jq -r .group_state; }
freeze() { kill -"$1" "${KAFKA_PID[@]}"; }
wait_until records '^8000$'
spawn readers nice -n 19 "$B/tests/reader-loop" --run-dir "$(run_dir)" --seed "$SEED"
READERS=$PID
before=$(generations) dirs=$(stores)

# same_again NAME RECORDS READ: all are ready again from the same stores, which have read but READ records.
same_again()
{
	is "$(generations)" "$before" "$1: in the same stores"
	eventually "$1: each record is counted once" records "^$2\$"
	ok "$1: no more than $3 records were read" test "$(fields "$(facts)" replayed | sum)" -le "$3"
	is "$(fields "$(facts)" start | sum)" $(($2 - $3)) "$1: from where each store stood"
	is "$(status_json | jq '[.partitions[].stats.gaps] | add') $(grep -c worker.rebuild "$T/a.log")" '0 0' "$1: no gap, nothing made anew"
	same_as_oracle "$1: the stores hold what the log says"
}

# All of them die; then tallyd does, too, and starts while nobody is there.
down_at=$(now_ms)
broker_do down
eventually 'without brokers the partitions are parked' states '^ 8 parked$' 20
kill_tallyd
start_tallyd
eventually 'a new tallyd waits for a broker' group_state '^no_broker$' 20
until_true 30 eval '[ $(($(now_ms) - down_at)) -gt 9000 ]'
is "$(ready_count) $(owned_count)" '0 0' 'longer than a session later it owns nothing, and answers nothing'
is "$(stores)" "$dirs" 'every store waits'
like "$(grep 'topic.waiting' "$T/a.log" | tail -n 1)" 'reason=no_broker.*127.0.0.1:' 'the log says what it waits for'
ok 'it is alive' alive "${TALLYD[a]}"

# One by one: one of three can decide nothing, with two some partitions may have a leader or none.
start_broker 1
until_true 30 eval "(exec 3<>/dev/tcp/127.0.0.1/${CONTROLLERS[1]})" || die "broker 1 did not come up"
is "$(ready_count) $(stores)" "0 $dirs" 'with one broker of three the stores wait'
start_broker 2
wait_broker 2
note "with two brokers of three: $(group_state), $(ready_count) ready"
is "$(stores)" "$dirs" 'with two of three every store is still there'
start_broker 3
wait_broker 3
up_at=$(now_ms)
produce --records 800 --tenants 3 --streams 500 --seed $((SEED + 1))
wait_until ready_count '^8$' 45
note "ready $(($(now_ms) - up_at)) ms after the third answered"
pass 'with three all partitions are ready'
same_again 'after a start without brokers' 8800 800
pids=$(fields "$(facts)" pid)

# Frozen: what is sent to them is taken by the kernel, and nobody answers.
lost=$(status_json | jq .lost_events)
frozen_at=$(now_ms)
freeze STOP
eventually 'frozen brokers are noticed: answers stop' ready_count '^0$' 10
eventually 'and all partitions are parked' states '^ 8 parked$' 15
is "$(status_json | jq .lost_events)" $((lost + 1)) 'the loss is counted'
# The session, a grace that must not have begun, and one second more.
until_true 30 eval '[ $(($(now_ms) - frozen_at)) -gt 13000 ]'
is "$(generations)" "$before" 'longer than a session later every store is kept'
is "$(for pid in $pids; do alive "$pid" && echo "$pid"; done)" '' 'and no worker runs'
thaw_at=$(now_ms)
freeze CONT
wait_until ready_count '^8$' 60
note "ready $(($(now_ms) - thaw_at)) ms after the thaw"
same_again 'after the thaw' 8800 0
is "$(group_state) $(status_json | jq .lost_events)" "member $((lost + 1))" 'it was lost once, and is a member again'

# A start against frozen ones.
frozen_at=$(now_ms)
freeze STOP
kill_tallyd
start_tallyd
eventually 'a start against frozen brokers: it waits for one that answers' group_state '^no_broker$' 20
until_true 30 eval '[ $(($(now_ms) - frozen_at)) -gt 7000 ]'
is "$(ready_count) $(stores)" "0 $dirs" 'a start against frozen brokers: the stores wait'
freeze CONT
produce --records 800 --tenants 3 --streams 500 --seed $((SEED + 2))
wait_until ready_count '^8$' 60
same_again 'after a start against frozen brokers' 9600 800
sleep 6.5	# longer than the grace: what came back is not given up later
is "$(ready_count) $(generations)" "8 $before" 'and it stays so'

readers_end
stop_tallyd
is $? 0 'it stops in order'
done_testing
