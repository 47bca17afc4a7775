/*
 * link.h - connections to the workers: one per partition, over its admit.sock.
 *
 *	links_ask --> sent | queued --> answer --> done(message, answer)
 *	                        '------ lost ----> done(message, NULL)
 *	links_tell -> sent | LINK_BUSY: keep it and come again
 *
 * A connection belongs to one generation; the first message for another one ends it.
 * What was sent over a connection that is lost is never sent again: nobody knows
 * what became of it.  A worker that does not answer is not given up here, because
 * it may still do what it was asked: whoever waits stops waiting, the message
 * stays until its answer comes or the worker has ended.  But one that has been
 * silent for LINK_SILENT_NS, with a question sent, is not asked any more until it
 * answers: LINK_BUSY at once, but for a question each LINK_PROBE_NS.
 *
 * `done` is never called from inside links_ask or links_tell for the message that
 * is being handed over; it may be called there for others (the connection was lost).
 *
 * One thread, one loop.
 */
#ifndef TALLY_QUERYD_LINK_H
#define TALLY_QUERYD_LINK_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/admit.h"

#define LINK_MESSAGES_MAX 8192	    /* under way to one worker */
#define LINK_QUEUE_MAX	  (8 << 20) /* bytes that one worker has not taken yet */
#define LINK_SILENT_NS	  UINT64_C(2000000000)
#define LINK_PROBE_NS	  UINT64_C(30000000000) /* far more than anybody waits for one */

/* The head of whatever its owner keeps about a question. */
struct link_message {
	struct link_message *next, *prev; /* in the connection */
	uint64_t id;			  /* links_next_id, also in the packed question */
	uint8_t *queued;		  /* packed bytes that wait; NULL: they were sent */
	size_t len;
	bool sent; /* false at done(message, NULL): it never left, nothing was done */
};

struct links_options {
	struct ev_loop *loop;
	const char *run_dir;
	/* The message is its owner's again.  `answer` is checked, and has as many elements as it says. */
	void (*done)(struct link_message *message, const struct admit_answer *answer, void *arg);
	/* After a round of done calls from the loop. */
	void (*settle)(void *arg);
	void *arg;
};

struct links;

struct links *links_new(const struct links_options *options); /* kept: run_dir, arg */
void links_free(struct links **links);			      /* done(message, NULL) for all */

uint64_t links_next_id(struct links *links);

enum link_result {
	LINK_OK,
	LINK_BUSY, /* the worker does not take it now, and enough is waiting; or it is silent */
	LINK_GONE  /* there is no worker: nothing was done */
};

/* A question, packed.  After LINK_OK the message is kept until done. */
enum link_result links_ask(struct links *links, uint32_t partition, uint64_t generation,
	const uint8_t *bytes, size_t len, struct link_message *message);

/* A message without an answer: never queued. */
enum link_result links_tell(struct links *links, uint32_t partition, uint64_t generation,
	const uint8_t *bytes, size_t len);

/* true: the message had not been sent, and is its owner's again. */
bool links_withdraw(struct links *links, uint32_t partition, struct link_message *message);

/* Ends the connection of a partition unless it is of this generation. */
void links_keep(struct links *links, uint32_t partition, uint64_t generation);

/* The generation of its connection; 0 = none. */
uint64_t links_generation(const struct links *links, uint32_t partition);

struct links_facts {
	uint64_t open;	     /* connections now */
	uint64_t waiting;    /* questions under way or queued */
	uint64_t sent;	     /* messages ever */
	uint64_t lost;	     /* questions whose worker ended before it answered */
	uint64_t refused;    /* connections that a worker did not take */
	uint64_t unexpected; /* answers that made no sense: that connection was ended */
};
const struct links_facts *links_facts(const struct links *links);

#endif
