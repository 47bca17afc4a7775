/*
 * publish.c - what readers find in the run directory from the first moment on: limits and table.
 *
 *	limits_load_publish -> facts of this run -> table_create -> table_install
 *
 * Runs in: supervisor, at start.
 */
#include "supervisor/publish.h"

#include <stdio.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "supervisor/setup.h"

#define HEARTBEAT_LOST_MS 5000

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

static void fill(struct table_head *facts, const struct config *config)
{
	facts->nonce = host_random();
	facts->pid_namespace = host_pid_namespace();
	facts->started_at = (uint64_t)host_wall_ms() * 1000000;
	facts->supervisor_pid = (uint32_t)getpid();
	facts->capacity = TABLE_CAPACITY;
	facts->window_minutes = config->active_window_ms / 60000;
	facts->rate_minutes = config->rate_window_ms / 60000;
	facts->lost_timeout_ms = HEARTBEAT_LOST_MS;
	atomic_store(&facts->log_level, config->log_level);
	atomic_store(&facts->clock_offset_ms, config->clock_offset_ms);
	atomic_store(&facts->heartbeat, host_boot_ns());
	copy_text(facts->topic, sizeof facts->topic, config->topic);
	copy_text(facts->group, sizeof facts->group, config->group);
	copy_text(facts->zone, sizeof facts->zone, config->zone);
	copy_text(facts->instance, sizeof facts->instance, config->instance);
}

static int make_table(const struct config *config, int dirfd, const struct limits_load *limits,
	struct table *table)
{
	static struct table_head facts; /* zeroed; large */
	fill(&facts, config);
	limits_load_facts(limits, &facts);
	int err = facts.pid_namespace ? host_boot_id(facts.boot_id) : ERR_IO;
	if (!err)
		err = table_create(dirfd, &facts, table);
	FAULT("publish.table");
	return err ? err : table_install(dirfd, table);
}

int publish(const struct config *config, int dirfd, struct limits_load *limits, struct table *table)
{
	int err = limits_load_publish(limits, dirfd);
	FAULT("publish.limits");
	if (!err)
		err = make_table(config, dirfd, limits, table);
	if (!err)
		return 0;
	setup_fail(config->run_dir,
		err == ERR_FULL ? "the file system is full; make room for the table and the limits"
				: err_text(err));
	return EXIT_FATAL;
}
