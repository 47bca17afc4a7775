/*
 * test_usage_torn.c - a block that changes while it is read.
 *
 * A reader that was suspended at the wrong moment may look at a page that has been
 * used again.  What it says then is thrown away later; until then it must stay
 * within the block, whatever it holds from one load to the next.
 */
#include "usage_fixture.h"

#include <pthread.h>

#define STREAMS 20
#define ROUNDS	100000
#define CAP	1000

static struct usage_block *block; /* in the map */
static _Atomic bool stop;

static void *spoil_n(void *arg)
{
	volatile uint16_t *n = &block->n;

	while (!stop) {
		*n = 0xffff;
		*n = STREAMS;
	}
	return arg;
}

static struct usage *open_with_one_block(void)
{
	struct usage *usage = open_usage();
	struct store_bytes key, value;
	struct usage_key from;
	struct store_txn txn;

	for (uint64_t i = 0; i < STREAMS; i++)
		add(usage, "t", "", i << 40, 1);
	commit(usage, NOW);
	txn = begin_read(usage);
	key_block(&from, KEY_BLOCK, 0, 0);
	assert_true(store_seek(&txn, key_bytes(&from), &key, &value));
	block = (struct usage_block *)(uintptr_t)value.data; /* the writer's map can be written */
	store_abort(&txn);
	return usage;
}

static void usage_readers_stay_in_the_block_when_its_n_changes_under_them(void **state)
{
	struct usage *usage = open_with_one_block();
	static struct usage_stream streams[CAP];
	pthread_t spoiler;
	unsigned whole = 0, torn = 0;
	char why[256];

	(void)state;
	stop = false;
	assert_int_equal(pthread_create(&spoiler, NULL, spoil_n, NULL), 0);
	/* Both must have been seen; on a busy machine that takes longer. */
	for (int i = 0; i < ROUNDS || whole < 100 || torn < 100; i++) {
		struct store_txn txn = begin_read(usage);
		size_t n = usage_list_streams(&txn, 0, 0, streams, CAP);

		assert_true(n <= USAGE_BLOCK_SLOTS);
		whole += n == STREAMS;
		torn += n == 0;
		usage_find_stream(&txn, 0, UINT64_MAX, streams);
		if (i % 100 == 0)
			usage_verify(&txn, why);
		store_abort(&txn);
	}
	stop = true;
	pthread_join(spoiler, NULL);
	verify(usage);
	usage_close(&usage);
	clean();
}

static void block_count_is_never_more_than_a_block_holds(void **state)
{
	struct usage_block any = {0};

	(void)state;
	for (unsigned n = 0; n <= UINT16_MAX; n++) {
		any.n = (uint16_t)n;
		assert_int_equal(block_count(&any), n < USAGE_BLOCK_SLOTS ? n : USAGE_BLOCK_SLOTS);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(block_count_is_never_more_than_a_block_holds),
		TEST(usage_readers_stay_in_the_block_when_its_n_changes_under_them),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
