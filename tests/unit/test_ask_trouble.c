/*
 * test_ask_trouble.c - questions when workers die, hang, lie, or leave.
 */
#include "ask_fixture.h"

#include "tools/queryd/ask_private.h"

/* A touch for worker 0. */
static enum link_result tell(uint64_t generation)
{
	static uint8_t packed[ADMIT_MESSAGE_MAX];
	struct admit_stream stream = {.hash = 0};
	struct admit_question touch = {.kind = ADMIT_TOUCH,
		.generation = generation,
		.seen_ms = host_wall_ms(),
		.tenant = {"a", 1},
		.n_policies = 1,
		.policy = {{.name = {"", 0}}},
		.n_streams = 1,
		.streams = &stream};
	size_t len = admit_pack(&touch, packed);
	assert_true(len > 0);
	return links_tell(bench.asker->links, 0, generation, packed, len);
}

static struct query_of_test *ask_and_hold(uint32_t partition, bool all_or_nothing)
{
	struct query_of_test *query = query_new("a");
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		query_add(query, p);
	query->ask.all_or_nothing = all_or_nothing;
	atomic_store(&bench.lever[partition].hold, 1);
	query_begin(query);
	UNTIL(atomic_load(&bench.lever[partition].held) == 1);
	assert_int_equal(query->done, 0);
	return query;
}

static void ask_fails_and_is_not_sent_again_when_its_worker_dies(void **state)
{
	struct query_of_test *query = ask_and_hold(2, false);
	(void)state;
	bench_limit(100);
	bench_kill_worker(2);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 3);
	assert_int_equal(query->streams[2].result, ASK_FAILED);
	free(query);
	uint64_t admits = atomic_load(&bench.lever[2].admits);
	atomic_store(&bench.lever[2].hold, 0);
	bench_start_worker(2, 12);
	UNTIL(atomic_load(&bench.lever[2].up));
	assert_int_equal(atomic_load(&bench.lever[2].admits), admits);
	assert_int_equal(query_one("a", 2), ASK_ACCEPTED);
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 0);
}

static void ask_stays_failed_where_its_worker_died_and_is_started_again(void **state)
{
	struct query_of_test *query = ask_and_hold(2, false);
	(void)state;
	run_publish(&bench.run, 2, PART_PENDING, 12);
	bench_kill_worker(2);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 3);
	assert_int_equal(query->streams[2].result, ASK_FAILED);
	free(query);
}

static void ask_is_unserved_where_no_worker_takes_it(void **state)
{
	(void)state;
	bench_limit(2);
	bench_kill_worker(0);
	assert_int_equal(query_one("a", 0), ASK_UNSERVED);
	assert_int_equal(links_facts(bench.asker->links)->refused, 1);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	bench_kill_worker(1); /* there is a connection still */
	assert_int_equal(query_one("a", 5), ASK_UNSERVED);
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 0);
}

static void ask_is_unserved_where_its_worker_dies_before_it_is_sent(void **state)
{
	struct query_of_test *query = query_new("a");
	int status;
	(void)state;
	bench_limit(2);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	kill(bench.pid[0], SIGSTOP);
	assert_int_equal(waitpid(bench.pid[0], &status, WUNTRACED), bench.pid[0]);
	assert_true(WIFSTOPPED(status));
	while (tell(10) == LINK_OK)
		;
	query_add(query, 4);
	query_begin(query);
	assert_int_equal(query->done, 0);
	assert_int_equal(links_facts(bench.asker->links)->waiting, 1);
	bench_kill_worker(0);
	query_wait(query);
	assert_int_equal(query->streams[0].result, ASK_UNSERVED);
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 0);
	assert_int_equal(links_facts(bench.asker->links)->lost, 0);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED); /* its place was free */
	assert_int_equal(query_one("a", 2), ASK_REJECTED);
	free(query);
}

static void ask_is_unserved_where_the_partition_is_revoked_meanwhile(void **state)
{
	struct query_of_test *query = ask_and_hold(1, false);
	(void)state;
	run_publish(&bench.run, 1, PART_DRAINING, 11);
	bench_kill_worker(1);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 3);
	assert_int_equal(query->streams[1].result, ASK_UNSERVED);
	free(query);
}

