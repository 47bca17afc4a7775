# lib.sh - what every test on real Kafka is made of: the system tests' lib.sh, on a real cluster.
#
#	. "$(dirname "$0")/lib.sh"
#	broker partitions=2 cleanup.policy=compact
#	put 0 <<<'now tenant-0 auto 10'
BROKER=kafka
. "$(dirname "${BASH_SOURCE[0]}")/../system/lib.sh"

# put PARTITION [options of kafka-do put]: records on stdin, see kafka-do.c.
put() { kafka_do put "$TOPIC" "$@" >"$T/put.txt" 2>&1 || die "kafka-do put $*" "$(tail -n 3 "$T/put.txt")"; }
