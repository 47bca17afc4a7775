/*
 * now.h - the time to count with: wall time plus the instance's offset, as clock.h corrects it.
 */
#ifndef TALLY_WORKER_NOW_H
#define TALLY_WORKER_NOW_H

#include <stdint.h>

#include "shm/clock.h"
#include "shm/host.h"
#include "shm/table.h"

struct now {
	const struct table *table; /* its head has the offset, for tests and drills */
	struct clock clock;
};

/* Wall time with the offset in it: what the store's own clock (meta.clock_ms) has in it, too. */
static inline int64_t now_wall_ms(const struct now *now)
{
	return host_wall_ms() +
	       atomic_load_explicit(&now->table->head->clock_offset_ms, memory_order_relaxed);
}

static inline void now_start(struct now *now, const struct table *table, int64_t floor_ms)
{
	now->table = table;
	clock_start(&now->clock, floor_ms, now_wall_ms(now), host_boot_ns());
}

static inline int64_t now_ms(struct now *now)
{
	return clock_now(&now->clock, now_wall_ms(now), host_boot_ns());
}

#endif
