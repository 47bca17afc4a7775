/*
 * test_window.c - the window's arithmetic against a list that remembers everything.
 *
 * Random schedules are drawn from a seed, printed when a test fails to hold;
 * TALLY_SEED repeats one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/host.h"
#include "shm/window.h"

#define BASE_MINUTE 28000000u
#define EVENTS	    3000
#define WINDOW_MAX  130

static uint64_t seed, state_now;

static uint32_t draw(uint32_t below)
{
	uint64_t z = state_now += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ (z >> 31)) % below);
}

static int setup(void **state)
{
	const char *text = getenv("TALLY_SEED");

	(void)state;
	seed = text ? strtoull(text, NULL, 0) : host_random();
	state_now = seed;
	print_message("TALLY_SEED=%llu\n", (unsigned long long)seed);
	return 0;
}

/* --- the rule -------------------------------------------------------------------------------- */

static void window_is_active_up_to_both_edges(void **state)
{
	(void)state;
	assert_true(window_active(1000, 1000, 120));
	assert_true(window_active(1000, 880, 120));
	assert_false(window_active(1000, 879, 120));
	assert_true(window_active(1000, 1001, 120));
	assert_true(window_active(5, 0, 120));
	assert_true(window_active(0, UINT32_MAX, 1));
	assert_false(window_active(UINT32_MAX, 0, 10080));
}

static void window_clamp_cuts_the_future_and_refuses_the_past(void **state)
{
	int64_t now = (int64_t)BASE_MINUTE * 60000 + 30500;
	uint32_t s;

	(void)state;
	assert_true(window_clamp(now + 5000000, now, 10, &s));
	assert_int_equal(s, now / 1000);
	assert_true(window_clamp(now - 700, now, 10, &s));
	assert_int_equal(s, (now - 700) / 1000);
	/* The whole oldest minute is in, the millisecond before it is not. */
	assert_true(window_clamp((int64_t)(BASE_MINUTE - 10) * 60000, now, 10, &s));
	assert_false(window_clamp((int64_t)(BASE_MINUTE - 10) * 60000 - 1, now, 10, &s));
	assert_false(window_clamp(-1, now, 10, &s));
	assert_false(window_clamp(INT64_MIN, now, 10, &s));
	assert_false(window_clamp(0, now, 10, &s));
	assert_true(window_clamp(INT64_MAX, now, 10, &s));
	assert_int_equal(s, now / 1000);
}

/* --- rows ------------------------------------------------------------------------------------ */

struct event {
	uint32_t minute;
	int streams; /* +1, -1 or 0 */
	uint64_t bytes;
};

static struct event events[EVENTS];

/* Sums of all events of the minutes that both the row and the asker still see. */
static void naive(
	size_t n, uint32_t base, uint32_t now, uint32_t window, uint64_t *streams, uint64_t *bytes)
{
	*streams = *bytes = 0;
	for (size_t i = 0; i < n; i++) {
		if (base > window && events[i].minute < base - window)
			continue;
		if (!window_active(now, events[i].minute, window))
			continue;
		*streams += (uint64_t)events[i].streams;
		*bytes += events[i].bytes;
	}
}

static void check_sums(const struct window_row *row, size_t n, uint32_t base, uint32_t window)
{
	for (uint32_t ahead = 0; ahead < window + 3; ahead++) {
		uint64_t streams, bytes;

		naive(n, base, base + ahead, window, &streams, &bytes);
		assert_int_equal(window_row_streams(row, base + ahead), streams);
		assert_int_equal(window_row_bytes(row, base + ahead), bytes);
	}
	/* Asked for a moment before its newest minute: what is newer counts as active. */
	for (uint32_t back = 1; back < window + 3; back++) {
		uint64_t streams, bytes;

		naive(n, base, base - back, window, &streams, &bytes);
		assert_int_equal(window_row_streams(row, base - back), streams);
	}
}

/*
 * Streams are added and later taken away at the minute they were added, as the
 * store does it; jumps forward of any size, minutes out of range included.
 */
