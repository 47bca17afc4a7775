# 11-the-start-by-time-is-right.sh - replay starts at the first record that can count, whatever the timestamps
# in the log are: it reads no more than it need, and misses nothing.
. "$(dirname "$0")/lib.sh"

# What counts is 5 minutes old or less, and replay starts at T, 10 minutes ago.
OPTIONS=(window.active=5m replay.margin=5m kafka.group_instance_id=one)
# aged FROM TO N: N lines for put, from so many seconds old down to so many.
aged() { awk -v from="$1" -v to="$2" -v n="$3" 'BEGIN { for (i = 0; i < n; i++) printf "now-%d tenant-%d auto 10\n", (from - (from - to) * i / n) * 1000, i % 3 }'; }
old() { aged 7200 1200 "$1"; }		# older than T
young() { aged 60 10 "$1"; }		# counts
ancient() { local i; for ((i = 0; i < $1; i++)); do echo "none tenant-0 auto 10"; done; }
future() { echo "$1 future auto 10"; }	# counts as of now

# begins P NAME START TARGET RECORDS: where it started, where it ended, how many records it has read.
begins()
{
	is "$(fact "$1" start) $(fact "$1" target) $(fact "$1" records)" "$3 $4 $5" "$2: from $3 to $4"
	took=$(($(fact "$1" ready_at) - $(fact "$1" replay_started_at)))
	ok "and ready at once ($took ms)" test $took -lt 5000
}

# Those that are too old anyway are the only ones that may be left out; what comes from the future is seen now.
counts()
{
	local at
	at=$(($(now_ms) + 10000))
	"$B/tests/store-dump" --run-dir "$(run_dir)" --at "$at" | grep -v ' too_old ' |
		sed -E 's/^(stream [0-9]+ future [0-9]+) [0-9]+/\1 now/' >"$T/store.txt"
	dump_log "$T/log.txt"
	"$B/tests/oracle" --partitions "$PARTITIONS" --window 5 --at "$at" --upto-from "$T/store.txt" <"$T/log.txt" |
		grep -v ' too_old ' | sed -E 's/^(stream [0-9]+ future [0-9]+) [0-9]+/\1 now/' >"$T/oracle.txt"
	grep -q ^stream "$T/store.txt" || fail 'store-dump says nothing'
	same "$T/oracle.txt" "$T/store.txt" "$1"
}
# The timestamp of the record at offset $2 of partition $1.
time_of() { awk -F '\t' -v p="$1" -v o="$2" '$1 == p && $2 == o { print $3 }' "$T/log.txt"; }

broker partitions=13 message.timestamp.after.max.ms=9223372036854775807 segment.ms=300000
{ aged 7200 720 200; aged 720 480 240; young 50; } | put 0
old 300 | put 1
{ future now+315360000000; old 100; young 50; } | put 2
{ old 200; young 1; old 200; young 50; } | put 3
{ young 50; old 200; } | put 4
{ ancient 200; young 20; ancient 20; young 20; } | put 5
ancient 200 | put 6
{ old 300 | put 8; old 3000 | put 8 --txn abort; }
{ old 100; young 20; } | put 9
mkfifo "$T/open"
STDIN="$T/open" spawn open "$B/tests/kafka-do" --brokers "$BROKERS" put "$TOPIC" 9 --txn open
exec 7>"$T/open"
{ young 20; echo; } >&7
wait_until "cat '$T/open.log'" 'first=120 last=139'
young 10 | put 9
{ old 5000; aged 1300 1200 57; young 1; aged 1300 1200 42; } | put 10 --batch 100 --compression lz4
{ future 9223372036854775807; echo 1 tenant-0 auto 10; ancient 10; old 100; young 50; } | put 11
{ old 100; young 20; old 100; future now+86400000; } | put 12

start_tallyd a "${OPTIONS[@]}"
wait_ready 13
counts 'the counts are those of the log'
start=$(fact 0 start) T0=$(($(fact 0 replay_started_at) - 600000))
ok 'the first record at or after T is found' test "$(time_of 0 "$start")" -ge $((T0 - 1000))
ok 'and it is the first one' test "$(time_of 0 $((start - 1)))" -lt $((T0 + 1000))
begins 0 'records before and after T' "$start" 490 $((490 - start))
begins 1 'all are too old' 300 300 0
begins 2 'a record of the future comes first' 0 151 151
begins 3 'a young one between old ones' 200 451 251
begins 4 'young ones first' 0 250 250
begins 5 'records without a time first' 200 260 60
begins 6 'all are without a time' 200 200 0
begins 7 'an empty partition' 0 0 0
begins 8 'old ones, 3000 that were aborted, and a marker of now' 3300 3301 0
begins 9 'an open transaction' 100 120 20
begins 10 'one in the middle of a compressed batch' 5057 5100 43
begins 11 'timestamps that are none' 0 162 162
begins 12 'a record of the future comes last' 100 221 121
echo commit >&7; exec 7>&-
eventually 'what is committed then is read' 'fact 9 records' '^50$'
counts 'and counted'

# The time of an open transaction's records cannot be looked up: none of them is passed over.
STDIN="$T/open" spawn open "$B/tests/kafka-do" --brokers "$BROKERS" put "$TOPIC" 7 --txn open
exec 7>"$T/open"
{ young 20; echo; } >&7
wait_until "tail -n 1 '$T/open.log'" '^open'
# Stores that are there go on where they stood, or at T where that is above.
kill_tallyd
{ old 50; young 20; } | put 1
{ old 50; young 20; } | put 3
old 50 | put 4
{ future now+86400000; old 50; young 20; } | put 5
{ ancient 20; young 20; } | put 6
start_tallyd
wait_ready 13
counts 'after a restart the counts are those of the log'
begins 1 'it had found nothing that counts: too old ones are left out' 350 370 20
begins 3 'it goes on where it stood' 451 521 321
begins 4 'nothing that counts is new' 250 300 300
begins 5 'a record of the future is the next' 260 331 131
begins 6 'records without a time are the next' 220 240 20
begins 7 'an empty partition and an open transaction' 0 0 0
echo commit >&7; exec 7>&-
eventually 'what is committed then is read' 'fact 7 records' '^20$'
counts 'and counted'
stop_tallyd
is $? 0 'it stops in order'

# The broker stamps the records: then its time counts, whatever they say.
TOPIC=stamped PARTITIONS=2
make_topic $TOPIC 2
old 100 | put 0
kafka_do config $TOPIC message.timestamp.type=LogAppendTime || die 'config'
old 50 | put 0
{ future now+86400000; old 50; } | put 1
is "$(for p in 0 1; do kafka_do get $TOPIC $p | cut -f 3; done | uniq -c | xargs)" '100 create 101 append' \
	'the broker stamps records'
start_tallyd stamped "${OPTIONS[@]}" kafka.group=stamped
wait_ready 2
counts 'the counts are those of the log'
begins 0 'stamped records after old ones' 100 150 50
begins 1 'nothing but stamped records' 0 51 51
stop_tallyd
is $? 0 'it stops in order'
done_testing
