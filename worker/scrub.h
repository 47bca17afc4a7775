/*
 * scrub.h - reads the store from end to end, again and again: is it still what was written?
 */
#ifndef TALLY_WORKER_SCRUB_H
#define TALLY_WORKER_SCRUB_H

#include "shm/stats.h"
#include "shm/usage.h"

/* So long a pass takes; what is wrong is found within one. */
#define SCRUB_PASS_S 20

/* A slice of it, `slices` of them a second.  A store that contradicts itself ends the process. */
void scrub_slice(struct usage *usage, struct stats *stats, unsigned slices);

#endif
