# 53-confined.sh - workers and query process are confined: seen from outside, in all their threads, and
# tried from inside; they do their work all the same, and find what is renewed or comes later.
. "$(dirname "$0")/lib.sh"
. tests/kafka/certs.sh

# Code of a stranger in our programs, which are found by the directory of tallyd.
D=$B/tests/intruder
rm -rf "$D"; mkdir -p "$D"
${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O -Wall -Wextra -Werror -shared -fPIC -o "$D/intruder.so" tests/system/intruder.c ||
	bail 'the intruder does not compile'
for program in worker queryd; do
	printf '#!/bin/sh\nexec env INTRUDER_DIR=%q LD_PRELOAD=%q %q "$@"\n' "$T" "$D/intruder.so" "$B/tally-$program" >"$D/$program"
	chmod 755 "$D/$program"
done
echo secret >"$T/secret"
sanitized=$(grep -ac -e __asan_init -e __tsan_init "$B/tally-worker")
intruder=()
[ "$sanitized" != 0 ] || intruder=(supervisor.worker_program="$D/worker" supervisor.query_program="$D/queryd")

make_certs unused
mkdir "$T/grpc"; chmod 700 "$T/grpc"
cp "$T/tls/server.pem" "$T/grpc/cert"; cp "$T/tls/server.key" "$T/grpc/key"
broker partitions=2
produce --records 1000 --tenants 3
start_tallyd "${intruder[@]}" query.grpc_tls_cert="$T/grpc/cert" query.grpc_tls_key="$T/grpc/key"
wait_ready 2
wait_until http_address '[0-9]'

query_pid() { status_json | jq .query_pid; }
# One value of all threads of workers and query process.
threads() { cat $(printf '/proc/%s/task/*/status ' "$(pid_of 0)" "$(pid_of 1)" "$(query_pid)") | sed -n "s/^$1:[[:space:]]*//p" | sort -u; }

is "$(threads NoNewPrivs)" 1 'no thread can get a privilege by execve'
is "$(threads CapEff)" 0000000000000000 'none has a capability'
is "$(threads CapPrm)" 0000000000000000 '... or could take one'
if [ "$(id -u)" = 0 ]; then is "$(threads CapBnd)" 0000000000000000 '... or be given one'; fi
is "$(grep -c 'queryd info confine.on' "$T/a.log")" 1 'the query process says what is in force'
is "$(grep -cE 'worker\[[01]\] info confine.on' "$T/a.log")" 2 '... and so do the workers'
note "$(grep 'confine.on' "$T/a.log")"
if [ "$sanitized" = 0 ]; then
	is "$(threads Seccomp)" 2 'all threads have a filter for calls'
	is "$(grep -c 'confine.on .* seccomp=yes ' "$T/a.log")" 3 '... and say so'
	if grep -q 'landlock=unknown_to_this_kernel' "$T/a.log"; then skip 'this kernel has no Landlock'
	else is "$(grep -c 'confine.on .* landlock=yes ' "$T/a.log")" 3 'Landlock is in force'; fi
else
	is "$(grep -c 'confine.on .*seccomp=sanitizer landlock=sanitizer' "$T/a.log")" 3 'with a sanitizer files and calls are free'
fi

# tries PROGRAM PID: what the stranger could do in it.
EACCES=13 ENOSYS=38
outcome() { sed -n "s/^intruder $1 $2 //p" "$T/a.log" | tail -n 1; }
tries()
{
	kill -USR1 "$2"
	wait_until "outcome tally-$1 done" '^0$' 10
	is "$(outcome "tally-$1" read-other)" $EACCES "$1: it cannot read what is not for it"
	is "$(outcome "tally-$1" write-etc)" $EACCES '... nor write to /etc, as root'
	is "$(outcome "tally-$1" make-in-run-dir)" $EACCES '... nor make a file in the run directory'
	is "$(outcome "tally-$1" cut-table)" $EACCES '... nor cut the table'
	like "$(outcome "tally-$1" remove-table)" "^($EACCES|$ENOSYS)\$" '... nor remove it'
	for file in table limits lock; do
		is "$(outcome "tally-$1" write-$file)" $EACCES "... nor write a byte of the run directory's $file"
	done
	if grep -q 'landlock=yes abi=[123]$' "$T/a.log"; then skip 'this Landlock knows no ports'
	else is "$(outcome "tally-$1" bind)" $EACCES '... nor bind a TCP port'; fi
	is "$(outcome "tally-$1" signal-parent)" $ENOSYS '... nor send a signal to its parent'
	is "$(outcome "tally-$1" fork)" $ENOSYS '... nor make a process'
}
if [ "$sanitized" = 0 ]; then
	if grep -q 'landlock=yes' "$T/a.log"; then
		tries worker "$(pid_of 0)"
		tries queryd "$(query_pid)"
		is "$(outcome tally-queryd chmod-table)" $ENOSYS 'queryd: it cannot change the mode of a file'
	fi
	worker=$(pid_of 0) query=$(query_pid)
	kill -USR2 "$worker" "$query"
	eventually 'a worker that calls execve is killed for it' "cat '$T/a.log'" 'worker.died partition=0 .*signal=31 '
	eventually '... and so is a query process' "cat '$T/a.log'" 'query.died .*signal=31 '
	is "$(grep -c 'intruder runs a shell' "$T/a.log")" 0 '... before any of it runs'
	eventually 'another worker is there' "pid_of 0" "^[1-9]"
	isnt "$(pid_of 0)" "$worker" '... it is another'
	wait_ready 2
	wait_until "test \"\$(query_pid)\" != $query && http /ready" 'ready' 20
fi

# The service works, and what comes later is found.
same_as_oracle 'the stores hold what the log says'
produce --records 1000 --tenants 3
eventually 'records that come later are counted' 'fields "$(facts)" records | sum' '^2000$'
eventually 'HTTP answers' 'http /api/v1/tenants' '"complete":true'
ok 'a question that needs a write is answered, by name' "$B/tallyctl" -d "$(run_dir)" check --admit new-tenant 0x1f2e
served() { openssl s_client -connect "$(cat "$(run_dir)/query.grpc")" -alpn h2 </dev/null 2>/dev/null | openssl x509 -noout -fingerprint; }
serial() { openssl x509 -noout -fingerprint -in "$1"; }
is "$(served)" "$(serial "$T/grpc/cert")" 'the certificate is served'
signed renewed /CN=renewed 'subjectAltName=IP:127.0.0.1'
cp "$T/tls/renewed.pem" "$T/grpc/cert.new"; mv "$T/grpc/cert.new" "$T/grpc/cert"
cp "$T/tls/renewed.key" "$T/grpc/key.new"; mv "$T/grpc/key.new" "$T/grpc/key"
kill -HUP "${TALLYD[a]}"
eventually 'one that is put in its place is found' served "^$(serial "$T/tls/renewed.pem")\$" 20
if grep -q 'landlock=yes' "$T/a.log"; then
	mkdir "$T/elsewhere"; cp "$T/tls/server.pem" "$T/elsewhere/cert"
	ln -sfn "$T/elsewhere/cert" "$T/grpc/cert"
	kill -HUP "${TALLYD[a]}"
	eventually '... a link that leads elsewhere leads nowhere' "cat '$T/a.log'" 'error query.reload .*grpc/cert: Permission denied' 20
	is "$(served)" "$(serial "$T/tls/renewed.pem")" '... and the certificate from before is served'
fi
stop_tallyd
is $? 0 'it stops in order'
is "$(ls "$(run_dir)" | grep -cE '^query\.(http|grpc)')" 0 '... and takes its addresses back'

# On demand it is not.
start_tallyd supervisor.confine=false
wait_ready 2
wait_until http_address '[0-9]'
is "$(threads Seccomp)" 0 'supervisor.confine: false'
is "$(grep -c 'info confine.off why="supervisor.confine is false"' "$T/a.log")" 3 '... is said by each'
stop_tallyd
is $? 0 '... it stops in order, too'
is "$(ls "$(run_dir)" | grep -cE '^query\.(http|grpc)')" 0 '... and takes its addresses back'
rm -rf "$D"
done_testing
