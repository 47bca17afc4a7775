# 51-who-may-ask.sh - tokens, their scopes and TLS say who may ask what; hostile names of tenants and policies
# harm nobody who looks at them; and slow, large and many requests end where they should.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"
. tests/kafka/certs.sh

PYTHON=${PYTHON:-/usr/bin/python3}
[ -x "$PYTHON" ] || skip_all "there is no $PYTHON"
why=$("$PYTHON" -c 'import grpc' 2>&1) || skip_all "python has no gRPC: install python3-grpcio: $(tail -n 1 <<<"$why")"

# gRPC: the question is "is there room for stream 1 of tenant t?".
printf '\012\001t\022\004\010\001\020\001' >"$T/question"
cat >"$T/call.py" <<'P'
"""call.py HOST:PORT PATH FILE [AUTHORIZATION...]: prints the status of a call, as a number."""
import grpc, sys
target, path, file, *authorization = sys.argv[1:]
with grpc.insecure_channel(target) as channel:
    try:
        channel.unary_unary(path)(open(file, "rb").read(), timeout=10, metadata=[("authorization", a) for a in authorization])
        print(0)
    except grpc.RpcError as e:
        print(e.code().value[0])
P
grpc() { "$PYTHON" "$T/call.py" "$(grpc_address)" "$1" "${QUESTION:-$T/question}" "${@:2}"; }
exceeds=/proto.IngestLimitsFrontend/ExceedsLimits

# --- hostile names --------------------------------------------------------------------------------

# What may not reach a terminal, in any file or output: C0 but newline and tab, DEL, C1, bidi and its kind,
# bytes that are no UTF-8.
clean()
{
	"$PYTHON" -c '
import re, sys
bad = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
data = sys.stdin.buffer.read()
try: text = data.decode("utf-8")
except UnicodeDecodeError as e: sys.exit("no UTF-8: %s" % e)
m = bad.search(text)
if m: sys.exit("U+%04X in %r" % (ord(m.group()), text[max(0, m.start() - 40):m.end() + 20]))
if not text: sys.exit("empty")'
}
is_clean() { ok "$1" clean; }

hostile=(
	$'esc\e[31m\e]0;title\a'
	$'line\nqueryd error forged=1\r\n'
	$'c1\xc2\x9b31m\xc2\x85'
	$'bidi\xe2\x80\xae gnp.exe\xe2\x81\xa6'
	$'quotes"\'`\\"} 1\ntally_up 99'
	$'tab\tdel\x7fbell\a'
	$'html</script><img src=x onerror=alert(1)>'
	$'percent%00%s%n%2e../../etc/passwd'
	$'zero\xe2\x80\x8bwidth\xef\xbb\xbf\xe2\x80\xa8line'
)

broker partitions=4
for name in "${hostile[@]}"; do produce --partitions 4 --tenants 1 --tenant-prefix "$name" --records 20 --streams 20 --seed "$SEED"; done
limits tiny=1
start_tallyd a limits.file="$T/limits.yaml" query.metrics_tenants=100
wait_ready 4
wait_asked
for name in "${hostile[@]}"; do
	ask --tenant "grpc-$name" --policy "policy-$name" --streams 8 --per-request 4 --seed "$SEED"
	[ "$(said accepted)" = 8 ] || fail "gRPC takes $(printf %q "$name")" "$(cat "$T/ask.txt")"
	ask --tenant tiny --policy "$name" --streams 4 --first 100 --seed "$SEED"	# and is refused
