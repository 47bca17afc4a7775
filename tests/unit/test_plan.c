/*
 * test_plan.c - every row of the table "where replay starts and ends".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/plan.h"

#define TIMEOUT_MS 30000

/* A log [100, 1000), nothing asked about time, a new store. */
static struct plan_facts log_known(void)
{
	return (struct plan_facts){
		.end = 1000,
		.start = 100,
		.stored = -1,
		.print_offset = -1,
		.offsets_timeout_ms = TIMEOUT_MS,
	};
}

/* The same, and a store that has read up to `stored`. */
static struct plan_facts resuming(int64_t stored)
{
	struct plan_facts facts = log_known();

	facts.stored = stored;
	facts.print_offset = stored - 1;
	return facts;
}

static struct plan plan_of(const struct plan_facts *facts)
{
	struct plan plan;

	plan_next(facts, &plan);
	return plan;
}

static void assert_reads(const struct plan_facts *facts, int64_t from, int64_t check, int64_t gap)
{
	struct plan plan = plan_of(facts);

	assert_int_equal(plan.action, PLAN_READ);
	assert_int_equal(plan.from, from);
	assert_int_equal(plan.check, check);
	assert_int_equal(plan.gap, gap);
	assert_int_equal(plan.target, facts->end);
}

static void assert_action(const struct plan_facts *facts, enum plan_action action)
{
	assert_int_equal(plan_of(facts).action, action);
}

static void assert_rebuilds(const struct plan_facts *facts, enum rebuild_reason reason)
{
	struct plan plan = plan_of(facts);

	assert_int_equal(plan.action, PLAN_REBUILD);
	assert_int_equal(plan.reason, reason);
}

/* --- the log ------------------------------------------------------------------------------- */

static void plan_asks_without_alarm_when_nothing_is_known_yet(void **state)
{
	struct plan_facts facts = log_known();
	struct plan plan;

	(void)state;
	facts.end = facts.start = -1;
	plan = plan_of(&facts);
	assert_int_equal(plan.action, PLAN_ASK);
	assert_false(plan.degraded);
	assert_false(plan.ready_now);
}

static void plan_is_degraded_and_asks_for_ever_when_the_end_cannot_be_had(void **state)
{
	struct plan_facts facts = log_known();
	struct plan plan;

	(void)state;
	facts.end = -1;
	facts.failures = 1;
	facts.waited_ms = 1000 * TIMEOUT_MS;
	plan = plan_of(&facts);
	assert_int_equal(plan.action, PLAN_ASK);
	assert_true(plan.degraded);
	assert_false(plan.ready_now);
}

static void plan_is_degraded_when_the_start_cannot_be_had(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.start = -1;
	facts.failures = 1;
	assert_action(&facts, PLAN_ASK);
	assert_true(plan_of(&facts).degraded);
}

static void plan_says_ready_early_only_after_the_timeout_when_told_so(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.end = facts.start = -1;
	facts.failures = 3;
	facts.ready_on_failure = true;
	facts.waited_ms = TIMEOUT_MS - 1;
	assert_false(plan_of(&facts).ready_now);
	facts.waited_ms = TIMEOUT_MS;
	assert_true(plan_of(&facts).ready_now);
	assert_action(&facts, PLAN_ASK);
	facts.end = 1000;
	facts.start = 100;
	assert_false(plan_of(&facts).ready_now);
}

static void plan_reads_from_the_end_when_the_log_is_empty(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.start = facts.end = 1000000;
	assert_reads(&facts, 1000000, -1, 0);
	facts.start = facts.end = 0;
	assert_reads(&facts, 0, -1, 0);
}

/* --- a new store --------------------------------------------------------------------------- */

static void plan_starts_at_the_first_young_record_when_the_broker_knows_it(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.time = TIME_FOUND;
	facts.time_offset = 640;
	assert_reads(&facts, 640, -1, 0);
}

static void plan_keeps_an_answer_within_the_log_when_it_is_outside(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.time = TIME_FOUND;
	facts.time_offset = 7;
	assert_reads(&facts, 100, -1, 0);
	facts.time_offset = 1003; /* it arrived after the end was asked */
	assert_reads(&facts, 1000, -1, 0);
}

static void plan_reads_the_tail_when_the_broker_knows_no_young_record(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.time = TIME_NONE;
	assert_action(&facts, PLAN_TAIL);
}

static void plan_starts_at_the_log_start_when_the_tail_is_young(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.time = TIME_NONE;
	facts.tail = TAIL_YOUNG;
	assert_reads(&facts, 100, -1, 0);
}

static void plan_starts_at_the_end_when_the_tail_is_old(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.time = TIME_NONE;
	facts.tail = TAIL_OLD;
	assert_reads(&facts, 1000, -1, 0);
}

static void plan_starts_at_the_log_start_when_the_tail_cannot_be_read(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.time = TIME_NONE;
	facts.tail = TAIL_FAILED;
	assert_reads(&facts, 100, -1, 0);
}

