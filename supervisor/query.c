/*
 * query.c - the query process: started, watched, started again.
 *
 *	start --> running --exit--> back-off --> start
 *
 * It holds no state: its death costs the questions in flight.  Back-off
 * doubles, and starts over when it has lived for a while.
 *
 * Runs in: supervisor.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/host.h"
#include "shm/log.h"
#include "supervisor/query.h"
#include "supervisor/spawn.h"

#define LIVED_NS (10 * UINT64_C(1000000000))
#define KILL_S	 3.0

struct query {
	struct query_options opt;
	struct child child;
	ev_io watch;
	ev_timer timer; /* the next start, or SIGKILL while stopping */
	uint64_t started_at;
	uint32_t wait_ms, restarts;
	bool stopping;
};

static void start(struct query *query);

static void try_again(struct query *query)
{
	const struct config *c = query->opt.config;
	query->wait_ms = query->wait_ms ? query->wait_ms * 2 : c->restart_min_ms;
	if (query->wait_ms > c->restart_max_ms)
		query->wait_ms = c->restart_max_ms;
	atomic_store(&table_head_mut(query->opt.table)->query_restarts, ++query->restarts);
	ev_timer_set(&query->timer, query->wait_ms / 1000., 0.);
	ev_timer_start(query->opt.loop, &query->timer);
}

static void on_exit_of_query(struct ev_loop *loop, ev_io *w, int revents)
{
	struct query *query = w->data;
	siginfo_t status;
	(void)revents;
	ev_io_stop(loop, w);
	if (!spawn_reap(&query->child, &status)) {
		ev_io_start(loop, w);
		return;
	}
	atomic_store(&table_head_mut(query->opt.table)->query_pid, 0);
	if (query->stopping) {
		ev_timer_stop(loop, &query->timer);
		query->opt.stopped(query->opt.arg);
		return;
	}
	if (host_boot_ns() - query->started_at > LIVED_NS)
		query->wait_ms = 0;
	try_again(query);
	log_warn("query.died", "%s=%d retry_in_ms=%u",
		status.si_code == CLD_EXITED ? "exit_code" : "signal", status.si_status,
		query->wait_ms);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct query *query = w->data;
	(void)loop;
	(void)revents;
	if (query->stopping)
		spawn_signal(&query->child, SIGKILL);
	else
		start(query);
}

static void start(struct query *query)
{
	char parent[16];
	snprintf(parent, sizeof parent, "%d", getpid());
	char *argv[] = {(char *)"tally-queryd", (char *)"-c", (char *)query->opt.config_path,
		(char *)"--parent", parent, NULL};
	errno = 0;
	int err = spawn_child(query->opt.program, argv, NULL, 0, &query->child);
	if (err) {
		try_again(query);
		log_error("query.start_failed", "program=%s error=\"%s\" retry_in_ms=%u",
			query->opt.program, errno ? strerror(errno) : err_text(err),
			query->wait_ms);
		return;
	}
	query->started_at = host_boot_ns();
	atomic_store(&table_head_mut(query->opt.table)->query_pid, (uint32_t)query->child.pid);
	ev_io_init(&query->watch, on_exit_of_query, query->child.pidfd, EV_READ);
	query->watch.data = query;
	ev_io_start(query->opt.loop, &query->watch);
	log_info("query.started", "pid=%d", query->child.pid);
}

void query_start(const struct query_options *options, struct query **out)
{
	struct query *query = calloc(1, sizeof *query);
	must(query);
	query->opt = *options;
	query->child = (struct child){0, -1};
	ev_timer_init(&query->timer, on_timer, 0., 0.);
	query->timer.data = query;
	start(query);
	*out = query;
}

void query_stop(struct query *query)
{
	query->stopping = true;
	ev_timer_stop(query->opt.loop, &query->timer);
	if (!query->child.pid) {
		query->opt.stopped(query->opt.arg);
		return;
	}
	spawn_signal(&query->child, SIGTERM);
	ev_timer_set(&query->timer, KILL_S, 0.);
	ev_timer_start(query->opt.loop, &query->timer);
}

void query_free(struct query **query)
{
	if (!*query)
		return;
	ev_timer_stop((*query)->opt.loop, &(*query)->timer);
	ev_io_stop((*query)->opt.loop, &(*query)->watch);
	free(*query);
	*query = NULL;
}
