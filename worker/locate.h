/*
 * locate.h - the side thread that asks the broker for offsets.
 *
 *	main loop --locate_ask--> thread: end, start, cluster, time --eventfd--> locate_answer
 *
 * Every call of librdkafka that waits for a broker is made here and nowhere
 * else, so the main loop never waits.  One question at a time; a new one
 * replaces one that has not been answered.
 */
#ifndef TALLY_WORKER_LOCATE_H
#define TALLY_WORKER_LOCATE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

struct rd_kafka_s;
struct locate;

struct locate_options {
	struct rd_kafka_s *client; /* kept */
	const char *topic;	   /* kept */
	int32_t partition;
	int timeout_ms; /* of one call */
	bool hurry;	/* locate_hurry is needed at all: librdkafka < 2.2 */
};

struct locate_answer {
	unsigned id;	    /* of the question, as locate_ask returned it */
	int64_t end, start; /* -1: not known */
	enum plan_time time;
	int64_t time_offset;
	char cluster[64]; /* "": not known yet */
	char error[160];  /* of the first call that failed; "" when all went well */
};

/* Starts the thread.  Signals should be blocked: it inherits the mask. */
int locate_start(const struct locate_options *options, struct locate **out);

/* For tests; a worker ends without it. */
void locate_stop(struct locate **locate);

/* An eventfd, readable when there is an answer. */
int locate_fd(const struct locate *locate);

/* Asks for end and start, in this order; and for the first offset at or after since_ms, when >= 0.
 */
unsigned locate_ask(struct locate *locate, int64_t since_ms);

/* Takes the answer; false when there is none.  Reads the eventfd. */
bool locate_answer(struct locate *locate, struct locate_answer *answer);

/*
 * While on, the end is asked every LOCATE_HURRY_MS.  That is what makes a client
 * below 2.2 look at its queue again: when the queue is full its broker thread
 * sleeps for up to a second, unless a request wakes it.
 */
#define LOCATE_HURRY_MS 30
void locate_hurry(struct locate *locate, bool on);

/* The end of the log as last heard by any of these calls; -1 = not yet.  Lock-free. */
int64_t locate_end(const struct locate *locate);

#endif
