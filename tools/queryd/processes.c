/*
 * processes.c - what a process takes of the machine.
 *
 *	/proc/PID/stat, statm --process_parse--> memory, processor time, age
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "processes.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/host.h"

bool process_parse(
	const char *stat, const char *statm, uint64_t boot_ms, struct process_facts *facts)
{
	uint64_t user, system, threads, start, resident, shared,
		hz = (uint64_t)sysconf(_SC_CLK_TCK), page = (uint64_t)sysconf(_SC_PAGESIZE);
	const char *at = strrchr(stat, ')'); /* the name may hold blanks and brackets */

	if (at == NULL || hz == 0 ||
		sscanf(at,
			") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
			" %*d %*d %*d %*d %" SCNu64 " %*d %" SCNu64,
			&user, &system, &threads, &start) != 4 ||
		sscanf(statm, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2)
		return false;
	start = start * 1000 / hz;
	*facts = (struct process_facts){
		.rss_bytes = resident * page,
		.shared_bytes = shared * page,
		.cpu_ms = (user + system) * 1000 / hz,
		.threads = threads,
		.age_ms = boot_ms > start ? (int64_t)(boot_ms - start) : 0,
	};
	return true;
}

static bool read_text(uint32_t pid, const char *name, char text[1024])
{
	char path[64];
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, 1023);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0;
}

bool process_read(uint32_t pid, struct process_facts *facts)
{
	char stat[1024], statm[1024];

	return pid != 0 && read_text(pid, "stat", stat) && read_text(pid, "statm", statm) &&
	       process_parse(stat, statm, host_boot_ns() / 1000000, facts);
}
