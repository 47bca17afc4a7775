/*
 * facts.h - what a worker tells the world about itself: its stats file.
 *
 * The values of what was counted mirror the store's meta row after each commit.
 */
#ifndef TALLY_WORKER_FACTS_H
#define TALLY_WORKER_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/stats.h"
#include "shm/usage.h"

#define FACTS_RATE_SLOTS 8 /* seconds that a rate is taken over */

struct facts {
	struct stats *stats;
	struct {
		uint64_t at_ns, records;
	} rate[FACTS_RATE_SLOTS];
	unsigned rate_next;
	/* The oldest reader, and since when that has been the same transaction of the same one. */
	uint64_t reader_txn, reader_since_ns;
	uint32_t reader_pid; /* 0 = none */
};

void facts_start(struct facts *facts, struct stats *stats);

void facts_phase(struct facts *facts, enum worker_phase phase);

/* Sets or clears a flag; true when that was a change. */
bool facts_flag(struct facts *facts, enum worker_flag flag, bool on);

void facts_add_lookup_error(struct facts *facts);

/* All counters, from the store's meta row. */
void facts_mirror(struct facts *facts, const struct usage_meta *meta);

/* One more commit of this process, which took so long. */
void facts_committed(struct facts *facts, uint64_t began_ns, uint64_t ended_ns);

/* Rate and size of the store.  Once a second. */
void facts_second(struct facts *facts, struct usage *usage, uint64_t now_ns);

#endif
