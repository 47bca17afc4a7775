/*
 * clock.h - "now" for counting: wall time that never runs backwards and does
 * not follow a jump at once.
 *
 *	wall ms, boot ns --> clock_now --> ms used for active / too old / expiry
 *
 * A backward step makes the clock stand still until wall time has caught up.
 * A forward step of more than CLOCK_STEP_MS (seen between two calls, after
 * taking off the boot time that passed) is followed only after it has lasted
 * CLOCK_HOLD_MS of boot time; until then the clock runs on at boot time's
 * pace.  A backward step of more than CLOCK_STEP_MS that has lasted
 * CLOCK_HOLD_MS cannot be followed (the store's rows are ahead): clock_stuck
 * says so, and the store must be rebuilt.  Pure: no system call.
 */
#ifndef TALLY_SHM_CLOCK_H
#define TALLY_SHM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_STEP_MS (5 * 60 * 1000)
#define CLOCK_HOLD_MS (10 * 60 * 1000)

struct clock {
	int64_t now_ms;	    /* last answer */
	uint64_t boot_ns;   /* boot time of the last answer */
	uint64_t off_since; /* boot ns since when wall time differs by more than a step; 0 = it does
			       not */
	int64_t off_ms;	    /* by how much: wall - now, as last seen */
};

/* Starts at `wall_ms`, or at `floor_ms` (the store's own clock) when that is later. */
void clock_start(struct clock *clock, int64_t floor_ms, int64_t wall_ms, uint64_t boot_ns);

/* The time to count with, Unix ms. */
int64_t clock_now(struct clock *clock, int64_t wall_ms, uint64_t boot_ns);

/* Wall time differs by more than a step: raise an alarm. */
bool clock_off(const struct clock *clock);

/* Wall time has been behind by more than a step for longer than the hold. */
bool clock_stuck(const struct clock *clock, uint64_t boot_ns);

#endif
