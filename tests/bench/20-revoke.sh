# 20-revoke.sh - revocation of many partitions: from the event to the acknowledgement.
#
# The supervisor's own fleet with real workers; PARTITIONS (64) with STREAMS streams each.
. "$(dirname "$0")/lib.sh"

N=${N:-64}
STREAMS=${STREAMS:-$(pick 10000 100000)}	# of each partition

broker partitions="$N"
produce --records $((N * STREAMS)) --tenants 10 --streams $((N * STREAMS / 10)) --popularity each --size 100-100 --seed 1 \
	--compression zstd --linger 200
write_config a kafka.session_timeout=45s kafka.max_poll_interval=5m replay.concurrency=16 log_level=warn
"$B/bench/revoke" "$T/a.yaml" "$B/tally-worker" "$N" "$ROUNDS" 2>"$T/a.log" >"$T/rounds.txt" || bail "revoke: $(tail -n 3 "$T/a.log")"
cat "$T/rounds.txt"
say revoke.partitions "$N"
say revoke.streams "$(fields "$(tail -n 1 "$T/rounds.txt")" streams)"
say revoke.ms "$(fields "$(<"$T/rounds.txt")" revoked_ms | median)"
PLANNED=1
