/*
 * fuzz_admit.c - the messages on admit.sock, both ways: what one end sends, the other must judge.
 *
 *	kind:1 message		even: a question, as the worker gets it; odd: an answer
 */
#include "fuzz.h"

#include "shm/admit.h"

static void hold_text(const struct admit_text *text, size_t least)
{
	hold(text->len >= least && text->len <= RECORD_TENANT_MAX);
	hold(text->len == 0 || record_text_ok(text->text, text->len));
}

/* Packed again it is understood as the same. */
static void hold_question_round(const struct admit_question *question)
{
	static struct admit_stream streams[ADMIT_STREAMS_MAX];
	static uint8_t out[ADMIT_MESSAGE_MAX];
	static struct admit_question copy, again;
	uint8_t *exact;
	size_t n;

	copy = *question;
	for (uint32_t i = 0; i < question->n_streams; i++)
		streams[i] = admit_stream_at(question, i);
	copy.streams = streams;
	n = admit_pack(&copy, out);
	hold(n > 0);
	exact = fuzz_copy(out, n);
	hold(admit_unpack(exact, n, &again));
	hold(again.kind == question->kind && again.id == question->id &&
		again.generation == question->generation && again.seen_ms == question->seen_ms);
	hold(again.n_streams == question->n_streams);
	for (uint32_t i = 0; i < again.n_streams; i++) {
		struct admit_stream stream = admit_stream_at(&again, i);

		hold(stream.hash == streams[i].hash && stream.bytes == streams[i].bytes &&
			stream.policy == streams[i].policy);
	}
	free(exact);
}

static void run_question(const uint8_t *data, size_t len)
{
	static struct admit_question question;

	if (!admit_unpack(data, len, &question))
		return;
	hold(question.kind >= ADMIT_TOUCH && question.kind <= ADMIT_RATE);
	hold(question.n_buckets <= ADMIT_BUCKETS_MAX && question.n_policies <= ADMIT_POLICIES_MAX);
	hold(question.n_streams >= 1 && question.n_streams <= ADMIT_STREAMS_MAX);
	hold_text(&question.tenant, 1);
	for (unsigned i = 0; i < question.n_policies; i++) {
		hold_text(&question.policy[i].name, 0);
		if (question.kind == ADMIT_ADMIT)
			hold(question.policy[i].bucket < question.n_buckets);
	}
	for (uint32_t i = 0; i < question.n_streams; i++)
		if (question.kind != ADMIT_RATE)
			hold(admit_stream_at(&question, i).policy < question.n_policies);
	hold_question_round(&question);
}

static void run_answer(const uint8_t *data, size_t len)
{
	static uint8_t out[ADMIT_MESSAGE_MAX];
	static uint64_t rates[ADMIT_STREAMS_MAX];
	struct admit_answer answer, copy, again;
	size_t n;

	if (!admit_unpack_answer(data, len, &answer))
		return;
	hold(answer.asked == ADMIT_ADMIT || answer.asked == ADMIT_RATE);
	hold(answer.status <= ADMIT_NO_ROOM && answer.n <= ADMIT_STREAMS_MAX);
	hold(answer.n == 0 || answer.status == ADMIT_DONE);
	for (uint32_t i = 0; i < answer.n; i++)
		if (answer.asked == ADMIT_ADMIT)
			hold(answer.verdicts[i] <= ADMIT_FAILED);
		else
			rates[i] = admit_rate_at(&answer, i);
	copy = answer;
	copy.rates = (const uint8_t *)rates;
	n = admit_pack_answer(&copy, out);
	hold(n > 0);
	hold(admit_unpack_answer(out, n, &again));
	hold(again.id == answer.id && again.n == answer.n && again.status == answer.status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct input in = {data, len};
	unsigned kind = (unsigned)take(&in, 1);
	uint8_t *message = fuzz_copy(in.at, in.left);

	if (kind % 2 == 0)
		run_question(message, in.left);
	else
		run_answer(message, in.left);
	free(message);
	return 0;
}
