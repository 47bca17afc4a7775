# 10-replay-ends-where-the-log-does.sh - replay ends at the end of the log, whatever lies there: markers,
# aborted records, an open transaction, offsets that compaction took, nothing, or a producer in a hurry.
. "$(dirname "$0")/lib.sh"

# lines N [POLICY]: so many records of now, for put.
lines() { local i; for ((i = 0; i < $1; i++)); do echo "now tenant-$((i % 3)) auto 10 ${2:-}"; done; }
plain() { produce --partition "$1" --records "$2" --tenants 3 --streams 40 --seed "$SEED"; }

# open_transaction PARTITION FD N: of N records; what is written to FD ends it.
open_transaction()
{
	mkfifo "$T/open.$1"
	STDIN="$T/open.$1" spawn "open$1" "$B/tests/kafka-do" --brokers "$BROKERS" put "$TOPIC" "$1" --txn open
	eval "exec $2>'$T/open.$1'"
	{ lines "$3" open; echo; } >&"$2"
	wait_until "cat '$T/open$1.log'" '(^|
)open' 20
}
offset_of() { kafka_do offsets "$TOPIC" | sed -n "s/^partition=$1 .*$2=\([-0-9]*\).*/\1/p"; }

# ends P NAME START: replay began there, went to the end of what can be read, in no time, without a gap.
ends()
{
	is "$(fact "$1" start) $(fact "$1" target) $(fact "$1" next) $(fact "$1" gaps)" \
		"$3 $(offset_of "$1" stable) $(offset_of "$1" stable) 0" "$2: replayed from $3 to the end, without a gap"
	took=$(($(fact "$1" ready_at) - $(fact "$1" replay_started_at)))
	ok "and ready at once ($took ms)" test $took -lt 5000
}
records() { fields "$(facts)" partition records | tr '\n' ';'; }
generations() { fields "$(facts)" partition generation; }
# live_again PIDS: all are at the end, and none of them is one of these.
live_again()
{
	[ "$(fields "$(facts)" phase | sort | uniq -c | xargs)" = "$PARTITIONS live" ] &&
		[ -z "$(comm -12 <(fields "$(facts)" pid | sort) <(sort <<<"$1"))" ]
}

# Kafka's own consumer, which shares no line with ours: partition, offset and timestamp of each record.
java_lists()
{
	kafka_tool org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$BROKERS" --topic "$TOPIC" \
		--isolation-level read_committed --from-beginning --timeout-ms 10000 --formatter-property print.value=false \
		"--formatter-property=print."{timestamp,partition,offset}=true 2>"$T/java.log" |
		sed -nE 's/^(CreateTime|LogAppendTime|NoTimestampType):([-0-9]+).*Partition:([0-9]+).*Offset:([0-9]+).*/\3 \4 \2/p' | sort
}
we_list() { dump_log "$T/log.txt"; cut -f 1-3 "$T/log.txt" | tr '\t' ' ' | sort; }

broker partitions=8
plain 0 50; lines 50 | put 0 --txn commit
plain 1 50; lines 100 | put 1 --txn abort
plain 2 50; open_transaction 2 7 20; plain 2 10
plain 3 50; open_transaction 3 8 20; plain 3 10
for ((i = 100; i > 0; i--)); do echo "now-$((1800000 + i * 30000)) tenant-0 auto 10"; done | put 4
produce --partition 5 --records 1000000 --tenants 1 --streams 40
kafka_do delete-records "$TOPIC" 5 1000000 || die 'delete-records'
lines 16000 | put 6 --batch 200
lines 30 | put 7 --txn abort; lines 30 | put 7 --txn abort
is "$(offset_of 0 high) $(offset_of 1 high) $(offset_of 2 stable) $(offset_of 3 stable) $(offset_of 5 start) $(offset_of 7 high)" \
	'101 151 50 50 1000000 62' 'the log has markers, an open transaction, a far beginning'

load_start --partition 6 --rate 20000 --linger 200 --tenants 3 --streams 40 --seed "$SEED"
LOAD=$PID
wait_until 'test "$(offset_of 6 high)" -gt 18000'
start_tallyd a kafka.group_instance_id=one
wait_ready 8
ends 0 'a commit marker at the end' 0
ends 1 '100 aborted records and a marker at the end' 0
ends 2 'an open transaction at the end' 0
ends 3 'another one' 0
ends 4 'a quiet partition' 0
ends 5 'an empty partition whose log begins at 1,000,000' 1000000
ends 7 'nothing but aborted records' 0
is "$(fact 6 ready) $(fact 6 gaps)" '1 0' 'with a producer in a hurry it is ready all the same'
kill -KILL "$(pid_of 6)"
wait_until 'fact 6 restarts' '^1$'
next=$(fact 6 next)
eventually 'it goes on after the death of its worker' "test \"\$(fact 6 next)\" -gt $((next + 1000))"
ok 'while the producer does' alive $LOAD

# One batch at a time, so that it can be frozen in the middle.
start_tallyd u kafka.isolation=read_uncommitted kafka.group=uncommitted replay.batch=200 replay.queue=1 \
	kafka.properties.max.partition.fetch.bytes=1000
