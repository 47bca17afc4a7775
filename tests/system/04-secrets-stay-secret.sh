# 04-secrets-stay-secret.sh - what kafka.secret_files and kafka.properties say in confidence is in no
# argument, environment, log, name, page or file of the run directory, and the query process opens no
# secret file.
. "$(dirname "$0")/lib.sh"

# The broker speaks no SASL and no TLS: librdkafka takes the values, and has no use for them.
A=hush-file-pw B1=hush-file-key C=hush-inline
echo $A >"$T/pw"; printf -- '-----BEGIN-----\n%s\n' $B1 >"$T/pem"
chmod 600 "$T/pw" "$T/pem"
echo hush-file-rack >"$T/rack"; chmod 600 "$T/rack"	# nothing that librdkafka itself thinks secret
secret_files="{sasl.password: $T/pw, ssl.ca.pem: $T/pem, client.rack: $T/rack}"
PRINTS='hush-(file|inline)'

tree() { echo "${TALLYD[$INSTANCE]}"; pgrep -P "${TALLYD[$INSTANCE]}"; }

# holds PID TEXT: it is in the writable memory of this process (the stores are not: they are mapped files).
holds()
{
	perl -e '
		my ($pid, $text, $found) = (@ARGV, 1);
		open my $maps, "<", "/proc/$pid/maps" or exit 2;
		open my $mem, "<:raw", "/proc/$pid/mem" or exit 2;
		while (<$maps>) {
			next unless m{^([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ \S+\s+(/|\[v)?}a && !$3;
			my ($at, $end, $data) = (hex $1, hex $2, "");
			for (my $n; $at < $end; $at += $n) {
				sysseek $mem, $at, 0;
				$n = sysread($mem, $data, $end - $at < 1 << 20 ? $end - $at : 1 << 20, length $data) or last;
			}
			$found = 0 if index($data, $text) >= 0;
		}
		exit $found' "$1" "$2"
}

broker partitions=2
start_tallyd log_level=debug kafka.properties.debug=all kafka.properties.sasl.mechanism=SCRAM-SHA-512 \
	kafka.properties.sasl.username=tally kafka.properties.ssl.keystore.password=$C \
	kafka.secret_files="$secret_files"
chmod 600 "$T/a.yaml"
produce --records 500
wait_ready 2
wait_until http_address '[0-9]'
eventually 'the log has what librdkafka says of itself' "grep -c 'kafka.log facility=INIT' '$T/a.log'" '^[1-9]' 10
is "$(tree | wc -l)" 4 'there are a supervisor, two workers and the query process'

ok 'the secret has arrived in the supervisor' holds "${TALLYD[a]}" $A
ok 'and in a worker' holds "$(pid_of 0)" $B1
query=$(status_json | jq .query_pid)
# It reads tally.yaml itself, and forgets what it can of $C: copies in registers and on stacks may stay.
# Only root can look into it (2: nobody else), see supervisor.confine.
for secret in $A $B1; do
	holds "$query" $secret; like $? "^[1$([ "$(id -u)" = 0 ] || echo 2)]\$" "$secret is not in the query process"
done

for what in cmdline environ comm; do
	is "$(for p in $(tree); do tr '\0' ' ' <"/proc/$p/$what"; done | grep -cE "$PRINTS")" 0 "none is in any $what"
done
is "$(grep -cE "$PRINTS" "$T/a.log")" 0 'none is in the log, at debug and with debug: all'
is "$(grep -rlaE "$PRINTS" "$(run_dir)" | wc -l)" 0 'none is in the run directory: table, stats, stores'
is "$("$B/tallyd" --print-config | grep -cE "$PRINTS")" 0 'none is in --print-config'
is "$({ ctl status; ctl --json status; ctl top; ctl --json top; } 2>&1 | grep -cE "$PRINTS")" 0 'none is in what tallyctl says'
paths='/metrics /healthz /ready /api/v1/instance /api/v1/partitions /api/v1/tenants'
is "$(for path in $paths; do http $path || echo hush-file-failed; done | grep -cE "$PRINTS")" 0 'none is in what HTTP says'
like "$(http /metrics)" 'tally_up 1' 'and HTTP said something'

# The query process has no use for the files.
mv "$T/pw" "$T/elsewhere"
kill -KILL "$query"
eventually 'a query process that cannot read them starts all the same' \
	"status_json | jq '.query_pid != 0 and .query_pid != $query'" '^true$' 20
eventually 'and answers' 'http /healthz' '"ok"' 20

# SIGHUP: workers that start afterwards get the new secret.
echo hush-file-new >"$T/pw"; chmod 600 "$T/pw"
kill -HUP "${TALLYD[a]}"
eventually 'SIGHUP reads the files again' "cat '$T/a.log'" 'info reload.secrets files=3' 10
worker=$(pid_of 0)
ok 'a running worker keeps its secret' holds "$worker" $A
kill -KILL "$worker"
eventually 'one that starts has the new one' 'holds "$(pid_of 0)" hush-file-new' '' 20
holds "$(pid_of 0)" $A; is $? 1 'and not the old one'
: >"$T/pw"
kill -HUP "${TALLYD[a]}"
eventually 'a file that cannot be used changes nothing' "cat '$T/a.log'" "error reload.secrets_refused.*$T/pw: is empty.*old values stay" 10
kill -KILL "$(pid_of 1)"
eventually 'workers go on with what was there' 'holds "$(pid_of 1)" hush-file-new' '' 20
rm "$T/pw"

# What is wrong is one line with path and reason.
refused()
{
	"$B/tallyd" $2 -c "$T/a.yaml" >"$T/refused.txt" 2>&1
	is "$? $(wc -l <"$T/refused.txt")" '2 1' "$1: exit code 2 and one line"
}
refused "a file that is missing" -t
like "$(cat "$T/refused.txt")" "a.yaml:[0-9]+: kafka.secret_files: sasl.password: $T/pw: No such file or directory; " 'it names property, path and reason'
: >"$T/pw"
refused "an empty file, without -t" ""
like "$(cat "$T/refused.txt")" "$T/pw: is empty" 'it says so'
printf 'hush-file\0pw\n' >"$T/pw"
refused "a file with a NUL byte" -t
unlike "$(cat "$T/refused.txt")" "$PRINTS" 'the line shows nothing of it'
mv "$T/elsewhere" "$T/pw"

# Others can read it: said, not refused.
unlike "$("$B/tallyd" -t -c "$T/a.yaml" 2>&1)" 'secret.exposed' 'files of mode 0600 are nothing to speak of'
chmod 644 "$T/pw"
like "$("$B/tallyd" -t -c "$T/a.yaml" 2>&1)" "warn secret.exposed file=$T/pw mode=0644 property=sasl.password.*: ok" \
	'a file that every user can read is warned of'
chmod 600 "$T/pw"; chmod 644 "$T/a.yaml"
like "$("$B/tallyd" -t -c "$T/a.yaml" 2>&1)" "secret.exposed file=$T/a.yaml mode=0644 property=ssl.keystore.password" \
	'so is a configuration with a password in it'
stop_tallyd
is $? 0 'the stop is orderly'
is "$(grep -cE "$PRINTS" "$T/a.log")" 0 'the log stayed clean to its end'
done_testing
