/*
 * peer_message.c - the bytes of what is asked of peers and of what they answer (limits.proto).
 *
 *	request   1 tenant, 2 stream { 1 hash, 2 bytes, 3 policy } ...
 *	answer    1 { 1 first, 2 second } ...	results, rates and maps alike
 *
 * Requests are written straight into the frame.  Answers are a stranger's bytes:
 * each is read once, nothing is allocated for them.
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <string.h>

#include "peers_private.h"
#include "varint.h"

#define TAG(field, type) ((uint8_t)((field) << 3 | (type)))

/* --- requests ----------------------------------------------------------------------------------- */

static size_t text_size(const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text);

	return len == 0 ? 0 : 1 + varint_size(len) + len;
}

/* An empty one is not written: it is the default. */
static uint8_t *put_text(uint8_t *to, unsigned field, const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text);

	if (len == 0)
		return to;
	*to++ = TAG(field, BYTES);
	to = put_varint(to, len);
	memcpy(to, text, len);
	return to + len;
}

static size_t number_size(uint64_t value)
{
	return value == 0 ? 0 : 1 + varint_size(value);
}

static uint8_t *put_number(uint8_t *to, unsigned field, uint64_t value)
{
	if (value == 0)
		return to;
	*to++ = TAG(field, VARINT);
	return put_varint(to, value);
}

static size_t fields_size(const struct ask_stream *stream)
{
	return number_size(stream->hash) + number_size(stream->bytes) + text_size(stream->policy);
}

size_t peer_message_base(const char *tenant)
{
	return text_size(tenant);
}

size_t peer_message_stream(const struct ask_stream *stream)
{
	size_t fields = fields_size(stream);

	return 1 + varint_size(fields) + fields;
}

uint8_t *peer_message_put_tenant(uint8_t *to, const char *tenant)
{
	return put_text(to, 1, tenant);
}

uint8_t *peer_message_put_stream(uint8_t *to, const struct ask_stream *stream)
{
	*to++ = TAG(2, BYTES);
	to = put_varint(to, fields_size(stream));
	to = put_number(to, 1, stream->hash);
	to = put_number(to, 2, stream->bytes);
	return put_text(to, 3, stream->policy);
}

/* --- answers ------------------------------------------------------------------------------------ */

/* Of a field that we do not know. */
static bool skip_field(struct reader *in, unsigned type)
{
	struct reader inside;
	uint64_t value;

	switch (type) {
	case VARINT:
		return read_varint(in, &value);
	case FIXED64:
		return skip_bytes(in, 8);
	case BYTES:
		return read_bytes(in, &inside);
	case FIXED32:
		return skip_bytes(in, 4);
	default: /* groups are of another age */
		return false;
	}
}

static bool get_pair(struct reader *in, uint64_t pair[2])
{
	uint64_t tag;

	pair[0] = pair[1] = 0;
	while (in->at < in->end) {
		if (!read_varint(in, &tag) || tag >> 3 == 0)
			return false;
		if (tag == TAG(1, VARINT) || tag == TAG(2, VARINT)) {
			if (!read_varint(in, &pair[(tag >> 3) - 1]))
				return false;
		} else if (tag >> 3 <= 2 || !skip_field(in, tag & 7)) {
			return false;
		}
	}
	return true;
}

bool peer_message_pairs(const uint8_t *message, size_t len,
	void (*each)(void *arg, uint64_t first, uint64_t second), void *arg)
{
	struct reader in = {message, message + len}, inside;
	uint64_t tag, pair[2];

	while (in.at < in.end) {
		if (!read_varint(&in, &tag) || tag >> 3 == 0)
			return false;
		if (tag == TAG(1, BYTES)) {
			if (!read_bytes(&in, &inside) || !get_pair(&inside, pair))
				return false;
			each(arg, pair[0], pair[1]);
		} else if (tag >> 3 == 1 || !skip_field(&in, tag & 7)) {
			return false;
		}
	}
	return true;
}
