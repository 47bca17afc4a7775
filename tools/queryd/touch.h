/*
 * touch.h - what was accepted from the map, on its way to the workers.
 *
 *	touches_group, touches_policy, touches_add --> one entry per (partition, tenant, stream)
 *	every TOUCH_EVERY_MS: TOUCH messages --> links_tell; what a worker does not take waits
 *
 * Bytes add up, the latest time and policy win.  There is room for
 * TOUCH_STREAMS_MAX streams, of which a worker that does not take its own has a
 * part; for more the question is answered "failed".
 * Touches for a generation that has left are dropped and counted: whoever takes
 * the partition over hears of these streams the next time they are seen.
 * Times are kept to the second; a message never mixes minutes.
 *
 * One thread.
 */
#ifndef TALLY_QUERYD_TOUCH_H
#define TALLY_QUERYD_TOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link.h"

#define TOUCH_STREAMS_MAX 1000000
#define TOUCH_BUSY_MAX	  (TOUCH_STREAMS_MAX / 4) /* of a worker that does not take them */
#define TOUCH_EVERY_MS	  250
#define TOUCH_MANY	  250000 /* so many are not kept waiting; more would be told of fewer twice */
#define TOUCH_GROUP_NONE  UINT32_MAX

struct touches;

/* `links` is kept. */
struct touches *touches_new(struct links *links);
void touches_free(struct touches **touches);

/*
 * Numbers for the names, valid until the next touches_flush that begins.  TOUCH_GROUP_NONE:
 * there is no room for more.
 */
uint32_t touches_group(
	struct touches *touches, const char *tenant, uint32_t partition, uint64_t generation);
uint32_t touches_policy(struct touches *touches, const char *policy);

/*
 * For who is about to add hash[i] of group[i], TOUCH_FETCH at most: asks memory for what they need,
 * so that the waits overlap.
 */
#define TOUCH_FETCH 128
void touches_fetch(
	const struct touches *touches, const uint32_t *group, const uint64_t *hash, size_t n);

/* false: there is no room. */
bool touches_add(struct touches *touches, uint32_t group, uint32_t policy, uint64_t hash,
	uint64_t bytes, uint32_t seen_s);

/*
 * Sends what is there, `most` streams and the rest of a message at a time, so that questions do not
 * wait for all of it; true: call again soon, what comes meanwhile is for the next time.  `served`
 * says whether a generation is still somebody's to write to.
 */
bool touches_flush(struct touches *touches, size_t most,
	bool (*served)(uint32_t partition, uint64_t generation, void *arg), void *arg);

/* Of the last flush: so many are still there, because their worker did not take them. */
size_t touches_kept(const struct touches *touches);

size_t touches_waiting(const struct touches *touches);

struct touches_facts {
	uint64_t added, coalesced; /* calls of touches_add; those that met an entry */
	uint64_t sent;		   /* streams */
	uint64_t dropped;	   /* streams whose partition has left */
	uint64_t refused;	   /* for want of room */
};
const struct touches_facts *touches_facts(const struct touches *touches);

#endif
