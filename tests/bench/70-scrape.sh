# 70-scrape.sh - /metrics with TENANTS tenants and STREAMS streams: how long a scrape takes, and what it does to
# the answers of questions that are asked meanwhile.  ROUNDS rounds in turn, in which the same curl as often asks
# for /metrics, and for /healthz: to start a process ten times a second takes more of two cores than a scrape.
# The embedded broker could not keep what the full form has.
[ "${FORM:-short}" = short ] || REAL=1
. "$(dirname "$0")/lib.sh"

TENANTS=${TENANTS:-10000}
STREAMS=${STREAMS:-$(pick 1000000 10000000)}
SECONDS_EACH=${SECONDS_EACH:-3}

broker partitions=8
produce --records "$STREAMS" --tenants "$TENANTS" --streams $((STREAMS / TENANTS)) --popularity each --size 100-100 --seed 1 \
	--compression zstd --linger 200
start_tallyd limits.max_global_streams_per_user=0 log_level=info store.map_size=8GiB
wait_ready 8 180
wait_asked
[ "$(status_json | jq '[.partitions[].stats.streams_stored] | add')" = "$STREAMS" ] || bail 'not all streams are there'

HTTP=$(http_address)
scrape() { curl -sS -o "$T/metrics.txt" -w '%{time_total}\n' "http://$HTTP${1:-/metrics}"; }
scrape >/dev/null	# the maps are new to the query process
for ((i = 0; i < 20; i++)); do scrape; done | awk '{ print $1 * 1e3 }' >"$T/scrapes.txt"
grep -q '^tally_' "$T/metrics.txt" || bail 'no metrics'

ask --tenant known --streams 10000 --per-request 1000
# beside PATH: questions while somebody asks for it.
beside()
{
	while :; do scrape "$1"; sleep 0.1; done >/dev/null &
	ask --tenant known --streams 10000 --rounds 0 --per-request 100 --connections 8 --concurrency 4 --rate 500 \
		--seconds "$SECONDS_EACH"
	kill $!; wait $! 2>/dev/null
}
quiet() { beside /healthz; }
scraped() { beside /metrics; }
quiet	# a first one warms up
for ((i = 0; i < ROUNDS; i++)); do
	for how in quiet scraped; do
		$how
		[ "$(said ok)" = "$(said requests)" ] || bail "$how: $(cat "$T/ask.txt")"
		said p99_us >>"$T/$how.txt"
	done
done
stop_tallyd
say scrape.tenants "$TENANTS"
say scrape.streams "$STREAMS"
say scrape.ms "$(median "$T/scrapes.txt")"
say scrape.bytes "$(wc -c <"$T/metrics.txt")"
for how in quiet scraped; do
	echo "# p99 of each round, us, $how: $(tr '\n' ' ' <"$T/$how.txt")"
	say scrape.p99_$how "$(calc "$(median "$T/$how.txt") / 1e3")"
done
PLANNED=1
