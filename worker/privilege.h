/*
 * privilege.h - what a worker may still do once it knows what it is for.
 */
#ifndef TALLY_WORKER_PRIVILEGE_H
#define TALLY_WORKER_PRIVILEGE_H

#include "shm/handoff.h"

/* `dir`: the directory of its generation, the only place where it may write.  Before any thread. */
void privilege_drop(const struct handoff *handoff, const char *dir);

#endif
