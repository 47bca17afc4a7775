/*
 * wire.c - the messages of limits.proto that come by the thousand: requests in, answers out.
 *
 *	request  { string tenant = 1; repeated StreamMetadata streams = 2; }
 *	         StreamMetadata { uint64 streamHash = 1; uint64 totalSize = 2; string ingestionPolicy = 3; }
 *	results  { repeated { uint64 streamHash = 1; uint32 reason = 2; } = 1; }
 *	rates    { repeated { uint64 streamHash = 1; uint64 rate = 2; } = 1; }
 *	ready    { map<int32, int64> assignedPartitions = 1; }
 *
 * A request is read twice: once to count its streams, so that they lie in one
 * piece of memory together with the texts, which take no more than the message.
 *
 * Pure.
 */
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "varint.h"

#include "shm/check.h"
#include "shm/record.h"

#define GROUPS_MAX	   100 /* within each other */
#define REASON_FAILED	   1
#define REASON_MAX_STREAMS 2

/* ------------------------------------------------------------------ fields */

struct field {
	uint32_t number;
	unsigned type;
	uint64_t value;	    /* VARINT */
	struct reader body; /* BYTES */
};

static bool read_tag(struct reader *in, struct field *field)
{
	uint64_t tag;
	if (!read_varint(in, &tag) || tag > UINT32_MAX || tag < 8)
		return false;
	field->number = (uint32_t)(tag >> 3);
	field->type = tag & 7;
	return true;
}

static bool read_value(struct reader *in, struct field *field)
{
	switch (field->type) {
	case VARINT:
		return read_varint(in, &field->value);
	case FIXED64:
		return skip_bytes(in, 8);
	case FIXED32:
		return skip_bytes(in, 4);
	case BYTES:
		return read_bytes(in, &field->body);
	default:
		return false;
	}
}

/* Up to the end of group `number`. */
static bool skip_group(struct reader *in, uint32_t number)
{
	uint32_t open[GROUPS_MAX];
	unsigned depth = 0;
	open[depth++] = number;
	while (depth) {
		struct field field;
		if (!read_tag(in, &field))
			return false;
		if (field.type == GROUP_END) {
			if (field.number != open[--depth])
				return false;
		} else if (field.type == GROUP) {
			if (depth == GROUPS_MAX)
				return false;
			open[depth++] = field.number;
		} else if (!read_value(in, &field)) {
			return false;
		}
	}
	return true;
}

/* The next field; groups, which none of ours is, are passed over.  1, 0 at the end, -1: garbage. */
static int next_field(struct reader *in, struct field *field)
{
	while (in->at < in->end) {
		if (!read_tag(in, field))
			return -1;
		if (field->type != GROUP)
			return read_value(in, field) ? 1 : -1;
		if (!skip_group(in, field->number))
			return -1;
	}
	return 0;
}

/* ------------------------------------------------------------------ requests */

enum wrong { FINE, NO_MESSAGE, NO_TEXT, TOO_LONG };

struct texts {
	char *at;
	const char *last; /* policy */
	size_t last_len;
};

/* A checked copy with its NUL. */
static enum wrong copy_text(
	struct texts *texts, const struct reader *body, size_t max, const char **text)
{
	size_t len = (size_t)(body->end - body->at);
	if (len > max)
		return TOO_LONG;
	if (!record_text_ok(body->at, len))
		return NO_TEXT;
	memcpy(texts->at, body->at, len);
	texts->at[len] = 0;
	*text = texts->at;
	texts->at += len + 1;
	return FINE;
}

/* The same policy as that of the stream before, mostly. */
static enum wrong copy_policy(struct texts *texts, const struct reader *body, const char **policy)
{
	size_t len = (size_t)(body->end - body->at);
	enum wrong wrong = FINE;
	if (!len)
		*policy = "";
	else if (texts->last && texts->last_len == len && !memcmp(texts->last, body->at, len))
		*policy = texts->last;
	else
		wrong = copy_text(texts, body, RECORD_POLICY_MAX, policy);
	if (!wrong && len) {
		texts->last = *policy;
		texts->last_len = len;
	}
	return wrong;
}

