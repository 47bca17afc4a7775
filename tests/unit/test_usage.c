/*
 * test_usage.c - the store's content against the oracle, whatever the cuts, faults and order.
 *
 * Random schedules are drawn from a seed, which is printed; TALLY_SEED repeats one.
 */
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
#include "shm/usage.h"
#include "shm/usage_private.h"

#define WINDOW 10
#define MIN_MS INT64_C(60000)
#define NOW    SCHEDULE_START_MS

static uint64_t seed;
static char dir[64];

/* --- kit ------------------------------------------------------------------------------------- */

static void clean(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/data.mdb", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lock.mdb", dir);
	unlink(path);
}

static struct usage_options default_options(void)
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

static struct usage *open_with(const struct usage_options *options)
{
	struct usage *usage;
	bool boot_differs;

	assert_int_equal(usage_open(options, &usage, &boot_differs), 0);
	assert_false(boot_differs);
	return usage;
}

static struct usage *open_usage(void)
{
	struct usage_options options = default_options();

	return open_with(&options);
}

static int try_commit(struct usage *usage, int64_t now_ms, unsigned sweep_blocks)
{
	struct usage_commit how = {.now_ms = now_ms, .sweep_blocks = sweep_blocks};

	return usage_commit(usage, &how);
}

static void commit(struct usage *usage, int64_t now_ms)
{
	assert_int_equal(try_commit(usage, now_ms, 0), 0);
	assert_int_equal(usage_pending(usage), 0);
	assert_false(usage_dirty(usage));
}

static struct store_txn begin_read(struct usage *usage)
{
	struct store_txn txn;

	store_begin_read(&txn, usage_store(usage));
	assert_int_equal(txn.err, 0);
	return txn;
}

static void verify(struct usage *usage)
{
	struct store_txn txn = begin_read(usage);
	char why[256];
	int err = usage_verify(&txn, why);

	store_abort(&txn);
	if (err)
		fail_msg("verify: %d %s", err, why);
}

static void compare(struct usage *usage, struct oracle *oracle, int64_t now_ms)
{
	struct store_txn txn = begin_read(usage);
	char why[256];
	int err = oracle_compare(oracle, &txn, now_ms, why);

	store_abort(&txn);
	if (err)
		fail_msg("oracle: %s", why);
}

static struct record record_of(
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

static enum skip_reason add(
	struct usage *usage, const char *tenant, const char *policy, uint64_t hash, uint64_t size)
{
	struct record record = record_of(tenant, policy, hash * 7 + 3, size, NOW);

	return usage_add(usage, &record, NOW);
}

static void add_scheduled(
	struct usage *usage, struct oracle *oracle, const struct schedule *schedule, size_t i)
{
	enum skip_reason reason = usage_add(usage, &schedule->records[i], schedule->now_ms[i]);

	if (oracle)
		assert_int_equal(
			reason, oracle_add(oracle, &schedule->records[i], schedule->now_ms[i]));
	usage_advance(usage, (int64_t)i + 1, NULL);
}

/* Everything a reader can see, as bytes. */
static char *dump(struct usage *usage, size_t *len)
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

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/tally-test-usage.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	clean();
	return rmdir(dir);
}

/* --- against the oracle ---------------------------------------------------------------------- */

/* Runs a schedule with batches of 1..batch_max; now and then re-opens, fails or sweeps. */
static char *run_cut(
	struct schedule *schedule, uint32_t batch_max, uint64_t rng, bool with_oracle, size_t *len)
{
	struct usage *usage = open_usage();
	struct oracle *oracle = NULL;
	char *text;
	size_t i = 0;

	schedule_own(schedule, usage_meta(usage)->incarnation);
	if (with_oracle)
		oracle = oracle_new(schedule->partition, schedule->partitions, schedule->window,
			usage_meta(usage)->incarnation);
	while (i < schedule->n) {
		size_t end = i + 1 + schedule_draw(&rng, batch_max);

		for (; i < end && i < schedule->n; i++)
			add_scheduled(usage, oracle, schedule, i);
		commit(usage, schedule->now_ms[i - 1]);
		assert_int_equal(usage_meta(usage)->next_offset, i);
		if (schedule_draw(&rng, 10) == 0) {
			usage_close(&usage);
			usage = open_usage();
			assert_int_equal(usage_meta(usage)->next_offset, i);
		}
		if (with_oracle && schedule_draw(&rng, 8) == 0) {
			compare(usage, oracle, schedule->now_ms[i - 1]);
			verify(usage);
		}
	}
	if (with_oracle) {
		for (int64_t t = 0; t <= (WINDOW + 2) * MIN_MS; t += MIN_MS)
			compare(usage, oracle, schedule->now_ms[i - 1] + t);
		oracle_free(&oracle);
	}
	verify(usage);
	text = dump(usage, len);
	usage_close(&usage);
	clean();
	return text;
}

