/*
 * control.h - the socket to the supervisor.
 */
#ifndef TALLY_WORKER_CONTROL_H
#define TALLY_WORKER_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/handoff.h"

/*
 * The next message of the supervisor, or 0 when there is none.  What is not one
 * of ours is logged and passed over.  End of file: the supervisor is gone, and
 * so are we.
 */
enum control_kind control_receive(uint64_t generation);

/* Sends; false when the socket is full: try again. */
bool control_send(enum control_kind kind, uint64_t generation);

#endif
