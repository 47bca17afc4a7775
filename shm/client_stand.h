/*
 * client_stand.h - for tally-queryd: answers that are put together over several calls.
 *
 *	client_stand_begin --> client_stand_generation --> client_stand_known --> (workers are asked)
 *	                                                      client_stand_of, right before the answer
 *
 * tally_still_valid speaks of a handle's last call.  A question that waits for
 * workers spans many calls of other questions on the same handle, so it keeps
 * the generations that it stands on itself, and asks here what has become of them.
 *
 * Not a part of libtally: the query process is built with its tallyd.
 */
#ifndef TALLY_SHM_CLIENT_STAND_H
#define TALLY_SHM_CLIENT_STAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/log.h"
#include "shm/tally.h"

enum client_standing {
	STANDS_LEFT, /* not ours any more, or another generation: whoever has it now, it is not this */
	STANDS_BACK, /* ours, but not ready right now: its worker has died, its lease is over */
	STANDS_READY
};

/*
 * The table as it is now: attached anew when it was replaced.  *partitions = the
 * routing.  The calls below speak of the table that this one found.  A TALLY_E*.
 */
int client_stand_begin(struct tally *tally, uint32_t *partitions);

/* What tallyd logs, and all its processes do. */
enum log_level client_stand_log_level(const struct tally *tally);

/* Of a partition that is ready; 0: it is not. */
uint64_t client_stand_generation(const struct tally *tally, uint32_t partition, uint64_t boot_ns);

/* When a partition that is ready was assigned, Unix ns; 0: it is not ready. */
int64_t client_stand_assigned(const struct tally *tally, uint32_t partition, uint64_t boot_ns);

enum client_activity {
	STREAM_NEW,	/* not active */
	STREAM_ACTIVE,	/* and for another minute at least */
	STREAM_EXPIRING /* active, unless it is seen, until the next minute begins */
};

/*
 * Which of a tenant's streams are active: active[i] (enum client_activity) for
 * hashes[i], all of this partition, in one transaction.  0, TALLY_ENOTREADY when the partition left
 * meanwhile, or why its store cannot be read.  until, unless NULL: of those that are active, the
 * last minute (since 1970) in which they are, whatever comes.
 */
int client_stand_known(struct tally *tally, const char *tenant, uint32_t partition,
	uint64_t generation, const uint64_t *hashes, size_t n, uint8_t *active, uint32_t *until);

/* The minute that the last call counted with. */
uint32_t client_stand_minute(const struct tally *tally);

/* A generation that was ready under a routing of so many partitions. */
enum client_standing client_stand_of(const struct tally *tally, uint32_t partition,
	uint64_t generation, uint32_t partitions, uint64_t boot_ns);

/*
 * The store that this thread is reading right now; false: none.  For handlers of
 * signals: what the thread dies of now, that store is to blame for.
 */
bool client_stand_reading(uint32_t *partition, uint64_t *generation);

/*
 * From now on `hear` is called, in whatever thread that is, with every store that contradicts
 * itself although it was published all the time.  Before there are threads.
 */
void client_stand_on_corrupt(void (*hear)(uint32_t partition, uint64_t generation));

/* Of the limits that are in force; 0 = none have been published. */
uint64_t client_stand_limits(const struct tally *tally);

#endif
