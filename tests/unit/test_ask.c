/*
 * test_ask.c - questions: from the map, or from the workers; exact, and never a guess.
 */
#include "ask_fixture.h"

#include "tools/queryd/ask_private.h"

/* ------------------------------------------------------------------ the path of a question */

static void ask_lets_new_streams_in_and_then_knows_them(void **state)
{
	struct query_of_test *query = query_new("a");
	(void)state;
	for (uint64_t hash = 0; hash < 40; hash++)
		query_add(query, hash);
	query_begin(query);
	assert_int_equal(query->done, 0);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 40);
	assert_int_equal(SUM(admitted), 40);

	query_begin(query); /* from the map, before it returns */
	assert_int_equal(query->done, 2);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 40);
	assert_int_equal(SUM(admitted), 40);
	UNTIL(SUM(touched) == 40);
	assert_int_equal(SUM(touched_bytes), 400);
	free(query);
}

static void ask_of_nothing_is_answered(void **state)
{
	struct query_of_test *query = query_new("a");
	(void)state;
	query_begin(query);
	query_wait(query);
	free(query);
}

static void ask_takes_many_streams_of_which_some_are_the_same(void **state)
{
	struct query_of_test *query = query_new("a");
	(void)state;
	bench_limit(7000);
	for (uint64_t i = 0; i < 14000; i++)
		query_add(query, i % 7000);
	query_begin(query);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 14000);
	free(query);
	assert_int_equal(query_one("a", 7001), ASK_REJECTED);
}

static void ask_refuses_names_that_are_none(void **state)
{
	static char longest[258];
	struct query_of_test *query = query_new("");
	(void)state;
	memset(longest, 'x', 257);
	query_add(query, 1);
	assert_int_equal(ask_begin(bench.asker, &query->ask), TALLY_EINVALID);
	query->ask.tenant = longest;
	assert_int_equal(ask_begin(bench.asker, &query->ask), TALLY_EINVALID);
	query->ask.tenant = "\xff";
	assert_int_equal(ask_begin(bench.asker, &query->ask), TALLY_EINVALID);
	query->ask.tenant = "a";
	query->streams[0].policy = longest;
	assert_int_equal(ask_begin(bench.asker, &query->ask), TALLY_EINVALID);
	query->streams[0].policy = "\xc0\x80";
	assert_int_equal(ask_begin(bench.asker, &query->ask), TALLY_EINVALID);
	assert_int_equal(query->done, 0);
	longest[256] = 0;
	query->ask.tenant = query->streams[0].policy = longest;
	query_begin(query);
	query_wait(query);
	assert_int_equal(query->streams[0].result, ASK_ACCEPTED);
	free(query);
}

static void ask_for_rates_gets_them_and_counts_no_streams(void **state)
{
	struct query_of_test *query = query_new("a");
	(void)state;
	bench_limit(1);
	for (uint64_t hash = 0; hash < 3000; hash++) {
		query_add(query, hash);
		query->streams[hash].bytes = 1000000;
	}
	query->ask.kind = ASK_RATES;
	query_begin(query);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 3000);
	for (uint64_t hash = 0; hash < 3000; hash++)
		assert_true(query->streams[hash].rate > 0);
	free(query);
	assert_int_equal(query_one("a", 5), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 6), ASK_REJECTED);
}

/* ------------------------------------------------------------------ limits */

static void ask_refuses_first_at_the_limit_plus_one(void **state)
{
	static const uint64_t limits[] = {1, 2, 3, 4, 5, 63};
	char tenant[16];
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		snprintf(tenant, sizeof tenant, "t%zu", i);
		bench_limit(limits[i]);
		for (uint64_t hash = 0; hash < limits[i]; hash++)
			assert_int_equal(query_one(tenant, hash * 7), ASK_ACCEPTED);
		assert_int_equal(query_one(tenant, 1), ASK_REJECTED);
		assert_int_equal(query_one(tenant, 0), ASK_ACCEPTED); /* known */
		assert_int_equal(query_one(tenant, 1), ASK_REJECTED);
	}
}

/* In the same questions: who is touched must not be mixed up with who is refused. */
static void ask_touches_those_that_it_knows_and_not_those_that_it_refuses(void **state)
{
	struct query_of_test *query = query_new("a");
	(void)state;
	bench_limit(200);
	assert_int_equal(query_many("a", 200), 200);
	for (uint64_t hash = 0; hash < 200; hash++) {
		query_add(query, 1000 + hash);
		query_add(query, hash);
	}
	for (uint64_t round = 1; round <= 3; round++) {
		query->done = 0;
		query_begin(query);
		query_wait(query);
		for (size_t i = 0; i < 400; i++)
			assert_int_equal(
				query->streams[i].result, i % 2 ? ASK_ACCEPTED : ASK_REJECTED);
		UNTIL(SUM(touched) == 200 * round);
	}
	assert_int_equal(SUM(touched_bytes), 3 * 200 * 10);
	free(query);
}

