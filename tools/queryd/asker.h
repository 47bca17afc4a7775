/*
 * asker.h - the thread that asks: one loop with the map, the ledger, the workers, the touches.
 *
 *	gRPC (same thread) --ask_begin--.
 *	HTTP threads --asker_submit-----+--> loop --> done
 *	main --asker_call---------------'
 *
 * All that decides about limits is in this one thread, so nothing in it has a
 * lock; other threads put what they want into its mailbox.
 */
#ifndef TALLY_QUERYD_ASKER_H
#define TALLY_QUERYD_ASKER_H

#include <ev.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ask.h"
#include "refusals.h"

#include "shm/tally.h"

#define ASKER_SUBMITS_MAX 1024 /* questions of other threads at a time */
#define ASKER_LATENCIES	  16

/* `run_dir` is kept; it need not be there yet.  `loop` is the asker's; see asker_loop. */
struct asker *asker_new(const char *run_dir);

/* For what shall run in its thread (the gRPC server): to be set up before asker_start. */
struct ev_loop *asker_loop(struct asker *asker);

/*
 * Counts there instead of in memory of its own, for metrics of others to see; before asker_start.
 * What they have is gone on from; they are kept.
 */
struct ask_counts {
	_Atomic uint64_t questions[2];	/* by enum ask_kind */
	_Atomic uint64_t streams[2][4]; /* and by enum ask_result */
	_Atomic uint64_t from_map;	/* see struct asker_facts */
	_Atomic uint64_t under_way;
	_Atomic uint64_t refused;
	_Atomic uint64_t latency[ASKER_LATENCIES + 1];
	_Atomic uint64_t latency_ns;
};
void asker_count_in(struct asker *asker, struct ask_counts *counts, struct refusals_rows *refused,
	struct refusals_rows *accepted);

/* Starts the thread, deaf to signals.  false: there can be no more threads. */
bool asker_start(struct asker *asker);

/* Runs fn(arg) in its thread and waits for it. */
void asker_call(struct asker *asker, void (*fn)(void *arg), void *arg);

/*
 * From another thread: asks, and waits for the answer; `done` and `arg` of `ask`
 * are set here.  `again` is a handle of the caller's: words and leases are
 * checked once more with it, right before this returns, for an answer that is
 * handed from thread to thread gets older.  NULL: the caller checks by himself.
 * TALLY_EINVALID as ask_begin; TALLY_EBUSY: too many wait; TALLY_ESTALE: it is stopping.
 */
int asker_submit(struct asker *asker, struct ask *ask, struct tally *again);

/*
 * What asker_submit begins questions with; NULL = ask_begin.  It keeps the promise of
 * ask_begin, and calls `done` from the `done` of an ask.  In its thread, or before asker_start.
 */
void asker_set_begin(struct asker *asker, int (*begin)(void *arg, struct ask *ask), void *arg);

/*
 * Ends the thread: questions under way have up to `grace_ms`, then they get what is known;
 * touches are sent.  Whoever uses its loop has to have ended that before.
 */
void asker_stop(struct asker *asker, unsigned grace_ms);
void asker_free(struct asker **asker); /* stopped, or never started */

/* Partitions that are ready: number and assignment (Unix ns), at most cap.  In its thread.
 * How many; or a TALLY_E*. */
struct asker_partition {
	uint32_t partition;
	int64_t assigned_at_ns;
};
int asker_partitions(struct asker *asker, struct asker_partition *out, size_t cap);

/* There is a tallyd that runs.  In its thread. */
bool asker_alive(struct asker *asker);

/* --- for metrics, from any thread ------------------------------------------------------------- */

struct asker_facts {
	uint64_t questions[2];	/* by enum ask_kind */
	uint64_t streams[2][4]; /* and by enum ask_result */
	uint64_t from_map;	/* streams that were accepted from the map alone */
	uint64_t under_way;	/* questions now */
	uint64_t refused;	/* questions: too many streams were under way */
	uint64_t latency[ASKER_LATENCIES +
			 1]; /* answers not slower than asker_latency_ns(i); the rest */
	uint64_t latency_ns; /* sum */
	uint64_t touches_waiting, touches_sent, touches_dropped, touches_refused;
	uint64_t touches_coalesced;
	uint64_t links_open, link_waiting, link_lost, link_refused, link_unexpected;
	uint64_t ledger_accounts, ledger_waiting, ledger_reserved, ledger_readings;
};
void asker_facts(struct asker *asker, struct asker_facts *facts);
uint64_t asker_latency_ns(unsigned bucket);

/* By tenant, see refusals_list. */
size_t asker_refusals(struct asker *asker, struct refusals_of *out, size_t cap);

/* The same of bytes that were accepted, in `refused`. */
size_t asker_accepted(struct asker *asker, struct refusals_of *out, size_t cap);

/* --- of ask.c --------------------------------------------------------------------------------- */

/* After a round of work: touches are sent in time. */
void asker_nudge(struct asker *asker);

#endif
