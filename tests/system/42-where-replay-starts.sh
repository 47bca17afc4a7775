# 42-where-replay-starts.sh - every row of the table of where replay starts and ends, with a worker whose
# look-ups by time are told what to answer: one partition a row.
# broker: embedded (look-ups of real Kafka: tests/kafka)
. "$(dirname "$0")/lib.sh"

# A broker that can be replaced by another one which calls itself the same cluster: without random
# addresses, the name that the mock makes of one comes out the same.
replaceable_broker()
{
	rm -f "$T/broker.in" "$T/broker.ready"
	mkfifo "$T/broker.in"
	STDIN="$T/broker.in" spawn broker setarch -R "$B/tally-broker" --die-with-parent=$$ --port "${1:-0}" \
		--topic "$TOPIC:$PARTITIONS" --ready-file "$T/broker.ready"
	BROKER_PIDS=("$PID")
	until_true 10 test -s "$T/broker.ready" || bail "the broker did not come up: $(tail -n 5 "$T/broker.log")"
	BROKERS=$(head -n 1 "$T/broker.ready")
}

# The supervisor gives its workers a clean environment: the orders go round it.
cat >"$T/worker.sh" <<E
#!/bin/sh
export TALLY_FAKE_LOOKUPS=$T/orders.txt
exec "$B/variants/lookups/tally-worker" "\$@"
E
chmod 755 "$T/worker.sh"
orders() { printf '%s\n' "$@" >"$T/orders.new"; mv "$T/orders.new" "$T/orders.txt"; }

# old P N and young P N: records older than all that counts, in order; and such as count.
old() { produce --partition "$1" --records "$2" --spread 20d --tenants 2 --streams 50 --seed "$((SEED + $1))"; }
young() { produce --partition "$1" --records "$2" --spread 30m --tenants 2 --streams 50 --seed "$((SEED + $1))"; }
# The same with so long names that 20000 of them are more than the broker keeps of a partition.
long=$(printf 'x%.0s' {1..200})
old_bulk() { produce --partition "$1" --records 1 --spread 20d --broken too_old=19999 --tenants 2 --tenant-prefix "$long"; }
young_bulk() { produce --partition "$1" --records 20000 --spread 30m --tenants 2 --tenant-prefix "$long"; }

# row P NAME START TARGET REPLAYED: how this run of the partition's worker began and ended.
row() { is "$(fact "$1" start) $(fact "$1" target) $(fact "$1" replayed)" "$3 $4 $5" "$2: from $3 to $4"; }
took() { echo $(($(fact "$1" ready_at) - $(fact "$1" replay_started_at))); }

# Records that were skipped because they are too old anyway are the only ones that may not be counted.
counts()
{
	local at
	at=$(now_ms)
	"$B/tests/store-dump" --run-dir "$(run_dir)" --at "$at" | grep -v ' too_old ' >"$T/store.txt"
	dump_log "$T/log.txt"
	"$B/tests/oracle" --partitions "$PARTITIONS" --at "$at" --upto-from "$T/store.txt" <"$T/log.txt" |
		grep -v ' too_old ' >"$T/oracle.txt"
	[ -s "$T/store.txt" ] || fail 'store-dump says nothing'
	same "$T/oracle.txt" "$T/store.txt" "$1"
}

PARTITIONS=9
replaceable_broker
for p in 0 2 3 4 7 8; do old $p 100; young $p 50; done
for p in 1 6; do old $p 100; done
orders 'time.0 100' 'time.3 unavailable' 'time.4 never' 'time.6 100' 'end.7 unavailable' 'start.8 timeout'
# Its orders are not its business: a confined worker could not read them.
start_tallyd supervisor.worker_program="$T/worker.sh" supervisor.confine=false replay.offsets_timeout=2s
wait_ready 7

row 0 'the look-up finds the first young record' 100 150 50
row 1 'it says "none", which is true' 100 100 0
row 2 'it says "none", which is not' 0 150 150
row 3 'it fails' 0 150 150
row 4 'it never answers' 0 150 150
row 5 'the partition is empty' 0 0 0
row 6 'it finds that all is too old' 100 100 0
for p in 0 1 2 5 6; do
	ok "partition $p was ready at once ($(took $p) ms)" test "$(took $p)" -lt 2000
done
for p in 3 4; do
	ok "partition $p has waited for an answer first ($(took $p) ms)" test "$(took $p)" -ge 2000
