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
#define P(name, kind, metric, scale) \
	{ #name, FIELD_##kind, offsetof(struct tally_partition, name), metric, scale }

static const struct field of_partition[] = {
P(partition,       U32,  NULL, 0),
P(state,           TEXT, NULL, 0), /* tally_partition_state */
P(ready,           BOOL, "tally_partition_ready", 0),
P(generation,      ID,   NULL, 0),
P(lease_ms,        I64,  "tally_lease_seconds", MS),
P(assigned_at_ns,  ID,   NULL, 0),
P(changed_at_ms,   TIME, "tally_partition_changed_timestamp_seconds", MS),
P(pid,             U32,  NULL, 0),
P(restarts,        U32,  "tally_worker_restarts_total", 0),
P(quarantine_listed, U32, "tally_quarantine_listed", 0),
P(retry_in_ms,     U32,  "tally_worker_retry_seconds", MS),
P(death,           TEXT, NULL, 0), /* tally_worker_last_death_info */
P(death_detail,    TEXT, NULL, 0),
P(death_at_ms,     TIME, "tally_worker_last_death_timestamp_seconds", MS),
P(has_stats,       BOOL, NULL, 0),
P(phase,           TEXT, NULL, 0), /* tally_worker_phase */
P(problems,        TEXT, NULL, 0), /* tally_worker_problem */
P(heartbeat_age_ms, I64, "tally_worker_heartbeat_age_seconds", MS),
P(next_offset,     OPT,  "tally_partition_next_offset", 0),
P(start_offset,    OPT,  "tally_replay_start_offset", 0),
P(target_offset,   OPT,  "tally_replay_target_offset", 0),
P(log_start,       OPT,  "tally_partition_log_start_offset", 0),
P(log_end,         OPT,  "tally_partition_log_end_offset", 0),
P(lag,             OPT,  "tally_partition_lag_records", 0),
P(progress,        DOUBLE, "tally_replay_progress_ratio", 0),
P(eta_ms,          OPT,  "tally_replay_eta_seconds", MS),
P(records_per_sec, U64,  "tally_records_per_second", 0),
P(record_lag_ms,   I64,  "tally_record_lag_seconds", MS),
P(replay_started_at_ms, TIME, "tally_replay_started_timestamp_seconds", MS),
P(ready_at_ms,     TIME, "tally_partition_ready_timestamp_seconds", MS),
P(records,         U64,  "tally_records_total", 0),
P(applied,         U64,  "tally_records_applied_total", 0),
P(bytes,           U64,  "tally_bytes_total", 0),
P(commits,         U64,  "tally_commits_total", 0),
P(replayed,        U64,  "tally_replay_records", 0),
P(gaps,            U64,  "tally_gaps_total", 0),
P(gap_offsets,     U64,  "tally_gap_offsets_total", 0),
P(streams_stored,  U64,  "tally_streams_stored", 0),
P(swept,           U64,  "tally_streams_swept_total", 0),
P(policy_overflow, U64,  "tally_policy_overflow_total", 0),
P(quarantined,     U64,  "tally_records_quarantined_total", 0),
P(outbox,          U64,  "tally_outbox_records", 0),
P(commit_ns_last,  U64,  "tally_commit_seconds_last", NS),
P(commit_ns_max,   U64,  "tally_commit_seconds_max", NS),
P(store_bytes,     U64,  "tally_store_bytes", 0),
P(map_bytes,       U64,  "tally_store_map_bytes", 0),
P(readers,         U64,  "tally_store_readers", 0),
P(reader_lag,      U64,  "tally_store_reader_lag_transactions", 0),
P(reader_pid,      U64,  "tally_store_oldest_reader_pid", 0),
P(lookup_errors,   U64,  "tally_lookup_errors_total", 0),
P(asked_known,     U64,  "tally_streams_asked_known_total", 0),
P(asked_new,       U64,  "tally_streams_asked_new_total", 0),
P(asked_rejected,  U64,  "tally_streams_asked_rejected_total", 0),
P(asked_failed,    U64,  "tally_streams_asked_failed_total", 0),
P(touched,         U64,  "tally_streams_touched_total", 0),
P(rated,           U64,  "tally_keys_rated_total", 0),
P(sent,            U64,  "tally_records_sent_total", 0),
P(confirmed,       U64,  "tally_records_confirmed_total", 0),
P(send_errors,     U64,  "tally_send_errors_total", 0),
};

#define I(name, kind, metric, scale) \
	{ #name, FIELD_##kind, offsetof(struct tally_instance, name), metric, scale }

static const struct field of_instance[] = {
I(topic,           TEXT, NULL, 0), /* tally_instance_info */
I(group,           TEXT, NULL, 0),
I(zone,            TEXT, NULL, 0),
I(instance,        TEXT, NULL, 0),
I(group_state,     TEXT, NULL, 0), /* tally_group_state */
I(topic_partitions, U32, "tally_topic_partitions", 0),
I(partitions,      U32,  "tally_topic_partitions_served", 0),
I(owned,           U32,  "tally_partitions_owned", 0),
I(ready,           U32,  "tally_partitions_ready", 0),
I(window_minutes,  U32,  "tally_active_window_seconds", 60),
I(rate_minutes,    U32,  "tally_rate_window_seconds", 60),
I(supervisor_pid,  U32,  NULL, 0),
I(query_pid,       U32,  NULL, 0),
I(query_restarts,  U32,  "tally_query_restarts_total", 0),
I(rebalances,      U64,  "tally_rebalances_total", 0),
I(lost_events,     U64,  "tally_lost_total", 0),
I(started_at_ms,   TIME, "tally_start_timestamp_seconds", MS),
I(heartbeat_age_ms, I64, "tally_supervisor_heartbeat_age_seconds", MS),
I(clock_offset_ms, I64,  "tally_clock_offset_seconds", MS),
I(alive,           BOOL, "tally_supervisor_alive", 0),
I(stopped,         BOOL, "tally_supervisor_stopped", 0),
I(limits_state,    TEXT, NULL, 0), /* tally_limits_state */
I(limits_error,    TEXT, NULL, 0),
I(limits_version,  ID,   NULL, 0),
I(limits_at_ms,    TIME, "tally_limits_load_timestamp_seconds", MS),
I(limits_loaded_at_ms, TIME, "tally_limits_loaded_timestamp_seconds", MS),
I(limits_refused,  U32,  "tally_limits_refused_total", 0),
I(limits_tenants,  U32,  "tally_limits_tenants", 0),
I(limits_default,  OPT,  "tally_limits_default", 0),
I(limits_dry_run,  BOOL, "tally_limits_dry_run", 0),
I(query_processes, U32,  "tally_query_processes", 0),
I(query_alive,     U32,  "tally_query_processes_alive", 0),
I(query_death,     TEXT, NULL, 0),
I(query_died_at_ms, TIME, "tally_query_last_death_timestamp_seconds", MS),
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