static void window_row_agrees_with_a_list_of_all_events(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		uint32_t window = 1 + draw(WINDOW_MAX), now = BASE_MINUTE, base = 0, live = 0;
		uint32_t at[EVENTS];
		void *buf = calloc(1, window_row_size(window));
		struct window_row row;
		size_t n = 0, steps = 50 + draw(300);

		window_row_map(&row, buf, window);
		assert_int_equal(window_row_streams(&row, now), 0);
		for (size_t i = 0; i < steps && n < EVENTS; i++) {
			struct event *e = &events[n++];
			uint32_t back = draw(window + 5), picked;

			now += draw(8) == 0 ? draw(2 * window + 2) : draw(2);
			*e = (struct event){.minute = now - back};
			switch (draw(5)) {
			case 0:
				e->bytes = draw(1000000);
				window_row_add_bytes(&row, e->minute, e->bytes);
				break;
			case 1:
			case 2:
			case 3:
				e->streams = 1;
				window_row_add_stream(&row, e->minute);
				at[live++] = e->minute;
				break;
			default:
				if (live == 0) {
					n--;
					continue;
				}
				e->minute = at[picked = draw(live)];
				at[picked] = at[--live];
				e->streams = -1;
				window_row_remove_stream(&row, e->minute);
			}
			if (e->streams >= 0 && e->minute > base)
				base = e->minute;
			assert_int_equal(row.base, base);
			if (draw(20) == 0) { /* through the store and back */
				window_row_seal(&row, buf);
				window_row_map(&row, buf, window);
			}
		}
		check_sums(&row, n, base, window);
		free(buf);
	}
}

static void window_row_forgets_all_after_the_window(void **state)
{
	uint64_t buf[200] = {0};
	struct window_row row;

	(void)state;
	assert_true(window_row_size(120) <= sizeof(buf));
	window_row_map(&row, buf, 120);
	window_row_add_stream(&row, BASE_MINUTE);
	window_row_add_bytes(&row, BASE_MINUTE, 7);
	assert_int_equal(window_row_streams(&row, BASE_MINUTE + 120), 1);
	assert_int_equal(window_row_bytes(&row, BASE_MINUTE + 120), 7);
	assert_int_equal(window_row_streams(&row, BASE_MINUTE + 121), 0);
	assert_int_equal(window_row_bytes(&row, BASE_MINUTE + 121), 0);
	window_row_advance(&row, BASE_MINUTE + 121);
	assert_int_equal(row.count[BASE_MINUTE % 121], 0);
	window_row_advance(&row, BASE_MINUTE);
	assert_int_equal(row.base, BASE_MINUTE + 121);
}

static void window_row_saturates_and_never_goes_below_zero(void **state)
{
	uint64_t buf[64] = {0};
	struct window_row row;

	(void)state;
	window_row_map(&row, buf, 5);
	window_row_remove_stream(&row, BASE_MINUTE);
	window_row_add_bytes(&row, BASE_MINUTE, UINT64_MAX - 1);
	window_row_add_bytes(&row, BASE_MINUTE, 5);
	window_row_remove_stream(&row, BASE_MINUTE);
	window_row_remove_stream(&row, BASE_MINUTE + 1);
	assert_int_equal(window_row_streams(&row, BASE_MINUTE), 0);
	assert_true(window_row_bytes(&row, BASE_MINUTE) == UINT64_MAX);
	window_row_add_bytes(&row, BASE_MINUTE + 1, 5);
	assert_true(window_row_bytes(&row, BASE_MINUTE + 1) == UINT64_MAX);
	row.count[BASE_MINUTE % 6] = UINT32_MAX;
	window_row_add_stream(&row, BASE_MINUTE);
	assert_int_equal(row.count[BASE_MINUTE % 6], UINT32_MAX);
}

/* A row from a store that lies: sums stay in bounds (the sanitizer watches). */
static void window_row_stays_in_bounds_when_its_base_is_garbage(void **state)
{
	static const uint32_t bases[] = {0, 1, 4, 5, UINT32_MAX, UINT32_MAX - 1, 1u << 31};
	uint64_t buf[64];
	struct window_row row;

	(void)state;
	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		memset(buf, 0xff, sizeof(buf));
		memcpy(buf, &bases[i], sizeof(bases[i]));
		window_row_map(&row, buf, 5);
		window_row_streams(&row, BASE_MINUTE);
		window_row_bytes(&row, 0);
		window_row_streams(&row, UINT32_MAX);
		window_row_rate(&row, (int64_t)UINT32_MAX * 60000, 5);
		window_row_rate(&row, INT64_MAX, 99);
		window_row_rate(&row, -1, 0);
		window_row_add_stream(&row, UINT32_MAX);
		window_row_add_bytes(&row, UINT32_MAX, 1);
	}
}

/* --- rates ----------------------------------------------------------------------------------- */

