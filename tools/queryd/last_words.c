/*
 * last_words.c - a query process that dies of a store, or cannot read it, says which one.
 *
 *	LMDB meets a garbled page: SIGSEGV, SIGBUS, SIGABRT --> { partition, generation } --> tallyd
 *
 * Pages have no checksums.  Without this the process would be started again, asked the
 * same, and die again, for as long as the store's worker does not touch that page.
 *
 * Runs in: queryd, whichever thread dies.
 */
#include "last_words.h"

#include <stddef.h>
#include <unistd.h>

#include "shm/client_stand.h"
#include "shm/handoff.h"

static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
#define FATAL (sizeof(fatal) / sizeof(fatal[0]))

static struct {
	int fd;
	struct sigaction before[FATAL];
} words = {.fd = -1};

/* What did it comes again after the return, and meets what was there before us. */
static void on_fatal(int sig, siginfo_t *info, void *context)
{
	struct handoff_blame blame = {.signal = (uint32_t)sig};

	(void)context;
	for (size_t i = 0; i < FATAL; i++)
		if (fatal[i] == sig)
			sigaction(sig, &words.before[i], NULL);
	if (client_stand_reading(&blame.partition, &blame.generation))
		(void)!write(words.fd, &blame, sizeof(blame));
	if (info->si_code <= 0) /* somebody has sent it, or abort(3) has */
		raise(sig);
}

static void on_corrupt(uint32_t partition, uint64_t generation)
{
	struct handoff_blame blame = {.generation = generation, .partition = partition};

	(void)!write(words.fd, &blame, sizeof(blame)); /* full: it has been said */
}

void last_words_to(int fd)
{
	struct sigaction action = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO};

	words.fd = fd;
	client_stand_on_corrupt(on_corrupt);
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < FATAL; i++)
		sigaction(fatal[i], &action, &words.before[i]);
}

void last_words_keep(sigset_t *set)
{
	for (size_t i = 0; i < FATAL; i++)
		sigdelset(set, fatal[i]);
}