static void usage_agrees_with_the_oracle_wherever_batches_are_cut(void **state)
{
	static const uint32_t cuts[] = {700, 20000, 1, 30, 3000};

	(void)state;
	for (uint64_t round = 0; round < 2; round++) {
		struct schedule schedule;
		char *first = NULL;
		size_t first_len = 0;

		schedule_make(&schedule, seed + round, WINDOW, 6000, 45 * MIN_MS);
		for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
			size_t len;
			char *text = run_cut(&schedule, cuts[c], seed + c, c == 0, &len);

			if (!first) {
				first = text;
				first_len = len;
				continue;
			}
			assert_int_equal(len, first_len);
			assert_memory_equal(text, first, len);
			free(text);
		}
		free(first);
		schedule_free(&schedule);
	}
}

static void usage_agrees_with_the_oracle_while_the_sweep_goes_round(void **state)
{
	struct schedule schedule;
	struct usage *usage = open_usage();
	struct oracle *oracle;
	uint64_t rng = seed, most = 0;
	int64_t now = 0;

	(void)state;
	/* Slow enough for streams to expire between two records. */
	schedule_make(&schedule, seed, WINDOW, 4000, 400 * MIN_MS);
	schedule_own(&schedule, usage_meta(usage)->incarnation);
	oracle = oracle_new(
		schedule.partition, schedule.partitions, WINDOW, usage_meta(usage)->incarnation);
	for (size_t i = 0; i < schedule.n;) {
		size_t end = i + 1 + schedule_draw(&rng, 100);

		for (; i < end && i < schedule.n; i++)
			add_scheduled(usage, oracle, &schedule, i);
		now = schedule.now_ms[i - 1];
		assert_int_equal(try_commit(usage, now, schedule_draw(&rng, 9)), 0);
		if (usage_meta(usage)->streams > most)
			most = usage_meta(usage)->streams;
		verify(usage);
		if (schedule_draw(&rng, 6) == 0)
			compare(usage, oracle, now);
	}
	assert_true(usage_meta(usage)->swept > 0);
	assert_true(usage_meta(usage)->streams < oracle->n_streams);
	assert_true(most > 0);
	/* All expired: nothing is left, and it starts anew. */
	now += 2 * WINDOW * MIN_MS;
	for (int i = 0; i < 100; i++)
		assert_int_equal(try_commit(usage, now, 3), 0);
	assert_int_equal(usage_meta(usage)->streams, 0);
	assert_int_equal(usage_meta(usage)->blocks, 0);
	assert_int_equal(usage_meta(usage)->swept > most, 1);
	compare(usage, oracle, now);
	verify(usage);
	schedule.records[0].timestamp_ms = now;
	schedule.records[0].has_source = false;
	assert_int_equal(usage_add(usage, &schedule.records[0], now),
		oracle_add(oracle, &schedule.records[0], now));
	commit(usage, now);
	compare(usage, oracle, now);
	verify(usage);
	oracle_free(&oracle);
	usage_close(&usage);
	schedule_free(&schedule);
	clean();
}

/* Blocks that lost most of their streams are joined. */
static void usage_sweep_joins_small_neighbours(void **state)
{
	struct usage *usage = open_usage();
	uint64_t full;
	struct record record;
	int64_t later = NOW + (WINDOW + 1) * MIN_MS;

	(void)state;
	for (uint64_t i = 0; i < 10000; i++)
		add(usage, "a", "", i << 40, 1);
	commit(usage, NOW);
	full = usage_meta(usage)->blocks;
	assert_true(full >= 10000 / 84);
	for (uint64_t i = 0; i < 10000; i += 50) {
		record = record_of("a", "", (i << 40) * 7 + 3, 1, later);
		assert_int_equal(usage_add(usage, &record, later), SKIP_NONE);
	}
	commit(usage, later);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(try_commit(usage, later, 10), 0);
		verify(usage);
	}
	assert_int_equal(usage_meta(usage)->streams, 200);
	assert_int_equal(usage_meta(usage)->swept, 9800);
	assert_true(usage_meta(usage)->blocks < full / 8);
	usage_close(&usage);
	clean();
}

/* --- blocks ---------------------------------------------------------------------------------- */

enum order { UP, DOWN, ENDS, PREFIX, NEAR_TOP, RANDOM, ORDERS };

static uint64_t nth_hash(enum order order, uint64_t i, uint64_t n)
{
	uint64_t state = i;

	switch (order) {
	case UP:
		return i;
	case DOWN:
		return n - i;
	case ENDS:
		return i % 2 ? UINT64_MAX - i / 2 : i / 2;
	case PREFIX:
		return UINT64_C(0xabcdef0123000000) + (i * 7919) % n;
	case NEAR_TOP:
		return UINT64_MAX - i;
	default:
		return schedule_draw64(&state);
	}
}

