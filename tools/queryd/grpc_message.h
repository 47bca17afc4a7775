/*
 * grpc_message.h - the bytes of gRPC over HTTP/2: frames, gzip, grpc-timeout, grpc-message.
 *
 *	| compressed 0|1 | length, 4 bytes big endian | message |
 *
 * Pure, but for memory.  From the gRPC documents PROTOCOL-HTTP2 and compression.
 */
#ifndef TALLY_QUERYD_GRPC_MESSAGE_H
#define TALLY_QUERYD_GRPC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRPC_PREFIX_SIZE 5

enum grpc_front {
	FRONT_SHORT,	/* not all of a message yet */
	FRONT_WHOLE,	/* a message, perhaps with more after it */
	FRONT_TOO_LONG, /* it says that it is longer than allowed */
	FRONT_BROKEN	/* the first byte is neither 0 nor 1 */
};

/* What is at the front of these bytes?  *length is set once the prefix is there. */
enum grpc_front grpc_front(const uint8_t *bytes, size_t len, size_t max, size_t *length);

void grpc_put_prefix(uint8_t prefix[GRPC_PREFIX_SIZE], size_t length);

enum grpc_gunzip { GUNZIP_DONE, GUNZIP_TOO_LONG, GUNZIP_BROKEN, GUNZIP_NO_MEMORY };

/* Gives *out (free it) of *out_len bytes, at most `max`; never has much more than that. */
enum grpc_gunzip grpc_gunzip(
	const uint8_t *in, size_t len, size_t max, uint8_t **out, size_t *out_len);

/* "250m" -> ns; what does not fit is UINT64_MAX.  false: not a timeout. */
bool grpc_parse_timeout(const char *text, size_t len, uint64_t *ns);

/* Percent-encodes for grpc-message, cut to what fits; ends with NUL.  Returns the length. */
size_t grpc_percent(char *to, size_t size, const char *text);

#endif
