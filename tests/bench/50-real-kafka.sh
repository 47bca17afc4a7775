# 50-real-kafka.sh - a whole replay from real Apache Kafka, beside librdkafka alone and kcat on the same
# log: 8 and 64 partitions, RECORDS records (10 M) of the reference service's shape.
#
# One broker on the same machine takes part of it, so the ratios are what counts.  ROUNDS rounds (3) in
# turn: raw consumers, one a partition, all at once; kcat, one for all; tallyd from its start to the last
# partition ready: cold (no store) and warm (its stores, nothing new).
BROKER=kafka
. "$(dirname "$0")/../system/lib.sh"

RECORDS=${RECORDS:-10000000}
ROUNDS=${ROUNDS:-3}
STREAMS=${STREAMS:-20000}	# of each of 10 tenants
KAFKA_HEAP=1g

median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'; }
per_second() { awk -v n="$RECORDS" -v s="$1" 'BEGIN { printf "%.2f M/s in %.2f s", n / s / 1e6, s }'; }
ticks() { awk '{ s += $14 + $15 } END { print s + 0 }' $(printf '/proc/%s/stat ' "$@") 2>/dev/null; }
peak() { awk '/^VmHWM/ { if ($2 > m) m = $2 } END { printf "%.0f", m / 1024 }' $(printf '/proc/%s/status ' "$@"); }

raw_round()
{
	local p=0 began=$EPOCHREALTIME pids=() end
	while read -r end; do
		"$B/bench/raw_consumer" "$BROKERS" "$TOPIC" $p "$end" >>"$T/raw.log" &
		pids+=($!); p=$((p + 1))
	done <"$T/ends.txt"
	wait "${pids[@]}"
	since "$began" >>"$T/raw.$1.txt"
}
kcat_round()
{
	local began=$EPOCHREALTIME
	kcat -C -b "$BROKERS" -t "$TOPIC" -o beginning -e -q -f '' -X check.crcs=true >/dev/null || bail 'kcat'
	since "$began" >>"$T/kcat.$1.txt"
}
until_ready() { while [ "$(ready_count)" != "$PARTITIONS" ]; do sleep 0.02; done; }
tally_round()
{
	local began pids
	began=$EPOCHREALTIME
	rm -rf "${T:?}/a"
	start_tallyd a kafka.group="bench$2.$1" log_level=info query.enabled=false kafka.session_timeout=10s
	until_ready
	since "$began" >>"$T/cold.$1.txt"
	pids=$(fields "$(facts)" pid)
	awk -v t="$(ticks $pids)" -v n="$RECORDS" 'BEGIN { print t * 1e7 / n }' >>"$T/cpu.$1.txt"
	echo "$(peak $pids) $(peak "${TALLYD[a]}")" >>"$T/rss.$1.txt"
	stop_tallyd
	began=$EPOCHREALTIME
	start_tallyd a
	until_ready
	since "$began" >>"$T/warm.$1.txt"
	stop_tallyd
}

broker partitions=8 topic=t8
make_topic t64 64
for n in 8 64; do
	TOPIC=t$n PARTITIONS=$n
	produce --records "$RECORDS" --tenants 10 --streams "$STREAMS" --size 100-100 --spread 100m --seed 1 \
		--compression zstd --linger 200
	for ((p = 0; p < n; p++)); do kcat -Q -b "$BROKERS" -t "$TOPIC:$p:-1" | awk '{ print $NF }'; done >"$T/ends.txt"
	[ "$(sum <"$T/ends.txt")" = "$RECORDS" ] || bail "the log has $(sum <"$T/ends.txt") records"
	for ((i = 1; i <= ROUNDS; i++)); do raw_round "$n"; kcat_round "$n"; tally_round "$n" "$i"; done
	raw=$(median "$T/raw.$n.txt") cold=$(median "$T/cold.$n.txt")
	echo "$n partitions, $RECORDS records, $(kcat -C -b "$BROKERS" -t "$TOPIC" -o beginning -c 1000 -q -f '%S\n' | sort -n | awk '{ v[NR] = $1 } END { print v[1] " to " v[NR] }') bytes of value"
	echo "  raw librdkafka, $n processes          $(per_second "$raw")"
	echo "  kcat, one process                     $(per_second "$(median "$T/kcat.$n.txt")")"
	echo "  tallyd, from its start to all ready   $(per_second "$cold")"
	awk -v r="$raw" -v t="$cold" 'BEGIN { printf "  tallyd / raw, in time                 %.2f\n", t / r }'
	echo "  warm start to all ready               $(median "$T/warm.$n.txt") s"
	echo "  CPU of the workers                    $(median "$T/cpu.$n.txt") ns a record"
	echo "  peak RSS                              worker $(cut -d' ' -f1 "$T/rss.$n.txt" | sort -n | tail -1) MiB, supervisor $(cut -d' ' -f2 "$T/rss.$n.txt" | sort -n | tail -1) MiB"
done
PLANNED=1
