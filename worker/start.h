/*
 * start.h - finds out where to start reading, without ever waiting.
 *
 *	start_begin -> ask --answer--> plan --> tail? --> check? --> FOUND
 *	                ^                |                    |
 *	                '--- back-off <--'--> REBUILD <-------'
 *
 * Carries out what plan.c decides: asks the broker through locate, reads the
 * tail of the log or the record of the fingerprint through source.
 */
#ifndef TALLY_WORKER_START_H
#define TALLY_WORKER_START_H

#include <stdbool.h>
#include <stdint.h>

#include "locate.h"
#include "plan.h"
#include "source.h"

#include "shm/handoff.h"
#include "shm/log.h"
#include "shm/usage.h"

enum start_state {
	START_ASKING,  /* a question is under way */
	START_WAITING, /* it will be asked again at due_ns */
	START_TAIL,    /* reading the tail */
	START_CHECK,   /* reading the records of anchor and fingerprint */
	START_FOUND,   /* plan says where; the source has been started there */
	START_REBUILD  /* plan.reason says why */
};

struct start {
	enum start_state state;
	struct plan plan;
	uint64_t due_ns; /* call start_timer then; 0 = no need */
	/* private */
	const struct handoff *handoff;
	struct source *source;
	struct locate *locate;
	struct plan_facts facts;
	struct usage_fingerprint print, anchor;
	const struct usage_fingerprint *checking; /* one of the two, in START_CHECK */
	int64_t since_ms;
	unsigned question, round, seen;
	uint64_t began_ns, found_ns, beyond_ns;
	int64_t began_at; /* next offset then */
	bool again;	  /* only to see whether it is still the same log */
	uint32_t backoff_ms;
	struct log_limit limit, unread_limit;
};

/* All kept. */
void start_init(struct start *start, const struct handoff *handoff, struct source *source,
	struct locate *locate);

/* What is known of the store. */
struct start_store {
	int64_t next_offset; /* -1: nothing to resume */
	struct usage_fingerprint print, anchor;
	bool never_ready;
	bool again; /* nothing has failed: it is only to be seen whether the log is still the same */
};

/* Begins anew.  now_ms: the time to count with. */
void start_begin(struct start *start, const struct start_store *store, int64_t now_ms);

/* An answer of locate; false when it belongs to another question. */
bool start_answer(struct start *start, const struct locate_answer *answer);

/* An event of the source, in START_TAIL and START_CHECK. */
void start_event(struct start *start, const struct source_event *event);

void start_timer(struct start *start);

#endif
