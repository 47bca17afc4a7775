/*
 * test_clock.c - the counting clock under steps of wall time, in both directions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/clock.h"

#define S    INT64_C(1000)
#define MIN  (60 * S)
#define WALL (INT64_C(1700000000) * S)

/* Boot time is its own line: begin somewhere that is not 0. */
static uint64_t boot(int64_t ms)
{
	return (uint64_t)(5 * MIN + ms) * 1000000;
}

static void clock_follows_wall_time_when_nothing_steps(void **state)
{
	struct clock clock;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	for (int64_t t = 0; t < 3 * 60 * MIN; t += 7777) {
		assert_int_equal(clock_now(&clock, WALL + t, boot(t)), WALL + t);
		assert_false(clock_off(&clock));
	}
}

static void clock_follows_a_small_forward_step_at_once(void **state)
{
	struct clock clock;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	assert_int_equal(
		clock_now(&clock, WALL + S + CLOCK_STEP_MS, boot(S)), WALL + S + CLOCK_STEP_MS);
	assert_false(clock_off(&clock));
}

static void clock_follows_a_long_sleep_at_once_when_boot_time_counted_it(void **state)
{
	struct clock clock;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	assert_int_equal(clock_now(&clock, WALL + 600 * MIN, boot(600 * MIN)), WALL + 600 * MIN);
	assert_false(clock_off(&clock));
}

static void clock_runs_on_when_wall_time_leaps_ahead_and_comes_back(void **state)
{
	struct clock clock;
	const int64_t leap = 60 * MIN;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	for (int64_t t = S; t < 9 * MIN; t += S) {
		assert_int_equal(clock_now(&clock, WALL + t + leap, boot(t)), WALL + t);
		assert_true(clock_off(&clock));
		assert_false(clock_stuck(&clock, boot(t)));
	}
	assert_int_equal(clock_now(&clock, WALL + 9 * MIN, boot(9 * MIN)), WALL + 9 * MIN);
	assert_false(clock_off(&clock));
}

static void clock_follows_a_leap_ahead_when_it_has_lasted(void **state)
{
	struct clock clock;
	const int64_t leap = 60 * MIN;
	int64_t t;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	for (t = S; t < S + CLOCK_HOLD_MS; t += S)
		assert_int_equal(clock_now(&clock, WALL + t + leap, boot(t)), WALL + t);
	assert_false(clock_stuck(&clock, boot(t))); /* ahead can be followed */
	assert_int_equal(clock_now(&clock, WALL + t + leap, boot(t)), WALL + t + leap);
	assert_false(clock_off(&clock));
}

static void clock_holds_anew_when_a_held_leap_leaps_again(void **state)
{
	struct clock clock;
	const int64_t second = 9 * MIN;
	int64_t t;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	for (t = S; t < second; t += S)
		clock_now(&clock, WALL + t + 60 * MIN, boot(t));
	for (; t < second + CLOCK_HOLD_MS; t += S)
		assert_int_equal(clock_now(&clock, WALL + t + 6000 * MIN, boot(t)), WALL + t);
	assert_int_equal(clock_now(&clock, WALL + t + 6000 * MIN, boot(t)), WALL + t + 6000 * MIN);
}

/* Called far more often than once a millisecond, it must not lose the fractions. */
static void clock_keeps_boot_times_pace_when_called_often(void **state)
{
	struct clock clock;
	int64_t now = 0;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	clock_now(&clock, WALL + S + 60 * MIN, boot(S));
	for (uint64_t us = 0; us <= 2000000; us += 100)
		now = clock_now(
			&clock, WALL + S + 60 * MIN + (int64_t)(us / 1000), boot(S) + us * 1000);
	assert_int_equal(now, WALL + 3 * S);
}

static void clock_stands_still_when_wall_time_steps_back(void **state)
{
	struct clock clock;
	const int64_t back = 3 * MIN;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	for (int64_t t = S; t < back; t += S) {
		assert_int_equal(clock_now(&clock, WALL + t - back, boot(t)), WALL);
		assert_false(clock_off(&clock));
	}
	for (int64_t t = back; t < 2 * back; t += S)
		assert_int_equal(clock_now(&clock, WALL + t - back, boot(t)), WALL + t - back);
}

static void clock_is_stuck_when_wall_time_stays_far_behind(void **state)
{
	struct clock clock;
	const int64_t back = 24 * 60 * MIN;
	int64_t t;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	for (t = S; t < S + CLOCK_HOLD_MS; t += S) {
		assert_int_equal(clock_now(&clock, WALL + t - back, boot(t)), WALL);
		assert_true(clock_off(&clock));
		assert_false(clock_stuck(&clock, boot(t)));
	}
	clock_now(&clock, WALL + t - back, boot(t));
	assert_true(clock_stuck(&clock, boot(t)));
	/* Small corrections do not begin it again. */
	clock_now(&clock, WALL + t - back - MIN, boot(t + S));
	assert_true(clock_stuck(&clock, boot(t + S)));
}

