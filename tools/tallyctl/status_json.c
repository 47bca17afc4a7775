/*
 * status_json.c - tallyctl --json status: all that is known, exactly.
 */
#include <inttypes.h>
#include <stdio.h>

#include "status.h"

static json_t *json_replay(const struct tally_partition *p)
{
	json_t *to = json_object();
	ctl_json_known(to, "start_offset", p->start_offset);
	ctl_json_known(to, "target_offset", p->target_offset);
	json_object_set_new(to, "progress", json_real(p->progress));
	ctl_json_known(to, "eta_ms", p->eta_ms);
	ctl_json_int(to, "started_at_ms", p->replay_started_at_ms);
	ctl_json_int(to, "ready_at_ms", p->ready_at_ms);
	ctl_json_count(to, "replayed", p->replayed);
	return to;
}

static json_t *json_stats(const struct tally_partition *p)
{
	json_t *to = json_object(), *skipped = json_object();
	ctl_json_text(to, "phase", p->phase);
	ctl_json_text(to, "problems", p->problems);
	ctl_json_int(to, "heartbeat_age_ms", p->heartbeat_age_ms);
	ctl_json_known(to, "next_offset", p->next_offset);
	ctl_json_known(to, "log_start", p->log_start);
	ctl_json_known(to, "log_end", p->log_end);
	ctl_json_known(to, "lag", p->lag);
	ctl_json_int(to, "record_lag_ms", p->record_lag_ms);
	json_object_set_new(to, "replay", json_replay(p));
	for (unsigned i = 0; i < TALLY_SKIP_REASONS; i++)
		ctl_json_count(skipped, tally_skip_reason(i), p->skipped[i]);
	json_object_set_new(to, "skipped", skipped);
#define COUNT(name) ctl_json_count(to, #name, p->name)
	COUNT(records_per_sec);
	COUNT(records);
	COUNT(applied);
	COUNT(bytes);
	COUNT(commits);
	COUNT(gaps);
	COUNT(gap_offsets);
	COUNT(streams_stored);
	COUNT(swept);
	COUNT(policy_overflow);
	COUNT(quarantined);
	COUNT(outbox);
	COUNT(commit_ns_last);
	COUNT(commit_ns_max);
	COUNT(store_bytes);
	COUNT(map_bytes);
	COUNT(readers);
	COUNT(reader_lag);
	COUNT(reader_pid);
	COUNT(lookup_errors);
	COUNT(asked_known);
	COUNT(asked_new);
	COUNT(asked_rejected);
	COUNT(asked_failed);
	COUNT(touched);
	COUNT(rated);
	COUNT(sent);
	COUNT(confirmed);
	COUNT(send_errors);
#undef COUNT
	return to;
}

static const char *number_text(char text[CTL_TEXT_SIZE], uint64_t value)
{
	snprintf(text, CTL_TEXT_SIZE, "%" PRIu64, value);
	return text;
}

static json_t *json_partition(const struct tally_partition *p)
{
	json_t *to = json_object(), *death = json_object();
	char number[CTL_TEXT_SIZE];
	ctl_json_count(to, "partition", p->partition);
	ctl_json_text(to, "state", p->state);
	json_object_set_new(to, "ready", json_boolean(p->ready));
	/* As text: most readers of JSON round numbers above 2^53. */
	ctl_json_text(to, "generation", number_text(number, p->generation));
	ctl_json_count(to, "pid", p->pid);
	ctl_json_int(to, "lease_ms", p->lease_ms);
	ctl_json_text(to, "assigned_at_ns", number_text(number, (uint64_t)p->assigned_at_ns));
	ctl_json_int(to, "changed_at_ms", p->changed_at_ms);
	ctl_json_count(to, "restarts", p->restarts);
	ctl_json_count(to, "retry_in_ms", p->retry_in_ms);
	ctl_json_count(to, "quarantine_listed", p->quarantine_listed);
	ctl_json_text(death, "kind", p->death);
	ctl_json_text(death, "detail", p->death_detail);
	ctl_json_int(death, "at_ms", p->death_at_ms);
	json_object_set_new(to, "death", death);
	json_object_set_new(to, "stats", p->has_stats ? json_stats(p) : json_null());
	return to;
}

