/*
 * ask.h - questions: from the map what the map can answer, the rest from the partitions' workers.
 *
 *	struct ask --ask_begin--> every partition served?  no: UNAVAILABLE, nothing was done
 *	                          map: known and active  -> accepted, TOUCH queued (touch.h)
 *	                          else                   -> ledger: a budget -> ADMIT to the worker
 *	                          answers in, words and leases again -> done(ask)
 *
 * One thread, one loop (asker.h).  `done` is called exactly once, maybe before
 * ask_begin returns, unless ask_cancel comes first.  After the last check of words
 * and leases nothing follows but `done`, which must send at once.
 */
#ifndef TALLY_QUERYD_ASK_H
#define TALLY_QUERYD_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a message of 4 MiB, gRPC's own default, has of streams that say anything. */
#define ASK_STREAMS_MAX 262144
/* Of all questions under way; for more they are answered ASK_FAILED at once. */
#define ASK_UNDER_WAY_MAX (8 * ASK_STREAMS_MAX)

enum ask_kind { ASK_EXCEEDS, ASK_RATES };

/* Of one stream. */
enum ask_result {
	ASK_ACCEPTED,
	ASK_REJECTED, /* reason 2: max streams */
	ASK_FAILED,   /* reason 1: asked, and it is not known what became of it, or nothing did */
	ASK_UNSERVED  /* its partition is not served here, or left meanwhile */
};

struct ask_stream {
	uint64_t hash, bytes;
	const char *policy; /* "" = default; borrowed until done */
	/* filled */
	enum ask_result result;
	uint64_t rate; /* ASK_RATES: bytes per second */
};

struct ask {
	enum ask_kind kind;
	const char *tenant; /* borrowed until done */
	struct ask_stream *streams;
	size_t n;
	uint64_t
		deadline_ns; /* CLOCK_BOOTTIME; the answer comes before, with ASK_FAILED for the rest */
	bool all_or_nothing; /* any unserved stream: nothing is done, all are ASK_UNSERVED */
	void (*done)(struct ask *ask);
	void *arg;
	void *private; /* of ask.c */
};

struct asker;

/* 0: done was or will be called.  TALLY_EINVALID: a name or a number is out of range. */
int ask_begin(struct asker *asker, struct ask *ask);

/* The one who asked has gone: done is not called.  What was sent to workers is done all the same. */
void ask_cancel(struct asker *asker, struct ask *ask);

#endif
