/*
 * test_admit.c - messages of admit.sock: what is packed comes out, and nothing else is believed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/admit.h"

static uint8_t message[ADMIT_MESSAGE_MAX];
static char longest[300];
static struct admit_stream streams[ADMIT_STREAMS_MAX + 1];

static struct admit_text text(const char *name)
{
	return (struct admit_text){.text = name, .len = (uint16_t)strlen(name)};
}

/* An ADMIT of three streams, two policies, two buckets. */
static void sample(struct admit_question *question)
{
	streams[0] = (struct admit_stream){.hash = 0, .bytes = 1, .policy = 0};
	streams[1] = (struct admit_stream){.hash = UINT64_MAX, .bytes = UINT64_MAX, .policy = 1};
	streams[2] = (struct admit_stream){.hash = 7, .bytes = 0, .policy = 1};
	*question = (struct admit_question){
		.kind = ADMIT_ADMIT,
		.id = 42,
		.generation = 99,
		.seen_ms = 1700000000123,
		.tenant = text("tenant-\xc3\xa4"),
		.n_buckets = 2,
		.n_policies = 2,
		.n_streams = 3,
		.budget = {5, ADMIT_NO_LIMIT},
		.policy = {{.name = text(""), .bucket = 0}, {.name = text("gold"), .bucket = 1}},
		.streams = streams,
	};
}

/* As large as a question can be. */
static void largest(struct admit_question *question)
{
	sample(question);
	question->tenant = (struct admit_text){.text = longest, .len = 256};
	question->n_buckets = ADMIT_BUCKETS_MAX;
	question->n_policies = ADMIT_POLICIES_MAX;
	question->n_streams = ADMIT_STREAMS_MAX;
	for (unsigned i = 0; i < ADMIT_POLICIES_MAX; i++) {
		question->budget[i] = i;
		question->policy[i] = (struct admit_policy){
			.name = {.text = longest, .len = 256}, .bucket = (uint16_t)i};
	}
	for (uint32_t i = 0; i < ADMIT_STREAMS_MAX; i++)
		streams[i] = (struct admit_stream){.hash = i * UINT64_C(0x9e3779b97f4a7c15),
			.bytes = i,
			.policy = (uint16_t)(i % ADMIT_POLICIES_MAX)};
}

static void assert_text(struct admit_text got, struct admit_text want)
{
	assert_int_equal(got.len, want.len);
	assert_memory_equal(got.text, want.text, want.len);
}

static void assert_same(const struct admit_question *got, const struct admit_question *want)
{
	assert_int_equal(got->kind, want->kind);
	assert_int_equal(got->id, want->id);
	assert_int_equal(got->generation, want->generation);
	assert_int_equal(got->seen_ms, want->seen_ms);
	assert_text(got->tenant, want->tenant);
	assert_int_equal(got->n_buckets, want->n_buckets);
	assert_int_equal(got->n_policies, want->n_policies);
	assert_int_equal(got->n_streams, want->n_streams);
	for (unsigned i = 0; i < want->n_buckets; i++)
		assert_true(got->budget[i] == want->budget[i]);
	for (unsigned i = 0; i < want->n_policies; i++) {
		assert_text(got->policy[i].name, want->policy[i].name);
		assert_int_equal(got->policy[i].bucket, want->policy[i].bucket);
	}
	for (uint32_t i = 0; i < want->n_streams; i++) {
		struct admit_stream stream = admit_stream_at(got, i);
		assert_true(stream.hash == want->streams[i].hash);
		assert_true(stream.bytes == want->streams[i].bytes);
		assert_int_equal(stream.policy, want->streams[i].policy);
	}
}

/* From a block of exactly that length, so that a sanitizer sees a byte too much. */
static bool unpack_exactly(const void *bytes, size_t len, struct admit_question *question)
{
	uint8_t *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	bool ok = admit_unpack(copy, len, question);
	if (ok)
		for (uint32_t i = 0; i < question->n_streams; i++)
			admit_stream_at(question, i);
	free(copy);
	return ok;
}

static bool unpack_answer_exactly(const void *bytes, size_t len, struct admit_answer *answer)
{
	uint8_t *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	bool ok = admit_unpack_answer(copy, len, answer);
	for (uint32_t i = 0; ok && answer->rates && i < answer->n; i++)
		admit_rate_at(answer, i);
	free(copy);
	return ok;
}

static void admit_a_question_comes_out_as_it_went_in(void **state)
{
	static struct admit_question want, got;
	(void)state;
	sample(&want);
	size_t len = admit_pack(&want, message);
	assert_true(len > 0);
	assert_true(admit_unpack(message, len, &got));
	assert_same(&got, &want);

	want.kind = ADMIT_TOUCH;
	want.n_buckets = 0;
	want.policy[1].bucket = 0;
	len = admit_pack(&want, message);
	assert_true(admit_unpack(message, len, &got));
	assert_same(&got, &want);

	want.kind = ADMIT_RATE;
	want.n_policies = 0;
	streams[1].policy = streams[2].policy = 0;
	len = admit_pack(&want, message);
	assert_true(admit_unpack(message, len, &got));
	assert_same(&got, &want);
}

