# 45-client.sh - what libtally costs a caller: ns per look-up and check at STREAMS streams in 64 partitions,
# with the stores at rest and with a writer at full speed.
exec "$B/bench/bench_client" "${STREAMS:-1000000}"
