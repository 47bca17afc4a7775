/*
 * fault-ctl.c - arms the fault points of variants/faults, and says which were passed.
 *
 *	fault-ctl FILE create NAME...		a new file with these points, none of them armed
 *	fault-ctl FILE arm NAME kill|stop|sleep [N] [MS]
 *						at the N-th passage from now on (1); stop, sleep: for MS (1000)
 *	fault-ctl FILE disarm			all of them; what is stopped is woken
 *	fault-ctl FILE list			NAME PASSED FIRED, a line each
 *	fault-ctl FILE thaw			wakes, after its time, what stopped at a point; until SIGTERM
 *
 * A thawed process is told apart from another with its number by nothing: keep the time short.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/fault/fault_file.h"
#include "tests/tools/text.h"

#define LOOK_MS 10

static volatile sig_atomic_t stopped;

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "fault-ctl: %s: %s\n", what, why);
	exit(2);
}

static struct fault_file *map(const char *path, int flags)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0666);
	struct fault_file *file;

	if (fd < 0 || (flags && ftruncate(fd, sizeof(*file)) != 0))
		fail(path, "cannot be opened");
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		fail(path, "cannot be mapped");
	close(fd);
	return file;
}

static void create(const char *path, int n, char **names)
{
	struct fault_file *file = map(path, O_CREAT | O_TRUNC);

	if (n > FAULT_SLOTS_MAX)
		fail(path, "too many points: raise FAULT_SLOTS_MAX");
	for (int i = 0; i < n; i++) {
		if (strlen(names[i]) >= FAULT_NAME_SIZE)
			fail(names[i], "the name is too long");
		strcpy(file->slots[i].name, names[i]);
	}
	file->n = (uint32_t)n;
}

static void arm(
	struct fault_file *file, const char *name, const char *action, int64_t n, uint32_t ms)
{
	static const char *const words[FAULT_ACTIONS] = {"none", "kill", "stop", "sleep"};
	uint32_t a = FAULT_KILL, i = 0;

	while (a < FAULT_ACTIONS && strcmp(words[a], action) != 0)
		a++;
	while (i < file->n && strcmp(file->slots[i].name, name) != 0)
		i++;
	if (a == FAULT_ACTIONS || i == file->n)
		fail(a == FAULT_ACTIONS ? action : name, "is not known");
	atomic_store(&file->slots[i].action, a);
	atomic_store(&file->slots[i].ms, ms);
	atomic_store(&file->slots[i].countdown, n);
}

static void wake(struct fault_slot *slot)
{
	uint32_t pid = atomic_exchange(&slot->pid, 0);

	if (pid != 0)
		kill((pid_t)pid, SIGCONT);
}

static void thaw(struct fault_file *file)
{
	static uint32_t waited[FAULT_SLOTS_MAX];
	struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};

	while (!stopped) {
		for (uint32_t i = 0; i < file->n; i++) {
			struct fault_slot *slot = &file->slots[i];

			waited[i] = atomic_load(&slot->pid) ? waited[i] + LOOK_MS : 0;
			if (waited[i] > atomic_load(&slot->ms))
				wake(slot);
		}
		nanosleep(&pause, NULL);
	}
}

static void disarm(struct fault_file *file)
{
	for (uint32_t i = 0; i < file->n; i++) {
		atomic_store(&file->slots[i].countdown, 0);
		wake(&file->slots[i]);
	}
}

static void list(struct fault_file *file)
{
	for (uint32_t i = 0; i < file->n; i++)
		printf("%s %llu %u\n", file->slots[i].name,
			(unsigned long long)atomic_load(&file->slots[i].passed),
			atomic_load(&file->slots[i].fired));
}

int main(int argc, char **argv)
{
	struct sigaction term = {.sa_handler = on_term};
	const char *verb = argc > 2 ? argv[2] : "";

	sigaction(SIGTERM, &term, NULL);
	if (strcmp(verb, "create") == 0)
		create(argv[1], argc - 3, argv + 3);
	else if (strcmp(verb, "arm") == 0 && argc >= 5 && argc <= 7)
		arm(map(argv[1], 0), argv[3], argv[4], argc > 5 ? text_number("N", argv[5]) : 1,
			argc > 6 ? (uint32_t)text_number("MS", argv[6]) : 1000);
	else if (strcmp(verb, "disarm") == 0)
		disarm(map(argv[1], 0));
	else if (strcmp(verb, "list") == 0)
		list(map(argv[1], 0));
	else if (strcmp(verb, "thaw") == 0)
		thaw(map(argv[1], 0));
	else
		fail("usage", "fault-ctl FILE create|arm|disarm|list|thaw ...");
	return fflush(stdout) == 0 ? 0 : 2;
}
