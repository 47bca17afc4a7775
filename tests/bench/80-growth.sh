# 80-growth.sh - the time of a record and of a look-up, as streams, tenants and partitions become more.
#
# A record: usage_add and the batch's commit, in batches as a single replay makes them by default.  A look-up:
# tally_check of one known stream, nobody writing.
. "$(dirname "$0")/lib.sh"

MOST=${MOST:-$(pick 3000000 10000000)}
# batch STREAMS TENANTS: replay_batch of worker/replay.c; a tenant has one policy with a name and one without: two rows.
batch()
{
	local most
	most=$(printf '%s\n' 250000 $(($1 / 4)) $((50 * 2 * $2)) | sort -g | tail -n 1)
	echo $((most > 1000000 ? 1000000 : most))
}
store() { measure "$1" "$B/bench/stores" -d "$T" -n "$2" -t "$3" -b "$(batch "$2" "$3")" -r "$ROUNDS" table tally; }
client() { measure "$1" "$B/bench/bench_client" "$2" "$3" check_1; }

say growth.most "$(calc "$MOST / 1e6")"
for n in 100000 1000000 "$MOST"; do
	store growth.streams_$n "$n" 10
	client growth.streams_$n "$n" 64
done
sed -i "s/^growth.streams_$MOST\./growth.streams_most./" "$RESULTS"
for n in 1 100 10000; do store growth.tenants_$n 1000000 $n; done
for n in 1 8; do client growth.partitions_$n 1000000 $n; done
PLANNED=1
