/*
 * status.c - tallyctl status: the instance, its partitions, and one last line
 * that says whether all is well.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define NAMED_MAX  6	/* partitions named in the last line */
#define SILENT_MS  2000 /* workers give a sign of life every second */
#define DEATH_SIZE 72

static struct tally_partition *partitions_of(struct ctl *ctl, size_t *n)
{
	size_t cap = ctl->instance.partitions + 1;
	struct tally_partition *list = calloc(cap, sizeof *list);
	if (!list)
		abort();
	int err = tally_partitions(ctl->tally, list, cap, n);
	if (err) {
		ctl_cannot_attach(ctl->run_dir, err);
		free(list);
		return NULL;
	}
	*n = *n < cap ? *n : cap;
	return list;
}

/* ------------------------------------------------------------------ words about a partition */

static bool replaying(const struct tally_partition *p)
{
	return p->has_stats && !strcmp(p->phase, "replaying") && !strcmp(p->state, "replaying");
}

/* "81% (ETA 4.0 s)"; "" when it does not replay. */
static void describe_replay(const struct tally_partition *p, char *to, size_t size)
{
	char span[CTL_TEXT_SIZE];
	*to = 0;
	if (!replaying(p))
		return;
	int len = snprintf(to, size, "%d%%", (int)(p->progress * 100));
	if (p->eta_ms >= 0)
		snprintf(to + len, size - (size_t)len, " (ETA %s)", ctl_span(span, p->eta_ms));
}

static void append(char *to, size_t size, const char *text)
{
	size_t len = strlen(to);
	if (len < size)
		snprintf(to + len, size - len, "%s%s", len ? "; " : "", text);
}

/* Told to pass over, or passed over already: one may be ahead of the other. */
static uint64_t quarantined(const struct tally_partition *p)
{
	return p->quarantined > p->quarantine_listed ? p->quarantined : p->quarantine_listed;
}

/* Broken, or sent to the wrong partition: somebody should look at who writes them. */
static uint64_t unusable(const struct tally_partition *p)
{
	static const char *const reasons[] = {
		"undecodable", "no_metadata", "no_tenant", "misrouted"};
	uint64_t sum = 0;
	for (unsigned r = 0; r < TALLY_SKIP_REASONS; r++)
		for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
			if (!strcmp(tally_skip_reason(r), reasons[i]))
				sum += p->skipped[r];
	return sum;
}

/* "SIGSEGV", "exit code 70"; "hang (SIGKILL)": there the kind says more than the detail. */
static const char *death_of(const struct tally_partition *p, char to[DEATH_SIZE])
{
	bool plain = !strcmp(p->death, "exit") || !strcmp(p->death, "signal");
	if (!*p->death_detail)
		return p->death;
	if (plain)
		return p->death_detail;
	snprintf(to, DEATH_SIZE, "%s (%s)", p->death, p->death_detail);
	return to;
}

/* There is no log to read: tallyd has put it aside. */
static bool missing(const struct ctl *ctl, const struct tally_partition *p)
{
	uint32_t has = ctl->instance.topic_partitions;
	return !p->ready && has && p->partition >= has;
}

static void describe_notes(
	const struct ctl *ctl, const struct tally_partition *p, char *to, size_t size)
{
	char text[128], span[CTL_TEXT_SIZE], death[DEATH_SIZE];
	*to = 0;
	if (p->has_stats && p->pid && p->heartbeat_age_ms >= SILENT_MS) {
		snprintf(text, sizeof text, "no sign of life for %s",
			ctl_span(span, p->heartbeat_age_ms));
		append(to, size, text);
	}
	if (strcmp(p->state, "ready") == 0 && !p->ready)
		append(to, size, "lease is over");
	if (missing(ctl, p))
		append(to, size, "the topic does not have it");
	if (p->death_at_ms) {
		snprintf(text, sizeof text, "%s %s ago", death_of(p, death),
			ctl_span(span, ctl_minus(tally_now_ms(ctl->tally), p->death_at_ms)));
		append(to, size, text);
	}
	if (p->retry_in_ms) {
		snprintf(text, sizeof text, "restarts in %s", ctl_span(span, p->retry_in_ms));
		append(to, size, text);
	}
	if (*p->problems)
		append(to, size, p->problems);
	if (quarantined(p)) {
		snprintf(text, sizeof text, "%" PRIu64 " quarantined", quarantined(p));
		append(to, size, text);
	}
	if (!*to)
		snprintf(to, size, "-");
}