static void plan_gives_up_on_time_and_starts_at_the_log_start_after_the_timeout(void **state)
{
	struct plan_facts facts = log_known();

	(void)state;
	facts.failures = 5;
	facts.waited_ms = TIMEOUT_MS - 1;
	assert_action(&facts, PLAN_ASK);
	assert_false(plan_of(&facts).degraded);
	facts.waited_ms = TIMEOUT_MS;
	assert_reads(&facts, 100, -1, 0);
}

/* --- a store to resume --------------------------------------------------------------------- */

static void plan_goes_on_at_the_stored_offset_and_checks_the_record_before_it(void **state)
{
	struct plan_facts facts = resuming(700);

	(void)state;
	facts.time = TIME_FOUND;
	facts.time_offset = 300;
	assert_reads(&facts, 700, 699, 0);
}

static void plan_checks_even_when_nothing_is_left_to_read(void **state)
{
	struct plan_facts facts = resuming(1000);

	(void)state;
	facts.time = TIME_NONE;
	assert_reads(&facts, 1000, 999, 0);
}

static void plan_skips_what_is_too_old_when_time_lies_above_the_stored_offset(void **state)
{
	struct plan_facts facts = resuming(700);

	(void)state;
	facts.time = TIME_FOUND;
	facts.time_offset = 800;
	assert_reads(&facts, 800, 699, 0);
	facts.time_offset = 2000;
	assert_reads(&facts, 1000, 699, 0);
}

static void plan_does_not_wait_for_time_when_there_is_a_stored_offset(void **state)
{
	struct plan_facts facts = resuming(700);

	(void)state;
	assert_reads(&facts, 700, 699, 0);
	facts.time = TIME_NONE;
	assert_reads(&facts, 700, 699, 0);
}

static void plan_checks_an_older_record_first_when_there_is_one(void **state)
{
	struct plan_facts facts = resuming(700);

	(void)state;
	facts.anchor_offset = 500;
	assert_int_equal(plan_of(&facts).anchor, 500);
	assert_int_equal(plan_of(&facts).check, 699);
	facts.anchor_offset = 99; /* below the log's start */
	assert_int_equal(plan_of(&facts).anchor, -1);
	facts.anchor_offset = 699; /* the same */
	assert_int_equal(plan_of(&facts).anchor, -1);
	facts.anchor_offset = -1;
	assert_int_equal(plan_of(&facts).anchor, -1);
}

static void plan_checks_nothing_when_the_record_is_below_the_log_start(void **state)
{
	struct plan_facts facts = resuming(100);

	(void)state;
	assert_reads(&facts, 100, -1, 0);
}

static void plan_looks_through_the_log_again_when_no_record_was_ever_delivered(void **state)
{
	struct plan_facts facts = resuming(700);

	(void)state;
	facts.print_offset = -1;
	assert_action(&facts, PLAN_ASK);
	facts.time = TIME_FOUND;
	facts.time_offset = 300;
	assert_reads(&facts, 300, -1, 0);
	facts.time = TIME_NONE;
	assert_action(&facts, PLAN_TAIL);
	facts.tail = TAIL_OLD;
	assert_reads(&facts, 1000, -1, 0);
}

static void plan_asks_again_for_ten_seconds_then_rebuilds_when_the_log_ends_below(void **state)
{
	struct plan_facts facts = resuming(1001);

	(void)state;
	assert_action(&facts, PLAN_ASK);
	facts.beyond_ms = PLAN_BEYOND_END_MS - 1;
	assert_action(&facts, PLAN_ASK);
	facts.beyond_ms = PLAN_BEYOND_END_MS;
	assert_rebuilds(&facts, REBUILD_BEYOND_END);
}

/* --- a gap --------------------------------------------------------------------------------- */

static void plan_rebuilds_when_young_records_are_gone(void **state)
{
	struct plan_facts facts = resuming(40);

	(void)state;
	facts.time = TIME_FOUND;
	facts.time_offset = 100; /* the very first record is young: so may be those before it */
	assert_rebuilds(&facts, REBUILD_GAP);
	facts.time_offset = 20;
	assert_rebuilds(&facts, REBUILD_GAP);
}

static void plan_passes_a_gap_when_the_records_behind_it_are_old_too(void **state)
{
	struct plan_facts facts = resuming(40);

	(void)state;
	facts.time = TIME_FOUND;
	facts.time_offset = 101;
	assert_reads(&facts, 101, -1, 60);
}

static void plan_reads_the_tail_before_it_judges_a_gap(void **state)
{
	struct plan_facts facts = resuming(40);

	(void)state;
	facts.time = TIME_NONE;
	assert_action(&facts, PLAN_TAIL);
	facts.tail = TAIL_OLD;
	assert_reads(&facts, 1000, -1, 60);
	facts.tail = TAIL_YOUNG;
	assert_rebuilds(&facts, REBUILD_GAP);
	facts.tail = TAIL_FAILED;
	assert_rebuilds(&facts, REBUILD_GAP);
}

static void plan_waits_for_time_before_it_rebuilds_for_a_gap(void **state)
{
	struct plan_facts facts = resuming(40);

	(void)state;
	assert_action(&facts, PLAN_ASK);
	facts.waited_ms = TIMEOUT_MS;
	assert_rebuilds(&facts, REBUILD_GAP);
}

