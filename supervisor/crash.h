/*
 * crash.h - what to do about a worker that died: wait how long, blame whom.  Pure.
 *
 * Back-off doubles from min to max and starts over when the stored offset has
 * advanced since the last death.  Poison: only deaths by SIGSEGV, SIGBUS,
 * SIGILL, SIGFPE and SIGABRT count.  After the second of them without progress
 * the worker gets batches of one record, so that the offset in hand names
 * exactly one; the third or a later death with the same offset in hand as the
 * one before quarantines that offset: a poison record costs one record.
 * A worker that crashes while it opens its store, or gives up there three times
 * in a row, gets a new generation.  So does one that has died three times inside of a
 * transaction: pages have no checksums, and whoever meets a bad one dies of it.  When the
 * new store kills it at the same offset, the record is to blame after all.
 */
#ifndef TALLY_SUPERVISOR_CRASH_H
#define TALLY_SUPERVISOR_CRASH_H

#include <stdbool.h>
#include <stdint.h>

struct crash {
	unsigned deaths;      /* in a row without progress, of any kind */
	unsigned crashes;     /* of those that count, in this series */
	uint64_t stored;      /* next offset + 1 at the last death; 0 = nothing stored */
	uint64_t in_hand;     /* offset + 1 in hand at the last counted death; 0 = none */
	uint64_t suspect;     /* highest in_hand of the series: passing it ends the series */
	bool one_by_one;      /* batches of one */
	unsigned openings;    /* exits in a row while it opened its store */
	unsigned in_store;    /* deaths that count inside of this store, since it was made */
	uint64_t renewed_for; /* offset + 1 in hand when a store was renewed for such deaths */
};

struct crash_death {
	int signal;	  /* 0 = it exited */
	bool opening;	  /* it died while it opened its store */
	bool in_store;	  /* ... or inside of a transaction */
	uint64_t stored;  /* as in its stats: next offset + 1, 0 = none */
	uint64_t in_hand; /* as in its stats: offset + 1, 0 = none */
};

enum crash_verdict {
	CRASH_RETRY,	 /* same store, after wait_ms */
	CRASH_REBUILD,	 /* the store itself kills it: new generation, after wait_ms */
	CRASH_QUARANTINE /* pass over `offset`, then retry after wait_ms */
};

struct crash_limits {
	uint32_t min_ms, max_ms;
};

/* Judges a death; updates the series. */
enum crash_verdict crash_judge(struct crash *crash, const struct crash_death *death,
	const struct crash_limits *limits, uint32_t *wait_ms, int64_t *offset);

/* Seen while the worker lives: ends the series when it is past what killed it. */
void crash_progress(struct crash *crash, uint64_t stored);

#endif
