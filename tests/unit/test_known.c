/*
 * test_known.c - what the query process remembers of streams: never more than was true.
 *
 * What is drawn at random comes from a seed, which is printed; TALLY_SEED repeats one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "schedule.h"
#include "tools/queryd/known.h"

#define TENANTS	    4
#define GENERATIONS 4
#define HASHES	    5000
#define MINUTE	    30000000

static uint64_t rng;

static uint32_t draw(uint32_t below)
{
	return schedule_draw(&rng, below);
}

/* Until when each is active; 0: nobody has said so. */
static uint32_t model[TENANTS][GENERATIONS][HASHES];

static void known_says_only_what_it_was_told(void **state)
{
	static const char *const tenants[TENANTS] = {
		"a", "b", "a long one with a / in it", "\xc3\xa4"};
	struct known *known = known_new();
	uint64_t has = 0, told = 0;

	(void)state;
	for (int i = 0; i < 2000000; i++) {
		uint64_t t = draw(TENANTS), g = draw(GENERATIONS), h = draw(HASHES);
		uint32_t group = known_group(known, tenants[t], 1000 + g);
		uint32_t *until = &model[t][g][h], now = MINUTE + (uint32_t)draw(130);

		assert_true(group);
		if (draw(2)) {
			uint32_t later = MINUTE + (uint32_t)draw(130);

			*until = later > *until ? later : *until; /* last seen never falls */
			known_note(known, group, h * 977, *until);
			continue;
		}
		known_fetch(known, group, h * 977);
		if (known_has(known, group, h * 977, now)) {
			assert_true(now < *until); /* in this minute and in the next one */
			has++;
		}
		told += now < *until;
	}
	assert_true(has > told - told / 100); /* 80,000 of a million: next to all are there */
	known_free(&known);
	assert_null(known);
}

static void known_keeps_streams_of_another_tenant_or_generation_apart(void **state)
{
	struct known *known = known_new();
	uint32_t a = known_group(known, "a", 1), b, c;

	(void)state;
	known_note(known, a, 7, MINUTE + 10);
	b = known_group(known, "b", 1);
	c = known_group(known, "a", 2);
	assert_int_equal(known_group(known, "a", 1), a);
	assert_true(a != b && a != c && b != c);
	assert_true(known_has(known, a, 7, MINUTE));
	assert_true(known_has(known, a, 7, MINUTE + 9));
	assert_false(known_has(known, a, 7, MINUTE + 10));
	assert_false(known_has(known, b, 7, MINUTE));
	assert_false(known_has(known, c, 7, MINUTE));
	assert_false(known_has(known, a, 8, MINUTE));
	/* Nobody's entry is no hash 0 of anybody. */
	assert_false(known_has(known, a, 0, MINUTE));
	known_free(&known);
}

/* Tenants that somebody makes up. */
static void known_forgets_all_when_there_are_too_many_tenants(void **state)
{
	struct known *known = known_new();
	uint32_t first = known_group(known, "first", 1), before = first;
	char name[32];

	(void)state;
	known_note(known, first, 7, MINUTE + 10);
	for (uint32_t i = 0; i < KNOWN_GROUPS + 1000; i++) {
		uint32_t group;

		snprintf(name, sizeof(name), "made up %u", i);
		group = known_group(known, name, 1);
		assert_int_not_equal(group, before); /* who has its number still asks by it */
		assert_false(known_has(known, group, 7, MINUTE));
		known_note(known, group, 7, MINUTE + 10);
		assert_true(known_has(known, group, 7, MINUTE));
	}
	assert_false(known_has(known, before, 7, MINUTE));
	first = known_group(known, "first", 1);
	assert_false(known_has(known, first, 7, MINUTE));
	known_note(known, first, 7, MINUTE + 10);
	assert_true(known_has(known, first, 7, MINUTE));
	known_free(&known);
}

static void known_makes_room_for_the_latest(void **state)
{
	struct known *known = known_new();
	uint32_t group = known_group(known, "a", 1), latest = 0;

	(void)state;
	for (uint64_t i = 0; i < 3 * (uint64_t)KNOWN_STREAMS; i++)
		known_note(known, group, i * 977, MINUTE + 1 + (uint32_t)(i / KNOWN_STREAMS));
	for (uint64_t i = 0; i < 3 * (uint64_t)KNOWN_STREAMS; i++)
		latest += known_has(known, group, i * 977, MINUTE + 2);
	assert_true(latest > KNOWN_STREAMS / 2 && latest <= KNOWN_STREAMS);
	known_free(&known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_says_only_what_it_was_told),
		cmocka_unit_test(known_keeps_streams_of_another_tenant_or_generation_apart),
		cmocka_unit_test(known_forgets_all_when_there_are_too_many_tenants),
		cmocka_unit_test(known_makes_room_for_the_latest),
	};
	const char *text = getenv("TALLY_SEED");

	rng = text ? strtoull(text, NULL, 10) : (uint64_t)getpid();
	printf("# seed %llu\n", (unsigned long long)rng);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
