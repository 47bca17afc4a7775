/*
 * client_parts.c - the instance and its partitions, for people and for monitors.
 *
 *	table head --> tally_instance
 *	table slot + worker's stats --> tally_partition
 *
 * Facts, not answers: nothing here is checked against a lease, and all of it
 * is there when tallyd is gone, too.  Stats are read by read(2): a worker can
 * cut its own file short, and a map of it would kill us then.
 *
 * Runs in: every reader.  Blocks in: nowhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shm/client_private.h"
#include "shm/err.h"
#include "shm/handoff.h"
#include "shm/stats.h"

_Static_assert(TALLY_SKIP_REASONS == SKIP_REASONS, "public copy");

#define LOAD(field) atomic_load_explicit(&head->field, memory_order_relaxed)

const char *tally_skip_reason(unsigned reason)
{
	return reason < SKIP_REASONS ? skip_reason_word((enum skip_reason)reason) : NULL;
}

static void put_word(char *to, size_t size, const char *word)
{
	snprintf(to, size, "%s", word);
}

/* How long ago, in ms; what lies ahead is 0. */
static int64_t age_ms(uint64_t boot_ns, uint64_t at)
{
	return at && boot_ns > at ? (int64_t)((boot_ns - at) / 1000000) : 0;
}

/* ------------------------------------------------------------------ the instance */

static void count_slots(struct tally *tally, struct tally_instance *out)
{
	uint64_t boot = host_boot_ns();
	for (uint32_t p = 0; p < out->partitions; p++) {
		uint64_t word = table_word_of(&tally->table, p);
		if (table_word_state(word) == PART_FREE || table_word_state(word) >= PART_STATES)
			continue;
		out->owned++;
		out->ready += table_is_ready(&tally->table, p, word, boot);
	}
}

/* What holds for a tenant without an entry: in the file itself. */
static void copy_defaults(struct tally *tally, struct tally_instance *out)
{
	struct client_buckets buckets;
	out->limits_default = -1;
	if (client_buckets_start(&buckets, tally, ""))
		return;
	uint64_t streams = buckets.entry.streams;
	out->limits_default = streams == LIMIT_NONE ? 0 : (int64_t)streams;
	out->limits_dry_run = buckets.entry.dry_run;
}

static void copy_limits(struct tally *tally, struct tally_instance *out)
{
	const struct table_head *head = tally->table.head;
	char text[TABLE_TEXT_SIZE];
	put_word(out->limits_state, sizeof out->limits_state,
		load_state_word((enum load_state)LOAD(limits_state)));
	table_limits_error(&tally->table, text);
	client_text(out->limits_error, sizeof out->limits_error, text, sizeof text);
	out->limits_version = LOAD(limits_version);
	out->limits_at_ms = (int64_t)LOAD(limits_at);
	out->limits_loaded_at_ms = (int64_t)LOAD(limits_loaded_at);
	out->limits_refused = LOAD(limits_refused);
	out->limits_tenants = LOAD(limits_tenants);
	copy_defaults(tally, out);
}

/* ------------------------------------------------------------------ the query processes */

static const char *signal_word(int signal)
{
	return signal > 0 ? sigabbrev_np(signal) : NULL;
}

static void describe_query_death(const struct table_head *head, char *to, size_t size)
{
	int32_t code = LOAD(query_death_code);
	const char *word;
	*to = 0;
	switch (LOAD(query_death)) {
	case DEATH_EXIT:
		snprintf(to, size, "exit %" PRId32, code);
		return;
	case DEATH_SIGNAL:
		word = signal_word(code);
		if (word)
			snprintf(to, size, "SIG%s", word);
		else
			snprintf(to, size, "signal %" PRId32, code);
		return;
	case DEATH_SPAWN:
		word = code ? strerrordesc_np(code) : NULL;
		put_word(to, size, word ? word : "it cannot be started");
		return;
	default:
		return;
	}
}

_Static_assert(TALLY_QUERY_MAX == TABLE_QUERY_MAX, "public copy");

static void copy_query(const struct tally *tally, struct tally_instance *out)
{
	const struct table_head *head = tally->table.head;
	out->query_pid = LOAD(query_pid);
	out->query_restarts = LOAD(query_restarts);
	out->query_processes = LOAD(query_processes);
	for (uint32_t i = 0; i < TALLY_QUERY_MAX; i++) {
		uint32_t pid = LOAD(query_pids[i]);
		if (pid)
			out->query_pids[out->query_alive++] = pid;
	}
	describe_query_death(head, out->query_death, sizeof out->query_death);
	out->query_died_at_ms = (int64_t)(LOAD(query_died_at) / 1000000);
}

