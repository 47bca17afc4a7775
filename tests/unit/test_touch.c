/*
 * test_touch.c - what was accepted from the map is told to the workers, within bounds.
 */
#include "ask_fixture.h"

#include "tools/queryd/ask_private.h"

static void ask_adds_up_touches_of_a_stream(void **state)
{
	struct query_of_test *query = query_new("a");
	(void)state;
	query_add(query, 0);
	query_begin(query);
	query_wait(query);
	uint64_t before = SUM(touches);
	for (int i = 0; i < 100; i++)
		query_begin(query);
	assert_int_equal(touches_waiting(bench.asker->touches), 1);
	UNTIL(SUM(touches) > before);
	assert_int_equal(SUM(touches), before + 1);
	assert_int_equal(SUM(touched_bytes), 1000);
	free(query);
}

static void ask_keeps_touches_that_a_worker_does_not_take(void **state)
{
	struct query_of_test *query = query_new("a");
	(void)state;
	for (uint64_t hash = 0; hash < 20000; hash++)
		query_add(query, hash);
	query_begin(query);
	query_wait(query);
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		atomic_store(&bench.lever[p].deaf, 1);
	for (int i = 0; i < 50; i++) {
		query->done = 0;
		query_begin(query);
		query_wait(query);
		usleep(20000);
	}
	assert_true(touches_waiting(bench.asker->touches) > 0);
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		atomic_store(&bench.lever[p].deaf, 0);
	UNTIL(SUM(touched_bytes) == UINT64_C(50) * 20000 * 10);
	free(query);
}

static void ask_drops_touches_of_a_partition_that_left(void **state)
{
	(void)state;
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	run_publish(&bench.run, 0, PART_FREE, 10);
	UNTIL(SUM(touched) == 1);
	UNTIL(touches_facts(bench.asker->touches)->dropped == 1);
	assert_int_equal(touches_waiting(bench.asker->touches), 0);
}

static void ask_fails_a_known_stream_whose_touch_has_no_room(void **state)
{
	struct touches *touches = bench.asker->touches;
	struct query_of_test *query = query_new("a");
	(void)state;
	query_add(query, 0);
	query_begin(query);
	query_wait(query);
	assert_int_equal(query->streams[0].result, ASK_ACCEPTED);
	uint32_t group = touches_group(touches, "b", 1, 5); /* that has left */
	for (uint64_t i = 0; i < TOUCH_STREAMS_MAX; i++)
		assert_true(touches_add(touches, group, 0, i * 4 + 1, 1, 1700000000));
	query_begin(query);
	assert_int_equal(query->done, 2); /* the loop has not turned */
	assert_int_equal(query->streams[0].result, ASK_FAILED);
	UNTIL(touches_waiting(touches) == 0);
	query_begin(query);
	assert_int_equal(query->done, 3);
	assert_int_equal(query->streams[0].result, ASK_ACCEPTED);
	free(query);
}

static bool nobody_is_served(uint32_t partition, uint64_t generation, void *arg)
{
	(void)partition;
	(void)generation;
	(void)arg;
	return false;
}

static void touches_have_a_bound(void **state)
{
	struct touches *touches = touches_new(bench.asker->links);
	uint32_t group = touches_group(touches, "a", 0, 10);
	(void)state;
	for (uint64_t i = 0; i < TOUCH_STREAMS_MAX; i++)
		assert_true(touches_add(touches, group, 0, i * 3, 1, 1700000000));
	assert_false(touches_add(touches, group, 0, 1, 1, 1700000000));
	assert_true(touches_add(touches, group, 0, 3, 1, 1700000000)); /* it is there */
	assert_int_equal(touches_waiting(touches), TOUCH_STREAMS_MAX);
	assert_false(touches_flush(touches, SIZE_MAX, nobody_is_served, NULL));
	assert_int_equal(touches_kept(touches), 0);
	assert_int_equal(touches_waiting(touches), 0);
	assert_int_equal(touches_facts(touches)->dropped, TOUCH_STREAMS_MAX);
	assert_int_equal(touches_facts(touches)->refused, 1);
	touches_free(&touches);
}

