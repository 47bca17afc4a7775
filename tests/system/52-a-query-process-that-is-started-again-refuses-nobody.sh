# 52-a-query-process-that-is-started-again-refuses-nobody.sh - with sockets that the service manager holds
# (tally-http.socket, tally-grpc.socket) whoever connects while a query process is away waits, and is answered.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"

# listening NAME=ADDRESS...: tallyd is started with these sockets.
listening()
{
	printf '#!/bin/sh\nexec perl tests/system/listen-fds.pl %s -- "%s/tallyd" "$@"\n' "$*" "$B" >"$T/with-sockets"
	chmod +x "$T/with-sockets"
	TALLYD_PROGRAM=$T/with-sockets
}
query_pid() { status_json | jq .query_pid; }
query_alive() { pid=$(query_pid) && [ "$pid" != 0 ] && [ "$pid" != "$1" ]; }
# kill_query SIGNAL: the first of them, once there is one; its pid in $before.
kill_query()
{
	wait_until query_pid '^[1-9]'
	before=$(query_pid)
	[[ $before =~ ^[1-9] ]] && kill -"$1" "$before" 2>/dev/null
}
# One new connection; its exit code is curl's: 7 is "refused".
one() { curl -s --max-time 20 -o /dev/null -w '%{http_code}\n' "http://$HTTP/healthz"; }

broker partitions=1
listening http=127.0.0.1:0 grpc=127.0.0.1:0
start_tallyd a query.http_listen=127.0.0.1:1 query.grpc_listen=127.0.0.1:2 supervisor.restart_min=2s supervisor.restart_max=2s
wait_ready 1
wait_until http_address '[0-9]'
HTTP=$(http_address) GRPC=$(grpc_address)
like "$HTTP $GRPC" '^127.0.0.1:[0-9]{2,} 127.0.0.1:[0-9]{2,}$' 'the sockets that were handed over take the place of query.*_listen'
is "$(one)" 200 'HTTP answers at its'
ok 'gRPC at its' serving

for signal in KILL TERM; do
	kill_query $signal
	until_true 10 gone "$before"
	is "$(one; echo $?)" "200
0" "SIG$signal: a connection that comes while the query process is away is answered by the next one"
	ok 'there is a next one' until_true 10 query_alive "$before"
	is "$(http_address)" "$HTTP" 'at the same address'
done
kill_query KILL
until_true 10 gone "$before"
ask --method health --patience 15s
ok 'over gRPC, too' serving
is "$(grpc_address)" "$GRPC" 'at the same address'
stop_tallyd
is $? 0 'tallyd stops in order'

start_tallyd a query.http_listen=127.0.0.1:1 query.grpc_listen=127.0.0.1:2 supervisor.restart_min=50ms query.processes=3
wait_ready 1
wait_until http_address '[0-9]'
HTTP=$(http_address)
is "$(for _ in $(seq 30); do one; done | sort | uniq -c | tr -d ' ')" 30200 'several processes share them'
for _ in 1 2 3 4 5 6; do
	kill_query KILL
	one || echo "refused: $?"
done >"$T/many.txt"
unlike "$(cat "$T/many.txt")" 'refused: 7' 'while they die nobody is refused'
stop_tallyd

# Without: the test above can fail.
TALLYD_PROGRAM=$B/tallyd
start_tallyd a supervisor.restart_min=3s supervisor.restart_max=3s
wait_ready 1
wait_until http_address '[0-9]'
HTTP=$(http_address)
kill_query KILL
until_true 10 gone "$before"
one >/dev/null
is $? 7 'without such sockets a connection is refused meanwhile'
stop_tallyd

# refused WHY SOCKETS...: what the operator got wrong is one line.
refused()
{
	listening "${@:2}"
	timeout 30 "$T/with-sockets" -c "$T/a.yaml" >"$T/refused.txt" 2>&1
	is $? 2 "$1: exit code 2"
}
refused 'a socket of another name' web=127.0.0.1:0
like "$(cat "$T/refused.txt")" '^tallyd: LISTEN_FDS: .*"web".*FileDescriptorName= has to be http or grpc$' 'and the line says what to do'
refused 'two of one name' http=127.0.0.1:0 http=127.0.0.1:0
like "$(cat "$T/refused.txt")" '^tallyd: LISTEN_FDS: .*two sockets named http' 'and the line says so'
refused 'one that does not listen' http=udp:127.0.0.1:0
like "$(cat "$T/refused.txt")" '^tallyd: LISTEN_FDS: .*named http does not listen' 'and the line says so'
done_testing
