/*
 * test_start.c - how a worker finds the place where it begins to read, and begins again.
 */
#include "start_fixture.h"

#include "worker/start.h"

/* --- a new store ----------------------------------------------------------------------------- */

static void start_reads_from_the_first_young_record_when_the_store_is_new(void **state)
{
	(void)state;
	begin(NEVER, -1, -1);
	assert_state(START_ASKING);
	assert_calls("stop ask");
	assert_int_equal(bench.since_ms, plan_since_ms(NOW_MS, 120, 60));
	answer(LOG_END, TIME_FOUND, 640);
	assert_calls("trust start:640");
	assert_found(640, LOG_END);
	assert_int_equal(bench.level, LOG_LEVEL_INFO);
}

static void start_reads_from_the_end_when_the_log_is_empty(void **state)
{
	(void)state;
	begin(NEVER, -1, -1);
	assert_calls("stop ask");
	answer(LOG_START, TIME_NONE, -1);
	assert_calls("trust start:100");
	assert_found(LOG_START, LOG_START);
}

static void start_goes_on_asking_when_the_broker_knows_no_offsets(void **state)
{
	(void)state;
	begin(NEVER, -1, -1);
	assert_calls("stop ask");
	for (size_t i = 0; i < TIMES; i++) {
		answer(-1, TIME_UNKNOWN, -1);
		assert_string_equal(bench.warned, "start.no_offsets");
		assert_true(bench.start.plan.degraded);
		assert_asks_after(backoff_ms[i]);
	}
	answer(LOG_END, TIME_FOUND, 640);
	assert_calls("trust start:640");
	assert_found(640, LOG_END);
}

static void start_says_ready_early_only_when_told_so(void **state)
{
	for (enum handoff_on_failure how = ON_FAILURE_RETRY; how <= ON_FAILURE_READY; how++) {
		each_setup(state);
		bench.handoff.on_lookup_failure = how;
		begin(NEVER, -1, -1);
		answer(-1, TIME_UNKNOWN, -1);
		pass(TIMEOUT_MS);
		assert_false(bench.start.plan.ready_now);
		answer(-1, TIME_UNKNOWN, -1);
		assert_int_equal(bench.start.plan.ready_now, how == ON_FAILURE_READY);
	}
}

static void start_reads_from_the_logs_start_when_time_cannot_be_had(void **state)
{
	(void)state;
	begin(NEVER, -1, -1);
	assert_calls("stop ask");
	answer(LOG_END, TIME_UNKNOWN, -1);
	assert_asks_after(100);
	pass(TIMEOUT_MS - 101);
	answer(LOG_END, TIME_UNKNOWN, -1);
	assert_asks_after(200);
	answer(LOG_END, TIME_UNKNOWN, -1);
	assert_calls("trust start:100");
	assert_found(LOG_START, LOG_END);
}

static void start_ignores_the_answer_to_an_older_question(void **state)
{
	struct locate_answer late = {.end = LOG_END, .time = TIME_FOUND, .time_offset = 300};

	(void)state;
	begin(NEVER, -1, -1);
	late.id = bench.question;
	assert_calls("stop ask");
	answer(-1, TIME_UNKNOWN, -1);
	assert_false(start_answer(&bench.start, &late)); /* it waits */
	assert_asks_after(100);
	assert_false(start_answer(&bench.start, &late)); /* it has asked another one */
	assert_state(START_ASKING);
	answer(LOG_END, TIME_FOUND, 640);
	assert_calls("trust start:640");
	late.id = bench.question;
	assert_false(start_answer(&bench.start, &late)); /* it has had that answer */
	assert_calls("");
	assert_found(640, LOG_END);
}

/* --- the tail -------------------------------------------------------------------------------- */

static void old_record(int64_t offset)
{
	record_aged(offset, bench.since_ms - 1);
}

static void begin_tail(void)
{
	begin(NEVER, -1, -1);
	assert_calls("stop ask");
	answer(LOG_END, TIME_NONE, -1);
	assert_calls("trust start:99000");
	assert_state(START_TAIL);
}

static void start_reads_from_the_logs_start_when_the_tail_has_a_young_record(void **state)
{
	(void)state;
	begin_tail();
	old_record(99000);
	assert_calls("");
	record_aged(99001, bench.since_ms);
	assert_calls("stop trust start:100");
	assert_found(LOG_START, LOG_END);
}

static void start_reads_from_the_end_when_the_tail_is_old(void **state)
{
	(void)state;
	begin_tail();
	old_record(99000);
	old_record(LOG_END - 1);
	assert_calls("stop trust start:100000");
	assert_found(LOG_END, LOG_END);
}

static void start_reads_from_the_end_when_the_tail_ends_with_markers(void **state)
{
	(void)state;
	begin_tail();
	old_record(99000);
	event(SOURCE_END, LOG_END - 1); /* a leader that knows less yet */
	assert_calls("");
	event(SOURCE_END, LOG_END);
	assert_calls("stop trust start:100000");
	assert_found(LOG_END, LOG_END);
}

static void start_reads_more_of_the_tail_when_it_holds_no_record(void **state)
{
	(void)state;
	begin_tail();
	event(SOURCE_END, LOG_END);
	assert_calls("start:98000");
	record(LOG_END); /* came later: it says nothing of the log that was asked for */
	assert_calls("start:96000");
	event(SOURCE_END, LOG_END + 1);
	assert_calls("start:92000");
	assert_state(START_TAIL);
	old_record(95000);
	old_record(LOG_END + 1);
	assert_calls("stop trust start:100000");
	assert_found(LOG_END, LOG_END);
}

