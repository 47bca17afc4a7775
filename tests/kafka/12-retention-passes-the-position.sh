# 12-retention-passes-the-position.sh - a log that is cut above a worker's position: never passed over in
# silence.  What is gone is counted; a store that may lack something of the window is made anew.
. "$(dirname "$0")/lib.sh"

# What counts is 5 minutes old or less, and replay starts at T, 10 minutes ago.  Slow: a batch at a time.
OPTIONS=(window.active=5m replay.margin=5m replay.batch=200 replay.queue=1 kafka.properties.max.partition.fetch.bytes=1000
	kafka.group_instance_id=one)
# aged FROM TO N: N lines for put, from so many seconds old down to so many.
aged() { awk -v from="$1" -v to="$2" -v n="$3" 'BEGIN { for (i = 0; i < n; i++) printf "now-%d tenant-%d auto 10\n", (from - (from - to) * i / n) * 1000, i % 3 }'; }
old() { aged 7200 1200 "$1"; }	# older than T
young() { aged 60 10 "$1"; }	# counts
start_of() { kafka_do offsets "$TOPIC" | sed -n "s/^partition=$1 start=\([0-9]*\) .*/\1/p"; }

# What was read counts on when it is gone from the log: the oracle is shown all that was ever in it, but
# for what was GONE before it could be read ("partition from to").
GONE=()
remember() { dump_log "$T/now.txt"; touch "$T/ever.txt"; sort -u -o "$T/ever.txt" "$T/ever.txt" "$T/now.txt"; }
counts()
{
	local at
	at=$(($(now_ms) + 10000))
	remember
	"$B/tests/store-dump" --run-dir "$(run_dir)" --at "$at" | grep -v ' too_old ' >"$T/store.txt"
	printf '%s\n' "${GONE[@]}" | awk -F '[\t ]' 'NR == FNR { part[++n] = $1; from[n] = $2; to[n] = $3; next }
		{ for (i = 1; i <= n; i++) if ($1 == part[i] && $2 >= from[i] && $2 < to[i]) next; print }' \
		- <(sort -k 1,1n -k 2,2n "$T/ever.txt") >"$T/log.txt"
	"$B/tests/oracle" --partitions "$PARTITIONS" --window 5 --at "$at" --upto-from "$T/store.txt" <"$T/log.txt" |
		grep -v ' too_old ' >"$T/oracle.txt"
	grep -q ^stream "$T/store.txt" || fail 'store-dump says nothing'
	same "$T/oracle.txt" "$T/store.txt" "$1"
}
# cut_log P OFFSET: the log of P begins there.
cut_log() { remember; kafka_do delete-records "$TOPIC" "$1" "$2" || die 'delete-records'; }
# gap_of P [EVENT]: the gap as it was logged: offsets next log_start.
gap_of() { sed -nE "s/.*worker\[$1\] warn ${2:-replay.gap} offsets=([0-9]+) next=([0-9]+) log_start=([0-9]+).*/\1 \2 \3/p" "$T/$INSTANCE.log"; }
gaps() { echo "$(fact "$1" gaps) $(fact "$1" gap_offsets)"; }

# resumed P NAME GAPS RECORDS: the same store goes on, with so many gaps and offsets in them.
resumed()
{
	is "$(gaps "$1") $(fact "$1" records)" "$3 $4" "$2"
	is "$(generation_of "$1")" "$(generation_before "$1")" 'in the same store'
}
# anew P NAME START RECORDS GAP: a new store that has read all that is left, and is told why.
anew()
{
	is "$(fact "$1" start) $(fact "$1" records)" "$3 $4" "$2"
	isnt "$(generation_of "$1")" "$(generation_before "$1")" 'in a new store'
	is "$(part "$1" death.detail)" gap 'the status says why'
	is "$(gap_of "$1" start.gap)" "$5" 'and the log what is gone'
}
keep_generations() { BEFORE=$(fields "$(facts)" partition generation); }
generation_before() { sed -n "s/^$1 //p" <<<"$BEFORE"; }

