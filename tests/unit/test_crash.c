/*
 * test_crash.c - who is blamed for a worker's death: one poison record costs one record, and
 * nothing else costs any.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/crash.h"

#define LOG_END 2000
#define MAX	64

static const struct crash_limits limits = {100, 60000};
static uint64_t seed = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

enum kind { HEALTHY, DECODE, APPLY };

/* A partition with a log of LOG_END records, some of which kill its worker. */
struct world {
	struct crash crash;
	unsigned char kind[LOG_END];
	int64_t next; /* committed */
	int64_t quarantine[MAX];
	unsigned n_quarantine, deaths;
	uint32_t wait_ms;
};

static bool is_passed(const struct world *w, int64_t offset)
{
	for (unsigned i = 0; i < w->n_quarantine; i++)
		if (w->quarantine[i] == offset)
			return true;
	return false;
}

static enum crash_verdict die(struct world *w, int sig, int64_t in_hand)
{
	struct crash_death death = {
		.signal = sig, .stored = (uint64_t)w->next + 1, .in_hand = (uint64_t)in_hand + 1};
	int64_t offset = -1;
	enum crash_verdict verdict = crash_judge(&w->crash, &death, &limits, &w->wait_ms, &offset);
	w->deaths++;
	if (verdict == CRASH_QUARANTINE) {
		assert_true(w->n_quarantine < MAX);
		w->quarantine[w->n_quarantine++] = offset;
	}
	return verdict;
}

/* One life of the worker: batches until the end of the log, its death, or `lives` batches. */
static void live(struct world *w, int batches, int kill_percent)
{
	unsigned one_by_one = w->crash.one_by_one; /* told at its start */
	while (w->next < LOG_END && batches--) {
		int64_t n = one_by_one ? 1 : 1 + (int64_t)random_below(200);
		int64_t end = w->next + n < LOG_END ? w->next + n : LOG_END;
		bool bad_commit = false;
		for (int64_t o = w->next; o < end; o++) {
			if (is_passed(w, o))
				continue;
			if ((int)random_below(10000) < kill_percent) {
				die(w, SIGKILL, o);
				return;
			}
			if (w->kind[o] == DECODE) {
				die(w, SIGSEGV, o);
				return;
			}
			bad_commit |= w->kind[o] == APPLY;
		}
		if (bad_commit) {
			die(w, SIGABRT, end - 1);
			return;
		}
		w->next = end;
		if (random_below(3) == 0) /* the supervisor looks once a second */
			crash_progress(&w->crash, (uint64_t)w->next + 1);
	}
}

/* Until the log is read; every quarantined offset must be one that kills. */
static void run(struct world *w, int kill_percent)
{
	for (int lives = 0; w->next < LOG_END; lives++) {
		assert_true(lives < 5000);
		live(w, -1, kill_percent);
	}
	for (unsigned i = 0; i < w->n_quarantine; i++)
		assert_true(w->kind[w->quarantine[i]] != HEALTHY);
}

static void crash_waits_twice_as_long_each_time_up_to_the_limit(void **state)
{
	struct crash crash = {0};
	struct crash_death death = {.signal = SIGKILL, .stored = 5};
	uint32_t wait;
	int64_t offset;
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
		assert_int_equal(wait, i < 10 ? 100u << i : 60000);
	}
	/* An exit code is a death like any other. */
	death = (struct crash_death){.stored = 5};
	crash_judge(&crash, &death, &limits, &wait, &offset);
	assert_int_equal(wait, 60000);
}

static void crash_waits_from_the_start_again_when_the_offset_has_advanced(void **state)
{
	struct crash crash = {0};
	struct crash_death death = {.signal = SIGKILL, .stored = 5};
	uint32_t wait;
	int64_t offset;
	(void)state;
	for (unsigned i = 0; i < 8; i++)
		crash_judge(&crash, &death, &limits, &wait, &offset);
	death.stored = 6;
	crash_judge(&crash, &death, &limits, &wait, &offset);
	assert_int_equal(wait, 100);
	crash_judge(&crash, &death, &limits, &wait, &offset);
	assert_int_equal(wait, 200);
}

