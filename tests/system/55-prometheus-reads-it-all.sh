# 55-prometheus-reads-it-all.sh - a real Prometheus scrapes a running Tally: every expression of the alerts and
# of the dashboard is evaluated by it, without an error and with data where there has to be some.  And by
# etc/prometheus/scrape.yaml as it stands, through TLS and with a token.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"
. tests/kafka/certs.sh

RULES=etc/prometheus/tally.rules.yaml
DASHBOARD=etc/grafana/tally.json

for p in promtool prometheus; do
	command -v $p >/dev/null || skip_all "no $p here (Debian: prometheus)"
done

# --- without a Tally ------------------------------------------------------------------------------

ok 'the alerts are rules that Prometheus takes' promtool check rules "$RULES"
ok 'so is the example of a configuration' \
	promtool check config --syntax-only etc/prometheus/scrape.yaml
ok 'each alert fires when it has to, and only then' promtool test rules tests/prometheus/alerts.test.yaml
jq -n -f etc/grafana/tally.jq >"$T/dashboard.json"
same "$DASHBOARD" "$T/dashboard.json" 'the dashboard is what etc/grafana/tally.jq makes'
is "$(jq -r '[.panels[].id] | (length) - (unique | length)' "$DASHBOARD")" 0 'its panels have numbers of their own'
is "$(jq -r '.panels[] | select(.type != "row" and ((.targets | length) == 0 or .description == "")) | .title' "$DASHBOARD")" '' \
	'each of them asks for something and says what it is'
is "$(jq -r '[.templating.list[].name] | join(" ")' "$DASHBOARD")" 'datasource instance partition' 'it has its variables'

# With what Grafana publishes of its own schema: a key that it does not know, a word that is none, a lack.
if modules=$(bash tests/npm.sh tests/grafana @grafana/schema 2>"$T/npm.txt"); then
	is "$(node tests/grafana/check.mjs "$modules" "$DASHBOARD" "$T" 2>&1)" '' "it is one by Grafana's schema, of version 10 and of 13"
	jq '.panels[1].options.colorMode = "crayon"' "$DASHBOARD" >"$T/wrong.json"
	like "$(node tests/grafana/check.mjs "$modules" "$T/wrong.json" "$T" 2>&1)" 'Grafana 13: panel "Instances", options: .*crayon' 'which finds what is wrong'
else
	skip "the dashboard against Grafana's schema: $(cat "$T/npm.txt")"
fi

# --- a Tally with something to show ---------------------------------------------------------------

hostile=$'esc\e[31m"\\\xc2\x9b\xc3\xa9'
written='esc\x1b[31m"\x5c\xc2\x9bé'

broker partitions=4
limits small=5 roomy=100 tight=8
start_tallyd a limits.file="$T/limits.yaml" query.metrics_names=loki
wait_ready 4
wait_asked
produce --partitions 4 --records 500 --seed "$SEED"
ask --tenant tight --streams 8 --first 50000 --seed "$SEED"
ask --tenant "$hostile" --streams 3 --seed "$SEED"
wait_until http_address '[0-9]'

http /metrics >"$T/metrics.txt"
ok 'promtool check metrics has nothing to say' eval 'promtool check metrics <"$T/metrics.txt" >"$T/check.txt" 2>&1 && ! grep . "$T/check.txt"'
sed '/^# \(HELP\|TYPE\) loki_/d; /^loki_/d' "$T/metrics.txt" >"$T/ours.txt"
ok 'nor without Loki'"'"'s names' eval 'promtool check metrics <"$T/ours.txt" >"$T/check.txt" 2>&1 && ! grep . "$T/check.txt"'

cat >"$T/prometheus.yaml" <<EOF
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: ['$PWD/$RULES']
scrape_configs:
  - {job_name: tally, static_configs: [{targets: ['$(http_address)']}]}
EOF
ok 'the configuration is one' promtool check config "$T/prometheus.yaml"
# prometheus_with CONFIG NAME: pid in $SCRAPER, its address in $PROMETHEUS.
listens() { sed -n 's/.*msg="Listening on" address=\(127[0-9.:]*\).*/\1/p' "$T/$1.log"; }
prometheus_with()
{
	spawn "$2" prometheus --config.file="$1" --storage.tsdb.path="$T/tsdb-$2" --web.listen-address=127.0.0.1:0
	SCRAPER=$PID
	wait_until "listens $2" '[0-9]'
	PROMETHEUS=$(listens "$2")
}
prometheus_with "$T/prometheus.yaml" prometheus
api() { curl -sS --max-time 20 -G "http://$PROMETHEUS/api/v1/$1" "${@:2}"; }
query() { api query --data-urlencode "query=$1"; }
value() { query "$1" | jq -r '.data.result[0].value[1] // "none"'; }
samples() { query "$1" | jq '.data.result | length'; }