/* ------------------------------------------------------------------ the last line */

static void why_not_ready(
	const struct ctl *ctl, const struct tally_partition *p, char *to, size_t size)
{
	char replay[64], span[CTL_TEXT_SIZE], death[DEATH_SIZE];
	describe_replay(p, replay, sizeof replay);
	int len = snprintf(to, size, "p%" PRIu32 " %s", p->partition,
		strcmp(p->state, "ready") == 0 ? "lease over" : p->state);
	if (*replay) {
		snprintf(to + len, size - (size_t)len, " %s", replay);
		return;
	}
	if (missing(ctl, p)) {
		snprintf(to + len, size - (size_t)len, " (the topic does not have it)");
		return;
	}
	bool died = p->death_at_ms && strcmp(p->death, "none") != 0;
	if (!died || !(p->retry_in_ms || strcmp(p->state, "failed") == 0))
		return;
	len += snprintf(to + len, size - (size_t)len, " (%s", death_of(p, death));
	if (p->retry_in_ms)
		len += snprintf(to + len, size - (size_t)len, ", restarts in %s",
			ctl_span(span, p->retry_in_ms));
	snprintf(to + len, size - (size_t)len, ")");
}

static void summarize(
	const struct ctl *ctl, const struct tally_partition *list, size_t n, char *to, size_t size)
{
	size_t not_ready = 0, len = 0;
	if (!ctl->instance.alive) { /* what is ready by its lease is so for seconds only */
		len = (size_t)snprintf(to, size,
			"tallyd is %s: ", ctl_frozen(ctl) ? "frozen or stuck" : "not running");
		to += len;
		size -= len;
		len = 0;
	}
	for (size_t i = 0; i < n; i++)
		not_ready += !list[i].ready;
	if (!n || !not_ready) {
		snprintf(to, size,
			n ? "%zu of %zu partition%s ready"
			  : "no partition is assigned here (%zu of %zu%s; group %s)",
			n - not_ready, n, n ? ctl_s(n) : "", ctl->instance.group_state);
		return;
	}
	len = (size_t)snprintf(to, size, "%zu of %zu not ready: ", not_ready, n);
	size_t named = 0;
	for (size_t i = 0; i < n && named < NAMED_MAX; i++) {
		char why[160];
		if (list[i].ready)
			continue;
		why_not_ready(ctl, &list[i], why, sizeof why);
		len += (size_t)snprintf(to + len, size - len, "%s%s", named ? ", " : "", why);
		named++;
	}
	if (named < not_ready)
		snprintf(to + len, size - len, " and %zu more", not_ready - named);
}

/* ------------------------------------------------------------------ text */

static void print_partition(
	const struct ctl *ctl, struct ctl_table *table, const struct tally_partition *p)
{
	char number[CTL_TEXT_SIZE], pid[CTL_TEXT_SIZE], generation[CTL_TEXT_SIZE],
		offset[CTL_TEXT_SIZE], target[CTL_TEXT_SIZE], lag[CTL_TEXT_SIZE],
		rate[CTL_TEXT_SIZE], restarts[CTL_TEXT_SIZE], replay[64], notes[256];
	bool stats = p->has_stats;
	snprintf(number, sizeof number, "%" PRIu32, p->partition);
	ctl_offset(pid, p->pid ? (int64_t)p->pid : -1);
	snprintf(generation, sizeof generation, "%" PRIu64, p->generation);
	snprintf(restarts, sizeof restarts, "%" PRIu32, p->restarts);
	ctl_count(rate, p->records_per_sec);
	describe_replay(p, replay, sizeof replay);
	describe_notes(ctl, p, notes, sizeof notes);
	ctl_table_row(table, (const char *[]){number, p->state, pid, generation,
				     ctl_offset(offset, stats ? p->next_offset : -1),
				     ctl_offset(target, stats ? p->target_offset : -1),
				     ctl_offset(lag, stats ? p->lag : -1), stats ? rate : "-",
				     *replay ? replay : "-", restarts, notes});
}

