/*
 * test_usage_seal.c - what is overwritten, exchanged, gone or older than it was is seen.
 *
 * A store with a value of each kind.  Each of them in turn is spoilt, under LMDB's keys as
 * if its page had been; then everything that can be asked is asked.  And a store that is
 * used as it should be is never found to be spoilt.
 *
 * What is drawn at random comes from a seed, which is printed; TALLY_SEED repeats one.
 */
#include "seal_fixture.h"

/* --- ways to be spoilt ------------------------------------------------------------------------ */

/* What counts of a block: not what is behind its last stream. */
static size_t part_that_counts(const struct pair *pair)
{
	struct usage_block block;

	if (pair->key[0] != KEY_BLOCK && pair->key[0] != KEY_RATE)
		return pair->len;
	memcpy(&block, pair->value, sizeof(block));
	return offsetof(struct usage_block, hash) + block.n * sizeof(block.hash[0]);
}

static void garble(struct usage *usage, const struct pairs *pairs, size_t i)
{
	const struct pair *pair = &pairs->list[i];
	uint8_t value[USAGE_QUARANTINE_BYTES_MAX];
	size_t at = schedule_draw(&seed, (unsigned)part_that_counts(pair));

	if (pair->key[0] == KEY_BLOCK || pair->key[0] == KEY_RATE)
		while (at >= 11 && at < 16) /* reserved */
			at = schedule_draw(&seed, (unsigned)part_that_counts(pair));
	memcpy(value, pair->value, pair->len);
	value[at] ^= (uint8_t)(1u << schedule_draw(&seed, 8));
	put_raw(usage, pair, value, pair->len);
}

static void usage_sees_a_bit_that_has_fallen_over(void **state)
{
	(void)state;
	for (int times = 0; times < 3; times++)
		each_value(garble);
}

static void garble_entry(struct usage *usage, const struct pairs *pairs, size_t i)
{
	const struct pair *pair = &pairs->list[i];
	struct usage_block block;
	uint8_t *entry;

	if (pair->len != sizeof(block)) {
		garble(usage, pairs, i);
		return;
	}
	memcpy(&block, pair->value, sizeof(block));
	entry = (uint8_t *)&block.entry[schedule_draw(&seed, block.n)];
	entry[schedule_draw(&seed, sizeof(block.entry[0]))] ^=
		(uint8_t)(1u << schedule_draw(&seed, 8));
	put_raw(usage, pair, (uint8_t *)&block, sizeof(block));
}

static void usage_sees_a_bit_of_a_stream_that_has_fallen_over(void **state)
{
	(void)state;
	for (int times = 0; times < 2; times++)
		each_value(garble_entry);
}

static void blank(struct usage *usage, const struct pairs *pairs, size_t i)
{
	static const uint8_t zero[USAGE_QUARANTINE_BYTES_MAX];

	put_raw(usage, &pairs->list[i], zero, pairs->list[i].len);
}

static void usage_sees_zeroes(void **state)
{
	(void)state;
	each_value(blank);
}

/* The value of another key of that kind; where there is none, zeroes. */
static void exchange(struct usage *usage, const struct pairs *pairs, size_t i)
{
	const struct pair *pair = &pairs->list[i];

	for (size_t j = 0; j < pairs->n; j++)
		if (j != i && pairs->list[j].key[0] == pair->key[0]) {
			put_raw(usage, pair, pairs->list[j].value, pairs->list[j].len);
			return;
		}
	blank(usage, pairs, i);
}

static void usage_sees_a_value_of_another_key(void **state)
{
	(void)state;
	each_value(exchange);
}