static void start_reads_from_the_end_when_the_log_holds_no_record_at_all(void **state)
{
	(void)state;
	begin(NEVER, -1, -1);
	answer(1200, TIME_NONE, -1);
	assert_calls("stop ask trust start:200");
	event(SOURCE_END, 1200);
	assert_calls("start:100");
	event(SOURCE_END, 1200);
	assert_calls("stop trust start:1200");
	assert_found(1200, 1200);
}

static void start_reads_from_the_logs_start_when_the_tail_cannot_be_read(void **state)
{
	(void)state;
	begin_tail();
	event(SOURCE_ERROR, -1); /* the library tries again */
	assert_calls("");
	event(SOURCE_BAD, -1);
	assert_string_equal(bench.warned, "start.unread");
	assert_calls("stop trust start:100");
	assert_found(LOG_START, LOG_END);
}

static void start_reads_from_the_logs_start_when_the_tail_does_not_come_in_time(void **state)
{
	(void)state;
	begin_tail();
	pass(TIMEOUT_MS / 2);
	event(SOURCE_END, LOG_END);
	assert_calls("start:98000"); /* reading more of it gives no more time */
	pass(TIMEOUT_MS / 2 - 1);
	assert_calls("");
	assert_state(START_TAIL);
	pass(1);
	assert_string_equal(bench.warned, "start.tail_unread");
	assert_calls("stop trust start:100");
	assert_found(LOG_START, LOG_END);
}

static void start_asks_again_when_the_tail_is_not_to_be_had(void **state)
{
	for (int i = 0; i < TROUBLES; i++) {
		each_setup(state);
		begin_tail();
		event(SOURCE_END, LOG_END);
		old_record(98000);
		assert_calls("start:98000");
		event(troubles[i], -1);
		assert_calls("stop");
		assert_asks_after(100);
		answer(LOG_END, TIME_NONE, -1);
		assert_calls("trust start:99000"); /* from the beginning */
		event(SOURCE_END, LOG_END);
		assert_calls("start:98000"); /* what was seen before may be of another log */
		event(troubles[i], -1);
		assert_calls("stop");
		assert_asks_after(200);
	}
}

/* --- beginning again ------------------------------------------------------------------------- */

static void find(int64_t next)
{
	answer(LOG_END, TIME_UNKNOWN, -1);
	record(next - 1);
	assert_found(next, LOG_END);
	bench.calls[0] = '\0';
}

static void start_waits_longer_each_time_when_what_it_found_does_not_hold(void **state)
{
	(void)state;
	begin(STORED, 499, -1);
	assert_calls("stop ask");
	for (size_t i = 0; i < TIMES; i++) {
		find(STORED);
		begin(STORED, 499, -1);
		assert_calls("stop");
		assert_asks_after(backoff_ms[i]);
	}
}

static void start_asks_at_once_when_something_was_read_since(void **state)
{
	(void)state;
	begin(STORED, 499, -1);
	find(STORED);
	begin(STORED, 499, -1);
	assert_calls("stop");
	assert_asks_after(100);
	find(STORED);
	begin(STORED + 1, 500, -1);
	assert_calls("stop ask");
	find(STORED + 1);
	begin(STORED + 1, 500, -1);
	assert_calls("stop");
	assert_asks_after(100); /* the next wait is short again */
}

static void start_asks_at_once_when_what_it_found_has_held(void **state)
{
	(void)state;
	begin(STORED, 499, -1);
	find(STORED);
	pass(749);
	begin(STORED, 499, -1);
	assert_calls("stop");
	assert_asks_after(100);
	pass(750); /* finding it took long, which says nothing */
	find(STORED);
	begin(STORED, 499, -1);
	assert_calls("stop");
	assert_asks_after(200);
	for (int i = 0; i < 3; i++) { /* a quiet log, looked at now and then */
		find(STORED);
		pass(750);
		begin(STORED, 499, -1);
		assert_calls("stop ask");
		assert_state(START_ASKING);
	}
	find(STORED);
	begin(STORED, 499, -1);
	assert_calls("stop");
	assert_asks_after(100); /* the next wait is short again */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(start_reads_from_the_first_young_record_when_the_store_is_new),
		TEST(start_reads_from_the_end_when_the_log_is_empty),
		TEST(start_goes_on_asking_when_the_broker_knows_no_offsets),
		TEST(start_says_ready_early_only_when_told_so),
		TEST(start_reads_from_the_logs_start_when_time_cannot_be_had),
		TEST(start_ignores_the_answer_to_an_older_question),
		TEST(start_reads_from_the_logs_start_when_the_tail_has_a_young_record),
		TEST(start_reads_from_the_end_when_the_tail_is_old),
		TEST(start_reads_from_the_end_when_the_tail_ends_with_markers),
		TEST(start_reads_more_of_the_tail_when_it_holds_no_record),
		TEST(start_reads_from_the_end_when_the_log_holds_no_record_at_all),
		TEST(start_reads_from_the_logs_start_when_the_tail_cannot_be_read),
		TEST(start_reads_from_the_logs_start_when_the_tail_does_not_come_in_time),
		TEST(start_asks_again_when_the_tail_is_not_to_be_had),
		TEST(start_waits_longer_each_time_when_what_it_found_does_not_hold),
		TEST(start_asks_at_once_when_something_was_read_since),
		TEST(start_asks_at_once_when_what_it_found_has_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
