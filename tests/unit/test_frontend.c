/*
 * test_frontend.c - questions about streams of which some are served by another instance: partition 2 is
 * not served here, and the peer `stage.a` may have it.
 */
#include "ask_fixture.h"

#include "peers_fixture.h"

#include "tools/queryd/ask_private.h"
#include "tools/queryd/frontend.h"

#define AWAY  2
#define HERE  1
#define BRIEF UINT64_C(800000000)

static struct frontend *frontend;

static int setup(void **state)
{
	bench_setup(state);
	run_publish(&bench.run, AWAY, PART_REPLAYING, 10 + AWAY);
	stage_open(asker_loop(bench.asker));
	instance_start(&stage.a, "127.0.0.1", 0);
	return 0;
}

static int teardown(void **state)
{
	frontend_free(&frontend);
	stage_close();
	return bench_teardown(state);
}

/* The peer serves partition 2, or nothing. */
static void meet(bool serves)
{
	if (serves)
		instance_serves(&stage.a, AWAY, AWAY, 100);
	peers_are(stage.a.address);
	assert_true(until(connected_are, 1));
	assert_true(until(partitions_are, serves));
	frontend = frontend_new(bench.asker, stage.peers);
}

/* Four streams: of partitions 0, 1, 2, 3. */
static struct query_of_test *question(void)
{
	struct query_of_test *query = query_new("fake");

	for (uint64_t hash = 100; hash < 104; hash++)
		query_add(query, hash);
	return query;
}

static void begin(struct query_of_test *query)
{
	assert_int_equal(frontend_begin(frontend, &query->ask), 0);
}

static void results_are(const struct query_of_test *query, enum ask_result away)
{
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(query->streams[i].result, i == AWAY ? away : ASK_ACCEPTED);
}

static void frontend_asks_nobody_when_all_is_served_here(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	run_publish(&bench.run, AWAY, PART_READY, 10 + AWAY);
	meet(true);
	begin(query);
	query_wait(query);
	results_are(query, ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 0);
	free(query);
}

static void frontend_asks_others_for_what_is_not_served_here(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	meet(true);
	begin(query);
	query_wait(query);
	results_are(query, ASK_ACCEPTED);
	assert_int_equal(stage.a.streams, 1);
	assert_int_equal(stage.a.seen[0], 100 + AWAY);
	assert_int_equal(SUM(admitted), 3);
	stage.a.rejects[stage.a.rejects_n++] = 100 + AWAY;
	begin(query);
	UNTIL(query->done == 2);
	results_are(query, ASK_REJECTED);
	free(query);
}

static void frontend_counts_what_waits_for_others(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	meet(true);
	begin(query);
	assert_int_equal(query->done, 0);
	assert_int_equal(bench.asker->under_way, 4);
	bench.asker->under_way = ASK_UNDER_WAY_MAX - 3;
	struct query_of_test *more = question();
	begin(more);
	assert_int_equal(more->done, 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(more->streams[i].result, ASK_FAILED);
	bench.asker->under_way = 4;
	query_wait(query);
	assert_int_equal(bench.asker->under_way, 0);
	free(more);
	free(query);
}

static void frontend_asks_others_for_rates(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	meet(true);
	query->ask.kind = ASK_RATES;
	begin(query);
	query_wait(query);
	results_are(query, ASK_ACCEPTED);
	assert_int_equal(query->streams[AWAY].rate, 2 * 10);
	free(query);
}

static void frontend_asks_nobody_when_it_is_all_or_nothing(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	meet(true);
	query->ask.all_or_nothing = true;
	begin(query);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_UNSERVED), 4);
	assert_int_equal(stage.a.questions, 0);
	free(query);
}

static void frontend_says_unserved_of_what_nobody_serves(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	meet(false);
	begin(query);
	query_wait(query);
	results_are(query, ASK_UNSERVED);
	free(query);
}

static void frontend_answers_what_came_back_meanwhile(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	meet(false);
	usleep((PEERS_FRESH_MS + 50) * 1000);
	stage.a.map_sleeps = true; /* it is waited for, a little while */
	begin(query);
	assert_int_equal(query->done, 0);
	run_publish(&bench.run, AWAY, PART_READY, 10 + AWAY);
	query_wait(query);
	results_are(query, ASK_ACCEPTED);
	assert_int_equal(SUM(admitted), 4);
	free(query);
}