static json_t *json_limits(const struct tally_instance *in)
{
	json_t *to = json_object();
	char number[CTL_TEXT_SIZE];
	ctl_json_text(to, "state", in->limits_state);
	ctl_json_text(to, "error", in->limits_error);
	ctl_json_text(to, "version", number_text(number, in->limits_version));
	ctl_json_int(to, "at_ms", in->limits_at_ms);
	ctl_json_int(to, "loaded_at_ms", in->limits_loaded_at_ms);
	ctl_json_count(to, "refused", in->limits_refused);
	ctl_json_count(to, "tenants", in->limits_tenants);
	ctl_json_known(to, "default", in->limits_default);
	json_object_set_new(to, "dry_run", json_boolean(in->limits_dry_run));
	return to;
}

static json_t *json_queryd(const struct ctl *ctl)
{
	static const char *const files[][2] = {{"grpc", "query.grpc"}, {"http", "query.http"}};
	const struct tally_instance *in = &ctl->instance;
	json_t *to = json_object(), *pids = json_array(), *death = json_object();
	char address[CTL_ADDRESS_SIZE];
	ctl_json_count(to, "processes", in->query_processes);
	for (uint32_t i = 0; i < in->query_alive; i++)
		json_array_append_new(pids, json_integer(in->query_pids[i]));
	json_object_set_new(to, "pids", pids);
	ctl_json_text(death, "detail", in->query_death);
	ctl_json_int(death, "at_ms", in->query_died_at_ms);
	json_object_set_new(to, "death", death);
	for (size_t i = 0; i < 2; i++) {
		if (in->query_alive && !ctl_address(ctl, files[i][1], address))
			ctl_json_text(to, files[i][0], address);
		else
			json_object_set_new(to, files[i][0], json_null());
	}
	return to;
}

void status_json(
	const struct ctl *ctl, const struct tally_partition *list, size_t n, const char *summary)
{
	const struct tally_instance *in = &ctl->instance;
	json_t *to = ctl_json(ctl), *array = json_array();
	json_object_set_new(to, "stopped", json_boolean(in->stopped));
	ctl_json_text(to, "instance", in->instance);
	ctl_json_text(to, "topic", in->topic);
	ctl_json_text(to, "group", in->group);
	ctl_json_text(to, "group_state", in->group_state);
	ctl_json_text(to, "zone", in->zone);
	ctl_json_count(to, "topic_partitions", in->topic_partitions);
	ctl_json_count(to, "served_partitions", in->partitions);
	ctl_json_count(to, "owned", in->owned);
	ctl_json_count(to, "ready", in->ready);
	ctl_json_count(to, "window_minutes", in->window_minutes);
	ctl_json_count(to, "rate_minutes", in->rate_minutes);
	ctl_json_count(to, "supervisor_pid", in->supervisor_pid);
	ctl_json_count(to, "query_pid", in->query_pid);
	ctl_json_count(to, "query_restarts", in->query_restarts);
	ctl_json_count(to, "rebalances", in->rebalances);
	ctl_json_count(to, "lost_events", in->lost_events);
	ctl_json_int(to, "started_at_ms", in->started_at_ms);
	ctl_json_int(to, "heartbeat_age_ms", in->heartbeat_age_ms);
	ctl_json_int(to, "clock_offset_ms", in->clock_offset_ms);
	json_object_set_new(to, "queryd", json_queryd(ctl));
	json_object_set_new(to, "frozen", json_boolean(ctl_frozen(ctl)));
	json_object_set_new(to, "limits", json_limits(in));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, json_partition(&list[i]));
	json_object_set_new(to, "partitions", array);
	if (n == 1)
		json_object_set_new(to, "history", ctl_json_changes(ctl, list->partition));
	ctl_json_text(to, "summary", summary);
	ctl_json_print(to);
}