static void admit_the_largest_question_fits(void **state)
{
	static struct admit_question want, got;
	(void)state;
	largest(&want);
	size_t len = admit_pack(&want, message);
	assert_true(len > 50000 && len <= ADMIT_MESSAGE_MAX);
	assert_true(admit_unpack(message, len, &got));
	assert_same(&got, &want);
}

static void refuses(void (*spoil)(struct admit_question *))
{
	struct admit_question question;
	largest(&question);
	spoil(&question);
	assert_int_equal(admit_pack(&question, message), 0);
}

static void no_streams(struct admit_question *q)
{
	q->n_streams = 0;
}
static void too_many_streams(struct admit_question *q)
{
	q->n_streams = ADMIT_STREAMS_MAX + 1;
}
static void no_tenant(struct admit_question *q)
{
	q->tenant.len = 0;
}
static void long_tenant(struct admit_question *q)
{
	q->tenant.len = 257;
}
static void odd_tenant(struct admit_question *q)
{
	q->tenant = text("\xff");
}
static void nul_in_tenant(struct admit_question *q)
{
	q->tenant = (struct admit_text){.text = "a\0b", .len = 3};
}
static void long_policy(struct admit_question *q)
{
	q->policy[3].name.len = 257;
}
static void odd_policy(struct admit_question *q)
{
	q->policy[3].name = text("\xed\xa0\x80");
}
static void no_such_bucket(struct admit_question *q)
{
	q->policy[5].bucket = ADMIT_BUCKETS_MAX;
}
static void no_such_policy(struct admit_question *q)
{
	(void)q;
	streams[9].policy = ADMIT_POLICIES_MAX;
}
static void too_many_policies(struct admit_question *q)
{
	q->n_policies = ADMIT_POLICIES_MAX + 1;
}
static void too_many_buckets(struct admit_question *q)
{
	q->n_buckets = ADMIT_BUCKETS_MAX + 1;
}
static void no_buckets(struct admit_question *q)
{
	q->n_buckets = 0;
}
static void no_policies(struct admit_question *q)
{
	q->n_policies = 0;
}
static void touch_with_budget(struct admit_question *q)
{
	q->kind = ADMIT_TOUCH;
}
static void rate_with_policies(struct admit_question *q)
{
	q->kind = ADMIT_RATE;
	q->n_buckets = 0;
}
static void answer_for_a_question(struct admit_question *q)
{
	q->kind = ADMIT_ANSWER;
}
static void before_time(struct admit_question *q)
{
	q->seen_ms = -1;
}

static void admit_refuses_to_pack_what_breaks_a_bound(void **state)
{
	(void)state;
	refuses(no_streams);
	refuses(too_many_streams);
	refuses(no_tenant);
	refuses(long_tenant);
	refuses(odd_tenant);
	refuses(nul_in_tenant);
	refuses(long_policy);
	refuses(odd_policy);
	refuses(no_such_bucket);
	refuses(no_such_policy);
	refuses(too_many_policies);
	refuses(too_many_buckets);
	refuses(no_buckets);
	refuses(no_policies);
	refuses(touch_with_budget);
	refuses(rate_with_policies);
	refuses(answer_for_a_question);
	refuses(before_time);
}

static void admit_a_question_has_exactly_its_length(void **state)
{
	struct admit_question question;
	(void)state;
	sample(&question);
	size_t len = admit_pack(&question, message);
	for (size_t n = 0; n < len; n++)
		assert_false(unpack_exactly(message, n, &question));
	message[len] = 0;
	assert_false(unpack_exactly(message, len + 1, &question));
	assert_true(unpack_exactly(message, len, &question));
}

static struct admit_answer verdicts_of(const uint8_t *verdicts, uint32_t n)
{
	return (struct admit_answer){.id = 7,
		.generation = 8,
		.status = n ? ADMIT_DONE : ADMIT_NOT_READY,
		.asked = ADMIT_ADMIT,
		.n = n,
		.verdicts = verdicts};
}

