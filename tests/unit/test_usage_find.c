/*
 * test_usage_find.c - many streams side by side are what each of them is alone; the order of keys.
 *
 * What is drawn at random comes from a seed, which is printed; TALLY_SEED repeats one.
 */
#include "usage_fixture.h"

#define ROUNDS 40
#define MOST   3000

static uint64_t rng;

static uint64_t draw(void)
{
	return schedule_draw64(&rng);
}

/* Spread over all 64 bits, or close to each other, or at the ends. */
static uint64_t draw_hash(void)
{
	static const uint64_t ends[] = {0, 1, 2, UINT64_MAX / 7 - 1};
	uint64_t z = draw();

	switch (draw() % 4) {
	case 0:
		return ends[z % 4];
	case 1:
		return z % 5000;
	default:
		return z / 7;
	}
}

static const char *const tenants[] = {"a", "many", "z"};

static struct usage *make(uint64_t *known, size_t n)
{
	struct usage *usage = open_usage();

	for (size_t i = 0; i < n; i++) {
		known[i] = draw_hash();
		assert_int_equal(add(usage, tenants[draw() % 3], "", known[i], 1), SKIP_NONE);
		if (draw() % 500 == 0)
			commit(usage, NOW);
	}
	commit(usage, NOW);
	return usage;
}

static int64_t one(struct store_txn *txn, uint32_t tenant, uint64_t hash)
{
	struct usage_stream stream;

	return usage_find_stream(txn, tenant, hash, &stream) ? (int64_t)stream.entry.last_seen_s
							     : -1;
}

static void usage_find_streams_says_of_each_what_it_is_alone(void **state)
{
	static uint64_t known[MOST], hash[MOST];
	static int64_t seen[MOST];

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = draw() % MOST + 1, asked = draw() % (round % 2 ? 40 : MOST), found = 0;
		struct usage *usage = make(known, n);
		struct store_txn txn = begin_read(usage);

		for (size_t i = 0; i < asked; i++)
			hash[i] =
				(draw() % 2 ? known[draw() % n] : draw_hash()) * 7 + draw() % 2 * 3;
		for (uint32_t tenant = 0; tenant < usage_meta(usage)->tenants; tenant++) {
			usage_find_streams(&txn, tenant, hash, asked, seen);
			assert_int_equal(txn.err, 0);
			for (size_t i = 0; i < asked; i++) {
				assert_int_equal(seen[i], one(&txn, tenant, hash[i]));
				found += seen[i] >= 0;
			}
		}
		assert_true(asked < 100 || found > 0);
		store_abort(&txn);
		usage_close(&usage);
		clean();
	}
}

/* Overwrites 8 bytes of a block somewhere, in the map. */
static void spoil(struct usage *usage, uint64_t hash)
{
	struct store_txn txn = begin_read(usage);
	struct found_block found;
	uint64_t junk = draw();

	assert_true(block_seek(&txn, 0, hash, &found));
	memcpy((char *)(uintptr_t)found.block + draw() % (sizeof(*found.block) - 8), &junk, 8);
	store_abort(&txn);
}

static void usage_find_streams_gives_no_stream_that_is_garbled(void **state)
{
	static uint64_t known[400];
	static int64_t before[400], after[400];
	int corrupt = 0, by_chance = 0;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct usage *usage = open_usage();
		struct store_txn txn;

		for (size_t i = 0; i < 400; i++) {
			known[i] = (draw() / 7) * 7 + 3;
			add(usage, "a", "", known[i] / 7, 1);
		}
		commit(usage, NOW);
		txn = begin_read(usage);
		usage_find_streams(&txn, 0, known, 400, before);
		store_abort(&txn);
		spoil(usage, known[0]);
		txn = begin_read(usage);
		usage_find_streams(&txn, 0, known, 400, after);
		if (txn.err)
			assert_int_equal(txn.err, ERR_CORRUPT);
		else
			by_chance += memcmp(after, before, sizeof(before)) != 0;
		corrupt += txn.err != 0;
		store_abort(&txn);
		usage_close(&usage);
		clean();
	}
	assert_true(corrupt > 50);
	assert_true(by_chance <= 1); /* a check of 16 bits */
}

static int plain_order(const MDB_val *a, const MDB_val *b)
{
	size_t len = a->mv_size < b->mv_size ? a->mv_size : b->mv_size;
	int order = memcmp(a->mv_data, b->mv_data, len);

	return order ? order : (a->mv_size > b->mv_size) - (a->mv_size < b->mv_size);
}

static int sign(int order)
{
	return (order > 0) - (order < 0);
}

static void store_compare_is_the_order_of_bytes(void **state)
{
	uint8_t x[40], y[40];

	(void)state;
	for (int i = 0; i < 500000; i++) {
		MDB_val a = {.mv_data = x, .mv_size = draw() % 24 + 1};
		MDB_val b = {.mv_data = y, .mv_size = draw() % 3 ? a.mv_size : draw() % 24 + 1};
		size_t same = draw() % 24;

		for (size_t k = 0; k < sizeof(x); k++) {
			x[k] = (uint8_t)draw();
			y[k] = k < same ? x[k] : (uint8_t)draw();
		}
		assert_int_equal(sign(store_compare(&a, &b)), sign(plain_order(&a, &b)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			usage_find_streams_says_of_each_what_it_is_alone, each_setup),
		cmocka_unit_test_setup(
			usage_find_streams_gives_no_stream_that_is_garbled, each_setup),
		cmocka_unit_test(store_compare_is_the_order_of_bytes),
	};
	const char *text = getenv("TALLY_SEED");

	rng = seed = text ? strtoull(text, NULL, 10) : (uint64_t)getpid();
	printf("# seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, setup, teardown);
}