/* As it is in a store with the same content: what differs is its incarnation. */
static void usage_sees_a_value_of_another_store(void **state)
{
	static struct pairs others, pairs;
	struct usage *usage = make();

	(void)state;
	take_pairs(usage, &others);
	usage_close(&usage);
	usage = make();
	take_pairs(usage, &pairs);
	assert_int_equal(others.n, pairs.n);
	for (size_t i = 0; i < pairs.n; i++) {
		assert_int_equal(others.list[i].key_len, pairs.list[i].key_len);
		assert_memory_equal(others.list[i].key, pairs.list[i].key, pairs.list[i].key_len);
		if (pairs.list[i].key[0] == KEY_META) /* says that it is the other one */
			continue;
		put_raw(usage, &pairs.list[i], others.list[i].value, others.list[i].len);
		assert_seen(&usage, &pairs.list[i]);
		if (!usage)
			usage = make(); /* yet another one */
		else
			put_raw(usage, &pairs.list[i], pairs.list[i].value, pairs.list[i].len);
		usage_close(&usage);
		free_pairs(&pairs);
		usage = make();
		take_pairs(usage, &pairs);
	}
	free_pairs(&others);
	free_pairs(&pairs);
	usage_close(&usage);
	clean();
}

static void vanish(struct usage *usage, const struct pairs *pairs, size_t i)
{
	char kind = (char)pairs->list[i].key[0];

	if (kind == KEY_META || kind == KEY_QUARANTINE) /* nobody counts these */
		garble(usage, pairs, i);
	else
		put_raw(usage, &pairs->list[i], NULL, 0);
}

static void usage_sees_that_a_value_has_gone(void **state)
{
	(void)state;
	each_value(vanish);
}

/* Nobody but meta misses the last one. */
static void usage_next_tenant_sees_that_the_last_one_has_gone(void **state)
{
	static struct pairs pairs;
	struct usage *usage = make();
	char name[USAGE_NAME_SIZE + 1];
	uint32_t tenant = UINT32_MAX;
	struct store_txn txn;
	size_t last = 0;

	(void)state;
	take_pairs(usage, &pairs);
	for (size_t i = 0; i < pairs.n; i++)
		if (pairs.list[i].key[0] == KEY_TENANT_NAME)
			last = i;
	put_raw(usage, &pairs.list[last], NULL, 0);
	txn = begin_read(usage);
	assert_true(usage_next_tenant(&txn, &tenant, name));
	assert_false(usage_next_tenant(&txn, &tenant, name));
	assert_int_equal(txn.err, ERR_CORRUPT);
	store_abort(&txn);
	free_pairs(&pairs);
	usage_close(&usage);
	clean();
}

/* One alone, so that nothing else can see it for it. */
static void usage_find_stream_sees_it_whatever_is_garbled(void **state)
{
	static struct pairs pairs;
	struct usage *usage = make();
	struct usage_stream stream;

	(void)state;
	take_pairs(usage, &pairs);
	for (size_t i = 0; i < pairs.n; i++) {
		const struct pair *pair = &pairs.list[i];
		struct usage_block block;
		struct store_txn txn;
		uint32_t tenant;
		uint64_t upper;

		if (!key_parse_block((struct store_bytes){pair->key, pair->key_len}, KEY_BLOCK,
			    &tenant, &upper))
			continue;
		memcpy(&block, pair->value, sizeof(block));
		block.hash[2] -= 7; /* another stream: the one that was there is not */
		put_raw(usage, pair, (uint8_t *)&block, sizeof(block));
		for (uint64_t hash = block.hash[2]; hash <= block.hash[2] + 7; hash++) {
			txn = begin_read(usage);
			assert_false(usage_find_stream(&txn, tenant, hash, &stream));
			assert_int_equal(txn.err, ERR_CORRUPT);
			store_abort(&txn);
		}
		block.hash[2] += 7;
		block.n--; /* the last one is not there any more */
		put_raw(usage, pair, (uint8_t *)&block, sizeof(block));
		txn = begin_read(usage);
		assert_false(usage_find_stream(&txn, tenant, block.hash[block.n], &stream));
		assert_int_equal(txn.err, ERR_CORRUPT);
		store_abort(&txn);
	}
	free_pairs(&pairs);
	usage_close(&usage);
	clean();
}

