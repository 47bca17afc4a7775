/*
 * quit.c - the ways in which a worker ends by itself.
 *
 * Runs in: worker, main thread.
 */
#include "quit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/handoff.h"
#include "shm/log.h"

static char abort_line[160]; /* made before: a handler of signals can format nothing */

static void on_abort(int sig)
{
	if (gettid() == getpid()) { /* ours: with a core, and on the record's account */
		signal(sig, SIG_DFL);
		raise(sig);
		return;
	}
	(void)!write(STDERR_FILENO, abort_line, strlen(abort_line));
	_exit(EXIT_LIBRARY);
}

void quit_by_library(unsigned partition)
{
	struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_NODEFER};

	snprintf(abort_line, sizeof(abort_line),
		"worker[%u] error worker.library_failed what=\"an assertion of the Kafka client\" "
		"action=\"the supervisor starts it again\"\n",
		partition);

	sigemptyset(&action.sa_mask);
	sigaction(SIGABRT, &action, NULL);
}

void quit_rebuild(struct stats *stats, enum rebuild_reason reason, const char *why)
{
	if (stats)
		stats_set(stats, rebuild_reason, reason);
	log_warn("worker.rebuild", "reason=%s why=\"%s\"", rebuild_reason_word(reason), why);
	_exit(EXIT_REBUILD);
}

void quit_internal(const char *what, int err)
{
	log_error("worker.failed", "what=\"%s\" error=%s", what, err_word(err));
	_exit(EXIT_INTERNAL);
}

void quit_orphan(const char *why)
{
	log_info("worker.orphan", "why=\"%s\"", why);
	_exit(EXIT_ORPHAN);
}
