/*
 * body.h - a request's body while it comes in, bounded: one, and all of them together.
 *
 * Memory grows with what has come, not with what was announced, so slow senders
 * hold little.
 */
#ifndef TALLY_QUERYD_BODY_H
#define TALLY_QUERYD_BODY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "posted.h"

#define BODY_MAX      (4u << 20)  /* of one request */
#define BODY_SEEN_MAX (16u << 20) /* what is too large is read and dropped up to here */
#define BODIES_MAX    (64u << 20) /* of all requests together */

struct body {
	char *data;
	size_t len, cap;
	size_t seen; /* bytes that came, kept or not */
	enum { BODY_KEPT, BODY_TOO_LARGE, BODY_NO_ROOM } state;
	bool parsed;
	struct posted posted; /* when parsed; its texts lie in data */
};

/* `held`: bytes of all bodies.  false: too much even to be dropped; end the connection. */
bool body_add(struct body *body, _Atomic size_t *held, const char *data, size_t len);
void body_free(struct body *body, _Atomic size_t *held);

#endif