/*
 * As nearly everybody writes it: hash, size, policy, in this order, at most once each.  false: it
 * is another way, or garbage.
 */
static inline bool read_plain(struct reader in, struct ask_stream *stream, struct reader *policy)
{
	uint64_t hash = 0, bytes = 0;
	if (in.at < in.end && *in.at == (1 << 3 | VARINT)) {
		in.at++;
		if (!read_varint(&in, &hash))
			return false;
	}
	if (in.at < in.end && *in.at == (2 << 3 | VARINT)) {
		in.at++;
		if (!read_varint(&in, &bytes))
			return false;
	}
	if (in.at < in.end && *in.at == (3 << 3 | BYTES)) {
		in.at++;
		if (!read_bytes(&in, policy))
			return false;
	}
	*stream = (struct ask_stream){.hash = hash, .bytes = bytes, .policy = ""};
	return in.at == in.end;
}

static bool read_any(struct reader in, struct ask_stream *stream, struct reader *policy)
{
	struct field field;
	int more;
	while ((more = next_field(&in, &field)) > 0) {
		if (field.number == 1 && field.type == VARINT)
			stream->hash = field.value;
		else if (field.number == 2 && field.type == VARINT)
			stream->bytes = field.value;
		else if (field.number == 3 && field.type == BYTES)
			*policy = field.body;
	}
	return !more;
}

static inline enum wrong read_stream(
	struct reader in, struct texts *texts, struct ask_stream *stream)
{
	struct reader policy = {0};
	if (!read_plain(in, stream, &policy)) {
		*stream = (struct ask_stream){.policy = ""};
		policy = (struct reader){0};
		if (!read_any(in, stream, &policy))
			return NO_MESSAGE;
	}
	return policy.at ? copy_policy(texts, &policy, &stream->policy) : FINE;
}

/* As next_field, and sooner when it is a stream. */
static inline int next_of_request(struct reader *in, struct field *field)
{
	const uint8_t *at = in->at;
	if (in->end - at < 2 || at[0] != (2 << 3 | BYTES) || at[1] >= 0x80 ||
		at[1] > in->end - at - 2)
		return next_field(in, field);
	in->at = at + 2 + at[1];
	field->number = 2;
	field->type = BYTES;
	field->body = (struct reader){.at = at + 2, .end = in->at};
	return 1;
}

static bool say(char why[WIRE_WHY_SIZE], const char *what, enum wrong wrong)
{
	switch (wrong) {
	case NO_MESSAGE:
		snprintf(why, WIRE_WHY_SIZE, "%s: not a protobuf message of this method", what);
		break;
	case NO_TEXT:
		snprintf(why, WIRE_WHY_SIZE, "%s: not UTF-8 text without NUL", what);
		break;
	case TOO_LONG:
		snprintf(why, WIRE_WHY_SIZE, "%s: longer than %d bytes", what, RECORD_TENANT_MAX);
		break;
	case FINE:
		return true;
	}
	return false;
}
_Static_assert(RECORD_TENANT_MAX == RECORD_POLICY_MAX, "one sentence for both");

/* Finds the tenant, counts the streams. */
static bool read_outline(
	struct reader in, struct wire_request *request, struct reader *tenant, char *why)
{
	struct field field;
	int more;
	while ((more = next_of_request(&in, &field)) > 0) {
		if (field.number == 1 && field.type == BYTES)
			*tenant = field.body;
		else if (field.number == 2 && field.type == BYTES)
			request->n++;
	}
	if (more < 0)
		return say(why, "the request", NO_MESSAGE);
	if (tenant->at == tenant->end) {
		snprintf(why, WIRE_WHY_SIZE, "tenant: missing; say whose streams these are");
		return false;
	}
	if (request->n > ASK_STREAMS_MAX) {
		snprintf(why, WIRE_WHY_SIZE,
			"streams: %zu of them, more than %d; ask in several calls", request->n,
			ASK_STREAMS_MAX);
		return false;
	}
	return true;
}

