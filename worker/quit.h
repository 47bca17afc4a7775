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

#endif
