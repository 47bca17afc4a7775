# 71-a-new-password.sh - secrets are read again on SIGHUP: a worker that was started with a wrong one, and
# a member that cannot log in, go on by themselves; a topic that is deleted is called that.
. "$(dirname "$0")/lib.sh"

KAFKA_LISTEN='PLAIN:SASL_PLAINTEXT'
login=org.apache.kafka.common.security.plain.PlainLoginModule
KAFKA_EXTRA="
listener.name.plain.sasl.enabled.mechanisms=PLAIN
listener.name.plain.plain.sasl.jaas.config=$login required user_tally=\"right-horse-7\";
"
broker partitions=2
produce --records 1000 --tenants 3 --streams 200 --seed "$SEED"
password() { (umask 077; echo "$1" >"$T/password"); kill -HUP "${TALLYD[a]}"; eventually "... the files are read again" "grep -c ' info reload.secrets ' '$T/a.log'" "^$2\$" 10; }
(umask 077; echo right-horse-7 >"$T/password")
start_tallyd a "kafka.brokers=\"${LISTENERS[PLAIN]}\"" kafka.properties.security.protocol=sasl_plaintext \
	kafka.properties.sasl.mechanism=PLAIN kafka.properties.sasl.username=tally kafka.secret_files.sasl.password="$T/password"
wait_ready 2
before=$(fields "$(facts)" partition generation)

# A bad rotation, and then a crash.
password wrong-horse-8 1
kill -KILL "$(pid_of 0)"
eventually 'a worker that was started with a wrong password is refused' "grep -c 'worker.0. error kafka.refused' '$T/a.log'" '^[1-9]' 20
eventually '... and is not ready' ready_count '^1$' 10
other=$(pid_of 1)
password right-horse-7 2
eventually 'put right, it is started again and goes on' ready_count '^2$' 20
is "$(pid_of 1)" "$other" '... the one that reads is left alone'
is "$(fields "$(facts)" partition generation)" "$before" '... in the same stores'
same_as_oracle 'all is read'

# The member itself: it starts with a wrong password.
stop_tallyd
(umask 077; echo wrong-horse-8 >"$T/password")
: >"$T/a.log"
start_tallyd a
eventually 'a start with a wrong password is refused' 'ctl status 2>&1' 'login_refused' 20
password right-horse-7 1
wait_until ready_count '^2$' 60
pass 'put right, it logs in without a restart'
is "$(fields "$(facts)" partition generation)" "$before" '... and adopts its stores'

# The topic goes.
kafka_do delete "$TOPIC" || die 'kafka-do delete'
eventually 'a topic that is deleted is called that' 'ctl status 2>&1' 'no_topic' 30
is "$(grep -c 'warn topic.gone' "$T/a.log")" 1 '... in one line of the log'
make_topic "$TOPIC" 2
produce --records 500 --tenants 3 --streams 200 --seed $((SEED + 1))
eventually 'made again, it is served' 'fields "$(facts)" records | sum' '^500$' 60
wait_until ready_count '^2$' 60
eventually '... by a member' 'status_json | jq -r .group_state' '^member$' 30
same_as_oracle 'all is read'
stop_tallyd
is $? 0 'it stops in order'
done_testing