static void clock_is_not_stuck_when_wall_time_catches_up(void **state)
{
	struct clock clock;
	const int64_t back = 12 * MIN;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	for (int64_t t = S; t < 2 * back; t += S) {
		clock_now(&clock, WALL + t - back, boot(t));
		assert_false(clock_stuck(&clock, boot(t)));
		assert_true(clock_off(&clock) == (back - t > CLOCK_STEP_MS));
	}
}

static void clock_starts_at_the_floor_when_the_store_is_ahead(void **state)
{
	struct clock clock;

	(void)state;
	clock_start(&clock, WALL + MIN, WALL, boot(0));
	assert_int_equal(clock_now(&clock, WALL + S, boot(S)), WALL + MIN);
	assert_false(clock_off(&clock));

	clock_start(&clock, WALL + 60 * MIN, WALL, boot(0));
	assert_true(clock_off(&clock));
	assert_false(clock_stuck(&clock, boot(CLOCK_HOLD_MS - 1)));
	assert_true(clock_stuck(&clock, boot(CLOCK_HOLD_MS)));
}

/* From back to ahead is another direction: neither hold counts for the other. */
static void clock_begins_anew_when_the_direction_changes(void **state)
{
	struct clock clock;

	(void)state;
	clock_start(&clock, 0, WALL, boot(0));
	clock_now(&clock, WALL - 60 * MIN, boot(S));
	assert_int_equal(
		clock_now(&clock, WALL + 600 * MIN, boot(S + CLOCK_HOLD_MS)), WALL + CLOCK_HOLD_MS);
	assert_false(clock_stuck(&clock, boot(S + CLOCK_HOLD_MS)));
	assert_true(clock_off(&clock));

	clock_start(&clock, 0, WALL, boot(0));
	clock_now(&clock, WALL + 600 * MIN, boot(S));
	clock_now(&clock, WALL - 600 * MIN, boot(S + CLOCK_HOLD_MS));
	assert_true(clock_off(&clock));
	assert_false(clock_stuck(&clock, boot(S + CLOCK_HOLD_MS)));
}

static void clock_never_runs_backwards_whatever_comes(void **state)
{
	uint64_t random = 88172645463325252u, boot_ns = boot(0);
	struct clock clock;
	int64_t wall = WALL, last = WALL;

	(void)state;
	clock_start(&clock, 0, WALL, boot_ns);
	for (int i = 0; i < 200000; i++) {
		int64_t now;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		boot_ns += random % 2000000000;
		wall += (int64_t)(random % 2000);
		if (random % 97 == 0)
			wall += (int64_t)(random >> 33 & 0x7fffff) - 0x3fffff;
		now = clock_now(&clock, wall, boot_ns);
		assert_true(now >= last);
		last = now;
	}
}

static void clock_survives_when_the_times_are_absurd(void **state)
{
	struct clock clock;

	(void)state;
	clock_start(&clock, INT64_MAX, INT64_MIN, UINT64_MAX);
	assert_int_equal(clock_now(&clock, INT64_MIN, 0), INT64_MAX);
	assert_int_equal(clock_now(&clock, INT64_MAX, UINT64_MAX), INT64_MAX);
	clock_start(&clock, INT64_MIN, INT64_MIN, 0);
	assert_true(clock_now(&clock, INT64_MAX, UINT64_MAX) > INT64_MIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clock_follows_wall_time_when_nothing_steps),
		cmocka_unit_test(clock_follows_a_small_forward_step_at_once),
		cmocka_unit_test(clock_follows_a_long_sleep_at_once_when_boot_time_counted_it),
		cmocka_unit_test(clock_runs_on_when_wall_time_leaps_ahead_and_comes_back),
		cmocka_unit_test(clock_follows_a_leap_ahead_when_it_has_lasted),
		cmocka_unit_test(clock_holds_anew_when_a_held_leap_leaps_again),
		cmocka_unit_test(clock_keeps_boot_times_pace_when_called_often),
		cmocka_unit_test(clock_stands_still_when_wall_time_steps_back),
		cmocka_unit_test(clock_is_stuck_when_wall_time_stays_far_behind),
		cmocka_unit_test(clock_is_not_stuck_when_wall_time_catches_up),
		cmocka_unit_test(clock_starts_at_the_floor_when_the_store_is_ahead),
		cmocka_unit_test(clock_begins_anew_when_the_direction_changes),
		cmocka_unit_test(clock_never_runs_backwards_whatever_comes),
		cmocka_unit_test(clock_survives_when_the_times_are_absurd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
