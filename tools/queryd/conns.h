/*
 * conns.h - which connections there are, and which of them have to go.
 *
 * The HTTP library bounds how many there are and how long one may be silent.
 * Two things it does not do are done here: a connection that keeps dripping
 * bytes without ever completing a request, or without ever reading its
 * answer, has a deadline; and when there are many, the one that has been
 * without a request for longest makes room for a new one, so that any number
 * of idle connections cannot shut others out.
 *
 * To end a connection its socket is shut down; its thread then closes it in
 * its own time.  Thread safe.  A connection that could not be added (NULL)
 * is accepted by all functions.
 */
#ifndef TALLY_QUERYD_CONNS_H
#define TALLY_QUERYD_CONNS_H

#include <stdint.h>

struct conns;
struct conn;

struct conns_limits {
	unsigned many;	     /* from so many on, a new one ends the oldest without a request */
	uint64_t waiting_ns; /* longest without a complete request, from opened or last answered */
	uint64_t asking_ns;  /* longest from a complete request to its answer's last byte */
};

struct conns_facts {
	unsigned open, asking;
	uint64_t accepted, ended_for_room, ended_late;
};

struct conns *conns_new(const struct conns_limits *limits);
void conns_free(struct conns **conns); /* all of its connections have been removed */

/* A connection was accepted.  `fd` is borrowed until conns_remove. */
struct conn *conns_add(struct conns *conns, int fd, uint64_t now_ns);
void conns_remove(struct conns *conns, struct conn *conn);

/* It has sent a whole request; its answer is out (or was given up). */
void conns_asking(struct conns *conns, struct conn *conn, uint64_t now_ns);
void conns_answered(struct conns *conns, struct conn *conn, uint64_t now_ns);

/* Ends those that are past their deadline.  About once a second. */
void conns_expire(struct conns *conns, uint64_t now_ns);

void conns_facts(struct conns *conns, struct conns_facts *facts);

#endif
