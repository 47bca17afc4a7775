/*
 * test_usage_faults.c - what fails must change nothing, and what lies must not crash a reader.
 *
 * Random schedules are drawn from a seed, which is printed; TALLY_SEED repeats one.
 */
#include "usage_fixture.h"

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
		if (schedule_draw(&rng, 5) == 0) {
			usage_close(&usage);
			usage = open_usage();
		}
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
			assert_int_equal(usage_meta(usage)->next_offset,
				committed ? (int64_t)committed : -1);
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

/* Free pages that a reader still sees are none: commit checks that all it used had been reserved.
 */
static void usage_commit_reserves_what_a_reader_keeps_from_being_reused(void **state)
{
	struct usage *usage = open_usage();
	struct store_facts facts;
	struct store_txn reader;
	uint64_t rng = seed;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		add(usage, "t", "", i << 40, 1);
	commit(usage, NOW);
	for (int round = 0; round < 4; round++) {
		reader = begin_read(usage);
		for (int i = 0; i < 40; i++) {
			for (int k = 0; k < 300; k++)
				add(usage, "t", "", (uint64_t)schedule_draw(&rng, 5000) << 40, 1);
			commit(usage, NOW);
		}
		usage_store_facts(usage, &facts);
		assert_true(facts.last_txn - facts.oldest_reader >= 40);
		store_abort(&reader);
		for (int i = 0; i < 5; i++)
			commit(usage, NOW);
	}
	verify(usage);
	usage_close(&usage);
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
	REFUSED(other.identity.read_uncommitted = 1);
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
	key_block(&key, KEY_BLOCK, 0, UINT64_MAX);
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
		block.entry[i].policy = USAGE_POLICIES_MAX - 1;
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
		cmocka_unit_test_setup(
			usage_commit_keeps_the_batch_when_the_lease_is_over, each_setup),
		cmocka_unit_test_setup(usage_reset_goes_back_to_the_committed_state, each_setup),
		cmocka_unit_test_setup(usage_commit_fails_whole_when_the_map_is_full, each_setup),
		cmocka_unit_test_setup(
			usage_commit_reserves_what_a_reader_keeps_from_being_reused, each_setup),
		cmocka_unit_test_setup(usage_open_refuses_the_store_of_another_log, each_setup),
		cmocka_unit_test_setup(
			usage_open_learns_the_cluster_when_it_was_not_known, each_setup),
		cmocka_unit_test_setup(usage_open_refuses_options_that_make_no_sense, each_setup),
		cmocka_unit_test_setup(usage_works_with_the_widest_window, each_setup),
		cmocka_unit_test_setup(
			usage_readers_say_corrupt_when_a_value_has_not_its_shape, each_setup),
		cmocka_unit_test_setup(usage_open_says_corrupt_when_names_or_meta_are, each_setup),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
