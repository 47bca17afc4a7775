/*
 * ports.h - which ports the mock cluster listens on.
 *
 * librdkafka's mock always asks for any free port and for a backlog of 5, and
 * has no setting for either.  This program defines bind() and listen() itself;
 * a program's own functions take precedence over libc's for the libraries it
 * loads, so the mock calls these.
 */
#ifndef TALLY_BROKER_PORTS_H
#define TALLY_BROKER_PORTS_H

/*
 * The next listeners get base, base + 1, ...; 0 = any.  Call before the cluster
 * is made.  A port that cannot be had ends the program here, with one line and
 * exit 2: the mock would answer it with an assertion.
 */
void ports_start(unsigned base);

/* No more listeners: sockets that are bound from now on are left alone. */
void ports_end(void);

#endif
