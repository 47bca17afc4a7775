# 44-partitions-added-while-running.sh - the topic gets more partitions, and fewer, while it is served:
# with kafka.partitions 0 all of them are served by the new number, with a fixed one the new ones are
# refused for all to see, from the start too; streams are counted where hash % N says, and nowhere else.
. "$(dirname "$0")/lib.sh"

# grow N: and records for all of them, by the new number.
grow()
{
	kafka_do grow "$TOPIC" "$1" >>"$T/load.log" 2>&1 || die "kafka-do grow $1"
	PARTITIONS=$1
}
fill() { produce --records "$1" --tenants 3 --streams 500 --seed $((SEED + $1)) "${@:2}"; }
lag() { local i; for i in $1; do INSTANCE=$i status_json; done | jq -s '[.[].partitions[].stats.lag] | add'; }
all_read() { [ "$(lag "$*")" = 0 ]; }
generations() { local i; for i in "$@"; do fields "$(facts "$i")" partition generation; done | sort; }
# Of the supervisor that runs now: the table of one before may still be there.
here() { status_json | jq -e ".supervisor_pid == ${TALLYD[$INSTANCE]}" >/dev/null && "$@"; }
served() { status_json | jq -r '"\(.topic_partitions) \(.served_partitions)"'; }

# How soon the group hears of it is the group's affair; ours is what we do then.
OFTEN=kafka.properties.topic.metadata.refresh.interval.ms=1000
broker partitions=4
fill 2000
start_tallyd a $OFTEN
wait_ready 4
spawn readers "$B/tests/reader-loop" --run-dir "$(run_dir)" --processes 2 --seed "$SEED"
READERS=$PID

# --- the number is followed, by one

before=$(generations a)
grow 6
fill 3000
wait_until served '^6 6$' 30
wait_ready 6 60
wait_until 'all_read a'
same_as_oracle 'after growth to 6 all of them hold what the log says by the new number'
is "$(comm -12 <(echo "$before") <(generations a))" '' 'every store was made anew'
for p in 4 5; do isnt "$(fact $p records)" 0 "partition $p, a new one, is read"; done
is "$(grep -c 'partition.state.*state=failed' "$T/a.log")" 0 'none was called failed meanwhile'
eventually 'nothing is left of the old ones' strangers '^$' 5
end "$READERS"
is $? 0 'no reader got an answer from a store that its table had left'

# --- by two, of which one hears of it seldom

start_tallyd b kafka.properties.topic.metadata.refresh.interval.ms=600000
until_true 60 eval "INSTANCE=b ready_count | grep -q '^3$' && INSTANCE=a ready_count | grep -q '^3$'" ||
	die 'the two do not share' "$(ctl status)"
grow 9
fill 4000
both_have_all() { [ "$(ready_in_all 'a b')" = 9 ] && [ "$(INSTANCE=a served) $(INSTANCE=b served)" = '9 9 9 9' ]; }
wait_until both_have_all '' 60
wait_until 'all_read a b'
for i in a b; do INSTANCE=$i same_as_oracle "after growth to 9, with two members, $i holds what the log says"; done
is "$(generations a b | cut -d' ' -f1 | tr '\n' ' ')" '0 1 2 3 4 5 6 7 8 ' 'each is served once'
for i in a b; do is "$(grep -c 'partition.state.*state=failed' "$T/$i.log")" 0 "none was called failed by $i"; done
for i in a b; do
	is "$(INSTANCE=$i status_json | jq '[.partitions[].restarts] | add')" 0 "a store that $i makes anew is no restart"
done
for i in a b; do stop_tallyd "$i"; is $? 0 "$i stops in order"; done

# --- the number is fixed

