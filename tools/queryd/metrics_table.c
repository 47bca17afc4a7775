/*
 * metrics_table.c - every metric of /metrics: name, type, unit, labels, meaning.
 *
 *	table --metrics_head--> # HELP, # TYPE
 *
 * Counters of query processes lie in files of theirs (counts.h), and go on with the next process.
 * Counters that are a worker's lie in shared memory, beside its store: they go on when the
 * worker dies, and when tallyd starts again and adopts the store.  They start at 0 with a
 * new generation, which counts everything anew.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "metrics_table.h"

#include <string.h>

#include "prom.h"

#include "shm/check.h"

/* clang-format off */
#define HEADING(title, text) { title, NULL, NULL, NULL, text },
#define M(name, type, unit, labels, help) { name, #type, unit, labels, help },

static const struct metric table[] = {
HEADING("The query processes",
	"Of all of them together.")
M("tally_up", gauge, "", "",
	"1: there is an instance in run_dir that this process can read; 0: there is none.")
M("tally_build_info", gauge, "", "version",
	"1, with the version of this query process.")
M("tally_query_start_timestamp_seconds", gauge, "seconds", "",
	"Unix time when the query process that started last did.")
M("tally_query_answers_total", counter, "answers", "route,status",
	"HTTP answers given. Route \"\": a path that there is not.")
M("tally_query_rebuilt_total", counter, "answers", "",
	"Answers built again because a partition left while they were built.")
M("tally_query_connections", gauge, "connections", "",
	"Open HTTP connections.")
M("tally_query_connections_accepted_total", counter, "connections", "",
	"HTTP connections accepted.")
M("tally_query_connections_ended_total", counter, "connections", "reason",
	"HTTP connections that were ended to make room (room), or for being too slow (slow).")
M("tally_access_tokens", gauge, "tokens", "",
	"Tokens that query.tokens_file has; no sample without one.")
M("tally_access_refused_total", counter, "questions", "protocol,reason",
	"Questions refused for want of a token, or of its scope; no samples without query.tokens_file.")

HEADING("Processes",
	"Of tallyd, its workers and its query processes, as the kernel has them. A process that starts again starts at 0.")
M("tally_process_resident_memory_bytes", gauge, "bytes", "process,partition",
	"Memory in use (RSS), with what it maps of stores, which others map, too. process: supervisor, worker (of partition), query (all of them together).")
M("tally_process_private_memory_bytes", gauge, "bytes", "process,partition",
	"The part of it that is shared with nobody: this is what adds up.")
M("tally_process_cpu_seconds_total", counter, "seconds", "process,partition",
	"Processor time used.")

HEADING("The instance",
	"From the table in shared memory, counted by tallyd since it started.")
M("tally_instance_info", gauge, "", "topic,group,zone,instance_name",
	"1, with what this instance is.")
M("tally_group_state", gauge, "", "state",
	"1 for the state of the consumer group membership.")
M("tally_rebalances_total", counter, "assignments", "",
	"Assignments received from the consumer group.")
M("tally_lost_total", counter, "losses", "",
	"Times that the group membership was lost.")
M("tally_topic_partitions", gauge, "partitions", "",
	"Partitions of the topic; 0 = not known yet.")
M("tally_topic_partitions_served", gauge, "partitions", "",
	"Partitions that streams are routed over; more or fewer than the topic has when kafka.partitions is set.")
M("tally_partitions_owned", gauge, "partitions", "",
	"Partitions of this instance.")
M("tally_partitions_ready", gauge, "partitions", "",
	"Partitions of this instance that answer.")
M("tally_active_window_seconds", gauge, "seconds", "",
	"A stream is active for so long after its last record.")
M("tally_rate_window_seconds", gauge, "seconds", "",
	"Time over which rates are taken.")
M("tally_start_timestamp_seconds", gauge, "seconds", "",
	"Unix time when the supervisor started.")
M("tally_supervisor_alive", gauge, "", "",
	"Whether the supervisor runs and its heartbeat is fresh.")
M("tally_supervisor_stopped", gauge, "", "",
	"Whether the supervisor has stopped in order.")
M("tally_supervisor_heartbeat_age_seconds", gauge, "seconds", "",
	"Time since the supervisor's last sign of life.")
M("tally_clock_offset_seconds", gauge, "seconds", "",
	"Added to wall time by every process, for drills; 0 in production.")
M("tally_query_processes", gauge, "processes", "",
	"Query processes that should run.")
M("tally_query_processes_alive", gauge, "processes", "",
	"Query processes that run.")
M("tally_query_restarts_total", counter, "restarts", "",
	"Restarts of query processes by the supervisor.")
M("tally_query_last_death_timestamp_seconds", gauge, "seconds", "",
	"Unix time of the last death of a query process; no sample before one.")
M("tally_limits_state", gauge, "", "state",
	"1 for what came of the last load of the limits of tenants, else 0: none (no file is configured), ok, refused.")
M("tally_limits_refused_total", counter, "loads", "",
	"Loads of the limits that were refused.")
M("tally_limits_load_timestamp_seconds", gauge, "seconds", "",
	"Unix time of the last attempt to load the limits of tenants.")
M("tally_limits_loaded_timestamp_seconds", gauge, "seconds", "",
	"Unix time of the last load of the limits that was taken.")
M("tally_limits_tenants", gauge, "tenants", "",
	"Tenants with limits of their own.")
M("tally_limits_default", gauge, "streams", "",
	"Limit of a tenant that has none of its own; 0 = no limit.")
M("tally_limits_dry_run", gauge, "", "",
	"Whether nothing is rejected, for tenants whose entry does not say.")

HEADING("Partitions",
	"Of each partition that this instance owns. Counters of a worker lie beside its store: they go on when it dies and when tallyd starts again, and start at 0 with a new generation (a store that is built anew).")
M("tally_partition_state", gauge, "", "partition,state",
	"1 for the state that the partition is in, else 0.")
M("tally_partition_ready", gauge, "", "partition",
	"Whether the partition answers: its state is ready and its lease is running.")
M("tally_partition_changed_timestamp_seconds", gauge, "seconds", "partition",
	"Unix time of the last change of state.")
M("tally_partition_ready_timestamp_seconds", gauge, "seconds", "partition",
	"Unix time when the worker had caught up.")
M("tally_lease_seconds", gauge, "seconds", "partition",
	"What is left of the partition's lease; at 0 or below it neither answers nor commits.")
M("tally_partition_next_offset", gauge, "offset", "partition",
	"Next offset to read, as committed with the counts.")
M("tally_partition_log_start_offset", gauge, "offset", "partition",
	"First offset of the log, as last known.")
M("tally_partition_log_end_offset", gauge, "offset", "partition",
	"End of the log, as last known.")
M("tally_partition_lag_records", gauge, "records", "partition",
	"Offsets between the next one to read and the end of the log.")
M("tally_record_lag_seconds", gauge, "seconds", "partition",
	"Age of the last applied record when it was applied.")
M("tally_replay_progress_ratio", gauge, "", "partition",
	"Progress of the replay, 0 to 1; 1 when it is done.")
M("tally_replay_eta_seconds", gauge, "seconds", "partition",
	"Time to the end of the replay at its present rate; no sample when that is not known.")
M("tally_replay_start_offset", gauge, "offset", "partition",
	"Offset where the worker's present run began.")
M("tally_replay_target_offset", gauge, "offset", "partition",
	"Offset at which the replay ends.")
M("tally_replay_records", gauge, "records", "partition",
	"Records read by the worker's present run before it was ready.")
M("tally_replay_started_timestamp_seconds", gauge, "seconds", "partition",
	"Unix time when the replay began.")
M("tally_records_total", counter, "records", "partition",
	"Records seen, whatever became of them.")
M("tally_records_applied_total", counter, "records", "partition",
	"Records that were counted.")
M("tally_records_skipped_total", counter, "records", "partition,reason",
	"Records that were not counted, by reason.")
M("tally_records_quarantined_total", counter, "records", "partition",
	"Records passed over as poison.")
M("tally_records_per_second", gauge, "records per second", "partition",
	"Records read, over the last seconds.")
M("tally_bytes_total", counter, "bytes", "partition",
	"Bytes that the counted records speak of.")
M("tally_gaps_total", counter, "gaps", "partition",
	"Jumps in offsets beyond what was expected to be there.")
M("tally_gap_offsets_total", counter, "offsets", "partition",
	"Offsets in those jumps.")
M("tally_lookup_errors_total", counter, "look-ups", "partition",
	"Offset look-ups that failed.")
M("tally_policy_overflow_total", counter, "records", "partition",
	"Records put under the default policy because their tenant has too many.")
M("tally_streams_stored", gauge, "streams", "partition",
	"Streams in the store, expired ones included.")
M("tally_streams_swept_total", counter, "streams", "partition",
	"Expired streams removed from the store.")
M("tally_commits_total", counter, "transactions", "partition",
	"Transactions committed.")
M("tally_commit_seconds_last", gauge, "seconds", "partition",
	"Duration of the last commit.")
M("tally_commit_seconds_max", gauge, "seconds", "partition",
	"Longest commit of the worker's present run.")
M("tally_store_bytes", gauge, "bytes", "partition",
	"Bytes in use by the partition's store.")
M("tally_store_map_bytes", gauge, "bytes", "partition",
	"Most that the partition's store can grow to.")
M("tally_store_readers", gauge, "slots", "partition",
	"Reader slots of the store that are taken.")
M("tally_store_reader_lag_transactions", gauge, "transactions", "partition",
	"Transactions that the oldest reader of the store is behind.")
M("tally_store_oldest_reader_pid", gauge, "", "partition",
	"Process of that reader; 0: nobody is behind.")
M("tally_streams_asked_known_total", counter, "streams", "partition",
	"Streams that the worker was asked about and that were active.")
M("tally_streams_asked_new_total", counter, "streams", "partition",
	"Streams that the worker was asked about and let in.")
M("tally_streams_asked_rejected_total", counter, "streams", "partition",
	"Streams that the worker was asked about and rejected.")
M("tally_streams_asked_failed_total", counter, "streams", "partition",
	"Streams that the worker was asked about and could not let in: outbox or store full, or not ready.")
M("tally_streams_touched_total", counter, "streams", "partition",
	"Streams that a query process accepted from the map and told the worker about.")
M("tally_keys_rated_total", counter, "keys", "partition",
	"Keys of UpdateRates that the worker was asked about.")
M("tally_outbox_records", gauge, "records", "partition",
	"Records waiting to be produced.")
M("tally_records_sent_total", counter, "records", "partition",
	"Records that the worker handed to its producer.")
M("tally_records_confirmed_total", counter, "records", "partition",
	"Records that brokers confirmed to the worker.")
M("tally_send_errors_total", counter, "producers", "partition",
	"Producers that the worker has given up; what they had is tried again by the next.")
M("tally_worker_phase", gauge, "", "partition,phase",
	"1 for the phase that the partition's worker is in.")
M("tally_worker_problem", gauge, "", "partition,problem",
	"1 for each thing that is wrong but healing in the partition's worker; NOTES in man tallyctl has them.")
M("tally_worker_heartbeat_age_seconds", gauge, "seconds", "partition",
	"Time since the worker's last sign of life.")
M("tally_worker_restarts_total", counter, "restarts", "partition",
	"Restarts of the partition's worker after a death, or for a new store, since the assignment.")
M("tally_worker_retry_seconds", gauge, "seconds", "partition",
	"Back-off before the worker is started again; 0 = none.")
M("tally_worker_last_death_info", gauge, "", "partition,kind,detail",
	"1, with how the partition's worker died last; no sample before a death.")
M("tally_worker_last_death_timestamp_seconds", gauge, "seconds", "partition",
	"Unix time of the last death of the partition's worker; no sample before one.")
M("tally_quarantine_listed", gauge, "offsets", "partition",
	"Offsets that the worker has been told to pass over.")

HEADING("Tenants",
	"Of the query.metrics_tenants largest tenants, and of as many that are nearest to a limit, over the partitions that answer, and over those that are replaying as far as they have come. A name with control characters, or with \\x in it, has those and its backslashes as \\xNN.")
M("tally_tenants_answered_partitions", gauge, "partitions", "",
	"Ready partitions that the metrics of tenants stand on; compare with tally_partitions_owned. No sample with query.metrics_tenants: 0.")
M("tally_tenants_partial_partitions", gauge, "partitions", "",
	"Partitions that are replaying, and in the metrics of tenants as far as they have come. No sample with query.metrics_tenants: 0.")
M("tally_tenant_active_streams", gauge, "streams", "tenant",
	"Active streams of the largest tenants.")
M("tally_tenant_window_bytes", gauge, "bytes", "tenant",
	"Bytes in the active window, of the largest tenants.")
M("tally_tenant_bytes_per_second", gauge, "bytes per second", "tenant",
	"Bytes per second over the rate window, of the largest tenants.")
M("tally_tenant_policies", gauge, "policies", "tenant",
	"Policies in use, of the largest tenants.")
M("tally_tenant_limit_used_ratio", gauge, "", "tenant",
	"Streams that count against a limit by this instance's share of it, of the tenants that are nearest to one. Where policies have limits of their own: of the nearest of all.")
M("tally_tenant_limit_streams", gauge, "streams", "tenant",
	"That share: so many streams this instance lets in.")
M("tally_tenant_limit_used_streams", gauge, "streams", "tenant",
	"Active streams that count against it.")
M("tally_tenant_streams_rejected_total", counter, "streams", "tenant",
	"Streams rejected for want of room under the limit. The first 1024 tenants of each query process that had any, since run_dir was made; tenant \"\": all others.")
M("tally_tenant_streams_dry_run_rejected_total", counter, "streams", "tenant",
	"Streams that were let in beyond the limit in a dry run. Tenants as above.")

HEADING("Questions",
	"May this stream come in? As the query processes were asked, over gRPC and HTTP.")
M("tally_ask_questions_total", counter, "questions", "kind",
	"Questions: exceeds (ExceedsLimits), rates (UpdateRates).")
M("tally_ask_streams_total", counter, "streams", "kind,result",
	"Streams (keys, for rates) that were asked about, by what became of them here: accepted, rejected, failed, unserved.")
M("tally_ask_duration_seconds", histogram, "seconds", "",
	"Time from a question to its answer.")
M("tally_ask_under_way", gauge, "questions", "",
	"Questions that wait for workers or budgets now.")
M("tally_ask_refused_total", counter, "questions", "",
	"Questions that were answered failed at once: too many streams were under way.")
M("tally_ask_streams_from_map_total", counter, "streams", "",
	"Streams that were accepted from shared memory alone.")
M("tally_ask_reserved_streams", gauge, "streams", "",
	"Budgets that are with workers: so many new streams may come in beside what is counted.")
M("tally_ask_claims_waiting", gauge, "claims", "",
	"Claims for budgets that wait for others to come back.")
M("tally_ask_tenants_kept", gauge, "tenants", "",
	"Tenants whose limits and counts are at hand, in the query process that has most.")
M("tally_ask_readings_total", counter, "readings", "",
	"Times a tenant's streams were counted to judge.")
M("tally_ask_touches_total", counter, "streams", "fate",
	"Streams accepted from shared memory: told to workers (sent), added to one that waited (coalesced), dropped since the partition left (dropped), refused for want of room: they failed (refused).")
M("tally_ask_touches_waiting", gauge, "streams", "",
	"Streams accepted from shared memory that workers have not been told of yet.")
M("tally_ask_worker_connections", gauge, "connections", "",
	"Connections to workers.")
M("tally_ask_worker_messages", gauge, "messages", "",
	"Messages that workers have not answered yet.")
M("tally_ask_worker_lost_total", counter, "messages", "",
	"Messages whose worker ended before it answered: their streams failed.")
M("tally_ask_worker_refused_total", counter, "connections", "",
	"Connections that no worker took.")
M("tally_ask_worker_nonsense_total", counter, "answers", "",
	"Answers of workers that made no sense: a bug, or tools of two versions.")

HEADING("gRPC",
	"Of all query processes together.")
M("tally_grpc_connections", gauge, "connections", "",
	"Open gRPC connections.")
M("tally_grpc_calls", gauge, "calls", "",
	"gRPC calls under way.")
M("tally_grpc_memory_bytes", gauge, "bytes", "",
	"Bytes of requests and answers under way.")
M("tally_grpc_answers_total", counter, "answers", "code",
	"gRPC answers by status code; no sample for codes that were never given.")
M("tally_grpc_connections_accepted_total", counter, "connections", "",
	"gRPC connections accepted.")
M("tally_grpc_connections_refused_total", counter, "connections", "",
	"gRPC connections refused since there were too many.")
M("tally_grpc_connections_abused_total", counter, "connections", "",
	"gRPC connections ended because of what they did.")
M("tally_grpc_received_bytes_total", counter, "bytes", "",
	"Bytes received over gRPC.")
M("tally_grpc_sent_bytes_total", counter, "bytes", "",
	"Bytes sent over gRPC.")

HEADING("Other instances",
	"Of query.peers, as the query processes know them; all together where nothing else is said.")
M("tally_peers_known", gauge, "instances", "",
	"Addresses of other instances (query.peers), without our own; of the query process that knows most.")
M("tally_peers_connected", gauge, "instances", "",
	"Other instances that each query process is connected to: of the one that has fewest.")
M("tally_peers_partitions", gauge, "partitions", "",
	"Partitions that other instances serve, as far as the query process knows that knows least.")
M("tally_peers_calls", gauge, "calls", "",
	"Calls to other instances under way.")
M("tally_peers_calls_total", counter, "calls", "outcome",
	"Calls to other instances: answered; refused as not served there (unavailable); refused for want of a token that is taken there (forbidden); outcome unknown: late, broken off, another error (failed); not sent since too much was under way (full).")
M("tally_peers_connects_total", counter, "connections", "",
	"Connections made to other instances.")
M("tally_peers_lost_total", counter, "connections", "",
	"Connections to other instances that ended.")
M("tally_peers_strange_total", counter, "answers", "",
	"Answers, results and partitions of other instances that make no sense.")
M("tally_peers_streams_asked_total", counter, "streams", "",
	"Streams (keys, for rates) that other instances were asked about.")
M("tally_peers_streams_retried_total", counter, "streams", "",
	"Of these, asked of a second one since the first did not serve them.")

HEADING("Loki's names",
	"With query.metrics_names: loki, beside all of the above: the names and labels of Grafana Loki's ingest-limits and its front-end, where one means the same or nearly so. Counters are of all query processes together; those of records are what one of them has seen of all partitions since the first one in run_dir started.")
M("loki_ingest_limits_partitions", gauge, "", "partition",
	"State of the partition: 1 pending, 2 replaying, 3 ready, 0 another.")
M("loki_ingest_limits_active_streams", gauge, "streams", "tenant",
	"Active streams of the largest tenants (there: of all).")
M("loki_ingest_limits_streams", gauge, "streams", "tenant",
	"The same: expired streams are never counted.")
M("loki_ingest_limits_tenant_ingested_bytes_total", counter, "bytes", "tenant",
	"Bytes of the streams that were accepted. The first 1024 tenants of each query process that had any; tenant \"\": all others.")
M("loki_ingest_limits_stream_evictions_total", counter, "streams", "",
	"Expired streams removed from the stores (there: by tenant).")
M("loki_ingest_limits_streams_discarded_total", counter, "streams", "",
	"Streams asked about whose partition is not served here (there: by partition).")
M("loki_ingest_limits_lag_seconds", histogram, "seconds", "",
	"Age of the last applied record when it was applied: each second, of each partition that has read any.")
M("loki_ingest_limits_records_fetched_total", counter, "records", "",
	"Records seen by all partitions.")
M("loki_ingest_limits_records_discarded_total", counter, "records", "",
	"Records that could be read but were not counted.")
M("loki_ingest_limits_records_invalid_total", counter, "records", "",
	"Records that could not be read, or had no tenant or no metadata.")
M("loki_ingest_limits_records_produced_total", counter, "records", "",
	"Records handed to producers.")
M("loki_ingest_limits_records_produced_failed_total", counter, "producers", "",
	"Producers given up. There: records; here none is lost by it, the next producer has it again.")
M("loki_ingest_limits_frontend_streams_total", counter, "streams", "",
	"Streams that were asked about.")
M("loki_ingest_limits_frontend_streams_failed_total", counter, "streams", "",
	"Streams that could not be checked.")
M("loki_ingest_limits_frontend_streams_rejected_total", counter, "streams", "",
	"Streams that were rejected.")
M("loki_ingest_limits_frontend_partitions_missing_total", counter, "streams", "zone",
	"Streams whose partition is not served in this zone (there: partitions, in each request).")
};
/* clang-format on */

const struct metric *metrics_table(size_t *n)
{
	*n = sizeof(table) / sizeof(table[0]);
	return table;
}

const struct metric *metrics_find(const char *name)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].type != NULL && strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

bool metrics_is_loki(const struct metric *metric)
{
	return strncmp(metric->name, "loki_", 5) == 0;
}

void metrics_head(FILE *out, const char *name)
{
	const struct metric *metric = metrics_find(name);

	must(metric != NULL);
	prom_head(out, name, metric->type, metric->help);
}

void metrics_single(FILE *out, const char *name, uint64_t value)
{
	metrics_head(out, name);
	prom_count(out, name, NULL, value);
}
