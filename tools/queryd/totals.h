/*
 * totals.h - counters of this process over all partitions that it has seen.
 *
 * A worker's counters belong to one generation of one partition and leave with
 * it.  Their plain sum would fall when a partition moves away, and a counter
 * that falls is taken for a restart.  So what each generation adds is
 * collected here, at every scrape and once a second: these only rise.  (What
 * a partition counted in its last second before it left may be missing.)
 */
#ifndef TALLY_QUERYD_TOTALS_H
#define TALLY_QUERYD_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "shm/tally.h"

struct totals;

struct totals_sum {
	uint64_t records;   /* delivered, whatever became of them */
	uint64_t discarded; /* not counted, though they could be read */
	uint64_t invalid;   /* undecodable, or without metadata or tenant */
};

struct totals *totals_new(void);
void totals_free(struct totals **totals);

/* Adds what has come since the last call.  Thread safe. */
void totals_update(struct totals *totals, const struct tally_partition *partitions, size_t n);
void totals_sum(struct totals *totals, struct totals_sum *sum);

#endif
