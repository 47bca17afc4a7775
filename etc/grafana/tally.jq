# tally.jq - makes tally.json, the Grafana dashboard of Tally: jq -n -f tally.jq >tally.json
#
# Rows of panels from left to right, each as wide as it says; nothing is placed by hand.  Every metric in it
# is one of man tally-metrics (a unit test), and every expression is evaluated in a real Prometheus over a
# running Tally (tests/system/55).  For Grafana 9 and later; the data source is chosen in the dashboard.

# --- panels ---------------------------------------------------------------------------------------

def source: {type: "prometheus", uid: "${datasource}"};

# Queries by letter; {expr, legendFormat, ...}.
def targets: to_entries | map(.value + {refId: ("ABCDEFGHIJKL"[.key:.key + 1]), datasource: source, editorMode: "code"});

def q($legend; $expr): {expr: $expr, legendFormat: $legend, range: true};
def now($legend; $expr): {expr: $expr, legendFormat: $legend, instant: true, range: false};
def cells($expr): {expr: $expr, format: "table", instant: true, range: false};

def panel($type; $title; $about; $width; $height; $queries):
	{type: $type, title: $title, description: $about, datasource: source, targets: ($queries | targets),
		gridPos: {w: $width, h: $height}, fieldConfig: {defaults: {}, overrides: []}, options: {}};

def unit($unit): .fieldConfig.defaults.unit = $unit;
def decimals($n): .fieldConfig.defaults.decimals = $n;
def between($min; $max): .fieldConfig.defaults += {min: $min, max: $max};
def steps($steps):	# [[null, "green"], [80, "red"]]
	.fieldConfig.defaults += {color: {mode: "thresholds"},
		thresholds: {mode: "absolute", steps: ($steps | map({value: .[0], color: .[1]}))}};

def series($title; $about; $width; $queries):
	panel("timeseries"; $title; $about; $width; 8; $queries)
	| .fieldConfig.defaults.custom = {drawStyle: "line", lineWidth: 1, fillOpacity: 10, showPoints: "never", spanNulls: false}
	| .fieldConfig.defaults.min = 0
	| .options = {legend: {displayMode: "list", placement: "bottom", showLegend: true}, tooltip: {mode: "multi", sort: "desc"}};
def stacked: .fieldConfig.defaults.custom += {stacking: {mode: "normal", group: "A"}, fillOpacity: 40};
def logarithmic: .fieldConfig.defaults.custom.scaleDistribution = {type: "log", log: 10} | del(.fieldConfig.defaults.min);

def number($title; $about; $width; $query):
	panel("stat"; $title; $about; $width; 4; [$query])
	| .options = {reduceOptions: {calcs: ["lastNotNull"], fields: "", values: false}, colorMode: "value", graphMode: "area",
		justifyMode: "auto", orientation: "auto", textMode: "auto"};

def bars($title; $about; $width; $query):
	panel("bargauge"; $title; $about; $width; 10; [$query])
	| .options = {reduceOptions: {calcs: ["lastNotNull"], fields: "", values: false}, orientation: "horizontal",
		displayMode: "basic", showUnfilled: true};

# Columns: [[heading, expression], ...]; rows are joined by the labels that they share.
def grid($title; $about; $width; $columns):
	panel("table"; $title; $about; $width; 12; ($columns | map(cells(.[1]))))
	| .options = {showHeader: true, sortBy: [{displayName: "partition", desc: false}]}
	| .transformations = [
		{id: "merge", options: {}},
		{id: "organize", options: {excludeByName: {Time: true},
			renameByName: ($columns | to_entries | map({key: ("Value #" + "ABCDEFGHIJKL"[.key:.key + 1]), value: .value[0]}) | from_entries)}}];
def column($name; $properties):
	.fieldConfig.overrides += [{matcher: {id: "byName", options: $name},
		properties: ($properties | to_entries | map({id: .key, value: .value}))}];

# --- layout ---------------------------------------------------------------------------------------

# Panels of a section, left to right; a new line where they do not fit in 24 columns.
def placed($top):
	reduce .[] as $panel ({x: 0, y: $top, high: 0, out: []};
		(if .x + $panel.gridPos.w > 24 then .x = 0 | .y += .high | .high = 0 else . end)
		| .out += [$panel | .gridPos += {x: 0, y: 0} | .gridPos.x = 0] | .out[-1].gridPos.x = .x | .out[-1].gridPos.y = .y
		| .x += $panel.gridPos.w | .high = ([.high, $panel.gridPos.h] | max))
	| {panels: .out, bottom: (.y + .high)};