static void check_all_found(struct usage *usage, enum order order, uint64_t n)
{
	struct store_txn txn = begin_read(usage);
	struct usage_stream *list = calloc(n + 1, sizeof(*list)), one;
	uint32_t tenant;

	assert_true(usage_find_tenant(&txn, "t", 1, &tenant));
	for (uint64_t i = 0; i < n; i++) {
		assert_true(usage_find_stream(&txn, tenant, nth_hash(order, i, n), &one));
		assert_int_equal(one.entry.bucket[NOW / 60000 % 5], i % 1000 + 1);
	}
	assert_false(usage_find_stream(&txn, tenant, UINT64_C(0x8000000000000001), &one));
	assert_int_equal(usage_list_streams(&txn, tenant, 0, list, n + 1), n);
	for (uint64_t i = 1; i < n; i++)
		assert_true(list[i - 1].hash < list[i].hash);
	free(list);
	store_abort(&txn);
}

static void usage_keeps_blocks_in_order_whatever_the_hashes(void **state)
{
	static const uint64_t batches[] = {1, 50, 100000};
	const uint64_t n = 3000;
	struct usage_options options = default_options();

	(void)state;
	options.identity.partition = 0;
	options.identity.partitions = 1;
	for (int order = 0; order < ORDERS; order++) {
		for (int b = 0; b < 3; b++) {
			struct usage *usage = open_with(&options);

			for (uint64_t i = 0; i < n; i++) {
				struct record record = record_of(
					"t", "", nth_hash(order, i, n), i % 1000 + 1, NOW);

				assert_int_equal(usage_add(usage, &record, NOW), SKIP_NONE);
				if (i % batches[b] == batches[b] - 1)
					commit(usage, NOW);
			}
			commit(usage, NOW);
			verify(usage);
			assert_int_equal(usage_meta(usage)->streams, n);
			check_all_found(usage, order, n);
			usage_close(&usage);
			clean();
		}
	}
}

/* Equal upper bits must not make the sort quadratic: 300 000 of them in a moment. */
static void usage_sorts_hashes_with_equal_upper_bits_in_linear_time(void **state)
{
	struct usage *usage = open_usage();
	const uint64_t n = 300000;

	(void)state;
	alarm(60);
	for (uint64_t i = 0; i < n; i++)
		add(usage, i % 2 ? "a" : "b", "", (n - i) % 100000, 1);
	commit(usage, NOW);
	alarm(0);
	verify(usage);
	assert_int_equal(usage_meta(usage)->streams, 100000);
	usage_close(&usage);
	clean();
}

/* --- checks ---------------------------------------------------------------------------------- */

static void usage_add_gives_the_first_reason_that_holds(void **state)
{
	struct usage *usage = open_usage();
	struct record record = record_of("t", "p", 4, 9, -1);

	(void)state;
	record.has_source = true;
	memcpy(record.incarnation, usage_meta(usage)->incarnation, INCARNATION_SIZE);
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_MISROUTED);
	record.hash = 3;
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_OWN);
	record.incarnation[0] ^= 1;
	record.sequence = 5;
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_TOO_OLD);
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_DUPLICATE);
	record.timestamp_ms = NOW;
	record.sequence = 4;
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_DUPLICATE);
	record.sequence = 6;
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_NONE);
	usage_skip(usage, SKIP_UNDECODABLE);
	commit(usage, NOW);
	usage_close(&usage);
	usage = open_usage();
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_DUPLICATE);
	assert_int_equal(usage_meta(usage)->records, 7);
	assert_int_equal(usage_meta(usage)->applied, 1);
	assert_int_equal(usage_meta(usage)->bytes, 9);
	assert_int_equal(usage_meta(usage)->tenants, 1);
	assert_int_equal(usage_meta(usage)->sources, 1);
	for (int reason = SKIP_UNDECODABLE; reason < SKIP_REASONS; reason++)
		assert_int_equal(usage_meta(usage)->skipped[reason],
			reason == SKIP_DUPLICATE
				? 2
				: reason == SKIP_MISROUTED || reason == SKIP_OWN ||
					  reason == SKIP_TOO_OLD || reason == SKIP_UNDECODABLE);
	usage_close(&usage);
	clean();
}

