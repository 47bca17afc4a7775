/*
 * ask_wire.c - questions and answers as bytes, written by hand.
 *
 *	ExceedsLimitsRequest, UpdateRatesRequest  { string tenant = 1; repeated Stream streams = 2; }
 *	Stream                                    { uint64 hash = 1; uint64 size = 2; string policy = 3; }
 *	all answers but health                    { repeated { key = 1; value = 2; } = 1; }
 *	health                                    { value = 1; }
 *
 * Runs in: load, mode `ask`.
 */
#include <string.h>

#include "ask_wire.h"

#define VARINT_MAX 10

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

static uint8_t *put_number(uint8_t *at, unsigned field, uint64_t value)
{
	if (value == 0)
		return at;
	*at++ = (uint8_t)(field << 3);
	return put_varint(at, value);
}

static uint8_t *put_bytes(uint8_t *at, unsigned field, const void *bytes, size_t len)
{
	*at++ = (uint8_t)(field << 3 | 2);
	at = put_varint(at, len);
	memcpy(at, bytes, len);
	return at + len;
}

static size_t stream_room(const struct ask_options *options)
{
	size_t policy = options->policy ? strlen(options->policy) : options->policies ? 16 : 0;

	return 3 * (1 + VARINT_MAX) + policy;
}

size_t ask_wire_room(const struct ask_options *options)
{
	return ASK_PREFIX + 1 + VARINT_MAX + sizeof(((struct ask_question *)0)->tenant) +
	       options->per_request * (1 + VARINT_MAX + stream_room(options));
}

static size_t put_stream(
	const struct ask_options *options, const struct ask_stream *stream, uint8_t *out)
{
	char name[MODEL_NAME_SIZE];
	const char *policy = ask_plan_policy(options, stream, name);
	uint8_t *at = put_number(put_number(out, 1, stream->hash), 2, stream->size);

	if (*policy)
		at = put_bytes(at, 3, policy, strlen(policy));
	return (size_t)(at - out);
}

size_t ask_wire_question(
	const struct ask_options *options, const struct ask_question *question, uint8_t *out)
{
	uint8_t *at = out + ASK_PREFIX, stream[3 * (1 + VARINT_MAX) + 256];
	size_t len;

	if (options->method <= ASK_ECHO) {
		if (question->tenant[0])
			at = put_bytes(at, 1, question->tenant, strlen(question->tenant));
		for (size_t i = 0; i < question->n; i++) {
			len = put_stream(options, &question->streams[i], stream);
			at = put_bytes(at, 2, stream, len);
		}
	}
	len = (size_t)(at - out - ASK_PREFIX);
	out[0] = 0;
	for (int i = 0; i < 4; i++)
		out[1 + i] = (uint8_t)(len >> (24 - 8 * i));
	return (size_t)(at - out);
}

/* --- answers --------------------------------------------------------------------------------- */

struct reader {
	const uint8_t *at, *end;
	bool wrong;
};

static uint64_t get_varint(struct reader *r)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (r->at == r->end)
			break;
		if (shift < 64)
			value |= (uint64_t)(*r->at & 0x7f) << shift;
		if (!(*r->at++ & 0x80))
			return value;
	}
	r->wrong = true;
	return 0;
}

/* What a field has: a number, or bytes. */
static unsigned get_field(struct reader *r, uint64_t *number, struct reader *bytes)
{
	uint64_t tag = get_varint(r), len;

	*number = 0;
	*bytes = (struct reader){r->at, r->at, false};
	if ((tag & 7) == 0) {
		*number = get_varint(r);
	} else if ((tag & 7) == 2) {
		len = get_varint(r);
		r->wrong |= len > (uint64_t)(r->end - r->at);
		if (!r->wrong) {
			*bytes = (struct reader){r->at, r->at + len, false};
			r->at += len;
		}
	} else {
		r->wrong = true;
	}
	return (unsigned)(tag >> 3);
}

static bool get_result(struct reader r, struct ask_result *result)
{
	*result = (struct ask_result){0};
	while (r.at < r.end && !r.wrong) {
		struct reader bytes;
		uint64_t number;
		unsigned field = get_field(&r, &number, &bytes);

		if (field == 1)
			result->key = number;
		else if (field == 2)
			result->value = number;
	}
	return !r.wrong;
}

bool ask_wire_answer(enum ask_method method, const uint8_t *bytes, size_t len,
	struct ask_result *results, size_t cap, size_t *n)
{
	struct reader r = {bytes + ASK_PREFIX, bytes + len, false};
	size_t said = 0;

	*n = 0;
	if (len < ASK_PREFIX || bytes[0] != 0)
		return false;
	for (int i = 0; i < 4; i++)
		said = said << 8 | bytes[1 + i];
	if (said != len - ASK_PREFIX)
		return false;
	while (r.at < r.end && !r.wrong && method != ASK_ECHO) {
		struct ask_result result = {0};
		struct reader inner;
		unsigned field = get_field(&r, &result.value, &inner);

		if (field != 1)
			continue;
		if (method != ASK_HEALTH && !get_result(inner, &result))
			return false;
		if (*n < cap)
			results[*n] = result;
		++*n;
	}
	return !r.wrong;
}
