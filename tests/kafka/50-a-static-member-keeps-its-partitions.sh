# 50-a-static-member-keeps-its-partitions.sh - with kafka.group_instance_id a restart within the session
# timeout moves nothing and reads only the tail; two processes of one name do not fight.
. "$(dirname "$0")/lib.sh"

broker partitions=8
produce --records 8000 --tenants 3 --streams 500 --seed "$SEED"
SESSION=kafka.session_timeout=12s
start_tallyd a kafka.group_instance_id=one $SESSION
start_tallyd b kafka.group_instance_id=two $SESSION
shared() { [ "$(ready_in_all 'a b')" = 8 ] && [ "$(INSTANCE=a ready_count)" = 4 ] && [ "$(INSTANCE=b ready_count)" = 4 ]; }
wait_until shared '' 60
pass 'two static members share the partitions'
records() { fields "$(facts a; facts b)" records | sum; }
wait_until records '^8000$'

a_before=$(fields "$(facts a)" partition generation) b_before=$(fields "$(facts b)" partition generation pid)
rebalances=$(INSTANCE=b status_json | jq .rebalances)
stop_tallyd a
is $? 0 'a stops in order'
produce --records 800 --tenants 3 --streams 500 --seed "$SEED"
is "$(fields "$(facts b)" partition generation pid)" "$b_before" 'meanwhile b keeps what it has, and gets no more'
started_at=$(now_ms)
start_tallyd a
wait_until 'INSTANCE=a ready_count' '^4$' 12
note "ready $(($(now_ms) - started_at)) ms after the start"
is "$(fields "$(facts a)" partition generation)" "$a_before" 'a has the same partitions again, in the same stores'
eventually 'each record was counted once' records '^8800$'
ok 'a has read only the tail' test "$(fields "$(facts a)" replayed | sum)" -le 800
is "$(fields "$(facts b)" partition generation pid)" "$b_before" 'b was not touched'
is "$(INSTANCE=b status_json | jq .rebalances)" "$rebalances" 'and heard of no rebalance'
INSTANCE=a same_as_oracle 'a holds what the log says'
INSTANCE=b same_as_oracle 'b holds what the log says'

# A crash of the supervisor: the same.
kill_tallyd a
start_tallyd a
wait_until 'INSTANCE=a ready_count' '^4$' 12
is "$(fields "$(facts a)" partition generation)" "$a_before" 'after SIGKILL, too, a has the same partitions in the same stores'
is "$(fields "$(facts b)" partition generation pid)" "$b_before" 'and b was not touched'

# A second process of the same name: the group fences the first, which gives in.
theirs=$(fields "$(facts a)" partition)
workers=$(fields "$(facts a)" pid)
A=${TALLYD[a]}
start_tallyd c kafka.group_instance_id=one $SESSION
until_true 30 gone "$A" || die 'the first process of that name goes on'
wait "$A"
is $? 3 'the first process of a name that comes twice ends with exit code 3'
unset 'TALLYD[a]'
is "$(grep -c 'error group.fatal' "$T/a.log")" 1 'it says why in one line'
like "$(grep 'error group.fatal' "$T/a.log")" 'FENCED_INSTANCE_ID.*kafka.group_instance_id' '... and what to do'
for pid in $workers; do alive "$pid" && fail "its worker $pid is still there"; done
wait_until 'INSTANCE=c ready_count' '^4$' 30
is "$(fields "$(facts c)" partition)" "$theirs" 'the second one has its partitions'
is "$(INSTANCE=a ready_count)" 0 'no reader of the first gets an answer'
is "$(fields "$(facts b)" partition generation pid)" "$b_before" 'b was not touched'
INSTANCE=c same_as_oracle 'c holds what the log says'

# Away for longer than the session: its partitions move, and come back when it does.
stop_tallyd c
INSTANCE=b
eventually 'when it is away for longer, b takes over' ready_count '^8$' 30
same_as_oracle 'b holds what the log says'
stop_tallyd b
is $? 0 'b stops in order'
done_testing
