/*
 * quit.c - the ways in which a worker ends by itself.
 *
 * Runs in: worker, main thread.
 */
#include "quit.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/handoff.h"
#include "shm/log.h"

static void on_abort(int sig)
{
	static const char line[] = "tally-worker: an assertion failed in a thread of librdkafka; "
				   "the supervisor starts this worker again\n";

	if (gettid() == getpid()) { /* ours: with a core, and on the record's account */
		signal(sig, SIG_DFL);
		raise(sig);
		return;
	}
	(void)!write(STDERR_FILENO, line, sizeof(line) - 1);
	_exit(EXIT_LIBRARY);
}

void quit_by_library(void)
{
	struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_NODEFER};

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