def sections:
	reduce .[] as $section ({y: 0, out: []};
		.y as $y
		| ($section.panels | placed($y + 1)) as $placed
		| .out += [{type: "row", title: $section.title, collapsed: false, panels: [], gridPos: {x: 0, y: $y, w: 24, h: 1}}]
		| .out += $placed.panels | .y = $placed.bottom)
	| .out | to_entries | map(.value + {id: (.key + 1)});

def section($title; $panels): {title: $title, panels: $panels};

def variable($name; $heading; $query; $multi):
	{name: $name, label: $heading, type: "query", datasource: source,
		query: {qryType: 1, query: $query, refId: "PrometheusVariableQueryEditor-VariableQuery"}, refresh: 2, sort: 3, multi: $multi, includeAll: $multi, allValue: (if $multi then ".*" else null end),
		current: (if $multi then {selected: true, text: ["All"], value: ["$__all"]} else {} end), hide: 0, options: [], regex: ""};

# --- the dashboard --------------------------------------------------------------------------------

{
	title: "Tally", uid: "tally", tags: ["tally", "kafka"], schemaVersion: 36, version: 1, editable: true, graphTooltip: 1,
	description: "Partitions, replay, admissions and tenants of Tally. Metrics: man tally-metrics; alerts: tally.rules.yaml.",
	time: {from: "now-1h", to: "now"}, refresh: "30s", timezone: "", fiscalYearStartMonth: 0, liveNow: false,
	annotations: {list: []}, links: [], id: null,
	templating: {list: [
		{name: "datasource", label: "Data source", type: "datasource", query: "prometheus", current: {text: "", value: ""}, hide: 0, includeAll: false,
			multi: false, options: [], refresh: 1, regex: ""},
		variable("instance"; "Instance"; "label_values(tally_up, instance)"; true),
		variable("partition"; "Partition"; "label_values(tally_partition_ready{instance=~\"$instance\"}, partition)"; true)
	]},
	panels: ([
		section("At a glance"; [
			(number("Instances"; "Whose tallyd runs and has a fresh heartbeat."; 3;
				now("alive"; "sum(tally_supervisor_alive{instance=~\"$instance\"})"))
				| steps([[null, "red"], [1, "green"]])),
			(number("Partitions not ready"; "They are owned and do not answer: clients let their streams in."; 4;
				now("not ready"; "sum(tally_partitions_owned{instance=~\"$instance\"}) - sum(tally_partitions_ready{instance=~\"$instance\"})"))
				| steps([[null, "green"], [1, "red"]])),
			(number("Greatest lag"; "Records that a partition has still to read."; 4;
				now("records"; "max(tally_partition_lag_records{instance=~\"$instance\"})"))
				| unit("short") | steps([[null, "green"], [10000, "orange"], [100000, "red"]])),
			(number("Not checked"; "Of the streams that were asked about: failed or not served. Clients let them in."; 4;
				q("not checked"; "sum(rate(tally_ask_streams_total{instance=~\"$instance\",kind=\"exceeds\",result=~\"failed|unserved\"}[$__rate_interval])) / (sum(rate(tally_ask_streams_total{instance=~\"$instance\",kind=\"exceeds\"}[$__rate_interval])) > 0) or vector(0)"))
				| unit("percentunit") | decimals(2) | steps([[null, "green"], [0.001, "orange"], [0.01, "red"]])),
			(number("Rejected"; "Streams that were turned away, a second."; 3;
				q("rejected"; "sum(rate(tally_ask_streams_total{instance=~\"$instance\",kind=\"exceeds\",result=\"rejected\"}[$__rate_interval]))"))
				| unit("cps") | steps([[null, "blue"]])),
			(number("Active streams"; "Of the largest tenants: query.metrics_tenants of them."; 3;
				now("streams"; "sum(tally_tenant_active_streams{instance=~\"$instance\"})"))
				| unit("short") | steps([[null, "blue"]])),
			(number("Limits refused"; "Instances whose last load of limits.yaml was refused: older ones hold."; 3;
				now("refused"; "sum(tally_limits_state{instance=~\"$instance\",state=\"refused\"})"))
				| steps([[null, "green"], [1, "red"]]))
		]),
		section("Partitions"; [
			(grid("Partitions"; "State, lag and replay of each, now."; 14; [
				["State", "max by (instance, partition, state) (tally_partition_state{instance=~\"$instance\",partition=~\"$partition\"} == 1)"],
				["Ready", "max by (instance, partition) (tally_partition_ready{instance=~\"$instance\",partition=~\"$partition\"})"],
				["Lag", "max by (instance, partition) (tally_partition_lag_records{instance=~\"$instance\",partition=~\"$partition\"})"],
				["Replay", "max by (instance, partition) (tally_replay_progress_ratio{instance=~\"$instance\",partition=~\"$partition\"})"],
				["Records/s", "max by (instance, partition) (tally_records_per_second{instance=~\"$instance\",partition=~\"$partition\"})"],
				["Streams", "max by (instance, partition) (tally_streams_stored{instance=~\"$instance\",partition=~\"$partition\"})"],
				["Store used", "max by (instance, partition) (tally_store_bytes{instance=~\"$instance\",partition=~\"$partition\"} / tally_store_map_bytes)"],
				["Restarts", "max by (instance, partition) (tally_worker_restarts_total{instance=~\"$instance\",partition=~\"$partition\"})"]])
				| column("State"; {"custom.hidden": true})
				| column("Ready"; {mappings: [{type: "value", options: {"0": {text: "no", color: "red", index: 0}, "1": {text: "yes", color: "green", index: 1}}}], "custom.displayMode": "color-text"})
				| column("Replay"; {unit: "percentunit", min: 0, max: 1, decimals: 1, "custom.displayMode": "basic"})
				| column("Store used"; {unit: "percentunit", min: 0, max: 1, "custom.displayMode": "basic"})
				| column("Lag"; {unit: "short"}) | column("Streams"; {unit: "short"})),
			(series("Partitions by state"; "How many are in which state."; 10;
				[q("{{state}}"; "sum by (state) (tally_partition_state{instance=~\"$instance\",partition=~\"$partition\"})")])
				| stacked | decimals(0) | .gridPos.h = 12),
			(series("Lease left"; "At 0 a partition neither answers nor commits."; 8;
				[q("{{instance}}"; "min by (instance) (tally_lease_seconds{instance=~\"$instance\",partition=~\"$partition\"})")]) | unit("s")),
			(series("Rebalances"; "Assignments received, and memberships lost."; 8;
				[q("{{instance}} assigned"; "increase(tally_rebalances_total{instance=~\"$instance\"}[$__rate_interval])"),
				q("{{instance}} lost"; "increase(tally_lost_total{instance=~\"$instance\"}[$__rate_interval])")])),
			(series("Store used"; "Of what the store can grow to; the fullest ones."; 8;
				[q("{{instance}} {{partition}}"; "topk(10, tally_store_bytes{instance=~\"$instance\",partition=~\"$partition\"} / tally_store_map_bytes)")])
				| unit("percentunit") | between(0; 1))
		]),
		section("Lag and replay"; [
			(series("Lag"; "Offsets between the next one to read and the end of the log; the largest ones."; 8;
				[q("{{instance}} {{partition}}"; "topk(10, tally_partition_lag_records{instance=~\"$instance\",partition=~\"$partition\"})")]) | unit("short")),
			(series("Age of the last record"; "When it was applied; the oldest ones."; 8;
				[q("{{instance}} {{partition}}"; "topk(10, tally_record_lag_seconds{instance=~\"$instance\",partition=~\"$partition\"})")]) | unit("s")),
			(series("Records read"; "Of all partitions, a second, by what became of them."; 8;
				[q("counted"; "sum(rate(tally_records_applied_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]))"),
				q("{{reason}}"; "sum by (reason) (rate(tally_records_skipped_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]))")])
				| unit("cps") | stacked),
			(series("Replay done"; "Of partitions that are not ready."; 8;
				[q("{{instance}} {{partition}}"; "tally_replay_progress_ratio{instance=~\"$instance\",partition=~\"$partition\"} and on (instance, partition) tally_partition_ready == 0")])
				| unit("percentunit") | between(0; 1)),
			(series("Replay: time to go"; "At its present rate."; 8;
				[q("{{instance}} {{partition}}"; "tally_replay_eta_seconds{instance=~\"$instance\",partition=~\"$partition\"} and on (instance, partition) tally_partition_ready == 0")]) | unit("s")),
			(series("Commits"; "Transactions a second, and how long the last one took at most."; 8;
				[q("commits/s"; "sum(rate(tally_commits_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]))"),
				q("slowest last one"; "max(tally_commit_seconds_last{instance=~\"$instance\",partition=~\"$partition\"})")])
				| column("slowest last one"; {unit: "s", "custom.axisPlacement": "right"}))
		]),
		section("Admissions"; [
			(series("Streams asked about"; "By what became of them. failed, unserved: not checked, clients let them in."; 8;
				[q("{{result}}"; "sum by (result) (rate(tally_ask_streams_total{instance=~\"$instance\",kind=\"exceeds\"}[$__rate_interval]))")])
				| unit("cps") | stacked),
			(series("Time to an answer"; "Of half, of 99 % and of 99.9 % of the questions."; 8;
				[q("50 %"; "histogram_quantile(0.5, sum by (le) (rate(tally_ask_duration_seconds_bucket{instance=~\"$instance\"}[$__rate_interval])))"),
				q("99 %"; "histogram_quantile(0.99, sum by (le) (rate(tally_ask_duration_seconds_bucket{instance=~\"$instance\"}[$__rate_interval])))"),
				q("99.9 %"; "histogram_quantile(0.999, sum by (le) (rate(tally_ask_duration_seconds_bucket{instance=~\"$instance\"}[$__rate_interval])))")])
				| unit("s") | logarithmic),
			(series("Questions"; "A second by kind, and how many are under way."; 8;
				[q("{{kind}}/s"; "sum by (kind) (rate(tally_ask_questions_total{instance=~\"$instance\"}[$__rate_interval]))"),
				q("under way"; "sum(tally_ask_under_way{instance=~\"$instance\"})")])),
			(series("How streams were accepted"; "From shared memory alone, or by the partition's worker."; 8;
				[q("from memory"; "sum(rate(tally_ask_streams_from_map_total{instance=~\"$instance\"}[$__rate_interval]))"),
				q("worker: known"; "sum(rate(tally_streams_asked_known_total{instance=~\"$instance\"}[$__rate_interval]))"),
				q("worker: new"; "sum(rate(tally_streams_asked_new_total{instance=~\"$instance\"}[$__rate_interval]))")])
				| unit("cps")),
			(series("To Kafka"; "Records handed to producers, confirmed, and waiting."; 8;
				[q("sent/s"; "sum(rate(tally_records_sent_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]))"),
				q("confirmed/s"; "sum(rate(tally_records_confirmed_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]))"),
				q("waiting"; "sum(tally_outbox_records{instance=~\"$instance\",partition=~\"$partition\"})")]) | unit("short")),
			(series("Other instances"; "Calls to them by outcome, a second."; 8;
				[q("{{outcome}}"; "sum by (outcome) (rate(tally_peers_calls_total{instance=~\"$instance\"}[$__rate_interval]))")]) | unit("cps"))
		]),
		section("Tenants"; [
			(bars("Nearest to their limits"; "Active streams by what this instance lets in."; 12;
				now("{{tenant}}"; "sort_desc(topk(20, max by (tenant) (tally_tenant_limit_used_ratio{instance=~\"$instance\"})))"))
				| unit("percentunit") | between(0; 1) | steps([[null, "green"], [0.8, "orange"], [0.95, "red"]])),
			(bars("Largest"; "Active streams, over all instances chosen above."; 12;
				now("{{tenant}}"; "sort_desc(topk(20, sum by (tenant) (tally_tenant_active_streams{instance=~\"$instance\"})))"))
				| unit("short") | steps([[null, "blue"]])),
			(series("Rejected streams by tenant"; "A second; no name: all others."; 8;
				[q("{{tenant}}"; "topk(10, sum by (tenant) (rate(tally_tenant_streams_rejected_total{instance=~\"$instance\"}[$__rate_interval])))")]) | unit("cps")),
			(series("Would be rejected (dry run)"; "A second; no name: all others."; 8;
				[q("{{tenant}}"; "topk(10, sum by (tenant) (rate(tally_tenant_streams_dry_run_rejected_total{instance=~\"$instance\"}[$__rate_interval])))")]) | unit("cps")),
			(series("Bytes by tenant"; "A second, over the rate window; of the largest tenants."; 8;
				[q("{{tenant}}"; "topk(10, sum by (tenant) (tally_tenant_bytes_per_second{instance=~\"$instance\"}))")]) | unit("Bps"))
		]),
		section("Processes"; [
			(series("Memory"; "Private memory by process: what adds up. The stores are beside it, in the file system of run_dir."; 8;
				[q("{{process}}"; "sum by (process) (tally_process_private_memory_bytes{instance=~\"$instance\"})"),
				q("stores"; "sum(tally_store_bytes{instance=~\"$instance\"})")]) | unit("bytes") | stacked),
			(series("Processors"; "Busy ones, by process."; 8;
				[q("{{process}}"; "sum by (process) (rate(tally_process_cpu_seconds_total{instance=~\"$instance\"}[$__rate_interval]))")]) | unit("short") | stacked),
			(series("Largest workers"; "Private memory."; 8;
				[q("{{instance}} {{partition}}"; "topk(10, tally_process_private_memory_bytes{instance=~\"$instance\",process=\"worker\",partition=~\"$partition\"})")]) | unit("bytes")),
			(series("Connections"; "Open ones, of clients and to workers."; 8;
				[q("HTTP"; "sum(tally_query_connections{instance=~\"$instance\"})"),
				q("gRPC"; "sum(tally_grpc_connections{instance=~\"$instance\"})"),
				q("to workers"; "sum(tally_ask_worker_connections{instance=~\"$instance\"})"),
				q("to other instances"; "sum(tally_peers_connected{instance=~\"$instance\"})")])),
			(series("HTTP answers"; "A second, by status."; 8;
				[q("{{status}}"; "sum by (status) (rate(tally_query_answers_total{instance=~\"$instance\"}[$__rate_interval]))")]) | unit("cps")),
			(series("Versions"; "Query processes by version."; 8;
				[q("{{version}}"; "count by (version) (tally_build_info{instance=~\"$instance\"})")]) | decimals(0))
		]),
		section("Errors"; [
			(series("Restarts"; "Of workers and of query processes."; 8;
				[q("{{instance}} {{partition}}"; "increase(tally_worker_restarts_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]) > 0"),
				q("{{instance}} query"; "increase(tally_query_restarts_total{instance=~\"$instance\"}[$__rate_interval])")])),
			(series("Problems of workers"; "Wrong, but healing: NOTES in man tallyctl."; 8;
				[q("{{problem}}"; "sum by (problem) (tally_worker_problem{instance=~\"$instance\",partition=~\"$partition\"})")]) | stacked | decimals(0)),
			(series("Records passed over"; "That should not be there: see man tally-metrics."; 8;
				[q("{{reason}}"; "sum by (reason) (increase(tally_records_skipped_total{instance=~\"$instance\",partition=~\"$partition\",reason=~\"undecodable|no_metadata|no_tenant|misrouted|store_full|quarantined\"}[$__rate_interval]))"),
				q("gone before they were read"; "sum(increase(tally_gap_offsets_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]))")])),
			(series("gRPC errors"; "Answers by status code, a second; 14: not served here."; 8;
				[q("code {{code}}"; "sum by (code) (rate(tally_grpc_answers_total{instance=~\"$instance\",code!=\"0\"}[$__rate_interval]))")]) | unit("cps")),
			(series("Refused"; "For want of a token or its scope; connections beyond what is allowed; questions beyond what can be under way."; 8;
				[q("{{protocol}} {{reason}}"; "sum by (protocol, reason) (rate(tally_access_refused_total{instance=~\"$instance\"}[$__rate_interval]))"),
				q("gRPC connections"; "sum(rate(tally_grpc_connections_refused_total{instance=~\"$instance\"}[$__rate_interval]))"),
				q("questions"; "sum(rate(tally_ask_refused_total{instance=~\"$instance\"}[$__rate_interval]))")]) | unit("cps")),
			(series("Kafka"; "Producers given up, offset look-ups that failed."; 8;
				[q("producers"; "sum(increase(tally_send_errors_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]))"),
				q("look-ups"; "sum(increase(tally_lookup_errors_total{instance=~\"$instance\",partition=~\"$partition\"}[$__rate_interval]))")]))
		])
	] | sections)
}
