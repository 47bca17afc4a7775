# 50-starts.sh - tallyd from its start to the last of 64 partitions ready: cold, beside raw consumers, one a
# partition, all at once, and kcat; and warm, after a stop, with what one second has brought.
#
# The broker is on the same machine and takes its part.  ROUNDS rounds in turn.
REAL=${REAL-1}
. "$(dirname "$0")/lib.sh"

RECORDS=${RECORDS:-$(pick 2000000 10000000)}	# of the cold start
STREAMS=${STREAMS:-$(pick 640000 6400000)}	# of the warm start
[ "$KIND" = kafka ] || STREAMS=640000 RECORDS=2000000
TAIL=${TAIL:-20000}				# records of one second

kcat_all()
{
	local began=$EPOCHREALTIME
	kcat -C -b "$BROKERS" -t "$TOPIC" -o beginning -e -q -f '' -X check.crcs=true >/dev/null || bail 'kcat'
	since "$began"
}
start_ready()
{
	local began=$EPOCHREALTIME
	start_tallyd "$@"
	until_ready
	since "$began"
}
peak() { awk '/^VmHWM/ { print $2 / 1024 }' $(printf '/proc/%s/status ' "$@") | sort -g | tail -n 1; }

broker partitions=64 topic=cold
produce --records "$RECORDS" --tenants 10 --streams 20000 --size 100-100 --spread 100m --seed 1 --compression zstd --linger 200
ends "$RECORDS"
for ((i = 1; i <= ROUNDS; i++)); do
	raw_all >>"$T/raw.txt"
	kcat_all >>"$T/kcat.txt"
	rm -rf "${T:?}/a"
	start_ready a kafka.group="cold$i" log_level=info query.enabled=false kafka.session_timeout=10s >>"$T/cold.txt"
	pids=$(workers)
	calc "$(cpu_ns $pids) / $RECORDS" >>"$T/cpu.txt"
	peak $pids >>"$T/rss.txt"
	stop_tallyd
done

TOPIC=warm
broker_do topic warm 64
produce --records "$STREAMS" --tenants 10 --streams $((STREAMS / 10)) --popularity each --size 100-100 --spread 100m --seed 1 \
	--compression zstd --linger 200
start_ready w kafka.group=warm log_level=info query.enabled=false kafka.session_timeout=10s
for ((i = 1; i <= ROUNDS; i++)); do
	stop_tallyd
	produce --records "$TAIL" --tenants 10 --streams $((STREAMS / 10)) --size 100-100 --seed $i --compression zstd
	start_ready w >>"$T/warm.txt"
done
grep -c 'state=adopted\|adopted' "$T/w.log" | sed 's/^/# adopted: /'
stop_tallyd

say starts.broker "$(broker_kind)"
say starts.records "$RECORDS"
say starts.streams "$STREAMS"
for what in raw kcat cold warm; do say starts.$what "$(median "$T/$what.txt")"; done
say starts.cpu "$(median "$T/cpu.txt")"
say starts.worker_rss "$(sort -g "$T/rss.txt" | tail -n 1)"
PLANNED=1
