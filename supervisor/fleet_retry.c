/*
 * fleet_retry.c - workers that cannot go on are started again: they may have old passwords.
 *
 *	SIGHUP -> secret files anew -> fleet_retry: SIGKILL -> reaped -> started with the new ones
 *
 * That is no death of theirs: no back-off, and nothing is counted.
 *
 * A worker is told its secrets once, at exec.  One that was refused by the broker
 * would try its old ones for ever.
 *
 * Runs in: supervisor.  Blocks in: nowhere.
 */
#include "supervisor/fleet_retry.h"

#include "shm/log.h"
#include "supervisor/part.h"

void fleet_retry(struct fleet *fleet)
{
	unsigned n = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		struct part *part = &fleet->parts[p];
		if (part->life != LIFE_RUNNING || !part->child.pid || (part->ready && !part->waits))
			continue;
		part_event(part, ON_AGAIN);
		n++;
	}
	if (n)
		log_info("reload.workers_again", "workers=%u", n);
}
