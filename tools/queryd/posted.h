/*
 * posted.h - the body of a question: a tenant and its streams, as JSON.
 *
 *	{"tenant": "team-a", "streams": [
 *	   {"streamHash": 18446744073709551615, "totalSize": 1024, "ingestionPolicy": "gold"},
 *	   {"streamHash": "18446744073709551615"}]}
 *
 * The shape is Loki's.  Numbers go up to 2^64 - 1 without losing a digit, and may
 * be written as strings, since most programs that write JSON do lose some.  What
 * is not exactly this is refused with one line that says what and where: unknown
 * keys, keys given twice, other types, text that is not UTF-8, anything behind.
 *
 * No tree is built: what a body makes us allocate is a small multiple of its size.
 * Pure: no HTTP library, no system call.
 */
#ifndef TALLY_QUERYD_POSTED_H
#define TALLY_QUERYD_POSTED_H

#include <stddef.h>

#include "ask.h"

#define POSTED_WHY_SIZE 256

struct posted {
	const char *tenant;	    /* points into the body, as do policies */
	struct ask_stream *streams; /* owned */
	size_t n;
};

/*
 * Parses `body`, which is changed and must stay: texts are decoded in place.  0;
 * TALLY_EINVALID with one line in `why`; TALLY_ENOMEM.  posted_free in any case.
 */
int posted_parse(struct posted *posted, char *body, size_t len, char why[POSTED_WHY_SIZE]);
void posted_free(struct posted *posted);

#endif