/* Many at a time, all under way together; the sum is exact. */
static void ask_many_at_a_time_is_as_exact_as_one_by_one(void **state)
{
	struct query_of_test *queries[32];
	size_t accepted = 0, rejected = 0;
	(void)state;
	bench_limit(100);
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		atomic_store(&bench.lever[p].hold, 1);
	for (uint64_t i = 0; i < 32; i++) {
		queries[i] = query_new("a");
		for (uint64_t k = 0; k < 7; k++)
			query_add(queries[i], i * 7 + k);
		query_begin(queries[i]);
		assert_int_equal(queries[i]->done, 0);
	}
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		atomic_store(&bench.lever[p].hold, 0);
	for (size_t i = 0; i < 32; i++) {
		query_wait(queries[i]);
		accepted += query_count(queries[i], ASK_ACCEPTED);
		rejected += query_count(queries[i], ASK_REJECTED);
		free(queries[i]);
	}
	assert_int_equal(accepted, 100);
	assert_int_equal(rejected, 32 * 7 - 100);
	assert_int_equal(SUM(admitted), 100); /* nobody was sent without a budget */
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 0);
}

static void ask_waits_for_budgets_under_way_and_gets_what_comes_back(void **state)
{
	struct query_of_test *first = query_new("a"), *second = query_new("a");
	(void)state;
	bench_limit(10);
	atomic_store(&bench.lever[0].hold, 1);
	for (int i = 0; i < 10; i++)
		query_add(first, 4); /* ten times the same: nine come back */
	query_begin(first);
	for (uint64_t i = 0; i < 10; i++)
		query_add(second, 8 + i * 4);
	query_begin(second);
	UNTIL(atomic_load(&bench.lever[0].held) == 1);
	assert_int_equal(second->done, 0);
	atomic_store(&bench.lever[0].hold, 0);
	query_wait(first);
	query_wait(second);
	assert_int_equal(query_count(first, ASK_ACCEPTED), 10);
	assert_int_equal(query_count(second, ASK_ACCEPTED), 9);
	assert_int_equal(query_count(second, ASK_REJECTED), 1);
	assert_int_equal(second->streams[9].result, ASK_REJECTED); /* the last one */
	free(first);
	free(second);
}

static void ask_for_the_same_new_stream_twice_is_never_refused(void **state)
{
	struct query_of_test *first = query_new("a"), *second = query_new("a");
	(void)state;
	bench_limit(1);
	atomic_store(&bench.lever[3].hold, 1);
	query_add(first, 3);
	query_add(second, 3);
	query_begin(first);
	query_begin(second);
	atomic_store(&bench.lever[3].hold, 0);
	query_wait(first);
	query_wait(second);
	assert_int_equal(first->streams[0].result, ASK_ACCEPTED);
	assert_int_equal(second->streams[0].result, ASK_ACCEPTED);
	assert_int_equal(query_one("a", 4), ASK_REJECTED);
	free(first);
	free(second);
}

/* Three of four are counted anew: the one that is whole admits its part, less what they may be over. */
static void ask_fails_what_it_cannot_judge_while_partitions_are_counted_anew(void **state)
{
	(void)state;
	bench_limit(256);
	for (uint32_t p = 1; p < 4; p++) {
		atomic_store(&table_slot_mut(&bench.run.table, p)->whole, 0);
		run_publish(&bench.run, p, PART_REPLAYING, 10 + p);
	}
	for (uint64_t i = 0; i < 64 - 32; i++)
		assert_int_equal(query_one("a", 4 * i), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 400), ASK_FAILED); /* not "too many" */
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	for (uint32_t p = 1; p < 4; p++)
		run_publish(&bench.run, p, PART_READY, 10 + p);
	while (query_one("a", 400) == ASK_FAILED) /* until the map is read again */
		usleep(1000);
	assert_int_equal(query_one("a", 400), ASK_ACCEPTED);
}

static void ask_follows_limits_that_change(void **state)
{
	(void)state;
	bench_limit(1);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 2), ASK_REJECTED);
	bench_limit(2);
	assert_int_equal(query_one("a", 2), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 3), ASK_REJECTED);
	bench_limit(LIMIT_NONE);
	assert_int_equal(query_one("a", 3), ASK_ACCEPTED);
	bench_limit(1);
	assert_int_equal(query_one("a", 4), ASK_REJECTED);
	assert_int_equal(query_one("a", 3), ASK_ACCEPTED); /* known, whatever the limit */
}

static void ask_counts_a_policy_with_its_own_limit_by_itself(void **state)
{
	static const struct limits_policy policies[] = {{"gold", 2}, {"silver", LIMIT_NONE}};
	static const struct limits_tenant tenant = {.name = "a",
		.has_streams = true,
		.streams = 3,
		.policies = policies,
		.n_policies = 2};
	static const char *const names[] = {"gold", NULL, "silver", "bronze"};
	struct query_of_test *query = query_new("a");
	size_t accepted[4] = {0};
	(void)state;
	bench_limits(
		&(struct limits_source){.default_streams = 1, .tenants = &tenant, .n_tenants = 1});
	for (uint64_t i = 0; i < 400; i++) {
		query_add(query, i);
		query->streams[i].policy = names[i % 4];
	}
	query_begin(query);
	query_wait(query);
	for (size_t i = 0; i < 400; i++)
		accepted[i % 4] += query->streams[i].result == ASK_ACCEPTED;
	assert_int_equal(accepted[0], 2);
	assert_int_equal(accepted[1] + accepted[3], 3); /* both count in the default one */
	assert_int_equal(accepted[2], 100);
	free(query);
}

