/*
 * fleet_blame.c - a store that query processes cannot read is built anew.
 *
 *	query process: SIGSEGV in p7.1234 -> last words -> fleet_blame, twice -> new generation
 *	               it contradicts itself ---^
 *
 * LMDB's pages have no checksums: who follows a garbled one dies of it, and the worker may not
 * touch that page for hours.  One death can be chance.
 *
 * Runs in: supervisor.  Blocks in: nowhere.
 */
#include "supervisor/fleet_blame.h"

#include <inttypes.h>

#include "shm/log.h"
#include "supervisor/part.h"

#define BLAMES_BEFORE_REBUILD 2

static void renew(struct part *part)
{
	struct crash_limits limits = {
		part_config(part)->restart_min_ms, part_config(part)->restart_max_ms};
	struct crash_death death = {.stored = part->crash.stored};
	uint32_t wait_ms;
	int64_t offset;
	/* Should it not be the store, replays must not follow each other at once. */
	crash_judge(&part->crash, &death, &limits, &wait_ms, &offset);
	part_back_off(part, part->crash.deaths > 1 ? wait_ms : 0);
	part_store_is_deadly(part, "query");
	part_event(part, ON_RECOUNT);
}

void fleet_blame(struct fleet *fleet, uint32_t partition, uint64_t generation)
{
	if (fleet->stopping || partition >= TABLE_CAPACITY || !generation)
		return;
	struct part *part = &fleet->parts[partition];
	if (part->generation != generation)
		return;
	part->blames = part->blamed == generation ? part->blames + 1 : 1;
	part->blamed = generation;
	log_warn("store.blamed", "partition=%u generation=%" PRIu64 " times=%u", partition,
		generation, part->blames);
	if (part->blames < BLAMES_BEFORE_REBUILD)
		return;
	part->blames = 0;
	renew(part);
}
