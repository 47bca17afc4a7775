/*
 * source.h - one partition of a Kafka topic as a sequence of events.
 *
 *	source_start(offset) -> source_fetch: a batch -> source_next: one event, one event, ...
 *
 * With locate.c and producer.c the only file that knows librdkafka; its codes
 * are translated here.  Nothing here waits for the broker.  Where to go on is
 * never asked of the library: it follows from the events (P25).
 */
#ifndef TALLY_WORKER_SOURCE_H
#define TALLY_WORKER_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/handoff.h"

#define SOURCE_BATCH 10000 /* most events of one source_fetch */

struct rd_kafka_s;
struct source;

enum source_kind {
	SOURCE_RECORD,
	SOURCE_END,	     /* nothing below `offset` is left to read, as of now */
	SOURCE_OUT_OF_RANGE, /* the log does not hold our offset; nothing more comes until
				source_start */
	SOURCE_UNKNOWN,	     /* no such topic or partition */
	SOURCE_DENIED,	     /* no right to read it */
	SOURCE_DOUBT, /* what follows may be of another log; the rest of the batch is dropped */
	SOURCE_BAD,   /* data that cannot be read: the library's own position may pass records
				by then; source_start again from the last good one */
	SOURCE_ERROR  /* anything else; the library tries again by itself */
};

struct source_event {
	enum source_kind kind;
	int64_t offset; /* of the record, or the end; -1 when it has none */
	/* SOURCE_RECORD.  Borrowed until the next source_next, source_fetch or source_stop. */
	const void *key, *value;
	size_t key_len, value_len;
	const void *header; /* value of the last `tally` header, or NULL */
	size_t header_len;
	int64_t timestamp_ms; /* -1: none */
	const char *error;    /* the other kinds but END: a sentence */
};

/*
 * Makes the client.  ERR_INVALID: librdkafka refuses an option; logged.
 * Signals should be blocked: the client's threads inherit the mask.
 */
int source_open(const struct handoff *handoff, struct source **out);

/* Readable when there may be something to fetch: an eventfd; the owner reads it before fetching. */
int source_fd(const struct source *source);

/*
 * What is read from here on is compared with the store before it is counted: whatever the client
 * asked until now is forgiven.  Before source_start.
 */
void source_trust(struct source *source);

/* As if the client had asked: for whoever may have slept through it. */
void source_distrust(struct source *source);

/* Reads on from `offset`; stops what was read before. */
void source_start(struct source *source, int64_t offset);

/* Drops what was fetched.  No event of the old position is seen afterwards. */
void source_stop(struct source *source);

/*
 * Takes a batch off the queue, at most `max` events; only when the last batch is used up.  Returns
 * its size.
 *
 * When the client has asked for metadata since source_trust, the only event is SOURCE_DOUBT, again
 * and again until the next source_trust.  It asks when its leader is gone or says that it has no
 * such partition, and every topic.metadata.refresh.interval.ms besides: a topic that was deleted
 * and created again, or a log that was cut at a change of leader, does not go by without it (P07,
 * P08), as long as a fetch is under way all the time.  librdkafka tells of neither when the new log
 * holds our offset: 2.0.2 fetches by name.
 */
size_t source_fetch(struct source *source, size_t max);

/* The next event of the batch; false: used up. */
bool source_next(struct source *source, struct source_event *event);

/* No record follows the current event in this batch without another kind of event in between. */
bool source_last(const struct source *source);

/* Serves log lines and error reports of the client.  A few times a second. */
void source_poll(struct source *source);

/* For locate.c, whose thread asks the same client. */
struct rd_kafka_s *source_client(const struct source *source);

/* librdkafka >= 2.2 looks at a full queue again by itself (locate_hurry is not needed). */
bool source_needs_hurry(void);

#endif