static void usage_forgets_a_source_when_it_could_only_repeat_what_is_too_old(void **state)
{
	struct usage *usage = open_usage();
	struct record record = record_of("t", "", 3, 1, NOW);

	(void)state;
	record.has_source = true;
	record.sequence = 10;
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_NONE);
	commit(usage, NOW + WINDOW * MIN_MS);
	assert_int_equal(usage_meta(usage)->sources, 1);
	assert_int_equal(usage_add(usage, &record, NOW + WINDOW * MIN_MS), SKIP_DUPLICATE);
	commit(usage, NOW + (WINDOW + 1) * MIN_MS);
	assert_int_equal(usage_meta(usage)->sources, 0);
	assert_int_equal(usage_add(usage, &record, NOW + (WINDOW + 1) * MIN_MS), SKIP_TOO_OLD);
	commit(usage, NOW + (WINDOW + 1) * MIN_MS);
	verify(usage);
	usage_close(&usage);
	usage = open_usage();
	assert_int_equal(usage_meta(usage)->sources, 1);
	usage_close(&usage);
	clean();
}

static void usage_own_records_clear_the_outbox(void **state)
{
	struct usage *usage = open_usage();
	struct record record = record_of("t", "", 3, 1, NOW);
	struct store_bytes value = {.data = "row", .len = 3};
	struct usage_key key;
	struct store_txn txn;

	(void)state;
	/* Rows as the emitter will write them, with meta's count. */
	store_begin(&txn, usage_store(usage));
	for (uint64_t sequence = 1; sequence <= 3; sequence++) {
		key_prefix(&key, KEY_OUTBOX);
		key_add_u64(&key, sequence);
		store_put(&txn, key_bytes(&key), value);
	}
	assert_int_equal(store_commit(&txn), 0);
	usage->meta.outbox = usage->pending.outbox = 3;
	record.has_source = true;
	memcpy(record.incarnation, usage_meta(usage)->incarnation, INCARNATION_SIZE);
	for (uint64_t sequence = 2; sequence <= 4; sequence++) {
		record.sequence = sequence;
		assert_int_equal(usage_add(usage, &record, NOW), SKIP_OWN);
		assert_int_equal(usage_add(usage, &record, NOW), SKIP_OWN);
	}
	commit(usage, NOW);
	assert_int_equal(usage_meta(usage)->outbox, 1);
	assert_int_equal(usage_meta(usage)->streams, 0);
	verify(usage);
	usage_close(&usage);
	clean();
}

static void usage_puts_more_policies_than_1024_under_the_default_one(void **state)
{
	struct usage *usage = open_usage();
	struct oracle *oracle = oracle_new(3, 7, WINDOW, usage_meta(usage)->incarnation);
	struct record record;
	char policy[16];

	(void)state;
	for (uint64_t i = 0; i < 1100; i++) {
		snprintf(policy, sizeof(policy), "p%llu", (unsigned long long)i);
		record = record_of("t", policy, i * 7 + 3, 1 + i, NOW);
		usage_add(usage, &record, NOW);
		oracle_add(oracle, &record, NOW);
		if (i % 300 == 0)
			commit(usage, NOW);
	}
	commit(usage, NOW);
	assert_int_equal(usage_meta(usage)->policy_overflow, 1100 - 1023);
	compare(usage, oracle, NOW);
	verify(usage);
	usage_close(&usage);
	usage = open_usage();
	compare(usage, oracle, NOW);
	assert_int_equal(add(usage, "t", "p1099", 1, 1), SKIP_NONE);
	commit(usage, NOW);
	assert_int_equal(usage_meta(usage)->policy_overflow, 1100 - 1023 + 1);
	oracle_free(&oracle);
	usage_close(&usage);
	clean();
}

static void usage_keeps_quarantined_bytes_gaps_and_fingerprint(void **state)
{
	struct usage *usage = open_usage();
	struct usage_fingerprint print = {.offset = 41, .timestamp_ms = NOW, .hash = 77};
	struct store_bytes key, value;
	struct store_txn txn;
	struct usage_key from;
	char *raw = malloc(100000);
	uint64_t offset;

	(void)state;
	memset(raw, 'x', 100000);
	assert_false(usage_dirty(usage));
	usage_quarantine(usage, 40, (struct store_bytes){.data = "poison", .len = 6});
	usage_quarantine(usage, 41, (struct store_bytes){.data = raw, .len = 100000});
	usage_quarantine(usage, 39, (struct store_bytes){.data = NULL, .len = 0});
	usage_gap(usage, 12);
	usage_advance(usage, 42, &print);
	usage_advance(usage, 50, NULL);
	assert_true(usage_dirty(usage));
	commit(usage, NOW);
	usage_close(&usage);
	usage = open_usage();
	assert_int_equal(usage_meta(usage)->next_offset, 50);
	assert_int_equal(usage_meta(usage)->gaps, 1);
	assert_int_equal(usage_meta(usage)->gap_offsets, 12);
	assert_int_equal(usage_meta(usage)->skipped[SKIP_QUARANTINED], 3);
	assert_int_equal(usage_meta(usage)->clock_ms, NOW);
	assert_memory_equal(&usage_meta(usage)->fingerprint, &print, sizeof(print));
	txn = begin_read(usage);
	key_prefix(&from, KEY_QUARANTINE);
	assert_true(store_seek(&txn, key_bytes(&from), &key, &value));
	assert_true(key_parse_u64(key, KEY_QUARANTINE, &offset) && offset == 39 && value.len == 0);
	assert_true(store_next(&txn, &key, &value));
	assert_int_equal(value.len, 6);
	assert_memory_equal(value.data, "poison", 6);
	assert_true(store_next(&txn, &key, &value));
	assert_int_equal(value.len, USAGE_QUARANTINE_BYTES_MAX);
	store_abort(&txn);
	free(raw);
	usage_close(&usage);
	clean();
}

