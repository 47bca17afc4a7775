/*
 * notify.c - what the service manager is told (sd_notify).
 *
 * Runs in: supervisor.
 */
#include <inttypes.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "supervisor/notify.h"

void notify_ready(void)
{
	sd_notify(0, "READY=1");
}

void notify_reloading(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		(uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000);
}

void notify_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}

void notify_status(const struct fleet_status *s, enum group_state group, int limits_refused)
{
	sd_notifyf(0, "STATUS=%s: %u of %u partitions ready, %u replaying, %u pending, %u failed%s",
		group_state_word(group), s->ready, s->owned, s->replaying, s->pending, s->failed,
		limits_refused ? "; LIMITS REFUSED, the old ones hold: see tallyctl status" : "");
}

void notify_watchdog(int well)
{
	if (well)
		sd_notify(0, "WATCHDOG=1");
}
