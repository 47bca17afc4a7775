/*
 * seats.h - libtally handles for the threads that answer.
 *
 * A handle belongs to one thread at a time; a seat is what a thread borrows
 * for one request.  It has one handle for the table and one for each call of
 * an answer that reads stores: tally_still_valid speaks of a handle's last
 * call, so an answer made of two calls needs two handles to be checked whole.
 *
 * Thread safe.  There is one seat more than threads: seats_idle always finds
 * one, and seats_take never waits.
 */
#ifndef TALLY_QUERYD_SEATS_H
#define TALLY_QUERYD_SEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/tally.h"

#define SEAT_STORE_CALLS 2 /* most calls that one answer may make to stores */

struct seats;
struct ranking;

struct seat {
	struct tally *table;
	struct tally *store[SEAT_STORE_CALLS];
	unsigned calls;
	struct ranking
		*ranking; /* the answer stands on this one's pass as well; NULL: it does not */
	uint64_t ranking_id;
	bool taken;
};

/* `run_dir` is kept. */
struct seats *seats_new(const char *run_dir, unsigned threads);
void seats_free(struct seats **seats);

/* Borrows a seat for one request; its count of calls is 0. */
struct seat *seats_take(struct seats *seats);
void seats_give(struct seats *seats, struct seat *seat);

/* Lets the handles that nobody uses right now go of what is no longer published. */
void seats_idle(struct seats *seats);

/* Attaches what is not attached: 0 or a TALLY_E*; then nothing is attached, and it can be asked
 * again. */
int seat_attach(struct seats *seats, struct seat *seat);
void seat_detach(struct seat *seat);

/* Forgets the calls made so far: the answer is built again. */
void seat_again(struct seat *seat);

/* The handle for the next call to stores. */
struct tally *seat_store(struct seat *seat);

/* Whether everything that was read from stores is still published and ready. */
bool seat_still_valid(struct seat *seat);

#endif