static void ask_for_all_or_nothing_is_unserved_as_a_whole(void **state)
{
	struct query_of_test *query = ask_and_hold(1, true);
	(void)state;
	/* The worker answers in time, but it is not its partition any more. */
	run_publish(&bench.run, 1, PART_DRAINING, 11);
	atomic_store(&bench.lever[1].hold, 0);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_UNSERVED), 4);
	free(query);

	uint64_t admits = SUM(admits);
	query = query_new("b");
	query->ask.all_or_nothing = true;
	for (uint64_t hash = 0; hash < 4; hash++)
		query_add(query, hash);
	query_begin(query);
	assert_int_equal(query->done, 1); /* nothing was sent */
	assert_int_equal(query_count(query, ASK_UNSERVED), 4);
	assert_int_equal(SUM(admits), admits);
	free(query);
}

static void ask_stands_on_the_lease_too(void **state)
{
	struct query_of_test *query = ask_and_hold(1, false);
	(void)state;
	run_lease(&bench.run, 0, -1);
	atomic_store(&bench.lever[1].hold, 0);
	query_wait(query);
	assert_int_equal(query->streams[0].result, ASK_UNSERVED);
	assert_int_equal(query_count(query, ASK_ACCEPTED), 3);
	free(query);
}

static void ask_is_unserved_when_the_worker_says_not_ready(void **state)
{
	(void)state;
	atomic_store(&bench.lever[0].not_ready, ADMIT_NOT_READY);
	assert_int_equal(query_one("a", 0), ASK_UNSERVED);
	atomic_store(&bench.lever[0].not_ready, ADMIT_NO_ROOM);
	assert_int_equal(query_one("a", 0), ASK_FAILED);
	atomic_store(&bench.lever[0].not_ready, 0);
	bench_limit(1);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED); /* the budget has come back */
}

/* Three streams of worker 0, whose answer is nonsense, and one of worker 1. */
static void assert_nonsense_fails(enum ask_kind kind, uint64_t hash)
{
	struct query_of_test *query = query_new("a");
	query->ask.kind = kind;
	for (uint64_t i = 0; i < 3; i++)
		query_add(query, hash + i * RUN_PARTITIONS);
	query_add(query, hash + 1);
	query_begin(query);
	query_wait(query);
	assert_int_equal(query_count(query, ASK_FAILED), 3);
	assert_int_equal(query->streams[3].result, ASK_ACCEPTED);
	free(query);
}

static void ask_fails_where_the_answer_is_none_to_its_question(void **state)
{
	static const enum spoil how[] = {
		SPOIL_KIND, SPOIL_SHORT, SPOIL_LONG, SPOIL_GENERATION, SPOIL_ID};
	(void)state;
	bench_limit(1000);
	for (uint64_t i = 0; i < sizeof how / sizeof *how; i++) {
		atomic_store(&bench.lever[0].spoil, how[i]);
		assert_nonsense_fails(ASK_EXCEEDS, 100 * i);
		assert_nonsense_fails(ASK_RATES, 100 * i);
	}
	atomic_store(&bench.lever[0].spoil, SPOIL_NOTHING);
	assert_int_equal(links_facts(bench.asker->links)->unexpected, 4); /* generations and ids */
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 0);
	assert_int_equal(query_one("a", 4000), ASK_ACCEPTED);
}

static void ask_fails_what_its_worker_could_not_record(void **state)
{
	(void)state;
	bench_limit(2);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	atomic_store(&bench.lever[0].outbox_full, 1);
	assert_int_equal(query_one("a", 4), ASK_FAILED);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	atomic_store(&bench.lever[0].outbox_full, 0);
	assert_int_equal(query_one("a", 8), ASK_ACCEPTED); /* the budget has come back */
	assert_int_equal(query_one("a", 4), ASK_REJECTED);
}

