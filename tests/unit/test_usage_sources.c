/*
 * test_usage_sources.c - foreign stores that nobody can count: how many are kept, which go first.
 */
#include "usage_fixture.h"

static struct record from(uint64_t source, uint64_t sequence)
{
	struct record record = record_of("t", "", 3, 1, NOW);

	record.has_source = true;
	record.sequence = sequence;
	memcpy(record.incarnation, &source, sizeof(source));
	return record;
}

static enum skip_reason hear(
	struct usage *usage, uint64_t source, uint64_t sequence, int64_t now_ms)
{
	struct record record = from(source, sequence);

	record.timestamp_ms = now_ms;
	return usage_add(usage, &record, now_ms);
}

/* Each once, with sequence 1. */
static void hear_many(struct usage *usage, uint64_t first, uint64_t n, int64_t now_ms)
{
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(hear(usage, first + i, 1, now_ms), SKIP_NONE);
}

static struct usage *reopen(struct usage *usage)
{
	usage_close(&usage);
	return open_usage();
}

static bool lease_is_over(void *arg)
{
	(void)arg;
	return false;
}

static void usage_keeps_no_more_sources_than_the_most(void **state)
{
	struct usage *usage = open_usage();

	(void)state;
	for (uint64_t i = 0; i < 8; i++) {
		hear_many(usage, 20000 * i, 20000, NOW + (int64_t)i * 1000);
		commit(usage, NOW + (int64_t)i * 1000);
		assert_true(usage_meta(usage)->sources <= USAGE_SOURCES_MAX);
		verify(usage);
	}
	assert_int_equal(usage_meta(usage)->sources, USAGE_SOURCES_MAX);
	usage = reopen(usage);
	assert_int_equal(usage_meta(usage)->sources, USAGE_SOURCES_MAX);
	/* One batch alone can hold more. */
	hear_many(usage, 1000000, USAGE_SOURCES_MAX + 1000, NOW + 9000);
	commit(usage, NOW + 9000);
	assert_int_equal(usage_meta(usage)->sources, USAGE_SOURCES_MAX);
	verify(usage);
	usage_close(&usage);
	clean();
}

static void usage_forgets_the_source_heard_of_longest_ago(void **state)
{
	struct usage *usage = open_usage();
	int64_t later = NOW + 1000, last = NOW + 2000;

	(void)state;
	hear_many(usage, 0, 10, NOW);
	commit(usage, NOW);
	hear_many(usage, 1000, USAGE_SOURCES_MAX - 10, later);
	commit(usage, later);
	assert_int_equal(usage_meta(usage)->sources, USAGE_SOURCES_MAX);
	/* 3 is heard again, in the batch that brings four too many. */
	assert_int_equal(hear(usage, 3, 2, last), SKIP_NONE);
	hear_many(usage, 500000, 4, last);
	commit(usage, last);
	usage = reopen(usage);
	assert_int_equal(usage_meta(usage)->sources, USAGE_SOURCES_MAX);
	assert_int_equal(hear(usage, 3, 2, last), SKIP_DUPLICATE);
	assert_int_equal(hear(usage, 1000, 1, last), SKIP_DUPLICATE);
	assert_int_equal(hear(usage, 500003, 1, last), SKIP_DUPLICATE);
	/* Four of the other nine are unknown. */
	for (uint64_t i = 0, unknown = 0; i < 10; i++) {
		unknown += hear(usage, i, 1, last) == SKIP_NONE;
		if (i == 9)
			assert_int_equal(unknown, 4);
	}
	usage_close(&usage);
	clean();
}

/* All in one second: those that were known before stay. */
static void usage_is_not_made_to_forget_by_a_flood_of_new_sources(void **state)
{
	struct usage *usage = open_usage();

	(void)state;
	hear_many(usage, 0, 100, NOW);
	commit(usage, NOW);
	hear_many(usage, 1000, 2 * USAGE_SOURCES_MAX, NOW);
	commit(usage, NOW);
	assert_int_equal(usage_meta(usage)->sources, USAGE_SOURCES_MAX);
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(hear(usage, i, 1, NOW), SKIP_DUPLICATE);
	usage_close(&usage);
	clean();
}

static void usage_forgets_no_source_when_the_commit_fails(void **state)
{
	struct usage *usage = open_usage();
	int64_t later = NOW + 1000;
	struct usage_commit how = {.now_ms = later, .may_commit = lease_is_over};

	(void)state;
	hear_many(usage, 0, 10, NOW);
	commit(usage, NOW);
	hear_many(usage, 1000, USAGE_SOURCES_MAX, later);
	assert_int_equal(usage_commit(usage, &how), ERR_LEASE);
	assert_int_equal(hear(usage, 0, 1, later), SKIP_DUPLICATE);
	assert_int_equal(hear(usage, 1000, 1, later), SKIP_DUPLICATE);
	usage_reset(usage);
	assert_int_equal(usage_meta(usage)->sources, 10);
	assert_int_equal(hear(usage, 0, 1, later), SKIP_DUPLICATE);
	assert_int_equal(hear(usage, 1000, 1, later), SKIP_NONE);
	commit(usage, later);
	assert_int_equal(usage_meta(usage)->sources, 11);
	verify(usage);
	usage_close(&usage);
	clean();
}

/* A commit reserves for the sources that it writes, however many are known. */
static void usage_commit_reserves_nothing_for_sources_it_leaves_alone(void **state)
{
	struct usage *usage = open_usage();
	struct store_facts facts;

	(void)state;
	hear_many(usage, 0, 60000, NOW);
	commit(usage, NOW);
	usage = reopen(usage); /* what is reserved counts from there */
	assert_int_equal(hear(usage, 0, 2, NOW), SKIP_NONE);
	commit(usage, NOW);
	usage_store_facts(usage, &facts);
	assert_true(usage_store(usage)->reserved < facts.used_bytes + (UINT64_C(2) << 20));
	/* And when all are forgotten at once, not more than they can lie on. */
	commit(usage, NOW + 2 * WINDOW * MIN_MS);
	assert_int_equal(usage_meta(usage)->sources, 0);
	assert_true(usage_store(usage)->reserved < facts.used_bytes + (UINT64_C(24) << 20));
	verify(usage);
	usage_close(&usage);
	clean();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(usage_keeps_no_more_sources_than_the_most),
		TEST(usage_forgets_the_source_heard_of_longest_ago),
		TEST(usage_is_not_made_to_forget_by_a_flood_of_new_sources),
		TEST(usage_forgets_no_source_when_the_commit_fails),
		TEST(usage_commit_reserves_nothing_for_sources_it_leaves_alone),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
