/*
 * ledger.h - who may let how many new streams in: budgets, so that limits are exact.
 *
 *	ledger_bucket --> claim (want n) --ledger_pump--> granted k | full | failed
 *	                                                     |
 *	                    worker's answer: ledger_return(k, used)
 *
 *	headroom = share - active (as read from the map) - added (used since) - reserved (under way)
 *
 * Claims of a bucket are served in order.  One is refused only when the active
 * streams alone, as read, fill the share, or when nothing is reserved any more
 * and there is still no room: so with one process the first refusal comes at
 * limit + 1 distinct streams.  A claim may be granted in parts.
 *
 * Readings of the map are used again for a while (LEDGER_*_NS).  A count that is
 * too high, because a stream that was used up is also in the reading, or because
 * streams have expired since, costs a new reading before it costs anybody a
 * refusal.  Limits may change at any moment: what is under way counts on.
 *
 * The map may have changed since a stream was looked up: whoever is told "full"
 * looks again before he refuses, for the stream may be active by now.
 *
 * `decided` is called from ledger_pump only, and may claim and return.
 */
#ifndef TALLY_QUERYD_LEDGER_H
#define TALLY_QUERYD_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/tally.h"

#define LEDGER_STALE_NS UINT64_C(50000000) /* a reading serves for grants for so long */
#define LEDGER_FULL_NS	UINT64_C(5000000)  /* ... and for refusals */

struct ledger;
struct ledger_bucket;

enum ledger_verdict {
	LEDGER_GRANTED,	  /* `granted` streams: each has to be returned */
	LEDGER_UNLIMITED, /* all that was wanted; only released */
	LEDGER_FULL,	  /* no more of this claim */
	LEDGER_FAILED	  /* the map could not be read */
};

struct ledger_claim {
	struct ledger_claim *next, *prev;
	struct ledger_bucket *bucket;
	uint64_t want; /* what is left of it */
	/*
	 * But for a grant in parts the claim is out of the queue.  beyond: of an
	 * unlimited grant of a dry run, so many would have been refused.
	 */
	void (*decided)(struct ledger_claim *claim, enum ledger_verdict verdict, uint64_t granted,
		uint64_t beyond);
};

/* `tally` is the handle's place: it may be NULL for a while, then nothing can be read. */
struct ledger *ledger_new(struct tally **tally);
void ledger_free(struct ledger **ledger);

/* Whether each partition has its own share (limit_scope partition). */
int ledger_by_partition(struct ledger *ledger, const char *tenant, bool *by_partition);

/*
 * The bucket that streams of a policy count in, held until ledger_release.
 * partition: -1 but for limit_scope partition.  A TALLY_E*: it cannot be read.
 */
int ledger_bucket(struct ledger *ledger, const char *tenant, int32_t partition, const char *policy,
	struct ledger_bucket **bucket);
/* A number of the caller's at a bucket; others write there too, so it is to be checked. */
uint32_t *ledger_note(struct ledger_bucket *bucket);

void ledger_hold(struct ledger_bucket *bucket);
void ledger_release(struct ledger_bucket *bucket);

/* Queues a claim; `want` > 0, and `bucket` held by the caller as long as it is queued. */
void ledger_claim(struct ledger *ledger, struct ledger_claim *claim);
void ledger_withdraw(struct ledger *ledger, struct ledger_claim *claim);

/* Of a grant `reserved` came back; `used` of them are active streams now, or may be. */
void ledger_return(
	struct ledger *ledger, struct ledger_bucket *bucket, uint64_t reserved, uint64_t used);

/* Decides all claims that can be decided. */
void ledger_pump(struct ledger *ledger);

/* Forgets tenants that nobody asks about.  About once a second. */
void ledger_idle(struct ledger *ledger);

struct ledger_facts {
	uint64_t accounts; /* now: tenants, or (tenant, partition) */
	uint64_t waiting;  /* claims now */
	uint64_t reserved; /* streams now */
	uint64_t readings; /* of the map, ever */
};
const struct ledger_facts *ledger_facts(const struct ledger *ledger);

#endif
