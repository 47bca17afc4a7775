/*
 * cpu.c - one core for the whole process while it replays.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "cpu.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shm/log.h"

static struct {
	bool pinned;
	cpu_set_t before;
} cpu_state;

void cpu_pin(int cpu)
{
	cpu_set_t one;

	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_getaffinity(0, sizeof(cpu_state.before), &cpu_state.before) != 0 ||
		sched_setaffinity(0, sizeof(one), &one) != 0)
		log_debug("worker.not_pinned", "cpu=%d errno=%d", cpu, errno);
	else
		cpu_state.pinned = true;
}

void cpu_unpin(void)
{
	const struct dirent *entry;
	DIR *tasks;

	if (!cpu_state.pinned)
		return;
	cpu_state.pinned = false;
	tasks = opendir("/proc/self/task");
	if (!tasks)
		return;
	while ((entry = readdir(tasks)) != NULL) {
		int thread = atoi(entry->d_name);

		if (thread > 0)
			(void)sched_setaffinity(
				thread, sizeof(cpu_state.before), &cpu_state.before);
	}
	closedir(tasks);
}