static void crash_waits_never_more_than_the_limit_when_limits_are_odd(void **state)
{
	static const struct crash_limits odd[] = {{5, 5}, {0, 0}, {0, 100}, {3, 10},
		{UINT32_MAX, UINT32_MAX}, {UINT32_MAX - 1, UINT32_MAX}};
	uint32_t wait;
	int64_t offset;
	(void)state;
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		struct crash crash = {0};
		struct crash_death death = {.signal = SIGKILL, .stored = 5};
		uint32_t last = 0;
		for (unsigned n = 0; n < 100; n++) {
			crash_judge(&crash, &death, &odd[i], &wait, &offset);
			assert_true(wait <= odd[i].max_ms && wait >= odd[i].min_ms);
			assert_true(wait >= last);
			last = wait;
		}
	}
}

static void crash_quarantines_at_the_third_death_when_decoding_kills(void **state)
{
	struct world w = {.next = 100};
	(void)state;
	assert_int_equal(die(&w, SIGSEGV, 150), CRASH_RETRY);
	assert_false(w.crash.one_by_one);
	assert_int_equal(die(&w, SIGSEGV, 150), CRASH_RETRY);
	assert_true(w.crash.one_by_one);
	w.next = 150; /* one by one it gets right up to it */
	assert_int_equal(die(&w, SIGSEGV, 150), CRASH_QUARANTINE);
	assert_int_equal(w.n_quarantine, 1);
	assert_int_equal(w.quarantine[0], 150);
	assert_true(w.crash.one_by_one);
	crash_progress(&w.crash, 151); /* next to read is 150: not past it */
	assert_true(w.crash.one_by_one);
	crash_progress(&w.crash, 152);
	assert_false(w.crash.one_by_one);
}

static void crash_counts_only_the_signals_that_a_record_can_cause(void **state)
{
	static const int counted[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
	static const int others[] = {0, SIGKILL, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU};
	(void)state;
	for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
		struct world w = {.next = 3};
		die(&w, counted[i], 3);
		die(&w, counted[(i + 1) % 6], 3);
		assert_int_equal(die(&w, counted[i], 3), CRASH_QUARANTINE);
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct world w = {.next = 3};
		for (int n = 0; n < 20; n++)
			assert_int_equal(die(&w, others[i], 3), CRASH_RETRY);
		assert_false(w.crash.one_by_one);
	}
}

static void crash_isolates_one_offset_when_applying_kills(void **state)
{
	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct world w = {.next = (int64_t)random_below(50)};
		int64_t bad = w.next + (int64_t)random_below((uint64_t)(LOG_END - w.next));
		w.kind[bad] = APPLY;
		run(&w, 0);
		assert_int_equal(w.n_quarantine, 1);
		assert_int_equal(w.quarantine[0], bad);
		assert_true(w.deaths <= 5);
	}
}

static void crash_isolates_one_offset_when_decoding_kills(void **state)
{
	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct world w = {.next = 0};
		int64_t bad = (int64_t)random_below(LOG_END);
		w.kind[bad] = DECODE;
		run(&w, 0);
		assert_int_equal(w.n_quarantine, 1);
		assert_int_equal(w.quarantine[0], bad);
		assert_int_equal(w.deaths, 3);
	}
}

static void crash_isolates_all_of_them_when_there_are_many(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++) {
		struct world w = {.next = 0};
		unsigned bad = 0;
		for (int n = 1 + (int)random_below(20); n; n--) {
			int64_t at = (int64_t)random_below(2) ? (int64_t)random_below(LOG_END)
							      : 700 + (int64_t)random_below(30);
			bad += w.kind[at] == HEALTHY;
			w.kind[at] = random_below(2) ? DECODE : APPLY;
		}
		run(&w, 0);
		assert_int_equal(w.n_quarantine, bad);
	}
}

