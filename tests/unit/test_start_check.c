/*
 * test_start_check.c - how a worker that has read finds out whether it is still the same log.
 */
#include "start_fixture.h"

#include "worker/start.h"

/* --- a store that has read ------------------------------------------------------------------- */

/* Up to where the record of the anchor is read. */
static void begin_check(void)
{
	begin(STORED, STORED - 1, STORED - 100);
	assert_calls("stop ask");
	answer(LOG_END, TIME_UNKNOWN, -1);
	assert_calls("trust start:400");
	assert_state(START_CHECK);
}

/* Up to where that of the fingerprint is. */
static void begin_check_of_print(void)
{
	begin_check();
	record(400);
	assert_calls("start:499");
	assert_state(START_CHECK);
}

static void assert_rebuild(enum rebuild_reason reason)
{
	assert_state(START_REBUILD);
	assert_int_equal(bench.start.plan.action, PLAN_REBUILD);
	assert_int_equal(bench.start.plan.reason, reason);
}

static void start_reads_on_after_the_fingerprint_when_both_records_are_there(void **state)
{
	(void)state;
	begin_check();
	record(400);
	assert_calls("start:499"); /* trusting again would forgive what was asked meanwhile */
	record(499);
	assert_calls(""); /* the next record is the one to count */
	assert_found(STORED, LOG_END);
}

static void start_reads_one_record_when_the_anchor_is_the_fingerprint(void **state)
{
	(void)state;
	begin(STORED, 499, 499);
	answer(LOG_END, TIME_UNKNOWN, -1);
	assert_calls("stop ask trust start:499");
	record(499);
	assert_calls("");
	assert_found(STORED, LOG_END);
}

static void start_reads_one_record_when_the_anchor_is_gone_from_the_log(void **state)
{
	(void)state;
	begin(STORED, 499, LOG_START - 1);
	answer(LOG_END, TIME_UNKNOWN, -1);
	assert_calls("stop ask trust start:499");
	record(499);
	assert_found(STORED, LOG_END);
}

static void start_compares_nothing_when_the_fingerprint_is_gone_from_the_log(void **state)
{
	(void)state;
	begin(LOG_START, LOG_START - 1, 50);
	answer(LOG_END, TIME_UNKNOWN, -1);
	assert_calls("stop ask trust start:100");
	assert_found(LOG_START, LOG_END);
}

static void start_skips_what_is_too_old_when_the_record_is_the_same(void **state)
{
	(void)state;
	begin(STORED, 499, -1);
	answer(LOG_END, TIME_FOUND, 640);
	assert_calls("stop ask trust start:499");
	assert_state(START_CHECK);
	record(499);
	assert_calls("start:640");
	assert_found(640, LOG_END);
}

static void start_tells_only_who_debugs_when_it_was_only_a_look(void **state)
{
	struct start_store store = {.next_offset = STORED,
		.print = print_at(499),
		.anchor = print_at(400),
		.again = true};

	(void)state;
	start_begin(&bench.start, &store, NOW_MS);
	answer(LOG_END, TIME_UNKNOWN, -1);
	record(400);
	record(499);
	assert_found(STORED, LOG_END);
	assert_int_equal(bench.level, LOG_LEVEL_DEBUG);
}

/* --- another log ----------------------------------------------------------------------------- */

enum difference { KEY, VALUE, TIMESTAMP, OFFSET, DIFFERENCES };

/* Another record in the place of the one at `offset`. */
static void other_record(int64_t offset, enum difference difference)
{
	char text[32];
	struct source_event event = record_at(offset, text);

	if (difference == KEY)
		text[0]++;
	else if (difference == VALUE)
		text[7]++;
	else if (difference == TIMESTAMP)
		event.timestamp_ms++;
	else
		event.offset++;
	start_event(&bench.start, &event);
}

static void start_rebuilds_when_the_anchor_is_another_record(void **state)
{
	for (enum difference i = 0; i < DIFFERENCES; i++) {
		each_setup(state);
		begin_check();
		other_record(400, i);
		assert_calls("stop");
		assert_rebuild(REBUILD_FINGERPRINT);
	}
}

static void start_rebuilds_when_the_fingerprint_is_another_record(void **state)
{
	for (enum difference i = 0; i < DIFFERENCES; i++) {
		each_setup(state);
		begin_check_of_print();
		other_record(499, i);
		assert_calls("stop");
		assert_rebuild(REBUILD_FINGERPRINT);
	}
}

static void start_rebuilds_when_the_log_goes_on_without_the_record(void **state)
{
	(void)state;
	begin_check();
	event(SOURCE_END, 400); /* it is not there yet: a leader may know less at first */
	assert_calls("");
	assert_state(START_CHECK);
	event(SOURCE_END, 401);
	assert_calls("stop");
	assert_rebuild(REBUILD_FINGERPRINT);

	each_setup(state);
	begin_check_of_print();
	event(SOURCE_END, 499);
	assert_calls("");
	assert_state(START_CHECK);
	event(SOURCE_END, 500);
	assert_calls("stop");
	assert_rebuild(REBUILD_FINGERPRINT);
}

static void start_asks_for_ten_seconds_when_the_log_ends_below_the_store(void **state)
{
	(void)state;
	begin(STORED, 499, 400);
	assert_calls("stop ask");
	for (uint64_t i = 0, passed = 0; passed < PLAN_BEYOND_END_MS; passed += backoff_ms[i++]) {
		answer(STORED - 1, TIME_UNKNOWN, -1);
		assert_asks_after(backoff_ms[i]);
	}
	answer(STORED - 1, TIME_UNKNOWN, -1);
	assert_calls("");
	assert_rebuild(REBUILD_BEYOND_END);
}

