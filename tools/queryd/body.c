/*
 * body.c - a request's body while it comes in, bounded: one, and all of them together.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "body.h"

#include <stdlib.h>
#include <string.h>

static void drop(struct body *body, _Atomic size_t *held)
{
	atomic_fetch_sub(held, body->cap);
	free(body->data);
	body->data = NULL;
	body->len = body->cap = 0;
}

static bool grow(struct body *body, _Atomic size_t *held, size_t need)
{
	size_t cap = body->cap != 0 ? body->cap : 4096, more;
	char *grown;

	while (cap < need)
		cap *= 2;
	more = cap - body->cap;
	if (more == 0)
		return true;
	if (atomic_fetch_add(held, more) + more <= BODIES_MAX) {
		grown = realloc(body->data, cap);
		if (grown != NULL) {
			body->data = grown;
			body->cap = cap;
			return true;
		}
	}
	atomic_fetch_sub(held, more);
	return false;
}

bool body_add(struct body *body, _Atomic size_t *held, const char *data, size_t len)
{
	body->seen += len;
	if (body->seen > BODY_MAX)
		body->state = BODY_TOO_LARGE;
	else if (body->state == BODY_KEPT && !grow(body, held, body->seen))
		body->state = BODY_NO_ROOM;
	if (body->state != BODY_KEPT) {
		drop(body, held);
		return body->seen <= BODY_SEEN_MAX;
	}
	memcpy(body->data + body->len, data, len);
	body->len += len;
	return true;
}

void body_free(struct body *body, _Atomic size_t *held)
{
	drop(body, held);
	if (body->parsed)
		posted_free(&body->posted);
	*body = (struct body){0};
}
