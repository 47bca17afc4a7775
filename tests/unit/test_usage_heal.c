/*
 * test_usage_heal.c - a store that is full makes room by itself once streams have expired.
 *
 * A batch that cannot be committed waits; usage_sweep works around it.
 *
 * What is drawn at random comes from a seed, which is printed; TALLY_SEED repeats one.
 */
#include "usage_fixture.h"

#define HOURS_LATER (180 * MIN_MS)

/* --- kit ------------------------------------------------------------------------------------- */

struct filling {
	struct usage *usage;
	struct oracle *oracle;
	uint64_t rng;
	int64_t now_ms, offset;
};

static struct filling start(const struct usage_options *options, uint64_t rng)
{
	struct filling f = {.usage = open_with(options), .rng = rng, .now_ms = NOW};

	f.oracle = oracle_new(3, 7, WINDOW, usage_meta(f.usage)->incarnation);
	return f;
}

static void end(struct filling *f)
{
	oracle_free(&f->oracle);
	usage_close(&f->usage);
	clean();
}

static void add_new(struct filling *f, unsigned n)
{
	static const char *const tenants[] = {"a", "b", "c"}, *const policies[] = {"", "p", "q"};

	while (n-- > 0) {
		struct record record = record_of(tenants[schedule_draw(&f->rng, 3)],
			policies[schedule_draw(&f->rng, 3)],
			(schedule_draw64(&f->rng) >> 4) * 7 + 3, 1 + schedule_draw(&f->rng, 100),
			f->now_ms - schedule_draw(&f->rng, 5) * MIN_MS);

		assert_int_equal(usage_add(f->usage, &record, f->now_ms), SKIP_NONE);
		oracle_add(f->oracle, &record, f->now_ms);
		f->offset++;
	}
	usage_advance(f->usage, f->offset, NULL);
}

/* Commits until there is no room; the last batch waits. */
static void fill(struct filling *f)
{
	/* Small batches leave the smallest rest. */
	unsigned largest = 1 + schedule_draw(&f->rng, schedule_draw(&f->rng, 2) ? 40 : 400);

	for (int i = 0; i < 100000; i++) {
		int err;

		add_new(f, 1 + schedule_draw(&f->rng, largest));
		err = try_commit(f->usage, f->now_ms, schedule_draw(&f->rng, 3));
		if (err) {
			assert_int_equal(err, ERR_FULL);
			return;
		}
		check_reserve(f->usage);
		f->now_ms += schedule_draw(&f->rng, 2);
	}
	fail_msg("it never became full");
}

static int sweep(struct filling *f, unsigned steps)
{
	struct usage_commit how = {.now_ms = f->now_ms, .sweep_blocks = steps};
	unsigned took;
	int err = usage_sweep(f->usage, &how, &took);

	assert_true(took <= steps);
	check_reserve(f->usage);
	return err;
}

/* As the worker does it: a sweep before each new try.  Returns how many tries it took. */
static unsigned heal(struct filling *f)
{
	for (unsigned tries = 1; tries < 1000; tries++) {
		int err = sweep(f, 256);

		assert_true(err == 0 || err == ERR_FULL);
		if (try_commit(f->usage, f->now_ms, 0) == 0) {
			check_reserve(f->usage);
			return tries;
		}
	}
	fail_msg("it never healed: %llu blocks left",
		(unsigned long long)usage_meta(f->usage)->blocks);
	return 0;
}

/* --- a full map ------------------------------------------------------------------------------ */

static void usage_heals_a_full_map_when_all_has_expired(void **state)
{
	struct usage_options options = default_options();

	(void)state;
	for (uint64_t round = 0; round < 12; round++) {
		struct filling f;

		options.map_bytes = (uint64_t)(64 + 16 * round) << 12;
		f = start(&options, seed + round);
		for (int times = 0; times < 3; times++) {
			fill(&f);
			f.now_ms += HOURS_LATER;
			heal(&f);
			compare(f.usage, f.oracle, f.now_ms);
			verify(f.usage);
			/* It goes on as before. */
			add_new(&f, 100);
			heal(&f);
			compare(f.usage, f.oracle, f.now_ms);
		}
		end(&f);
	}
}

