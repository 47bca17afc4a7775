/*
 * lib-dump.c - what libtally says of an instance, as dump.h's totals.
 *
 *	lib-dump --run-dir DIR
 *
 * Linked with libtally.a and nothing else of ours: it sees what a stranger's
 * program sees.  Exit code 1 when an answer is not complete, or when a tenant's
 * count, the sum of its policies and its listed streams differ.
 */
#include <getopt.h>

#include "shm/tally.h"
#include "tests/tools/dump.h"
#include "tests/tools/text.h"

#define PAGE	     100
#define POLICIES_MAX 1024

static _Noreturn void fail(const char *what, int err)
{
	fprintf(stderr, "lib-dump: %s: %s\n", what, err ? tally_error(err) : "not complete");
	exit(1);
}

/* Follows the pages of active streams: there must be as many as the counts say. */
static uint64_t list_streams(struct tally *tally, const char *name)
{
	static struct tally_stream page[PAGE];
	struct tally_cursor cursor = {0};
	struct tally_basis basis;
	uint64_t streams = 0;
	size_t n;

	while (!cursor.done) {
		int err = tally_streams(tally, name, &cursor, page, PAGE, &n, &basis);

		if (err != 0 || !basis.complete)
			fail(name, err);
		for (size_t i = 0; i < n; i++)
			streams += page[i].active != 0;
	}
	return streams;
}

static void dump_tenant(struct dump *dump, struct tally *tally, const char *name)
{
	static struct tally_policy policies[POLICIES_MAX];
	char tenant[TEXT_SIZE], policy[TEXT_SIZE];
	struct tally_basis basis;
	struct tally_usage usage;
	uint64_t streams = 0;
	size_t n = 0;
	int err = tally_policies(tally, name, policies, POLICIES_MAX, &n, &basis);

	if (err != 0 || !basis.complete)
		fail(name, err);
	for (size_t i = 0; i < n; i++) {
		streams += policies[i].streams;
		dump_usage(dump, 0, text_of(tenant, name, strlen(name)),
			text_of(policy, policies[i].policy, strlen(policies[i].policy)),
			policies[i].streams, policies[i].bytes);
	}
	err = tally_tenant(tally, name, &usage);
	if (err != 0 || !usage.basis.complete)
		fail(name, err);
	if (usage.streams != streams || list_streams(tally, name) != streams)
		fail(name, TALLY_ECORRUPT);
}

static void dump_tenants(struct dump *dump, struct tally *tally)
{
	static struct tally_usage page[PAGE];
	char after[sizeof(page[0].tenant)] = "";
	struct tally_basis basis;
	size_t n;

	do {
		int err = tally_tenants(tally, after[0] ? after : NULL, page, PAGE, &n, &basis);

		if (err != 0 || !basis.complete)
			fail("tenants", err);
		for (size_t i = 0; i < n; i++)
			dump_tenant(dump, tally, page[i].tenant);
		if (n > 0)
			memcpy(after, page[n - 1].tenant, sizeof(after));
	} while (n == PAGE);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"run-dir", required_argument, NULL, 'd'}, {0}};
	static struct tally_partition partitions[DUMP_PARTITIONS_MAX];
	const char *run_dir = NULL;
	struct dump dump = {.totals = true, .no_streams = true};
	struct tally *tally;
	size_t n;
	int err;

	while (getopt_long(argc, argv, "", options, NULL) == 'd')
		run_dir = optarg;
	if (run_dir == NULL || optind != argc) {
		fprintf(stderr, "usage: lib-dump --run-dir DIR\n");
		return 2;
	}
	err = tally_open(run_dir, 0, &tally);
	if (err != 0)
		fail(run_dir, err);
	err = tally_partitions(tally, partitions, DUMP_PARTITIONS_MAX, &n);
	if (err != 0)
		fail("partitions", err);
	for (size_t i = 0; i < n; i++) {
		for (int r = 0; r < DUMP_REASONS; r++)
			dump.reasons[r] += partitions[i].skipped[r];
		dump.reasons[DUMP_APPLIED] += partitions[i].applied;
	}
	dump_tenants(&dump, tally);
	tally_close(&tally);
	dump_end(&dump, stdout);
	return fflush(stdout) == 0 ? 0 : 1;
}