/* One worker finds a stream expired, and nobody can be asked for a place in time. */
static void ask_fails_what_has_expired_when_its_time_is_over(void **state)
{
	struct query_of_test *query = query_new("a");
	(void)state;
	set_minute(0, 0);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	assert_int_equal(query_one("a", 5), ASK_ACCEPTED);
	set_minute(RUN_WINDOW, 60000);
	atomic_store(&bench.lever[1].hold, 1);
	query_add(query, 4);
	query_add(query, 5);
	query_begin(query);
	const struct ask_work *work = query->ask.private;
	UNTIL(work->again == 1);
	assert_int_equal(query->done, 0);
	ask_end_all(bench.asker);
	assert_int_equal(query->done, 1);
	assert_int_equal(query_count(query, ASK_FAILED), 2);
	free(query);
}

static void ask_fails_what_waits_for_a_budget_when_its_time_is_over(void **state)
{
	struct query_of_test *first = query_new("a"), *expired = query_new("a");
	struct query_of_test *fresh = query_new("a");
	(void)state;
	bench_limit(2);
	set_minute(0, 0);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	set_minute(RUN_WINDOW, 60000);
	atomic_store(&bench.lever[1].hold, 1);
	query_add(first, 1);
	query_begin(first); /* has the last place */
	query_add(expired, 4);
	query_begin(expired);
	query_add(fresh, 8);
	query_begin(fresh);
	UNTIL(ledger_facts(bench.asker->ledger)->waiting == 2);
	ask_end_all(bench.asker);
	assert_int_equal(first->done + expired->done + fresh->done, 3);
	assert_int_equal(first->streams[0].result, ASK_FAILED);
	assert_int_equal(expired->streams[0].result, ASK_FAILED);
	assert_int_equal(fresh->streams[0].result, ASK_FAILED);
	free(first);
	free(expired);
	free(fresh);
}

/* Another reader of this store has all the places there are, until it is killed. */
static pid_t take_all_reader_slots(uint32_t partition, uint64_t generation)
{
	static struct store_txn txns[100];
	struct store *store;
	char path[160], byte;
	int pipes[2];
	size_t n = 0;
	run_path(&bench.run, partition, generation, path);
	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (store_open_reader(path, &store))
			_exit(30);
		do
			store_begin_read(&txns[n], store);
		while (!txns[n++].err && n < sizeof txns / sizeof *txns);
		(void)!write(pipes[1], "", txns[n - 1].err == ERR_BUSY);
		close(pipes[1]);
		pause();
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	close(pipes[0]);
	return pid;
}

static void ask_fails_where_no_reader_has_room(void **state)
{
	pid_t pid = take_all_reader_slots(0, 10);
	(void)state;
	assert_int_equal(query_one("a", 0), ASK_FAILED);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
}

static void ask_is_unserved_where_the_store_cannot_be_read(void **state)
{
	(void)state;
	run_publish(&bench.run, 0, PART_READY, 99); /* there is none */
	assert_int_equal(query_one("a", 0), ASK_UNSERVED);
	assert_int_equal(query_one("a", 1), ASK_ACCEPTED);
}

static void ask_is_answered_at_its_deadline_and_the_budget_stays_out(void **state)
{
	struct query_of_test *query = query_new("a"), *second = query_new("a");
	(void)state;
	bench_limit(1);
	atomic_store(&bench.lever[0].hold, 1);
	query_add(query, 0);
	query->ask.deadline_ns = host_boot_ns() + 100000000;
	query_begin(query);
	query_wait(query);
	assert_int_equal(query->streams[0].result, ASK_FAILED);
	/* It may still come in: nobody else gets its place. */
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 1);
	query_add(second, 1);
	query_begin(second);
	assert_int_equal(second->done, 0);
	atomic_store(&bench.lever[0].hold, 0);
	query_wait(second);
	assert_int_equal(second->streams[0].result, ASK_REJECTED);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	free(query);
	free(second);
}