static void usage_heals_a_full_map_when_a_part_has_expired(void **state)
{
	struct usage_options options = default_options();
	struct filling f;

	(void)state;
	options.map_bytes = UINT64_C(1) << 20;
	f = start(&options, seed);
	add_new(&f, 2000);
	commit(f.usage, f.now_ms);
	f.now_ms += (WINDOW + 2 * RATE_MINUTES) * MIN_MS;
	fill(&f);
	assert_true(usage_meta(f.usage)->streams > 2000);
	heal(&f);
	assert_true(usage_meta(f.usage)->swept > 0);
	compare(f.usage, f.oracle, f.now_ms);
	verify(f.usage);
	end(&f);
}

/* Nothing expired: it stays full, whatever is tried, and loses nothing by it. */
static void usage_stays_full_when_nothing_has_expired(void **state)
{
	struct usage_options options = default_options();
	struct filling f;
	uint64_t streams;
	int64_t offset;

	(void)state;
	options.map_bytes = UINT64_C(1) << 20;
	f = start(&options, seed);
	fill(&f);
	streams = usage_meta(f.usage)->streams;
	offset = usage_meta(f.usage)->next_offset;
	for (int i = 0; i < 30; i++) {
		sweep(&f, 256);
		assert_int_equal(usage_meta(f.usage)->streams, streams);
		verify(f.usage);
	}
	assert_int_equal(usage_meta(f.usage)->next_offset, offset);
	usage_close(&f.usage);
	options.map_bytes *= 4;
	f.usage = open_with(&options);
	assert_int_equal(usage_meta(f.usage)->streams, streams);
	verify(f.usage);
	end(&f);
}

/* --- the batch that waits -------------------------------------------------------------------- */

static bool no_lease(void *arg)
{
	(*(int *)arg)++;
	return false;
}

static void usage_sweep_changes_nothing_when_the_lease_is_over(void **state)
{
	struct usage_options options = default_options();
	struct filling f = start(&options, seed);
	int asked = 0;
	struct usage_commit how = {.sweep_blocks = 100, .may_commit = no_lease, .arg = &asked};
	size_t before_len, after_len;
	char *before, *after;
	unsigned steps;

	(void)state;
	add_new(&f, 500);
	commit(f.usage, f.now_ms);
	before = dump(f.usage, &before_len);
	f.now_ms += HOURS_LATER;
	add_new(&f, 10);
	how.now_ms = f.now_ms;
	assert_int_equal(usage_sweep(f.usage, &how, &steps), ERR_LEASE);
	assert_int_equal(asked, 1);
	assert_int_equal(steps, 0);
	after = dump(f.usage, &after_len);
	assert_int_equal(before_len, after_len);
	assert_memory_equal(before, after, after_len);
	free(before);
	free(after);
	commit(f.usage, f.now_ms);
	compare(f.usage, f.oracle, f.now_ms);
	end(&f);
}

/* Only streams, blocks, swept and the clock are new; the offset is the old one. */
static void usage_sweep_commits_nothing_of_the_batch(void **state)
{
	struct usage_options options = default_options();
	struct filling f = start(&options, seed);
	struct usage_meta before, after;
	struct store_txn txn;

	(void)state;
	add_new(&f, 500);
	commit(f.usage, f.now_ms);
	before = *usage_meta(f.usage);
	f.now_ms += HOURS_LATER;
	add(f.usage, "newcomer", "with a policy", 1, 1);
	usage_gap(f.usage, 7);
	add_new(&f, 10);
	assert_int_equal(sweep(&f, 1000), 0);
	assert_int_equal(usage_pending(f.usage), 11);
	assert_true(usage_dirty(f.usage));
	txn = begin_read(f.usage);
	assert_int_equal(usage_read_meta(&txn, &after), 0);
	store_abort(&txn);
	assert_memory_equal(&after, usage_meta(f.usage), sizeof(after));
	assert_int_equal(after.streams, 0);
	assert_int_equal(after.stream_sum, 0);
	assert_int_equal(after.row_sum, 0);
	assert_int_equal(after.swept, 500);
	assert_int_equal(after.clock_ms, f.now_ms);
	after.streams = before.streams;
	after.stream_sum = before.stream_sum;
	after.row_sum = before.row_sum;
	after.blocks = before.blocks;
	after.swept = before.swept;
	after.clock_ms = before.clock_ms;
	assert_memory_equal(&after, &before, sizeof(after));
	verify(f.usage);
	/* A reset goes back to what the sweep has left. */
	usage_reset(f.usage);
	assert_false(usage_dirty(f.usage));
	assert_int_equal(usage_meta(f.usage)->streams, 0);
	end(&f);
}

