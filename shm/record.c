/*
 * record.c - Kafka message bytes <-> struct record, or why not.
 *
 *	value --read_tag--> 1 zone, 2 tenant        --> pointers into the value
 *	            |       3 metadata --read_tag--> 1 hash, 2 size, 3 policy
 *	            '-----> anything else --skip--> next tag
 *
 * Reads each byte at most once, allocates nothing, never reads beyond the
 * value.  Where parsers in the field differ, the stricter common rule holds:
 *
 *	tag and length      at most 5 bytes each; field numbers 1 .. 2^29 - 1
 *	varint value        at most 10 bytes; bits above 64 are dropped
 *	known field, other wire type    undecodable (the pre-2025 records that had
 *	                    a varint as field 3 of the metadata are such)
 *	unknown group       skipped with all that is in it when it is balanced, to
 *	                    a depth of GROUP_DEPTH
 *	text rules          for the value that wins, not for those it replaced
 *
 * Runs in: worker, load, tests.  Blocks in: nowhere.
 */
#include <endian.h>
#include <string.h>

#include "shm/record.h"

#define GROUP_DEPTH 32
#define FIELD_MAX   ((1u << 29) - 1)
#define LENGTH_MAX  INT32_MAX

enum wire { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_GROUP, WIRE_END, WIRE_32 };

#define TAG(field, wire) ((uint32_t)(field) << 3 | (wire))

struct reader {
	const uint8_t *at, *end;
};

static bool read_varint_by_byte(struct reader *in, unsigned bytes_max, uint64_t *value)
{
	const uint8_t *at = in->at;
	size_t left = (size_t)(in->end - at);
	const uint8_t *stop = left < bytes_max ? in->end : at + bytes_max;
	uint64_t v = 0;

	for (unsigned shift = 0; at < stop; shift += 7) {
		uint8_t byte = *at++;

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			in->at = at;
			*value = v;
			return true;
		}
	}
	return false;
}

/* Tags and lengths: nearly always one byte. */
static inline bool read_short(struct reader *in, uint64_t *value)
{
	if (in->at < in->end && *in->at < 0x80) {
		*value = *in->at++;
		return true;
	}
	return read_varint_by_byte(in, 5, value);
}

/*
 * Hashes fill 9 or 10 bytes, one as often as the other: a loop that ends here
 * or there mispredicts.  So 7-bit groups are packed in halves of a word, and
 * the 10th byte is taken without a branch.
 */
static inline bool read_number(struct reader *in, uint64_t *value)
{
	uint64_t v, tenth, more = 0x8080808080808080;

	if (in->end - in->at < 10)
		return read_varint_by_byte(in, 10, value);
	memcpy(&v, in->at, 8);
	v = le64toh(v);
	if ((v & more) != more)
		return read_varint_by_byte(in, 10, value);
	v = (v & 0x007f007f007f007f) | (v & 0x7f007f007f007f00) >> 1;
	v = (v & 0x00003fff00003fff) | (v & 0x3fff00003fff0000) >> 2;
	v = (v & 0x000000000fffffff) | (v & 0x0fffffff00000000) >> 4;
	tenth = in->at[8] >> 7;
	if (tenth & in->at[9] >> 7)
		return false;
	*value = v | (uint64_t)(in->at[8] & 0x7f) << 56 | (in->at[9] & tenth) << 63;
	in->at += 9 + tenth;
	return true;
}

static inline bool read_tag(struct reader *in, uint32_t *tag)
{
	uint64_t v;

	if (!read_short(in, &v) || v >> 3 == 0 || v >> 3 > FIELD_MAX)
		return false;
	*tag = (uint32_t)v;
	return true;
}

static inline bool read_bytes(struct reader *in, const uint8_t **data, size_t *len)
{
	uint64_t v;

	if (!read_short(in, &v) || v > LENGTH_MAX || v > (uint64_t)(in->end - in->at))
		return false;
	*data = in->at;
	*len = (size_t)v;
	in->at += v;
	return true;
}

static inline bool read_text(struct reader *in, const char **text, size_t *len)
{
	const uint8_t *data;

	if (!read_bytes(in, &data, len))
		return false;
	*text = (const char *)data;
	return true;
}

/* The value that follows a tag of any wire type but the two of groups. */
static bool skip_value(struct reader *in, uint32_t tag)
{
	const uint8_t *data;
	uint64_t v;
	size_t len;

	switch (tag & 7) {
	case WIRE_VARINT:
		return read_number(in, &v);
	case WIRE_BYTES:
		return read_bytes(in, &data, &len);
	case WIRE_64:
	case WIRE_32:
		len = (tag & 7) == WIRE_64 ? 8 : 4;
		if ((size_t)(in->end - in->at) < len)
			return false;
		in->at += len;
		return true;
	default:
		return false;
	}
}

