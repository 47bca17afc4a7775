/*
 * commit.h - one commit of the batch: whether it is allowed, and what is done when it cannot be
 * made.
 */
#ifndef TALLY_WORKER_COMMIT_H
#define TALLY_WORKER_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "facts.h"
#include "now.h"

#include "shm/handoff.h"
#include "shm/log.h"
#include "shm/table.h"
#include "shm/usage.h"

struct commit {
	/* kept */
	const struct handoff *handoff;
	const struct table *table;
	struct usage *usage;
	struct facts *facts;
	struct now *now;
	/* may be read */
	int held;	       /* ERR_FULL or ERR_LEASE: the batch waits; 0: it does not */
	uint64_t retry_ns;     /* when to try again, while held */
	uint64_t committed_ns; /* end of the last commit */
	/* private */
	/* For want of a lease, of room: one that comes and goes is not said each time. */
	struct log_limit held_limit[2];
	bool said; /* that it is held */
	uint64_t held_since_ns;
	uint32_t held_ms;
};

/* The partition is still ours, in this generation, and our lease runs: asked right before a commit.
 */
bool commit_allowed(const struct commit *commit);

/*
 * Applies and commits the batch.  0, ERR_FULL or ERR_LEASE, in which case the
 * batch is kept whole; what else goes wrong ends the process.  *now_ms: the time
 * that was counted with.
 */
int commit_try(struct commit *commit, unsigned sweep_blocks, int64_t *now_ms);

/*
 * Commits a sweep of at most so many steps and nothing of the batch, to make room
 * where commit_try found none.  0, ERR_FULL or ERR_LEASE.  *steps: how many it took.
 */
int commit_sweep(struct commit *commit, unsigned most, unsigned *steps);

/* After ERR_FULL or ERR_LEASE: shows it, says it once, sets retry_ns. */
void commit_hold(struct commit *commit, int err);

/* Nothing waits any more. */
void commit_release(struct commit *commit);

#endif
