#!/bin/bash
# run.sh - `make kafka`: a cluster of real Kafka in the foreground, and how to point tallyd at it.
#
#	BROKERS=3 PARTITIONS=8 TOPIC=tally tests/kafka/run.sh
#
# Its data is in a directory of its own, which goes with it, and so does a tally.yaml that is ready to be
# used.  Ctrl-C, or TERM to the process that is named, ends it.  KAFKA_LISTEN and KAFKA_EXTRA (cluster.sh)
# add listeners with TLS or SASL.
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
version=$(sed -n 's:.*<kafka.version>\(.*\)</.*:\1:p' tests/kafka/pom.xml)
echo "Apache Kafka $version: fetching it when it is not there yet ..."
tests/kafka/fetch.sh >/dev/null || exit 1
echo "starting $count broker(s) ..."
cluster_make "$count"
cluster_start
kafka_do create "$topic" "$partitions" "replication=$((count < 3 ? count : 3))" || exit 1
cat >"$T/tally.yaml" <<-YAML
	run_dir: $T/run
	kafka:
	  brokers: "$BROKERS"
	  topic: $topic
	query:
	  http_listen: 127.0.0.1:0
	  grpc_listen: 127.0.0.1:0
	YAML
cat <<-TEXT

	Kafka is up: $BROKERS   topic $topic, $partitions partitions   data and logs: $T
	$(for name in "${!LISTENERS[@]}"; do echo "listener $name: ${LISTENERS[$name]}"; done)
	  tallyd            $B/tallyd -c $T/tally.yaml
	  what it says      $B/tallyctl -d $T/run status
	  records           $B/tally-load --brokers $BROKERS --topic $topic --records 10000
	  look into it      kcat -b ${BROKERS%%,*} -C -t $topic -c 10 -f '%p %o %T %k\n'
	  topics            $B/tests/kafka-do --brokers $BROKERS grow $topic $((partitions + 4))
	  its own tools     java -cp '$KAFKA/libs/*' org.apache.kafka.tools.TopicCommand --bootstrap-server ${BROKERS%%,*} --describe

	Ctrl-C, or kill $$, ends it.
	TEXT
wait
