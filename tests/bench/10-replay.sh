# 10-replay.sh - one partition, read by one process on one core: raw librdkafka, kcat, a worker.
#
# RECORDS records of STREAMS streams of 1000 tenants, not compressed.  The broker has the other core.
# ROUNDS rounds in turn.  The worker's time is from its start to "live": the last record is committed.
# Real Kafka where it can be had, else the embedded broker (which keeps too little to say much).
REAL=${REAL-1}
. "$(dirname "$0")/lib.sh"

if [ "$KIND" = kafka ]; then RECORDS=${RECORDS:-$(pick 4000000 20000000)}; else RECORDS=${RECORDS:-150000}; fi
STREAMS=${STREAMS:-100000}

stay_on 1
broker partitions=1
stay_on "0-$(($(nproc) - 1))"
# The embedded broker keeps 5 MiB of a partition: there it has to be compressed.
produce --records "$RECORDS" --tenants 1000 --streams $((STREAMS / 1000)) --size 100-100 --policies 1 --spread 100m --seed 1 \
	--linger 200 --compression "$(if [ "$KIND" = kafka ]; then echo none; else echo zstd; fi)"
ends "$RECORDS"

raw_round() { on_core 0 "$B/bench/raw_consumer" "$BROKERS" "$TOPIC" 0 "$RECORDS" | sed 's/.*seconds=//' >>"$T/raw.txt"; }
kcat_round()
{
	local began=$EPOCHREALTIME
	on_core 0 kcat -C -b "$BROKERS" -t "$TOPIC" -o beginning -e -q -f '' -X check.crcs=true >/dev/null || bail 'kcat'
	since "$began" >>"$T/kcat.txt"
}
# The worker of partition 0 takes core 0 by itself, while it replays.
tally_round()
{
	rm -rf "${T:?}/a" "$T/a.log"
	start_tallyd a kafka.group="bench$1" kafka.session_timeout=10s log_level=info query.enabled=false
	wait_until "grep -c worker.live '$T/a.log'" 1 120
	calc "$(log_time worker.live "$T/a.log") - $(log_time worker.started "$T/a.log")" >>"$T/tally.txt"
	grep -q "replayed=$RECORDS " "$T/a.log" || bail "not all was replayed: $(grep worker.live "$T/a.log")"
	cpu_ns $(workers) | awk -v n="$RECORDS" '{ print $1 / n }' >>"$T/cpu.txt"
	stop_tallyd
}
for ((i = 1; i <= ROUNDS; i++)); do raw_round; kcat_round; tally_round "$i"; done
say replay.broker "$(broker_kind)"
say replay.records "$RECORDS"
for what in raw kcat tally; do say replay.$what "$(calc "$RECORDS / 1e6 / $(median "$T/$what.txt")")"; done
say replay.cpu "$(median "$T/cpu.txt")"
PLANNED=1
