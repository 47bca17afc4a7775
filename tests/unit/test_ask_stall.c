/*
 * test_ask_stall.c - nobody else waits: for a worker that hangs, for a question that is large.
 */
#include "ask_fixture.h"

#include <time.h>

#include "tools/queryd/ask_private.h"

/* ------------------------------------------------------------------ a worker that hangs */

/* Asked, and not answered for as long as anybody waits. */
static void ask_a_silent_worker(uint64_t hash, size_t n)
{
	struct query_of_test *query = query_new("a");
	for (size_t i = 0; i < n; i++)
		query_add(query, hash + i * RUN_PARTITIONS);
	query_begin(query);
	assert_int_equal(query->done, 0);
	query_wait(query);
	assert_true(query_count(query, ASK_FAILED) > 0);
	free(query);
}

static void assert_failed_at_once(uint64_t hash)
{
	struct query_of_test *query = query_new("a");
	query_add(query, hash);
	query_begin(query);
	assert_int_equal(query->done, 1);
	assert_int_equal(query->streams[0].result, ASK_FAILED);
	free(query);
}

static void ask_fails_at_once_while_a_worker_is_silent(void **state)
{
	(void)state;
	bench_limit(5);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	atomic_store(&bench.lever[0].hold, 1);
	ask_a_silent_worker(4, 1);
	assert_failed_at_once(8);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED); /* known */
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED); /* of another worker */
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 1);
	atomic_store(&bench.lever[0].hold, 0); /* it answers, late */
	UNTIL(links_facts(bench.asker->links)->waiting == 0);
	assert_int_equal(query_one("a", 8), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 12), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 16), ASK_REJECTED);
}

/* What it has not taken is withdrawn: nothing that it was asked is left to be answered. */
static void ask_fails_at_once_while_a_worker_takes_nothing(void **state)
{
	static uint8_t packed[ADMIT_MESSAGE_MAX];
	static struct admit_stream streams[ADMIT_STREAMS_MAX];
	struct admit_question touch = {.kind = ADMIT_TOUCH,
		.generation = 10,
		.seen_ms = host_wall_ms(),
		.tenant = {"b", 1},
		.n_policies = 1,
		.policy = {{.name = {"", 0}}},
		.n_streams = ADMIT_STREAMS_MAX,
		.streams = streams};
	(void)state;
	size_t len = admit_pack(&touch, packed);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	atomic_store(&bench.lever[0].deaf, 1);
	usleep(20000); /* it may be waiting for one more */
	while (links_tell(bench.asker->links, 0, 10, packed, len) == LINK_OK)
		;
	ask_a_silent_worker(4, 1);
	assert_int_equal(links_facts(bench.asker->links)->waiting, 0);
	assert_failed_at_once(8);
	atomic_store(&bench.lever[0].deaf, 0);
	UNTIL(links_tell(bench.asker->links, 0, 10, packed, len) == LINK_OK);
	enum ask_result result;
	do
		result = query_one("a", 8);
	while (result == ASK_FAILED);
	assert_int_equal(result, ASK_ACCEPTED);
}

/* ------------------------------------------------------------------ large ones */

/* n streams with hashes from `first` on. */
static struct query_of_test *large_query(uint64_t first, size_t n)
{
	struct query_of_test *query = query_new("a");
	query->ask.streams = calloc(n, sizeof *query->ask.streams);
	assert_non_null(query->ask.streams);
	query->ask.n = n;
	for (size_t i = 0; i < n; i++)
		query->ask.streams[i] = (struct ask_stream){.hash = first + i, .bytes = 1};
	return query;
}

static size_t large_count(const struct query_of_test *query, enum ask_result result)
{
	size_t n = 0;
	for (size_t i = 0; i < query->ask.n; i++)
		n += query->ask.streams[i].result == result;
	return n;
}

static void large_free(struct query_of_test *query)
{
	free(query->ask.streams);
	free(query);
}