/*
 * Records that wait were accepted when they came: their streams are found as they
 * were, however long it took, and look as if nothing had been swept in between.
 */
static void usage_sweep_leaves_the_streams_of_the_batch(void **state)
{
	struct usage_options options = default_options();
	struct filling f = start(&options, seed);
	struct usage_stream stream;
	struct store_txn txn;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		add(f.usage, "t", "", i << 40, 5);
	commit(f.usage, NOW);
	for (uint64_t i = 500; i-- > 0;)
		add(f.usage, "t", "", i << 41, 7); /* not in order */
	assert_int_equal(usage_sweep_steps(f.usage) > 10, 1);
	f.now_ms += HOURS_LATER;
	assert_int_equal(sweep(&f, 1000), 0);
	assert_int_equal(usage_meta(f.usage)->streams, 500);
	verify(f.usage);
	commit(f.usage, f.now_ms);
	assert_int_equal(usage_meta(f.usage)->streams, 500);
	verify(f.usage);
	txn = begin_read(f.usage);
	for (uint64_t i = 0; i < 500; i++) {
		assert_true(usage_find_stream(&txn, 0, (i << 41) * 7 + 3, &stream));
		assert_int_equal(stream.entry.bucket[NOW / MIN_MS % RATE_MINUTES], 12);
	}
	store_abort(&txn);
	end(&f);
}

/* A pass ends, and says before how long it is. */
static void usage_sweep_takes_no_more_steps_than_it_has_said(void **state)
{
	struct usage_options options = default_options();
	struct filling f = start(&options, seed);
	struct usage_commit how = {0};

	(void)state;
	add_new(&f, 3000);
	commit(f.usage, f.now_ms);
	f.now_ms += HOURS_LATER;
	how.now_ms = f.now_ms;
	for (uint64_t left = usage_sweep_steps(f.usage); left > 0;) {
		unsigned steps;

		how.sweep_blocks = 1 + schedule_draw(&f.rng, 20);
		if (how.sweep_blocks > left)
			how.sweep_blocks = (unsigned)left;
		assert_int_equal(usage_sweep(f.usage, &how, &steps), 0);
		assert_true(steps > 0);
		left -= how.sweep_blocks;
	}
	assert_int_equal(usage_meta(f.usage)->streams, 0);
	assert_int_equal(usage_sweep_steps(f.usage), 0);
	add_new(&f, 1);
	assert_int_equal(usage_sweep_steps(f.usage), 0);
	commit(f.usage, f.now_ms);
	assert_int_equal(usage_sweep_steps(f.usage), 1 + 9 + 3); /* 3 tenants, 6 policies */
	end(&f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(usage_heals_a_full_map_when_all_has_expired),
		TEST(usage_heals_a_full_map_when_a_part_has_expired),
		TEST(usage_stays_full_when_nothing_has_expired),
		TEST(usage_sweep_changes_nothing_when_the_lease_is_over),
		TEST(usage_sweep_commits_nothing_of_the_batch),
		TEST(usage_sweep_leaves_the_streams_of_the_batch),
		TEST(usage_sweep_takes_no_more_steps_than_it_has_said),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