/* A reader may take it for good, the scrub does not. */
static void usage_scrub_sees_a_value_that_is_older_than_it_was(void **state)
{
	static struct pairs pairs;
	struct usage *usage = make();
	unsigned kinds[128] = {0};

	(void)state;
	take_pairs(usage, &pairs);
	for (uint64_t i = 0; i < STREAMS; i++)
		add(usage, i % 3 ? "t" : "another", i % 2 ? "p" : "", i << 48, 1);
	add(usage, "new", "", 1, 1);
	add_from_elsewhere(usage, 2);
	ask(usage, 0);
	commit(usage, NOW + MIN_MS);
	usage_questions_end(usage);
	for (size_t i = 0; i < pairs.n; i++) {
		const struct pair *pair = &pairs.list[i];
		struct store_bytes key = {.data = pair->key, .len = pair->key_len}, value;
		struct store_txn txn = begin_read(usage);
		uint8_t now[8192];
		size_t len;

		assert_true(store_get(&txn, key, &value));
		len = value.len;
		assert_true(len <= sizeof(now));
		memcpy(now, value.data, len);
		store_abort(&txn);
		if (len == pair->len && memcmp(now, pair->value, len) == 0)
			continue;
		kinds[pair->key[0]]++;
		put_raw(usage, pair, pair->value, pair->len);
		assert_int_equal(scrub(usage), ERR_CORRUPT);
		put_raw(usage, pair, now, len);
		assert_int_equal(reopen(&usage), 0);
		assert_int_equal(scrub(usage), 0);
	}
	for (const char *kind = "bhtfrm"; *kind; kind++)
		assert_true(kinds[(unsigned char)*kind] > 0);
	free_pairs(&pairs);
	usage_close(&usage);
	clean();
}

/* --- the writer ------------------------------------------------------------------------------- */

/* What is garbled is not counted on, nor covered by a new check. */
static void usage_commit_sees_a_garbled_stream_before_it_counts_on_it(void **state)
{
	static struct pairs pairs;
	struct usage *usage = make();
	struct usage_block block;

	(void)state;
	take_pairs(usage, &pairs);
	for (size_t i = 0; i < pairs.n; i++) {
		const struct pair *pair = &pairs.list[i];

		if (pair->key[0] != KEY_BLOCK || pair->key[4] != 0 || pair->len != sizeof(block))
			continue;
		memcpy(&block, pair->value, sizeof(block));
		block.entry[3].last_seen_s -= 60;
		put_raw(usage, pair, (uint8_t *)&block, sizeof(block));
		add(usage, "another", "", (block.hash[3] - 3) / 7, 1);
		assert_int_equal(try_commit(usage, NOW, 0), ERR_CORRUPT);
		usage_reset(usage);
		add(usage, "another", "", (block.hash[3] - 3) / 7 - 1, 1); /* before it */
		assert_int_equal(try_commit(usage, NOW, 0), ERR_CORRUPT);
		usage_reset(usage);
		assert_int_equal(try_commit(usage, NOW + 100 * MIN_MS, 100), ERR_CORRUPT);
		add(usage, "another", "", (block.hash[5] - 3) / 7, 1);
		commit(usage, NOW);
		assert_int_equal(scrub(usage), ERR_CORRUPT);
		break;
	}
	free_pairs(&pairs);
	usage_close(&usage);
	clean();
}

static void usage_commit_misses_blocks_that_have_gone(void **state)
{
	static struct pairs pairs;
	struct usage *usage = make();

	(void)state;
	take_pairs(usage, &pairs);
	for (size_t i = 0; i < pairs.n; i++)
		if (pairs.list[i].key[0] == KEY_BLOCK)
			put_raw(usage, &pairs.list[i], NULL, 0);
	add(usage, "t", "", 1, 1);
	assert_int_equal(try_commit(usage, NOW, 0), ERR_CORRUPT);
	free_pairs(&pairs);
	usage_close(&usage);
	clean();
}

