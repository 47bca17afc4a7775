/*
 * clock.c - "now" for counting, from wall time and boot time.
 *
 *	wall - (now + boot time passed)      now becomes
 *	 > step, shorter than the hold       now + boot time passed
 *	 > step, for the hold                wall
 *	 else, wall >= now                   wall
 *	 else (wall is behind)               now
 *
 * Never runs backwards.  A second step while one is being held starts the hold
 * again: what is followed has been steady for all of it.
 *
 * Runs in: worker, query process.  Blocks in: nowhere.
 */
#include "shm/clock.h"

#define NS_PER_MS 1000000

/* Saturating: the floor comes from a file. */
static int64_t add_ms(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static int64_t sub_ms(int64_t a, int64_t b)
{
	int64_t difference;

	return __builtin_sub_overflow(a, b, &difference) ? (a < 0 ? INT64_MIN : INT64_MAX)
							 : difference;
}

/* Wall time is off by more than a step: since when? */
static void mark_off(struct clock *clock, int64_t off_ms, uint64_t boot_ns)
{
	bool ahead = off_ms > 0;
	int64_t moved = sub_ms(off_ms, clock->off_ms);
	bool stepped = moved > CLOCK_STEP_MS || moved < -CLOCK_STEP_MS;

	if (clock->off_since == 0 || ahead != (clock->off_ms > 0) || (ahead && stepped))
		clock->off_since = boot_ns ? boot_ns : 1;
	clock->off_ms = off_ms;
}

static bool held_long_enough(const struct clock *clock, uint64_t boot_ns)
{
	return clock->off_since != 0 && boot_ns > clock->off_since &&
	       boot_ns - clock->off_since >= (uint64_t)CLOCK_HOLD_MS * NS_PER_MS;
}

static void behind(struct clock *clock, int64_t wall_ms, uint64_t boot_ns)
{
	int64_t off_ms = sub_ms(wall_ms, clock->now_ms);

	if (off_ms < -CLOCK_STEP_MS) {
		mark_off(clock, off_ms, boot_ns);
	} else {
		clock->off_since = 0;
		clock->off_ms = off_ms;
	}
}

static void follow(struct clock *clock, int64_t wall_ms)
{
	clock->now_ms = wall_ms;
	clock->off_since = 0;
	clock->off_ms = 0;
}

void clock_start(struct clock *clock, int64_t floor_ms, int64_t wall_ms, uint64_t boot_ns)
{
	*clock = (struct clock){.boot_ns = boot_ns};
	if (wall_ms >= floor_ms) {
		follow(clock, wall_ms);
	} else {
		clock->now_ms = floor_ms;
		behind(clock, wall_ms, boot_ns);
	}
}

int64_t clock_now(struct clock *clock, int64_t wall_ms, uint64_t boot_ns)
{
	uint64_t passed_ms = boot_ns > clock->boot_ns ? (boot_ns - clock->boot_ns) / NS_PER_MS : 0;
	int64_t run_on_ms = add_ms(clock->now_ms, (int64_t)passed_ms);
	int64_t ahead_ms = sub_ms(wall_ms, run_on_ms);

	clock->boot_ns += passed_ms * NS_PER_MS; /* whole ms: fractions add up over calls */
	if (ahead_ms > CLOCK_STEP_MS) {
		mark_off(clock, ahead_ms, boot_ns);
		if (held_long_enough(clock, boot_ns))
			follow(clock, wall_ms);
		else
			clock->now_ms = run_on_ms;
	} else if (wall_ms >= clock->now_ms) {
		follow(clock, wall_ms);
	} else {
		behind(clock, wall_ms, boot_ns);
	}
	return clock->now_ms;
}

bool clock_off(const struct clock *clock)
{
	return clock->off_since != 0;
}

bool clock_stuck(const struct clock *clock, uint64_t boot_ns)
{
	return clock->off_ms < 0 && held_long_enough(clock, boot_ns);
}
