/*
 * test_usage_sweep.c - the sweep gives back space and is seen by nobody.
 *
 * Random schedules are drawn from a seed, which is printed; TALLY_SEED repeats one.
 */
#include "usage_fixture.h"

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

/* What is alive and in front of the sweep does not hold it up; blocks that lost most are joined. */
static void usage_sweep_goes_on_where_it_stopped_and_joins_small_neighbours(void **state)
{
	struct usage *usage = open_usage();
	int64_t later = NOW + (WINDOW + RATE_MINUTES) * MIN_MS;
	uint64_t full;

	(void)state;
	for (uint64_t i = 0; i < 3000; i++)
		add(usage, "alive", "", i << 40, 1);
	for (uint64_t i = 0; i < 10000; i++)
		add(usage, "a", "", i << 40, 1);
	commit(usage, NOW);
	full = usage_meta(usage)->blocks;
	assert_true(full >= 13000 / 84);
	for (uint64_t i = 0; i < 10000; i++) {
		struct record record =
			record_of(i < 3000 ? "alive" : "a", "", (i << 40) * 7 + 3, 1, later);

		if (i < 3000 || i % 50 == 0)
			assert_int_equal(usage_add(usage, &record, later), SKIP_NONE);
	}
	commit(usage, later);
	for (uint64_t looked_at = 0; looked_at < full + 10; looked_at += 10) {
		assert_int_equal(try_commit(usage, later, 10), 0);
		verify(usage);
	}
	assert_int_equal(usage_meta(usage)->streams, 3000 + 140);
	assert_int_equal(usage_meta(usage)->swept, 9860);
	assert_true(usage_meta(usage)->blocks < 3000 / 42 + 5 + full / 10);
	usage_close(&usage);
	clean();
}

/* A record of the oldest minute that counts may still look back at four minutes of rate buckets. */
static void usage_sweep_waits_until_no_record_can_reach_back(void **state)
{
	struct usage *usage = open_usage();

	(void)state;
	add(usage, "t", "", 1, 1);
	commit(usage, NOW);
	assert_int_equal(try_commit(usage, NOW + (WINDOW + RATE_MINUTES - 1) * MIN_MS, 9), 0);
	assert_int_equal(usage_meta(usage)->streams, 1);
	assert_int_equal(try_commit(usage, NOW + (WINDOW + RATE_MINUTES) * MIN_MS, 9), 0);
	assert_int_equal(usage_meta(usage)->streams, 0);
	usage_close(&usage);
	clean();
}

static void usage_sweep_leaves_streams_with_unsent_bytes(void **state)
{
	struct usage *usage = open_usage();
	struct store_bytes key, value;
	struct usage_block block;
	struct usage_key from;
	struct store_txn txn;
	struct usage_stream stream;
	uint64_t seed_of, sum;

	(void)state;
	for (uint64_t i = 0; i < 50; i++)
		add(usage, "t", "", i, 1);
	commit(usage, NOW);
	store_begin(&txn, usage_store(usage));
	key_block(&from, KEY_BLOCK, 0, 0);
	assert_true(store_seek(&txn, key_bytes(&from), &key, &value));
	memcpy(&block, value.data, sizeof(block));
	seed_of = block_seed(seal_seed(&txn), KEY_BLOCK, 0);
	sum = block_sum(&block, 7, seed_of);
	block.entry[7].unsent_bytes = 1;
	usage->pending.stream_sum += block_seal_entry(&block, 7, seed_of) - sum;
	store_put_current(&txn, key, (struct store_bytes){.data = &block, .len = sizeof(block)});
	assert_int_equal(store_commit(&txn), 0);
	assert_int_equal(try_commit(usage, NOW + 100 * MIN_MS, 10), 0);
	assert_int_equal(usage_meta(usage)->streams, 1);
	txn = begin_read(usage);
	assert_true(usage_find_stream(&txn, 0, 7 * 7 + 3, &stream));
	assert_int_equal(stream.entry.unsent_bytes, 1);
	store_abort(&txn);
	verify(usage);
	usage_close(&usage);
	clean();
}

static unsigned count_rows(struct usage *usage, uint32_t tenant)
{
	uint64_t buf[32];
	struct store_txn txn = begin_read(usage);
	struct window_row row;
	int policy = -1;
	unsigned n = 0;

	assert_true(window_row_size(WINDOW) <= sizeof(buf));
	while (usage_next_row(&txn, tenant, &policy, WINDOW, buf, &row))
		n++;
	assert_int_equal(txn.err, 0);
	store_abort(&txn);
	return n;
}

/* Rows of those who have gone are deleted, of the living only those that are as old. */
static void usage_sweep_deletes_rows_that_no_minute_of_can_count(void **state)
{
	struct usage *usage = open_usage();
	int64_t later = NOW + (WINDOW + RATE_MINUTES) * MIN_MS;
	struct record record = record_of("a", "stays", 3, 1, later);
	uint64_t steps;

	(void)state;
	for (uint64_t i = 0; i < 300; i++) {
		add(usage, "a", i % 2 ? "goes" : "", i, 1);
		add(usage, "b", i % 3 ? "goes" : "stays", i, 1);
	}
	commit(usage, NOW);
	assert_int_equal(count_rows(usage, 0) + count_rows(usage, 1), 4);
	assert_int_equal(usage_add(usage, &record, later - MIN_MS), SKIP_NONE);
	assert_int_equal(try_commit(usage, later - MIN_MS, 1000), 0);
	assert_int_equal(count_rows(usage, 0) + count_rows(usage, 1), 5); /* one minute too early */
	steps = usage_sweep_steps(usage);
	for (uint64_t i = 0; i < steps; i++)
		assert_int_equal(try_commit(usage, later, 1), 0);
	assert_int_equal(count_rows(usage, 0), 1);
	assert_int_equal(count_rows(usage, 1), 0);
	assert_int_equal(usage_meta(usage)->streams, 1);
	verify(usage);
	/* Both come back under their names. */
	record.timestamp_ms = later;
	record.tenant = "b";
	assert_int_equal(usage_add(usage, &record, later), SKIP_NONE);
	commit(usage, later);
	assert_int_equal(count_rows(usage, 1), 1);
	assert_int_equal(usage_meta(usage)->tenants, 2);
	verify(usage);
	usage_close(&usage);
	clean();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			usage_agrees_with_the_oracle_while_the_sweep_goes_round, each_setup),
		cmocka_unit_test_setup(
			usage_sweep_goes_on_where_it_stopped_and_joins_small_neighbours,
			each_setup),
		cmocka_unit_test_setup(
			usage_sweep_waits_until_no_record_can_reach_back, each_setup),
		cmocka_unit_test_setup(usage_sweep_leaves_streams_with_unsent_bytes, each_setup),
		cmocka_unit_test_setup(
			usage_sweep_deletes_rows_that_no_minute_of_can_count, each_setup),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
