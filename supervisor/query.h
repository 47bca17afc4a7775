/*
 * query.h - the query process: started, watched, started again.
 */
#ifndef TALLY_SUPERVISOR_QUERY_H
#define TALLY_SUPERVISOR_QUERY_H

#include <ev.h>

#include "shm/config.h"
#include "shm/table.h"

struct query;

struct query_options {
	const struct config *config; /* kept, as all of these */
	const char *config_path;
	const char *program;
	struct ev_loop *loop;
	struct table *table;
	void *arg;
	void (*stopped)(void *arg); /* after query_stop: it is gone */
};

void query_start(const struct query_options *options, struct query **out);

/* SIGTERM; SIGKILL after 3 s. */
void query_stop(struct query *query);
void query_free(struct query **query);

#endif