broker partitions=9
for p in 0 8; do young 30000 | put $p --batch 200; done
for p in 1 2 3 4 5 6 7; do young 50 | put $p; done
start_tallyd a "${OPTIONS[@]}"
wait_until 'test "$(fact 0 next)" -gt 1000 && test "$(fact 8 next)" -gt 1000'
frozen=$(fields "$(facts | grep -E 'partition=[08] ')" pid)
kill -STOP $frozen
is "$(fact 0 state) $(fact 8 state)" 'replaying replaying' 'two are in the middle of their replay'
keep_generations
young 100 | put 8
cut_log 0 25000; cut_log 8 30050
kill -CONT $frozen
wait_ready 9
wait_until 'fact 8 next' '^30100$'
wait_until 'fact 0 next' '^30000$'
for p in 0 8; do
	end=$([ $p = 0 ] && echo 30000 || echo 30100)
	read -r offsets next log_start <<<"$(gap_of $p)"
	GONE+=("$p $next $log_start")
	ok "the gap is logged once, where it was: $offsets offsets at $next" test "$(gap_of $p | wc -l)" = 1 -a \
		$((next + offsets)) = "$log_start" -a "$log_start" = "$(start_of $p)" -a "$next" -lt 25000
	resumed $p 'a replay whose place was cut away goes on behind the gap' "1 $offsets" $((end - offsets))
done
counts 'the counts are those of the log but for the gaps'

# Ready, and then it lags.
keep_generations
pid=$(pid_of 1)
kill -STOP "$pid"
young 60 | put 1
cut_log 1 100
kill -CONT "$pid"
wait_until 'fact 1 next' '^110$'
wait_ready 9
GONE+=('1 0 100')
anew 1 'one that was ready and lags has lost young records: read again from what is left' 100 10 '50 50 100'
counts 'the counts are those of the log'

# Away.
keep_generations
gaps_before=$(gaps 0) records_before=$(fact 0 records)
kill_tallyd
young 60 | put 2; cut_log 2 100
{ old 100; young 20; } | put 3; cut_log 3 100
young 10 | put 4
cut_log 5 30; cut_log 7 50
young 60 | put 6; cut_log 6 110
start_tallyd
wait_ready 9
GONE+=('2 0 100' '3 50 100' '6 0 110')
anew 2 'young records have gone while it was away: read again from what is left' 100 10 '50 50 100'
resumed 3 'old ones have gone: it goes on, and counts the gap' '1 50' 70
is "$(gap_of 3) $(fact 3 start)" '50 50 100 150' 'which is logged'
resumed 4 'nothing has gone' '0 0' 60
resumed 5 'only what was read has gone' '0 0' 50
resumed 7 'all that was read has gone, and no more' '0 0' 50
anew 6 'all has gone' 110 0 '60 50 110'
resumed 0 'a gap of before stays counted' "$gaps_before" "$records_before"
counts 'the counts are those of the log but for the gaps'
stop_tallyd
is $? 0 'it stops in order'

# Kafka's own retention.
retention() { kafka_do config "$TOPIC" "retention.ms=$1" || die 'config'; }
rm "$T/ever.txt"
GONE=() TOPIC=short PARTITIONS=2
make_topic $TOPIC 2 segment.ms=60000
aged 3600 3590 100 | put 0
young 50 | put 1
start_tallyd short "${OPTIONS[@]}" kafka.group=short
wait_ready 2
keep_generations
kill_tallyd
for age in 2400 900 60; do aged $age $((age - 10)) 50 | put 0; done
remember
retention 1200000
wait_until 'start_of 0' '^150$'
start_tallyd
wait_ready 2
resumed 0 'retention has taken old records: it goes on, and counts the gap' '1 50' 50
is "$(gap_of 0) $(fact 0 start)" '50 100 150 200' 'which is logged'
resumed 1 'it has taken nothing' '0 0' 50
GONE+=('0 100 150')
counts 'the counts are those of the log but for the gap'

retention 1
wait_until 'start_of 0; start_of 1' '^250
50$'
retention -1
young 20 | put 0
eventually 'retention has taken all that was read, and the worker goes on' 'fact 0 next' '^270$'
resumed 0 'without a gap' '1 50' 70
resumed 1 'the other one, too' '0 0' 50
counts 'the counts are those of the log but for the gap'
kill_tallyd
young 30 | put 1
remember
retention 1
wait_until 'start_of 1' '^80$'
retention -1
young 20 | put 1
start_tallyd
wait_ready 2
GONE+=('1 0 80')
anew 1 'it has taken young ones: read again from what is left' 80 20 '30 50 80'
counts 'the counts are those of the log'
stop_tallyd
is $? 0 'it stops in order'
done_testing