static void admit_an_answer_comes_out_as_it_went_in(void **state)
{
	static const uint8_t verdicts[] = {ADMIT_KNOWN, ADMIT_NEW, ADMIT_REJECTED, ADMIT_FAILED};
	static uint64_t rates[ADMIT_STREAMS_MAX];
	struct admit_answer want = verdicts_of(verdicts, 4), got;
	(void)state;
	size_t len = admit_pack_answer(&want, message);
	assert_true(admit_unpack_answer(message, len, &got));
	assert_int_equal(got.id, 7);
	assert_int_equal(got.generation, 8);
	assert_int_equal(got.status, ADMIT_DONE);
	assert_int_equal(got.asked, ADMIT_ADMIT);
	assert_int_equal(got.n, 4);
	assert_memory_equal(got.verdicts, verdicts, 4);

	want = verdicts_of(NULL, 0);
	len = admit_pack_answer(&want, message);
	assert_true(admit_unpack_answer(message, len, &got));
	assert_int_equal(got.status, ADMIT_NOT_READY);
	assert_int_equal(got.n, 0);

	for (uint32_t i = 0; i < ADMIT_STREAMS_MAX; i++)
		rates[i] = i * UINT64_C(0x9e3779b97f4a7c15);
	want = (struct admit_answer){.id = 1,
		.asked = ADMIT_RATE,
		.n = ADMIT_STREAMS_MAX,
		.rates = (const uint8_t *)rates};
	len = admit_pack_answer(&want, message);
	assert_true(admit_unpack_answer(message, len, &got));
	for (uint32_t i = 0; i < ADMIT_STREAMS_MAX; i++)
		assert_true(admit_rate_at(&got, i) == rates[i]);
}

static void admit_an_answer_that_makes_no_sense_is_refused(void **state)
{
	static const uint8_t good[] = {ADMIT_NEW}, bad[] = {ADMIT_FAILED + 1};
	struct admit_answer answer = verdicts_of(bad, 1);
	(void)state;
	assert_int_equal(admit_pack_answer(&answer, message), 0);
	answer = verdicts_of(good, 1);
	answer.status = ADMIT_NOT_READY; /* nothing was done, so there are no verdicts */
	assert_int_equal(admit_pack_answer(&answer, message), 0);
	answer.status = ADMIT_DONE;
	answer.asked = ADMIT_TOUCH;
	assert_int_equal(admit_pack_answer(&answer, message), 0);
	answer.asked = ADMIT_ADMIT;
	size_t len = admit_pack_answer(&answer, message);
	for (size_t n = 0; n < len; n++)
		assert_false(unpack_answer_exactly(message, n, &answer));
	assert_false(unpack_answer_exactly(message, len + 1, &answer));
	message[len - 1] = ADMIT_FAILED + 1;
	assert_false(unpack_answer_exactly(message, len, &answer));
}

static uint64_t rng_state;

static uint64_t rng(void)
{
	uint64_t z = rng_state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* What is accepted after bytes were changed is within all bounds: it packs to the same bytes. */
static void admit_damaged_messages_are_refused_or_sound(void **state)
{
	static struct admit_question question, got;
	static uint8_t good[ADMIT_MESSAGE_MAX], bad[ADMIT_MESSAGE_MAX], again[ADMIT_MESSAGE_MAX];
	unsigned accepted = 0;
	(void)state;
	const char *seed = getenv("TALLY_SEED");
	rng_state = seed ? strtoull(seed, NULL, 0) : 1;
	sample(&question);
	size_t len = admit_pack(&question, good);
	for (unsigned round = 0; round < 200000; round++) {
		size_t n = rng() % 8 ? len : rng() % (len + 16);
		memcpy(bad, good, sizeof bad);
		for (unsigned k = (unsigned)(rng() % 4); k; k--)
			bad[rng() % len] = (uint8_t)(rng() % 3 ? rng() % 4 : rng());
		struct admit_answer answer;
		unpack_answer_exactly(bad, n, &answer);
		if (!unpack_exactly(bad, n, &got))
			continue;
		accepted++;
		assert_true(admit_unpack(bad, n, &got));
		struct admit_stream copy[3];
		assert_true(got.n_streams <= 3);
		for (uint32_t i = 0; i < got.n_streams; i++)
			copy[i] = admit_stream_at(&got, i);
		got.streams = copy;
		assert_int_equal(admit_pack(&got, again), n);
		assert_memory_equal(again, bad, n);
	}
	assert_true(accepted > 1000);
}

int main(void)
{
	memset(longest, 'x', sizeof longest);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(admit_a_question_comes_out_as_it_went_in),
		cmocka_unit_test(admit_the_largest_question_fits),
		cmocka_unit_test(admit_refuses_to_pack_what_breaks_a_bound),
		cmocka_unit_test(admit_a_question_has_exactly_its_length),
		cmocka_unit_test(admit_an_answer_comes_out_as_it_went_in),
		cmocka_unit_test(admit_an_answer_that_makes_no_sense_is_refused),
		cmocka_unit_test(admit_damaged_messages_are_refused_or_sound),
	};
	return cmocka_run_group_tests_name("admit", tests, NULL, NULL);
}
