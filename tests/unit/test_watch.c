/*
 * test_watch.c - when reading has stopped without an error, and when the log has shrunk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/plan.h"
#include "worker/watch.h"

#define MS	 UINT64_C(1000000)
#define STALL_MS 30000

static void watch_is_fine_when_the_position_moves(void **state)
{
	struct watch watch;

	(void)state;
	watch_start(&watch, 100, 1);
	for (int i = 1; i < 100; i++) {
		uint64_t now = 10000 * MS * (uint64_t)i;

		watch_progress(&watch, 100 + i, false, now);
		assert_int_equal(watch_end(&watch, 5000, 100 + i, STALL_MS, now), WATCH_FINE);
	}
}

static void watch_is_fine_for_ever_when_the_log_has_no_more(void **state)
{
	struct watch watch;

	(void)state;
	watch_start(&watch, 100, 1);
	for (int i = 1; i < 100; i++)
		assert_int_equal(watch_end(&watch, 100, 100, STALL_MS, 10000 * MS * (uint64_t)i),
			WATCH_FINE);
}

static void watch_cures_twice_then_gives_up_when_nothing_arrives(void **state)
{
	struct watch watch;

	(void)state;
	watch_start(&watch, 100, 0);
	assert_int_equal(watch_end(&watch, 101, 100, STALL_MS, 29999 * MS), WATCH_FINE);
	assert_int_equal(watch_end(&watch, 101, 100, STALL_MS, 30000 * MS), WATCH_CURE);
	assert_int_equal(watch_end(&watch, 101, 100, STALL_MS, 59999 * MS), WATCH_FINE);
	assert_int_equal(watch_end(&watch, 101, 100, STALL_MS, 60000 * MS), WATCH_CURE);
	assert_int_equal(watch_end(&watch, 101, 100, STALL_MS, 90000 * MS), WATCH_GIVE_UP);
}

static void watch_forgets_its_cures_when_the_position_has_moved(void **state)
{
	struct watch watch;

	(void)state;
	watch_start(&watch, 100, 0);
	assert_int_equal(watch_end(&watch, 200, 100, STALL_MS, 30000 * MS), WATCH_CURE);
	assert_int_equal(watch_end(&watch, 200, 100, STALL_MS, 60000 * MS), WATCH_CURE);
	watch_progress(&watch, 101, false, 61000 * MS);
	assert_int_equal(watch_end(&watch, 200, 101, STALL_MS, 91000 * MS), WATCH_CURE);
}

static void watch_is_fine_when_reading_is_held_on_purpose(void **state)
{
	struct watch watch;

	(void)state;
	watch_start(&watch, 100, 0);
	watch_progress(&watch, 100, true, 50000 * MS);
	assert_int_equal(watch_end(&watch, 200, 100, STALL_MS, 60000 * MS), WATCH_FINE);
}

static void watch_believes_a_shrunken_log_only_after_ten_seconds(void **state)
{
	struct watch watch;

	(void)state;
	watch_start(&watch, 100, 0);
	assert_int_equal(watch_end(&watch, 90, 100, STALL_MS, 5000 * MS), WATCH_FINE);
	assert_int_equal(watch_end(&watch, 90, 100, STALL_MS, 14999 * MS), WATCH_FINE);
	assert_int_equal(watch_end(&watch, 90, 100, STALL_MS, 15000 * MS), WATCH_BEYOND_END);
}

static void watch_forgets_a_shrunken_log_when_it_is_whole_again(void **state)
{
	struct watch watch;

	(void)state;
	watch_start(&watch, 100, 0);
	assert_int_equal(watch_end(&watch, 90, 100, STALL_MS, 5000 * MS), WATCH_FINE);
	assert_int_equal(watch_end(&watch, 100, 100, STALL_MS, 10000 * MS), WATCH_FINE);
	assert_int_equal(watch_end(&watch, 90, 100, STALL_MS, 15000 * MS), WATCH_FINE);
	assert_int_equal(watch_end(&watch, 90, 100, STALL_MS, 24000 * MS), WATCH_FINE);
}

static void watch_compares_with_the_position_at_the_time_of_the_question(void **state)
{
	struct watch watch;

	(void)state;
	watch_start(&watch, 100, 0);
	watch_progress(&watch, 180, false, 5000 * MS); /* read on while the answer was under way */
	assert_int_equal(watch_end(&watch, 120, 100, STALL_MS, 5000 * MS), WATCH_FINE);
	watch_progress(&watch, 300, false, 20000 * MS);
	assert_int_equal(watch_end(&watch, 200, 180, STALL_MS, 20000 * MS), WATCH_FINE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(watch_is_fine_when_the_position_moves),
		cmocka_unit_test(watch_is_fine_for_ever_when_the_log_has_no_more),
		cmocka_unit_test(watch_cures_twice_then_gives_up_when_nothing_arrives),
		cmocka_unit_test(watch_forgets_its_cures_when_the_position_has_moved),
		cmocka_unit_test(watch_is_fine_when_reading_is_held_on_purpose),
		cmocka_unit_test(watch_believes_a_shrunken_log_only_after_ten_seconds),
		cmocka_unit_test(watch_forgets_a_shrunken_log_when_it_is_whole_again),
		cmocka_unit_test(watch_compares_with_the_position_at_the_time_of_the_question),
	};

	return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
