/*
 * worker_private.h - what the parts of the loop share.
 *
 *	worker.c       making it; what the supervisor says; what time brings
 *	worker_read.c  what the broker says: finding the place, reading, being ready
 *	worker_ask.c   what is asked, and what is written to the topic
 */
#ifndef TALLY_WORKER_WORKER_PRIVATE_H
#define TALLY_WORKER_WORKER_PRIVATE_H

#include "worker.h"

#include <ev.h>
#include <stdbool.h>

#include "admit.h"
#include "emit.h"
#include "locate.h"
#include "replay.h"
#include "source.h"
#include "start.h"
#include "watch.h"

struct worker {
	struct worker_parts p;
	struct stats *stats;
	struct ev_loop *loop;
	struct source *source;
	struct locate *locate;
	struct replay *replay;
	struct start start;
	struct watch watch;
	enum worker_phase phase;
	bool was_ready; /* this process has said so */
	unsigned owed;	/* bits 1 << control_kind that the socket had no room for */
	unsigned ticks;
	unsigned live_seconds;
	unsigned watch_question;
	int64_t watch_asked_at; /* our position when it was asked */
	bool watch_waiting;
	uint64_t awake_ns; /* when we last looked, and were free to read */
	bool lookups_fail;
	bool clock_off;
	struct admit *admit;
	struct emit *emit;   /* NULL: nothing is produced */
	bool drained;	     /* said */
	uint64_t stop_at_ns; /* while stopping: then it ends, whatever was not written */
	ev_io source_io, locate_io, control_io, emit_io;
	ev_prepare before_sleep;
	ev_timer tick, due;
	ev_idle more;
};

/* --- worker.c ------------------------------------------------------------------------------ */

void worker_enter(struct worker *worker, enum worker_phase phase);

/* To the supervisor; what the socket has no room for is owed until the next tick. */
void worker_tell(struct worker *worker, enum control_kind kind);

/* --- worker_read.c ------------------------------------------------------------------------- */

/* Finds out where to start, or where to go on; `again`: nothing has failed, it is only looked whether
 * the log is still the one that was counted. */
void worker_locate(struct worker *worker, bool again);

/* A bounded piece of work on what has arrived. */
void worker_pump(struct worker *worker);

/* REPLAYING or LIVE: not looking for the place, not ending. */
bool worker_is_reading(const struct worker *worker);

/* Asks for the end of the log: has reading stalled, has the log shrunk? */
void worker_watch(struct worker *worker);

/* Sets the timer for whatever is due next. */
void worker_set_due(struct worker *worker);

/* Nothing is read any more. */
void worker_stop_reading(struct worker *worker);

/* --- worker_ask.c -------------------------------------------------------------------------- */

/* Makes the socket and the producer. */
void worker_open_asking(struct worker *worker);

/* Bytes that are due, once a second. */
void worker_produce(struct worker *worker);

/* Hands what is in the outbox to the producer. */
void worker_emit(struct worker *worker);

/* All of the outbox is confirmed, or nothing is produced. */
bool worker_has_emitted(const struct worker *worker);

/* Orderly stop: all unsent bytes into the outbox (unless they are on their way), and out. */
void worker_stop_asking(struct worker *worker, bool draining);

/* Revoked: the same, without the store. */
void worker_drain_asking(struct worker *worker);

/* Stopping or draining: has all been written, or is it time?  At every tick. */
void worker_check_end(struct worker *worker);

/* Callbacks of the watchers of the same name. */
void worker_on_source(struct ev_loop *loop, ev_io *io, int events);
void worker_on_more(struct ev_loop *loop, ev_idle *idle, int events);
void worker_on_due(struct ev_loop *loop, ev_timer *timer, int events);
void worker_on_locate(struct ev_loop *loop, ev_io *io, int events);

#endif