static void plan_rebuilds_for_a_gap_when_the_log_is_empty(void **state)
{
	struct plan_facts facts = resuming(40);

	(void)state;
	facts.start = facts.end = 1000;
	facts.time = TIME_NONE;
	assert_rebuilds(&facts, REBUILD_GAP);
}

static void plan_goes_on_behind_a_gap_when_the_store_was_never_ready(void **state)
{
	struct plan_facts facts = resuming(40);

	(void)state;
	facts.never_ready = true;
	facts.time = TIME_FOUND;
	facts.time_offset = 100;
	assert_reads(&facts, 100, -1, 60);
	facts.start = facts.end;
	assert_reads(&facts, 1000, -1, 960);
}

/* --- done ---------------------------------------------------------------------------------- */

static void plan_is_done_when_any_of_the_three_has_come(void **state)
{
	(void)state;
	assert_false(plan_done(1000, 999, -1, -1));
	assert_true(plan_done(1000, 1000, -1, -1));   /* it starts there */
	assert_true(plan_done(1000, 500, 1000, 499)); /* markers or holes up to the end */
	assert_false(plan_done(1000, 500, 999, 499));
	assert_true(plan_done(1000, 500, -1, 999)); /* no event of the end on a busy partition */
	assert_false(plan_done(1000, 500, -1, 998));
	assert_true(plan_done(0, 0, -1, -1));
}

static void plan_since_is_window_and_margin_before_now_and_never_negative(void **state)
{
	(void)state;
	assert_int_equal(plan_since_ms(100000000, 120, 60), 100000000 - 7200000 - 60000);
	assert_int_equal(plan_since_ms(1000, 120, 60), 0);
}

static void plan_tail_doubles_until_the_log_start(void **state)
{
	(void)state;
	assert_int_equal(plan_tail_from(0, 10000, 0), 10000 - PLAN_TAIL_OFFSETS);
	assert_int_equal(plan_tail_from(0, 10000, 1), 10000 - 2 * PLAN_TAIL_OFFSETS);
	assert_int_equal(plan_tail_from(9990, 10000, 0), 9990);
	assert_int_equal(plan_tail_from(0, 10000, 4), 0);
	assert_int_equal(plan_tail_from(5, INT64_MAX, 63), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plan_asks_without_alarm_when_nothing_is_known_yet),
		cmocka_unit_test(plan_is_degraded_and_asks_for_ever_when_the_end_cannot_be_had),
		cmocka_unit_test(plan_is_degraded_when_the_start_cannot_be_had),
		cmocka_unit_test(plan_says_ready_early_only_after_the_timeout_when_told_so),
		cmocka_unit_test(plan_reads_from_the_end_when_the_log_is_empty),
		cmocka_unit_test(plan_starts_at_the_first_young_record_when_the_broker_knows_it),
		cmocka_unit_test(plan_keeps_an_answer_within_the_log_when_it_is_outside),
		cmocka_unit_test(plan_reads_the_tail_when_the_broker_knows_no_young_record),
		cmocka_unit_test(plan_starts_at_the_log_start_when_the_tail_is_young),
		cmocka_unit_test(plan_starts_at_the_end_when_the_tail_is_old),
		cmocka_unit_test(plan_starts_at_the_log_start_when_the_tail_cannot_be_read),
		cmocka_unit_test(
			plan_gives_up_on_time_and_starts_at_the_log_start_after_the_timeout),
		cmocka_unit_test(plan_goes_on_at_the_stored_offset_and_checks_the_record_before_it),
		cmocka_unit_test(plan_checks_even_when_nothing_is_left_to_read),
		cmocka_unit_test(plan_skips_what_is_too_old_when_time_lies_above_the_stored_offset),
		cmocka_unit_test(plan_does_not_wait_for_time_when_there_is_a_stored_offset),
		cmocka_unit_test(plan_checks_an_older_record_first_when_there_is_one),
		cmocka_unit_test(plan_checks_nothing_when_the_record_is_below_the_log_start),
		cmocka_unit_test(
			plan_looks_through_the_log_again_when_no_record_was_ever_delivered),
		cmocka_unit_test(
			plan_asks_again_for_ten_seconds_then_rebuilds_when_the_log_ends_below),
		cmocka_unit_test(plan_rebuilds_when_young_records_are_gone),
		cmocka_unit_test(plan_passes_a_gap_when_the_records_behind_it_are_old_too),
		cmocka_unit_test(plan_reads_the_tail_before_it_judges_a_gap),
		cmocka_unit_test(plan_waits_for_time_before_it_rebuilds_for_a_gap),
		cmocka_unit_test(plan_rebuilds_for_a_gap_when_the_log_is_empty),
		cmocka_unit_test(plan_goes_on_behind_a_gap_when_the_store_was_never_ready),
		cmocka_unit_test(plan_is_done_when_any_of_the_three_has_come),
		cmocka_unit_test(plan_since_is_window_and_margin_before_now_and_never_negative),
		cmocka_unit_test(plan_tail_doubles_until_the_log_start),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
