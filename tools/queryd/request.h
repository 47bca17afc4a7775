/*
 * request.h - a request's raw target, taken apart: path segments, page
 * parameters, cursors.  Pure: no HTTP library, no system call.
 *
 * Segments are split before they are percent-decoded, so a tenant may hold
 * '/' as %2F.  What cannot be a name of ours (a broken escape, a NUL, no
 * UTF-8) is refused here, in words for the one who asked.
 */
#ifndef TALLY_QUERYD_REQUEST_H
#define TALLY_QUERYD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/tally.h"

#define REQUEST_SEGMENTS_MAX  8
#define REQUEST_LIMIT_DEFAULT 100
#define REQUEST_LIMIT_MAX     10000
#define REQUEST_NAME_MAX      256 /* bytes of a tenant's name */
#define REQUEST_WHY_SIZE      192
#define REQUEST_CURSOR_SIZE   32

struct request {
	char *raw;			     /* owned; the rest points into it */
	char *segment[REQUEST_SEGMENTS_MAX]; /* decoded, NUL-terminated; "/a/" has "a" and "" */
	unsigned segments;
	char *query; /* what follows '?', still encoded; "" = none */
};

/*
 * Takes the request target apart: "/path?query", or "http://host/path?query"
 * as a proxy sends it.  0, TALLY_EINVALID with one line in `why`, or TALLY_ENOMEM.
 * request_free in any case.
 */
int request_parse(struct request *request, const char *target, char why[REQUEST_WHY_SIZE]);
void request_free(struct request *request);

/* A tenant's name: 1 to REQUEST_NAME_MAX bytes of UTF-8.  Else false and one line in `why`. */
bool request_name_ok(const char *name, const char *what, char why[REQUEST_WHY_SIZE]);

/* A whole decimal number from `min` to `max`; signs, blanks and leftovers are refused. */
bool request_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

struct request_page {
	unsigned limit;
	char *after; /* NULL = from the start; points into the query, decoded, as the others do */
	char *sort;  /* NULL = not given */
	char *query; /* NULL = not given */
};

/*
 * The parameters of a paged list: after= and limit=; request_search: of one that can also be
 * looked through, sort= and q=.  Takes the query apart in place, so it can be called once.
 * Anything else, or one of them twice, is refused: TALLY_EINVALID with one line in `why`.
 */
int request_page(struct request *request, struct request_page *page, char why[REQUEST_WHY_SIZE]);
int request_search(struct request *request, struct request_page *page, char why[REQUEST_WHY_SIZE]);

/* Cursors as text: opaque to clients, and checked when they come back. */
void request_cursor_text(const struct tally_cursor *cursor, char text[REQUEST_CURSOR_SIZE]);
bool request_cursor_parse(const char *text, struct tally_cursor *cursor);

#endif
