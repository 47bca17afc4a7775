/*
 * worker.h - the loop of a worker: which event leads to what.
 */
#ifndef TALLY_WORKER_WORKER_H
#define TALLY_WORKER_WORKER_H

#include "facts.h"
#include "now.h"

#include "shm/handoff.h"
#include "shm/table.h"
#include "shm/usage.h"

/* What main.c has made ready.  All kept. */
struct worker_parts {
	const struct handoff *handoff;
	const struct table *table;
	struct facts *facts;
	struct usage *usage;
	struct now *now;
	const char *path; /* generation directory */
};

/* Runs until the process ends. */
_Noreturn void worker_run(const struct worker_parts *parts);

#endif