wait_until "value 'up{job=\"tally\"}'" '^1$' 20
pass 'Prometheus reads all of it'

# Something of everything while it looks: accepted and rejected streams, records, a worker that dies.
samples_before=$(value 'count_over_time(tally_up[1h])')
rounds=0
traffic()
{
	rounds=$((rounds + 1))
	ask --tenant small --streams 3 --first $((rounds * 1000)) --seed "$SEED"
	ask --tenant roomy --streams 3 --first 60000 --seed "$SEED"
	produce --partitions 4 --records 50 --seed $((SEED + rounds))
}
looked_at() { traffic; [ "$(value 'count_over_time(tally_up[1h])')" -ge $((samples_before + $1)) ]; }
wait_until 'looked_at 8' '' 60
kill -KILL "$(pid_of 1)"
wait_until "value 'tally_worker_restarts_total{partition=\"1\"}'" '^1$'
wait_ready 4
wait_until 'looked_at 12' '' 60

# --- every expression -----------------------------------------------------------------------------

# What may have no samples in a Tally that is well.
may_be_empty='tally_worker_problem|tally_access_refused_total|code!="0"|tally_partition_ready == 0| > 0$'

# evaluate NAME EXPRESSION: no error, and data unless it may have none.
evaluate()
{
	local answer
	answer=$(query "$2")
	if [ "$(jq -r .status <<<"$answer")" != success ] || [ "$(jq -r '.warnings // [] | length' <<<"$answer")" != 0 ]; then
		fail "$1 is evaluated" "$2" "$answer"
	elif [ "$(jq '.data.result | length' <<<"$answer")" = 0 ] && ! [[ $2 =~ $may_be_empty ]]; then
		fail "$1 has data" "$2"
	else
		return 0
	fi
	ODD=$((ODD + 1))
}