static void window_rate_agrees_with_a_list_of_all_events(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		uint32_t bucket[RATE_MINUTES] = {0};
		uint32_t last = BASE_MINUTE, steps = 1 + draw(60);
		size_t n = 0;

		for (uint32_t i = 0; i < steps; i++) {
			uint32_t minute = last + draw(3) - draw(7);

			if (draw(10) == 0)
				minute = last + draw(12);
			events[n++] =
				(struct event){.minute = minute, .bytes = (uint64_t)draw(1u << 30)};
			window_rate_add(bucket, last, minute, events[n - 1].bytes);
			if (minute > last)
				last = minute;
		}
		for (uint32_t span = 1; span <= RATE_MINUTES; span++) {
			uint32_t now = last + draw(7), passed_ms = draw(60000);
			double sum = 0, seconds;
			uint64_t one;

			for (uint32_t m = now - span + 1; m <= now; m++) {
				one = 0;
				for (size_t i = 0; i < n; i++)
					if (events[i].minute == m && m + RATE_MINUTES > last)
						one += events[i].bytes;
				sum += one > UINT32_MAX ? UINT32_MAX : (double)one;
			}
			seconds = (span - 1) * 60.0 + (passed_ms < 1000 ? 1.0 : passed_ms / 1000.0);
			assert_float_equal(
				window_rate(bucket, last, (int64_t)now * 60000 + passed_ms, span),
				sum / seconds, sum / seconds * 1e-5);
		}
	}
}

static void window_rate_saturates_and_drops_what_is_too_old(void **state)
{
	uint32_t bucket[RATE_MINUTES] = {0};

	(void)state;
	window_rate_add(bucket, BASE_MINUTE, BASE_MINUTE, UINT64_MAX);
	assert_int_equal(bucket[BASE_MINUTE % 5], UINT32_MAX);
	window_rate_add(bucket, BASE_MINUTE, BASE_MINUTE, 1);
	assert_int_equal(bucket[BASE_MINUTE % 5], UINT32_MAX);
	window_rate_add(bucket, BASE_MINUTE, BASE_MINUTE - 5, 1);
	assert_int_equal(bucket[BASE_MINUTE % 5], UINT32_MAX);
	window_rate_add(bucket, BASE_MINUTE, BASE_MINUTE + 5, 3);
	assert_int_equal(bucket[BASE_MINUTE % 5], 3);
	window_rate_add(bucket, BASE_MINUTE + 5, BASE_MINUTE + 4, 2);
	assert_int_equal(bucket[(BASE_MINUTE + 4) % 5], 2);
	assert_float_equal(
		window_rate(bucket, BASE_MINUTE + 5, (int64_t)(BASE_MINUTE + 5) * 60000, 2),
		5.0 / 61, 1e-6);
	/* Garbage in the place of a minute and of the span. */
	window_rate(bucket, UINT32_MAX, 0, 0);
	window_rate(bucket, 0, INT64_MAX / 2, 99);
	window_rate_add(bucket, 0, UINT32_MAX, 1);
	window_rate_add(bucket, UINT32_MAX - 1, UINT32_MAX, 1);
}

/* The rate of a tenant is that of its row: the minutes of the rate window, both edges as above. */
static void window_row_rate_agrees_with_a_list_of_all_events(void **state)
{
	uint64_t buf[64];
	struct window_row row;

	(void)state;
	for (int round = 0; round < 300; round++) {
		uint32_t window = 1 + draw(12), last = BASE_MINUTE;
		size_t n = 0;

		memset(buf, 0, sizeof(buf));
		window_row_map(&row, buf, window);
		while (n < 40) {
			events[n] = (struct event){
				.minute = last + draw(4) - draw(4), .bytes = draw(1u << 30)};
			window_row_add_bytes(&row, events[n].minute, events[n].bytes);
			if (events[n++].minute > last)
				last = events[n - 1].minute;
		}
		for (uint32_t span = 1; span <= RATE_MINUTES; span++) {
			uint32_t now = last + draw(8) - draw(3), passed_ms = draw(60000);
			double sum = 0, seconds;

			for (size_t i = 0; i < n; i++)
				if (events[i].minute > now - span && events[i].minute <= now &&
					events[i].minute >= row.base - window)
					sum += (double)events[i].bytes;
			seconds = (span - 1) * 60.0 + (passed_ms < 1000 ? 1.0 : passed_ms / 1000.0);
			assert_float_equal(
				window_row_rate(&row, (int64_t)now * 60000 + passed_ms, span),
				sum / seconds, sum / seconds * 1e-5);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window_is_active_up_to_both_edges),
		cmocka_unit_test(window_clamp_cuts_the_future_and_refuses_the_past),
		cmocka_unit_test(window_row_agrees_with_a_list_of_all_events),
		cmocka_unit_test(window_row_forgets_all_after_the_window),
		cmocka_unit_test(window_row_saturates_and_never_goes_below_zero),
		cmocka_unit_test(window_row_stays_in_bounds_when_its_base_is_garbage),
		cmocka_unit_test(window_rate_agrees_with_a_list_of_all_events),
		cmocka_unit_test(window_rate_saturates_and_drops_what_is_too_old),
		cmocka_unit_test(window_row_rate_agrees_with_a_list_of_all_events),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
