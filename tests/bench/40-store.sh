# 40-store.sh - the same records into a table in memory, our store, plain LMDB and Redis; a day of churn;
# what decoding a record costs.
. "$(dirname "$0")/lib.sh"

# The program of redis-server is in redis-tools, by another name; the package of the first name starts a service.
spawn redis bash -c "exec -a redis-server redis-check-rdb --port 0 --unixsocket $T/redis.sock --save '' --appendonly no --dir $T"
until_true 10 redis-cli -s "$T/redis.sock" ping || bail "no redis: $(tail -n 3 "$T/redis.log")"
measure store "$B/bench/stores" -d "$T" -n "${STREAMS:-1000000}" -r "$ROUNDS" table tally lmdb "redis=$T/redis.sock"
measure churn "$B/bench/churn" "$(pick 20000 100000)" 1440 "$T"

"$B/tally-load" --topic x --partitions 1 --partition 0 --records 500000 --tenants 1000 --streams 100 --policies 1 \
	--dump "$T/part.dump" >/dev/null 2>&1 || bail 'tally-load --dump'
mkdir "$T/store"
line=$("$B/bench/file_source" "$T/part.dump" "$T/store" 1 0 250000 2>/dev/null) || bail 'file_source'
say store.decode "$(fields "$line" decode_ns)"
PLANNED=1
