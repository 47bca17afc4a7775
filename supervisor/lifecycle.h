/*
 * lifecycle.h - what becomes of a partition: one pure table.
 *
 *	              ASSIGNED            START            READY
 *	    free ----------------> queued -------> running ------> (published ready)
 *	     ^                       ^  '--EXITED/REBUILD--'  |
 *	     |  EXITED: evict        '---- resume ----.       |
 *	     +---- draining <------------- REVOKED ---|-------+
 *	     |                                        |       |
 *	     '---- parked <--EXITED-- parking <-- LOST|-------+
 *	                                                      |
 *	           stopped <--EXITED-- stopping <---- STOP ---'
 *
 * Three truths about a partition: the broker says what is wanted, lifecycle
 * what is, the partition table what others are told.  Never decide from the
 * table.
 */
#ifndef TALLY_SUPERVISOR_LIFECYCLE_H
#define TALLY_SUPERVISOR_LIFECYCLE_H

enum life {
	LIFE_FREE,	/* not ours */
	LIFE_QUEUED,	/* ours; waits for a start token, its back-off, or the topic to have it */
	LIFE_RUNNING,	/* has a worker, and wants it */
	LIFE_DRAINING,	/* revoked: its worker is ending, its store will be evicted */
	LIFE_RENEWING,	/* like draining, but ours: starts afresh */
	LIFE_PARKING,	/* lost: its worker is being killed, its store kept */
	LIFE_RETURNING, /* like parking, but ours, or given back meanwhile: will resume */
	LIFE_PARKED,	/* lost: no worker, store kept */
	LIFE_STOPPING,	/* orderly stop: its worker is ending */
	LIFE_STOPPED,	/* no worker, store kept for the next start */
	LIFE_STATES
};

enum life_event {
	/* from outside: every cell is written */
	ON_ASSIGNED, /* Kafka gives it to us */
	ON_REVOKED,  /* Kafka takes it away, in order */
	ON_LOST,     /* it may have been given away already; or parked through an eager rebalance */
	ON_EXITED,   /* its worker is gone (reaped) */
	ON_REBUILD,  /* its worker is gone and wants a new generation */
	ON_REPLAYING, /* its worker knows its target */
	ON_READY,     /* its worker has reached it */
	ON_DRAINED,   /* its worker has handed over what it had */
	/* our own */
	ON_START,     /* token and back-off allow a start */
	ON_UNSTARTED, /* the start failed */
	ON_HUNG,      /* no heartbeat */
	ON_TIMER,     /* its drain or stop time is over */
	ON_DEADLINE,  /* the revocation must be acknowledged now */
	ON_GRACE,     /* what was lost has not come back in time */
	ON_RECOUNT,   /* the topic's count has changed: the store is of old routing, or of no log */
	ON_AGAIN,     /* its worker was told what no longer holds, and is to start anew */
	ON_STOP,      /* orderly stop of the supervisor */
	LIFE_EVENTS
};

enum life_action {
	DO_NOTHING,
	DO_ADOPT,	  /* take the leftover store, or make a new generation; queue */
	DO_START,	  /* spawn */
	DO_RETRY,	  /* queue again with the same store, after a back-off */
	DO_REBUILD,	  /* evict, new generation, queue: its worker wanted it, so a restart */
	DO_RENEW,	  /* the same, but we wanted it: none */
	DO_RESUME,	  /* queue again with the same store, at once */
	DO_ANNOUNCE,	  /* publish what the worker says */
	DO_ABORT,	  /* SIGABRT, then SIGKILL */
	DO_DRAIN,	  /* publish draining, tell the worker, start its timer */
	DO_KILL,	  /* lease 0, SIGKILL */
	DO_PARK,	  /* publish parked, lease 0, SIGKILL */
	DO_AGAIN,	  /* publish pending, lease 0, SIGKILL */
	DO_KEEP,	  /* publish parked: no worker any more */
	DO_EVICT,	  /* rename, publish free */
	DO_ABANDON,	  /* evict although the worker is not gone yet; keep watching it */
	DO_ABANDON_RENEW, /* the same, then a new generation */
	DO_STOP,	  /* tell the worker to stop, start its timer */
	DO_FINISH,	  /* publish stopped */
	LIFE_ACTIONS
};

struct life_step {
	enum life next;
	enum life_action action;
	int surprise; /* Kafka or a worker said what it should not: logged */
};

/* Trips a must() for an event of our own in a state in which we never raise it. */
struct life_step lifecycle_step(enum life state, enum life_event event);

const char *life_word(enum life state);
const char *life_event_word(enum life_event event);

#endif
