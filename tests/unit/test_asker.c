/*
 * test_asker.c - the asker as a thread: other threads ask, and look again.
 */
#include "ask_fixture.h"

#include "tools/queryd/ask_private.h"
#include "tools/queryd/counts.h"
#include "tools/queryd/metrics.h"

struct asking {
	pthread_t thread;
	uint64_t first;
	size_t accepted, rejected;
};

static void *ask_from_a_thread(void *arg)
{
	struct asking *asking = arg;
	struct tally *again;
	if (tally_open(bench.run.dir, 0, &again))
		return NULL;
	for (uint64_t i = 0; i < 50; i++) {
		struct ask_stream stream = {.hash = asking->first + i, .bytes = 10};
		struct ask ask = {.tenant = "a",
			.streams = &stream,
			.n = 1,
			.deadline_ns = host_boot_ns() + UINT64_C(10000000000)};
		if (asker_submit(bench.asker, &ask, again))
			break;
		asking->accepted += stream.result == ASK_ACCEPTED;
		asking->rejected += stream.result == ASK_REJECTED;
	}
	tally_close(&again);
	return NULL;
}

static void assert_metric(const char *line)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct counted own = {0};
	metrics_gather_asked(bench.asker, NULL, &own);
	metrics_asker(out, &own, NULL, bench.asker, NULL);
	metrics_asker(out, &own, NULL, bench.asker, "zone-a");
	fclose(out);
	if (!strstr(text, line))
		fail_msg("no %s in\n%s", line, text);
	free(text);
}

static void asker_answers_other_threads_until_it_is_stopped(void **state)
{
	struct asking asking[8];
	size_t accepted = 0, rejected = 0;
	(void)state;
	bench_limit(123);
	ev_timer_stop(asker_loop(bench.asker), &bench.beat);
	assert_true(asker_start(bench.asker));
	for (uint64_t i = 0; i < 8; i++) {
		asking[i] = (struct asking){.first = i * 1000};
		assert_int_equal(
			pthread_create(&asking[i].thread, NULL, ask_from_a_thread, &asking[i]), 0);
	}
	for (size_t i = 0; i < 8; i++) {
		pthread_join(asking[i].thread, NULL);
		accepted += asking[i].accepted;
		rejected += asking[i].rejected;
	}
	assert_int_equal(accepted, 123);
	assert_int_equal(rejected, 8 * 50 - 123);
	struct asker_facts facts;
	asker_facts(bench.asker, &facts);
	assert_int_equal(facts.questions[ASK_EXCEEDS], 400);
	assert_int_equal(facts.streams[ASK_EXCEEDS][ASK_ACCEPTED], 123);
	assert_int_equal(facts.streams[ASK_EXCEEDS][ASK_REJECTED], 277);
	assert_int_equal(facts.under_way, 0);
	assert_metric("tally_ask_streams_total{kind=\"exceeds\",result=\"rejected\"} 277");
	assert_metric("tally_ask_duration_seconds_count 400");
	assert_metric("loki_ingest_limits_frontend_streams_total 400");
	assert_metric("tally_tenant_streams_rejected_total{tenant=\"a\"} 277");
	assert_metric("loki_ingest_limits_tenant_ingested_bytes_total{tenant=\"a\"} 1230");
	asker_stop(bench.asker, 1000);
	struct ask_stream stream = {.hash = 1};
	struct ask ask = {.tenant = "a", .streams = &stream, .n = 1};
	assert_int_equal(asker_submit(bench.asker, &ask, NULL), TALLY_ESTALE);
}

/* Something happens after the loop's own last look, and before the caller has its answer. */
static struct {
	void (*event)(void);
	void (*done)(struct ask *ask);
} between;

static void done_after_the_event(struct ask *ask)
{
	between.event();
	between.done(ask);
}

static int begin_with_the_event(void *arg, struct ask *ask)
{
	between.done = ask->done;
	ask->done = done_after_the_event;
	return ask_begin(arg, ask);
}

static void nothing_happens(void)
{
}
static void one_is_revoked(void)
{
	run_publish(&bench.run, 1, PART_DRAINING, 11);
}
static void a_lease_is_over(void)
{
	run_lease(&bench.run, 1, -1);
}
static void there_are_more_partitions(void)
{
	atomic_store(&table_head_mut(&bench.run.table)->partitions, 2 * RUN_PARTITIONS);
}

static void another_supervisor_has_none(void)
{
	struct table_head facts = run_facts();
	run_install(&bench.run, &facts);
}
static void another_supervisor_has_them_all(void)
{
	another_supervisor_has_none();
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		run_publish(&bench.run, p, PART_READY, 10 + p);
}

/* All of it as it was, afterwards. */
static void submit_with(
	void (*event)(void), bool all_or_nothing, struct tally *again, struct ask_stream *streams)
{
	struct ask ask = {.tenant = "a",
		.streams = streams,
		.n = RUN_PARTITIONS,
		.all_or_nothing = all_or_nothing,
		.deadline_ns = host_boot_ns() + UINT64_C(15000000000)};
	between.event = event;
	for (uint64_t p = 0; p < RUN_PARTITIONS; p++)
		streams[p] = (struct ask_stream){.hash = p};
	assert_int_equal(asker_submit(bench.asker, &ask, again), 0);
	atomic_store(&table_head_mut(&bench.run.table)->partitions, RUN_PARTITIONS);
	run_publish(&bench.run, 1, PART_READY, 11);
}

static void asker_looks_again_in_the_thread_that_answers(void **state)
{
	static const struct {
		void (*event)(void);
		bool all_or_nothing;
		bool unserved[RUN_PARTITIONS];
	} cases[] = {
		{nothing_happens, true, {false}},
		{one_is_revoked, false, {[1] = true}},
		{a_lease_is_over, false, {[1] = true}},
		{there_are_more_partitions, false, {true, true, true, true}},
		{one_is_revoked, true, {true, true, true, true}},
		{nothing_happens, false, {false}},
		{another_supervisor_has_them_all, false, {false}},
		{another_supervisor_has_none, false, {true, true, true, true}},
	};
	enum { CASES = sizeof cases / sizeof *cases };
	struct ask_stream streams[CASES][RUN_PARTITIONS];
	struct tally *again;
	(void)state;
	assert_int_equal(tally_open(bench.run.dir, 0, &again), 0);
	ev_timer_stop(asker_loop(bench.asker), &bench.beat);
	asker_set_begin(bench.asker, begin_with_the_event, bench.asker);
	assert_true(asker_start(bench.asker));
	for (size_t i = 0; i < CASES; i++)
		submit_with(cases[i].event, cases[i].all_or_nothing, again, streams[i]);
	asker_stop(bench.asker, 1000);
	tally_close(&again);
	for (size_t i = 0; i < CASES; i++)
		for (size_t p = 0; p < RUN_PARTITIONS; p++)
			assert_int_equal(streams[i][p].result,
				cases[i].unserved[p] ? ASK_UNSERVED : ASK_ACCEPTED);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(asker_answers_other_threads_until_it_is_stopped),
		TEST(asker_looks_again_in_the_thread_that_answers),
	};
	return cmocka_run_group_tests_name("asker", tests, NULL, NULL);
}
