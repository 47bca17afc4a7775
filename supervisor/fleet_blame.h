/*
 * fleet_blame.h - a store that query processes cannot read is built anew.
 */
#ifndef TALLY_SUPERVISOR_FLEET_BLAME_H
#define TALLY_SUPERVISOR_FLEET_BLAME_H

#include <stdint.h>

#include "supervisor/fleet.h"

/*
 * A query process has died of a signal while it read this generation, or found it to
 * contradict itself: the second time it gets a new one.  The numbers are that process's
 * words: they need not make sense.
 */
void fleet_blame(struct fleet *fleet, uint32_t partition, uint64_t generation);

#endif
