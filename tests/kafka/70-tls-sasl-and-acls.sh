# 70-tls-sasl-and-acls.sh - TLS with client certificates, SASL and ACLs that grant only what the manual
# lists: it works; what is wrong is said in one clear line, tried again, and found by itself when it
# has been put right.
. "$(dirname "$0")/lib.sh"
. tests/kafka/certs.sh

PASSWORD=right-horse-7 KEY_PASSWORD=locked-key-5
make_certs "$KEY_PASSWORD"
KAFKA_LISTEN='MUTUAL:SSL SCRAM:SASL_SSL PLAIN:SASL_SSL BEARER:SASL_PLAINTEXT'
KAFKA_FORMAT=(--add-scram "SCRAM-SHA-512=[name=tally,password=$PASSWORD]" --add-scram "SCRAM-SHA-256=[name=tally,password=$PASSWORD]")
login=org.apache.kafka.common.security
KAFKA_EXTRA="
$(tls_properties)
listener.name.mutual.ssl.client.auth=required
listener.name.mutual.ssl.principal.mapping.rules=RULE:^CN=([a-z]+)\$/\$1/
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256
listener.name.scram.scram-sha-512.sasl.jaas.config=$login.scram.ScramLoginModule required;
listener.name.scram.scram-sha-256.sasl.jaas.config=$login.scram.ScramLoginModule required;
listener.name.plain.sasl.enabled.mechanisms=PLAIN
listener.name.plain.plain.sasl.jaas.config=$login.plain.PlainLoginModule required user_tally=\"$PASSWORD\";
listener.name.bearer.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.bearer.oauthbearer.sasl.jaas.config=$login.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"
broker partitions=4
produce --records 4000 --tenants 3 --streams 200 --seed "$SEED"

# What the manual lists, and nothing else.
allow() { kafka_do acl allow User:tally "$@" || die "acl allow $*"; }
forbid() { kafka_do acl drop User:tally "$@" || die "acl drop $*"; }
allow describe topic:"$TOPIC"
allow read topic:"$TOPIC"
allow write topic:"$TOPIC"
allow read group:tally

