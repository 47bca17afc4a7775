# cluster.sh - a cluster of real Apache Kafka brokers, for tests and for `make kafka`.
#
#	cluster_make 3; cluster_start      brokers 1..3, each broker and controller (KRaft)
#	kill_broker 2; start_broker 2      SIGKILL, and back on its port with its data
#	kafka_do create tally 8 replication=3
#
# All data is in $T/k1, $T/k2 ...; ports are free ones of the loopback; processes are children of the
# shell that sources this, and are ended by pid.  Needs from it: $T, tests/process.sh, bail.
#
# KAFKA_EXTRA   more lines of server.properties, for all brokers (before cluster_make)
# KAFKA_LISTEN  further listeners, as NAME:PROTOCOL words; their addresses are in LISTENERS[NAME]
# ADVERTISED    of a listener: what clients are told instead of where it is (a proxy's address)
# KAFKA_FORMAT  arguments of the storage tool: formats anew instead of cloning what the cache has

declare -A KAFKA_PID=()	# broker -> pid
declare -A LISTENERS=()	# name -> host:port,host:port
declare -A ADVERTISED=()
KAFKA_EXTRA=${KAFKA_EXTRA:-} KAFKA_LISTEN=${KAFKA_LISTEN:-} KAFKA_FORMAT=() KAFKA_COUNT=0
CLUSTER_ID=AAAAAAAAAAAAAAAAAAAAAA	# as fetch.sh formats it

# Below the range that the kernel gives to clients; nobody listens there now, and nobody here has got it
# before (in a file: it runs in a subshell).
free_port()
{
	local port
	while :; do
		port=$((10000 + ($(od -An -N2 -tu2 /dev/urandom) % 22000)))
		grep -qsx "$port" "$T/ports" || (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port" | tee -a "$T/ports"
}

random_id() { head -c 16 /dev/urandom | base64 | tr '+/' 'xy' | tr -d '=\n'; }

# The properties of broker $1; ports in PORTS (clients) and CONTROLLERS.
server_properties()
{
	local name protocol at listeners="PLAINTEXT://127.0.0.1:${PORTS[$1]}" map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
	local advertised=$listeners
	local copies=$((KAFKA_COUNT < 3 ? KAFKA_COUNT : 3))
	for name in $KAFKA_LISTEN; do
		protocol=${name#*:} name=${name%%:*}
		at=$(cut -d, -f"$1" <<<"${LISTENERS[$name]}")
		listeners="$listeners,$name://$at" map="$map,$name:$protocol"
		advertised="$advertised,$name://${ADVERTISED[$name]:-$at}"
	done
	cat <<-P
		process.roles=broker,controller
		node.id=$1
		controller.quorum.voters=$VOTERS
		controller.listener.names=CONTROLLER
		listeners=$listeners,CONTROLLER://127.0.0.1:${CONTROLLERS[$1]}
		advertised.listeners=$advertised
		listener.security.protocol.map=$map
		inter.broker.listener.name=PLAINTEXT
		log.dirs=$T/k$1/data
		auto.create.topics.enable=false
		offsets.topic.replication.factor=$copies
		offsets.topic.num.partitions=1
		transaction.state.log.replication.factor=$copies
		transaction.state.log.min.isr=1
		transaction.state.log.num.partitions=1
		share.coordinator.state.topic.replication.factor=1
		share.coordinator.state.topic.min.isr=1
		group.initial.rebalance.delay.ms=0
		group.min.session.timeout.ms=1000
		broker.session.timeout.ms=3000
		broker.heartbeat.interval.ms=500
		log.cleaner.backoff.ms=200
		log.cleaner.dedupe.buffer.size=8388608
		log.retention.check.interval.ms=500
		log.initial.task.delay.ms=500
		log.segment.delete.delay.ms=500
		file.delete.delay.ms=500
		num.network.threads=2
		num.io.threads=4
		num.replica.fetchers=1
		background.threads=2
		$KAFKA_EXTRA
	P
}

# cluster_make N: ports, properties, formatted storage.
cluster_make()
{
	local id name
	KAFKA_COUNT=$1 BROKERS='' VOTERS='' PORTS=() CONTROLLERS=()
	KAFKA=$(tests/kafka/fetch.sh) || bail 'no Apache Kafka'
	for ((id = 1; id <= KAFKA_COUNT; id++)); do
		PORTS[id]=$(free_port) CONTROLLERS[id]=$(free_port)
		BROKERS="$BROKERS${BROKERS:+,}127.0.0.1:${PORTS[id]}"
		VOTERS="$VOTERS${VOTERS:+,}$id@127.0.0.1:${CONTROLLERS[id]}"
		for name in $KAFKA_LISTEN; do
			name=${name%%:*}
			LISTENERS[$name]="${LISTENERS[$name]:-}${LISTENERS[$name]:+,}127.0.0.1:$(free_port)"
		done
	done
	for ((id = 1; id <= KAFKA_COUNT; id++)); do
		mkdir -p "$T/k$id"
		server_properties "$id" | sed 's/^[[:space:]]*//' >"$T/k$id/server.properties"
		if [ ${#KAFKA_FORMAT[@]} -gt 0 ]; then
			kafka_tool kafka.tools.StorageTool format -t "$CLUSTER_ID" \
				-c "$T/k$id/server.properties" "${KAFKA_FORMAT[@]}" >"$T/format.log" 2>&1 ||
				bail "the storage tool fails: $(tail -n 3 "$T/format.log")"
		else
			cp -r "$KAFKA/formatted" "$T/k$id/data"
			sed -i "s/^node.id=.*/node.id=$id/; s/^directory.id=.*/directory.id=$(random_id)/" \
				"$T/k$id/data/meta.properties"
		fi
	done
}

# A tool of Kafka's own: a class and its arguments.
kafka_tool() { java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$KAFKA/libs/*" "$@"; }

start_broker()
{
	spawn "kafka$1" java -Xms64m -Xmx"${KAFKA_HEAP:-256m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
		-cp "$KAFKA/libs/*" kafka.Kafka "$T/k$1/server.properties"
	KAFKA_PID[$1]=$PID
}

broker_answers() { kcat -L -b "127.0.0.1:${PORTS[$1]}" -m 1 -t __none; }
wait_broker()
{
	until_true 60 broker_answers "$1" || bail "broker $1 did not come up: $(tail -n 5 "$T/kafka$1.log")"
}

cluster_start()
{
	local id
	for ((id = 1; id <= KAFKA_COUNT; id++)); do start_broker "$id"; done
	for ((id = 1; id <= KAFKA_COUNT; id++)); do wait_broker "$id"; done
	until_true 30 eval '[ "$(kafka_members)" = $KAFKA_COUNT ]' || bail "the cluster has $(kafka_members) brokers"
}
kafka_members() { kcat -L -b "${BROKERS%%,*}" -m 2 -t __none 2>/dev/null | grep -c '^  broker '; }

kill_broker()
{
	kill -KILL "${KAFKA_PID[$1]}" 2>/dev/null
	wait "${KAFKA_PID[$1]}" 2>/dev/null
	unset "KAFKA_PID[$1]"
}

# The brokers that run.
brokers_up() { printf '%s\n' "${!KAFKA_PID[@]}" | sort -n; }

kafka_do() { "$B/tests/kafka-do" --brokers "$BROKERS" "$@"; }