/* A batch goes from block to block: one that has gone between two is missed there, too. */
static void usage_commit_misses_a_block_between_two(void **state)
{
	static struct pairs pairs;
	struct usage *usage = make();
	size_t blocks[64], n = 0;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		add(usage, "wide", "", i << 50, 1);
	assert_int_equal(try_commit(usage, NOW, 0), 0);
	take_pairs(usage, &pairs);
	for (size_t i = 0; i < pairs.n && n < 64; i++)
		if (pairs.list[i].key[0] == KEY_BLOCK)
			blocks[n++] = i;
	assert_true(n >= 8);
	put_raw(usage, &pairs.list[blocks[n - 4]], NULL, 0);
	for (uint64_t i = 0; i < 1000; i++)
		add(usage, "wide", "", i << 50, 1);
	assert_int_equal(try_commit(usage, NOW, 0), ERR_CORRUPT);
	free_pairs(&pairs);
	usage_close(&usage);
	clean();
}

/* --- nothing is wrong -------------------------------------------------------------------------- */

static void change_something(struct usage *usage, uint64_t *rng, int64_t *now)
{
	static const char *const tenants[] = {"a", "bb", "c", "d"}, *const policies[] = {
									    "", "p", "q"};
	unsigned n = schedule_draw(rng, 200);

	for (unsigned i = 0; i < n; i++) {
		struct record record =
			record_of(tenants[schedule_draw(rng, 4)], policies[schedule_draw(rng, 3)],
				(schedule_draw64(rng) >> 8 << 5 >> schedule_draw(rng, 40)) * 7 + 3,
				1, *now);

		usage_add(usage, &record, *now);
	}
	for (unsigned i = schedule_draw(rng, 3); i > 0; i--)
		ask(usage, schedule_draw64(rng) >> 8);
	*now += schedule_draw(rng, 5) ? schedule_draw(rng, 1000) : schedule_draw(rng, 9) * MIN_MS;
	if (schedule_draw(rng, 8) == 0) { /* a commit that fails changes nothing */
		usage_reset(usage);
		usage_questions_end(usage);
		return;
	}
	assert_int_equal(try_commit(usage, *now, schedule_draw(rng, 30)), 0);
	usage_questions_end(usage);
}

static void usage_scrub_finds_nothing_in_a_store_that_changes_under_it(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++) {
		struct usage *usage = open_usage();
		uint64_t passes = 0, rng = seed + (uint64_t)round;
		int64_t now = NOW;
		char why[256];

		usage_set_produce(usage, &produce);
		for (int i = 0; i < 400; i++) {
			change_something(usage, &rng, &now);
			for (unsigned n = schedule_draw(&rng, 3); n > 0; n--)
				if (usage_scrub(usage, schedule_draw(&rng, 20), why) != 0)
					fail_msg("round %d, %d: %s", round, i, why);
			if (i % 50 == 0)
				verify(usage);
			passes = usage_scrubbed(usage);
		}
		assert_true(passes > 3);
		assert_true(usage_meta(usage)->swept > 0);
		verify(usage);
		usage_close(&usage);
		clean();
	}
}

static void usage_scrub_ends_its_pass_after_as_many_steps_as_it_says(void **state)
{
	struct usage *usage = make();
	char why[256];

	(void)state;
	for (uint64_t i = 1; i < 4; i++) {
		assert_int_equal(usage_scrub(usage, usage_scrub_steps(usage), why), 0);
		assert_true(usage_scrubbed(usage) >= i);
	}
	usage_close(&usage);
	clean();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(usage_sees_a_bit_that_has_fallen_over),
		TEST(usage_sees_a_bit_of_a_stream_that_has_fallen_over),
		TEST(usage_sees_zeroes),
		TEST(usage_sees_a_value_of_another_key),
		TEST(usage_sees_a_value_of_another_store),
		TEST(usage_sees_that_a_value_has_gone),
		TEST(usage_next_tenant_sees_that_the_last_one_has_gone),
		TEST(usage_find_stream_sees_it_whatever_is_garbled),
		TEST(usage_scrub_sees_a_value_that_is_older_than_it_was),
		TEST(usage_commit_sees_a_garbled_stream_before_it_counts_on_it),
		TEST(usage_commit_misses_blocks_that_have_gone),
		TEST(usage_commit_misses_a_block_between_two),
		TEST(usage_scrub_finds_nothing_in_a_store_that_changes_under_it),
		TEST(usage_scrub_ends_its_pass_after_as_many_steps_as_it_says),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
