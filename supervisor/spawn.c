/*
 * spawn.c - start a child by posix_spawn, and hold it by a pidfd.
 *
 *	posix_spawn --> pid --pidfd_open--> pidfd --ev_io--> spawn_reap
 *
 * The pid cannot be reused before it is reaped, and nobody else reaps: so the
 * pidfd is the child's, and so is every signal sent through it.
 *
 * Runs in: supervisor, main thread.  Blocks in: posix_spawn, about a millisecond.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"
#include "shm/log.h"
#include "supervisor/spawn.h"

#define FIRST_FD	SPAWN_FIRST_FD
#define FDS_MAX		8
#define ENVIRONMENT_MAX 16

/*
 * Two steps, because a source may be one of the targets: all up out of the way,
 * then down to their places; what is left above is closed.
 */
static int plan_descriptors(posix_spawn_file_actions_t *actions, const int *fds, unsigned n_fds)
{
	int err = 0, aside = FIRST_FD + FDS_MAX;
	for (unsigned i = 0; i < n_fds; i++)
		aside = fds[i] >= aside ? fds[i] + 1 : aside;
	for (unsigned i = 0; !err && i < n_fds; i++)
		err = posix_spawn_file_actions_adddup2(actions, fds[i], aside + (int)i);
	for (unsigned i = 0; !err && i < n_fds; i++)
		err = posix_spawn_file_actions_adddup2(actions, aside + (int)i, FIRST_FD + (int)i);
	if (!err)
		err = posix_spawn_file_actions_addclosefrom_np(actions, FIRST_FD + (int)n_fds);
	return err == EBADF ? EMFILE : err; /* above the limit */
}

static int plan_attributes(posix_spawnattr_t *attr)
{
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	int err = posix_spawnattr_setsigmask(attr, &none);
	if (!err)
		err = posix_spawnattr_setsigdefault(attr, &all);
	if (!err)
		err = posix_spawnattr_setpgroup(attr, 0);
	if (!err)
		err = posix_spawnattr_setflags(attr,
			POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	return err;
}

/* Settings that are for every process, none of which is a secret or a service manager's. */
static void clean_environment(char *out[ENVIRONMENT_MAX])
{
	static const char *const kept[] = {"PATH=", "TZ=", "LANG=", "JOURNAL_STREAM=",
		"SSL_CERT_FILE=", "SSL_CERT_DIR=", "KRB5_CONFIG=", "KRB5CCNAME=", "ASAN_OPTIONS=",
		"UBSAN_OPTIONS=", FAULT_ENVIRONMENT};
	size_t n = 0;
	for (char **e = environ; *e; e++)
		for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
			if (!strncmp(*e, kept[i], strlen(kept[i])) && n < ENVIRONMENT_MAX - 1)
				out[n++] = *e;
	out[n] = NULL;
}

/* 0 or errno. */
static int spawn_with(
	const char *program, char *const argv[], posix_spawn_file_actions_t *actions, pid_t *pid)
{
	posix_spawnattr_t attr;
	char *environment[ENVIRONMENT_MAX];
	clean_environment(environment);
	int err = posix_spawnattr_init(&attr);
	if (err)
		return err;
	err = plan_attributes(&attr);
	if (!err)
		err = posix_spawn(pid, program, actions, &attr, argv, environment);
	posix_spawnattr_destroy(&attr);
	return err;
}

int spawn_child(const char *program, char *const argv[], const int *fds, unsigned n_fds,
	struct child *child)
{
	posix_spawn_file_actions_t actions;
	pid_t pid = 0;
	must(n_fds <= FDS_MAX && !child->pid);
	int err = posix_spawn_file_actions_init(&actions);
	if (!err) {
		err = plan_descriptors(&actions, fds, n_fds);
		if (!err)
			err = spawn_with(program, argv, &actions, &pid);
		posix_spawn_file_actions_destroy(&actions);
	}
	if (err) {
		errno = err;
		return err_from_errno(err);
	}
	FAULT("spawn.forked");
	child->pid = pid;
	child->pidfd = pidfd_open(pid, 0);
	FAULT("spawn.held");
	if (child->pidfd >= 0)
		return 0;
	err = errno; /* out of descriptors: without a pidfd we could not end it safely later */
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	*child = (struct child){0, -1};
	errno = err;
	return err_from_errno(err);
}

void spawn_signal(const struct child *child, int sig)
{
	if (child->pid && pidfd_send_signal(child->pidfd, sig, NULL, 0) && errno != ESRCH)
		log_warn("spawn.signal", "pid=%d signal=%d error=\"%s\"", (int)child->pid, sig,
			strerror(errno));
}

bool spawn_reap(struct child *child, siginfo_t *status)
{
	memset(status, 0, sizeof *status);
	if (!child->pid)
		return false;
	int failed = waitid(P_PIDFD, (id_t)child->pidfd, status, WEXITED | WNOHANG);
	/* ECHILD: somebody has reaped it behind our back; it has ended all the same. */
	if (failed ? errno != ECHILD : !status->si_pid)
		return false;
	FAULT("spawn.reaped");
	close(child->pidfd);
	*child = (struct child){0, -1};
	return true;
}