static void ask_answers_others_while_a_large_one_is_looked_up(void **state)
{
	struct query_of_test *large = large_query(1000, 6 * ASK_SLICE);
	struct query_of_test *small = query_new("a");
	(void)state;
	bench_limit(2 * ASK_SLICE);
	query_add(small, 1);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	for (int round = 0; round < 2; round++) {
		small->done = large->done = 0;
		query_begin(large);
		assert_int_equal(large->done, 0);
		query_begin(small); /* known */
		assert_int_equal(small->done, 1);
		assert_int_equal(large->done, 0);
		query_wait(large);
		assert_int_equal(large_count(large, ASK_ACCEPTED), 2 * ASK_SLICE - 1);
		assert_int_equal(large_count(large, ASK_REJECTED), 4 * ASK_SLICE + 1);
	}
	assert_null(bench.asker->reading);
	free(small);
	large_free(large);
}

static void ask_refuses_what_is_large_in_turns(void **state)
{
	struct query_of_test *large = large_query(1000, 4 * ASK_SLICE);
	struct query_of_test *small = query_new("a");
	(void)state;
	bench_limit(1);
	query_add(small, 1);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	query_begin(large);
	while (large_count(large, ASK_REJECTED) == 0)
		ev_run(asker_loop(bench.asker), EVRUN_ONCE);
	assert_int_equal(large->done, 0);
	assert_int_equal(large_count(large, ASK_REJECTED), ASK_SLICE);
	query_begin(small);
	assert_int_equal(small->done, 1);
	query_wait(large);
	assert_int_equal(large_count(large, ASK_REJECTED), 4 * ASK_SLICE);
	free(small);
	large_free(large);
}

static void ask_that_is_large_ends_in_the_middle(void **state)
{
	struct query_of_test *cancelled = large_query(0, 4 * ASK_SLICE);
	struct query_of_test *late = large_query(0, 4 * ASK_SLICE);
	struct query_of_test *all = large_query(0, 4 * ASK_SLICE);
	struct query_of_test *some = large_query(0, 4 * ASK_SLICE);
	(void)state;
	all->ask.all_or_nothing = true;
	late->ask.deadline_ns = 1;
	query_begin(cancelled);
	query_begin(late);
	query_begin(all);
	query_begin(some);
	ask_cancel(bench.asker, &cancelled->ask);
	run_publish(&bench.run, RUN_PARTITIONS - 1, PART_DRAINING, 14);
	query_wait(late);
	query_wait(all);
	query_wait(some);
	assert_int_equal(cancelled->done, 0);
	assert_int_equal(large_count(late, ASK_ACCEPTED), 0);
	assert_int_equal(large_count(all, ASK_UNSERVED), 4 * ASK_SLICE);
	assert_int_equal(large_count(some, ASK_UNSERVED), ASK_SLICE);
	assert_int_equal(large_count(some, ASK_ACCEPTED), 3 * ASK_SLICE);
	assert_int_equal(SUM(admitted), 3 * ASK_SLICE); /* nothing for the others */
	assert_null(bench.asker->reading);
	large_free(cancelled);
	large_free(late);
	large_free(all);
	large_free(some);
}

/* What was remembered of a partition says nothing any more when it leaves while it is looked up. */
static void ask_takes_back_what_it_remembered_of_a_partition_that_leaves(void **state)
{
	size_t strangers = 100, n = 2 * ASK_SLICE - strangers;
	struct query_of_test *large = large_query(0, 2 * ASK_SLICE);
	(void)state;
	for (size_t i = 0; i < n + strangers; i++)
		large->ask.streams[i].hash = i * RUN_PARTITIONS + RUN_PARTITIONS - 1;
	bench_limit(n);
	large->ask.n = n;
	query_begin(large);
	query_wait(large);
	assert_int_equal(large_count(large, ASK_ACCEPTED), n);
	large->done = 0;
	query_begin(large); /* now they are remembered */
	query_wait(large);
	large->done = 0;
	large->ask.n = n + strangers;
	query_begin(large);
	assert_int_equal(large->done, 0); /* after the first slice */
	run_publish(&bench.run, RUN_PARTITIONS - 1, PART_DRAINING, 14);
	query_wait(large);
	assert_int_equal(large_count(large, ASK_UNSERVED), n + strangers);
	assert_int_equal(SUM(admitted), n);
	large_free(large);
}

