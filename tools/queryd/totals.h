/*
 * totals.h - counters of this process over all partitions that it has seen.
 *
 * A worker's counters belong to one generation of one partition and leave with
 * it.  Their plain sum would fall when a partition moves away, and a counter
 * that falls is taken for a restart.  So what each generation adds is
 * collected here, at every scrape and once a second: these only rise.  (What
 * a partition counted in its last second before it left may be missing.)
 *
 * They start at 0, or where the query processes before this one were (counts.h).  What a
 * generation had counted before this process began is not counted again: a counter that starts at a high number after it was at a
 * higher one would be taken for that much in an instant.
 */
#ifndef TALLY_QUERYD_TOTALS_H
#define TALLY_QUERYD_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "shm/tally.h"

#define TOTALS_LAGS 18

struct totals;

struct totals_sum {
	uint64_t records;   /* delivered, whatever became of them */
	uint64_t discarded; /* not counted, though they could be read */
	uint64_t invalid;   /* undecodable, or without metadata or tenant */
	uint64_t swept;	    /* expired streams removed */
	uint64_t sent;	    /* records handed to producers */
	uint64_t send_errors;
	/* Of each partition that has read since it was looked at last: the age of its last
	 * record when it was applied; not more than totals_lag_ms(i), the rest; their sum. */
	uint64_t lags[TOTALS_LAGS + 1], lag_ms;
};

/* `started_at_ms`: when this process did, Unix. */
struct totals *totals_new(int64_t started_at_ms);
void totals_free(struct totals **totals);

/* Goes on from there: what others have counted before.  Before anything is added. */
void totals_go_on(struct totals *totals, const struct totals_sum *from);

/* Adds what has come since the last call.  Thread safe. */
void totals_update(struct totals *totals, const struct tally_instance *instance,
	const struct tally_partition *partitions, size_t n);
void totals_sum(struct totals *totals, struct totals_sum *sum);

uint64_t totals_lag_ms(unsigned bucket);

#endif
