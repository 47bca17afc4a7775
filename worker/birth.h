/*
 * birth.h - makes the process what a worker is, before anything else runs in it.
 */
#ifndef TALLY_WORKER_BIRTH_H
#define TALLY_WORKER_BIRTH_H

#include "shm/handoff.h"

/*
 * Reads the handoff and starts logging; ties our life to the supervisor's;
 * closes descriptors that are not ours; ignores the signals of terminals and
 * service managers.  Exits with EXIT_HANDOFF or EXIT_ORPHAN.
 */
void birth(struct handoff *handoff);

#endif