static void start_goes_on_when_the_log_is_as_long_again(void **state)
{
	(void)state;
	begin(STORED, 499, -1);
	assert_calls("stop ask");
	answer(STORED - 1, TIME_UNKNOWN, -1);
	assert_asks_after(100);
	answer(STORED, TIME_UNKNOWN, -1);
	assert_calls("trust start:499");
	pass(PLAN_BEYOND_END_MS); /* it is another time when it ends below again */
	event(SOURCE_DOUBT, -1);
	assert_calls("stop");
	assert_asks_after(200);
	answer(STORED - 1, TIME_UNKNOWN, -1);
	assert_asks_after(400);
	answer(STORED, TIME_UNKNOWN, -1);
	assert_calls("trust start:499");
	record(499);
	assert_found(STORED, STORED);
}

static void start_rebuilds_when_what_is_gone_may_have_counted(void **state)
{
	(void)state;
	begin(50, 49, -1);
	answer(LOG_END, TIME_FOUND, LOG_START);
	assert_calls("stop ask");
	assert_string_equal(bench.warned, "start.gap");
	assert_rebuild(REBUILD_GAP);
}

static void start_goes_on_behind_a_gap_when_the_store_was_never_ready(void **state)
{
	struct start_store store = {.next_offset = 50,
		.print = print_at(49),
		.anchor = print_at(-1),
		.never_ready = true};

	(void)state;
	start_begin(&bench.start, &store, NOW_MS);
	answer(LOG_END, TIME_FOUND, LOG_START);
	assert_calls("stop ask trust start:100");
	assert_found(LOG_START, LOG_END);
}

/* --- when the check cannot be made ----------------------------------------------------------- */

static void start_asks_again_when_the_record_is_not_to_be_had(void **state)
{
	for (int i = 0; i < 2 * TROUBLES; i++) {
		each_setup(state);
		if (i % 2)
			begin_check();
		else
			begin_check_of_print();
		event(troubles[i / 2], -1);
		assert_calls("stop");
		assert_asks_after(100);
		answer(LOG_END, TIME_UNKNOWN, -1);
		assert_calls("trust start:400"); /* both, from the first */
		assert_state(START_CHECK);
		event(troubles[i / 2], -1);
		assert_calls("stop");
		assert_asks_after(200);
	}
}

static void start_asks_again_when_the_record_is_damaged(void **state)
{
	(void)state;
	begin_check();
	event(SOURCE_BAD, -1);
	assert_string_equal(bench.warned, "start.unread");
	assert_calls("stop");
	assert_asks_after(100);
	answer(LOG_END, TIME_UNKNOWN, -1);
	record(400);
	assert_calls("trust start:400 start:499");
	event(SOURCE_BAD, -1);
	assert_string_equal(bench.warned, "start.unread");
	assert_calls("stop");
	assert_asks_after(200);
}

static void start_asks_again_when_the_record_does_not_arrive(void **state)
{
	(void)state;
	begin_check();
	pass(STALL_MS - 1);
	event(SOURCE_ERROR, -1); /* the library tries again */
	assert_calls("");
	record(400);
	assert_calls("start:499"); /* which has its own time */
	pass(STALL_MS - 1);
	assert_calls("");
	assert_state(START_CHECK);
	assert_string_equal(bench.warned, "");
	pass(1);
	assert_string_equal(bench.warned, "start.unread");
	assert_calls("stop ask");
	assert_state(START_ASKING);
	answer(LOG_END, TIME_UNKNOWN, -1);
	assert_calls("trust start:400");
}

static void start_takes_no_record_when_it_reads_nothing(void **state)
{
	(void)state;
	begin_check();
	event(SOURCE_DOUBT, -1);
	assert_calls("stop");
	other_record(400, VALUE); /* waiting */
	assert_asks_after(100);
	other_record(400, VALUE); /* asking */
	assert_state(START_ASKING);
	answer(LOG_END, TIME_UNKNOWN, -1);
	record(400);
	record(499);
	assert_calls("trust start:400 start:499");
	other_record(500, VALUE); /* found: it is for another to read */
	assert_calls("");
	assert_found(STORED, LOG_END);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(start_reads_on_after_the_fingerprint_when_both_records_are_there),
		TEST(start_reads_one_record_when_the_anchor_is_the_fingerprint),
		TEST(start_reads_one_record_when_the_anchor_is_gone_from_the_log),
		TEST(start_compares_nothing_when_the_fingerprint_is_gone_from_the_log),
		TEST(start_skips_what_is_too_old_when_the_record_is_the_same),
		TEST(start_tells_only_who_debugs_when_it_was_only_a_look),
		TEST(start_rebuilds_when_the_anchor_is_another_record),
		TEST(start_rebuilds_when_the_fingerprint_is_another_record),
		TEST(start_rebuilds_when_the_log_goes_on_without_the_record),
		TEST(start_asks_for_ten_seconds_when_the_log_ends_below_the_store),
		TEST(start_goes_on_when_the_log_is_as_long_again),
		TEST(start_rebuilds_when_what_is_gone_may_have_counted),
		TEST(start_goes_on_behind_a_gap_when_the_store_was_never_ready),
		TEST(start_asks_again_when_the_record_is_not_to_be_had),
		TEST(start_asks_again_when_the_record_is_damaged),
		TEST(start_asks_again_when_the_record_does_not_arrive),
		TEST(start_takes_no_record_when_it_reads_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
