/*
 * reload.h - SIGHUP: what is read again while all goes on.
 */
#ifndef TALLY_SUPERVISOR_RELOAD_H
#define TALLY_SUPERVISOR_RELOAD_H

#include <stdbool.h>

#include "shm/table.h"
#include "supervisor/fleet.h"
#include "supervisor/group.h"
#include "supervisor/limits_load.h"
#include "supervisor/query.h"
#include "supervisor/setup.h"

/* All borrowed. */
struct reload {
	const char *config_path;
	int dirfd; /* the run directory */
	struct setup *setup;
	struct table *table;
	struct group *group;
	struct fleet *fleet;
	struct limits_load *limits;
	struct query *query; /* NULL: none */
};

/* False: tally.yaml was refused and nothing has changed.  Else limits_load says when it is done. */
bool reload(const struct reload *what);

#endif