static bool read_streams(
	struct reader in, struct wire_request *request, struct texts *texts, char *why)
{
	struct field field;
	char what[64];
	size_t n = 0;
	while (next_of_request(&in, &field) > 0) {
		if (field.number != 2 || field.type != BYTES)
			continue;
		enum wrong wrong = read_stream(field.body, texts, &request->streams[n]);
		if (wrong) {
			snprintf(what, sizeof(what), "streams[%zu]%s", n,
				wrong == NO_MESSAGE ? "" : ".ingestionPolicy");
			return say(why, what, wrong);
		}
		n++;
	}
	return true;
}

bool wire_read_request(
	const uint8_t *message, size_t len, struct wire_request *request, char why[WIRE_WHY_SIZE])
{
	struct reader all = {.at = message, .end = message + len}, tenant = {0};
	*request = (struct wire_request){0};
	if (!read_outline(all, request, &tenant, why))
		return false;
	/* A text takes its length and a NUL here, and its length and two bytes at least there. */
	size_t streams = request->n * sizeof(*request->streams);
	request->memory = malloc(streams + len + 1);
	must_get(request->memory);
	request->streams = request->memory;
	struct texts texts = {.at = (char *)request->memory + streams};
	enum wrong wrong = copy_text(&texts, &tenant, RECORD_TENANT_MAX, &request->tenant);
	if (say(why, "tenant", wrong) && read_streams(all, request, &texts, why))
		return true;
	free(request->memory);
	*request = (struct wire_request){0};
	return false;
}

bool wire_read_empty(const uint8_t *message, size_t len)
{
	struct reader all = {.at = message, .end = message + len};
	struct field field;
	int more;
	while ((more = next_field(&all, &field)) > 0)
		;
	return !more;
}

/* ------------------------------------------------------------------ answers */

/* Field 1 of the answer: a message of two numbers; of a map also those that are 0. */
#define PAIR_MAX 24
static uint8_t *put_pair(uint8_t *at, uint64_t first, uint64_t second, bool zeros)
{
	uint8_t *body = at + 2, *end = body; /* its length takes one byte */
	if (first || zeros) {
		*end++ = 1 << 3 | VARINT;
		end = put_varint(end, first);
	}
	if (second || zeros) {
		*end++ = 2 << 3 | VARINT;
		end = put_varint(end, second);
	}
	at[0] = 1 << 3 | BYTES;
	at[1] = (uint8_t)(end - body);
	return end;
}

static uint8_t *room_for(size_t pairs)
{
	uint8_t *bytes = malloc(pairs * PAIR_MAX + 1);
	must_get(bytes);
	return bytes;
}

uint8_t *wire_write_results(const struct ask *ask, size_t *len)
{
	size_t n = 0;
	for (size_t i = 0; i < ask->n; i++)
		n += ask->streams[i].result != ASK_ACCEPTED;
	uint8_t *bytes = room_for(n), *at = bytes;
	for (size_t i = 0; n && i < ask->n; i++) {
		const struct ask_stream *stream = &ask->streams[i];
		if (stream->result != ASK_ACCEPTED)
			at = put_pair(at, stream->hash,
				stream->result == ASK_REJECTED ? REASON_MAX_STREAMS : REASON_FAILED,
				false);
	}
	*len = (size_t)(at - bytes);
	return bytes;
}

uint8_t *wire_write_rates(const struct ask *ask, size_t *len)
{
	uint8_t *bytes = room_for(ask->n), *at = bytes;
	for (size_t i = 0; i < ask->n; i++) {
		const struct ask_stream *stream = &ask->streams[i];
		at = put_pair(
			at, stream->hash, stream->result == ASK_ACCEPTED ? stream->rate : 0, false);
	}
	*len = (size_t)(at - bytes);
	return bytes;
}

uint8_t *wire_write_partitions(const struct asker_partition *partitions, size_t n, size_t *len)
{
	uint8_t *bytes = room_for(n), *at = bytes;
	for (size_t i = 0; i < n; i++)
		at = put_pair(
			at, partitions[i].partition, (uint64_t)partitions[i].assigned_at_ns, true);
	*len = (size_t)(at - bytes);
	return bytes;
}
