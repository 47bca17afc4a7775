/*
 * ask_all.h - everything that can be asked of libtally and of tallyctl, and the shape of what comes.
 *
 * No matter what lies in the run directory: codes are those of tally.h, texts end and
 * are UTF-8, numbers are in their range, and nothing drives the terminal.
 */
#ifndef TALLY_TESTS_FUZZ_ASK_ALL_H
#define TALLY_TESTS_FUZZ_ASK_ALL_H

#include <getopt.h>

#include "fuzz.h"

#include "shm/tally.h"
#include "shm/window.h"
#include "tools/tallyctl/ctl.h"

#define PAGES_MAX 200

static void hold_code(int err)
{
	hold(err <= 0 && err >= TALLY_ENAMESPACE);
	hold(tally_error(err) != NULL);
}

#define hold_shown(text) hold_text_of(text, sizeof(text))
static void hold_text_of(const char *text, size_t size)
{
	hold(memchr(text, '\0', size) != NULL);
	hold(record_text_ok(text, strlen(text)));
}

static void hold_basis(const struct tally_basis *basis)
{
	hold(basis->answered <= basis->owned && basis->owned <= basis->partitions);
	hold(!basis->complete || (basis->answered == basis->owned && basis->owned > 0));
}

static void hold_partition(const struct tally_partition *part)
{
	hold_shown(part->state);
	hold_shown(part->death);
	hold_shown(part->death_detail);
	hold_shown(part->phase);
	hold_shown(part->problems);
	hold(part->progress >= 0 && part->progress <= 1);
	hold(part->lag >= -1);
}

static void ask_instance(struct tally *tally)
{
	static struct tally_partition parts[8];
	struct tally_instance in;
	size_t n = 0;

	hold_code(tally_instance(tally, &in));
	hold_shown(in.topic);
	hold_shown(in.group);
	hold_shown(in.zone);
	hold_shown(in.instance);
	hold_shown(in.group_state);
	hold_shown(in.limits_state);
	hold_shown(in.limits_error);
	hold_shown(in.query_death);
	hold(in.query_alive <= TALLY_QUERY_MAX);
	if (tally_partitions(tally, parts, 8, &n) == 0)
		for (size_t i = 0; i < n && i < 8; i++)
			hold_partition(&parts[i]);
	for (uint32_t p = 0; p < 4; p++)
		if (tally_partition(tally, p, parts) == 0)
			hold_partition(parts);
	hold_code(tally_partition(tally, UINT32_MAX, parts));
}

static void ask_tenants(struct tally *tally)
{
	static struct tally_usage list[8];
	struct tally_basis basis;
	char after[257] = "";
	size_t n = 0;
	int err = 0;

	for (int pages = 0; pages < PAGES_MAX && err == 0; pages++) {
		err = tally_tenants(tally, pages > 0 ? after : NULL, list, 8, &n, &basis);
		hold_code(err);
		if (err != 0 || n == 0)
			break;
		hold(n <= 8);
		hold_basis(&basis);
		for (size_t i = 0; i < n; i++) {
			hold_shown(list[i].tenant);
			hold(i == 0 || strcmp(list[i - 1].tenant, list[i].tenant) < 0);
		}
		snprintf(after, sizeof(after), "%s", list[n - 1].tenant);
	}
	err = tally_top(tally, list, 8, &n, &basis);
	hold_code(err);
	for (size_t i = 1; err == 0 && i < n; i++)
		hold(list[i - 1].streams >= list[i].streams);
}

static void ask_streams(struct tally *tally, const char *tenant)
{
	static struct tally_stream page[64];
	struct tally_cursor cursor = {0};
	struct tally_basis basis;
	size_t n = 0;

	for (int pages = 0; !cursor.done && pages < PAGES_MAX; pages++) {
		int err = tally_streams(tally, tenant, &cursor, page, 64, &n, &basis);

		hold_code(err);
		if (err != 0)
			break;
		hold(n <= 64);
		for (size_t i = 0; i < n; i++)
			hold_shown(page[i].policy);
	}
}

