/*
 * query.c - the query processes: started, watched, started again, each by itself.
 *
 *	start --> running --exit--> back-off --> start
 *
 * They hold no state: the death of one costs the questions that it had in
 * flight.  Back-off doubles, and starts over when it has lived for a while.
 * With several, the kernel spreads connections over those that listen.
 *
 * Runs in: supervisor.
 */
#include <errno.h>
#include <inttypes.h>
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

struct process {
	struct query *query;
	unsigned number;
	struct child child;
	ev_io watch;
	ev_timer timer; /* the next start, or SIGKILL while stopping */
	uint64_t started_at;
	uint32_t wait_ms;
};

struct query {
	struct query_options opt;
	uint32_t n, restarts;
	bool stopping;
	struct process processes[];
};

static void start(struct process *p);

static void publish_pid(const struct process *p)
{
	struct table_head *head = table_head_mut(p->query->opt.table);
	if (p->number == 0)
		atomic_store(&head->query_pid, (uint32_t)p->child.pid);
	if (p->number < TABLE_QUERY_MAX)
		atomic_store(&head->query_pids[p->number], (uint32_t)p->child.pid);
}

static void publish_death(const struct process *p, enum part_death death, int code)
{
	struct table_head *head = table_head_mut(p->query->opt.table);
	atomic_store(&head->query_death, death);
	atomic_store(&head->query_death_code, code);
	atomic_store(&head->query_died_at, (uint64_t)host_wall_ms() * 1000000);
}

static void try_again(struct process *p)
{
	struct query *query = p->query;
	const struct config *c = query->opt.config;
	p->wait_ms = p->wait_ms ? p->wait_ms * 2 : c->restart_min_ms;
	if (p->wait_ms > c->restart_max_ms)
		p->wait_ms = c->restart_max_ms;
	atomic_store(&table_head_mut(query->opt.table)->query_restarts, ++query->restarts);
	ev_timer_set(&p->timer, p->wait_ms / 1000., 0.);
	ev_timer_start(query->opt.loop, &p->timer);
}

static bool all_gone(const struct query *query)
{
	for (uint32_t i = 0; i < query->n; i++)
		if (query->processes[i].child.pid)
			return false;
	return true;
}

/* One that listens alone takes its address back itself; of several none can. */
static void gone(struct query *query)
{
	if (query->n > 1) {
		unlinkat(query->opt.dirfd, "query.http", 0);
		unlinkat(query->opt.dirfd, "query.grpc", 0);
	}
	query->opt.stopped(query->opt.arg);
}

static void on_exit_of_process(struct ev_loop *loop, ev_io *w, int revents)
{
	struct process *p = w->data;
	siginfo_t status;
	(void)revents;
	ev_io_stop(loop, w);
	if (!spawn_reap(&p->child, &status)) {
		ev_io_start(loop, w);
		return;
	}
	publish_pid(p);
	if (p->query->stopping) {
		ev_timer_stop(loop, &p->timer);
		if (all_gone(p->query))
			gone(p->query);
		return;
	}
	publish_death(
		p, status.si_code == CLD_EXITED ? DEATH_EXIT : DEATH_SIGNAL, status.si_status);
	if (host_boot_ns() - p->started_at > LIVED_NS)
		p->wait_ms = 0;
	try_again(p);
	log_warn("query.died", "number=%u %s=%d retry_in_ms=%u", p->number,
		status.si_code == CLD_EXITED ? "exit_code" : "signal", status.si_status,
		p->wait_ms);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct process *p = w->data;
	(void)loop;
	(void)revents;
	if (p->query->stopping)
		spawn_signal(&p->child, SIGKILL);
	else
		start(p);
}

static void start(struct process *p)
{
	const struct query_options *opt = &p->query->opt;
	char parent[16];
	snprintf(parent, sizeof parent, "%d", getpid());
	char *argv[] = {(char *)"tally-queryd", (char *)"-c", (char *)opt->config_path,
		(char *)"--parent", parent, NULL};
	errno = 0;
	int err = spawn_child(opt->program, argv, NULL, 0, &p->child);
	if (err) {
		publish_death(p, DEATH_SPAWN, errno);
		try_again(p);
		log_error("query.start_failed", "program=%s error=\"%s\" retry_in_ms=%u",
			opt->program, errno ? strerror(errno) : err_text(err), p->wait_ms);
		return;
	}
	p->started_at = host_boot_ns();
	publish_pid(p);
	ev_io_init(&p->watch, on_exit_of_process, p->child.pidfd, EV_READ);
	p->watch.data = p;
	ev_io_start(opt->loop, &p->watch);
	log_info("query.started", "pid=%d number=%u", p->child.pid, p->number);
}

void query_start(const struct query_options *options, struct query **out)
{
	uint32_t n = options->config->query_processes;
	struct query *query = calloc(1, sizeof *query + n * sizeof *query->processes);
	must(query && n > 0);
	query->opt = *options;
	query->n = n;
	atomic_store(&table_head_mut(options->table)->query_processes, n);
	for (uint32_t i = 0; i < n; i++) {
		struct process *p = &query->processes[i];
		p->query = query;
		p->number = i;
		p->child = (struct child){0, -1};
		ev_timer_init(&p->timer, on_timer, 0., 0.);
		p->timer.data = p;
		start(p);
	}
	*out = query;
}

void query_reload(struct query *query)
{
	for (uint32_t i = 0; i < query->n; i++)
		spawn_signal(&query->processes[i].child, SIGHUP);
}

bool query_owns(const struct query *query, pid_t pid)
{
	for (uint32_t i = 0; i < query->n; i++)
		if (query->processes[i].child.pid == pid)
			return true;
	return false;
}

void query_stop(struct query *query)
{
	query->stopping = true;
	for (uint32_t i = 0; i < query->n; i++) {
		struct process *p = &query->processes[i];
		ev_timer_stop(query->opt.loop, &p->timer);
		if (!p->child.pid)
			continue;
		spawn_signal(&p->child, SIGTERM);
		ev_timer_set(&p->timer, KILL_S, 0.);
		ev_timer_start(query->opt.loop, &p->timer);
	}
	if (all_gone(query))
		gone(query);
}

void query_free(struct query **query)
{
	if (!*query)
		return;
	for (uint32_t i = 0; i < (*query)->n; i++) {
		ev_timer_stop((*query)->opt.loop, &(*query)->processes[i].timer);
		ev_io_stop((*query)->opt.loop, &(*query)->processes[i].watch);
	}
	free(*query);
	*query = NULL;
}
