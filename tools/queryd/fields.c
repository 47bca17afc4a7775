/*
 * fields.c - one table of what is known of a partition and of the instance.
 *
 *	struct tally_partition --fields_of_partition--> /api/v1/partitions, /metrics
 *	struct tally_instance  --fields_of_instance---> /api/v1/instance, /metrics
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"

#define MS 1e-3
#define NS 1e-9

/* clang-format off */
#define P(name, kind, metric, type, scale, help) \
	{ #name, FIELD_##kind, offsetof(struct tally_partition, name), metric, type, scale, help }

static const struct field of_partition[] = {
P(partition,       U32,  NULL, NULL, 0, NULL),
P(state,           TEXT, NULL, NULL, 0, NULL), /* tally_partition_state */
P(ready,           BOOL, "tally_partition_ready", "gauge", 0,
	"Whether the partition answers: its state is ready and its lease is running."),
P(generation,      ID,   NULL, NULL, 0, NULL),
P(lease_ms,        I64,  "tally_lease_seconds", "gauge", MS,
	"What is left of the partition's lease; at 0 or below it neither answers nor commits."),
P(assigned_at_ns,  ID,   NULL, NULL, 0, NULL),
P(changed_at_ms,   TIME, "tally_partition_changed_timestamp_seconds", "gauge", MS,
	"Unix time of the last change of state."),
P(pid,             U32,  NULL, NULL, 0, NULL),
P(restarts,        U32,  "tally_worker_restarts_total", "counter", 0,
	"Restarts of the partition's worker after a death, or for a new store, since the assignment."),
P(quarantine_listed, U32, "tally_quarantine_listed", "gauge", 0,
	"Offsets that the worker has been told to pass over."),
P(retry_in_ms,     U32,  "tally_worker_retry_seconds", "gauge", MS,
	"Back-off before the worker is started again; 0 = none."),
P(death,           TEXT, NULL, NULL, 0, NULL), /* tally_worker_last_death_info */
P(death_detail,    TEXT, NULL, NULL, 0, NULL),
P(death_at_ms,     TIME, "tally_worker_last_death_timestamp_seconds", "gauge", MS,
	"Unix time of the last death of the partition's worker."),
P(has_stats,       BOOL, NULL, NULL, 0, NULL),
P(phase,           TEXT, NULL, NULL, 0, NULL), /* tally_worker_phase */
P(problems,        TEXT, NULL, NULL, 0, NULL), /* tally_worker_problem */
P(heartbeat_age_ms, I64, "tally_worker_heartbeat_age_seconds", "gauge", MS,
	"Time since the worker's last sign of life."),
P(next_offset,     OPT,  "tally_partition_next_offset", "gauge", 0,
	"Next offset to read, as committed with the counts."),
P(start_offset,    OPT,  "tally_replay_start_offset", "gauge", 0,
	"Offset where the worker's present run began."),
P(target_offset,   OPT,  "tally_replay_target_offset", "gauge", 0,
	"Offset at which the replay ends."),
P(log_start,       OPT,  "tally_partition_log_start_offset", "gauge", 0,
	"First offset of the log, as last known."),
P(log_end,         OPT,  "tally_partition_log_end_offset", "gauge", 0,
	"End of the log, as last known."),
P(lag,             OPT,  "tally_partition_lag_records", "gauge", 0,
	"Offsets between the next one to read and the end of the log."),
P(progress,        DOUBLE, "tally_replay_progress_ratio", "gauge", 0,
	"Progress of the replay, 0 to 1; 1 when it is done."),
P(eta_ms,          OPT,  "tally_replay_eta_seconds", "gauge", MS,
	"Time to the end of the replay at its present rate."),
P(records_per_sec, U64,  "tally_records_per_second", "gauge", 0,
	"Records read per second, over the last seconds."),
P(record_lag_ms,   I64,  "tally_record_lag_seconds", "gauge", MS,
	"Age of the last applied record when it was applied."),
P(replay_started_at_ms, TIME, "tally_replay_started_timestamp_seconds", "gauge", MS,
	"Unix time when the replay began."),
P(ready_at_ms,     TIME, "tally_partition_ready_timestamp_seconds", "gauge", MS,
	"Unix time when the worker had caught up."),
P(records,         U64,  "tally_records_total", "counter", 0,
	"Records seen since the generation began, whatever became of them."),
P(applied,         U64,  "tally_records_applied_total", "counter", 0,
	"Records that were counted."),
P(bytes,           U64,  "tally_bytes_total", "counter", 0,
	"Bytes of the records that were counted."),
P(commits,         U64,  "tally_commits_total", "counter", 0,
	"Transactions committed by the worker's present run."),
P(replayed,        U64,  "tally_records_replayed_total", "counter", 0,
	"Records read by the worker's present run before it was ready."),
P(gaps,            U64,  "tally_gaps_total", "counter", 0,
	"Jumps in offsets beyond what was expected to be there."),
P(gap_offsets,     U64,  "tally_gap_offsets_total", "counter", 0,
	"Offsets in those jumps."),
P(streams_stored,  U64,  "tally_streams_stored", "gauge", 0,
	"Streams in the store, expired ones included."),
P(swept,           U64,  "tally_streams_swept_total", "counter", 0,
	"Expired streams removed from the store."),
P(policy_overflow, U64,  "tally_policy_overflow_total", "counter", 0,
	"Records put under the default policy because their tenant has too many."),
P(quarantined,     U64,  "tally_records_quarantined_total", "counter", 0,
	"Records passed over as poison."),
P(outbox,          U64,  "tally_outbox_records", "gauge", 0,
	"Records waiting to be produced."),
P(commit_ns_last,  U64,  "tally_commit_seconds_last", "gauge", NS,
	"Duration of the last commit."),
P(commit_ns_max,   U64,  "tally_commit_seconds_max", "gauge", NS,
	"Longest commit of the worker's present run."),
P(store_bytes,     U64,  "tally_store_bytes", "gauge", 0,
	"Bytes in use by the partition's store."),
P(map_bytes,       U64,  "tally_store_map_bytes", "gauge", 0,
	"Most that the partition's store can grow to."),
P(readers,         U64,  "tally_store_readers", "gauge", 0,
	"Reader slots of the store that are taken."),
P(reader_lag,      U64,  "tally_store_reader_lag_transactions", "gauge", 0,
	"Transactions that the oldest reader of the store is behind."),
P(reader_pid,      U64,  "tally_store_oldest_reader_pid", "gauge", 0,
	"Process of that reader; 0: nobody is behind."),
P(lookup_errors,   U64,  "tally_lookup_errors_total", "counter", 0,
	"Offset look-ups that failed."),
P(asked_known,     U64,  "tally_streams_asked_known_total", "counter", 0,
	"Streams that the worker's present run was asked about and that were active."),
P(asked_new,       U64,  "tally_streams_asked_new_total", "counter", 0,
	"Streams that the worker's present run was asked about and let in."),
P(asked_rejected,  U64,  "tally_streams_asked_rejected_total", "counter", 0,
	"Streams that the worker's present run was asked about and rejected."),
P(asked_failed,    U64,  "tally_streams_asked_failed_total", "counter", 0,
	"Streams that the worker's present run was asked about and could not let in: outbox or store full, or not ready."),
P(touched,         U64,  "tally_streams_touched_total", "counter", 0,
	"Streams that a query process accepted from the map and told the worker's present run about."),
P(rated,           U64,  "tally_keys_rated_total", "counter", 0,
	"Keys of UpdateRates that the worker's present run was asked about."),
P(sent,            U64,  "tally_records_sent_total", "counter", 0,
	"Records that the worker's present run handed to its producer."),
P(confirmed,       U64,  "tally_records_confirmed_total", "counter", 0,
	"Records that brokers confirmed to the worker's present run."),
P(send_errors,     U64,  "tally_send_errors_total", "counter", 0,
	"Producers that the worker's present run has given up."),
};

#define I(name, kind, metric, type, scale, help) \
	{ #name, FIELD_##kind, offsetof(struct tally_instance, name), metric, type, scale, help }

static const struct field of_instance[] = {
I(topic,           TEXT, NULL, NULL, 0, NULL), /* tally_instance_info */
I(group,           TEXT, NULL, NULL, 0, NULL),
I(zone,            TEXT, NULL, NULL, 0, NULL),
I(instance,        TEXT, NULL, NULL, 0, NULL),
I(group_state,     TEXT, NULL, NULL, 0, NULL), /* tally_group_state */
I(topic_partitions, U32, "tally_topic_partitions", "gauge", 0,
	"Partitions of the topic; 0 = not known yet."),
I(partitions,      U32,  "tally_topic_partitions_served", "gauge", 0,
	"Partitions that streams are routed over; more or fewer than the topic has when kafka.partitions is set."),
I(owned,           U32,  "tally_partitions_owned", "gauge", 0,
	"Partitions of this instance."),
I(ready,           U32,  "tally_partitions_ready", "gauge", 0,
	"Partitions of this instance that answer."),
I(window_minutes,  U32,  "tally_active_window_seconds", "gauge", 60,
	"A stream is active for so long after its last record."),
I(rate_minutes,    U32,  "tally_rate_window_seconds", "gauge", 60,
	"Time over which rates are taken."),
I(supervisor_pid,  U32,  NULL, NULL, 0, NULL),
I(query_pid,       U32,  NULL, NULL, 0, NULL),
I(query_restarts,  U32,  "tally_query_restarts_total", "counter", 0,
	"Restarts of the query process by the supervisor."),
I(rebalances,      U64,  "tally_rebalances_total", "counter", 0,
	"Assignments received from the consumer group."),
I(lost_events,     U64,  "tally_lost_total", "counter", 0,
	"Times that the group membership was lost."),
I(started_at_ms,   TIME, "tally_start_timestamp_seconds", "gauge", MS,
	"Unix time when the supervisor started."),
I(heartbeat_age_ms, I64, "tally_supervisor_heartbeat_age_seconds", "gauge", MS,
	"Time since the supervisor's last sign of life."),
I(clock_offset_ms, I64,  "tally_clock_offset_seconds", "gauge", MS,
	"Added to wall time by every process, for drills; 0 in production."),
I(alive,           BOOL, "tally_supervisor_alive", "gauge", 0,
	"Whether the supervisor runs and its heartbeat is fresh."),
I(stopped,         BOOL, "tally_supervisor_stopped", "gauge", 0,
	"Whether the supervisor has stopped in order."),
I(limits_state,    TEXT, NULL, NULL, 0, NULL), /* tally_limits_state */
I(limits_error,    TEXT, NULL, NULL, 0, NULL),
I(limits_version,  ID,   NULL, NULL, 0, NULL),
I(limits_at_ms,    TIME, "tally_limits_load_timestamp_seconds", "gauge", MS,
	"Unix time of the last attempt to load the limits of tenants."),
I(limits_loaded_at_ms, TIME, "tally_limits_loaded_timestamp_seconds", "gauge", MS,
	"Unix time of the last load of the limits that was taken."),
I(limits_refused,  U32,  "tally_limits_refused_total", "counter", 0,
	"Loads of the limits that were refused."),
I(limits_tenants,  U32,  "tally_limits_tenants", "gauge", 0,
	"Tenants with limits of their own."),
I(limits_default,  OPT,  "tally_limits_default", "gauge", 0,
	"Limit of a tenant that has none of its own; 0 = no limit."),
I(limits_dry_run,  BOOL, "tally_limits_dry_run", "gauge", 0,
	"Whether nothing is rejected, for tenants whose entry does not say."),
I(query_processes, U32,  "tally_query_processes", "gauge", 0,
	"Query processes that should run."),
I(query_alive,     U32,  "tally_query_processes_alive", "gauge", 0,
	"Query processes that run."),
I(query_death,     TEXT, NULL, NULL, 0, NULL),
I(query_died_at_ms, TIME, "tally_query_last_death_timestamp_seconds", "gauge", MS,
	"Unix time of the last death of a query process."),
};
/* clang-format on */

const struct field *fields_of_partition(size_t *n)
{
	*n = sizeof(of_partition) / sizeof(of_partition[0]);
	return of_partition;
}

const struct field *fields_of_instance(size_t *n)
{
	*n = sizeof(of_instance) / sizeof(of_instance[0]);
	return of_instance;
}

bool field_from_stats(const struct field *field)
{
	return field >= of_partition &&
	       field < of_partition + sizeof(of_partition) / sizeof(of_partition[0]) &&
	       field->at > offsetof(struct tally_partition, has_stats);
}

/* All kinds of numbers but FIELD_DOUBLE; unsigned ones above INT64_MAX only in FIELD_U64, FIELD_ID.
 */
static int64_t integer_of(const struct field *field, const void *base)
{
	const char *at = (const char *)base + field->at;
	int64_t i64;
	uint32_t u32;
	int boolean;

	switch (field->kind) {
	case FIELD_BOOL:
		memcpy(&boolean, at, sizeof(boolean));
		return boolean != 0;
	case FIELD_U32:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	default:
		memcpy(&i64, at, sizeof(i64));
		return i64;
	}
}

static double double_of(const struct field *field, const void *base)
{
	double value;

	memcpy(&value, (const char *)base + field->at, sizeof(value));
	return value;
}

static bool unknown(const struct field *field, int64_t value)
{
	return (field->kind == FIELD_OPT && value < 0) || (field->kind == FIELD_TIME && value == 0);
}

static json_t *json_of(const struct field *field, const void *base)
{
	char text[24];
	int64_t value;

	if (field->kind == FIELD_TEXT)
		return answer_text((const char *)base + field->at);
	if (field->kind == FIELD_DOUBLE)
		return json_real(double_of(field, base));
	value = integer_of(field, base);
	if (field->kind == FIELD_ID) {
		snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)value);
		return json_string(text);
	}
	if (field->kind == FIELD_BOOL)
		return json_boolean(value);
	if (field->kind == FIELD_U64)
		return answer_count((uint64_t)value);
	return unknown(field, value) ? json_null() : json_integer(value);
}

void field_to_json(const struct field *field, const void *base, json_t *object)
{
	json_object_set_new(object, field->name, json_of(field, base));
}

bool field_to_sample(const struct field *field, const void *base, char text[40])
{
	int64_t value;

	if (field->kind == FIELD_DOUBLE) {
		snprintf(text, 40, "%.9g", double_of(field, base));
		return true;
	}
	value = integer_of(field, base);
	if (unknown(field, value))
		return false;
	if (field->scale != 0)
		snprintf(text, 40, "%.15g",
			(field->kind == FIELD_U64 ? (double)(uint64_t)value : (double)value) *
				field->scale);
	else if (field->kind == FIELD_U64)
		snprintf(text, 40, "%" PRIu64, (uint64_t)value);
	else
		snprintf(text, 40, "%" PRId64, value);
	return true;
}
