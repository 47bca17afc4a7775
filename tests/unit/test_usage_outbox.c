/*
 * test_usage_outbox.c - rows of the outbox beside a plain list of them.
 *
 * What is drawn at random comes from a seed, which is printed; TALLY_SEED repeats one.
 */
#include "usage_fixture.h"

#define MOST 4000 /* rows in all of a round */

static uint64_t rng;

static uint32_t draw(uint32_t below)
{
	return schedule_draw(&rng, below);
}

/* What must be there: row of sequence s in rows[s - 1], those up to `cleared` gone. */
struct model {
	uint64_t hash[MOST], cleared, n;
};

static const struct usage_produce produce = {
	.rate_minutes = 5, .every_s = 60, .outbox_max = UINT64_MAX};

static struct usage *reopen(struct usage *usage)
{
	if (usage)
		usage_close(&usage);
	usage = open_usage();
	usage_set_produce(usage, &produce);
	return usage;
}

/* New streams, in the order in which a commit comes by them. */
static void touch(struct usage *usage, struct model *model, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t hash = (model->n + 1) * 7 + 3;
		struct usage_stream_asked asked = {.tenant = "t",
			.tenant_len = 1,
			.policy = "p",
			.policy_len = 1,
			.hash = hash,
			.bytes = model->n,
			.seen_ms = NOW};

		usage_touch(usage, &asked, NOW);
		model->hash[model->n++] = hash;
	}
}

static void come_back(struct usage *usage, struct model *model, uint64_t sequence)
{
	struct record record = record_of("t", "", 3, 1, NOW);

	record.has_source = true;
	memcpy(record.incarnation, usage_meta(usage)->incarnation, INCARNATION_SIZE);
	record.sequence = sequence;
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_OWN);
	if (sequence > model->cleared)
		model->cleared = sequence;
}

static void compare_rows(struct usage *usage, const struct model *model, uint64_t after, size_t cap)
{
	struct usage_outgoing rows[200];
	uint64_t first = after > model->cleared ? after : model->cleared;
	uint64_t left = model->n > first ? model->n - first : 0;
	int n = usage_outbox_list(usage, after, rows, cap);

	assert_int_equal(n, left < cap ? left : cap);
	for (int i = 0; i < n; i++) {
		assert_int_equal(rows[i].sequence, first + (uint64_t)i + 1);
		assert_int_equal(rows[i].hash, model->hash[rows[i].sequence - 1]);
		assert_int_equal(rows[i].bytes, rows[i].sequence - 1);
		assert_int_equal(rows[i].tenant_len, 1);
		assert_memory_equal(rows[i].policy, "p", 1);
	}
}

static void usage_outbox_is_what_a_list_would_be(void **state)
{
	static struct model model;
	char why[256];

	(void)state;
	for (int round = 0; round < 30; round++) {
		struct usage *usage = reopen(NULL);

		memset(&model, 0, sizeof(model));
		for (int step = 0; step < 60; step++) {
			uint64_t known = model.n;

			if (draw(3) > 0 && model.n + 200 < MOST)
				touch(usage, &model, draw(2) ? draw(4) : draw(200));
			if (draw(3) == 0 && known > model.cleared)
				come_back(usage, &model,
					model.cleared + 1 +
						draw((uint32_t)(known - model.cleared)));
			commit(usage, NOW);
			assert_int_equal(usage_meta(usage)->outbox, model.n - model.cleared);
			for (int i = 0; i < 3; i++)
				compare_rows(
					usage, &model, draw((uint32_t)model.n + 2), 1 + draw(200));
			assert_int_equal(usage_scrub(usage, usage_scrub_steps(usage), why), 0);
			if (draw(10) == 0)
				usage = reopen(usage);
			verify(usage);
		}
		usage_close(&usage);
		clean();
	}
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

/* A commit that did not happen leaves no row of its own behind. */
static void usage_outbox_keeps_nothing_of_a_commit_that_failed(void **state)
{
	static struct model model;
	const struct usage_commit no = {.now_ms = NOW, .may_commit = never};
	struct usage *usage = reopen(NULL);

	(void)state;
	memset(&model, 0, sizeof(model));
	touch(usage, &model, 40);
	assert_int_equal(usage_commit(usage, &no), ERR_LEASE);
	assert_int_equal(usage_meta(usage)->outbox, 0);
	commit(usage, NOW);
	assert_int_equal(usage_meta(usage)->outbox, 40);
	compare_rows(usage, &model, 0, 100);
	verify(usage);
	usage_close(&usage);
	clean();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(usage_outbox_is_what_a_list_would_be, each_setup),
		cmocka_unit_test_setup(
			usage_outbox_keeps_nothing_of_a_commit_that_failed, each_setup),
	};
	const char *text = getenv("TALLY_SEED");

	rng = seed = text ? strtoull(text, NULL, 10) : (uint64_t)getpid();
	printf("# seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, setup, teardown);
}