int tally_instance(struct tally *tally, struct tally_instance *out)
{
	if (!tally || !out)
		return TALLY_EINVALID;
	*out = (struct tally_instance){0};
	int err = client_enter(tally);
	if (err)
		return client_public(err);
	const struct table_head *head = tally->table.head;
	uint64_t boot = host_boot_ns(), heartbeat = LOAD(heartbeat);
	client_text(out->topic, sizeof out->topic, head->topic, sizeof head->topic);
	client_text(out->group, sizeof out->group, head->group, sizeof head->group);
	client_text(out->zone, sizeof out->zone, head->zone, sizeof head->zone);
	client_text(out->instance, sizeof out->instance, head->instance, sizeof head->instance);
	put_word(out->group_state, sizeof out->group_state,
		group_state_word((enum group_state)LOAD(group_state)));
	out->partitions = client_partitions(tally);
	out->topic_partitions = LOAD(topic_partitions);
	count_slots(tally, out);
	out->window_minutes = tally->window;
	out->rate_minutes = tally->rate;
	out->supervisor_pid = head->supervisor_pid;
	copy_query(tally, out);
	out->rebalances = LOAD(rebalances);
	out->lost_events = LOAD(lost_events);
	out->started_at_ms = (int64_t)(head->started_at / 1000000);
	out->heartbeat_age_ms = age_ms(boot, heartbeat);
	out->clock_offset_ms = LOAD(clock_offset_ms);
	out->alive = table_is_alive(&tally->table, boot);
	out->stopped = LOAD(stopped) != 0;
	copy_limits(tally, out);
	return 0;
}

/* ------------------------------------------------------------------ a partition's slot */

void client_describe_death(enum part_death death, int32_t code, char *to, size_t size)
{
	const char *word = NULL;
	*to = 0;
	switch (death) {
	case DEATH_EXIT:
		if (code == EXIT_LIBRARY) {
			put_word(to, size, "assertion in librdkafka");
			return;
		}
		snprintf(to, size, "exit code %" PRId32, code);
		return;
	case DEATH_SIGNAL:
	case DEATH_HANG:
		word = signal_word(code);
		if (word)
			snprintf(to, size, "SIG%s", word);
		else if (death == DEATH_SIGNAL)
			snprintf(to, size, "signal %" PRId32, code);
		else
			put_word(to, size, "no heartbeat");
		return;
	case DEATH_SPAWN:
		word = strerrordesc_np(code);
		break;
	case DEATH_REBUILD:
		word = rebuild_reason_word((enum rebuild_reason)code);
		break;
	default:
		return;
	}
	put_word(to, size, word ? word : "unknown");
}

static void copy_slot(
	const struct tally *tally, const struct table_entry *entry, struct tally_partition *out)
{
	uint64_t boot = host_boot_ns();
	put_word(out->state, sizeof out->state, part_state_word(entry->state));
	out->ready = table_is_ready(&tally->table, out->partition, entry->word, boot);
	out->generation = entry->generation;
	out->lease_ms = entry->lease_until > boot ? (int64_t)((entry->lease_until - boot) / 1000000)
						  : -age_ms(boot, entry->lease_until);
	out->assigned_at_ns = (int64_t)entry->assigned_at;
	out->changed_at_ms = (int64_t)(entry->changed_at / 1000000);
	out->pid = entry->pid;
	out->restarts = entry->restarts;
	out->quarantine_listed = entry->quarantined;
	out->retry_in_ms = entry->retry_in_ms;
	put_word(out->death, sizeof out->death, part_death_word(entry->death));
	client_describe_death(
		entry->death, entry->death_code, out->death_detail, sizeof out->death_detail);
	out->death_at_ms = (int64_t)(entry->death_at / 1000000);
}

/* ------------------------------------------------------------------ a worker's stats */

static void describe_problems(uint64_t flags, char *to, size_t size)
{
	static const struct {
		uint64_t flag;
		const char *word;
	} words[] = {
		{FLAG_DEGRADED, "degraded"},
		{FLAG_STORE_FULL, "store_full"},
		{FLAG_STALLED, "stalled"},
		{FLAG_CLOCK_OFF, "clock_off"},
		{FLAG_LEASE_OVER, "lease_over"},
		{FLAG_BAD_BATCH, "bad_batch"},
		{FLAG_UNWRITTEN, "unwritten"},
		{FLAG_OLD_READER, "old_reader"},
	};
	size_t len = 0;
	*to = 0;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (flags & words[i].flag && len < size)
			len += (size_t)snprintf(
				to + len, size - len, "%s%s", len ? " " : "", words[i].word);
}