static void ask_tenant(struct tally *tally, const char *tenant)
{
	static struct tally_minute minutes[WINDOW_MINUTES_MAX + 1];
	static struct tally_policy policies[4];
	struct tally_part_usage part;
	struct tally_usage usage;
	struct tally_basis basis;
	size_t n = 0;

	if (tally_tenant(tally, tenant, &usage) == 0)
		hold_basis(&usage.basis);
	hold_shown(usage.tenant);
	if (tally_policies(tally, tenant, policies, 4, &n, &basis) == 0)
		for (size_t i = 0; i < n && i < 4; i++)
			hold_shown(policies[i].policy);
	hold_code(tally_histogram(tally, tenant, minutes, WINDOW_MINUTES_MAX + 1, &n, &basis));
	hold_code(tally_partition_usage(tally, 0, tenant, &part));
	ask_streams(tally, tenant);
}

static void ask_limits(struct tally *tally, const char *tenant)
{
	struct tally_check checks[] = {{.hash = 0}, {.hash = 4, .policy = "gold"}, {.hash = 17}};
	struct tally_lookup ask[] = {{.hash = 0}, {.hash = 4}, {.hash = 17}};
	static struct tally_bucket buckets[4];
	struct tally_tenant_limits limits;
	struct tally_stream stream;
	size_t n = 0;

	for (int32_t p = -1; p < 3; p++)
		if (tally_buckets(tally, tenant, p, &limits, buckets, 4, &n) == 0)
			for (size_t i = 0; i < n && i < 4; i++) {
				hold_shown(buckets[i].policy);
				hold(buckets[i].share <= buckets[i].limit);
				hold(buckets[i].headroom <= buckets[i].share);
			}
	if (tally_check(tally, tenant, checks, 3, &limits) == 0)
		for (size_t i = 0; i < 3; i++)
			hold(checks[i].result != 0 || checks[i].verdict <= TALLY_FULL);
	if (tally_lookup(tally, tenant, ask, 3) == 0)
		for (size_t i = 0; i < 3; i++)
			hold_code(ask[i].result);
	if (tally_stream(tally, tenant, 4, &stream) == 0)
		hold_shown(stream.policy);
}

FUZZ_UNUSED static void ask_all(struct tally *tally)
{
	ask_instance(tally);
	ask_tenants(tally);
	ask_tenant(tally, "t");
	ask_limits(tally, "t");
	ask_limits(tally, "a");
	tally_still_valid(tally);
	tally_idle(tally);
	tally_now_ms(tally);
}

/* --- tallyctl ---------------------------------------------------------------------------------- */

static void hold_printed(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hold((unsigned char)text[i] >= 0x20 || text[i] == '\n');
	hold(len == 0 || record_text_ok(text, len));
}

/* As main calls it; what it prints goes into memory. */
static void say(
	int (*command)(struct ctl *, int, char **), struct ctl *ctl, const char *const *words)
{
	FILE *out = stdout, *err = stderr, *memory;
	char *text = NULL;
	size_t len = 0;
	int argc = 0, code;

	while (words[argc] != NULL)
		argc++;
	memory = open_memstream(&text, &len);
	hold(memory != NULL);
	stdout = stderr = memory;
	optind = 0;
	code = command(ctl, argc, (char **)(uintptr_t)words);
	stdout = out;
	stderr = err;
	fclose(memory);
	hold(code >= CTL_OK && code <= CTL_UNDECIDED);
	hold_printed(text, len);
	free(text);
}

/* One of its commands, by number. */
FUZZ_UNUSED static void say_one(struct tally *tally, const char *run_dir, unsigned which)
{
	static const struct {
		int (*run)(struct ctl *, int, char **);
		const char *words[4];
	} commands[] = {
		{ctl_status, {"status"}},
		{ctl_tenants, {"tenants"}},
		{ctl_tenant, {"tenant", "t"}},
		{ctl_streams, {"streams", "t"}},
		{ctl_stream, {"stream", "t", "4"}},
		{ctl_explain, {"explain", "t", "4"}},
		{ctl_top, {"top"}},
	};
	struct ctl ctl = {.run_dir = run_dir, .tally = tally, .json = which % 2};

	which = which / 2 % (sizeof(commands) / sizeof(commands[0]));
	if (tally_instance(tally, &ctl.instance) == 0)
		say(commands[which].run, &ctl, commands[which].words);
}

#endif
