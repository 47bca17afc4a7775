/*
 * admit.c - the messages on admit.sock, packed and checked.
 *
 *	question  head | tenant | policies (length, bucket, name) | budgets
 *	               | n hashes | n byte counts | n policy indices
 *	answer    head | n verdicts, or n rates
 *
 * Nothing is aligned but the head.  One function says what a head may hold, for
 * packing and unpacking alike; a message has exactly the length that its head
 * and its names make.  What it says is copied out or checked first: a peer that
 * writes nonsense is refused, it is not believed by half.
 *
 * Runs in: queryd, worker.  Blocks in: nowhere.
 */
#include <string.h>

#include "shm/admit.h"
#include "shm/record.h"

#define MAGIC 0x54444d41u /* "AMDT" */

struct question_head {
	uint32_t magic;
	uint16_t version, kind;
	uint64_t id, generation;
	int64_t seen_ms;
	uint32_t n_streams;
	uint16_t n_buckets, n_policies;
	uint16_t tenant_len;
	uint8_t reserved[6];
};
_Static_assert(sizeof(struct question_head) == 48, "message format");

struct policy_head {
	uint16_t len, bucket;
};

struct answer_head {
	uint32_t magic;
	uint16_t version, kind;
	uint64_t id, generation;
	uint16_t status, asked;
	uint32_t n;
};
_Static_assert(sizeof(struct answer_head) == 32, "message format");

#define STREAM_SIZE (2 * sizeof(uint64_t) + sizeof(uint16_t))
_Static_assert(
	sizeof(struct question_head) + RECORD_TENANT_MAX +
			ADMIT_POLICIES_MAX * (sizeof(struct policy_head) + RECORD_POLICY_MAX) +
			ADMIT_BUCKETS_MAX * sizeof(uint64_t) + ADMIT_STREAMS_MAX * STREAM_SIZE <=
		ADMIT_MESSAGE_MAX,
	"the largest question fits");
_Static_assert(
	sizeof(struct answer_head) + ADMIT_STREAMS_MAX * sizeof(uint64_t) <= ADMIT_MESSAGE_MAX,
	"the largest answer fits");

/* ------------------------------------------------------------------ what may be */

static bool counts_ok(const struct question_head *head)
{
	if (!head->n_streams || head->n_streams > ADMIT_STREAMS_MAX || head->seen_ms < 0 ||
		!head->tenant_len || head->tenant_len > RECORD_TENANT_MAX)
		return false;
	switch (head->kind) {
	case ADMIT_TOUCH:
		return !head->n_buckets && head->n_policies &&
		       head->n_policies <= ADMIT_POLICIES_MAX;
	case ADMIT_ADMIT:
		return head->n_buckets && head->n_buckets <= ADMIT_BUCKETS_MAX &&
		       head->n_policies && head->n_policies <= ADMIT_POLICIES_MAX;
	case ADMIT_RATE:
		return !head->n_buckets && !head->n_policies;
	default:
		return false;
	}
}

static bool policy_ok(const struct question_head *head, struct policy_head policy, const char *name)
{
	return policy.len <= RECORD_POLICY_MAX && record_text_ok(name, policy.len) &&
	       (head->n_buckets ? policy.bucket < head->n_buckets : !policy.bucket);
}

static bool stream_ok(const struct question_head *head, uint16_t policy)
{
	return head->n_policies ? policy < head->n_policies : !policy;
}

/* ------------------------------------------------------------------ packing */

static uint8_t *put(uint8_t *at, const void *from, size_t len)
{
	if (len)
		memcpy(at, from, len);
	return at + len;
}

static uint8_t *put_policies(
	uint8_t *at, const struct question_head *head, const struct admit_question *question)
{
	for (unsigned i = 0; i < head->n_policies; i++) {
		const struct admit_policy *policy = &question->policy[i];
		struct policy_head one = {.len = policy->name.len, .bucket = policy->bucket};
		if (!policy_ok(head, one, policy->name.text))
			return NULL;
		at = put(at, &one, sizeof one);
		at = put(at, policy->name.text, policy->name.len);
	}
	return at;
}