wait_until 'test "$(fact 6 next)" -gt 400'
kill -STOP "$(pid_of 6)"
target=$(fact 6 target)
like "$(fact 6 phase) $target" '^replaying [0-9]{5,}$' 'one that is frozen in the middle of its replay'
wait_until "test \"\$(offset_of 6 high)\" -gt $((target + 20000))"
kill -CONT "$(pid_of 6)"
wait_ready 8
is "$(fact 6 target)" "$target" 'has no more to read when it goes on'
end $LOAD
is "$(fact 1 next) $(fact 2 next) $(fact 3 next) $(fact 7 next)" '151 80 80 62' 'read_uncommitted goes to the very end'
is "$(fact 1 records) $(fact 2 records) $(fact 3 records) $(fact 7 records)" '150 80 80 60' 'and counts all that is there'
stop_tallyd
is $? 0 'it stops in order'

INSTANCE=a
wait_until 'fact 6 next' "^$(offset_of 6 stable)\$"
same_as_oracle 'the counts are those of the log'
is "$(fact 2 records) $(fact 3 records) $(fact 7 records)" '50 50 0' 'nothing of an open or aborted transaction is counted'
echo abort >&7; echo commit >&8; exec 7>&- 8>&-
eventually 'what was aborted is passed over' 'fact 2 next' '^81$'
eventually 'what was committed is counted' 'fact 3 next' '^81$'
is "$(fact 2 records) $(fact 3 records)" '60 80' 'once'
is "$(fact 2 gaps) $(fact 3 gaps)" '0 0' 'and that is no gap'
same_as_oracle 'the counts are those of the log'

before=$(records) generation=$(generations)
pids=$(fields "$(facts)" pid)
kill -KILL $pids
wait_until 'live_again "$pids"' '' 30
is "$(records)" "$before" 'workers that were killed count nothing twice'
eventually 'the end of a log without a record there is not read again' 'fact 1 start' '^151$'
is "$(fields "$(facts)" gaps | sum)" 0 'and is no gap'
same_as_oracle 'and hold what the log says'
kill_tallyd
start_tallyd
wait_ready 8
is "$(records)" "$before" 'after the death of the supervisor nothing is counted twice'
is "$(generations)" "$generation" 'in the same stores'
same_as_oracle 'which hold what the log says'
java_lists >"$T/java.txt"; we_list >"$T/ours.txt"
ok 'the log is long enough to prove something' test "$(wc -l <"$T/ours.txt")" -gt 50000
same "$T/java.txt" "$T/ours.txt" "Kafka's own consumer finds the same records in the log"
stop_tallyd
is $? 0 'it stops in order'

# A compacted log: the last value of each key stays, and tombstones go, so that nothing is left at its end.
TOPIC=compacted PARTITIONS=1
make_topic $TOPIC 1 cleanup.policy=compact segment.ms=1 min.cleanable.dirty.ratio=0.01 delete.retention.ms=0
offsets() { kafka_do get "$TOPIC" 0 | cut -f 1 | tr '\n' ' '; }
for ((i = 0; i < 60; i++)); do echo "now-$((60000 - i)) tenant-$((i % 30 % 3)) $((i % 30)) 10 key=k$((i % 30))"; done | put 0 --batch 10
for ((i = 10; i < 30; i++)); do echo "tombstone k$i"; done | put 0 --batch 5
# Each of these closes a segment that can be compacted then.
roll() { lines 1 | put 0 --txn abort; [ "$(offsets)" = "$(seq -s ' ' 30 39) " ]; }
wait_until roll '' 40
ok 'the end of the log is gone' test "$(offset_of 0 high)" -gt 80
start_tallyd compacted kafka.group=compacted kafka.group_instance_id=one
wait_ready 1
ends 0 'a log with nothing at its end' 30
is "$(fact 0 records)" 10 'the records that are left are counted'
same_as_oracle 'the counts are those of the log'
java_lists >"$T/java.txt"; we_list >"$T/ours.txt"
same "$T/java.txt" "$T/ours.txt" "Kafka's own consumer finds the same records in it"
kill -KILL "$(pid_of 0)"
eventually 'a worker that was killed goes on behind it' 'fact 0 start' "^$(offset_of 0 stable)\$"
is "$(fact 0 records) $(fact 0 gaps)" '10 0' 'and counts nothing twice'
same_as_oracle 'and holds what the log says'

# The record that a store knows the log by is one that compaction can take.
generation=$(generations)
kill_tallyd
echo 'now tenant-0 9 20 key=k9' | put 0
roll() { lines 1 | put 0 --txn abort; [[ $(offsets) =~ ^$(seq -s ' ' 30 38)\ [0-9]+\ $ ]]; }
wait_until roll '' 40
start_tallyd
wait_ready 1
isnt "$(generations)" "$generation" 'when compaction has taken the last record of a store, another one is made'
is "$(fact 0 records) $(part 0 death.detail)" '10 fingerprint' 'from all that is left, and that is told'
same_as_oracle 'it holds what the log says'
stop_tallyd
is $? 0 'it stops in order'
done_testing
