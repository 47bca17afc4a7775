/*
 * test_usage_ask.c - what is asked, judged, produced: against a model that is slow and obvious.
 *
 * The model is a list of streams and a list of produced rows.  Within one commit the store judges
 * streams in the order of tenant and hash, and the questions about one stream in the order they
 * came; so does the model.
 */
#include "usage_fixture.h"

#define EVERY_S 60
#define STREAMS 40
#define TENANTS 2

static const char *const tenants[TENANTS] = {"a", "b"};

static struct usage_stream_asked asked_of(
	const char *tenant, const char *policy, uint64_t n, uint64_t bytes, int64_t seen_ms)
{
	return (struct usage_stream_asked){.tenant = tenant,
		.tenant_len = strlen(tenant),
		.policy = policy,
		.policy_len = strlen(policy),
		.hash = n * 7 + 3,
		.bytes = bytes,
		.seen_ms = seen_ms};
}

static struct usage *open_asked(uint64_t outbox_max)
{
	struct usage *usage = open_usage();

	usage_set_produce(
		usage, &(struct usage_produce){
			       .rate_minutes = 5, .every_s = EVERY_S, .outbox_max = outbox_max});
	return usage;
}

static uint32_t admit(struct usage *usage, const char *tenant, uint64_t n, uint64_t bytes,
	uint32_t budget, int64_t now)
{
	struct usage_stream_asked asked = asked_of(tenant, "", n, bytes, now);

	return usage_admit(usage, &asked, budget, now);
}

static void touch(struct usage *usage, const char *tenant, uint64_t n, uint64_t bytes, int64_t now)
{
	struct usage_stream_asked asked = asked_of(tenant, "", n, bytes, now);

	usage_touch(usage, &asked, now);
}

static uint64_t active(struct usage *usage, const char *tenant, int64_t now)
{
	struct store_txn txn = begin_read(usage);
	char buf[512];
	struct window_row row;
	uint64_t sum = 0;
	uint32_t id;
	int policy = -1;

	assert_true(sizeof(buf) >= window_row_size(WINDOW));
	if (usage_find_tenant(&txn, tenant, strlen(tenant), &id))
		while (usage_next_row(&txn, id, &policy, WINDOW, buf, &row))
			sum += window_row_streams(&row, window_minute_of_ms(now));
	store_abort(&txn);
	return sum;
}

static void usage_admits_up_to_the_budget_and_known_streams_beyond_it(void **state)
{
	struct usage *usage = open_asked(1000);
	uint32_t budget = usage_budget(usage, 2), first, again, more[4];

	(void)state;
	add(usage, "a", "", 1, 10); /* in the same batch, before */
	first = admit(usage, "a", 1, 5, budget, NOW);
	for (unsigned i = 0; i < 4; i++)
		more[i] = admit(usage, "a", 10 + i, 5, budget, NOW);
	again = admit(usage, "a", 10, 5, budget, NOW);
	commit(usage, NOW);
	assert_int_equal(usage_verdict(usage, first), USAGE_KNOWN);
	assert_int_equal(usage_verdict(usage, more[0]), USAGE_NEW);
	assert_int_equal(usage_verdict(usage, more[1]), USAGE_NEW);
	assert_int_equal(usage_verdict(usage, more[2]), USAGE_REJECTED);
	assert_int_equal(usage_verdict(usage, more[3]), USAGE_REJECTED);
	assert_int_equal(usage_verdict(usage, again), USAGE_KNOWN);
	usage_questions_end(usage);
	assert_int_equal(active(usage, "a", NOW), 3);
	assert_int_equal(usage_meta(usage)->streams, 3);
	assert_int_equal(usage_meta(usage)->bytes, 10 + 5 + 5 + 5 + 5);
	/* A lower budget takes nothing away from them. */
	budget = usage_budget(usage, 0);
	first = admit(usage, "a", 11, 1, budget, NOW);
	commit(usage, NOW);
	assert_int_equal(usage_verdict(usage, first), USAGE_KNOWN);
	usage_questions_end(usage);
	verify(usage);
	usage_close(&usage);
}

static void usage_rejected_streams_leave_no_trace(void **state)
{
	struct usage *usage = open_asked(1000);
	uint32_t budget = usage_budget(usage, 0), ticket = admit(usage, "a", 5, 77, budget, NOW);

	(void)state;
	commit(usage, NOW);
	assert_int_equal(usage_verdict(usage, ticket), USAGE_REJECTED);
	usage_questions_end(usage);
	assert_int_equal(usage_meta(usage)->streams, 0);
	assert_int_equal(usage_meta(usage)->blocks, 0);
	assert_int_equal(usage_meta(usage)->bytes, 0);
	assert_int_equal(usage_meta(usage)->outbox, 0);
	verify(usage);
	usage_close(&usage);
}

