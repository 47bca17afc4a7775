# 30-at-rest.sh - what a worker costs when nothing happens, and what a stream costs in the store.
. "$(dirname "$0")/../system/lib.sh"

broker partitions=8
produce --records 800000 --tenants 10 --streams 20000 --policies 2 --spread 100m --seed 1 --compression zstd --linger 200
start_tallyd a log_level=info
wait_ready 8 120

pids=$(status_json | jq '.partitions[].pid')
cpu() { awk '{ s += $14 + $15 } END { print s }' $(printf '/proc/%s/stat ' $pids); }
first=$(cpu); sleep 10; last=$(cpu)
for pid in $pids; do
	awk -v fds="$(find "/proc/$pid/fd" -mindepth 1 | wc -l)" '/^VmRSS/ { rss = $2 } /^RssAnon/ { anon = $2 } /^RssShmem/ { shm = $2 } /^Threads/ { t = $2 }
		END { print rss, anon, shm, t, fds }' "/proc/$pid/status"
done | sort -g | awk '{ line[NR] = $0 } END { split(line[int((NR + 1) / 2)], v)
	printf "worker at rest: %.1f MiB resident (%.1f anonymous, %.1f of it the store), %d threads, %d descriptors\n", v[1] / 1024, v[2] / 1024, v[3] / 1024, v[4], v[5] }'
awk -v a="$first" -v b="$last" 'BEGIN { printf "8 workers at rest: %.1f %% of a core\n", (b - a) / 10 }'
awk '/^VmRSS/ { r = $2 } /^Threads/ { t = $2 } END { printf "supervisor: %.1f MiB resident, %d threads\n", r / 1024, t }' "/proc/${TALLYD[a]}/status"
status_json | jq -r '[.partitions[].stats] | "store: \(map(.store_bytes) | add / 1048576 | floor) MiB for \(map(.streams_stored) | add) streams = \((map(.store_bytes) | add) / (map(.streams_stored) | add) | floor) bytes/stream"'
PLANNED=1
