/*
 * fleet_retry.h - workers that cannot go on are started again: they may have old passwords.
 */
#ifndef TALLY_SUPERVISOR_FLEET_RETRY_H
#define TALLY_SUPERVISOR_FLEET_RETRY_H

#include "supervisor/fleet.h"

/* Those that are not ready, and those that are but say that they wait for the broker.  Their stores stay. */
void fleet_retry(struct fleet *fleet);

#endif
