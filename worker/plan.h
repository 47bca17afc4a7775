/*
 * plan.h - where replay starts and ends: the whole decision, as a pure function.
 *
 *	facts so far --plan_next--> ask the broker again | read the tail | rebuild | read from here
 *
 * The driver (start.c) carries out the answer, adds what it learned to the
 * facts and calls again, until the action is PLAN_READ or PLAN_REBUILD.
 * Every row of the table in worker/README.md is one branch of plan.c and one
 * test of tests/unit/test_plan.c.
 */
#ifndef TALLY_WORKER_PLAN_H
#define TALLY_WORKER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/stats.h"

/* A log that ends below our offset is asked again for so long: a new leader may say less at first.
 */
#define PLAN_BEYOND_END_MS 10000

/* The tail is read from so many offsets below the end, doubled until a record is delivered. */
#define PLAN_TAIL_OFFSETS 1000

/* The broker's answer to "first offset with timestamp >= T". */
enum plan_time {
	TIME_UNKNOWN, /* not asked, or the question failed */
	TIME_FOUND,
	TIME_NONE /* "no such record": may lie, or mean that the broker cannot tell */
};

/* What reading the tail has shown. */
enum plan_tail {
	TAIL_UNREAD,
	TAIL_YOUNG, /* a record with timestamp >= T is there */
	TAIL_OLD,   /* there are records, and none is that young; or there is no record at all */
	TAIL_FAILED /* could not be read in time */
};

struct plan_facts {
	/* The log, as the broker says; asked in this order.  -1: not known. */
	int64_t end, start;
	enum plan_time time;
	int64_t time_offset; /* with TIME_FOUND */
	enum plan_tail tail;
	/* The store. */
	int64_t stored;	       /* its next offset, when it may be resumed; else -1 */
	int64_t print_offset;  /* of its fingerprint; -1: it has none */
	int64_t anchor_offset; /* of its anchor, not above */
	bool never_ready;      /* its generation has not reached a target yet */
	/* Since when. */
	uint32_t failures;  /* questions that failed */
	uint64_t waited_ms; /* since the first question */
	uint64_t beyond_ms; /* since the log was first found to end below `stored` */
	/* Options. */
	uint32_t offsets_timeout_ms;
	bool ready_on_failure;
};

enum plan_action {
	PLAN_ASK,  /* ask end, start and time again */
	PLAN_TAIL, /* read the tail, then decide */
	PLAN_READ,
	PLAN_REBUILD
};

struct plan {
	enum plan_action action;
	bool degraded;	/* PLAN_ASK: start or end cannot be had */
	bool ready_now; /* PLAN_ASK: say ready before anything is known */
	enum rebuild_reason reason;
	/* PLAN_READ: */
	int64_t from;	/* first offset to count; below `stored` only when no record was delivered
			   yet */
	int64_t target; /* the log's end as a number: replay is done there */
	int64_t check; /* read this offset first and compare it with the fingerprint; -1: nothing to
			  compare */
	int64_t anchor; /* compare this one before that; -1: nothing, or the same */
	int64_t gap;	/* offsets that are gone from the log and were not read */
};

void plan_next(const struct plan_facts *facts, struct plan *plan);

/*
 * Has replay reached its target?  next: the next offset to be counted, or where
 * replay starts; eof: offset of the last end-of-partition event, -1 = none yet;
 * applied: offset of the last record counted, -1 = none.  Any of the three is
 * enough: the last record below the target may never be delivered (markers of
 * transactions, compaction), and the end-of-partition event may never come on a
 * busy partition.
 */
bool plan_done(int64_t target, int64_t next, int64_t eof, int64_t applied);

/* T: records below it are outside every window that counts (Unix ms). */
int64_t plan_since_ms(int64_t now_ms, uint32_t window_minutes, uint32_t margin_s);

/* Where the tail is read from in round 0, 1, ... */
int64_t plan_tail_from(int64_t start, int64_t end, unsigned round);

#endif
