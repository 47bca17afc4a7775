/*
 * emit.h - the outbox to Kafka: rows in order of their sequence, by an idempotent producer.
 *
 *	usage (outbox rows) --emit_pump--> librdkafka --> partition N of the topic
 *	       ^                                             |
 *	       '---- own record read back: row deleted <-----'  (replay.c)
 *
 * Order is what other stores rely on: they skip a sequence that is not above the
 * highest one they know of us.  So a row is never sent past one that has failed:
 * when the producer gives one up, it is closed, and a new one begins again with
 * the lowest row there is.  What arrives twice is skipped by everybody.
 *
 * Kafka away: rows stay in the store, which is bounded; nothing is lost, and
 * sending goes on where it was.
 */
#ifndef TALLY_WORKER_EMIT_H
#define TALLY_WORKER_EMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "facts.h"
#include "now.h"

#include "shm/handoff.h"
#include "shm/usage.h"

struct emit;

/* All kept. */
struct emit_options {
	const struct handoff *handoff;
	struct usage *usage;
	struct facts *facts;
	struct now *now; /* what a row gets whose own time is refused, and what it expires by */
	/* Asked right before each batch is handed to the producer: the lease. */
	bool (*may_send)(void *arg);
	void *arg;
};

/* Makes no connection before there is something to send. */
void emit_new(const struct emit_options *options, struct emit **out);

/* An eventfd that becomes readable when the producer has something to say. */
int emit_fd(const struct emit *emit);

/*
 * Hands over what is in the outbox and was not handed over yet, as far as the
 * producer's queue (bounded) has room, and hears what it says.  Call it after
 * each commit, when the descriptor is readable, and at every tick.  Never blocks.
 */
void emit_pump(struct emit *emit);

/* Rows handed over that no broker has confirmed yet.  For tests. */
unsigned emit_in_flight(const struct emit *emit);

/* Every row in the outbox has been confirmed by the broker (read back or not). */
bool emit_is_done(const struct emit *emit);

/*
 * The partition is being revoked: hands over all rows, then what usage_unsent_list
 * gives, whatever may_send says (the store takes no commits any more, and what was
 * admitted must reach the next owner).  emit_is_done tells when all is confirmed.
 */
void emit_drain(struct emit *emit);

/* Closes it, whatever is under way.  For tests: a worker just ends. */
void emit_free(struct emit **emit);

#endif