/* --- failed commits -------------------------------------------------------------------------- */

static bool lease_is_over(void *arg)
{
	(*(int *)arg)++;
	return false;
}

static void usage_commit_keeps_the_batch_when_the_lease_is_over(void **state)
{
	struct usage *usage = open_usage();
	struct oracle *oracle = oracle_new(3, 7, WINDOW, usage_meta(usage)->incarnation);
	struct schedule schedule;
	int asked = 0;
	struct usage_commit how = {.may_commit = lease_is_over, .arg = &asked, .sweep_blocks = 3};
	size_t before_len, after_len;
	char *before, *after;

	(void)state;
	schedule_make(&schedule, seed, WINDOW, 3000, 30 * MIN_MS);
	schedule_own(&schedule, usage_meta(usage)->incarnation);
	for (size_t i = 0; i < 1000; i++)
		add_scheduled(usage, oracle, &schedule, i);
	commit(usage, schedule.now_ms[999]);
	before = dump(usage, &before_len);
	for (size_t i = 1000; i < 2000; i++) {
		add_scheduled(usage, oracle, &schedule, i);
		how.now_ms = schedule.now_ms[i];
		/* More records may be added between two tries. */
		if (i % 100 == 0)
			assert_int_equal(usage_commit(usage, &how), ERR_LEASE);
	}
	assert_int_equal(asked, 10);
	after = dump(usage, &after_len);
	assert_int_equal(before_len, after_len);
	assert_memory_equal(before, after, after_len);
	assert_int_equal(usage_meta(usage)->next_offset, 1000);
	commit(usage, schedule.now_ms[1999]);
	compare(usage, oracle, schedule.now_ms[1999]);
	verify(usage);
	free(before);
	free(after);
	oracle_free(&oracle);
	usage_close(&usage);
	schedule_free(&schedule);
	clean();
}

static void usage_reset_goes_back_to_the_committed_state(void **state)
{
	struct usage *usage = open_usage();
	struct oracle *oracle = oracle_new(3, 7, WINDOW, usage_meta(usage)->incarnation);
	struct schedule schedule;
	size_t n = 0;
	uint64_t rng = seed;

	(void)state;
	schedule_make(&schedule, seed, WINDOW, 3000, 30 * MIN_MS);
	schedule_own(&schedule, usage_meta(usage)->incarnation);
	while (n < schedule.n) {
		size_t end = n + 1 + schedule_draw(&rng, 200);

		if (end > schedule.n)
			end = schedule.n;
		/* Read twice: once dropped, with names and sources of its own; then again. */
		for (size_t i = n; i < end; i++)
			add_scheduled(usage, NULL, &schedule, i);
		add(usage, "ghost", "spirit", schedule_draw(&rng, 9), 1);
		add(usage, "a", "spirit", schedule_draw(&rng, 9), 1);
		usage_quarantine(usage, 1, (struct store_bytes){.data = "x", .len = 1});
		if (schedule_draw(&rng, 2)) {
			int asked;
			struct usage_commit how = {.now_ms = schedule.now_ms[end - 1],
				.may_commit = lease_is_over,
				.arg = &asked};

			assert_int_equal(usage_commit(usage, &how), ERR_LEASE);
		}
		usage_reset(usage);
		assert_false(usage_dirty(usage));
		assert_int_equal(usage_pending(usage), 0);
		for (; n < end; n++)
			add_scheduled(usage, oracle, &schedule, n);
		commit(usage, schedule.now_ms[n - 1]);
	}
	compare(usage, oracle, schedule.now_ms[n - 1]);
	verify(usage);
	assert_int_equal(usage_meta(usage)->tenants, 5);
	oracle_free(&oracle);
	usage_close(&usage);
	schedule_free(&schedule);
	clean();
}

/*
 * A full map fails puts at every place there is: each time nothing changes, and
 * with a larger map the same records go on as if nothing had been.
 */