done
printf '\012\001\377\022\004\010\001\020\001' >"$T/bad"
is "$(QUESTION=$T/bad grpc $exceeds)" 3 'a name that is no UTF-8 is not taken over gRPC'
names=$((2 * ${#hostile[@]} + 1))
wait_until 'http "/api/v1/tenants?limit=1000" | jq ".tenants | length"' "^$names\$"
http '/api/v1/tenants?limit=1000' >"$T/tenants.txt"

is_clean 'tallyctl tenants shows a terminal nothing but text' < <(ctl tenants)
is_clean 'so does top' < <(ctl top -n 100)
is_clean 'so does status' < <({ ctl status; ctl status --partition 0; })
for name in "${hostile[@]}"; do
	{ ctl tenant "grpc-$name"; ctl streams "grpc-$name"; ctl explain "grpc-$name"; ctl check "grpc-$name" 1; } 2>&1
	ctl tenant "nobody-$name" 2>&1
	ctl "$name" 2>&1
	ctl --nope="$name" tenants 2>&1
done >"$T/ctl.txt"
is_clean 'so do tenant, streams, explain and check, and their errors' <"$T/ctl.txt"
for name in "${hostile[@]}"; do
	is "$(ctl --json tenant "grpc-$name" | jq -r '.tenant + "|" + ([.by_policy[].policy] | join("|")) + "|"')" \
		"grpc-$name|policy-$name|" "JSON has the name as it is: $(printf %q "$name")"
	encoded=$(jq -rn --arg n "grpc-$name" '$n | @uri')
	is "$(http "/api/v1/tenants/$encoded" | jq -r '.tenant + "|"')" "grpc-$name|" 'and HTTP, when it is percent-encoded'
	http "/api/v1/tenants/$encoded/limits" >>"$T/http.txt"
	http "/ingest-limits/usage/$encoded" >>"$T/http.txt"
done
is "$(ctl --json tenants | grep -c $'[\x80-\xff\e]')" 0 'JSON on a terminal is ASCII'
is "$(cat "$T/tenants.txt" "$T/http.txt" | grep -c $'[\x80-\xff\e]')" 0 'so is the one of HTTP, where names can be escaped'
for path in '/api/v1/tenants/%ff' '/api/v1/tenants/%c0%af' '/api/v1/tenants/%ed%a0%80' $'/api/v1/tenants/\xff' '/ingest-limits/usage/a%00b' '/api/v1/tenants?after=%ff'; do
	is "$(curl -sS -o "$T/bad.txt" -w '%{http_code}' --path-as-is "http://$(http_address)$path")" 400 "400 for $(printf %q "$path")"
	clean <"$T/bad.txt" || fail "the answer to it is text"
done
http /metrics >"$T/metrics.txt"
"$PYTHON" - "$T/metrics.txt" "$names" <<'P' && pass 'metrics are what Prometheus can read, each name whole, none forged' || fail 'metrics are what Prometheus can read'
import re, sys
label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
line = re.compile(r'(?:# (?:HELP|TYPE) [^\n]*|[a-z_:A-Z0-9]+(?:\{%s(?:,%s)*\})? [-+0-9.eEnaNIf]+)' % (label, label))
lines = open(sys.argv[1], encoding="utf-8", newline="\n").read().split("\n")
bad = [l for l in lines[:-1] if not line.fullmatch(l)]
if bad: sys.exit("not a line of metrics: %r" % bad[0])
tenants = [l for l in lines if l.startswith("tally_tenant_active_streams{")]
if len(tenants) != int(sys.argv[2]): sys.exit("%d tenants" % len(tenants))
up = [l for l in lines if l.startswith("tally_up")]
if up != ["tally_up 1"]: sys.exit("%r" % up)
P
is "$(curl -sS -o /dev/null -D - "http://$(http_address)/api/v1/tenants" | tr -d '\r' | grep -ciE '^(content-type: application/json|x-content-type-options: nosniff)$')" 2 \
	'a browser is told that none of it is a page'
is_clean 'no log line was made by a name' <"$T/a.log"
is "$(grep -c 'forged=1$' "$T/a.log")" 0 'nor does one look as if'

# --- limits of HTTP -------------------------------------------------------------------------------

cat >"$T/crowd.py" <<'P'
"""crowd.py HOST:PORT KIND N SECONDS: N connections that mean harm; prints how many were ended."""
import select, socket, sys, time
host, port = sys.argv[1].rsplit(":", 1)
kind, n, seconds = sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
first = {"drip": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "silent": b"",
         "chunked": b"POST /api/v1/exceeds-limits HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
         "unwanted": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"}[kind]
more = {"drip": b"X-A: b\r\n", "silent": b"", "chunked": b"10000\r\n" + b" " * 65536 + b"\r\n",
        "unwanted": b"1000\r\n" + b" " * 4096 + b"\r\n"}[kind]
peers, ended = [], 0
for _ in range(n):
    s = socket.create_connection((host, int(port)))
    s.sendall(first); s.setblocking(False); peers.append(s)
end = time.monotonic() + seconds
while peers and time.monotonic() < end:
    for s in peers[:]:
        try:
            if more: s.send(more)
            if select.select([s], [], [], 0)[0] and s.recv(65536) == b"": raise OSError
        except BlockingIOError: pass
        except OSError: peers.remove(s); s.close(); ended += 1
    time.sleep(0.2 if kind in ("drip", "silent") else 0)
print("ended=%d of=%d" % (ended, n))
P
# --- local sockets --------------------------------------------------------------------------------

cat >"$T/stranger.py" <<'P'
"""stranger.py SOCKET: connects as nobody; prints what comes of it."""
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(10)
try: s.connect(sys.argv[1])
except PermissionError: sys.exit(print("no permission"))
try: print("ended" if s.recv(1) == b"" else "served")
except ConnectionResetError: print("ended")
P
if [ "$(id -u)" = 0 ]; then
	socket=$(echo "$(run_dir)"/p0.*/admit.sock)
	is "$("$PYTHON" "$T/stranger.py" "$socket")" 'no permission' "nobody reaches a worker's socket"
	chmod o+x "$(run_dir)" "${socket%/*}"; chmod 666 "$socket"
	is "$("$PYTHON" "$T/stranger.py" "$socket")" 'ended' 'and where modes let him, he is sent away by his uid'
	eventually 'which is said' "cat '$T/a.log'" 'warn admit.refused reason="another user"' 5
	chmod 600 "$socket"; chmod o-x "$(run_dir)" "${socket%/*}"
else
	skip 'not root: nobody else to be'
fi

query_pid=$(status_json | jq .query_pid)
rss() { awk '/^VmHWM/ { print $2 }' "/proc/$query_pid/status"; }
slow() { curl -sS -o /dev/null --max-time 5 -w '%{http_code}' "http://$(http_address)/healthz"; }

spawn crowd "$PYTHON" "$T/crowd.py" "$(http_address)" drip 700 25
CROWD=$PID
wait_until 'http /metrics | sed -n "s/^tally_query_connections //p"' '^[3-9][0-9][0-9]$'
is "$(slow) $(slow) $(slow)" '200 200 200' '700 connections of one address that drip headers keep nobody out'
is "$(curl -sS -o /dev/null -w '%{http_code}' -H "X-Large: $(head -c 40000 /dev/zero | tr '\0' x)" "http://$(http_address)/healthz" 2>/dev/null | tail -c 3)" \
	431 'headers of 40 KB are refused'
"$PYTHON" "$T/crowd.py" "$(http_address)" chunked 4 20 >"$T/chunked.txt"
is "$(cat "$T/chunked.txt")" 'ended=4 of=4' 'a chunked body without end is cut'
"$PYTHON" "$T/crowd.py" "$(http_address)" unwanted 4 20 >"$T/unwanted.txt"
is "$(cat "$T/unwanted.txt")" 'ended=4 of=4' 'so is one that nobody asked for'
wait "$CROWD"
is "$(tail -n 1 "$T/crowd.log")" 'ended=700 of=700' 'and each that drips has gone after 15 s'
ok 'it took no more memory than 256 MiB' test "$(rss)" -lt 262144
is "$(status_json | jq .query_pid)" "$query_pid" 'the query process is the one that it was'
stop_tallyd a

# --- tokens ---------------------------------------------------------------------------------------

token() { openssl rand -hex 32; }
ADMIN=$(token) ASKS=$(token) READS=$(token) SCRAPES=$(token) ONE=$(token) LATER=$(token)
hash_of() { printf 'sha256:'; printf %s "$1" | sha256sum | cut -d ' ' -f 1; }
tokens()
{
	echo "# who may ask"
	echo "$(hash_of "$ADMIN") admin"
	echo "$(hash_of "$ASKS") ask # the ingest nodes"
	echo "$(hash_of "$READS") read"
	echo "$(hash_of "$SCRAPES") metrics"
	echo "$(hash_of "$ONE") read:one%20tenant"
}
(umask 077; tokens >"$T/tokens"; echo "$ASKS" >"$T/asks.token"; echo "$READS" >"$T/reads.token")
make_certs secret
cat "$T/tls/tally.pem" "$T/tls/tally.key" >"$T/tls/client.pem"

{ tokens; echo "$LATER ask"; } >"$T/plain"
write_config x query.tokens_file="$T/plain"
"$B/tallyd" -t -c "$T/x.yaml" >"$T/refused.txt" 2>&1
is "$?" 2 'a tokens_file with a mistake is refused'
like "$(cat "$T/refused.txt")" "^tallyd: .*x.yaml:[0-9]+: query.tokens_file: $T/plain:7: must begin with sha256: and the SHA-256 of the token, not the token" 'with file, line and what to do'
is "$(grep -c "$LATER" "$T/refused.txt")" 0 'and without the token that stands there'
write_config x query.http_tls_cert="$T/tls/server.pem"
"$B/tallyd" -t -c "$T/x.yaml" >"$T/refused.txt" 2>&1
like "$(cat "$T/refused.txt")" 'query.http_tls_cert: has no use without query.http_tls_key; write that too' 'a certificate needs its key'

options=(query.tokens_file="$T/tokens" query.http_tls_cert="$T/tls/server.pem" query.http_tls_key="$T/tls/server.key")
start_tallyd b "${options[@]}"
wait_ready 4
wait_until http_address '[0-9]'
https() { curl -sS --max-time 10 --cacert "$T/tls/ca.pem" "${@:3}" -H "Authorization: Bearer $1" "https://$(http_address)$2"; }
code() { https "$@" -o /dev/null -w '%{http_code}'; }

is "$(code "$ADMIN" /api/v1/tenants)" 200 'HTTP over TLS, with a token'
is "$(curl -sS -o /dev/null -w '%{http_code}' --cacert "$T/tls/ca.pem" "https://$(http_address)/api/v1/tenants")" 401 'without one: 401'
is "$(curl -sS -o /dev/null -w '%{http_code}' --cacert "$T/tls/ca.pem" "https://$(http_address)/healthz")" 200 'but for /healthz'
is "$(code "$LATER" /metrics) $(code "$ASKS" /metrics) $(code "$SCRAPES" /metrics) $(code "$SCRAPES" /api/v1/tenants)" '401 403 200 403' 'each token has its scope'
is "$(code "$ONE" /api/v1/tenants/one%20tenant) $(code "$ONE" /api/v1/tenants/tiny) $(code "$ONE" /api/v1/tenants)" '404 403 403' 'one for a tenant reads that tenant'
curl -sS --max-time 5 --cacert "$T/tls/other-ca.pem" "https://$(http_address)/healthz" >/dev/null 2>&1
is $? 60 "a client that trusts another authority does not trust us"
curl -sS --max-time 5 "http://$(http_address)/healthz" >/dev/null 2>&1
isnt $? 0 'in cleartext there is no answer'
curl -sS --max-time 5 --cacert "$T/tls/ca.pem" --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0 "https://$(http_address)/healthz" >/dev/null 2>&1
isnt $? 0 'TLS 1.1 is too old'

ctl check --admit tiny 1 >"$T/admit.txt" 2>&1
is "$?" 2 'tallyctl check --admit needs a token, too'
like "$(cat "$T/admit.txt")" 'answered 401: a token is needed: .*; --token-file names a file with one' 'and says which option has it'
is "$(ctl check --admit --token-file "$T/asks.token" tiny 1 | tail -n 1)" '1 of 1 came in' 'with --token-file it is answered, over TLS'
is "$(TALLY_TOKEN_FILE="$T/asks.token" ctl check --admit tiny 1 | tail -n 1)" '1 of 1 came in' 'so it is with TALLY_TOKEN_FILE'
like "$(ctl check --admit --token-file "$T/reads.token" tiny 1 2>&1)" 'answered 403' 'a token that only reads does not ask'

is "$(grpc $exceeds)" 16 'gRPC without a token: UNAUTHENTICATED'
is "$(grpc $exceeds "Bearer $LATER")" 16 'with one that is not known, too'
is "$(grpc $exceeds "Bearer $READS")" 7 'with one that may not ask: PERMISSION_DENIED'
is "$(grpc $exceeds "Bearer $ASKS")" 0 'with one that may it is answered'
is "$(grpc $exceeds "Bearer $LATER" "Bearer $ASKS")" 16 'two are one too many'
is "$(grpc /no/such)" 16 'whoever has none does not learn what there is'
is "$(QUESTION=/dev/null grpc /grpc.health.v1.Health/Check)" 0 'health needs none'
refused() { https "$SCRAPES" /metrics | sed -n "s/^tally_access_refused_total{protocol=\"$1\",reason=\"$2\"} //p"; }
is "$(refused grpc no_token) $(refused grpc unknown_token) $(refused grpc scope)" '2 2 1' 'they are counted'
ok 'and said, but not each time' test "$(grep -c access.refused "$T/b.log")" -lt 10

# What changes while it runs.
{ tokens; echo nonsense; } >"$T/tokens.new"; cat "$T/tokens.new" >"$T/tokens"
kill -HUP "${TALLYD[b]}"
eventually 'a tokens_file with a mistake is said' "grep query.reload '$T/b.log'" "error query.reload .*what=tokens.*/tokens:7: must begin with" 10
is "$(code "$ADMIN" /api/v1/tenants)" 200 'and changes nothing'
{ tokens | grep -v "$(hash_of "$READS")"; echo "$(hash_of "$LATER") metrics"; } >"$T/tokens"
kill -HUP "${TALLYD[b]}"
eventually 'a good one is in force' 'code "$LATER" /metrics' '^200$' 10
is "$(code "$READS" /metrics)" 401 'and what it does not have any more is not'
pinned() { sed -n 's/^tls //p' "$(run_dir)/query.http"; }
before=$(pinned)
signed renewed /CN=broker 'subjectAltName=IP:127.0.0.1' || bail 'openssl'
cp "$T/tls/server.key" "$T/old.key"; cp "$T/tls/server.pem" "$T/old.pem"
cp "$T/tls/renewed.pem" "$T/tls/server.pem"	# not its key
kill -HUP "${TALLYD[b]}"
eventually 'a certificate without its key is said' "grep query.reload '$T/b.log'" 'what=http .*it is not the key of the certificate' 10
is "$(code "$ADMIN" /api/v1/tenants)" 200 'and changes nothing'
cp "$T/tls/renewed.key" "$T/tls/server.key"
kill -HUP "${TALLYD[b]}"
served() { openssl s_client -connect "$(http_address)" </dev/null 2>/dev/null | openssl x509 -noout -serial; }
eventually 'a new certificate is shown' served "^$(openssl x509 -noout -serial -in "$T/tls/renewed.pem")\$" 10
eventually 'and its key announced' pinned "^sha256//" 10
isnt "$(pinned)" "$before" 'which is another'
is "$(ctl check --admit --token-file "$T/asks.token" tiny 1 | tail -n 1)" '1 of 1 came in' 'tallyctl knows it'
sed -i 's|sha256//.|sha256//-|' "$(run_dir)/query.http"
like "$(ctl check --admit --token-file "$T/asks.token" tiny 1 2>&1)" "another process has its address, or it has just got a new certificate" 'and believes no other'

# Nobody has to shake hands, but he is not waited for.
"$PYTHON" "$T/crowd.py" "$(http_address)" silent 300 25 >"$T/silent.txt" &
CROWD=$!
is "$(code "$ADMIN" /healthz)" 200 '300 that never begin with TLS keep nobody out'
wait "$CROWD"
is "$(cat "$T/silent.txt")" 'ended=300 of=300' 'and are ended'

# Secrets: no token in a log, an answer, an argument, an environment.
https "$ADMIN" /metrics >"$T/metrics-b.txt"
for secret in "$ADMIN" "$ASKS" "$READS" "$SCRAPES" "$ONE" "$LATER"; do
	grep -l "$secret" "$T"/*.log "$T"/metrics-b.txt "$T"/admit.txt
	for pid in "${TALLYD[b]}" $(pgrep -P "${TALLYD[b]}"); do grep -l "$secret" "/proc/$pid/environ" "/proc/$pid/cmdline"; done
done >"$T/leaks.txt" 2>/dev/null
is "$(cat "$T/leaks.txt")" '' 'no token is in a log, a metric, an argument or an environment'
stop_tallyd b

# Certificates of clients.
start_tallyd c "${options[@]}" query.http_tls_client_ca="$T/tls/ca.pem"
wait_ready 4
wait_until http_address '[0-9]'
is "$(code "$ADMIN" /healthz --cert "$T/tls/tally.pem" --key "$T/tls/tally.key")" 200 'a client with a certificate of ours is served'
isnt "$(code "$ADMIN" /healthz 2>/dev/null)" 200 'one without is not'
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=tally -keyout "$T/tls/self.key" -out "$T/tls/self.pem" 2>/dev/null
isnt "$(code "$ADMIN" /healthz --cert "$T/tls/self.pem" --key "$T/tls/self.key" 2>/dev/null)" 200 'nor one with its own'
is "$(ctl check --admit --token-file "$T/asks.token" --cert-file "$T/tls/client.pem" tiny 1 | tail -n 1)" '1 of 1 came in' 'tallyctl shows one'
like "$(ctl check --admit --token-file "$T/asks.token" tiny 1 2>&1)" 'cert-file' 'and says how when it has none'
stop_tallyd c

# --- who else could reach it ----------------------------------------------------------------------

open_line() { sed -n 's/^[^ ]* queryd warn query.open //p' "$T/$1.log"; }
for i in a b c; do is "$(open_line "$i")" '' "on loopback ($i) there is nothing to warn of"; done
elsewhere()	# NAME OPTIONS: a query process alone, in a network of its own, on all of its addresses
{
	write_config "$1" query.http_listen=0.0.0.0:0 query.grpc_listen=0.0.0.0:0 run_dir="$T/c" "${@:2}"
	spawn "$1" unshare -n "$B/tally-queryd" -c "$T/$1.yaml"
	until_true 10 grep -q http.listen "$T/$1.log"
	end "$PID" 5
}
if unshare -n true 2>/dev/null; then
	elsewhere d
	like "$(open_line d)" '^query.http_listen=0.0.0.0:[0-9]+ query.grpc_listen=0.0.0.0:[0-9]+ text="whoever reaches this may ask everything: ' 'elsewhere it is said, in one line'
	elsewhere e query.tokens_file="$T/tokens"
	like "$(open_line e)" 'text="tokens can be read on the way: set TLS' 'tokens in cleartext are, too'
	elsewhere f "${options[@]}" query.grpc_tls_cert="$T/tls/server.pem" query.grpc_tls_key="$T/tls/server.key"
	is "$(open_line f)" '' 'with both there is nothing to say'
else
	skip 'no network namespace of our own (root)'
fi

# --- instances among themselves -------------------------------------------------------------------

tokens >"$T/tokens"
cp "$T/reads.token" "$T/peers.token"
PORT_G=$(unused_port); RANDOM=$((RANDOM + 1)); PORT_H=$(unused_port)
options=(query.peers="127.0.0.1:$PORT_G,127.0.0.1:$PORT_H" query.tokens_file="$T/tokens" query.peers_token_file="$T/peers.token")
write_config g "${options[@]}" query.grpc_listen="127.0.0.1:$PORT_G"
write_config h "${options[@]}" query.grpc_listen="127.0.0.1:$PORT_H"
start_group g h
INSTANCE=g
wait_until http_address '[0-9]'
eventually 'an instance whose token may not ask is told so' "cat '$T/g.log'" "error peers.forbidden peer=127.0.0.1:$PORT_H text=\"its tokens_file does not give our token the scope ask" 20
exceeds_all()
{
	curl -sS --max-time 10 -H "Authorization: Bearer $ASKS" -H 'Content-Type: application/json' "http://$(http_address)/api/v1/exceeds-limits" \
		-d '{"tenant":"t","streams":[{"streamHash":0},{"streamHash":1},{"streamHash":2},{"streamHash":3}]}' | jq -c '[.accepted, .unserved]'
}
eventually 'what is not served here is unserved then' exceeds_all '^\[[1-3],[1-3]\]$' 20
cp "$T/asks.token" "$T/peers.token"
kill -HUP "${TALLYD[g]}" "${TALLYD[h]}"
eventually 'with one that may, any instance answers' exceeds_all '^\[4,0\]$' 30
is "$(grep -l "$ASKS" "$T"/*.log)" '' 'and no log has it'
stop_tallyd g; stop_tallyd h
done_testing
