/*
 * spawn.h - start a child by posix_spawn, and hold it by a pidfd.
 *
 * No plain fork: librdkafka's threads and locks do not survive one.  The child
 * gets a clean environment, signal mask and dispositions, a process group of
 * its own (Ctrl-C reaches the supervisor alone) and exactly the descriptors
 * named here.  It asks the kernel itself to be killed with its parent, and
 * checks getppid against the pid it was told.
 *
 * Call from the main thread only: the parent-death signal follows the thread.
 */
#ifndef TALLY_SUPERVISOR_SPAWN_H
#define TALLY_SUPERVISOR_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
	pid_t pid; /* 0 = none */
	int pidfd; /* readable when it has ended; -1 = none */
};

#define SPAWN_FIRST_FD 3

/* fds[i] becomes descriptor SPAWN_FIRST_FD + i in the child. */
int spawn_child(const char *program, char *const argv[], const int *fds, unsigned n_fds,
	struct child *child);

/* Never hits a stranger: by pidfd.  Ignores a child that has ended. */
void spawn_signal(const struct child *child, int sig);

/* Reaps it if it has ended: true, with its status; the pidfd is closed, *child is none again. */
bool spawn_reap(struct child *child, siginfo_t *status);

#endif