static void usage_commit_fails_whole_when_the_map_is_full(void **state)
{
	struct usage_options options = default_options();
	struct schedule schedule;
	struct oracle *oracle = NULL;
	struct usage *usage;
	size_t committed = 0;
	unsigned failures = 0;
	uint64_t rng = seed;

	(void)state;
	schedule_make(&schedule, seed, WINDOW, 4000, 30 * MIN_MS);
	options.map_bytes = UINT64_C(96) << 10;
	while (committed < schedule.n) {
		size_t i = committed, end = i + 1 + schedule_draw(&rng, 400);
		size_t before_len, after_len;
		char *before, *after;

		usage = open_with(&options);
		if (!oracle)
			oracle = oracle_new(3, 7, WINDOW, usage_meta(usage)->incarnation);
		schedule_own(&schedule, usage_meta(usage)->incarnation);
		before = dump(usage, &before_len);
		for (; i < end && i < schedule.n; i++)
			add_scheduled(usage, NULL, &schedule, i);
		if (try_commit(usage, schedule.now_ms[i - 1], 2) == 0) {
			for (; committed < i; committed++)
				oracle_add(oracle, &schedule.records[committed],
					schedule.now_ms[committed]);
		} else {
			failures++;
			assert_int_equal(try_commit(usage, schedule.now_ms[i - 1], 0), ERR_FULL);
			assert_int_equal(
				usage_meta(usage)->next_offset, committed ? (int64_t)committed : -1);
			after = dump(usage, &after_len);
			assert_int_equal(before_len, after_len);
			assert_memory_equal(before, after, after_len);
			free(after);
			options.map_bytes += 4096;
		}
		compare(usage, oracle, schedule.now_ms[committed ? committed - 1 : 0]);
		verify(usage);
		free(before);
		usage_close(&usage);
	}
	assert_true(failures > 10);
	oracle_free(&oracle);
	schedule_free(&schedule);
	clean();
}

/* --- identity -------------------------------------------------------------------------------- */

static int open_as(const struct usage_options *options, bool *boot_differs)
{
	struct usage *usage;
	int err = usage_open(options, &usage, boot_differs);

	assert_true(err == 0 || usage == NULL);
	usage_close(&usage);
	return err;
}

static void usage_open_refuses_the_store_of_another_log(void **state)
{
	struct usage_options good = default_options(), other;
	bool boot_differs;

	(void)state;
	assert_int_equal(open_as(&good, &boot_differs), 0);
#define REFUSED(change)                                                                            \
	other = good;                                                                              \
	change;                                                                                    \
	assert_int_equal(open_as(&other, &boot_differs), ERR_IDENTITY)
	REFUSED(other.identity.partition = 2);
	assert_false(boot_differs);
	REFUSED(other.identity.partitions = 8);
	REFUSED(other.identity.window_minutes = 11);
	REFUSED(other.identity.generation++);
	REFUSED(strcpy(other.identity.topic, "topi"));
	REFUSED(strcpy(other.identity.cluster, "other"));
	REFUSED(other.identity.format++);
	assert_false(boot_differs);
	REFUSED(other.identity.boot_id[15]++);
	assert_true(boot_differs);
	REFUSED(other.identity.boot_id[0]++; other.identity.partition = 1);
	assert_false(boot_differs);
	other = good;
	other.identity.cluster[0] = '\0';
	assert_int_equal(open_as(&other, &boot_differs), 0);
	assert_int_equal(open_as(&good, &boot_differs), 0);
	clean();
}

static void usage_open_learns_the_cluster_when_it_was_not_known(void **state)
{
	struct usage_options options = default_options();
	struct usage *usage;
	bool boot_differs;

	(void)state;
	options.identity.cluster[0] = '\0';
	assert_int_equal(open_as(&options, &boot_differs), 0);
	strcpy(options.identity.cluster, "learnt");
	usage = open_with(&options);
	assert_true(usage_dirty(usage));
	commit(usage, NOW);
	usage_close(&usage);
	strcpy(options.identity.cluster, "other");
	assert_int_equal(open_as(&options, &boot_differs), ERR_IDENTITY);
	clean();
}

static void usage_open_refuses_options_that_make_no_sense(void **state)
{
	struct usage_options options = default_options();
	bool boot_differs;

	(void)state;
	options.identity.partition = 7;
	assert_int_equal(open_as(&options, &boot_differs), ERR_INVALID);
	options = default_options();
	options.identity.window_minutes = 0;
	assert_int_equal(open_as(&options, &boot_differs), ERR_INVALID);
	options.identity.window_minutes = WINDOW_MINUTES_MAX + 1;
	assert_int_equal(open_as(&options, &boot_differs), ERR_INVALID);
	options = default_options();
	options.map_bytes = 0;
	assert_int_equal(open_as(&options, &boot_differs), ERR_INVALID);
	options = default_options();
	options.path = "/nonexistent/store";
	assert_int_equal(open_as(&options, &boot_differs), ERR_NOT_FOUND);
}