static void ask_that_is_cancelled_is_not_answered(void **state)
{
	struct query_of_test *query = ask_and_hold(0, false);
	struct query_of_test *waiting = query_new("a");
	(void)state;
	bench_limit(4);
	query_add(waiting, 4);
	query_begin(waiting);
	ask_cancel(bench.asker, &query->ask);
	ask_cancel(bench.asker, &waiting->ask);
	atomic_store(&bench.lever[0].hold, 0);
	UNTIL(links_facts(bench.asker->links)->waiting == 0);
	assert_int_equal(query->done + waiting->done, 0);
	assert_int_equal(ledger_facts(bench.asker->ledger)->reserved, 0);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED); /* it was done all the same */
	free(query);
	free(waiting);
}

static void ask_waits_for_a_worker_that_takes_nothing(void **state)
{
	struct query_of_test *queries[200];
	(void)state;
	atomic_store(&bench.lever[0].deaf, 1);
	for (uint64_t i = 0; i < 200; i++) {
		queries[i] = query_new("a");
		for (uint64_t k = 0; k < 200; k++)
			query_add(queries[i], (i * 200 + k) * 4);
		query_begin(queries[i]);
	}
	atomic_store(&bench.lever[0].deaf, 0);
	for (size_t i = 0; i < 200; i++) {
		query_wait(queries[i]);
		assert_int_equal(query_count(queries[i], ASK_ACCEPTED), 200);
		free(queries[i]);
	}
}

static void ask_fails_beyond_what_may_wait_for_a_worker(void **state)
{
	struct query_of_test *queries[40];
	size_t failed = 0, accepted = 0;
	(void)state;
	atomic_store(&bench.lever[0].deaf, 1);
	for (uint64_t i = 0; i < 40; i++) {
		queries[i] = query_new("a");
		for (uint64_t k = 0; k < QUERY_MAX; k++)
			query_add(queries[i], (i * QUERY_MAX + k) * 4);
		query_begin(queries[i]);
		UNTIL(!bench.asker->reading);
		failed += query_count(queries[i], ASK_FAILED) && queries[i]->done;
	}
	assert_true(failed > 0 && failed < 40);
	atomic_store(&bench.lever[0].deaf, 0);
	for (size_t i = 0; i < 40; i++) {
		UNTIL(queries[i]->done);
		accepted += query_count(queries[i], ASK_ACCEPTED);
		free(queries[i]);
	}
	assert_true(accepted > 0);
}

static void ask_without_an_instance_is_unserved(void **state)
{
	struct asker *asker = asker_new("/nonexistent");
	struct query_of_test *query = query_new("a");
	(void)state;
	query_add(query, 1);
	assert_int_equal(ask_begin(asker, &query->ask), 0);
	assert_int_equal(query->done, 1);
	assert_int_equal(query->streams[0].result, ASK_UNSERVED);
	asker_free(&asker);
	free(query);
}

/* ------------------------------------------------------------------ generations */

static void links_belong_to_one_generation(void **state)
{
	struct links *links = bench.asker->links;
	struct query_of_test *query = query_new("a");
	(void)state;
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	assert_int_equal(links_generation(links, 0), 10);
	links_keep(links, 0, 10);
	assert_int_equal(links_generation(links, 0), 10);
	assert_int_equal(tell(9), LINK_GONE); /* no harm to the one there is */
	assert_int_equal(links_generation(links, 0), 10);
	assert_int_equal(tell(10), LINK_OK);
	assert_int_equal(tell(11), LINK_GONE); /* nobody is there, and 10 is over */
	assert_int_equal(links_generation(links, 0), 0);
	assert_int_equal(links_facts(links)->open, 0);

	atomic_store(&bench.lever[0].hold, 1);
	query_add(query, 4);
	query_begin(query);
	assert_int_equal(links_generation(links, 0), 10);
	links_keep(links, 0, 11);
	assert_int_equal(links_generation(links, 0), 0);
	ask_settle(bench.asker);
	query_wait(query);
	assert_int_equal(query->streams[0].result, ASK_FAILED);
	assert_int_equal(links_facts(links)->lost, 1);
	free(query);
}

