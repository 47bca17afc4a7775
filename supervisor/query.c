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
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"
#include "shm/handoff.h"
#include "shm/host.h"
#include "shm/log.h"
#include "supervisor/query.h"
#include "supervisor/spawn.h"

#define LIVED_NS	(10 * UINT64_C(1000000000))
#define KILL_S		3.0
#define BLAMES_PER_WAKE 16

struct process {
	struct query *query;
	unsigned number;
	struct child child;
	int words; /* the end of a pipe: stores that it cannot read; -1 = none */
	ev_io watch, words_watch;
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

/* They cannot take their addresses back: confined, they remove no file. */
static void gone(struct query *query)
{
	unlinkat(query->opt.dirfd, "query.http", 0);
	unlinkat(query->opt.dirfd, "query.grpc", 0);
	query->opt.stopped(query->opt.arg);
}

/* Stores that it cannot read, or that it has died of.  Garbage names no generation of ours. */
static void hear(struct process *p)
{
	const struct query_options *opt = &p->query->opt;
	struct handoff_blame blame;
	for (int i = 0; i < BLAMES_PER_WAKE && p->words >= 0; i++) {
		ssize_t n = read(p->words, &blame, sizeof blame);
		if (n == 0) /* it has ended: its pidfd tells the rest */
			ev_io_stop(opt->loop, &p->words_watch);
		if (n != (ssize_t)sizeof blame)
			return;
		if (opt->blamed)
			opt->blamed(opt->arg, blame.partition, blame.generation);
	}
}

static void on_words(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	hear(w->data);
}

static void close_words(struct process *p)
{
	if (p->words < 0)
		return;
	ev_io_stop(p->query->opt.loop, &p->words_watch);
	close(p->words);
	p->words = -1;
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
	FAULT("query.reaped");
	hear(p);
	close_words(p);
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

/* Its arguments, and the descriptors that they name. */
struct arguments {
	char *argv[16];
	int fds[3];
	unsigned n, n_fds;
	char numbers[4][16];
	unsigned n_numbers;
};

static void add_number(struct arguments *to, const char *option, int number)
{
	char *text = to->numbers[to->n_numbers++];
	snprintf(text, sizeof to->numbers[0], "%d", number);
	to->argv[to->n++] = (char *)option;
	to->argv[to->n++] = text;
}

static void add_fd(struct arguments *to, const char *option, int fd)
{
	if (fd < 0)
		return;
	add_number(to, option, SPAWN_FIRST_FD + (int)to->n_fds);
	to->fds[to->n_fds++] = fd;
}

/* Without a pipe it has to do without last words. */
static int spawn_process(struct process *p)
{
	const struct query_options *opt = &p->query->opt;
	struct arguments args = {
		.argv = {(char *)"tally-queryd", (char *)"-c", (char *)opt->config_path}, .n = 3};
	int ends[2];
	bool heard = !pipe2(ends, O_CLOEXEC | O_NONBLOCK);
	add_number(&args, "--parent", getpid());
	add_fd(&args, "--last-words", heard ? ends[1] : -1);
	add_fd(&args, "--http-socket", opt->sockets.http);
	add_fd(&args, "--grpc-socket", opt->sockets.grpc);
	errno = 0;
	int err = spawn_child(opt->program, args.argv, args.fds, args.n_fds, &p->child);
	int code = errno;
	if (heard)
		close(ends[1]);
	if (heard && err)
		close(ends[0]);
	p->words = heard && !err ? ends[0] : -1;
	errno = code;
	return err;
}

static void start(struct process *p)
{
	const struct query_options *opt = &p->query->opt;
	int err = spawn_process(p);
	if (err) {
		int code = errno;
		publish_death(p, DEATH_SPAWN, code);
		try_again(p);
		log_error("query.start_failed",
			"program=%s error=\"%s\" retry_in_ms=%u action=\"%s\"", opt->program,
			code ? strerror(code) : err_text(err), p->wait_ms, err_advice(code));
		return;
	}
	p->started_at = host_boot_ns();
	publish_pid(p);
	FAULT("query.started");
	ev_io_init(&p->watch, on_exit_of_process, p->child.pidfd, EV_READ);
	p->watch.data = p;
	ev_io_start(opt->loop, &p->watch);
	if (p->words >= 0) {
		ev_io_init(&p->words_watch, on_words, p->words, EV_READ);
		p->words_watch.data = p;
		ev_io_start(opt->loop, &p->words_watch);
	}
	log_info("query.started", "pid=%d number=%u", p->child.pid, p->number);
}

void query_start(const struct query_options *options, struct query **out)
{
	uint32_t n = options->config->query_processes;
	struct query *query = calloc(1, sizeof *query + n * sizeof *query->processes);
	must_get(query);
	query->opt = *options;
	query->n = n;
	atomic_store(&table_head_mut(options->table)->query_processes, n);
	for (uint32_t i = 0; i < n; i++) {
		struct process *p = &query->processes[i];
		p->query = query;
		p->number = i;
		p->child = (struct child){0, -1};
		p->words = -1;
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

bool query_dead(const struct query *query)
{
	return query->restarts && !query->stopping && all_gone(query);
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
		close_words(&(*query)->processes[i]);
	}
	free(*query);
	*query = NULL;
}