done
for p in 7 8; do
	is "$(state_of $p)" pending 'without end or start a partition is not ready'
	eventually 'and is flagged' "part $p stats.problems" 'degraded' 10
	ok 'and the failures are counted' test "$(fact $p lookup_errors)" -gt 1
done
counts 'the counts are those of the log, whatever the broker answered'
orders 'time.0 100'
wait_until ready_count '^9$' 20
row 7 'when the end can be had at last' 0 150 150
row 8 'when the start can be had at last' 0 150 150
is "$(part 7 stats.problems)$(part 8 stats.problems)" '' 'the flag is gone'
counts 'and then all is counted'

# Stores that are there already go on where they stood.
generations=$(fields "$(facts)" partition generation)
stop_tallyd
is $? 0 'it stops in order'
young 0 20
old 2 50; young 2 10
young 3 5
young 5 10
old_bulk 6; young 6 20
young_bulk 7
orders 'time.2 200' 'time.3 timeout' 'time.6 20100'
start_tallyd
wait_ready 9 60
row 0 'with a stored offset it goes on there' 150 170 20
row 1 'with nothing new it is done' 100 100 0
row 2 'too old ones above the stored offset are not read' 200 210 10
row 3 'a look-up that fails is not waited for' 150 155 5
row 5 'a partition that was empty' 0 10 10
row 6 'the log begins later, and what is gone was too old' 20100 20120 20
log_start=$(fact 6 log_start)
ok 'the broker has really dropped some' test "$log_start" -gt 100
is "$(fact 6 gaps) $(fact 6 gap_offsets)" "1 $((log_start - 100))" 'the gap is told'
log_start=$(fact 7 log_start)
ok 'the broker has really dropped some' test "$log_start" -gt 150
row 7 'the log begins later, and what is gone would count' "$log_start" 20150 $((20150 - log_start))
is "$(part 7 death.detail)" gap 'its store was made anew, and that is told'
is "$(comm -3 <(echo "$generations") <(fields "$(facts)" partition generation) | awk '{ print $1 }' | sort -u)" 7 'no other was'
ok "partition 3 was ready at once ($(took 3) ms)" test "$(took 3)" -lt 2000
counts 'the counts are those of the log'

# Another log under the same name.
generations=$(fields "$(facts)" partition generation)
stop_tallyd
is $? 0 'it stops in order'
broker_end
SEED=$((SEED + 100))
replaceable_broker "${BROKERS##*:}"
old 0 100; young 0 200
old 1 50; young 1 20
young 2 210
orders
start_tallyd
wait_until ready_count '^9$' 60
is "$(part 0 death.detail)" fingerprint 'another record where our last one was: made anew'
row 0 'a longer log that is not ours' 0 300 300
is "$(part 2 death.detail)" fingerprint 'the same with one that ends just where our store stood'
row 2 'a log of the same length' 0 210 210
is "$(part 1 death.detail)" beyond_end 'the log ends before our offset: made anew'
row 1 'a shorter log' 0 70 70
row 3 'a log that is empty now' 0 0 0
is "$(comm -12 <(echo "$generations") <(fields "$(facts)" partition generation))" '' 'no generation was kept'
eventually 'and none is left' strangers '^$' 10
counts 'the counts are those of the new log'

# The rule of the reference: ready without knowing.
stop_tallyd
orders 'end.0 unavailable' 'start.2 unavailable'
start_tallyd b supervisor.worker_program="$T/worker.sh" supervisor.confine=false replay.offsets_timeout=2s replay.on_lookup_failure=ready
wait_ready 9
row 1 'it says "none", which is not' 0 70 70
for p in 0 2; do
	ok "partition $p is ready after the timeout ($(took $p) ms)" test "$(took $p)" -ge 2000
	is "$(fact $p records)" 0 'though it has read nothing'
	like "$(part $p stats.problems)" degraded 'and says so'
done
ready_at=$(fact 0 ready_at)
orders
eventually 'when the broker answers, it replays all the same' 'fact 0 records' '^300$' 20
eventually 'the other, too' 'fact 2 records' '^210$' 20
is "$(fact 0 start) $(fact 0 ready) $(fact 0 ready_at)" "0 1 $ready_at" 'from the start of the log, ready all the time'
counts 'the counts are those of the log'
stop_tallyd
is $? 0 'it stops in order'
done_testing
