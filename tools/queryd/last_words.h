/*
 * last_words.h - a query process that dies of a store, or cannot read it, says which one.
 */
#ifndef TALLY_QUERYD_LAST_WORDS_H
#define TALLY_QUERYD_LAST_WORDS_H

#include <signal.h>

/*
 * From now on a thread that dies by a signal while it reads a store writes a
 * struct handoff_blame to `fd`, the supervisor's pipe, and dies as it would have.  One that
 * finds that a store contradicts itself writes the same, and lives.
 */
void last_words_to(int fd);

/* Takes those signals out of a set that is to be blocked: the kernel kills without a word then. */
void last_words_keep(sigset_t *set);

#endif