static bool all_are_served(uint32_t partition, uint64_t generation, void *arg)
{
	(void)partition;
	(void)generation;
	(void)arg;
	return true;
}

static void touches_of_one_worker_leave_room_for_the_others(void **state)
{
	struct touches *touches = touches_new(bench.asker->links);
	uint64_t many = TOUCH_BUSY_MAX + 50000;
	(void)state;
	atomic_store(&bench.lever[0].deaf, 1);
	usleep(20000); /* it may be waiting for one more */
	uint32_t group = touches_group(touches, "a", 0, 10);
	for (uint64_t i = 0; i < many; i++)
		assert_true(touches_add(touches, group, 0, i * 4, 1, 1700000000));
	assert_false(touches_flush(touches, SIZE_MAX, all_are_served, NULL));
	size_t kept = touches_kept(touches);
	assert_true(kept > TOUCH_BUSY_MAX); /* what was accepted is not dropped */
	assert_int_equal(touches_waiting(touches), kept);
	group = touches_group(touches, "a", 0, 10);
	assert_true(touches_add(touches, group, 0, (many - 1) * 4, 1, 1700000000));
	assert_false(touches_add(touches, group, 0, many * 4, 1, 1700000000));
	uint32_t other = touches_group(touches, "a", 1, 11);
	for (uint64_t i = 0; i < TOUCH_STREAMS_MAX - kept; i++)
		assert_true(touches_add(touches, other, 0, i * 4 + 1, 1, 1700000000));
	atomic_store(&bench.lever[0].deaf, 0);
	do {
		usleep(1000);
		assert_false(touches_flush(touches, SIZE_MAX, all_are_served, NULL));
	} while (touches_kept(touches));
	group = touches_group(touches, "a", 0, 10);
	for (uint64_t i = 0; i < many; i++)
		assert_true(touches_add(touches, group, 0, i * 4, 1, 1700000000));
	assert_int_equal(touches_facts(touches)->dropped, 0);
	touches_free(&touches);
}

/* In between, questions go on: what they touch is for the next time, and nothing is told twice. */
static void touches_are_sent_some_at_a_time(void **state)
{
	struct touches *touches = touches_new(bench.asker->links);
	uint32_t group[2] = {
		touches_group(touches, "a", 0, 10), touches_group(touches, "a", 1, 11)};
	uint64_t bytes = 0;
	unsigned turns = 0;
	(void)state;
	for (uint64_t i = 0; i < 20000; i++, bytes++)
		assert_true(touches_add(touches, group[i % 2], 0, i * 4 + i % 2, 1, 1700000000));
	for (; touches_flush(touches, 1000, all_are_served, NULL); turns++, bytes++) {
		uint32_t other = touches_group(touches, "a", 1, 11);
		uint64_t waiting = touches_waiting(touches);
		assert_true(touches_add(touches, other, 0, 4 * turns + 1, 1, 1700000000));
		assert_int_equal(touches_waiting(touches), waiting + 1);
		usleep(2000);
	}
	assert_in_range(turns, 5, 20);
	assert_int_equal(touches_kept(touches), 0);
	assert_int_equal(touches_waiting(touches), turns);
	assert_int_equal(touches_facts(touches)->sent, 20000);
	assert_false(touches_flush(touches, 1000, all_are_served, NULL));
	UNTIL(SUM(touched_bytes) == bytes);
	assert_int_equal(touches_facts(touches)->sent, 20000 + turns);
	touches_free(&touches);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ask_adds_up_touches_of_a_stream),
		TEST(ask_keeps_touches_that_a_worker_does_not_take),
		TEST(ask_drops_touches_of_a_partition_that_left),
		TEST(ask_fails_a_known_stream_whose_touch_has_no_room),
		TEST(touches_have_a_bound),
		TEST(touches_of_one_worker_leave_room_for_the_others),
		TEST(touches_are_sent_some_at_a_time),
	};
	return cmocka_run_group_tests_name("touch", tests, NULL, NULL);
}
