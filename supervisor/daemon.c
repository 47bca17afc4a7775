/*
 * daemon.c - tallyd at work: start, events, signals, stop.
 *
 *	config -> run directory (lock) -> table -> group, fleet, query process -> loop
 *	SIGTERM -> fleet_stop -> group_close -> query_stop -> out
 *	SIGHUP  -> reload
 *
 * Moves no data, opens no store, waits for no lock that a child could hold.
 *
 * Runs in: supervisor.
 */
#include "supervisor/daemon.h"

#include <ev.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "shm/log.h"
#include "shm/table.h"
#include "supervisor/fleet.h"
#include "supervisor/fleet_blame.h"
#include "supervisor/group.h"
#include "supervisor/inherit.h"
#include "supervisor/kafka_version.h"
#include "supervisor/limits_load.h"
#include "supervisor/notify.h"
#include "supervisor/publish.h"
#include "supervisor/query.h"
#include "supervisor/reload.h"
#include "supervisor/rundir.h"
#include "supervisor/settings.h"
#include "supervisor/setup.h"

struct daemon {
	const char *config_path;
	struct setup setup;
	struct ev_loop *loop;
	struct rundir *rundir;
	struct table table;
	struct history history;
	struct inherit sockets;
	struct fleet *fleet;
	struct group *group;
	struct query *query;
	struct limits_load *limits;
	ev_signal sigterm, sigint, sighup, sigchld;
	ev_timer tick, last_resort;
	enum group_state group_state;
	bool stopping, query_gone, group_closed, fleet_stopped;
	int exit_code;
};

/* ---------------------------------------------------------------------------- stopping */

static void check_finished(struct daemon *d)
{
	if (d->stopping && d->fleet_stopped && d->group_closed && d->query_gone)
		ev_break(d->loop, EVBREAK_ALL);
}

static void on_last_resort(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct daemon *d = w->data;
	(void)revents;
	log_warn("stop.incomplete", "workers_gone=%d group_closed=%d query_gone=%d",
		d->fleet_stopped, d->group_closed, d->query_gone);
	ev_break(loop, EVBREAK_ALL);
}

static void stop(struct daemon *d, const char *why)
{
	if (d->stopping)
		return;
	d->stopping = true;
	log_info("stop.begin", "why=%s", why);
	notify_stopping();
	ev_timer_set(&d->last_resort, d->setup.config.stop_deadline_ms / 1000. + 5., 0.);
	ev_timer_start(d->loop, &d->last_resort);
	if (d->query)
		query_stop(d->query);
	else
		d->query_gone = true;
	fleet_stop(d->fleet);
	check_finished(d);
}

/* Leave the group only when no worker is left: nobody may take over before. */
static void on_fleet_stopped(void *arg)
{
	struct daemon *d = arg;
	d->fleet_stopped = true;
	if (d->group)
		group_close(d->group);
	check_finished(d);
}

static void on_group_closed(void *arg)
{
	struct daemon *d = arg;
	d->group_closed = true;
	check_finished(d);
}

static void on_blamed(void *arg, uint32_t partition, uint64_t generation)
{
	struct daemon *d = arg;
	fleet_blame(d->fleet, partition, generation);
}

static void on_query_stopped(void *arg)
{
	struct daemon *d = arg;
	d->query_gone = true;
	check_finished(d);
}

/* ------------------------------------------------------------------------ group events */

static void on_partitions(void *arg, uint32_t partitions)
{
	struct daemon *d = arg;
	uint32_t fixed = d->setup.config.partitions;
	bool first = !atomic_load(&d->table.head->partitions);
	if (first && !fixed && partitions > TABLE_CAPACITY) {
		log_error("topic.too_many_partitions",
			"topic=%s has=%u most=%u action=\"use a topic with at most %u; or, when "
			"producers use only the first N partitions, set kafka.partitions to N\"",
			d->setup.config.topic, partitions, TABLE_CAPACITY, TABLE_CAPACITY);
		d->exit_code = EXIT_OPERATOR;
		stop(d, "too_many_partitions");
		return;
	}
	/* Once we serve, a topic that changes must not end what is served: see fleet.h.  Nor must
	 * one that has grown keep us from starting: what is beyond kafka.partitions is refused. */
	if (first && partitions < fixed) {
		log_error("topic.partitions_differ",
			"topic=%s has=%u kafka.partitions=%u action=\"set kafka.partitions to %u, "
			"or remove it\"",
			d->setup.config.topic, partitions, fixed, partitions);
		d->exit_code = EXIT_OPERATOR;
		stop(d, "partitions_differ");
		return;
	}
	fleet_partitions(d->fleet, partitions);
}

static void on_assigned(void *arg, const uint32_t *list, size_t n, bool full)
{
	struct daemon *d = arg;
	fleet_assigned(d->fleet, list, n, full);
}

static void on_revoked(void *arg, const uint32_t *list, size_t n, enum group_loss loss)
{
	struct daemon *d = arg;
	fleet_revoked(d->fleet, list, n, loss);
}

