/*
 * query.h - the query processes: started, watched, started again, each by itself.
 */
#ifndef TALLY_SUPERVISOR_QUERY_H
#define TALLY_SUPERVISOR_QUERY_H

#include <ev.h>
#include <stdbool.h>
#include <sys/types.h>

#include "shm/config.h"
#include "shm/table.h"
#include "supervisor/inherit.h"

struct query;

struct query_options {
	const struct config *config; /* kept, as all of these */
	const char *config_path;
	const char *program;
	struct ev_loop *loop;
	struct table *table;
	int dirfd; /* the run directory */
	struct inherit sockets;
	void *arg;
	void (*stopped)(void *arg); /* after query_stop: all are gone */
	/* One cannot read this store, or has died of it, as it says itself; or NULL. */
	void (*blamed)(void *arg, uint32_t partition, uint64_t generation);
};

/* query.processes of them.  The table says how many, which live and how the last one died. */
void query_start(const struct query_options *options, struct query **out);

/* SIGHUP for all that run: they read certificates again. */
void query_reload(struct query *query);

/* One of ours, dead or alive, that we have not reaped yet. */
bool query_owns(const struct query *query, pid_t pid);

/* None lives, and the last ones have died: they are tried again. */
bool query_dead(const struct query *query);

/* SIGTERM; SIGKILL after 3 s. */
void query_stop(struct query *query);
void query_free(struct query **query);

#endif
