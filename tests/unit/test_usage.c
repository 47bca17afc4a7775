/*
 * test_usage.c - the store's content against the oracle, whatever the cuts and the order.
 *
 * Random schedules are drawn from a seed, which is printed; TALLY_SEED repeats one.
 */
#include "usage_fixture.h"

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

/* Tenants few or many, hashes spread, equal in their upper bits, or falling: all ways through the
 * sort. */
static void usage_batch_is_in_order_and_equal_ones_keep_theirs(void **state)
{
	uint64_t rng = seed;

	(void)state;
	for (int round = 0; round < 200; round++) {
		size_t n = 1 + schedule_draw(&rng, round % 2 ? 100 : 20000);
		uint32_t tenants = 1u << schedule_draw(&rng, 31);
		uint64_t mask = UINT64_MAX >> schedule_draw(&rng, 64);
		bool falling = schedule_draw(&rng, 3) == 0;
		struct batch batch = {0};

		batch.items = array_grow(NULL, &batch.cap, n, sizeof(*batch.items));
		for (; batch.n < n; batch.n++)
			batch.items[batch.n] = (struct item){.bytes = batch.n,
				.tenant = schedule_draw(&rng, tenants),
				.hash = falling ? (n - batch.n) / 2 : schedule_draw64(&rng) & mask};
		batch_sort(&batch);
		for (size_t i = 1; i < n; i++) {
			const struct item *a = &batch.items[i - 1], *b = &batch.items[i];

			assert_true(a->tenant <= b->tenant);
			if (a->tenant == b->tenant)
				assert_true(a->hash < b->hash ||
					    (a->hash == b->hash && a->bytes < b->bytes));
		}
		batch_free(&batch);
	}
}

/* Equal upper bits must not make the sort quadratic: it would take minutes. */
static void usage_sorts_hashes_with_equal_upper_bits_in_linear_time(void **state)
{
	struct usage_options options = default_options();
	struct usage *usage;
	const uint64_t n = 800000;

	(void)state;
	options.identity.partition = 0;
	options.identity.partitions = 1;
	usage = open_with(&options);
	for (uint64_t i = 0; i < n; i++) {
		/* Three upper ends, few streams, falling; policies alternate within a stream. */
		struct record record = record_of(i % 2 ? "a" : "b", i / 50000 % 2 ? "p" : "",
			(i % 3) << 62 | (n - i) % 50000, 1, NOW);

		assert_int_equal(usage_add(usage, &record, NOW), SKIP_NONE);
	}
	alarm(60);
	commit(usage, NOW);
	alarm(0);
	verify(usage);
	assert_int_equal(usage_meta(usage)->streams, 3 * 50000);
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
	const struct usage_outbox_row row = {.hash = 3};
	struct usage_meta meta = *usage_meta(usage);
	struct store_txn txn;

	(void)state;
	/* Rows as the emitter will write them, with meta's count. */
	store_begin(&txn, usage_store(usage));
	outbox_begin(&usage->outbox);
	for (int i = 0; i < 3; i++)
		outbox_put(&usage->outbox, &txn, &meta, &row);
	outbox_flush(&usage->outbox, &txn, &meta);
	assert_int_equal(store_commit(&txn), 0);
	assert_int_equal(meta.outbox, 3);
	assert_int_equal(meta.sequence, 3);
	usage->meta.outbox = usage->pending.outbox = 3;
	usage->meta.sequence = usage->pending.sequence = 3;
	record.has_source = true;
	memcpy(record.incarnation, usage_meta(usage)->incarnation, INCARNATION_SIZE);
	record.sequence = 4; /* never given: says nothing */
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_OWN);
	commit(usage, NOW);
	assert_int_equal(usage_meta(usage)->outbox, 3);
	record.sequence = 2; /* and 1 is in the log, or was given up */
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_OWN);
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_OWN);
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
	assert_true(seal_open(&txn, key, &value));
	assert_true(key_parse_u64(key, KEY_QUARANTINE, &offset) && offset == 39 && value.len == 0);
	assert_true(store_next(&txn, &key, &value) && seal_open(&txn, key, &value));
	assert_int_equal(value.len, 6);
	assert_memory_equal(value.data, "poison", 6);
	assert_true(store_next(&txn, &key, &value) && seal_open(&txn, key, &value));
	assert_int_equal(value.len, USAGE_QUARANTINE_BYTES_MAX);
	store_abort(&txn);
	free(raw);
	usage_close(&usage);
	clean();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			usage_agrees_with_the_oracle_wherever_batches_are_cut, each_setup),
		cmocka_unit_test_setup(usage_keeps_blocks_in_order_whatever_the_hashes, each_setup),
		cmocka_unit_test_setup(
			usage_batch_is_in_order_and_equal_ones_keep_theirs, each_setup),
		cmocka_unit_test_setup(
			usage_sorts_hashes_with_equal_upper_bits_in_linear_time, each_setup),
		cmocka_unit_test_setup(usage_add_gives_the_first_reason_that_holds, each_setup),
		cmocka_unit_test_setup(
			usage_forgets_a_source_when_it_could_only_repeat_what_is_too_old,
			each_setup),
		cmocka_unit_test_setup(usage_own_records_clear_the_outbox, each_setup),
		cmocka_unit_test_setup(
			usage_puts_more_policies_than_1024_under_the_default_one, each_setup),
		cmocka_unit_test_setup(
			usage_keeps_quarantined_bytes_gaps_and_fingerprint, each_setup),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
