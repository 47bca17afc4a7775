# 63-rows-that-kafka-refuses.sh - what workers write, to topics that do not take it: too much at once, too old,
# of the future, no such topic, no such partition.  It is said, and all of it is written in the end, in order.
. "$(dirname "$0")/lib.sh"

broker partitions=4
NOW=$(date +%s)
# emitter NAME TOPIC SEEN ROWS: to partition 2, a worker's emit.c alone (tests/unit/test_emit.c).
emitter() { spawn "$1" "$B/unit/test_emit" "$BROKERS" "$2" 1 "$4" "$3" 0; EMITTER=$PID; }
dump() { "$B/tests/log-dump" --brokers "$BROKERS" --topic "$1"; }
# "last row without a hole, records that came too early", and those whose time is not within an hour of now.
order() { dump "$1" | awk -F '\t' '{ if ($12 == top + 1) top++; else if ($12 > top + 1) early++ } END { print top + 0, early + 0 }'; }
elsewhen() { dump "$1" | awk -F '\t' -v now="$NOW" '{ d = $3 / 1000 - now } d > 3500 || d < -3500 { n++ } END { print n + 0 }'; }
said() { eventually "$1" "cat '$T/$2.log'" "$3" 60; }
# written NAME TOPIC ROWS
written()
{
	wait "$EMITTER"
	is $? 0 "$1: all is written"
	is "$(order "$2")" "$3 0" '... in order'
}

make_topic narrow 4 max.message.bytes=1000
emitter narrow narrow "$NOW" 3000
written 'batches that are too large' narrow 3000
said '... and it was said' narrow 'emit.failed .*too large.* action="raise max.message.bytes'
is "$(grep -c 'passed_over' "$T/narrow.log")" 0 '... nothing was passed over'

make_topic fresh 4 message.timestamp.before.max.ms=600000
emitter fresh fresh $((NOW - 3600)) 3000
written 'timestamps that are too old' fresh 3000
said '... and it was said' fresh 'emit.failed .*Invalid timestamp.* action="check .*message.timestamp.before'
is "$(elsewhen fresh)" 0 '... with the present time'

emitter future "$TOPIC" $((NOW + 7200)) 3000
written 'timestamps of the future' "$TOPIC" 3000
is "$(elsewhen "$TOPIC")" 0 '... with the present time'

emitter missing missing "$NOW" 100
said 'no such topic' missing 'emit.failed topic=missing .*action="the topic, or this partition of it, is not there'
make_topic missing 2
ok '... nor such a partition: it goes on trying' alive "$EMITTER"
kafka_do grow missing 4
written '... when it is there' missing 100
done_testing
