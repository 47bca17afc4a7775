/*
 * test_usage_unsent.c - bytes that were admitted reach the topic, whoever else writes the stream,
 * whenever the partition is taken away; a question that fails leaves nothing behind.
 */
#include "usage_fixture.h"

#define EVERY_S 60

static struct usage_stream_asked asked_of(const char *tenant, uint64_t n, int64_t seen_ms)
{
	return (struct usage_stream_asked){.tenant = tenant,
		.tenant_len = strlen(tenant),
		.policy = "",
		.hash = n * 7 + 3,
		.bytes = 10,
		.seen_ms = seen_ms};
}

static struct usage *open_asked(void)
{
	struct usage *usage = open_usage();

	usage_set_produce(usage,
		&(struct usage_produce){.rate_minutes = 5, .every_s = EVERY_S, .outbox_max = 1000});
	return usage;
}

static void touch(struct usage *usage, uint64_t n, int64_t now)
{
	struct usage_stream_asked asked = asked_of("a", n, now);

	usage_touch(usage, &asked, now);
}

static void add_at(struct usage *usage, const char *tenant, uint64_t n, int64_t now)
{
	struct record record = record_of(tenant, "", n * 7 + 3, 1, now);

	assert_int_equal(usage_add(usage, &record, now), SKIP_NONE);
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static void usage_produces_in_time_also_what_another_zone_writes_more_often(void **state)
{
	struct usage *usage = open_asked();
	int64_t now = NOW;

	(void)state;
	touch(usage, 1, now);
	commit(usage, now);
	touch(usage, 1, now += 1000);
	commit(usage, now);
	assert_int_equal(usage_meta(usage)->outbox, 1);
	for (int s = 0; s <= EVERY_S; s++) {
		now += 1000;
		if (s % 20 == 0)
			add_at(usage, "a", 1, now);
		(void)usage_produce_due(usage, now);
		commit(usage, now);
	}
	assert_int_equal(usage_meta(usage)->outbox, 2);
	usage_close(&usage);
}

static void usage_lists_for_a_drain_also_what_was_due_and_not_committed(void **state)
{
	struct usage *usage = open_asked();
	struct usage_unsent_cursor cursor = {0};
	struct usage_outgoing rows[3];

	(void)state;
	touch(usage, 1, NOW);
	commit(usage, NOW);
	touch(usage, 1, NOW + 1000);
	commit(usage, NOW + 1000);
	assert_true(usage_produce_due(usage, NOW + (EVERY_S + 1) * 1000));
	assert_int_equal(usage_unsent_list(usage, &cursor, rows, 3), 1);
	usage_close(&usage);
}

static void usage_forgets_names_of_questions_that_failed(void **state)
{
	struct usage *usage = open_asked();
	struct usage_stream_asked asked = asked_of("nobody", 1, NOW);
	struct usage_commit no = {.now_ms = NOW, .may_commit = never};

	(void)state;
	touch(usage, 1, NOW);
	commit(usage, NOW);
	(void)usage_rate(usage, &asked, NOW + 1000);
	assert_int_equal(usage_commit(usage, &no), ERR_LEASE);
	usage_questions_end(usage);
	assert_false(usage_dirty(usage));
	commit(usage, NOW + 2000);
	assert_int_equal(usage_meta(usage)->tenants, 1);
	verify(usage);
	usage_close(&usage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			usage_produces_in_time_also_what_another_zone_writes_more_often,
			each_setup),
		cmocka_unit_test_setup(
			usage_lists_for_a_drain_also_what_was_due_and_not_committed, each_setup),
		cmocka_unit_test_setup(usage_forgets_names_of_questions_that_failed, each_setup),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