echo "$PASSWORD" >"$T/password"; echo "$KEY_PASSWORD" >"$T/key-password"; echo wrong-horse-8 >"$T/wrong-password"
chmod 600 "$T"/*password
trust=(kafka.properties.ssl.ca.location="$T/tls/ca.pem")
certificate=(kafka.properties.ssl.certificate.location="$T/tls/tally.pem" kafka.properties.ssl.key.location="$T/tls/tally-locked.key"
	kafka.secret_files.ssl.key.password="$T/key-password")
at() { echo "kafka.brokers=\"${LISTENERS[$1]}\""; }
scram() { printf '%s\n' kafka.properties.security.protocol=sasl_ssl kafka.properties.sasl.mechanism="$1" \
	kafka.properties.sasl.username=tally kafka.secret_files.sasl.password="$2"; }
mapfile -t scram512 < <(scram SCRAM-SHA-512 "$T/password")
mapfile -t scram256 < <(scram SCRAM-SHA-256 "$T/password")
mapfile -t plain < <(scram PLAIN "$T/password")
mapfile -t wrong < <(scram SCRAM-SHA-512 "$T/wrong-password")

# serves NAME INSTANCE key=value...: all is read, nothing else is needed.
serves()
{
	start_tallyd "$2" "${@:3}"
	wait_ready 4 40
	same_as_oracle "$1: all is read"
	is "$(grep -cE ' (warn|error) ' "$T/$2.log")" 0 '... without a complaint'
	stop_tallyd
	is $? 0 '... it stops in order'
}
serves 'TLS with a client certificate and a locked key' mutual "$(at MUTUAL)" kafka.properties.security.protocol=ssl "${trust[@]}" "${certificate[@]}"
serves 'SASL/PLAIN over TLS' plain "$(at PLAIN)" "${trust[@]}" "${plain[@]}"

# complains NAME PATTERN STATUS [ATTEMPT]: one clear line that says what is wrong; nobody dies; it is tried
# again, more often than lines are allowed.  Attempts are seen in what librdkafka says of itself (TRACE):
# an error that it has told in the last half minute it does not repeat.
TRACE=kafka.properties.debug=broker,protocol
complaints() { grep -E '^[^ ]+ [^ ]+ (warn|error) ' "$T/$INSTANCE.log"; }
attempts() { grep -cE "facility=(CONNECT|SEND) .*$1" "$T/$INSTANCE.log"; }
complains()
{
	local pid=${TALLYD[$INSTANCE]} attempt=${4:-in state TRY_CONNECT connecting} most=${LINES_MOST:-4} before lines
	eventually "$1: the log says so" complaints "$2" 30
	eventually '... and the status' 'ctl status 2>&1' "$3" 20
	before=$(attempts "$attempt")
	eventually '... it tries again, and again' "test \$(attempts '$attempt') -gt $((before + most))" '' 30
	lines=$(complaints | wc -l)
	note "$(complaints | cut -c1-300)"
	ok "... in few lines ($lines)" test "$lines" -le "$most"
	ok '... tallyd goes on' alive "$pid"
}

# What Debian 12's librdkafka cannot do with a broker of today: SCRAM, and OAUTHBEARER without crashing.
# It is said ...
bearer=("$(at BEARER)" kafka.properties.security.protocol=sasl_plaintext kafka.properties.sasl.mechanism=OAUTHBEARER
	kafka.properties.enable.sasl.oauthbearer.unsecure.jwt=true kafka.properties.sasl.oauthbearer.config='"principal=tally lifeSeconds=20"')
like "$("$B/tallyd" --version)" 'SASL/SCRAM is refused by brokers.*Kafka 4' 'tallyd --version tells of SCRAM'
write_config old "${bearer[@]}"
"$B/tallyd" -t -c "$T/old.yaml" >"$T/old.txt" 2>&1
is $? 2 'OAUTHBEARER that would crash is refused'
like "$(cat "$T/old.txt")" 'unsecure.jwt.*2\.2' '... with the version that it needs'
start_tallyd e "$(at SCRAM)" $TRACE "${trust[@]}" "${scram512[@]}"
complains 'SCRAM that this library cannot do' 'kafka.refused reason=login_refused .*SCRAM.*tallyd --version' 'login_refused'
stop_tallyd
is $? 0 '... and stops in order'

# ... and a newer library, with the same programs, does it.
newer_library()
{
	local TALLYD_PROGRAM=$B/variants/newest/tallyd
	[ -x "$TALLYD_PROGRAM" ] || die "$TALLYD_PROGRAM is not there: make newest"
	unlike "$("$TALLYD_PROGRAM" --version)" 'librdkafka 2\.0\.' 'a newer librdkafka is there'
	serves 'SASL/SCRAM-SHA-512 over TLS, newer librdkafka' scram512 "$(at SCRAM)" "${trust[@]}" "${scram512[@]}"
	serves 'SASL/SCRAM-SHA-256 over TLS, newer librdkafka' scram256 "$(at SCRAM)" "${trust[@]}" "${scram256[@]}"
	serves 'SASL/OAUTHBEARER, newer librdkafka' bearer "${bearer[@]}"
	start_tallyd a "$(at SCRAM)" $TRACE "${trust[@]}" "${wrong[@]}"
	complains 'a wrong password' 'kafka.refused reason=login_refused .*action="check sasl' 'login_refused'
	kafka_tool org.apache.kafka.tools.ConfigCommand --bootstrap-server "$BROKERS" --alter --entity-type users --entity-name tally \
		--add-config "SCRAM-SHA-512=[password=$(cat "$T/wrong-password")]" >"$T/alter.txt" 2>&1 || die 'ConfigCommand' "$(cat "$T/alter.txt")"
	wait_until ready_count '^4$' 40
	pass '... when the broker has that password, it goes on by itself'
	stop_tallyd
}
if why=$(tests/kafka/librdkafka.sh 2>&1 >/dev/null); then newer_library; else skip "with a newer library: $why"; fi
is "$(grep -lF -e "$PASSWORD" -e "$KEY_PASSWORD" "$T"/*.log | grep -v kafka)" '' 'no log has a password'

start_tallyd b "$(at MUTUAL)" $TRACE kafka.properties.security.protocol=ssl kafka.properties.ssl.ca.location="$T/tls/other-ca.pem" "${certificate[@]}"
complains 'a wrong CA' 'kafka.refused reason=tls_failed .*ssl.ca.location' 'tls_failed'
stop_tallyd
start_tallyd c "$(at MUTUAL)" $TRACE kafka.properties.security.protocol=ssl "${trust[@]}"
complains 'no client certificate' 'kafka.refused reason=tls_failed .*certificate' 'tls_failed'
stop_tallyd

# ACLs, one after the other.
for operation in describe read write; do forbid $operation topic:"$TOPIC"; done; forbid read group:tally
start_tallyd d "$(at MUTUAL)" $TRACE kafka.properties.security.protocol=ssl "${trust[@]}" "${certificate[@]}"
complains 'no ACL for the topic' "kafka.refused reason=not_allowed topic=$TOPIC .*grant DESCRIBE and READ" 'not_allowed' 'Sent MetadataRequest'
allow describe topic:"$TOPIC"
complains 'no ACL for the group' 'kafka.refused reason=not_allowed group=tally .*grant READ' 'not_allowed' 'Sent FindCoordinatorRequest'
allow read group:tally
LINES_MOST=10 complains 'only DESCRIBE on the topic' 'replay.denied .*action="grant READ' 'degraded' 'Sent FetchRequest'
allow read topic:"$TOPIC"
wait_ready 4 60
same_as_oracle 'with all ACLs it goes on by itself, and all is read'

# Taken away while it runs.
before=$(fields "$(facts)" partition generation)
forbid read topic:"$TOPIC"
produce --records 400 --tenants 3 --streams 200 --seed "$SEED"
eventually 'an ACL that is taken away is shown' 'part 0 stats.problems' 'degraded' 30
is "$(status_json | jq '[.partitions[].restarts] | add')" 0 '... nobody is started again for it'
allow read topic:"$TOPIC"
eventually '... given back, reading goes on' 'fields "$(facts)" records | sum' '^4400$' 30
is "$(fields "$(facts)" partition generation)" "$before" '... in the same stores'
same_as_oracle '... and all is read'
stop_tallyd
is $? 0 'it stops in order'

# WRITE, seen by what a worker writes with (tests/unit/test_emit.c): without it on any topic, and on this.
emitter()
{
	spawn "emitter$1" "$B/unit/test_emit" "${LISTENERS[MUTUAL]}" "$TOPIC" "$2" "$3" "$(date +%s)" 0 security.protocol=ssl \
		"${trust[0]#kafka.properties.}" ssl.certificate.location="$T/tls/tally.pem" \
		ssl.key.location="$T/tls/tally-locked.key" ssl.key.password="$KEY_PASSWORD"
	EMITTER=$PID
}
written() { "$B/tests/log-dump" --brokers "$BROKERS" --topic "$TOPIC" | awk -F '\t' '$11 != "" && $11 != "-" { print $12 }' | wc -l; }
emitter 1 1 100; FIRST=$EMITTER
eventually 'no ACL to write: the log says so' "cat '$T/emitter1.log'" 'emit.failed .*action="grant WRITE' 30
allow write topic:other
emitter 2 101 200
eventually '... nor one for another topic only' "cat '$T/emitter2.log'" 'emit.failed .*Topic authorization failed.*action="grant WRITE' 30
still_trying() { alive "$FIRST" && alive "$EMITTER" && [ "$(written)" = 0 ]; }
ok '... both go on trying' still_trying
allow write topic:"$TOPIC"
wait "$EMITTER"
is $? 0 '... when it is granted, all is written'
eventually '... by both' written '^200$' 30
done_testing
