/*
 * lifecycle.c - what becomes of a partition: one pure table.
 *
 *	lifecycle_step(state, event) -> next state, action, surprise?
 *
 * Every cell of an event from outside is written: nothing that Kafka or a
 * worker says can find a hole.  A surprise is logged by the caller; where a
 * worker runs, the partition then takes the path of lost, which keeps its
 * store and stops its answers.
 *
 * Runs in: supervisor.
 */
#include "shm/check.h"
#include "supervisor/lifecycle.h"

struct cell {
	unsigned char next, action, surprise, written;
};

/* clang-format off */
#define GO(next, action)   {next, action, 0, 1}
#define ODD(next, action)  {next, action, 1, 1}

static const struct cell table[LIFE_STATES][LIFE_EVENTS] = {
	[LIFE_FREE] = {
		[ON_ASSIGNED]  = GO(LIFE_QUEUED, DO_ADOPT),
		[ON_REVOKED]   = ODD(LIFE_FREE, DO_NOTHING),
		[ON_LOST]      = GO(LIFE_FREE, DO_NOTHING),
		[ON_EXITED]    = GO(LIFE_FREE, DO_NOTHING),	/* abandoned at a deadline, gone at last */
		[ON_REBUILD]   = GO(LIFE_FREE, DO_NOTHING),
		[ON_REPLAYING] = ODD(LIFE_FREE, DO_NOTHING),
		[ON_READY]     = ODD(LIFE_FREE, DO_NOTHING),
		[ON_DRAINED]   = ODD(LIFE_FREE, DO_NOTHING),
		[ON_GRACE]     = GO(LIFE_FREE, DO_NOTHING),
		[ON_RECOUNT]   = GO(LIFE_FREE, DO_NOTHING),
		[ON_STOP]      = GO(LIFE_FREE, DO_NOTHING),
	},
	[LIFE_QUEUED] = {
		[ON_ASSIGNED]  = ODD(LIFE_QUEUED, DO_NOTHING),	/* twice: nothing runs, nothing is wrong */
		[ON_REVOKED]   = GO(LIFE_FREE, DO_EVICT),
		[ON_LOST]      = GO(LIFE_PARKED, DO_KEEP),
		[ON_EXITED]    = GO(LIFE_QUEUED, DO_NOTHING),
		[ON_REBUILD]   = GO(LIFE_QUEUED, DO_NOTHING),
		[ON_REPLAYING] = ODD(LIFE_QUEUED, DO_NOTHING),
		[ON_READY]     = ODD(LIFE_QUEUED, DO_NOTHING),
		[ON_DRAINED]   = ODD(LIFE_QUEUED, DO_NOTHING),
		[ON_START]     = GO(LIFE_RUNNING, DO_START),
		[ON_GRACE]     = GO(LIFE_QUEUED, DO_NOTHING),
		[ON_RECOUNT]   = GO(LIFE_QUEUED, DO_RENEW),
		[ON_STOP]      = GO(LIFE_STOPPED, DO_FINISH),
	},
	[LIFE_RUNNING] = {
		[ON_ASSIGNED]  = ODD(LIFE_RETURNING, DO_PARK),	/* twice: who knows whose it was meanwhile */
		[ON_REVOKED]   = GO(LIFE_DRAINING, DO_DRAIN),
		[ON_LOST]      = GO(LIFE_PARKING, DO_PARK),
		[ON_EXITED]    = GO(LIFE_QUEUED, DO_RETRY),
		[ON_REBUILD]   = GO(LIFE_QUEUED, DO_REBUILD),
		[ON_REPLAYING] = GO(LIFE_RUNNING, DO_ANNOUNCE),
		[ON_READY]     = GO(LIFE_RUNNING, DO_ANNOUNCE),
		[ON_DRAINED]   = ODD(LIFE_RUNNING, DO_NOTHING),
		[ON_UNSTARTED] = GO(LIFE_QUEUED, DO_RETRY),
		[ON_HUNG]      = GO(LIFE_RUNNING, DO_ABORT),
		[ON_GRACE]     = GO(LIFE_RUNNING, DO_NOTHING),
		[ON_RECOUNT]   = GO(LIFE_RENEWING, DO_DRAIN),
		[ON_AGAIN]     = GO(LIFE_RETURNING, DO_AGAIN),
		[ON_STOP]      = GO(LIFE_STOPPING, DO_STOP),
	},
	[LIFE_DRAINING] = {
		[ON_ASSIGNED]  = GO(LIFE_RENEWING, DO_NOTHING),	/* given back before it was gone */
		[ON_REVOKED]   = ODD(LIFE_DRAINING, DO_NOTHING),
		[ON_LOST]      = GO(LIFE_DRAINING, DO_KILL),
		[ON_EXITED]    = GO(LIFE_FREE, DO_EVICT),
		[ON_REBUILD]   = GO(LIFE_FREE, DO_EVICT),
		[ON_REPLAYING] = GO(LIFE_DRAINING, DO_NOTHING),	/* said before it heard of it */
		[ON_READY]     = GO(LIFE_DRAINING, DO_NOTHING),
		[ON_DRAINED]   = GO(LIFE_DRAINING, DO_KILL),
		[ON_TIMER]     = GO(LIFE_DRAINING, DO_KILL),
		[ON_DEADLINE]  = GO(LIFE_FREE, DO_ABANDON),
		[ON_GRACE]     = GO(LIFE_DRAINING, DO_NOTHING),
		[ON_RECOUNT]   = GO(LIFE_DRAINING, DO_NOTHING),
		[ON_STOP]      = GO(LIFE_DRAINING, DO_NOTHING),
	},
	[LIFE_RENEWING] = {
		[ON_ASSIGNED]  = ODD(LIFE_RENEWING, DO_NOTHING),
		[ON_REVOKED]   = GO(LIFE_DRAINING, DO_DRAIN),	/* anew: a recount had only begun it */
		[ON_LOST]      = GO(LIFE_DRAINING, DO_KILL),
		[ON_EXITED]    = GO(LIFE_QUEUED, DO_RENEW),
		[ON_REBUILD]   = GO(LIFE_QUEUED, DO_REBUILD),
		[ON_REPLAYING] = GO(LIFE_RENEWING, DO_NOTHING),
		[ON_READY]     = GO(LIFE_RENEWING, DO_NOTHING),
		[ON_DRAINED]   = GO(LIFE_RENEWING, DO_KILL),
		[ON_TIMER]     = GO(LIFE_RENEWING, DO_KILL),
		[ON_DEADLINE]  = GO(LIFE_QUEUED, DO_ABANDON_RENEW),
		[ON_GRACE]     = GO(LIFE_RENEWING, DO_NOTHING),
		[ON_RECOUNT]   = GO(LIFE_RENEWING, DO_NOTHING),
		[ON_STOP]      = GO(LIFE_DRAINING, DO_KILL),
	},
	[LIFE_PARKING] = {
		[ON_ASSIGNED]  = GO(LIFE_RETURNING, DO_NOTHING),
		[ON_REVOKED]   = GO(LIFE_DRAINING, DO_KILL),
		[ON_LOST]      = GO(LIFE_PARKING, DO_NOTHING),
		[ON_EXITED]    = GO(LIFE_PARKED, DO_KEEP),
		[ON_REBUILD]   = GO(LIFE_FREE, DO_EVICT),
		[ON_REPLAYING] = GO(LIFE_PARKING, DO_NOTHING),
		[ON_READY]     = GO(LIFE_PARKING, DO_NOTHING),
		[ON_DRAINED]   = GO(LIFE_PARKING, DO_NOTHING),
		[ON_DEADLINE]  = GO(LIFE_FREE, DO_ABANDON),
		[ON_GRACE]     = GO(LIFE_DRAINING, DO_KILL),
		[ON_RECOUNT]   = GO(LIFE_DRAINING, DO_KILL),
		[ON_STOP]      = GO(LIFE_STOPPING, DO_KILL),
	},
	[LIFE_RETURNING] = {
		[ON_ASSIGNED]  = ODD(LIFE_RETURNING, DO_NOTHING),
		[ON_REVOKED]   = GO(LIFE_DRAINING, DO_KILL),
		[ON_LOST]      = GO(LIFE_PARKING, DO_NOTHING),
		[ON_EXITED]    = GO(LIFE_QUEUED, DO_RESUME),
		[ON_REBUILD]   = GO(LIFE_QUEUED, DO_REBUILD),
		[ON_REPLAYING] = GO(LIFE_RETURNING, DO_NOTHING),
		[ON_READY]     = GO(LIFE_RETURNING, DO_NOTHING),
		[ON_DRAINED]   = GO(LIFE_RETURNING, DO_NOTHING),
		[ON_DEADLINE]  = GO(LIFE_QUEUED, DO_ABANDON_RENEW),
		[ON_GRACE]     = GO(LIFE_RETURNING, DO_NOTHING),
		[ON_RECOUNT]   = GO(LIFE_RENEWING, DO_KILL),
		[ON_STOP]      = GO(LIFE_STOPPING, DO_KILL),
	},
	[LIFE_PARKED] = {
		[ON_ASSIGNED]  = GO(LIFE_QUEUED, DO_RESUME),
		[ON_REVOKED]   = GO(LIFE_FREE, DO_EVICT),
		[ON_LOST]      = GO(LIFE_PARKED, DO_NOTHING),
		[ON_EXITED]    = GO(LIFE_PARKED, DO_NOTHING),
		[ON_REBUILD]   = GO(LIFE_PARKED, DO_NOTHING),
		[ON_REPLAYING] = ODD(LIFE_PARKED, DO_NOTHING),
		[ON_READY]     = ODD(LIFE_PARKED, DO_NOTHING),
		[ON_DRAINED]   = ODD(LIFE_PARKED, DO_NOTHING),
		[ON_GRACE]     = GO(LIFE_FREE, DO_EVICT),
		[ON_RECOUNT]   = GO(LIFE_FREE, DO_EVICT),
		[ON_STOP]      = GO(LIFE_STOPPED, DO_FINISH),
	},
	/* No recount while we stop: what is ready answers until it has ended, by the old routing. */
	[LIFE_STOPPING] = {	/* group answers what closing delivers: a revocation here is one */
		[ON_ASSIGNED]  = GO(LIFE_STOPPING, DO_NOTHING),
		[ON_REVOKED]   = GO(LIFE_DRAINING, DO_DRAIN),
		[ON_LOST]      = GO(LIFE_STOPPING, DO_PARK),
		[ON_EXITED]    = GO(LIFE_STOPPED, DO_FINISH),
		[ON_REBUILD]   = GO(LIFE_FREE, DO_EVICT),
		[ON_REPLAYING] = GO(LIFE_STOPPING, DO_NOTHING),
		[ON_READY]     = GO(LIFE_STOPPING, DO_NOTHING),
		[ON_DRAINED]   = GO(LIFE_STOPPING, DO_NOTHING),
		[ON_TIMER]     = GO(LIFE_STOPPING, DO_KILL),
		[ON_GRACE]     = GO(LIFE_STOPPING, DO_NOTHING),
		[ON_STOP]      = GO(LIFE_STOPPING, DO_NOTHING),
	},
	[LIFE_STOPPED] = {
		[ON_ASSIGNED]  = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_REVOKED]   = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_LOST]      = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_EXITED]    = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_REBUILD]   = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_REPLAYING] = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_READY]     = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_DRAINED]   = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_GRACE]     = GO(LIFE_STOPPED, DO_NOTHING),
		[ON_STOP]      = GO(LIFE_STOPPED, DO_NOTHING),
	},
};