static void frontend_leaves_our_own_workers_half_of_the_time(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	stage.a.mood = SLEEPS;
	meet(true);
	query->ask.deadline_ns = host_boot_ns() + BRIEF;
	begin(query);
	query_wait(query);
	results_are(query, ASK_FAILED);
	assert_true(host_boot_ns() < query->ask.deadline_ns);
	free(query);
}

/* What others answered is kept; what is lost here is not given. */
static void frontend_gives_no_answer_of_a_partition_that_left_meanwhile(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	meet(true);
	atomic_store(&bench.lever[HERE].hold, 1);
	begin(query);
	UNTIL(atomic_load(&bench.lever[HERE].held) == 1);
	run_publish(&bench.run, HERE, PART_FREE, 0);
	atomic_store(&bench.lever[HERE].hold, 0);
	query_wait(query);
	assert_int_equal(query->streams[HERE].result, ASK_UNSERVED);
	assert_int_equal(query->streams[AWAY].result, ASK_ACCEPTED);
	free(query);
}

static void frontend_refuses_what_ask_begin_refuses(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	meet(true);
	query->streams[AWAY].policy = "\xff";
	assert_int_equal(frontend_begin(frontend, &query->ask), TALLY_EINVALID);
	query->ask.tenant = "";
	assert_int_equal(frontend_begin(frontend, &query->ask), TALLY_EINVALID);
	assert_int_equal(stage.a.questions, 0);
	free(query);
}

static void frontend_calls_nobody_back_who_has_cancelled(void **state)
{
	struct query_of_test *query = question();

	(void)state;
	stage.a.mood = SLEEPS;
	meet(true);
	begin(query);
	frontend_cancel(frontend, &query->ask); /* while others are asked */
	stage.a.mood = ACCEPTS;
	atomic_store(&bench.lever[HERE].hold, 1);
	begin(query);
	UNTIL(atomic_load(&bench.lever[HERE].held) == 1);
	frontend_cancel(frontend, &query->ask); /* while our own are */
	atomic_store(&bench.lever[HERE].hold, 0);
	begin(query);
	UNTIL(query->done);
	assert_int_equal(query->done, 1);
	run_publish(&bench.run, AWAY, PART_READY, 10 + AWAY);
	atomic_store(&bench.lever[AWAY].hold, 1);
	begin(query); /* nothing is asked of others: partition 2 is here now, and does not know it */
	frontend_cancel(frontend, &query->ask);
	atomic_store(&bench.lever[AWAY].hold, 0);
	assert_int_equal(query_one("fake", 1000), ASK_ACCEPTED);
	assert_int_equal(query->done, 1);
	free(query);
}

static void frontend_answers_all_that_is_under_way_when_it_ends(void **state)
{
	struct query_of_test *one = question(), *two = question();

	(void)state;
	meet(true);
	atomic_store(&bench.lever[HERE].hold, 1);
	begin(one);
	UNTIL(atomic_load(&bench.lever[HERE].held) == 1);
	stage.a.mood = SLEEPS;
	begin(two);
	UNTIL(stage.a.questions == 2);
	frontend_free(&frontend);
	peers_free(&stage.peers);
	atomic_store(&bench.lever[HERE].hold, 0);
	query_wait(one);
	query_wait(two);
	results_are(one, ASK_ACCEPTED);
	results_are(two, ASK_FAILED);
	free(one);
	free(two);
}

int main(void)
{
#define ENTRY(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		ENTRY(frontend_asks_nobody_when_all_is_served_here),
		ENTRY(frontend_asks_others_for_what_is_not_served_here),
		ENTRY(frontend_counts_what_waits_for_others),
		ENTRY(frontend_asks_others_for_rates),
		ENTRY(frontend_asks_nobody_when_it_is_all_or_nothing),
		ENTRY(frontend_says_unserved_of_what_nobody_serves),
		ENTRY(frontend_answers_what_came_back_meanwhile),
		ENTRY(frontend_leaves_our_own_workers_half_of_the_time),
		ENTRY(frontend_gives_no_answer_of_a_partition_that_left_meanwhile),
		ENTRY(frontend_refuses_what_ask_begin_refuses),
		ENTRY(frontend_calls_nobody_back_who_has_cancelled),
		ENTRY(frontend_answers_all_that_is_under_way_when_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
