/*
 * varint.h - the smallest parts of protobuf's encoding: numbers, and bytes behind their length.
 *
 *	| 1ddddddd | 1ddddddd | 0ddddddd |	a varint: seven bits each, the lowest first, 10 bytes at most
 *
 * Readers never pass their end.  Pure.
 */
#ifndef TALLY_QUERYD_VARINT_H
#define TALLY_QUERYD_VARINT_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, GROUP = 3, GROUP_END = 4, FIXED32 = 5 };

struct reader {
	const uint8_t *at, *end;
};

/* Eight bytes of a varint's seven bits each, side by side. */
static inline uint64_t varint_pack(uint64_t bytes)
{
	bytes = (bytes & UINT64_C(0x007f007f007f007f)) |
		(bytes & UINT64_C(0x7f007f007f007f00)) >> 1;
	bytes = (bytes & UINT64_C(0x00003fff00003fff)) |
		(bytes & UINT64_C(0x3fff00003fff0000)) >> 2;
	return (bytes & UINT64_C(0x0fffffff)) | (bytes & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* false: cut off, or too long to be one. */
static inline bool read_varint(struct reader *in, uint64_t *value)
{
	uint64_t eight;

	if (in->at < in->end && in->at[0] < 0x80) {
		*value = *in->at++;
		return true;
	}
	if (in->end - in->at >= 2 && in->at[1] < 0x80) {
		*value = (in->at[0] & 0x7f) | (uint64_t)in->at[1] << 7;
		in->at += 2;
		return true;
	}
	/* A hash has nine bytes or ten: without a branch, which would be guessed wrong half the time. */
	if (in->end - in->at >= 10) {
		memcpy(&eight, in->at, sizeof(eight));
		eight = le64toh(eight);
		if ((eight & UINT64_C(0x8080808080808080)) == UINT64_C(0x8080808080808080)) {
			uint8_t ninth = in->at[8], more = ninth >> 7;
			uint8_t tenth = in->at[9] & (uint8_t)-more;

			*value = varint_pack(eight) | (uint64_t)(ninth & 0x7f) << 56 |
				 (uint64_t)tenth << 63;
			in->at += 9 + more;
			return tenth < 0x80;
		}
	}
	*value = 0;
	for (unsigned shift = 0; shift < 70 && in->at < in->end; shift += 7) {
		uint8_t byte = *in->at++;

		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

static inline bool skip_bytes(struct reader *in, uint64_t n)
{
	if (n > (uint64_t)(in->end - in->at))
		return false;
	in->at += n;
	return true;
}

/* A length and as many bytes: gives what is inside. */
static inline bool read_bytes(struct reader *in, struct reader *inside)
{
	uint64_t len;

	if (!read_varint(in, &len))
		return false;
	inside->at = in->at;
	if (!skip_bytes(in, len))
		return false;
	inside->end = in->at;
	return true;
}

static inline size_t varint_size(uint64_t value)
{
	size_t size = 1;

	for (; value >= 0x80; value >>= 7)
		size++;
	return size;
}

/* Gives the end. */
static inline uint8_t *put_varint(uint8_t *to, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*to++ = (uint8_t)(value | 0x80);
	*to++ = (uint8_t)value;
	return to;
}

#endif
