/*
 * usage_fixture.h - a store in a directory of its own, and the questions tests ask of it.
 */
#ifndef TALLY_TESTS_USAGE_FIXTURE_H
#define TALLY_TESTS_USAGE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle.h"
#include "schedule.h"
#include "shm/err.h"
#include "shm/store_private.h"
#include "shm/usage.h"
#include "shm/usage_private.h"

#define WINDOW 10
#define MIN_MS INT64_C(60000)
#define NOW    SCHEDULE_START_MS

static uint64_t seed;
static char dir[96];

static inline void clean(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/data.mdb", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lock.mdb", dir);
	unlink(path);
}

static inline struct usage_options default_options(void)
{
	struct usage_options options = {
		.path = dir, .map_bytes = UINT64_C(64) << 20, .readers_max = 16};

	options.identity = (struct usage_identity){.format = USAGE_FORMAT,
		.partition = 3,
		.partitions = 7,
		.window_minutes = WINDOW,
		.generation = 1234,
		.boot_id = "boot",
		.cluster = "cluster",
		.topic = "topic"};
	return options;
}

static inline struct usage *open_with(const struct usage_options *options)
{
	struct usage *usage;
	bool boot_differs;

	assert_int_equal(usage_open(options, &usage, &boot_differs), 0);
	assert_false(boot_differs);
	return usage;
}

static inline struct usage *open_usage(void)
{
	struct usage_options options = default_options();

	return open_with(&options);
}

static inline int try_commit(struct usage *usage, int64_t now_ms, unsigned sweep_blocks)
{
	struct usage_commit how = {.now_ms = now_ms, .sweep_blocks = sweep_blocks};

	return usage_commit(usage, &how);
}

/* No page in use is beyond what was made sure to have blocks: no commit could have met SIGBUS. */
static inline void check_reserve(struct usage *usage)
{
	struct store_facts facts;

	usage_store_facts(usage, &facts);
	assert_true(facts.used_bytes <= usage_store(usage)->reserved);
}

static inline void commit(struct usage *usage, int64_t now_ms)
{
	assert_int_equal(try_commit(usage, now_ms, 0), 0);
	assert_int_equal(usage_pending(usage), 0);
	assert_false(usage_dirty(usage));
	check_reserve(usage);
}

static inline struct store_txn begin_read(struct usage *usage)
{
	struct store_txn txn;

	store_begin_read(&txn, usage_store(usage));
	assert_int_equal(txn.err, 0);
	return txn;
}

static inline void verify(struct usage *usage)
{
	struct store_txn txn = begin_read(usage);
	char why[256];
	int err = usage_verify(&txn, why);

	store_abort(&txn);
	if (err)
		fail_msg("verify: %d %s", err, why);
}

static inline void compare(struct usage *usage, struct oracle *oracle, int64_t now_ms)
{
	struct store_txn txn = begin_read(usage);
	char why[256];
	int err = oracle_compare(oracle, &txn, now_ms, why);

	store_abort(&txn);
	if (err)
		fail_msg("oracle: %s", why);
}

static inline struct record record_of(
	const char *tenant, const char *policy, uint64_t hash, uint64_t size, int64_t timestamp_ms)
{
	return (struct record){.tenant = tenant,
		.tenant_len = strlen(tenant),
		.policy = policy,
		.policy_len = strlen(policy),
		.hash = hash,
		.size = size,
		.timestamp_ms = timestamp_ms};
}

static inline enum skip_reason add(
	struct usage *usage, const char *tenant, const char *policy, uint64_t hash, uint64_t size)
{
	struct record record = record_of(tenant, policy, hash * 7 + 3, size, NOW);

	return usage_add(usage, &record, NOW);
}

static inline void add_scheduled(
	struct usage *usage, struct oracle *oracle, const struct schedule *schedule, size_t i)
{
	enum skip_reason reason = usage_add(usage, &schedule->records[i], schedule->now_ms[i]);

	if (oracle)
		assert_int_equal(
			reason, oracle_add(oracle, &schedule->records[i], schedule->now_ms[i]));
	usage_advance(usage, (int64_t)i + 1, NULL);
}

/* Everything a reader can see, as bytes. */
static inline char *dump(struct usage *usage, size_t *len)
{
	struct store_txn txn = begin_read(usage);
	struct usage_meta meta;
	char *text = NULL;
	FILE *out = open_memstream(&text, len);
	char name[USAGE_NAME_SIZE + 1];
	uint32_t tenant = UINT32_MAX;
	uint64_t buf[256];

	assert_int_equal(usage_read_meta(&txn, &meta), 0);
	memset(meta.incarnation, 0, sizeof(meta.incarnation));
	meta.blocks = 0; /* where blocks were split depends on the order of inserts */
	meta.stream_sum = meta.rate_sum = meta.row_sum = 0; /* of this incarnation */
	fwrite(&meta, sizeof(meta), 1, out);
	assert_true(window_row_size(WINDOW) <= sizeof(buf));
	while (usage_next_tenant(&txn, &tenant, name)) {
		struct usage_stream streams[1000];
		struct window_row row;
		int policy = -1;
		size_t n;

		fprintf(out, "%s\n", name);
		while (usage_next_row(&txn, tenant, &policy, WINDOW, buf, &row)) {
			assert_true(usage_policy_name(&txn, tenant, (uint32_t)policy, name));
			fprintf(out, "%d %s\n", policy, name);
			fwrite(buf, window_row_size(WINDOW), 1, out);
		}
		n = usage_list_streams(&txn, tenant, 0, streams, 1000);
		assert_true(n < 1000);
		fwrite(streams, sizeof(streams[0]), n, out);
	}
	assert_int_equal(txn.err, 0);
	store_abort(&txn);
	fclose(out);
	return text;
}

static inline int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/tally-test-usage.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

/* A test that failed leaves its files. */
static inline int each_setup(void **state)
{
	(void)state;
	clean();
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	clean();
	return rmdir(dir);
}

#endif