start_tallyd c $OFTEN kafka.partitions=9
wait_ready 9 60
before=$(generations c)
grow 12
eventually 'a fixed number: what the topic has is seen, what is served stays' served '^12 9$' 30
refused() { grep -c ' partition.unserved' "$T/c.log"; }
wait_until refused '^3$' 30	# the group has assigned them to us
PARTITIONS=9
fill 5000 --partitions 9
wait_until 'all_read c'
is "$(comm -12 <(echo "$before") <(generations c))" "$before" 'no store was touched'
is "$(fields "$(facts c)" partition state | awk '$1 > 8 { print $2 }' | sort -u)" failed 'the new ones are called failed'
is "$(grep -c 'error topic.partitions_refused' "$T/c.log")" 1 'one line of the log says so'
like "$(grep 'error topic.partitions_refused' "$T/c.log")" 'has=12 served=9 action=' '... and what to do'
like "$(ctl status)" 'topic has 12 partitions, 9 are served \(kafka.partitions\)' 'the status says so'
like "$(http /metrics)" 'tally_topic_partitions 12' 'and the metrics do'
like "$(http /metrics)" 'tally_topic_partitions_served 9' '... both numbers'
like "$(http /api/v1/partitions/9)" "no partition 9: this Tally serves 9 of the topic's 12 partitions" 'the API tells those from ones that nobody has'
is "$(status_json | jq .ready)" 9 'what is served is ready'
same_as_oracle 'and holds what producers wrote by the fixed number'
before=$(generations c)
stop_tallyd
is $? 0 'it stops in order'
start_tallyd c
wait_until 'here served' '^12 9$' 40
wait_until ready_count '^9$' 40
wait_until refused '^6$' 30
is "$(served)" '12 9' 'a restart is not refused for it: routing by nine, the rest refused, from the start'
nine() { awk '$1 < 9'; }
is "$(generations c | nine)" "$(echo "$before" | nine)" 'the same nine stores are served'
same_as_oracle 'with what they held'
is "$(grep -c 'topic.partitions_changed' "$T/c.log")" 0 'it never routed by another number'
stop_tallyd

# --- fewer, of a topic that was made again

PARTITIONS=12
start_tallyd d $OFTEN
wait_ready 12 60
kafka_do delete "$TOPIC" >>"$T/load.log" 2>&1 || die 'kafka-do delete'
PARTITIONS=5
make_topic "$TOPIC" 5 >>"$T/load.log" 2>&1
fill 2500
eventually 'a topic that was made again with fewer partitions: the new number is served' served '^5 5$' 60
wait_ready 5 60
is "$(status_json | jq -c '[.partitions[].partition]')" '[0,1,2,3,4]' 'by those that there are'
wait_until 'all_read d'
same_as_oracle 'they hold what the new log says'
is "$(status_json | jq '[.partitions[].stats.records] | add')" 2500 'all of it, and nothing else'
stop_tallyd
is $? 0 'it stops in order'

# --- fewer than a fixed number, and as many again

start_tallyd g $OFTEN kafka.partitions=5
wait_ready 5 60
before=$(generations g)
kafka_do delete "$TOPIC" >>"$T/load.log" 2>&1 || die 'kafka-do delete'
make_topic "$TOPIC" 3 >>"$T/load.log" 2>&1
eventually 'made again with fewer than a fixed number: routing stays' served '^3 5$' 60
wait_until ready_count '^3$' 60
is "$(status_json | jq -c '[.partitions[] | select(.ready).partition]')" '[0,1,2]' 'those that there are are ready'
missing() { status_json | jq -c '[.partitions[] | select(.partition > 2).state] | unique'; }
eventually 'the others are called failed' missing '^\["failed"\]$' 30
like "$(ctl status)" 'topic has 3 partitions, 5 are routed \(kafka.partitions\): 2 are missing' 'the status says so'
like "$(ctl status)" '2 of 5 not ready: p3 failed \(the topic does not have it\)' '... in its last line, too'
is "$(http /api/v1/partitions | jq -c '.basis | del(.stale)')" '{"partitions":5,"owned":5,"answered":3,"complete":false}' 'no answer is complete'
like "$(http /ready)" 'the topic has 3' 'nor is the instance ready'
is "$(grep -c 'error topic.partitions_missing' "$T/g.log")" 1 'one line of the log says so'
grow 5
fill 2600
eventually 'with as many again all are served' 'fields "$(facts)" records | sum' '^2600$' 60
wait_ready 5 60
same_as_oracle 'and hold what the new log says'
is "$(comm -12 <(echo "$before") <(generations g))" '' 'by new stores'
stop_tallyd
is $? 0 'it stops in order'

# --- more than one instance can name

make_topic "$TOPIC-big" 1030 >>"$T/load.log" 2>&1
start_tallyd e kafka.topic="$TOPIC-big"
wait "${TALLYD[e]}"
is $? 2 'more than 1024 partitions, all to be served: it ends'
like "$(grep 'error topic.too_many_partitions' "$T/e.log")" 'has=1030 most=1024 action=.*set kafka.partitions' '... and says what to do'
unset 'TALLYD[e]'
start_tallyd f kafka.topic="$TOPIC-big" kafka.partitions=2
eventually 'with a fixed number within 1024 it serves those' 'here served' '^1030 2$' 40
eventually '... all of them' ready_count '^2$' 60
stop_tallyd
is $? 0 'it stops in order'
done_testing
