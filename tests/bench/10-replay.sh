# 10-replay.sh - records per second of a whole replay, beside librdkafka alone on the same log.
#
# Eight partitions, RECORDS records (2 M), read from the embedded broker.  Three rounds each, in
# turn: eight raw consumers at once (the yardstick), then tallyd with its eight workers.  The store's
# share comes from the same kind of records in a file.  Medians; the ratio is what counts.
. "$(dirname "$0")/../system/lib.sh"

RECORDS=${RECORDS:-2000000}
ROUNDS=${ROUNDS:-3}
STREAMS=${STREAMS:-20000}	# of each of 10 tenants

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
per_second() { awk -v n="$1" -v s="$2" 'BEGIN { printf "%.0f", n / s }'; }

broker partitions=8
note "writing $RECORDS records"
produce --records "$RECORDS" --tenants 10 --streams "$STREAMS" --size 100-100 --policies 2 --spread 100m --seed 1 \
	--compression zstd --linger 200
for p in 0 1 2 3 4 5 6 7; do
	kcat -Q -b "$BROKERS" -t "$TOPIC:$p:-2" | grep -q 'offset 0' || bail "the broker has dropped records of partition $p: RECORDS is too large for it"
	kcat -Q -b "$BROKERS" -t "$TOPIC:$p:-1" | awk '{ print $NF }'
done >"$T/ends.txt"

raw_round()
{
	local p=0 began=$EPOCHREALTIME pids=() end
	while read -r end; do
		"$B/bench/raw_consumer" "$BROKERS" "$TOPIC" $p "$end" >"$T/raw.$p.txt" &
		pids+=($!); p=$((p + 1))
	done <"$T/ends.txt"
	wait "${pids[@]}"
	awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }' >>"$T/raw.txt"
}

# From the first worker's start to the last one's "live", by their own log.
tally_round()
{
	rm -rf "${T:?}/a" "$T/a.log"
	start_tallyd a kafka.group="bench$1" log_level=info query.enabled=false
	wait_ready 8 120
	stop_tallyd
	awk '/supervisor info worker.started/ && !a { a = $1 } /worker.live/ { b = $1 } END { print a, b }' "$T/a.log" |
		while read -r a b; do awk -v a="$(date -d "$a" +%s.%N)" -v b="$(date -d "$b" +%s.%N)" 'BEGIN { print b - a }'; done >>"$T/tally.txt"
}

for ((i = 1; i <= ROUNDS; i++)); do raw_round; tally_round "$i"; done
raw=$(median <"$T/raw.txt") tally=$(median <"$T/tally.txt")
echo "replay, raw librdkafka, 8 processes    $(per_second "$RECORDS" "$raw") records/s"
echo "replay, tallyd end to end, 8 workers   $(per_second "$RECORDS" "$tally") records/s"
awk -v r="$raw" -v t="$tally" 'BEGIN { printf "replay, time of tallyd / time of raw    %.2f\n", t / r }'

# The store's share: a partition's worth of the same records, all streams known on the second pass.
"$B/tally-load" --topic x --partitions 8 --partition 0 --records 250000 --tenants 10 --streams "$STREAMS" \
	--policies 2 --spread 100m --seed 1 --dump "$T/part.dump" >/dev/null 2>&1 || bail 'tally-load --dump'
for batch in 10000 50000 250000; do
	mkdir -p "$T/store.$batch"
	line=$("$B/bench/file_source" "$T/part.dump" "$T/store.$batch" 8 0 $batch 3 2>/dev/null) || bail 'file_source'
	eval "$line"
	echo "store, batch $batch: decode $decode_ns ns, decode+add $add_ns ns, commit $commit_ns ns a record, $((1000000000 / (add_ns + commit_ns))) records/s, $((store_bytes / streams)) bytes/stream ($streams streams)"
done
PLANNED=1
