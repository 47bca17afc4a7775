/*
 * quit.h - the ways in which a worker ends by itself.
 *
 * All of them are _exit(2): what is committed is safe at any instruction, the
 * batch in memory is read again, and librdkafka's teardown could only hang.
 */
#ifndef TALLY_WORKER_QUIT_H
#define TALLY_WORKER_QUIT_H

#include "shm/stats.h"

/* Asks for a new generation: notes the reason, logs one line, exit code EXIT_REBUILD. */
_Noreturn void quit_rebuild(struct stats *stats, enum rebuild_reason reason, const char *why);

/* An error that is not healed by trying again here; logs one line, exit code EXIT_INTERNAL. */
_Noreturn void quit_internal(const char *what, int err);

/* The supervisor is gone or has another table by now; exit code EXIT_ORPHAN. */
_Noreturn void quit_orphan(const char *why);

/*
 * From now on an assertion that fails in a thread of librdkafka's ends the
 * process with EXIT_LIBRARY instead of a signal: deaths by signal are held
 * against the record in hand, and that record is innocent of it.  One in the
 * main thread, or a SIGABRT from outside, is what it was.
 */
void quit_by_library(unsigned partition);

/* From now on a death by signal inside of a transaction of the store is noted in stats. */
void quit_in_store(struct stats *stats);

#endif