static void crash_still_isolates_it_when_the_worker_is_killed_in_between(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct world w = {.next = 0};
		int64_t bad = (int64_t)random_below(LOG_END);
		w.kind[bad] = i % 2 ? APPLY : DECODE;
		run(&w, 10);
		assert_int_equal(w.n_quarantine, 1);
		assert_int_equal(w.quarantine[0], bad);
	}
}

static void crash_blames_nobody_when_it_is_killed_ten_thousand_times(void **state)
{
	struct world w = {.next = 0};
	(void)state;
	for (int i = 0; i < 10000; i++) {
		int64_t in_hand = w.next + (int64_t)random_below(3);
		assert_int_equal(die(&w, SIGKILL, in_hand), CRASH_RETRY);
		w.next += random_below(4) == 0;
	}
	assert_int_equal(w.n_quarantine, 0);
	assert_false(w.crash.one_by_one);
}

static void crash_blames_nobody_when_nothing_was_in_hand(void **state)
{
	struct world w = {.next = 9};
	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(die(&w, SIGSEGV, -1), CRASH_RETRY);
}

static void crash_blames_nobody_when_each_death_has_another_in_hand(void **state)
{
	struct world w = {.next = 9};
	(void)state;
	for (int i = 0; i < 50; i++) {
		w.next += 10;
		assert_int_equal(die(&w, SIGSEGV, w.next + 5), CRASH_RETRY);
	}
}

static void crash_rebuilds_when_opening_the_store_kills(void **state)
{
	struct crash crash = {0};
	struct crash_death death = {.signal = SIGSEGV, .opening = true, .stored = 7, .in_hand = 3};
	uint32_t wait;
	int64_t offset;
	(void)state;
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_REBUILD);
	assert_int_equal(wait, 100);
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_REBUILD);
	assert_int_equal(wait, 200);
	assert_int_equal(crash.crashes, 0); /* no record is to blame */
	death.signal = SIGKILL;
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
	death.signal = 0;
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
}

/* Batches of one advance up to the record that kills: that is not being past it. */
static void crash_goes_on_one_by_one_until_it_is_past_all_that_was_in_hand(void **state)
{
	struct world w = {.next = 100};
	(void)state;
	die(&w, SIGABRT, 299);
	die(&w, SIGABRT, 250);
	assert_true(w.crash.one_by_one);
	for (w.next = 101; w.next < 180; w.next++) {
		crash_progress(&w.crash, (uint64_t)w.next + 1);
		assert_true(w.crash.one_by_one);
	}
	assert_int_equal(die(&w, SIGABRT, 180), CRASH_RETRY);
	assert_int_equal(die(&w, SIGABRT, 180), CRASH_QUARANTINE);
	crash_progress(&w.crash, 299 + 1);
	assert_true(w.crash.one_by_one);
	crash_progress(&w.crash, 299 + 2);
	assert_false(w.crash.one_by_one);
	assert_int_equal(w.crash.crashes, 0);
}

static void crash_says_something_sane_when_the_numbers_are_garbage(void **state)
{
	struct crash crash = {0};
	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct crash_death death = {.signal = i % 3 ? SIGSEGV : (int)random_below(64),
			.opening = random_below(8) == 0,
			.stored = random_below(2) ? random_below(UINT64_MAX) : random_below(4),
			.in_hand = random_below(2) ? UINT64_MAX : random_below(4)};
		uint32_t wait = 0;
		int64_t offset = 0;
		enum crash_verdict v = crash_judge(&crash, &death, &limits, &wait, &offset);
		assert_true(v <= CRASH_QUARANTINE && wait >= 100 && wait <= 60000);
	}
}

static void crash_rebuilds_when_the_worker_gives_up_opening_three_times(void **state)
{
	struct crash crash = {0};
	struct crash_death death = {.opening = true};
	uint32_t wait;
	int64_t offset;
	(void)state;
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
	death.opening = false; /* it got further once: counting starts again */
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
	death.opening = true;
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_REBUILD);
}