static void usage_works_with_the_widest_window(void **state)
{
	struct usage_options options = default_options();
	struct usage *usage;
	struct oracle *oracle;
	struct schedule schedule;

	(void)state;
	options.identity.window_minutes = WINDOW_MINUTES_MAX;
	usage = open_with(&options);
	oracle = oracle_new(3, 7, WINDOW_MINUTES_MAX, usage_meta(usage)->incarnation);
	schedule_make(&schedule, seed, WINDOW_MINUTES_MAX, 60, 20000 * MIN_MS);
	schedule_own(&schedule, usage_meta(usage)->incarnation);
	for (size_t i = 0; i < schedule.n; i++) {
		add_scheduled(usage, oracle, &schedule, i);
		if (i % 20 == 19)
			commit(usage, schedule.now_ms[i]);
	}
	compare(usage, oracle, schedule.now_ms[schedule.n - 1]);
	verify(usage);
	oracle_free(&oracle);
	usage_close(&usage);
	schedule_free(&schedule);
	clean();
}

/* --- a store that lies ----------------------------------------------------------------------- */

static void spoil(struct usage *usage, const struct usage_key *key, const void *data, size_t len)
{
	struct store_txn txn;

	store_begin(&txn, usage_store(usage));
	if (data)
		store_put(&txn, key_bytes(key), (struct store_bytes){.data = data, .len = len});
	else
		store_delete(&txn, key_bytes(key));
	assert_int_equal(store_commit(&txn), 0);
}

static struct usage *open_spoilt(const struct usage_key *key, const void *data, size_t len)
{
	struct usage *usage;

	clean();
	usage = open_usage();
	for (uint64_t i = 0; i < 200; i++)
		add(usage, "t", i % 2 ? "p" : "", i << 50, 1);
	commit(usage, NOW);
	verify(usage);
	spoil(usage, key, data, len);
	return usage;
}

static void assert_not_verified(struct usage *usage)
{
	struct store_txn txn = begin_read(usage);
	char why[256];

	assert_int_equal(usage_verify(&txn, why), ERR_CORRUPT);
	assert_true(why[0] != '\0');
	store_abort(&txn);
}

/* All a reader can ask; returns the transaction's error. */
static int read_everything(struct usage *usage)
{
	struct store_txn txn = begin_read(usage);
	char name[USAGE_NAME_SIZE + 1];
	struct usage_stream streams[300];
	struct window_row row;
	uint64_t buf[64];
	uint32_t tenant = UINT32_MAX, id;
	int policy = -1, err;

	usage_find_tenant(&txn, "t", 1, &id);
	while (usage_next_tenant(&txn, &tenant, name))
		;
	for (uint32_t p = 0; p < 1030; p += 1)
		usage_policy_name(&txn, 0, p, name);
	while (usage_next_row(&txn, 0, &policy, WINDOW, buf, &row))
		window_row_streams(&row, NOW / 60000);
	for (uint64_t i = 0; i < 200; i++)
		usage_find_stream(&txn, 0, (i << 50) * 7 + 3, streams);
	usage_list_streams(&txn, 0, 0, streams, 300);
	err = txn.err;
	store_abort(&txn);
	return err;
}

static void usage_readers_say_corrupt_when_a_value_has_not_its_shape(void **state)
{
	struct usage *usage;
	struct usage_block block;
	struct usage_key key;
	char junk[8192];

	(void)state;
	memset(junk, 0xff, sizeof(junk));
	key_block(&key, 0, UINT64_MAX);
	usage = open_spoilt(&key, junk, 100); /* too short */
	assert_int_equal(read_everything(usage), ERR_CORRUPT);
	assert_not_verified(usage);
	add(usage, "t", "", UINT64_MAX >> 4, 1);
	assert_int_equal(try_commit(usage, NOW, 0), ERR_CORRUPT);
	usage_reset(usage);
	assert_int_equal(try_commit(usage, NOW, 100), ERR_CORRUPT);
	usage_close(&usage);
	usage = open_spoilt(&key, junk, sizeof(block)); /* n too large */
	assert_int_equal(read_everything(usage), ERR_CORRUPT);
	assert_not_verified(usage);
	usage_close(&usage);
	block_clear(&block);
	block.n = USAGE_BLOCK_SLOTS; /* not sorted, policies out of range */
	for (int i = 0; i < USAGE_BLOCK_SLOTS; i++) {
		block.hash[i] = (uint64_t)(i * 7919 % 84) << 50;
		block.entry[i].policy = 0xffff;
	}
	usage = open_spoilt(&key, &block, sizeof(block));
	read_everything(usage);
	assert_not_verified(usage);
	usage_close(&usage);
	key_row(&key, 0, 0);
	usage = open_spoilt(&key, junk, 17);
	assert_int_equal(read_everything(usage), ERR_CORRUPT);
	assert_not_verified(usage);
	add(usage, "t", "", 1, 1);
	assert_int_equal(try_commit(usage, NOW, 0), ERR_CORRUPT);
	usage_close(&usage);
	usage = open_spoilt(&key, junk, window_row_size(WINDOW));
	read_everything(usage);
	assert_not_verified(usage);
	usage_close(&usage);
	key_row(&key, 0, 2000);
	usage = open_spoilt(&key, junk, window_row_size(WINDOW));
	assert_int_equal(read_everything(usage), ERR_CORRUPT);
	usage_close(&usage);
	clean();
}

