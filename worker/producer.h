/*
 * producer.h - an idempotent Kafka producer for one partition: records in, and whether they are there.
 *
 *	producer_open -> producer_put ... -> producer_poll, producer_state -> ... -> producer_close
 *
 * With source.c and locate.c the only file that knows librdkafka.  Nothing here
 * waits for the broker.  It tries for ever what can heal by itself; after the first
 * record that it gives up, it sends none of those behind, and is to be closed.
 */
#ifndef TALLY_WORKER_PRODUCER_H
#define TALLY_WORKER_PRODUCER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/handoff.h"
#include "shm/record.h"

struct producer;

/* Why records were given up, as far as it makes a difference to us. */
enum producer_error {
	PRODUCER_WELL,
	PRODUCER_DENIED,    /* no right to write to the topic */
	PRODUCER_NO_TOPIC,  /* no such topic or partition */
	PRODUCER_TOO_LARGE, /* this record, or so many at once */
	PRODUCER_BAD_TIME,  /* a timestamp that the topic does not take */
	PRODUCER_REFUSED,   /* a record that the broker does not take for another reason */
	PRODUCER_FORMAT,    /* the broker does not know what we send */
	PRODUCER_FAILED	    /* anything else: heals, or not, by trying again */
};

/*
 * Its threads are born with all signals blocked.  `fd`, an eventfd of the caller's, is
 * written to until producer_close when there is something to poll.  ERR_INVALID: librdkafka refuses an option, logged; ERR_BUSY: too many
 * earlier ones are still on their way out.
 */
int producer_open(const struct handoff *handoff, int fd, struct producer **out);

/* All borrowed. */
struct producer_record {
	const void *key, *value;
	size_t key_len, value_len;
	int64_t timestamp_ms;
	uint8_t header[RECORD_HEADER_SIZE]; /* of the header RECORD_HEADER */
};

/* Queues a copy.  False: it is not queued, and the producer has an error. */
bool producer_put(struct producer *producer, const struct producer_record *record);

/* Hears what there is to hear. */
void producer_poll(struct producer *producer);

struct producer_state {
	unsigned in_flight;	   /* queued, and no word of them yet */
	uint64_t confirmed;	   /* by the broker, of all that were put */
	enum producer_error error; /* the first one */
	uint64_t error_ns;	   /* CLOCK_BOOTTIME */
	const char *words;	   /* of librdkafka, one line: of the error, or of what it tries */
};
void producer_state(const struct producer *producer, struct producer_state *state);

/*
 * Takes it.  What was not sent is not sent any more; it goes in a thread of its own.
 * A request that is on its way can still arrive.
 */
void producer_close(struct producer **producer);

#endif