static void on_released(void *arg)
{
	struct daemon *d = arg;
	group_ack(d->group);
}

static void on_ask_topic(void *arg)
{
	struct daemon *d = arg;
	group_ask_topic(d->group);
}

static void on_contact(void *arg, uint64_t boot_ns)
{
	struct daemon *d = arg;
	fleet_contact(d->fleet, boot_ns);
}

static void on_group_state(void *arg, enum group_state state)
{
	struct daemon *d = arg;
	if (state == d->group_state)
		return;
	d->group_state = state;
	atomic_store(&table_head_mut(&d->table)->group_state, state);
	bool bad = state == GROUP_LOST || state == GROUP_NO_BROKER ||
		   state == GROUP_LOGIN_REFUSED || state == GROUP_TLS_FAILED ||
		   state == GROUP_NOT_ALLOWED;
	log_line(bad ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "group.state", "state=%s",
		group_state_word(state));
}

static void on_group_fatal(void *arg, const char *why, bool fenced)
{
	struct daemon *d = arg;
	char text[500];
	log_error("group.fatal", "error=%s action=\"%s\"", log_quote(text, sizeof text, why),
		fenced ? "give each instance its own kafka.group_instance_id" : "start again");
	on_group_state(d, fenced ? GROUP_FENCED : GROUP_LOST);
	d->exit_code = fenced ? EXIT_FENCED : EXIT_FATAL;
	fleet_kill(d->fleet);
	stop(d, "fatal");
}

/* ------------------------------------------------------------------- signals and timers */

static void on_stop_signal(struct ev_loop *loop, ev_signal *w, int revents)
{
	(void)loop;
	(void)revents;
	stop(w->data, w->signum == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void on_reload(struct ev_loop *loop, ev_signal *w, int revents)
{
	struct daemon *d = w->data;
	struct reload what = {
		.config_path = d->config_path,
		.dirfd = rundir_fd(d->rundir),
		.setup = &d->setup,
		.table = &d->table,
		.group = d->group,
		.fleet = d->fleet,
		.limits = d->limits,
		.query = d->query,
	};
	(void)loop;
	(void)revents;
	notify_reloading();
	if (!reload(&what))
		notify_ready();
}

/* The last thing of a reload. */
static void on_limits(void *arg)
{
	(void)arg;
	notify_ready();
}

/* As PID 1 of a container we inherit orphans; ours are left to their pidfds. */
static void reap_strangers(struct daemon *d)
{
	siginfo_t info;
	for (int i = 0; i < 1000; i++) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
			return;
		bool ours = d->query && query_owns(d->query, info.si_pid);
		for (uint32_t p = 0; !ours && p < TABLE_CAPACITY; p++)
			ours = atomic_load(&table_slot_mut(&d->table, p)->pid) ==
			       (uint32_t)info.si_pid;
		if (ours)
			return; /* its watcher comes first; the rest a second later */
		waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG);
	}
}

static void on_sigchld(struct ev_loop *loop, ev_signal *w, int revents)
{
	(void)loop;
	(void)revents;
	reap_strangers(w->data);
}

/* What partitions that are ready do not show. */
static const char *trouble(const struct daemon *d)
{
	if (d->query && query_dead(d->query))
		return "; NOBODY ANSWERS gRPC AND HTTP: see \"queryd error\" in the log";
	if (atomic_load(&d->table.head->limits_state) == LOAD_REFUSED)
		return "; LIMITS REFUSED, the old ones hold: see tallyctl status";
	return "";
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct daemon *d = w->data;
	struct fleet_status status;
	(void)loop;
	(void)revents;
	if (getpid() == 1)
		reap_strangers(d);
	fleet_tick(d->fleet);
	fleet_status(d->fleet, &status);
	notify_status(&status, d->group_state, trouble(d));
	uint64_t silent = host_boot_ns() - group_polled_at(d->group);
	notify_watchdog(silent < (uint64_t)d->setup.config.max_poll_interval_ms * 1000000 / 2);
}

static void watch_signal(
	struct daemon *d, ev_signal *w, int sig, void (*cb)(struct ev_loop *, ev_signal *, int))
{
	ev_signal_init(w, cb, sig);
	w->data = d;
	ev_signal_start(d->loop, w);
}

static void start_watchers(struct daemon *d)
{
	watch_signal(d, &d->sigterm, SIGTERM, on_stop_signal);
	watch_signal(d, &d->sigint, SIGINT, on_stop_signal);
	watch_signal(d, &d->sighup, SIGHUP, on_reload);
	if (getpid() == 1)
		watch_signal(d, &d->sigchld, SIGCHLD, on_sigchld);
	ev_timer_init(&d->tick, on_tick, 0., 1.);
	ev_timer_init(&d->last_resort, on_last_resort, 0., 0.);
	d->tick.data = d->last_resort.data = d;
	ev_timer_start(d->loop, &d->tick);
}

/* --------------------------------------------------------------------------------- start */

