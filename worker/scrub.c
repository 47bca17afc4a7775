/*
 * scrub.c - reads the store from end to end, again and again: is it still what was written?
 *
 *	tick --> usage_scrub: a slice --> as it was --> next tick goes on
 *	                              '-> ERR_CORRUPT --> a new generation, from the log
 *
 * Who asks for a value that was overwritten is told so, and the batch that needs it ends the
 * worker.  This is for what nobody asks for, and for what has vanished.  A million streams
 * take some 20 ms of a pass.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "scrub.h"

#include "quit.h"

#include "shm/err.h"

#define STEPS_LEAST 4

void scrub_slice(struct usage *usage, struct stats *stats, unsigned slices)
{
	uint64_t steps = usage_scrub_steps(usage) / (SCRUB_PASS_S * slices) + 1;
	char why[256];

	if (steps < STEPS_LEAST)
		steps = STEPS_LEAST;
	if (usage_scrub(usage, steps, why) == ERR_CORRUPT)
		quit_rebuild(stats, REBUILD_CORRUPT, why);
}