static void ask_goes_to_the_new_generation_while_the_old_worker_lives(void **state)
{
	pid_t old = bench.pid[0];
	(void)state;
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	bench_start_worker(0, 20);
	run_publish(&bench.run, 0, PART_READY, 20);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	assert_int_equal(links_generation(bench.asker->links, 0), 20);
	assert_int_equal(links_facts(bench.asker->links)->open, 1);
	uint64_t admits = SUM(admits);
	assert_int_equal(query_one("a", 4), ASK_ACCEPTED);
	assert_int_equal(SUM(admits), admits); /* it is in the new store */
	pid_t new = bench.pid[0];
	bench.pid[0] = old;
	bench_kill_worker(0);
	bench.pid[0] = new;
}

/* What was found active is not looked up again: that holds for its generation, while that is served. */
static void ask_remembers_streams_of_the_generation_that_is_served_alone(void **state)
{
	(void)state;
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED); /* new, ... */
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED); /* ... found in the map, ... */
	run_publish(&bench.run, 0, PART_DRAINING, 10);
	assert_int_equal(query_one("a", 0), ASK_UNSERVED); /* ... and remembered */
	run_publish(&bench.run, 0, PART_READY, 10);
	run_lease(&bench.run, 0, -1);
	assert_int_equal(query_one("a", 0), ASK_UNSERVED);
	bench_kill_worker(0);
	bench_start_worker(0, 20);
	run_publish(&bench.run, 0, PART_READY, 20);
	uint64_t admits = SUM(admits);
	assert_int_equal(query_one("a", 0), ASK_ACCEPTED);
	assert_int_equal(SUM(admits), admits + 1); /* the new store does not have it */
}

/* One look at all of them: what is not ready and not lost either stays. */
static void asker_lets_go_of_workers_whose_partition_left(void **state)
{
	const struct links *links = bench.asker->links;
	(void)state;
	for (uint64_t p = 0; p < 3; p++)
		assert_int_equal(query_one("a", p), ASK_ACCEPTED);
	run_publish(&bench.run, 0, PART_REPLAYING, 10);
	run_publish(&bench.run, 1, PART_FREE, 11);
	UNTIL(links_generation(links, 1) == 0);
	assert_int_equal(links_generation(links, 0), 10);
	assert_int_equal(links_generation(links, 2), 12);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ask_fails_and_is_not_sent_again_when_its_worker_dies),
		TEST(ask_stays_failed_where_its_worker_died_and_is_started_again),
		TEST(ask_is_unserved_where_no_worker_takes_it),
		TEST(ask_is_unserved_where_its_worker_dies_before_it_is_sent),
		TEST(ask_is_unserved_where_the_partition_is_revoked_meanwhile),
		TEST(ask_for_all_or_nothing_is_unserved_as_a_whole),
		TEST(ask_stands_on_the_lease_too),
		TEST(ask_is_unserved_when_the_worker_says_not_ready),
		TEST(ask_fails_where_the_answer_is_none_to_its_question),
		TEST(ask_fails_what_its_worker_could_not_record),
		TEST(ask_fails_what_has_expired_when_its_time_is_over),
		TEST(ask_fails_what_waits_for_a_budget_when_its_time_is_over),
		TEST(ask_fails_where_no_reader_has_room),
		TEST(ask_is_unserved_where_the_store_cannot_be_read),
		TEST(ask_is_answered_at_its_deadline_and_the_budget_stays_out),
		TEST(ask_that_is_cancelled_is_not_answered),
		TEST(ask_waits_for_a_worker_that_takes_nothing),
		TEST(ask_fails_beyond_what_may_wait_for_a_worker),
		TEST(ask_without_an_instance_is_unserved),
		TEST(links_belong_to_one_generation),
		TEST(ask_goes_to_the_new_generation_while_the_old_worker_lives),
		TEST(ask_remembers_streams_of_the_generation_that_is_served_alone),
		TEST(asker_lets_go_of_workers_whose_partition_left),
	};
	return cmocka_run_group_tests_name("ask_trouble", tests, NULL, NULL);
}
