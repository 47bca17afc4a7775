/*
 * fault_point.c - what FAULT() is in variants/faults.
 *
 *	name -> its slot in the file of $TALLY_FAULTS -> counted -> n-th? -> say so -> it happens
 *
 * The file is mapped before main, as the process shuts itself in later.  A name that it does not
 * have is passed over; without the variable all are.
 *
 * Runs in: supervisor, worker, query process of the variant, any thread.
 */
#include "shm/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/fault/fault_file.h"

static struct fault_file *file;

__attribute__((constructor)) static void map_file(void)
{
	const char *path = getenv(FAULT_VARIABLE);
	struct stat st;
	void *map;
	int fd;

	if (path == NULL)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || (size_t)st.st_size < sizeof(*file)) {
		fprintf(stderr, "fault_point: %s: no such file, or none of fault-ctl\n", path);
		exit(2);
	}
	map = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		file = map;
}

static void happen(struct fault_slot *slot)
{
	static const char *const words[] = {"", "kill", "stop", "sleep"};
	uint32_t action = atomic_load(&slot->action), ms = atomic_load(&slot->ms);
	struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	dprintf(STDERR_FILENO, "fault %s %s pid=%d\n", slot->name, words[action % FAULT_ACTIONS],
		(int)getpid());
	if (action == FAULT_STOP)
		atomic_store(&slot->pid, (uint32_t)getpid());
	atomic_fetch_add(&slot->fired, 1);
	if (action == FAULT_KILL)
		raise(SIGKILL);
	else if (action == FAULT_STOP)
		raise(SIGSTOP);
	else
		nanosleep(&pause, NULL);
}

void fault_point(const char *name)
{
	for (uint32_t i = 0; file != NULL && i < file->n; i++) {
		struct fault_slot *slot = &file->slots[i];

		if (strcmp(slot->name, name) != 0)
			continue;
		atomic_fetch_add(&slot->passed, 1);
		if (atomic_load(&slot->countdown) > 0 && atomic_fetch_sub(&slot->countdown, 1) == 1)
			happen(slot);
		return;
	}
}
