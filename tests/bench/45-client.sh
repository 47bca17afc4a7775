# 45-client.sh - what libtally costs a caller at STREAMS streams in 64 partitions, with the stores at rest
# and with a writer at full speed; and whether the count depends on the number of streams.
. "$(dirname "$0")/lib.sh"

measure client "$B/bench/bench_client" "${STREAMS:-1000000}"
measure client_100k "$B/bench/bench_client" 100000 64 policies
PLANNED=1
