/*
 * now.h - the time to count with: wall time as clock.h corrects it, plus the instance's offset.
 */
#ifndef TALLY_WORKER_NOW_H
#define TALLY_WORKER_NOW_H

#include <stdint.h>

#include "shm/clock.h"
#include "shm/host.h"
#include "shm/table.h"

struct now {
	const struct table *table; /* its head has the offset */
	struct clock clock;
};

/* For tests and drills; in force at once, so it is added to the corrected clock, not to wall time.
 */
static inline int64_t now_offset_ms(const struct now *now)
{
	return atomic_load_explicit(&now->table->head->clock_offset_ms, memory_order_relaxed);
}

/* floor_ms: the store's own clock (meta.clock_ms), which has the offset in it. */
static inline void now_start(struct now *now, const struct table *table, int64_t floor_ms)
{
	now->table = table;
	clock_start(&now->clock, floor_ms - now_offset_ms(now), host_wall_ms(), host_boot_ns());
}

static inline int64_t now_ms(struct now *now)
{
	return clock_now(&now->clock, host_wall_ms(), host_boot_ns()) + now_offset_ms(now);
}

#endif