static const char *const life_words[LIFE_STATES] = {
	[LIFE_FREE] = "free",         [LIFE_QUEUED] = "queued",       [LIFE_RUNNING] = "running",
	[LIFE_DRAINING] = "draining", [LIFE_RENEWING] = "renewing",   [LIFE_PARKING] = "parking",
	[LIFE_RETURNING] = "returning", [LIFE_PARKED] = "parked",     [LIFE_STOPPING] = "stopping",
	[LIFE_STOPPED] = "stopped",
};

static const char *const event_words[LIFE_EVENTS] = {
	[ON_ASSIGNED] = "assigned",   [ON_REVOKED] = "revoked",       [ON_LOST] = "lost",
	[ON_EXITED] = "exited",       [ON_REBUILD] = "rebuild",       [ON_REPLAYING] = "replaying",
	[ON_READY] = "ready",         [ON_DRAINED] = "drained",       [ON_START] = "start",
	[ON_UNSTARTED] = "unstarted", [ON_HUNG] = "hung",             [ON_TIMER] = "timer",
	[ON_DEADLINE] = "deadline",   [ON_GRACE] = "grace",           [ON_RECOUNT] = "recount",
	[ON_AGAIN] = "again",         [ON_STOP] = "stop",
};
/* clang-format on */

struct life_step lifecycle_step(enum life state, enum life_event event)
{
	must((unsigned)state < LIFE_STATES && (unsigned)event < LIFE_EVENTS);
	const struct cell *cell = &table[state][event];
	must(cell->written);
	return (struct life_step){
		(enum life)cell->next, (enum life_action)cell->action, cell->surprise};
}

const char *life_word(enum life state)
{
	return life_words[state];
}

const char *life_event_word(enum life_event event)
{
	return event_words[event];
}
