# 40-store.sh - what the store alone costs: ns per record and look-up, bytes per stream, at STREAMS streams.
exec "$B/bench/bench_store" "${STREAMS:-1000000}"