static void usage_open_says_corrupt_when_names_or_meta_are(void **state)
{
	struct usage_options options = default_options();
	struct usage *usage;
	struct usage_meta meta;
	struct usage_key key;
	char junk[8192];
	bool boot_differs;

	(void)state;
	memset(junk, 'j', sizeof(junk));
#define SPOILT(data, len, expected)                                                                \
	usage = open_spoilt(&key, data, len);                                                      \
	read_everything(usage);                                                                    \
	assert_not_verified(usage);                                                                \
	usage_close(&usage);                                                                       \
	assert_int_equal(open_as(&options, &boot_differs), expected)
	key_prefix(&key, KEY_TENANT_NAME);
	key_add_u32(&key, 0);
	SPOILT(junk, 300, ERR_CORRUPT);
	SPOILT(NULL, 0, ERR_CORRUPT);
	key_prefix(&key, KEY_TENANT_NAME);
	key_add_u32(&key, UINT32_MAX);
	SPOILT(junk, 5, ERR_CORRUPT);
	key_prefix(&key, KEY_SOURCE);
	key_add_text(&key, junk, 16);
	SPOILT(junk, 3, ERR_CORRUPT);
	key_prefix(&key, KEY_META);
	usage = open_spoilt(&key, junk, 3);
	usage_close(&usage);
	assert_int_equal(open_as(&options, &boot_differs), ERR_CORRUPT);
	usage = open_spoilt(&key, NULL, 0);
	usage_close(&usage);
	assert_int_equal(open_as(&options, &boot_differs), ERR_CORRUPT);
	usage = open_spoilt(&key, junk, sizeof(meta)); /* format 0x6a6a6a6a */
	usage_close(&usage);
	assert_int_equal(open_as(&options, &boot_differs), ERR_IDENTITY);
	usage = open_spoilt(&key, junk, sizeof(meta));
	meta = *usage_meta(usage);
	meta.identity.partitions = 0;
	spoil(usage, &key, &meta, sizeof(meta));
	usage_close(&usage);
	assert_int_equal(open_as(&options, &boot_differs), ERR_CORRUPT);
	key_prefix(&key, KEY_POLICY);
	key_add_u32(&key, 0);
	key_add_u16(&key, 1);
	usage = open_spoilt(&key, junk, 300);
	assert_int_equal(read_everything(usage), ERR_CORRUPT);
	usage_close(&usage);
	assert_int_equal(open_as(&options, &boot_differs), ERR_CORRUPT);
	clean();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usage_agrees_with_the_oracle_wherever_batches_are_cut),
		cmocka_unit_test(usage_agrees_with_the_oracle_while_the_sweep_goes_round),
		cmocka_unit_test(usage_sweep_joins_small_neighbours),
		cmocka_unit_test(usage_keeps_blocks_in_order_whatever_the_hashes),
		cmocka_unit_test(usage_sorts_hashes_with_equal_upper_bits_in_linear_time),
		cmocka_unit_test(usage_add_gives_the_first_reason_that_holds),
		cmocka_unit_test(usage_forgets_a_source_when_it_could_only_repeat_what_is_too_old),
		cmocka_unit_test(usage_own_records_clear_the_outbox),
		cmocka_unit_test(usage_puts_more_policies_than_1024_under_the_default_one),
		cmocka_unit_test(usage_keeps_quarantined_bytes_gaps_and_fingerprint),
		cmocka_unit_test(usage_commit_keeps_the_batch_when_the_lease_is_over),
		cmocka_unit_test(usage_reset_goes_back_to_the_committed_state),
		cmocka_unit_test(usage_commit_fails_whole_when_the_map_is_full),
		cmocka_unit_test(usage_open_refuses_the_store_of_another_log),
		cmocka_unit_test(usage_open_learns_the_cluster_when_it_was_not_known),
		cmocka_unit_test(usage_open_refuses_options_that_make_no_sense),
		cmocka_unit_test(usage_works_with_the_widest_window),
		cmocka_unit_test(usage_readers_say_corrupt_when_a_value_has_not_its_shape),
		cmocka_unit_test(usage_open_says_corrupt_when_names_or_meta_are),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
