/*
 * grpc_message.c - the bytes of gRPC over HTTP/2: frames, gzip, grpc-timeout, grpc-message.
 *
 *	gzip bytes -> inflate -> 4 KiB, 8 KiB, 16 KiB ... max + 1: too long
 *
 * The output of gunzip grows with what has come out, never with what a header
 * claims, so a bomb costs at most `max`.
 *
 * Runs in: queryd.  Blocks in: nowhere.
 */
#include "grpc_message.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#define GUNZIP_FIRST   4096
#define GUNZIP_WINDOW  (15 + 16) /* zlib: the largest window, and gzip only */
#define TIMEOUT_DIGITS 8

enum grpc_front grpc_front(const uint8_t *bytes, size_t len, size_t max, size_t *length)
{
	if (len > 0 && bytes[0] > 1)
		return FRONT_BROKEN;
	if (len < GRPC_PREFIX_SIZE)
		return FRONT_SHORT;
	*length =
		(size_t)bytes[1] << 24 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 8 | bytes[4];
	if (*length > max)
		return FRONT_TOO_LONG;
	return len - GRPC_PREFIX_SIZE < *length ? FRONT_SHORT : FRONT_WHOLE;
}

void grpc_put_prefix(uint8_t prefix[GRPC_PREFIX_SIZE], size_t length)
{
	prefix[0] = 0;
	prefix[1] = (uint8_t)(length >> 24);
	prefix[2] = (uint8_t)(length >> 16);
	prefix[3] = (uint8_t)(length >> 8);
	prefix[4] = (uint8_t)length;
}

/* Makes room for more output, one byte more than `max` at most. */
static bool gunzip_grow(z_stream *z, uint8_t **out, size_t *size, size_t max)
{
	size_t used = *size - z->avail_out;
	size_t wanted = *size == 0 ? GUNZIP_FIRST : *size * 2;
	uint8_t *grown;

	if (wanted > max + 1)
		wanted = max + 1;
	grown = realloc(*out, wanted);
	if (grown == NULL)
		return false;
	*out = grown;
	*size = wanted;
	z->next_out = grown + used;
	z->avail_out = (uInt)(wanted - used);
	return true;
}

static enum grpc_gunzip inflate_all(z_stream *z, size_t max, uint8_t **out, size_t *out_len)
{
	size_t size = 0;
	int code = Z_OK;

	while (code == Z_OK) {
		if (z->avail_out == 0) {
			if (size == max + 1)
				return GUNZIP_TOO_LONG;
			if (!gunzip_grow(z, out, &size, max))
				return GUNZIP_NO_MEMORY;
		}
		code = inflate(z, Z_NO_FLUSH);
	}
	*out_len = size - z->avail_out;
	if (code == Z_MEM_ERROR)
		return GUNZIP_NO_MEMORY;
	if (code != Z_STREAM_END || z->avail_in != 0)
		return GUNZIP_BROKEN;
	return *out_len > max ? GUNZIP_TOO_LONG : GUNZIP_DONE;
}

enum grpc_gunzip grpc_gunzip(
	const uint8_t *in, size_t len, size_t max, uint8_t **out, size_t *out_len)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)in, .avail_in = (uInt)len};
	enum grpc_gunzip result;

	*out = NULL;
	*out_len = 0;
	if (inflateInit2(&z, GUNZIP_WINDOW) != Z_OK)
		return GUNZIP_NO_MEMORY;
	result = inflate_all(&z, max, out, out_len);
	inflateEnd(&z);
	if (result != GUNZIP_DONE) {
		free(*out);
		*out = NULL;
	}
	return result;
}

static uint64_t unit_ns(char unit)
{
	switch (unit) {
	case 'H':
		return UINT64_C(3600000000000);
	case 'M':
		return UINT64_C(60000000000);
	case 'S':
		return UINT64_C(1000000000);
	case 'm':
		return 1000000;
	case 'u':
		return 1000;
	case 'n':
		return 1;
	default:
		return 0;
	}
}

bool grpc_parse_timeout(const char *text, size_t len, uint64_t *ns)
{
	uint64_t value = 0, unit;

	if (len < 2 || len > TIMEOUT_DIGITS + 1)
		return false;
	for (size_t i = 0; i + 1 < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	unit = unit_ns(text[len - 1]);
	if (unit == 0)
		return false;
	*ns = value > UINT64_MAX / unit ? UINT64_MAX : value * unit;
	return true;
}

size_t grpc_percent(char *to, size_t size, const char *text)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t len = 0;

	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		bool plain = c >= ' ' && c <= '~' && c != '%';

		if (len + (plain ? 1 : 3) >= size)
			break;
		if (plain) {
			to[len++] = (char)c;
		} else {
			to[len++] = '%';
			to[len++] = hex[c >> 4];
			to[len++] = hex[c & 15];
		}
	}
	to[len] = '\0';
	return len;
}
