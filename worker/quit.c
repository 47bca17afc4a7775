/*
 * quit.c - the ways in which a worker ends by itself.
 *
 * Runs in: worker, main thread.
 */
#include "quit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/handoff.h"
#include "shm/log.h"
#include "shm/store.h"

/* For handlers of signals: they can format nothing. */
static struct {
	char abort_line[160];
	struct stats *stats; /* NULL = none yet */
} last_words;

static void note_store(void)
{
	if (last_words.stats && store_in_use())
		stats_set(last_words.stats, in_store, 1);
}

static void on_abort(int sig)
{
	if (gettid() == getpid()) { /* ours: with a core, and on the record's or store's account */
		note_store();
		signal(sig, SIG_DFL);
		raise(sig);
		return;
	}
	(void)!write(STDERR_FILENO, last_words.abort_line, strlen(last_words.abort_line));
	_exit(EXIT_LIBRARY);
}

void quit_by_library(unsigned partition)
{
	struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_NODEFER};

	snprintf(last_words.abort_line, sizeof(last_words.abort_line),
		"worker[%u] error worker.library_failed what=\"an assertion of the Kafka client\" "
		"action=\"the supervisor starts it again\"\n",
		partition);

	sigemptyset(&action.sa_mask);
	sigaction(SIGABRT, &action, NULL);
}

/* What did it comes again after the return, and meets what was there before us. */
static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
static struct sigaction before[sizeof(fatal) / sizeof(fatal[0])];

static void on_fatal(int sig, siginfo_t *info, void *context)
{
	(void)context;
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		if (fatal[i] == sig)
			sigaction(sig, &before[i], NULL);
	note_store();
	if (info->si_code <= 0) /* somebody has sent it */
		raise(sig);
}

void quit_in_store(struct stats *stats)
{
	struct sigaction action = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO};

	last_words.stats = stats;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		sigaction(fatal[i], &action, &before[i]);
}

void quit_rebuild(struct stats *stats, enum rebuild_reason reason, const char *why)
{
	if (stats)
		stats_set(stats, rebuild_reason, reason);
	FAULT("quit.rebuild");
	log_warn("worker.rebuild", "reason=%s why=\"%s\"", rebuild_reason_word(reason), why);
	_exit(EXIT_REBUILD);
}

void quit_internal(const char *what, int err)
{
	const char *advice = err_advice(err == ERR_NOMEM  ? ENOMEM
					: err == ERR_BUSY ? EAGAIN /* a thread */
							  : 0);

	log_error("worker.failed", "what=\"%s\" error=%s action=\"%s\"", what, err_word(err),
		advice[0] ? advice : "none; it is started again");
	_exit(EXIT_INTERNAL);
}

void quit_orphan(const char *why)
{
	log_info("worker.orphan", "why=\"%s\"", why);
	_exit(EXIT_ORPHAN);
}