/* An unknown field; a group with everything up to its end tag. */
static bool skip_field(struct reader *in, uint32_t tag)
{
	uint32_t open[GROUP_DEPTH];
	unsigned depth = 0;

	for (;;) {
		if ((tag & 7) == WIRE_GROUP) {
			if (depth == GROUP_DEPTH)
				return false;
			open[depth++] = tag >> 3;
		} else if ((tag & 7) == WIRE_END) {
			if (depth == 0 || open[--depth] != tag >> 3)
				return false;
		} else if (!skip_value(in, tag)) {
			return false;
		}
		if (depth == 0)
			return true;
		if (!read_tag(in, &tag))
			return false;
	}
}

static bool decode_metadata(struct reader in, struct record *record)
{
	uint32_t tag;
	bool ok = true;

	while (ok && in.at < in.end) {
		if (!read_tag(&in, &tag))
			return false;
		switch (tag) {
		case TAG(1, WIRE_VARINT):
			ok = read_number(&in, &record->hash);
			break;
		case TAG(2, WIRE_VARINT):
			ok = read_number(&in, &record->size);
			break;
		case TAG(3, WIRE_BYTES):
			ok = read_text(&in, &record->policy, &record->policy_len);
			break;
		default: /* a number we know, then, has the wrong wire type */
			ok = tag >> 3 > 3 && skip_field(&in, tag);
		}
	}
	return ok;
}

static bool decode(struct reader in, struct record *record, bool *has_metadata)
{
	struct reader part;
	uint32_t tag;
	size_t len;
	bool ok = true;

	while (ok && in.at < in.end) {
		if (!read_tag(&in, &tag))
			return false;
		switch (tag) {
		case TAG(1, WIRE_BYTES):
			ok = read_text(&in, &record->zone, &record->zone_len);
			break;
		case TAG(2, WIRE_BYTES):
			ok = read_text(&in, &record->tenant, &record->tenant_len);
			break;
		case TAG(3, WIRE_BYTES):
			ok = read_bytes(&in, &part.at, &len);
			if (ok) {
				part.end = part.at + len;
				ok = decode_metadata(part, record);
			}
			*has_metadata = true;
			break;
		default:
			ok = tag >> 3 > 3 && skip_field(&in, tag);
		}
	}
	return ok;
}

enum skip_reason record_decode(const void *value, size_t len, struct record *record)
{
	const uint8_t *bytes = len ? value : (const uint8_t *)"";
	struct reader in = {bytes, bytes + len};
	bool has_metadata = false;

	record->zone = record->tenant = record->policy = "";
	record->zone_len = record->tenant_len = record->policy_len = 0;
	record->hash = record->size = 0;
	if (!decode(in, record, &has_metadata))
		return SKIP_UNDECODABLE;
	if (record->tenant_len > RECORD_TENANT_MAX || record->policy_len > RECORD_POLICY_MAX)
		return SKIP_UNDECODABLE;
	if (!record_text_ok(record->zone, record->zone_len) ||
		!record_text_ok(record->tenant, record->tenant_len) ||
		!record_text_ok(record->policy, record->policy_len))
		return SKIP_UNDECODABLE;
	if (!has_metadata)
		return SKIP_NO_METADATA;
	return record->tenant_len ? SKIP_NONE : SKIP_NO_TENANT;
}

/* --- text ------------------------------------------------------------------------------------ */