static void print_status(const struct ctl *ctl, const struct tally_partition *list, size_t n,
	const char *summary, bool detail)
{
	static const char *const headings[] = {">P", "STATE", ">PID", ">GENERATION", ">OFFSET",
		">TARGET", ">LAG", ">REC/S", "REPLAY", ">RESTARTS", "NOTES"};
	struct ctl_table table;
	uint64_t held = 0, skipped = 0;
	ctl_print_instance(ctl);
	if (n) {
		putchar('\n');
		ctl_table_start(&table, sizeof headings / sizeof *headings, headings);
		for (size_t i = 0; i < n; i++) {
			print_partition(ctl, &table, &list[i]);
			held += quarantined(&list[i]);
			skipped += unusable(&list[i]);
		}
		ctl_table_end(&table);
	}
	if (detail)
		ctl_print_partition(list);
	putchar('\n');
	if (skipped)
		printf("%" PRIu64
		       " record%s could not be used; by reason: tallyctl --json status\n",
			skipped, ctl_s(skipped));
	if (held)
		printf("%" PRIu64 " record%s in quarantine\n", held, ctl_s(held));
	puts(summary);
}

/* ------------------------------------------------------------------ JSON */

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

static void json_status(
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
	ctl_json_text(to, "summary", summary);
	ctl_json_print(to);
}

/* ------------------------------------------------------------------ the command */

static int parse(int argc, char **argv, uint64_t *only)
{
	static const struct option options[] = {{"partition", required_argument, NULL, 'p'}, {0}};
	int option;
	*only = UINT64_MAX;
	while ((option = getopt_long(argc, argv, ":p:", options, NULL)) != -1) {
		if (option != 'p')
			return ctl_usage("status: option %s: %s", argv[optind - 1],
				option == ':' ? "needs a value" : "unknown");
		if (!ctl_number("--partition", optarg, 0, UINT32_MAX, only))
			return CTL_TROUBLE;
	}
	if (optind < argc)
		return ctl_usage("status: '%s' is one word too many; for one partition say "
				 "'tallyctl status --partition N'",
			argv[optind]);
	return CTL_OK;
}

static struct tally_partition *one_of(struct ctl *ctl, uint64_t partition, size_t *n)
{
	struct tally_partition *one = calloc(1, sizeof *one);
	if (!one)
		abort();
	int err = tally_partition(ctl->tally, (uint32_t)partition, one);
	*n = 1;
	if (!err)
		return one;
	free(one);
	if (err == TALLY_EINVALID)
		ctl_usage("status: there is no partition %" PRIu64
			  "; streams are routed over %" PRIu32,
			partition, ctl->instance.partitions);
	else
		ctl_cannot_attach(ctl->run_dir, err);
	return NULL;
}

int ctl_status(struct ctl *ctl, int argc, char **argv)
{
	char summary[1536];
	uint64_t only;
	size_t n = 0;
	if (parse(argc, argv, &only) || ctl_attach(ctl))
		return CTL_TROUBLE;
	struct tally_partition *list =
		only == UINT64_MAX ? partitions_of(ctl, &n) : one_of(ctl, only, &n);
	if (!list)
		return CTL_TROUBLE;
	summarize(ctl, list, n, summary, sizeof summary);
	if (ctl->json)
		json_status(ctl, list, n, summary);
	else
		print_status(ctl, list, n, summary, only != UINT64_MAX);
	bool all = n > 0 && ctl->instance.alive && !ctl_queryd_died(&ctl->instance);
	for (size_t i = 0; i < n; i++)
		all = all && list[i].ready;
	free(list);
	return all ? CTL_OK : CTL_INCOMPLETE;
}