static void ask_takes_more_policies_than_a_message_holds(void **state)
{
	static char names[500][8];
	struct query_of_test *query = query_new("a");
	(void)state;
	bench_limit(1000);
	for (uint64_t i = 0; i < 1500; i++) {
		snprintf(names[i % 500], sizeof *names, "p%d", (int)(i % 500));
		query_add(query, i);
		query->streams[i].policy = names[i % 500];
	}
	query_begin(query);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 1000);
	assert_int_equal(query_count(query, ASK_REJECTED), 500);
	query->ask.n = 100;
	query_begin(query);
	UNTIL(SUM(touched) >= 100);
	free(query);
}

static void ask_in_a_dry_run_refuses_nothing_and_counts(void **state)
{
	struct refusals_of refusals[2];
	(void)state;
	bench_limits(&(struct limits_source){.default_streams = 3, .default_dry_run = true});
	for (uint64_t hash = 0; hash < 10; hash++)
		assert_int_equal(query_one("a", hash), ASK_ACCEPTED);
	assert_int_equal(asker_refusals(bench.asker, refusals, 2), 1);
	assert_string_equal(refusals[0].tenant, "a");
	assert_int_equal(refusals[0].would, 7);
	assert_int_equal(refusals[0].refused, 0);
}

static void ask_judges_by_partition_when_the_scope_says_so(void **state)
{
	(void)state;
	/* ceil(6 / 4) = 2 for each. */
	bench_limits(&(struct limits_source){.default_streams = 6, .scope = LIMIT_PARTITION});
	for (uint64_t p = 0; p < RUN_PARTITIONS; p++) {
		assert_int_equal(query_one("a", p), ASK_ACCEPTED);
		assert_int_equal(query_one("a", p + 4), ASK_ACCEPTED);
		assert_int_equal(query_one("a", p + 8), ASK_REJECTED);
	}
	assert_int_equal(query_many("b", 100), 8);
}

static void ask_has_a_stream_renewed_by_its_worker_in_its_last_minute(void **state)
{
	(void)state;
	bench_limit(1);
	set_minute(0, 0);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	set_minute(RUN_WINDOW - 1, 0);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	assert_int_equal(SUM(admitted), 1); /* from the map; a touch will do */
	asker_free(&bench.asker);	    /* ... which is lost */
	bench.asker = asker_new(bench.run.dir);
	ev_timer_init(&bench.beat, bench_beat, 0., 0.002);
	ev_timer_start(asker_loop(bench.asker), &bench.beat);
	set_minute(RUN_WINDOW, 0);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	assert_int_equal(SUM(admitted), 2);
	assert_int_equal(touches_waiting(bench.asker->touches), 0);
	set_minute(RUN_WINDOW + 1, 0);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 8), ASK_REJECTED);
}

static void ask_claims_for_a_stream_that_has_expired_on_the_way(void **state)
{
	(void)state;
	bench_limit(2);
	set_minute(0, 0);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	set_minute(RUN_WINDOW, 60000); /* its worker is in the next minute already */
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	assert_int_equal(SUM(admitted), 3); /* asked to be renewed, then let in as new */
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ask_lets_new_streams_in_and_then_knows_them),
		TEST(ask_of_nothing_is_answered),
		TEST(ask_takes_many_streams_of_which_some_are_the_same),
		TEST(ask_refuses_names_that_are_none),
		TEST(ask_for_rates_gets_them_and_counts_no_streams),
		TEST(ask_refuses_first_at_the_limit_plus_one),
		TEST(ask_touches_those_that_it_knows_and_not_those_that_it_refuses),
		TEST(ask_many_at_a_time_is_as_exact_as_one_by_one),
		TEST(ask_waits_for_budgets_under_way_and_gets_what_comes_back),
		TEST(ask_for_the_same_new_stream_twice_is_never_refused),
		TEST(ask_fails_what_it_cannot_judge_while_partitions_are_counted_anew),
		TEST(ask_follows_limits_that_change),
		TEST(ask_counts_a_policy_with_its_own_limit_by_itself),
		TEST(ask_takes_more_policies_than_a_message_holds),
		TEST(ask_in_a_dry_run_refuses_nothing_and_counts),
		TEST(ask_judges_by_partition_when_the_scope_says_so),
		TEST(ask_has_a_stream_renewed_by_its_worker_in_its_last_minute),
		TEST(ask_claims_for_a_stream_that_has_expired_on_the_way),
	};
	return cmocka_run_group_tests_name("ask", tests, NULL, NULL);
}
