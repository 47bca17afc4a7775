#!/bin/bash
# run.sh - `make kafka`: a cluster of real Kafka in the foreground, and how to point tallyd at it.
#
#	BROKERS=3 PARTITIONS=8 TOPIC=tally tests/kafka/run.sh
#
# Its data is in a directory of its own, which goes with it.  Ctrl-C ends it.
set -u
cd "$(dirname "$0")/../.." || exit 1
B=$(realpath "${B:-build}") count=${BROKERS:-1} topic=${TOPIC:-tally} partitions=${PARTITIONS:-8}
T=$(mktemp -d "${TMPDIR:-/tmp}/tally-kafka.XXXXXX") || exit 1

bail() { echo "$*" >&2; exit 1; }
finish()
{
	trap - EXIT
	trap '' INT TERM
	{ kill -KILL "${KAFKA_PID[@]}"; wait; } 2>/dev/null
	rm -rf "$T"
}
trap finish EXIT
trap 'exit 0' INT TERM

. tests/process.sh
. tests/kafka/cluster.sh
echo "starting $count broker(s) of Apache Kafka $(sed -n 's:.*<kafka.version>\(.*\)</.*:\1:p' tests/kafka/pom.xml) ..."
cluster_make "$count"
cluster_start
kafka_do create "$topic" "$partitions" "replication=$((count < 3 ? count : 3))" || exit 1
cat <<-TEXT

	Kafka is up: $BROKERS   topic $topic, $partitions partitions   data and logs: $T

	  in tally.yaml     kafka:
	                      brokers: "$BROKERS"
	                      topic: $topic
	  records           $B/tally-load --brokers $BROKERS --topic $topic --records 10000
	  look into it      kcat -b ${BROKERS%%,*} -C -t $topic -e -f '%p %o %T %k\n' | head
	  its own tools     java -cp '$KAFKA/libs/*' org.apache.kafka.tools.TopicCommand --bootstrap-server ${BROKERS%%,*} --describe

	Ctrl-C ends it.
	TEXT
wait