ODD=0 n=0
while IFS=$'\t' read -r title expression; do
	expression=${expression//'$instance'/.*} expression=${expression//'$partition'/.*}
	evaluate "panel \"$title\"" "${expression//'$__rate_interval'/30s}"
	n=$((n + 1))
done < <(jq -r '.panels[] | .title as $title | .targets[]? | [$title, .expr] | map(gsub("\n"; " ")) | join("\t")' "$DASHBOARD")
is "$ODD" 0 "all $n expressions of the dashboard are answered, and have data"
ok 'and there are as many as it has' test "$n" -ge 60

while IFS=$'\t' read -r name label of; do
	of=${of//'$instance'/.*}
	is "$(api "label/$label/values" --data-urlencode "match[]=$of" | jq '.data | length > 0')" true "variable $name has values"
done < <(jq -r '.templating.list[] | select(.type == "query") | .query.query | capture("^label_values\\((?<of>.*), (?<label>[a-z]+)\\)$") | [.label, .label, .of] | join("\t")' "$DASHBOARD")

wait_until "api rules | jq '[.data.groups[].rules[] | select(.lastEvaluation != \"0001-01-01T00:00:00Z\")] | length'" "^$(grep -c '  - alert:' "$RULES")\$"
is "$(api rules | jq -r '.data.groups[].rules[] | select(.health != "ok" or .lastError) | .name')" '' 'all alerts are evaluated without an error'
is "$(api rules | jq -r '.data.groups[].rules[] | select((.annotations | [.summary, .description, .runbook] | any(. == null or . == "")) or (.labels.severity | IN("info", "warning", "critical") | not)) | .name')" '' \
	'each says what is wrong, what that means, what to do, and how bad it is'
ODD=0 n=0
for metric in $(api rules | jq -r '.data.groups[].rules[].query' | grep -oE '\b(tally_[a-z0-9_]+|up)\b' | sort -u); do
	evaluate "what the alerts ask of, $metric," "count($metric)"
	n=$((n + 1))
done
is "$ODD" 0 "the $n metrics that alerts stand on are there"
is "$(api alerts | jq -r '.data.alerts[] | select(.labels.severity == "critical" and .state == "firing") | .labels.alertname')" '' 'nothing critical is said of a Tally that is well'

# --- what it is told ------------------------------------------------------------------------------

is "$(value 'tally_partitions_ready')" 4 'the partitions'
is "$(value 'tally_tenant_limit_used_ratio{tenant="tight"}')" 1 'a tenant at its limit'
is "$(value 'sum(tally_tenant_limit_used_streams{tenant="roomy"}) / sum(tally_tenant_limit_streams{tenant="roomy"})')" 0.03 'and one that is far from it'
is "$(value 'sum(tally_process_private_memory_bytes{process="worker"}) > bool 1e6')" 1 'memory of the workers'
is "$(value 'count(tally_process_cpu_seconds_total)')" 6 'processor time of tallyd, four workers and the query process'
is "$(query 'tally_tenant_active_streams' | jq -r --arg t "$written" '.data.result[] | select(.metric.tenant == $t) | .value[1]')" 3 \
	'a tenant with a name that means harm, in letters that do not'
is "$(value 'min(changes(tally_records_total[10m])) >= bool 0')/$(value 'sum(resets(tally_records_total[10m])) + sum(resets(tally_streams_asked_new_total[10m])) + sum(resets(tally_commits_total[10m]))')" 1/0 \
	'no counter was reset by the death of a worker'
is "$(value 'sum(tally_ask_streams_total{kind="exceeds"}) == bool sum(loki_ingest_limits_frontend_streams_total)')" 1 "Loki's counters say the same as ours"
is "$(value 'sum(loki_ingest_limits_active_streams) == bool sum(tally_tenant_active_streams)')" 1 'and its gauges'
isnt "$(value 'histogram_quantile(0.9, sum by (le) (rate(loki_ingest_limits_lag_seconds_bucket[1m])))')" none 'its histogram is one'

# An alert on its way: tallyd hangs.
kill -STOP "${TALLYD[a]}"
eventually 'a tallyd that hangs is noticed by an alert' "value 'ALERTS{alertname=\"TallyGone\"}'" '^1$' 30
like "$(api alerts | jq -r '.data.alerts[] | select(.labels.alertname == "TallyGone") | .annotations.summary')" "^tallyd on $(http_address) does not run" 'which says of whom it speaks'
kill -CONT "${TALLYD[a]}"
eventually 'and is over when it goes on' "samples 'ALERTS{alertname=\"TallyGone\"}'" '^0$' 30
end "$SCRAPER"
stop_tallyd

# --- through TLS, with a token --------------------------------------------------------------------

make_certs secret
token() { openssl rand -hex 32; }
hash_of() { printf 'sha256:'; printf %s "$1" | sha256sum | cut -d ' ' -f 1; }
SCRAPES=$(token) ASKS=$(token)
printf '%s metrics\n%s ask\n' "$(hash_of "$SCRAPES")" "$(hash_of "$ASKS")" >"$T/tokens"
show() { (umask 077; echo "$1" >"$T/shown.new") && mv "$T/shown.new" "$T/tally.token"; } # Prometheus reads it at each scrape
show "$SCRAPES"
start_tallyd s query.tokens_file="$T/tokens" query.http_tls_cert="$T/tls/server.pem" query.http_tls_key="$T/tls/server.key"
wait_ready 4
wait_until http_address '[0-9]'

# sample NAME CA: the example, with what is in comments, for this machine; nothing else is in it.
sample()
{
	sed -E "s/# (scheme|tls_config|authorization):/\\1:/; s,127\.0\.0\.1:3100,$(http_address),; s/(scrape_interval:) 15s/\\1 1s/
		s,/etc/prometheus/tally-ca.crt,$T/tls/$2.pem,; s,/etc/prometheus/tally.token,$T/tally.token,; s,tally.rules.yaml\$,$PWD/$RULES," \
		etc/prometheus/scrape.yaml >"$T/$1.yaml"
}
target() { api targets | jq -r ".data.activeTargets[0] | \"\(.scrapeUrl) \(.health) \(.lastError)\""; }
sample stranger other-ca
sample secure ca
ok 'the example with what is in comments is a configuration, files and all' promtool check config "$T/secure.yaml"
is "$(grep -cE '^    (scheme|tls_config|authorization):' "$T/secure.yaml")" 3 'and asks for TLS and a token'

prometheus_with "$T/secure.yaml" secure
eventually 'Prometheus scrapes over TLS, with a token' target "^https://$(http_address)/metrics up \$" 20
is "$(value 'tally_up')/$(value 'tally_access_tokens')" 1/2 'and reads what is there'
ask_http() { curl -sS --cacert "$T/tls/ca.pem" -o /dev/null -w '%{http_code}' "https://$(http_address)/metrics" "$@"; }
is "$(ask_http)/$(ask_http -H "Authorization: Bearer $ASKS")" 401/403 'others do not'
eventually 'which it is told, too' "value 'tally_access_refused_total{protocol=\"http\",reason=\"no_token\"}'" '^1$' 10
show "$ASKS"
eventually 'a token that may not is refused' target 'down .*403 Forbidden' 20
show nonsense
eventually 'so is one that nobody knows' target 'down .*401 Unauthorized' 20
show "$SCRAPES"
eventually 'with the right one it goes on' target ' up $' 20
end "$SCRAPER"

prometheus_with "$T/stranger.yaml" stranger
eventually 'with the authority of somebody else it shows its token to nobody' target 'down .*(x509|certificate)' 20
end "$SCRAPER"
done_testing
