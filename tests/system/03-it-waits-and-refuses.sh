# 03-it-waits-and-refuses.sh - an unreachable broker is waited for and shown; what cannot be right is
# refused with one line that says what to do; SIGHUP reads what can be read again.
. "$(dirname "$0")/lib.sh"

broker partitions=4
broker_end

start_tallyd
eventually 'without a broker tallyd stays up, and says what it waits for' 'ctl status' 'no_broker' 20
eventually 'and logs which broker' "cat '$T/a.log'" "topic.waiting reason=no_broker brokers=.?$BROKERS" 10
wait_until http_address '[0-9]'
is "$(curl -s -o /dev/null -w '%{http_code}' "http://$(http_address)/healthz")" 200 'its query process is healthy meanwhile'
is "$(curl -s -o /dev/null -w '%{http_code}' "http://$(http_address)/ready")" 503 'but not ready'

broker_again
wait_ready 4
pass 'when the broker is there, all partitions become ready without a restart'

# SIGHUP: what can be read again is, what is wrong changes nothing.
write_config a clock_offset=5m log_level=info
kill -HUP "${TALLYD[a]}"
eventually 'SIGHUP reads clock_offset again' 'status_json | jq .clock_offset_ms' '^300000$' 10
echo 'nonsense: 1' >>"$T/a.yaml"
kill -HUP "${TALLYD[a]}"
eventually 'a reload that is wrong is refused with line and key' "cat '$T/a.log'" 'reload.refused.*:[0-9]+: nonsense' 10
is "$(status_json | jq .clock_offset_ms)" 300000 'and changes nothing'
alive "${TALLYD[a]}" && pass 'tallyd goes on'
write_config a
stop_tallyd
is $? 0 'the stop is orderly'

# A partition count that the topic has not.
write_config b kafka.partitions=8 kafka.group=other
timeout 30 "$B/tallyd" -c "$T/b.yaml" >"$T/refused.txt" 2>&1
is $? 2 'a configured partition count that differs ends it with exit code 2'
like "$(cat "$T/refused.txt")" 'has=4 kafka.partitions=8 action="set kafka.partitions to 4' 'and a line that says what to do'

# The configuration itself.
refused()
{
	printf '%s\n' "${@:2}" >"$T/bad.yaml"
	"$B/tallyd" -t -c "$T/bad.yaml" >"$T/refused.txt" 2>&1
	is "$? $(wc -l <"$T/refused.txt")" '2 1' "$1: exit code 2 and one line"
}
refused 'an unknown key' "run_dir: $T/c" 'kafka:' '  brokers: 127.0.0.1:1' '  topic: t' '  grup: x'
like "$(cat "$T/refused.txt")" 'bad.yaml:5: kafka.grup.*group' 'it names line, key and the nearest known one'
refused 'a property that is Tally'"'"'s own' "run_dir: $T/c" 'kafka:' '  brokers: 127.0.0.1:1' '  topic: t' '  properties:' '    group.id: x'
like "$(cat "$T/refused.txt")" 'bad.yaml:6: .*group.id.*kafka.group' 'it names the option to use instead'
refused 'a property that librdkafka does not know' "run_dir: $T/c" 'kafka:' '  brokers: 127.0.0.1:1' '  topic: t' '  properties:' '    no.such.thing: x'
like "$(cat "$T/refused.txt")" 'bad.yaml:6: kafka.properties: no.such.thing: librdkafka .* has no such property' 'it names line and property'
refused 'a value that librdkafka refuses' "run_dir: $T/c" 'kafka:' '  brokers: 127.0.0.1:1' '  topic: t' '  properties:' '    socket.timeout.ms: -5'
like "$(cat "$T/refused.txt")" 'bad.yaml:6: kafka.properties: socket.timeout.ms: .*outside allowed range' 'it names line and property'
refused 'a certificate that is not there' "run_dir: $T/c" 'kafka:' '  brokers: 127.0.0.1:1' '  topic: t' '  properties:' "    ssl.ca.location: $T/nope"
like "$(cat "$T/refused.txt")" "bad.yaml:6: .*ssl.ca.location: cannot read $T/nope: No such file or directory; " 'it names path, reason and what to do'
refused 'a missing topic name' "run_dir: $T/c" 'kafka:' '  brokers: 127.0.0.1:1'
like "$(cat "$T/refused.txt")" 'kafka.topic' 'it names the option'
refused 'a certificate for gRPC that is not there' "run_dir: $T/c" 'kafka:' '  brokers: 127.0.0.1:1' '  topic: t' 'query:' "  grpc_tls_cert: $T/nope" "  grpc_tls_key: $T/bad.yaml"
is "$(cat "$T/refused.txt")" "tallyd: $T/bad.yaml:6: query.grpc_tls_cert: $T/nope: No such file or directory; create it, or correct the path" 'it names line, option, path, reason and what to do'
refused 'one address for gRPC and HTTP' "run_dir: $T/c" 'kafka:' '  brokers: 127.0.0.1:1' '  topic: t' 'query: {grpc_listen: 127.0.0.1:3100}'
like "$(cat "$T/refused.txt")" 'bad.yaml:5: query.grpc_listen: 127.0.0.1:3100 is the address of query.http_listen, too' 'it names both options'
is "$("$B/tallyd" -c "$T/nope" 2>&1)" "tallyd: $T/nope: No such file or directory; create it, or correct the path" 'a file of options that is not there'
is "$("$B/tallyd" 2>&1)" 'tallyd: -c FILE is missing, like -c /etc/tally/tally.yaml' 'and one that is not named'
ok 'the sample file is good' "$B/tallyd" -t -c etc/tally.yaml

# What cannot be meant, yet works.
printf '%s\n' "run_dir: $T/c" 'kafka:' '  brokers: localhost' '  topic: t' '  properties:' '    sasl.mechanism: SCRAM-SHA-512' >"$T/odd.yaml"
"$B/tallyd" -t -c "$T/odd.yaml" >"$T/odd.txt" 2>&1
is $? 0 'a host without a port and properties without use are good'
like "$(cat "$T/odd.txt")" 'warn kafka.unused property=sasl.mechanism hint="security.protocol is plaintext; set it to sasl_ssl"' 'but said'
version=$("$B/tallyd" --version | sed -n 's/^librdkafka \([0-9.]*\).*/\1/p')
if [ "$(printf '%s\n' "$version" 2.6.1 | sort -V | head -1)" = 2.6.1 ]; then
	unlike "$(cat "$T/odd.txt")" 'kafka.scram' 'this librdkafka has SCRAM that works'
else
	like "$(cat "$T/odd.txt")" 'warn kafka.scram needs=2.6.1 has=' 'so is that SCRAM of this librdkafka is refused by brokers of today'
fi
# A query process that cannot live, which nobody would see: tallyd and its workers are well.
printf '#!/bin/sh\nexit 1\n' >"$T/dies"
chmod +x "$T/dies"
start_tallyd q supervisor.query_program="$T/dies"
eventually 'the status says that query processes die' 'ctl status' 'QUERYD HAS DIED [0-9]+ times?, the last [0-9.]+ s ago \(exit 1\): nobody answers gRPC or HTTP; see "queryd error" in the log' 20
like "$(ctl check --admit a 1 2>&1)" "no tally-queryd listens for .*: 'tallyctl status' says whether it is starting, dying or disabled" 'so does who asks it'
stop_tallyd q
is $? 0 'the stop is orderly'
done_testing
