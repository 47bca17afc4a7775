# 20-revoke.sh - revocation of many partitions: from the event to the acknowledgement.
#
# The supervisor's own fleet with real workers; PARTITIONS (64) with STREAMS (100 000) streams each.
. "$(dirname "$0")/../system/lib.sh"

N=${N:-64}
STREAMS=${STREAMS:-100000}	# of each partition
ROUNDS=${ROUNDS:-3}

broker partitions="$N"
note "writing $((N * STREAMS)) streams"
produce --records $((N * STREAMS)) --tenants 10 --streams $((N * STREAMS / 10)) --popularity each --size 100-100 --seed 1 \
	--compression zstd --linger 200
write_config a kafka.session_timeout=45s kafka.max_poll_interval=5m replay.concurrency=16 log_level=warn
"$B/bench/revoke" "$T/a.yaml" "$B/tally-worker" "$N" "$ROUNDS" 2>"$T/a.log" >"$T/rounds.txt" || bail "revoke: $(tail -n 3 "$T/a.log")"
cat "$T/rounds.txt"
awk '{ for (i = 1; i <= NF; i++) { split($i, kv, "="); if (kv[1] == "revoked_ms") print kv[2] } }' "$T/rounds.txt" | sort -g |
	awk '{ v[NR] = $1 } END { printf "revocation, median                     %.1f ms\n", v[int((NR + 1) / 2)] }'
PLANNED=1