/* A page of the store that kills, whatever is in hand; then one that is new, and innocent. */
static void crash_renews_a_store_that_kills_three_times_from_inside(void **state)
{
	struct crash_death death = {.signal = SIGABRT, .in_store = true};
	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct crash crash = {0};
		uint32_t wait;
		int64_t offset;
		for (int n = 1; n <= 3; n++) {
			death.stored = random_below(1000);
			death.in_hand = random_below(3) ? death.stored + random_below(3) : 0;
			assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset),
				n < 3 ? CRASH_RETRY : CRASH_REBUILD);
		}
	}
}

/* Deaths by signals that nobody gives himself, and exits, are held against no store. */
static void crash_renews_no_store_when_its_worker_was_killed_from_outside(void **state)
{
	struct crash crash = {0};
	struct crash_death death = {.signal = SIGKILL, .in_store = true};
	uint32_t wait;
	int64_t offset;
	(void)state;
	for (int i = 0; i < 100; i++) {
		death.signal = i % 2 ? SIGKILL : 0;
		assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
	}
}

static void crash_blames_the_record_when_it_kills_a_new_store_too(void **state)
{
	struct crash crash = {0};
	struct crash_death death = {.signal = SIGSEGV, .in_store = true, .stored = 8, .in_hand = 8};
	uint32_t wait;
	int64_t offset = 0;
	enum crash_verdict verdict;
	unsigned rebuilds = 0, deaths = 0;
	(void)state;
	do {
		verdict = crash_judge(&crash, &death, &limits, &wait, &offset);
		deaths++;
		if (verdict == CRASH_REBUILD) {
			rebuilds++;
			crash = (struct crash){
				.deaths = crash.deaths, .renewed_for = crash.renewed_for};
		}
	} while (verdict != CRASH_QUARANTINE && deaths < 100);
	assert_int_equal(offset, 7);
	assert_int_equal(rebuilds, 1);
	assert_int_equal(deaths, 6);
	/* Another one costs as much, not less: the store is not suspected at once. */
	death.stored = death.in_hand = 20;
	assert_int_equal(crash_judge(&crash, &death, &limits, &wait, &offset), CRASH_RETRY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crash_waits_twice_as_long_each_time_up_to_the_limit),
		cmocka_unit_test(crash_waits_from_the_start_again_when_the_offset_has_advanced),
		cmocka_unit_test(crash_waits_never_more_than_the_limit_when_limits_are_odd),
		cmocka_unit_test(crash_quarantines_at_the_third_death_when_decoding_kills),
		cmocka_unit_test(crash_counts_only_the_signals_that_a_record_can_cause),
		cmocka_unit_test(crash_isolates_one_offset_when_applying_kills),
		cmocka_unit_test(crash_isolates_one_offset_when_decoding_kills),
		cmocka_unit_test(crash_isolates_all_of_them_when_there_are_many),
		cmocka_unit_test(crash_still_isolates_it_when_the_worker_is_killed_in_between),
		cmocka_unit_test(crash_blames_nobody_when_it_is_killed_ten_thousand_times),
		cmocka_unit_test(crash_blames_nobody_when_nothing_was_in_hand),
		cmocka_unit_test(crash_blames_nobody_when_each_death_has_another_in_hand),
		cmocka_unit_test(crash_rebuilds_when_opening_the_store_kills),
		cmocka_unit_test(crash_rebuilds_when_the_worker_gives_up_opening_three_times),
		cmocka_unit_test(crash_goes_on_one_by_one_until_it_is_past_all_that_was_in_hand),
		cmocka_unit_test(crash_says_something_sane_when_the_numbers_are_garbage),
		cmocka_unit_test(crash_renews_a_store_that_kills_three_times_from_inside),
		cmocka_unit_test(crash_renews_no_store_when_its_worker_was_killed_from_outside),
		cmocka_unit_test(crash_blames_the_record_when_it_kills_a_new_store_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
