/*
 * replay.h - turns one Kafka partition into usage, a batch at a time.
 *
 *	replay_begin(from, target) -> replay_turn: a bounded piece of work, again and again
 *	                           -> replay_timer when replay_due_ns has come
 */
#ifndef TALLY_WORKER_REPLAY_H
#define TALLY_WORKER_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "facts.h"
#include "now.h"
#include "plan.h"
#include "source.h"

#include "shm/handoff.h"
#include "shm/table.h"
#include "shm/usage.h"

struct replay;

/* All kept. */
struct replay_options {
	const struct handoff *handoff;
	const struct table *table;
	struct usage *usage;
	struct source *source;
	struct facts *facts;
	struct now *now;
};

enum replay_result {
	REPLAY_IDLE, /* nothing is waiting */
	REPLAY_MORE, /* call again soon */
	REPLAY_HELD, /* the batch cannot be committed for now: nothing is read; see replay_due_ns */
	REPLAY_LOST_PLACE, /* the log does not hold our offset: find out where to go on */
	REPLAY_NO_TOPIC,   /* topic or partition is not there: the same, later */
	REPLAY_DOUBT,	   /* it may be another log: compare, then go on */
	REPLAY_BAD	   /* what has arrived cannot be read: fetch it again, from our offset */
};

void replay_new(const struct replay_options *options, struct replay **out);

/*
 * Where the next records come from, and where replay ends.  The source has been
 * started there.  What was skipped on purpose is not a gap; `plan->gap` is one.
 * Commits that at once.
 */
void replay_begin(struct replay *replay, const struct plan *plan);

enum replay_result replay_turn(struct replay *replay);

/* When replay_timer wants to be called (CLOCK_BOOTTIME ns); 0 = not at all. */
uint64_t replay_due_ns(const struct replay *replay);
enum replay_result replay_timer(struct replay *replay);

/* Commits what is there, if it can.  True: nothing is left uncommitted. */
bool replay_flush(struct replay *replay);

/*
 * Commits what was asked together with the records that are there: 0, ERR_FULL or
 * ERR_LEASE.  In between, what was asked has to be taken out of the batch
 * (admit_answer); then replay_asked, with the same result.
 */
int replay_ask(struct replay *replay);
void replay_asked(struct replay *replay, int err);

/* Something is in the batch that is no record: it is committed with what comes, or soon. */
void replay_touched(struct replay *replay);

/* ERR_FULL or ERR_LEASE while the batch cannot be committed, else 0. */
int replay_holds(const struct replay *replay);

/* The lease runs and the partition is ours: something may be sent. */
bool replay_may_send(void *replay);

/*
 * So many records make a batch.  While replaying, the more the more streams, tenants and policies
 * there are, or what half a second brings: handoff's batch_records at most.
 */
uint64_t replay_batch(const struct handoff *handoff, const struct usage_meta *meta, bool live);

/* The target is reached, and what reached it is committed. */
bool replay_reached(const struct replay *replay);

/* From now on: batches of live reading. */
void replay_go_live(struct replay *replay);
bool replay_is_live(const struct replay *replay);

/* Looks for expired streams when nothing else is going on.  Once a second. */
void replay_idle_second(struct replay *replay);

/* Shows in the flags whether a commit would be allowed now. */
void replay_check_lease(struct replay *replay);

/* Next offset to read, and the last record read: as of now, committed or not. */
int64_t replay_next(const struct replay *replay);
const struct usage_fingerprint *replay_fingerprint(const struct replay *replay);
const struct usage_fingerprint *replay_anchor(const struct replay *replay);
bool replay_held(const struct replay *replay);

/* We may not read the partition; the library says so once. */
bool replay_denied(const struct replay *replay);

#endif
