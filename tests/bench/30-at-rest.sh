# 30-at-rest.sh - what workers cost when nothing happens: memory beside the store, processor time.
. "$(dirname "$0")/lib.sh"

SECONDS_EACH=${SECONDS_EACH:-$(pick 5 20)}
broker partitions=8
produce --records 800000 --tenants 10 --streams 20000 --policies 2 --spread 100m --seed 1 --compression zstd --linger 200
start_tallyd a log_level=info
wait_ready 8 120
pids=$(workers)
before=$(cpu_ns $pids); sleep "$SECONDS_EACH"; after=$(cpu_ns $pids)
for pid in $pids; do
	awk '/^RssAnon/ { anon = $2 } /^RssFile/ { file = $2 } END { print (anon + file) / 1024, anon / 1024 }' "/proc/$pid/status"
done >"$T/rss.txt"
sed 's/^/# MiB beside the store, and of it anonymous: /' "$T/rss.txt"
say rest.rss "$(cut -d ' ' -f 1 "$T/rss.txt" | median)"
say rest.cpu "$(calc "($after - $before) / 1e7 / $SECONDS_EACH / 8")"
say rest.supervisor_rss "$(awk '/^VmRSS/ { print $2 / 1024 }' "/proc/${TALLYD[a]}/status")"
PLANNED=1