static void ask_fails_at_once_beyond_what_may_be_under_way(void **state)
{
	struct query_of_test *large[ASK_UNDER_WAY_MAX / ASK_STREAMS_MAX];
	struct query_of_test *small = query_new("a");
	size_t n = sizeof large / sizeof *large;
	struct asker_facts facts;
	(void)state;
	query_add(small, 1);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	for (size_t i = 0; i < n; i++) {
		large[i] = large_query(0, ASK_STREAMS_MAX);
		query_begin(large[i]);
		assert_int_equal(large[i]->done, 0);
	}
	query_begin(small); /* also what is known */
	assert_int_equal(small->done, 1);
	assert_int_equal(small->streams[0].result, ASK_FAILED);
	asker_facts(bench.asker, &facts);
	assert_int_equal(facts.refused, 1);
	assert_int_equal(facts.under_way, n);
	ask_cancel(bench.asker, &large[0]->ask);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	for (size_t i = 0; i < n; i++) {
		ask_cancel(bench.asker, &large[i]->ask);
		large_free(large[i]);
	}
	assert_int_equal(bench.asker->under_way, 0);
	assert_true(bench.asker->pool_streams <= ASK_POOL_STREAMS);
	free(small);
}

static uint64_t cpu_ns(void)
{
	struct timespec at;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return (uint64_t)at.tv_sec * UINT64_C(1000000000) + (uint64_t)at.tv_nsec;
}

/* With a search from the first one on it is four seconds. */
static void ask_takes_very_many_policies_in_little_time(void **state)
{
	enum { OVERRIDES = 5000, POLICIES = 100000 };
	static struct limits_policy own[OVERRIDES];
	static char names[POLICIES][16];
	struct limits_tenant tenant = {.name = "a",
		.has_streams = true,
		.streams = 1,
		.policies = own,
		.n_policies = OVERRIDES};
	struct query_of_test *query = large_query(0, POLICIES);
	(void)state;
	for (size_t i = 0; i < POLICIES; i++) {
		snprintf(names[i], sizeof *names, "p%05zu", i);
		query->ask.streams[i].policy = names[i];
		if (i < OVERRIDES)
			own[i] = (struct limits_policy){.name = names[i], .streams = 1};
	}
	bench_limits(
		&(struct limits_source){.default_streams = 1, .tenants = &tenant, .n_tenants = 1});
	uint64_t before = cpu_ns();
	query_begin(query);
	query_wait(query);
	uint64_t took = cpu_ns() - before;
	assert_int_equal(large_count(query, ASK_ACCEPTED), OVERRIDES + 1);
	assert_int_equal(large_count(query, ASK_REJECTED), POLICIES - OVERRIDES - 1);
	assert_true(took < UINT64_C(2000000000));
	large_free(query);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ask_fails_at_once_while_a_worker_is_silent),
		TEST(ask_fails_at_once_while_a_worker_takes_nothing),
		TEST(ask_answers_others_while_a_large_one_is_looked_up),
		TEST(ask_refuses_what_is_large_in_turns),
		TEST(ask_that_is_large_ends_in_the_middle),
		TEST(ask_takes_back_what_it_remembered_of_a_partition_that_leaves),
		TEST(ask_fails_at_once_beyond_what_may_be_under_way),
		TEST(ask_takes_very_many_policies_in_little_time),
	};
	return cmocka_run_group_tests_name("ask_stall", tests, NULL, NULL);
}