static void start_fleet(struct daemon *d)
{
	struct fleet_options options = {
		.config = &d->setup.config,
		.loop = d->loop,
		.rundir = d->rundir,
		.table = &d->table,
		.history = &d->history,
		.worker_program = d->setup.worker_program,
		.arg = d,
		.released = on_released,
		.stopped = on_fleet_stopped,
		.ask_topic = on_ask_topic,
	};
	fleet_new(&options, &d->fleet);
}

static int start_group(struct daemon *d)
{
	struct group_events events = {
		.arg = d,
		.partitions = on_partitions,
		.assigned = on_assigned,
		.revoked = on_revoked,
		.contact = on_contact,
		.state = on_group_state,
		.fatal = on_group_fatal,
		.closed = on_group_closed,
	};
	char why[512];
	int err = group_start(&d->setup.config, d->loop, &events, &d->group, why);
	return err ? setup_fail_err(err, "kafka", why) : 0;
}

static void start_query(struct daemon *d)
{
	struct query_options options = {
		.config = &d->setup.config,
		.config_path = d->config_path,
		.program = d->setup.query_program,
		.loop = d->loop,
		.table = &d->table,
		.dirfd = rundir_fd(d->rundir),
		.sockets = d->sockets,
		.arg = d,
		.stopped = on_query_stopped,
		.blamed = on_blamed,
	};
	if (d->setup.config.query_enabled)
		query_start(&options, &d->query);
}

static void watch_limits(struct daemon *d)
{
	struct limits_load_options options = {
		.loop = d->loop, .table = &d->table, .arg = d, .done = on_limits};
	limits_load_watch(d->limits, &options);
}

static int start(struct daemon *d)
{
	struct config_error error;
	char why[512];
	int err = inherit_sockets(&d->sockets, why);
	if (err)
		return setup_fail("LISTEN_FDS", why);
	err = limits_load_new(&d->setup.config, &d->limits, &error);
	if (err)
		return setup_fail_err(err, "", error.line);
	err = rundir_open(d->setup.config.run_dir, d->setup.config.reader_group, &d->rundir, why);
	if (err)
		return setup_fail_err(err, "run_dir", why);
	int failed = publish(&d->setup.config, rundir_fd(d->rundir), d->limits, &d->table);
	if (failed)
		return failed;
	err = history_open(rundir_fd(d->rundir), &d->history);
	if (err)
		log_warn("history.none", "error=\"%s\" action=\"going on without\"", err_text(err));
	settings_publish(rundir_fd(d->rundir), d->config_path, &d->setup.config, NULL);
	/* Not the default loop: that one reaps every child behind our pidfds. */
	d->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	must_get(d->loop);
	start_fleet(d);
	failed = start_group(d);
	if (failed)
		return failed;
	start_watchers(d);
	watch_limits(d);
	start_query(d);
	return 0;
}

static int last_exit_code;

static void give_up(int sig)
{
	(void)sig;
	_exit(last_exit_code);
}

/* Whatever librdkafka still waits for: what matters to others is done before, and it has 10 s. */
static void finish(struct daemon *d)
{
	if (d->fleet)
		fleet_kill(d->fleet);
	if (d->table.segment.map) {
		atomic_store(&table_head_mut(&d->table)->group_state, GROUP_STOPPED);
		atomic_store(&table_head_mut(&d->table)->stopped, 1);
	}
	FAULT("finish.stopped");
	last_exit_code = d->exit_code;
	signal(SIGALRM, give_up);
	alarm(10);
	bool freed = group_free(&d->group, d->group_closed && !d->exit_code);
	query_free(&d->query);
	limits_load_free(&d->limits);
	fleet_free(&d->fleet);
	history_close(&d->history);
	table_detach(&d->table);
	rundir_close(&d->rundir);
	if (d->loop)
		ev_loop_destroy(d->loop);
	if (!freed) {
		log_info("stop.done", "exit_code=%d client=left", d->exit_code);
		_exit(d->exit_code);
	}
	config_free(&d->setup.config);
}

/* Two a worker, and room for a start: the soft limit is for programs that use select. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int daemon_run(const char *config_path)
{
	static struct daemon daemon; /* large */
	struct daemon *d = &daemon;
	sigset_t blocked, before;
	d->config_path = config_path;
	d->exit_code = setup_load(d->config_path, &d->setup);
	if (d->exit_code)
		return d->exit_code;
	umask(0007);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a full quota is an error, no death */
	raise_descriptor_limit();
	/* Threads of libraries must not get our signals: they inherit this mask. */
	sigfillset(&blocked);
	sigprocmask(SIG_SETMASK, &blocked, &before);
	d->exit_code = start(d);
	sigprocmask(SIG_SETMASK, &before, NULL);
	bool started = !d->exit_code;
	if (started) {
		kafka_version_log();
		log_info("start.done", "run_dir=%s topic=%s group=%s pid=%d",
			d->setup.config.run_dir, d->setup.config.topic, d->setup.config.group,
			getpid());
		notify_ready();
		ev_run(d->loop, 0);
	}
	int code = d->exit_code;
	finish(d);
	if (started) /* else the one line that says why has been said */
		log_info("stop.done", "exit_code=%d", code);
	return code;
}