static void usage_expired_streams_need_a_place_again(void **state)
{
	struct usage *usage = open_asked(1000);
	int64_t later = NOW + (WINDOW + 1) * MIN_MS;
	uint32_t budget, ticket;

	(void)state;
	touch(usage, "a", 1, 1, NOW);
	commit(usage, NOW);
	budget = usage_budget(usage, 0);
	ticket = admit(usage, "a", 1, 1, budget, later);
	commit(usage, later);
	assert_int_equal(usage_verdict(usage, ticket), USAGE_REJECTED);
	usage_questions_end(usage);
	assert_int_equal(active(usage, "a", later), 0);
	budget = usage_budget(usage, 1);
	ticket = admit(usage, "a", 1, 1, budget, later);
	commit(usage, later);
	assert_int_equal(usage_verdict(usage, ticket), USAGE_NEW);
	usage_questions_end(usage);
	assert_int_equal(active(usage, "a", later), 1);
	verify(usage);
	usage_close(&usage);
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static void usage_forgets_what_was_asked_when_the_commit_fails(void **state)
{
	struct usage *usage = open_asked(1000);
	struct usage_commit how = {.now_ms = NOW, .may_commit = never};
	uint32_t ticket;

	(void)state;
	touch(usage, "a", 1, 5, NOW);
	admit(usage, "a", 2, 5, usage_budget(usage, 1), NOW);
	assert_int_equal(usage_commit(usage, &how), ERR_LEASE);
	usage_questions_end(usage);
	commit(usage, NOW); /* the touch alone */
	assert_int_equal(usage_meta(usage)->streams, 1);
	assert_int_equal(usage_meta(usage)->outbox, 1);
	/* A budget is whole again when the same commit is made once more. */
	ticket = admit(usage, "a", 3, 5, usage_budget(usage, 1), NOW);
	assert_int_equal(usage_commit(usage, &how), ERR_LEASE);
	commit(usage, NOW);
	assert_int_equal(usage_verdict(usage, ticket), USAGE_NEW);
	usage_questions_end(usage);
	verify(usage);
	usage_close(&usage);
}

static void usage_fails_new_streams_when_the_outbox_is_full_and_keeps_known_ones(void **state)
{
	struct usage *usage = open_asked(4);
	uint32_t budget = usage_budget(usage, UINT64_MAX), tickets[6];
	int64_t later = NOW + 2 * MIN_MS;

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		tickets[i] = admit(usage, "a", i, 3, budget, NOW);
	commit(usage, NOW);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(
			usage_verdict(usage, tickets[i]), i < 4 ? USAGE_NEW : USAGE_FAILED);
	usage_questions_end(usage);
	touch(usage, "a", 0, 3, later); /* due, but only half of the outbox is for it */
	commit(usage, later);
	assert_int_equal(usage_meta(usage)->outbox, 4);
	assert_int_equal(usage_meta(usage)->unsent, 1);
	verify(usage);
	usage_close(&usage);
}

static enum usage_verdict verdict_of(struct usage *usage, uint64_t n, int64_t now)
{
	uint32_t ticket = admit(usage, "a", n, 3, usage_budget(usage, 1), now);
	enum usage_verdict verdict;

	commit(usage, now);
	verdict = usage_verdict(usage, ticket);
	usage_questions_end(usage);
	return verdict;
}

static void usage_keeps_half_of_the_outbox_for_new_streams(void **state)
{
	struct usage *usage = open_asked(4);
	struct usage_outgoing row;
	int64_t later = NOW + 2 * MIN_MS;

	(void)state;
	assert_int_equal(verdict_of(usage, 0, NOW), USAGE_NEW);
	assert_int_equal(verdict_of(usage, 1, NOW), USAGE_NEW);
	assert_int_equal(usage_meta(usage)->outbox, 2);
	touch(usage, "a", 0, 5, later);
	commit(usage, later); /* due, and waits: the half that is left is not for it */
	assert_int_equal(usage_meta(usage)->outbox, 2);
	assert_int_equal(usage_meta(usage)->unsent, 1);
	assert_int_equal(verdict_of(usage, 2, later), USAGE_NEW);
	assert_int_equal(verdict_of(usage, 3, later), USAGE_NEW);
	assert_int_equal(usage_meta(usage)->outbox, 4);
	assert_int_equal(verdict_of(usage, 4, later), USAGE_FAILED);
	assert_int_equal(verdict_of(usage, 0, later), USAGE_KNOWN);
	assert_int_equal(usage_meta(usage)->outbox, 4);
	assert_int_equal(usage_meta(usage)->unsent, 1);

	usage_set_produce(usage,
		&(struct usage_produce){.rate_minutes = 5, .every_s = EVERY_S, .outbox_max = 10});
	later += (EVERY_S + 1) * 1000;
	assert_true(usage_produce_due(usage, later));
	commit(usage, later);
	assert_int_equal(usage_meta(usage)->unsent, 0);
	assert_int_equal(usage_outbox_list(usage, 4, &row, 1), 1);
	assert_int_equal(row.hash, 3);
	assert_int_equal(row.bytes, 5 + 3);
	verify(usage);
	usage_close(&usage);
}

static void usage_rates_have_keys_of_their_own(void **state)
{
	struct usage *usage = open_asked(1000);
	struct usage_stream_asked asked = asked_of("a", "", 1, 6000, NOW);
	uint32_t first = usage_rate(usage, &asked, NOW), second;
	double span = 4 * 60 + (double)(NOW % 60000) / 1000;

	(void)state;
	if (NOW % 60000 < 1000)
		span = 4 * 60 + 1;
	second = usage_rate(usage, &asked, NOW);
	commit(usage, NOW);
	assert_int_equal(usage_rate_of(usage, first), (uint64_t)(12000 / span));
	assert_int_equal(usage_rate_of(usage, second), usage_rate_of(usage, first));
	usage_questions_end(usage);
	assert_int_equal(usage_meta(usage)->streams, 0);
	assert_int_equal(usage_meta(usage)->rates, 1);
	assert_int_equal(usage_meta(usage)->outbox, 0);
	assert_int_equal(active(usage, "a", NOW), 0);
	verify(usage);
	/* They go when their last bucket is out of the rate window. */
	assert_int_equal(try_commit(usage, NOW + 6 * MIN_MS, 100), 0);
	assert_int_equal(usage_meta(usage)->rates, 0);
	assert_int_equal(usage_meta(usage)->rate_blocks, 0);
	verify(usage);
	usage_close(&usage);
}

static void usage_lists_each_unsent_stream_once_for_a_drain(void **state)
{
	struct usage *usage = open_asked(1000);
	struct usage_unsent_cursor cursor = {0};
	struct usage_outgoing rows[3];
	uint64_t bytes = 0;
	int n, total = 0;

	(void)state;
	for (unsigned i = 0; i < 7; i++)
		touch(usage, "a", i, 1, NOW);
	commit(usage, NOW);
	for (unsigned i = 0; i < 7; i++)
		touch(usage, "a", i, 10 + i, NOW + 1000);
	commit(usage, NOW + 1000);
	while ((n = usage_unsent_list(usage, &cursor, rows, 3)) > 0) {
		for (int i = 0; i < n; i++) {
			assert_int_equal(rows[i].sequence, 7 + ++total);
			assert_int_equal(rows[i].tenant_len, 1);
			assert_memory_equal(rows[i].tenant, "a", 1);
			bytes += rows[i].bytes;
		}
	}
	assert_int_equal(n, 0);
	assert_int_equal(total, 7);
	assert_int_equal(bytes, 7 * 10 + 21);
	usage_close(&usage);
}

static void usage_lists_for_a_drain_what_waits_for_its_commit(void **state)
{
	struct usage *usage = open_asked(1000);
	struct usage_unsent_cursor cursor = {0};
	struct usage_outgoing rows[10];
	int64_t later = NOW + 61 * 1000;

	(void)state;
	for (unsigned i = 0; i < 7; i++)
		touch(usage, "a", i, 1, NOW);
	commit(usage, NOW);
	for (unsigned i = 0; i < 7; i++)
		touch(usage, "a", i, 1, NOW + 1000);
	commit(usage, NOW + 1000);
	assert_true(usage_produce_due(usage, later));
	assert_int_equal(usage_unsent_list(usage, &cursor, rows, 10), 7);
	usage_close(&usage);
}

/* Each block is full, and gets one more: as many splits as blocks (check_reserve is in commit). */
static void usage_reserves_enough_when_every_full_block_splits(void **state)
{
	struct usage *usage = open_asked(1000000);
	struct store_facts facts;
	struct store_txn reader;
	uint32_t budget, n = 0;

	(void)state;
	/* Ascending hashes leave half-full blocks; a second series fills each to its last place. */
	for (unsigned i = 0; i < 42 * 2000; i++)
		add(usage, "a", "", (uint64_t)i * 1000, 1);
	commit(usage, NOW);
	for (unsigned i = 0; i < 42 * 2000; i++)
		add(usage, "a", "", (uint64_t)i * 1000 + 1, 1);
	commit(usage, NOW);
	/* No page may be taken again that was freed, and nothing is left over from before. */
	reader = begin_read(usage);
	usage_store_facts(usage, &facts);
	usage_store(usage)->reserved = facts.used_bytes;
	budget = usage_budget(usage, UINT64_MAX);
	for (unsigned i = 0; i < 2000; i++, n++)
		admit(usage, "a", (uint64_t)i * 42000 + 2, 1, budget, NOW);
	commit(usage, NOW);
	usage_questions_end(usage);
	assert_int_equal(usage_meta(usage)->streams, 2 * 42 * 2000 + n);
	store_abort(&reader);
	verify(usage);
	usage_close(&usage);
}

/* --- against the model ----------------------------------------------------------------------- */

struct model_stream {
	bool there, unsent;
	int64_t seen_s, produced_s; /* 0 = never */
	uint64_t unsent_bytes;
};

struct model {
	struct model_stream of[TENANTS][STREAMS];
	uint64_t asked_bytes, produced_bytes, rows;
};

struct question {
	unsigned tenant, stream;
	uint64_t bytes;
	bool is_touch;
	bool is_record; /* of another zone */
	uint32_t ticket;
	enum usage_verdict want;
};

static bool model_active(const struct model_stream *s, int64_t now)
{
	return s->there && now / MIN_MS - s->seen_s / 60 <= WINDOW;
}

static int by_stream(const void *a, const void *b)
{
	const struct question *x = *(struct question *const *)a, *y = *(struct question *const *)b;

	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return (x > y) - (x < y);
}

/* The tenants' ids are given in the order in which they were first heard of. */
static void model_judge(
	struct model *model, struct question *questions, unsigned n, uint64_t budget, int64_t now)
{
	struct question *sorted[64];

	for (unsigned i = 0; i < n; i++)
		sorted[i] = &questions[i];
	qsort(sorted, n, sizeof(sorted[0]), by_stream);
	for (unsigned i = 0; i < n; i++) {
		struct question *q = sorted[i];
		struct model_stream *s = &model->of[q->tenant][q->stream];

		q->want = model_active(s, now) ? USAGE_KNOWN
			  : budget > 0	       ? USAGE_NEW
					       : USAGE_REJECTED;
		if (q->is_record) {
			s->there = true;
			s->seen_s = now / 1000;
			model->asked_bytes += q->bytes;
			if (!s->unsent) /* what waits here is not put off by what others write */
				s->produced_s = now / 1000;
			continue;
		}
		if (!q->is_touch && q->want == USAGE_NEW)
			budget--;
		if (!q->is_touch && q->want == USAGE_REJECTED)
			continue;
		s->there = s->unsent = true;
		s->seen_s = now / 1000;
		s->unsent_bytes += q->bytes;
		model->asked_bytes += q->bytes;
	}
}

static void model_produce(struct model *model, int64_t now, bool all)
{
	for (unsigned t = 0; t < TENANTS; t++) {
		for (unsigned i = 0; i < STREAMS; i++) {
			struct model_stream *s = &model->of[t][i];

			if (!s->unsent || (!all && now / 1000 - s->produced_s < EVERY_S))
				continue;
			model->rows++;
			model->produced_bytes += s->unsent_bytes;
			s->unsent = false;
			s->unsent_bytes = 0;
			s->produced_s = now / 1000;
		}
	}
}

static void compare_outbox(struct usage *usage, const struct model *model)
{
	static struct usage_outgoing rows[4096];
	uint64_t bytes = 0, after = 0, total = 0;
	int n;

	while ((n = usage_outbox_list(usage, after, rows, 4096)) > 0) {
		for (int i = 0; i < n; i++) {
			assert_int_equal(rows[i].sequence, after + 1);
			after = rows[i].sequence;
			bytes += rows[i].bytes;
		}
		total += (uint64_t)n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(total, model->rows);
	assert_int_equal(bytes, model->produced_bytes);
	assert_int_equal(usage_meta(usage)->outbox, model->rows);
}

static void compare_model(struct usage *usage, const struct model *model, int64_t now)
{
	uint64_t unsent = 0;

	for (unsigned t = 0; t < TENANTS; t++) {
		uint64_t n = 0;

		for (unsigned i = 0; i < STREAMS; i++) {
			n += model_active(&model->of[t][i], now);
			unsent += model->of[t][i].unsent;
		}
		assert_int_equal(active(usage, tenants[t], now), n);
	}
	assert_int_equal(usage_meta(usage)->unsent, unsent);
	assert_int_equal(usage_meta(usage)->bytes, model->asked_bytes);
	compare_outbox(usage, model);
	verify(usage);
}

static void add_record(struct usage *usage, const struct question *q, int64_t now)
{
	struct record record = record_of(tenants[q->tenant], "", q->stream * 7 + 3, q->bytes, now);

	assert_int_equal(usage_add(usage, &record, now), SKIP_NONE);
}

static struct usage *reopen(struct usage *usage)
{
	usage_close(&usage);
	return open_asked(1000000);
}

static void usage_equals_the_model_whatever_is_asked(void **state)
{
	struct usage *usage = open_asked(1000000);
	static struct model model;
	int64_t now = NOW;

	(void)state;
	memset(&model, 0, sizeof(model));
	touch(usage, "a", 0, 0, now); /* ids in the order of the names */
	touch(usage, "b", 0, 0, now);
	for (unsigned t = 0; t < TENANTS; t++)
		model.of[t][0] =
			(struct model_stream){.there = true, .unsent = true, .seen_s = now / 1000};
	commit(usage, now);
	model_produce(&model, now, true);
	for (unsigned round = 0; round < 1500; round++) {
		struct question questions[64];
		unsigned n = schedule_draw(&seed, 20);
		uint64_t granted = schedule_draw(&seed, 6);
		uint32_t budget = usage_budget(usage, granted);
		struct usage_commit no = {.now_ms = now, .may_commit = never};

		now += (int64_t)schedule_draw(&seed, 100) ? schedule_draw(&seed, 9000)
							  : WINDOW * MIN_MS;
		for (unsigned i = 0; i < n; i++) {
			struct question *q = &questions[i];

			*q = (struct question){.tenant = schedule_draw(&seed, TENANTS),
				.stream = schedule_draw(&seed, STREAMS),
				.bytes = schedule_draw(&seed, 100),
				.is_touch = schedule_draw(&seed, 2),
				.is_record = schedule_draw(&seed, 4) == 0};
			if (q->is_record)
				add_record(usage, q, now);
			else if (q->is_touch)
				touch(usage, tenants[q->tenant], q->stream, q->bytes, now);
			else
				q->ticket = admit(usage, tenants[q->tenant], q->stream, q->bytes,
					budget, now);
		}
		usage_produce_due(usage, now);
		if (schedule_draw(&seed, 10) == 0)
			assert_int_equal(usage_commit(usage, &no), ERR_LEASE);
		model_judge(&model, questions, n, granted, now);
		assert_int_equal(try_commit(usage, now, schedule_draw(&seed, 4)), 0);
		model_produce(&model, now, false);
		for (unsigned i = 0; i < n; i++)
			if (!questions[i].is_touch && !questions[i].is_record)
				assert_int_equal(usage_verdict(usage, questions[i].ticket),
					questions[i].want);
		usage_questions_end(usage);
		if (schedule_draw(&seed, 50) == 0)
			usage = reopen(usage);
		if (round % 10 == 0)
			compare_model(usage, &model, now);
	}
	usage_produce_all(usage);
	assert_int_equal(try_commit(usage, now, 0), 0);
	model_produce(&model, now, true);
	compare_model(usage, &model, now);
	assert_int_equal(usage_meta(usage)->unsent, 0);
	usage_close(&usage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			usage_admits_up_to_the_budget_and_known_streams_beyond_it, each_setup),
		cmocka_unit_test_setup(usage_rejected_streams_leave_no_trace, each_setup),
		cmocka_unit_test_setup(usage_expired_streams_need_a_place_again, each_setup),
		cmocka_unit_test_setup(
			usage_forgets_what_was_asked_when_the_commit_fails, each_setup),
		cmocka_unit_test_setup(
			usage_fails_new_streams_when_the_outbox_is_full_and_keeps_known_ones,
			each_setup),
		cmocka_unit_test_setup(usage_keeps_half_of_the_outbox_for_new_streams, each_setup),
		cmocka_unit_test_setup(usage_rates_have_keys_of_their_own, each_setup),
		cmocka_unit_test_setup(usage_lists_each_unsent_stream_once_for_a_drain, each_setup),
		cmocka_unit_test_setup(
			usage_lists_for_a_drain_what_waits_for_its_commit, each_setup),
		cmocka_unit_test_setup(
			usage_reserves_enough_when_every_full_block_splits, each_setup),
		cmocka_unit_test_setup(usage_equals_the_model_whatever_is_asked, each_setup),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
