/*
 * notify.c - what the service manager is told (sd_notify).
 *
 * Runs in: supervisor.
 */
#include <inttypes.h>
#include <stdio.h>
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

/* " (43 %, 12 s left)" */
static void describe_progress(const struct fleet_status *s, char *to, size_t size)
{
	*to = 0;
	if (!s->to_read)
		return;
	double done = 1 - (double)s->left_to_read / (double)s->to_read;
	int len = snprintf(to, size, " (%d %%", (int)(done * 100));
	if (s->left_ms)
		len += snprintf(to + len, size - (size_t)len, ", %" PRIu64 " s left",
			(s->left_ms + 999) / 1000);
	snprintf(to + len, size - (size_t)len, ")");
}

void notify_status(const struct fleet_status *s, enum group_state group, const char *trouble)
{
	char progress[64];
	describe_progress(s, progress, sizeof progress);
	sd_notifyf(0,
		"STATUS=%s: %u of %u partitions ready, %u replaying%s, %u pending, %u failed%s",
		group_state_word(group), s->ready, s->owned, s->replaying, progress, s->pending,
		s->failed, trouble);
}

void notify_watchdog(int well)
{
	if (well)
		sd_notify(0, "WATCHDOG=1");
}
