/*
 * publish.h - what readers find in the run directory from the first moment on: limits and table.
 */
#ifndef TALLY_SUPERVISOR_PUBLISH_H
#define TALLY_SUPERVISOR_PUBLISH_H

#include "shm/config.h"
#include "shm/table.h"
#include "supervisor/limits_load.h"

/*
 * Limits first, so that whoever finds the table finds them, too; then a table
 * with all slots free takes the place of an older one, which is retired.  0, or
 * an exit code with the line written.
 */
int publish(
	const struct config *config, int dirfd, struct limits_load *limits, struct table *table);

#endif
