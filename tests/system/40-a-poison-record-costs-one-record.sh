# 40-a-poison-record-costs-one-record.sh - a record that kills its worker is passed over after the
# third death, and nothing else is; a worker that hangs is aborted, and nothing is passed over.
. "$(dirname "$0")/lib.sh"

# This worker's decoder aborts at records of the tenant "poison".
POISONED=supervisor.worker_program=$B/variants/poison/tally-worker

# poison PARTITION: one such record, valid in itself.  (Fields 2 and 3: tenant, metadata; no byte of
# it is the line feed that ends a record for kcat.)
poison() { printf '\x12\x06poison\x1a\x04\x08\x31\x10\x05' | kcat -P -b "$BROKERS" -t "$TOPIC" -p "$1" -k poison -X log_level=3 || die 'kcat'; }
load() { produce --tenants 3 --policies 2 --streams 1000 --seed "$SEED" "$@"; }

# same_without_poison NAME: the stores hold the log without the poison, and count as many of them as
# QUARANTINED says.
declare -A QUARANTINED=()
same_without_poison()
{
	local at p edit=()
	at=$(now_ms)
	"$B/tests/store-dump" --run-dir "$(run_dir)" --at "$at" >"$T/store.txt" || die 'store-dump'
	dump_log "$T/log.txt"
	awk -F '\t' '$7 != "poison"' "$T/log.txt" | "$B/tests/oracle" --partitions "$PARTITIONS" --at "$at" \
		--upto-from "$T/store.txt" >"$T/oracle.txt" || die 'oracle'
	for p in "${!QUARANTINED[@]}"; do edit+=(-e "s/^skipped $p quarantined 0\$/skipped $p quarantined ${QUARANTINED[$p]}/"); done
	[ ${#edit[@]} = 0 ] || sed -i "${edit[@]}" "$T/oracle.txt"
	same "$T/oracle.txt" "$T/store.txt" "$1"
}
# Milliseconds of the day at which a line of the log was written.
times_of() { grep "$1" "$T/a.log" | sed -E 's/^[^T]*T([0-9]+):([0-9]+):([0-9]+)\.([0-9]+)Z.*/\1 \2 \3 \4/' | awk '{ print (($1 * 60 + $2) * 60 + $3) * 1000 + $4 }'; }
deaths() { grep -c "worker.died partition=$1 .*signal=6 " "$T/a.log"; }
quarantines() { grep -c "poison.quarantined partition=$1 " "$T/a.log"; }
# The workers and generations of all partitions but one.
others() { slots | grep -v "^[$1] " | cut -d' ' -f1-3; }

broker partitions=4
load --records 80000 --spread 100m
poison 0		# in the middle of a batch of 20,000 and more
load --records 80000 --seed $((SEED + 1)) --spread 90m
poison 1; poison 1	# two, one directly after the other
load --records 4000 --seed $((SEED + 2))
poison 2
load --records 400 --seed $((SEED + 3))
poison 2		# two, with others between

start_tallyd a "$POISONED"
wait_ready 4 60
QUARANTINED=([0]=1 [1]=2 [2]=2)
same_without_poison 'all but the poison is counted, and each poisonous record is counted as such'
is "$(status_json | jq -c '[.partitions[] | .stats.quarantined]')" '[1,2,2,0]' 'tallyctl says how many'
is "$(status_json | jq -c '[.partitions[] | .quarantine_listed]')" '[1,2,2,0]' 'as the supervisor knows them'
is "$(status_json | jq -c '[.partitions[] | .stats.skipped.quarantined]')" '[1,2,2,0]' 'and why they are not counted'
like "$(ctl status)" '5 records in quarantine' 'the status says so for people'
is "$(quarantines 0) $(quarantines 1) $(quarantines 2) $(quarantines 3)" '1 2 2 0' 'each was put there once'
is "$(grep 'poison.quarantined partition=0' "$T/a.log" | sed 's/.*offset=//')" \
	"$(awk -F '\t' '$7 == "poison" && $1 == 0 { print $2 }' "$T/log.txt")" 'it is the right one'
is "$(deaths 0)" 3 'one costs three deaths'
is "$(deaths 3)" 0 'and the partition without any costs none'
# From its third death on.
died=$(times_of 'worker.died partition=0 ' | sed -n 3p)
ready=$(times_of 'partition.state partition=0 state=ready' | head -n 1)
note "partition 0 was ready $((ready - died)) ms after the third death"
ok 'it is ready within seconds of that' test $((ready - died)) -lt 10000

# --- live ----------------------------------------------------------------------------------------

load_start --seed $((SEED + 4)) --tenants 3 --policies 2 --streams 1000 --rate 400 --linger 100; LOAD=$PID
wait_until "part 3 stats.records_per_sec" '^[1-9]'
before=$(others 3)
restarts=$(part 3 restarts)
poison 3
eventually 'poison that comes live is passed over, too' 'part 3 stats.quarantined' '^1$' 30
wait_until 'state_of 3' '^ready$'
is $(($(part 3 restarts) - restarts)) 3 'after three deaths'
is "$(others 3)" "$before" 'the other partitions keep their workers and generations'
poison 3
eventually 'and another one' 'part 3 stats.quarantined' '^2$' 30
wait_until 'state_of 3' '^ready$'
is "$(others 3)" "$before" 'without the others, again'

# It stays passed over in the next worker and in the next supervisor.
kill -KILL "$(pid_of 3)"
wait_until 'part 3 restarts' "^$((restarts + 7))\$"
wait_until 'state_of 3' '^ready$'

# --- hanging -------------------------------------------------------------------------------------

end "$LOAD"
stop_tallyd
start_tallyd a "$POISONED" supervisor.hang_timeout=3s
wait_ready 4 60
load_start --seed $((SEED + 5)) --tenants 3 --policies 2 --streams 1000 --rate 400 --linger 100; LOAD=$PID
wait_until 'part 2 stats.records_per_sec' '^[1-9]'
before=$(others 2) hung=$(pid_of 2) generation=$(generation_of 2)
kill -STOP "$hung"
eventually 'a worker that does not move is taken for hung' "grep -c 'worker.hung partition=2 pid=$hung ' '$T/a.log'" '^1$' 15
eventually 'and ended' "gone $hung" '' 15
eventually 'another one takes over' 'state_of 2' '^ready$'
isnt "$(pid_of 2)" "$hung" 'which is another process'
is "$(generation_of 2)" "$generation" 'with the same store'
is "$(part 2 death.kind)" hang 'the death has its reason'
is "$(part 2 restarts) $(part 2 quarantine_listed)" '1 0' 'it costs one restart and no record'
is "$(others 2)" "$before" 'the other partitions have not noticed'

end "$LOAD"
eventually 'all has been read' "status_json | jq '[.partitions[].stats.lag] | add'" '^0$'
QUARANTINED=([0]=1 [1]=2 [2]=2 [3]=2)
same_without_poison 'all counts are right'
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
