/*
 * schedule.h - a list of records drawn from a seed, with all that can be odd about them.
 *
 * Five tenants, a few policies, hot and cold streams; late, future, too old and
 * missing timestamps; sources that repeat themselves; our own records; records
 * of other partitions.  Time runs on over several windows.
 */
#ifndef TALLY_TESTS_SCHEDULE_H
#define TALLY_TESTS_SCHEDULE_H

#include "shm/record.h"

#define SCHEDULE_START_MS (INT64_C(28000000) * 60000 + 12345)

struct schedule {
	uint64_t seed;
	uint32_t partition, partitions, window;
	size_t n;
	struct record *records; /* offsets 0, 1, ... */
	int64_t *now_ms;	/* when each is read; never goes back */
	bool *own;		/* those that pretend to be the store's own */
};

/* `span_ms`: how long the whole list takes. */
void schedule_make(
	struct schedule *schedule, uint64_t seed, uint32_t window, size_t n, int64_t span_ms);
void schedule_free(struct schedule *schedule);

/* Gives the own records their incarnation, which is known when the store is there. */
void schedule_own(struct schedule *schedule, const uint8_t incarnation[INCARNATION_SIZE]);

/* Random numbers: state is any number; below > 0. */
uint64_t schedule_draw64(uint64_t *state);
uint32_t schedule_draw(uint64_t *state, uint32_t below);

/* TALLY_SEED, or a new one; printed. */
uint64_t schedule_seed(void);

#endif