/* In columns, so that each is one run of the same thing. */
static uint8_t *put_streams(
	uint8_t *at, const struct question_head *head, const struct admit_question *question)
{
	size_t n = head->n_streams;
	uint8_t *hashes = at, *bytes = hashes + 8 * n, *policies = bytes + 8 * n;
	for (size_t i = 0; i < n; i++) {
		const struct admit_stream *stream = &question->streams[i];
		if (!stream_ok(head, stream->policy))
			return NULL;
		memcpy(hashes + 8 * i, &stream->hash, 8);
		memcpy(bytes + 8 * i, &stream->bytes, 8);
		memcpy(policies + 2 * i, &stream->policy, 2);
	}
	return policies + 2 * n;
}

size_t admit_pack(const struct admit_question *question, uint8_t out[ADMIT_MESSAGE_MAX])
{
	struct question_head head = {
		.magic = MAGIC,
		.version = ADMIT_VERSION,
		.kind = (uint16_t)question->kind,
		.id = question->id,
		.generation = question->generation,
		.seen_ms = question->seen_ms,
		.n_streams = question->n_streams,
		.n_buckets = question->n_buckets,
		.n_policies = question->n_policies,
		.tenant_len = question->tenant.len,
	};
	if (!counts_ok(&head) || !record_text_ok(question->tenant.text, head.tenant_len))
		return 0;
	uint8_t *at = put(out, &head, sizeof head);
	at = put(at, question->tenant.text, head.tenant_len);
	at = put_policies(at, &head, question);
	if (at)
		at = put(at, question->budget, head.n_buckets * sizeof *question->budget);
	if (at)
		at = put_streams(at, &head, question);
	return at ? (size_t)(at - out) : 0;
}

size_t admit_pack_answer(const struct admit_answer *answer, uint8_t out[ADMIT_MESSAGE_MAX])
{
	bool rates = answer->asked == ADMIT_RATE;
	struct answer_head head = {
		.magic = MAGIC,
		.version = ADMIT_VERSION,
		.kind = ADMIT_ANSWER,
		.id = answer->id,
		.generation = answer->generation,
		.status = (uint16_t)answer->status,
		.asked = (uint16_t)answer->asked,
		.n = answer->n,
	};
	if ((!rates && answer->asked != ADMIT_ADMIT) || (unsigned)answer->status > ADMIT_NO_ROOM ||
		answer->n > ADMIT_STREAMS_MAX || !answer->n != (answer->status != ADMIT_DONE))
		return 0;
	for (uint32_t i = 0; !rates && i < answer->n; i++)
		if (answer->verdicts[i] > ADMIT_FAILED)
			return 0;
	uint8_t *at = put(out, &head, sizeof head);
	at = rates ? put(at, answer->rates, 8 * (size_t)answer->n)
		   : put(at, answer->verdicts, answer->n);
	return (size_t)(at - out);
}

/* ------------------------------------------------------------------ unpacking */

struct reader {
	const uint8_t *at;
	size_t left;
};

/* NULL: there are not so many bytes. */
static const void *take(struct reader *in, size_t len)
{
	const uint8_t *at = in->at;
	if (len > in->left)
		return NULL;
	in->at += len;
	in->left -= len;
	return at;
}

static bool copy(struct reader *in, void *to, size_t len)
{
	const void *from = take(in, len);
	if (from)
		memcpy(to, from, len);
	return from;
}

static bool take_policies(
	struct reader *in, const struct question_head *head, struct admit_question *question)
{
	for (unsigned i = 0; i < head->n_policies; i++) {
		struct policy_head one;
		if (!copy(in, &one, sizeof one))
			return false;
		const char *name = take(in, one.len);
		if (!name || !policy_ok(head, one, name))
			return false;
		question->policy[i] = (struct admit_policy){
			.name = {.text = name, .len = one.len}, .bucket = one.bucket};
	}
	return true;
}

