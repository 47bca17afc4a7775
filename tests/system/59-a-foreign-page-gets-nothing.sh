# 59-a-foreign-page-gets-nothing.sh - web pages of others, in the browser of somebody who can reach the HTTP port, read and
# change nothing: neither under a name of theirs (DNS rebinding) nor across origins; who asks by address notices nothing.
# broker: embedded
. "$(dirname "$0")/ask.sh"

# code PATH [OPTIONS of curl]: the status alone; the body is in $T/said.
code() { curl -sS --max-time 10 -o "$T/said" -w '%{http_code}' "${@:2}" "http://$(http_address)$1"; }
exceeds='{"tenant":"t","streams":[{"streamHash":1},{"streamHash":2}]}'
post() { code /api/v1/exceeds-limits -H 'Content-Type: application/json' -d "$exceeds" "$@"; }
streams_of() { http "/api/v1/tenants/$1" | jq -r '.streams // 0'; }

broker partitions=2
start_tallyd a
wait_ready 2
wait_asked
port=$(http_address) port=${port##*:}

# --- names ----------------------------------------------------------------------------------------

for path in / /ui/app.js /healthz /ready /metrics /api/v1/partitions /api/v1/tenants?sort=headroom /nothing; do
	is "$(code "$path" -H "Host: evil.example:$port")" 421 "$path is not there under the name of a foreign page"
done
like "$(cat "$T/said")" '"error":"host".*evil.example.*query.http_hosts' 'who meant well is told what to do'
is "$(post -H 'Host: evil.example')" 421 'nothing is admitted under it'
is "$(streams_of t)" 0 '... really'
for host in "127.0.0.1:$port" "localhost:$port" 127.0.0.1 10.1.2.3 '[::1]:3100' "$(hostname)"; do
	is "$(code /ready -H "Host: $host")" 200 "by $host it is"
done
is "$(code /healthz --http1.0 -H Host:)" 200 'so it is for the probes of load balancers that send no name'
eventually 'the log says so, in one line' "grep http.refused '$T/a.log'" 'queryd warn http.refused reason=name from=evil.example:[0-9]+ suppressed=0' 5
is "$(grep -c http.refused "$T/a.log")" 1 '... and not each time'
like "$(http /metrics | grep 421)" 'tally_query_answers_total.*status="421"} [1-9]' 'they are counted'

# --- origins --------------------------------------------------------------------------------------

is "$(post -H 'Origin: http://evil.example' -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: cors')" 403 'a foreign page may not ask'
is "$(post -H 'Origin: http://evil.example')" 403 'nor one in a browser that says less'
is "$(post -H 'Origin: null')" 403 'nor one that hides where it is from'
is "$(code /api/v1/exceeds-limits -H 'Content-Type: text/plain' -d "$exceeds")" 415 'nor as a form'
is "$(code /api/v1/tenants -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: no-cors')" 403 'nor load an answer as a picture'
is "$(code /api/v1/exceeds-limits -X OPTIONS -H 'Origin: http://evil.example' -H 'Access-Control-Request-Method: POST')" 403 'nor ask whether it may'
is "$(curl -sSi -X OPTIONS -H 'Origin: http://evil.example' "http://$(http_address)/api/v1/tenants" | grep -ci '^access-control')" 0 '... which nobody grants'
is "$(streams_of t)" 0 'nothing has come in'
is "$(code /api/v1/partitions -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: navigate')" 200 'a link leads here'
is "$(post -H "Origin: http://127.0.0.1:$port" -H 'Sec-Fetch-Site: same-origin')" 200 'our own page may'
is "$(post)" 200 'clients that are no browsers, too'
eventually 'and theirs are counted' 'streams_of t' '^2$' 10
stop_tallyd

# --- names that are ours ---------------------------------------------------------------------------

start_tallyd a query.http_hosts=tally.example.com,tally-1
wait_ready 2
is "$(code /ready -H 'Host: tally.example.com') $(code /ready -H 'Host: Tally-1:80') $(code /ready) $(code /ready -H 'Host: evil.example')" '200 200 200 421' 'query.http_hosts are names of ours'
stop_tallyd
for wrong in 'http://tally' 'tally:3100' 'a.*'; do
	write_config w query.http_hosts="\"$wrong\""
	like "$("$B/tallyd" -t -c "$T/w.yaml" 2>&1)" 'w.yaml:[0-9]+: query.http_hosts.*must be names without ports' "$wrong is not one"
done

# A name in front of TLS or tokens needs no list: a foreign page has neither certificate nor token.
(umask 077; echo "sha256:$(printf secret | sha256sum | cut -d' ' -f1) read" >"$T/tokens")
start_tallyd a query.tokens_file="$T/tokens"
wait_until "code /healthz" '^200$'
is "$(code /api/v1/instance -H 'Host: tally.example.com' -H 'Authorization: Bearer secret') $(code /api/v1/instance -H 'Host: evil.example')" '200 401' 'with tokens any name will do'
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