/* Offsets that a worker of this phase knows; it takes over a predecessor's file before that. */
static void copy_offsets(const struct stats_copy *stats, struct tally_partition *out)
{
	bool located = stats->phase >= PHASE_REPLAYING && stats->phase < PHASE_COUNT;
	out->next_offset = (int64_t)stats->next_offset - 1;
	out->start_offset = located ? (int64_t)stats->start_offset : -1;
	out->target_offset = located ? (int64_t)stats->target_offset : -1;
	out->log_start = located ? (int64_t)stats->log_start : -1;
	out->log_end = located ? (int64_t)stats->log_end : -1;
	int64_t at = out->next_offset > out->start_offset ? out->next_offset : out->start_offset;
	out->lag = -1;
	if (located && at >= 0 && out->log_end >= 0)
		out->lag = out->log_end > at ? out->log_end - at : 0;
	out->eta_ms = -1;
	if (stats->phase >= PHASE_LIVE) {
		out->progress = 1;
		out->eta_ms = 0;
	} else if (located && at >= 0 && out->start_offset >= 0) {
		double all = (double)out->target_offset - (double)out->start_offset;
		double left = (double)out->target_offset - (double)at;
		out->progress = all <= 0 || left <= 0 ? 1 : 1 - left / all;
		if (left <= 0)
			out->eta_ms = 0;
		else if (stats->records_per_sec && left / (double)stats->records_per_sec < 1e12)
			out->eta_ms = (int64_t)(left * 1000 / (double)stats->records_per_sec + 0.5);
	}
}

static void copy_stats(const struct stats_copy *stats, struct tally_partition *out)
{
	out->has_stats = 1;
	put_word(out->phase, sizeof out->phase, worker_phase_word((enum worker_phase)stats->phase));
	describe_problems(stats->flags, out->problems, sizeof out->problems);
	out->heartbeat_age_ms = age_ms(host_boot_ns(), stats->heartbeat);
	copy_offsets(stats, out);
	out->record_lag_ms = (int64_t)stats->record_lag_ms;
	out->replay_started_at_ms = (int64_t)stats->replay_started_at;
	out->ready_at_ms = (int64_t)stats->ready_at;
	memcpy(out->skipped, stats->skipped, sizeof out->skipped);
	out->streams_stored = stats->streams;
#define SAME(name) out->name = stats->name
	SAME(records_per_sec);
	SAME(records);
	SAME(applied);
	SAME(bytes);
	SAME(commits);
	SAME(replayed);
	SAME(gaps);
	SAME(gap_offsets);
	SAME(swept);
	SAME(policy_overflow);
	SAME(quarantined);
	SAME(outbox);
	SAME(commit_ns_last);
	SAME(commit_ns_max);
	SAME(store_bytes);
	SAME(map_bytes);
	SAME(readers);
	SAME(reader_lag);
	SAME(reader_pid);
	SAME(lookup_errors);
	SAME(asked_known);
	SAME(asked_new);
	SAME(asked_rejected);
	SAME(asked_failed);
	SAME(touched);
	SAME(rated);
	SAME(sent);
	SAME(confirmed);
	SAME(send_errors);
#undef SAME
}

static void read_stats(struct tally *tally, struct tally_partition *out)
{
	char name[TABLE_DIR_NAME_SIZE];
	struct stats_copy stats;
	struct stat st;
	table_dir_name(name, out->partition, out->generation);
	if (fstatat(tally->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ||
		stats_pread(tally->dirfd, name, &stats))
		return;
	if (stats.partition == out->partition && stats.generation == out->generation)
		copy_stats(&stats, out);
}

/* ------------------------------------------------------------------ calls */

static int describe(struct tally *tally, uint32_t partition, struct tally_partition *out)
{
	struct table_entry entry;
	*out = (struct tally_partition){.partition = partition};
	int err = table_read(&tally->table, partition, &entry);
	if (err)
		return err;
	copy_slot(tally, &entry, out);
	if (entry.state != PART_FREE)
		read_stats(tally, out);
	return 0;
}

int tally_partitions(struct tally *tally, struct tally_partition *out, size_t cap, size_t *n)
{
	struct tally_partition one;
	if (!tally || !n || (cap && !out))
		return TALLY_EINVALID;
	*n = 0;
	int err = client_enter(tally);
	for (uint32_t p = 0; !err && p < client_partitions(tally); p++) {
		enum part_state state = table_word_state(table_word_of(&tally->table, p));
		if (state == PART_FREE || state >= PART_STATES)
			continue;
		err = describe(tally, p, *n < cap ? &out[*n] : &one);
		(*n)++;
	}
	return client_public(err);
}

int tally_partition(struct tally *tally, uint32_t partition, struct tally_partition *out)
{
	if (!tally || !out)
		return TALLY_EINVALID;
	*out = (struct tally_partition){.partition = partition};
	int err = client_enter(tally);
	if (!err && partition >= client_partitions(tally))
		err = ERR_INVALID;
	if (!err)
		err = describe(tally, partition, out);
	return client_public(err);
}