static bool take_streams(
	struct reader *in, const struct question_head *head, struct admit_question *question)
{
	size_t n = head->n_streams;
	if (in->left != STREAM_SIZE * n)
		return false;
	const uint8_t *policies = in->at + 16 * n;
	for (size_t i = 0; i < n; i++) {
		uint16_t policy;
		memcpy(&policy, policies + 2 * i, 2);
		if (!stream_ok(head, policy))
			return false;
	}
	question->packed = in->at;
	return true;
}

static bool zeros(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i])
			return false;
	return true;
}

bool admit_unpack(const void *bytes, size_t len, struct admit_question *question)
{
	struct reader in = {.at = bytes, .left = len};
	struct question_head head;
	if (len > ADMIT_MESSAGE_MAX || !copy(&in, &head, sizeof head) || head.magic != MAGIC ||
		head.version != ADMIT_VERSION || !zeros(head.reserved, sizeof head.reserved) ||
		!counts_ok(&head))
		return false;
	question->kind = (enum admit_kind)head.kind;
	question->id = head.id;
	question->generation = head.generation;
	question->seen_ms = head.seen_ms;
	question->n_streams = head.n_streams;
	question->n_buckets = head.n_buckets;
	question->n_policies = head.n_policies;
	question->streams = NULL;
	question->tenant.len = head.tenant_len;
	question->tenant.text = take(&in, head.tenant_len);
	return question->tenant.text && record_text_ok(question->tenant.text, head.tenant_len) &&
	       take_policies(&in, &head, question) &&
	       copy(&in, question->budget, head.n_buckets * sizeof *question->budget) &&
	       take_streams(&in, &head, question);
}

struct admit_stream admit_stream_at(const struct admit_question *question, uint32_t i)
{
	const uint8_t *hashes = question->packed;
	const uint8_t *bytes = hashes + 8 * (size_t)question->n_streams;
	const uint8_t *policies = bytes + 8 * (size_t)question->n_streams;
	struct admit_stream stream;
	memcpy(&stream.hash, hashes + 8 * (size_t)i, 8);
	memcpy(&stream.bytes, bytes + 8 * (size_t)i, 8);
	memcpy(&stream.policy, policies + 2 * (size_t)i, 2);
	return stream;
}

bool admit_unpack_answer(const void *bytes, size_t len, struct admit_answer *answer)
{
	struct reader in = {.at = bytes, .left = len};
	struct answer_head head;
	if (len > ADMIT_MESSAGE_MAX || !copy(&in, &head, sizeof head) || head.magic != MAGIC ||
		head.version != ADMIT_VERSION || head.kind != ADMIT_ANSWER)
		return false;
	bool rates = head.asked == ADMIT_RATE;
	if ((!rates && head.asked != ADMIT_ADMIT) || head.status > ADMIT_NO_ROOM ||
		head.n > ADMIT_STREAMS_MAX || !head.n != (head.status != ADMIT_DONE) ||
		in.left != (rates ? 8 : 1) * (size_t)head.n)
		return false;
	for (uint32_t i = 0; !rates && i < head.n; i++)
		if (in.at[i] > ADMIT_FAILED)
			return false;
	*answer = (struct admit_answer){
		.id = head.id,
		.generation = head.generation,
		.status = (enum admit_status)head.status,
		.asked = (enum admit_kind)head.asked,
		.n = head.n,
		.verdicts = rates ? NULL : in.at,
		.rates = rates ? in.at : NULL,
	};
	return true;
}

uint64_t admit_rate_at(const struct admit_answer *answer, uint32_t i)
{
	uint64_t rate;
	memcpy(&rate, answer->rates + 8 * (size_t)i, 8);
	return rate;
}
