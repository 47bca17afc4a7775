/*
 * limits_load.h - the limits of tenants: read at start, on SIGHUP and when the file changes, and
 * published as <run_dir>/limits.
 *
 *	limits_load_new -> limits_load_publish -> (table) -> limits_load_watch -> limits_load_now ...
 *
 * All or nothing: what cannot be read whole leaves in place what held before,
 * and says so in the table, in the log and to the service manager.
 */
#ifndef TALLY_SUPERVISOR_LIMITS_LOAD_H
#define TALLY_SUPERVISOR_LIMITS_LOAD_H

#include <ev.h>

#include "shm/config.h"
#include "shm/table.h"

struct limits_load;

/*
 * Reads limits.file, or takes the defaults when none is configured.  ERR_* with
 * one line in *error.  `config` is kept: its section limits counts at each load.
 */
int limits_load_new(
	const struct config *config, struct limits_load **out, struct config_error *error);

/* Writes <run_dir>/limits.  ERR_FULL, ERR_IO, ERR_NOMEM. */
int limits_load_publish(struct limits_load *load, int dirfd);

/* What the head of the table says of it: before there is a table. */
void limits_load_facts(const struct limits_load *load, struct table_head *facts);

struct limits_load_options {
	struct ev_loop *loop;
	struct table *table;
	void *arg;
	void (*done)(void *arg); /* limits_load_now has come to its end, one way or another */
};

/* From now on a file that changes, and then stands still for half a second, is read again. */
void limits_load_watch(struct limits_load *load, const struct limits_load_options *options);

/* Reads it again at once, in a thread of its own. */
void limits_load_now(struct limits_load *load);

/* Waits for a load that is under way. */
void limits_load_free(struct limits_load **load);

#endif