/* Length of the character at s, 0 when it is not one; `left` > 0. */
static size_t text_char(const uint8_t *s, size_t left)
{
	uint8_t low = 0x80, high = 0xbf; /* bounds of the second byte */
	size_t n;

	if (s[0] < 0x80)
		return s[0] != 0;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0; /* below: overlong */
	else if (s[0] == 0xed)
		high = 0x9f; /* above: surrogates */
	else if (s[0] == 0xf0)
		low = 0x90; /* below: overlong */
	else if (s[0] == 0xf4)
		high = 0x8f; /* above: beyond U+10FFFF */
	if (left < n || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* No byte above 0x7f, and none that borrows from its neighbour: ASCII without NUL. */
static inline bool eight_plain(uint64_t eight)
{
	return ((eight | (eight - 0x0101010101010101)) & 0x8080808080808080) == 0;
}

static inline bool text_plain(const uint8_t *s, size_t len)
{
	uint64_t eight;
	uint32_t four[2];

	if (len >= 8) {
		for (size_t i = 0; i + 8 < len; i += 8) {
			memcpy(&eight, s + i, 8);
			if (!eight_plain(eight))
				return false;
		}
		memcpy(&eight, s + len - 8, 8); /* may overlap */
		return eight_plain(eight);
	}
	if (len >= 4) {
		memcpy(&four[0], s, 4);
		memcpy(&four[1], s + len - 4, 4);
		return eight_plain((uint64_t)four[0] << 32 | four[1]);
	}
	for (size_t i = 0; i < len; i++)
		if (s[i] == 0 || s[i] > 0x7f)
			return false;
	return true;
}

bool record_text_ok(const void *text, size_t len)
{
	const uint8_t *s = text;
	size_t n;

	if (text_plain(s, len))
		return true;
	for (; len; s += n, len -= n) {
		n = text_char(s, len);
		if (n == 0)
			return false;
	}
	return true;
}

/* --- writing --------------------------------------------------------------------------------- */

struct writer {
	uint8_t *at, *end;
	bool full;
};

static void put_varint(struct writer *out, uint64_t v)
{
	do {
		if (out->at == out->end) {
			out->full = true;
			return;
		}
		*out->at++ = (uint8_t)(v < 0x80 ? v : (v & 0x7f) | 0x80);
		v >>= 7;
	} while (v);
}

static void put_number(struct writer *out, unsigned field, uint64_t v)
{
	if (v == 0)
		return;
	put_varint(out, TAG(field, WIRE_VARINT));
	put_varint(out, v);
}

static void put_text(struct writer *out, unsigned field, const char *text, size_t len)
{
	if (len == 0)
		return;
	put_varint(out, TAG(field, WIRE_BYTES));
	put_varint(out, len);
	if (out->full || len > (size_t)(out->end - out->at)) {
		out->full = true;
		return;
	}
	memcpy(out->at, text, len);
	out->at += len;
}

static size_t varint_size(uint64_t v)
{
	return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

static size_t metadata_size(const struct record *record)
{
	size_t size = 0;

	if (record->hash)
		size += 1 + varint_size(record->hash);
	if (record->size)
		size += 1 + varint_size(record->size);
	if (record->policy_len)
		size += 1 + varint_size(record->policy_len) + record->policy_len;
	return size;
}

size_t record_encode(const struct record *record, void *buf, size_t size)
{
	struct writer out = {buf, (uint8_t *)buf + size, false};

	put_text(&out, 1, record->zone, record->zone_len);
	put_text(&out, 2, record->tenant, record->tenant_len);
	put_varint(&out, TAG(3, WIRE_BYTES));
	put_varint(&out, metadata_size(record));
	put_number(&out, 1, record->hash);
	put_number(&out, 2, record->size);
	put_text(&out, 3, record->policy, record->policy_len);
	return out.full ? 0 : (size_t)(out.at - (uint8_t *)buf);
}

/* --- the header `tally` ---------------------------------------------------------------------- */

void record_source(const void *value, size_t len, struct record *record)
{
	const uint8_t *bytes = value;

	record->has_source = bytes && len == RECORD_HEADER_SIZE;
	if (!record->has_source)
		return;
	memcpy(record->incarnation, bytes, INCARNATION_SIZE);
	record->sequence = 0;
	for (size_t i = INCARNATION_SIZE; i < RECORD_HEADER_SIZE; i++)
		record->sequence = record->sequence << 8 | bytes[i];
}

void record_encode_source(const struct record *record, uint8_t out[RECORD_HEADER_SIZE])
{
	memcpy(out, record->incarnation, INCARNATION_SIZE);
	for (size_t i = 0; i < 8; i++)
		out[INCARNATION_SIZE + i] = (uint8_t)(record->sequence >> (56 - 8 * i));
}

const char *skip_reason_word(enum skip_reason reason)
{
	static const char *const word[SKIP_REASONS] = {
		[SKIP_NONE] = "applied",
		[SKIP_UNDECODABLE] = "undecodable",
		[SKIP_NO_METADATA] = "no_metadata",
		[SKIP_NO_TENANT] = "no_tenant",
		[SKIP_MISROUTED] = "misrouted",
		[SKIP_OWN] = "own",
		[SKIP_DUPLICATE] = "duplicate",
		[SKIP_TOO_OLD] = "too_old",
		[SKIP_STORE_FULL] = "store_full",
		[SKIP_QUARANTINED] = "quarantined",
	};

	return (unsigned)reason < SKIP_REASONS && word[reason] ? word[reason] : "unknown";
}
