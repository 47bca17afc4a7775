/*
 * partition.c - tallyctl status --partition N: all that is known of one partition, a line each.
 *
 * The names are those of the JSON form and of the metrics.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

static void row(struct ctl_table *table, const char *name, const char *value)
{
	ctl_table_row(table, (const char *[]){name, value});
}

static void row_number(struct ctl_table *table, const char *name, uint64_t value)
{
	char text[CTL_TEXT_SIZE];
	snprintf(text, sizeof text, "%" PRIu64, value);
	row(table, name, text);
}

static void row_bytes(struct ctl_table *table, const char *name, uint64_t value)
{
	char text[CTL_TEXT_SIZE];
	row(table, name, ctl_bytes(text, (double)value));
}

static void row_offset(struct ctl_table *table, const char *name, int64_t value)
{
	char text[CTL_TEXT_SIZE];
	row(table, name, ctl_offset(text, value));
}

static void row_span(struct ctl_table *table, const char *name, int64_t ms)
{
	char text[CTL_TEXT_SIZE];
	row(table, name, ctl_span(text, ms));
}

static void row_time(struct ctl_table *table, const char *name, int64_t ms)
{
	char text[CTL_TEXT_SIZE];
	row(table, name, ms > 0 ? ctl_clock(text, ms) : "-");
}

static void add_slot(struct ctl_table *table, const struct tally_partition *p)
{
	row(table, "state", p->state);
	row(table, "ready", p->ready ? "yes" : "no");
	row_number(table, "generation", p->generation);
	row_number(table, "pid", p->pid);
	row_span(table, "lease", p->lease_ms);
	row_time(table, "assigned", p->assigned_at_ns / 1000000);
	row_time(table, "changed", p->changed_at_ms);
	row_number(table, "restarts", p->restarts);
	row_span(table, "retry in", p->retry_in_ms);
	row_number(table, "quarantine_listed", p->quarantine_listed);
	row(table, "death", p->death);
	row(table, "death detail", *p->death_detail ? p->death_detail : "-");
	row_time(table, "death at", p->death_at_ms);
}

static void add_reading(struct ctl_table *table, const struct tally_partition *p)
{
	char text[CTL_TEXT_SIZE];
	row(table, "phase", p->phase);
	row(table, "problems", *p->problems ? p->problems : "-");
	row_span(table, "heartbeat age", p->heartbeat_age_ms);
	row_offset(table, "next_offset", p->next_offset);
	row_offset(table, "start_offset", p->start_offset);
	row_offset(table, "target_offset", p->target_offset);
	row_offset(table, "log_start", p->log_start);
	row_offset(table, "log_end", p->log_end);
	row_offset(table, "lag", p->lag);
	row_span(table, "record lag", p->record_lag_ms);
	snprintf(text, sizeof text, "%.1f%%", p->progress * 100);
	row(table, "replay progress", text);
	row_time(table, "replay started", p->replay_started_at_ms);
	row_time(table, "ready at", p->ready_at_ms);
}

static void add_counters(struct ctl_table *table, const struct tally_partition *p)
{
#define NUMBER(name) row_number(table, #name, p->name)
	NUMBER(records_per_sec);
	NUMBER(records);
	NUMBER(applied);
	for (unsigned i = 1; i < TALLY_SKIP_REASONS; i++)
		row_number(table, tally_skip_reason(i), p->skipped[i]);
	row_bytes(table, "bytes", p->bytes);
	NUMBER(commits);
	NUMBER(commit_ns_last);
	NUMBER(commit_ns_max);
	NUMBER(replayed);
	NUMBER(gaps);
	NUMBER(gap_offsets);
	NUMBER(streams_stored);
	NUMBER(swept);
	NUMBER(policy_overflow);
	NUMBER(asked_known);
	NUMBER(asked_new);
	NUMBER(asked_rejected);
	NUMBER(asked_failed);
	NUMBER(touched);
	NUMBER(rated);
	NUMBER(outbox);
	NUMBER(sent);
	NUMBER(confirmed);
	NUMBER(send_errors);
	row_bytes(table, "store", p->store_bytes);
	row_bytes(table, "map", p->map_bytes);
	NUMBER(readers);
	NUMBER(reader_lag);
	NUMBER(reader_pid);
	NUMBER(lookup_errors);
#undef NUMBER
}

void ctl_print_partition(const struct ctl *ctl, const struct tally_partition *p)
{
	static const char *const headings[] = {"FACT", "VALUE"};
	struct ctl_table table;
	ctl_table_start(&table, 2, headings);
	add_slot(&table, p);
	if (p->has_stats) {
		add_reading(&table, p);
		add_counters(&table, p);
	}
	ctl_table_end(&table);
	ctl_print_changes(ctl, p->partition);
}
