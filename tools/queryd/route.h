/*
 * route.h - which answer a path gets.
 */
#ifndef TALLY_QUERYD_ROUTE_H
#define TALLY_QUERYD_ROUTE_H

#include "answer.h"

struct route {
	const char *pattern; /* "/api/v1/tenants/{tenant}": a part in braces stands for any text */
	int (*answer)(struct question *question, struct answer *answer);
	enum { TABLE_UNUSED, TABLE_USED, TABLE_NEEDED } table; /* USED: answers without one, too */
	enum { QUERY_IGNORED, QUERY_REFUSED, QUERY_PAGE } query;
	enum { ROUTE_GETS, ROUTE_POSTS } takes; /* GET and HEAD; POST with a JSON body */
	unsigned needs; /* enum token_scope: a token with one of these; 0 = none at all */
};

/* NULL: there is no such path. */
const struct route *route_find(const struct request *request);

/* The tenant that the path names; NULL: it names none. */
const char *route_tenant(const struct route *route, const struct request *request);

/* All of them, for metrics; NULL beyond the last. */
const struct route *route_at(unsigned index);

/* Its place among them; for NULL ("no such path") the place after the last that there can be. */
unsigned route_index(const struct route *route);

#endif
