/*
 * part_worker.c - a partition's worker: started, heard, signalled, judged.
 *
 *	part_start: handoff --> socketpair --> spawn --> watchers
 *	pidfd readable: last messages --> reap --> last words (stats) --> judge --> event
 *
 * What the worker says is a hint with a generation in it; garbage is counted
 * and ignored.  What it leaves behind is read by pread from its stats.
 *
 * Runs in: supervisor.  Blocks in: posix_spawn.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "shm/log.h"
#include "supervisor/group_conf.h"
#include "supervisor/part.h"

#define MESSAGES_PER_WAKE 16

/* ------------------------------------------------------------------- the worker */

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct part *part = w->data;
	(void)loop;
	(void)revents;
	if (part->life == LIFE_RUNNING) /* hung, and SIGABRT was not enough */
		spawn_signal(&part->child, SIGKILL);
	else
		part_event(part, ON_TIMER);
}

void part_arm(struct part *part, double seconds)
{
	ev_timer_stop(part->fleet->opt.loop, &part->timer);
	ev_timer_set(&part->timer, seconds, 0.);
	ev_timer_start(part->fleet->opt.loop, &part->timer);
}

void part_tell(struct part *part, enum control_kind kind)
{
	struct control_message message = {CONTROL_MAGIC, kind, part->generation};
	if (part->control >= 0)
		send(part->control, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool is_event(uint32_t kind, enum life_event *event)
{
	static const enum life_event events[] = {
		[CONTROL_REPLAYING] = ON_REPLAYING,
		[CONTROL_READY] = ON_READY,
		[CONTROL_DRAINED] = ON_DRAINED,
	};
	if (kind < CONTROL_REPLAYING || kind > CONTROL_DRAINED)
		return false;
	*event = events[kind];
	return true;
}

static void on_message(struct part *part, const struct control_message *m, ssize_t n)
{
	enum life_event event;
	unsigned more;
	if (n == (ssize_t)sizeof *m && m->magic == CONTROL_MAGIC &&
		m->generation == part->generation && is_event(m->kind, &event)) {
		if (event == ON_READY) {
			part->ready = part->life == LIFE_RUNNING;
			part->waits = false; /* until its stats are looked at again */
		}
		FAULT("message.heard");
		part_event(part, event);
	} else if (log_limit_pass(&part->log_limit, 5000, &more)) {
		log_warn("worker.garbage", "partition=%u bytes=%zd suppressed=%u", part->number, n,
			more);
	}
}

/* An empty message reads like an end. */
static bool has_hung_up(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};
	return poll(&p, 1, 0) == 1;
}

static void on_control(struct ev_loop *loop, ev_io *w, int revents)
{
	struct part *part = w->data;
	(void)revents;
	for (int i = 0; i < MESSAGES_PER_WAKE && part->control >= 0; i++) {
		struct control_message message;
		ssize_t n = recv(part->control, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
		if (n < 0)
			return;
		if (n == 0 && has_hung_up(part->control)) { /* its pidfd tells the rest */
			ev_io_stop(loop, w);
			return;
		}
		on_message(part, &message, n);
	}
}

void part_detach(struct part *part)
{
	struct ev_loop *loop = part->fleet->opt.loop;
	ev_io_stop(loop, &part->child_watch);
	ev_io_stop(loop, &part->control_watch);
	ev_timer_stop(loop, &part->timer);
	if (part->control >= 0)
		close(part->control);
	part->control = -1;
	part->ready = part->hung = part->waits = false;
	atomic_store(&part_slot(part)->pid, 0);
}

static void note_death(struct part *part, enum part_death death, int code)
{
	struct table_slot *slot = part_slot(part);
	part->died = true;
	atomic_store(&slot->death_code, code);
	atomic_store(&slot->death, death);
	atomic_store(&slot->death_at, (uint64_t)host_wall_ms() * 1000000);
}

void part_store_is_deadly(struct part *part, const char *whom)
{
	note_death(part, DEATH_REBUILD, REBUILD_DEADLY);
	log_error("store.deadly",
		"partition=%u generation=%" PRIu64 " kills=%s action=\"built anew from the log\"",
		part->number, part->generation, whom);
}

static void last_words(struct part *part, struct stats_copy *stats)
{
	char name[TABLE_DIR_NAME_SIZE];
	table_dir_name(name, part->number, part->generation);
	memset(stats, 0, sizeof *stats);
	if (stats_pread(rundir_fd(part->fleet->opt.rundir), name, stats) ||
		stats->generation != part->generation)
		memset(stats, 0, sizeof *stats);
}

void part_back_off(struct part *part, uint32_t wait_ms)
{
	part->not_before = host_boot_ns() + (uint64_t)wait_ms * 1000000;
	atomic_store(&part_slot(part)->retry_in_ms, wait_ms);
}

static void quarantine(struct part *part, int64_t offset)
{
	if (part->n_quarantine == HANDOFF_QUARANTINE_MAX) {
		log_error("poison.too_many", "partition=%u offset=%" PRId64 " limit=%u",
			part->number, offset, HANDOFF_QUARANTINE_MAX);
		return;
	}
	part->quarantine[part->n_quarantine++] = offset;
	atomic_store(&part_slot(part)->quarantined, part->n_quarantine);
	FAULT("quarantine.listed");
	log_error("poison.quarantined", "partition=%u offset=%" PRId64, part->number, offset);
}

/*
 * A worker that we aborted because it hung is to blame for the record in hand
 * only while it was working on it, not while it opened its store or held a
 * batch for want of room or of a lease.
 */
static bool is_innocent(const struct part *part, const struct stats_copy *stats)
{
	bool working = stats->phase == PHASE_REPLAYING || stats->phase == PHASE_LIVE;
	return part->hung && (!working || (stats->flags & (FLAG_STORE_FULL | FLAG_LEASE_OVER)));
}

/* Judges the death of a worker that was wanted; true: its store must go. */
static bool judge(struct part *part, const siginfo_t *status)
{
	struct stats_copy stats;
	struct crash_limits limits = {
		part_config(part)->restart_min_ms, part_config(part)->restart_max_ms};
	uint32_t wait_ms;
	int64_t offset;
	last_words(part, &stats);
	struct crash_death death = {
		.signal = status->si_code == CLD_EXITED || is_innocent(part, &stats)
				  ? 0
				  : status->si_status,
		.opening = stats.phase == PHASE_OPENING,
		.in_store = stats.in_store == 1,
		.stored = stats.next_offset,
		.in_hand = stats.in_hand,
	};
	enum crash_verdict verdict = crash_judge(&part->crash, &death, &limits, &wait_ms, &offset);
	if (verdict == CRASH_QUARANTINE)
		quarantine(part, offset);
	part_back_off(part, wait_ms);
	log_warn("worker.died",
		"partition=%u generation=%" PRIu64 " %s=%d stored=%" PRId64 " in_hand=%" PRId64
		" deaths=%u retry_in_ms=%u",
		part->number, part->generation,
		status->si_code == CLD_EXITED ? "exit_code" : "signal", status->si_status,
		(int64_t)stats.next_offset - 1, (int64_t)stats.in_hand - 1, part->crash.deaths,
		wait_ms);
	if (verdict == CRASH_REBUILD)
		part_store_is_deadly(part, "worker");
	return verdict == CRASH_REBUILD;
}

/* Its old store was of another log: offsets mean something else now. */
static bool is_another_log(enum rebuild_reason reason)
{
	return reason == REBUILD_IDENTITY || reason == REBUILD_FINGERPRINT ||
	       reason == REBUILD_BEYOND_END;
}

/* It asked for a new generation: at once for the first time, then after a back-off. */
static void judge_rebuild(struct part *part)
{
	struct crash_limits limits = {
		part_config(part)->restart_min_ms, part_config(part)->restart_max_ms};
	struct crash_death death = {0};
	struct stats_copy stats;
	uint32_t wait_ms;
	int64_t offset;
	last_words(part, &stats);
	/* One that could not lock its stats, or found none, could not write its reason there. */
	enum rebuild_reason reason = stats.rebuild_reason
					     ? (enum rebuild_reason)stats.rebuild_reason
				     : stats.generation ? REBUILD_LOCKED
							: REBUILD_CORRUPT;
	note_death(part, DEATH_REBUILD, (int)reason);
	if (is_another_log(reason)) /* at most its poison costs three deaths once more */
		part_forget_quarantine(part);
	crash_judge(&part->crash, &death, &limits, &wait_ms, &offset);
	part_back_off(part, part->crash.deaths > 1 ? wait_ms : 0);
	FAULT("rebuild.judged");
	log_warn("worker.rebuild", "partition=%u generation=%" PRIu64 " reason=%s", part->number,
		part->generation, rebuild_reason_word(reason));
}

static void reaped(struct part *part, const siginfo_t *status)
{
	bool exited = status->si_code == CLD_EXITED;
	bool rebuild = exited && status->si_status == EXIT_REBUILD;
	FAULT("reap.reaped");
	if (rebuild) {
		judge_rebuild(part);
	} else if (part->life == LIFE_RUNNING) { /* else it ended because we told it to */
		note_death(part,
			part->hung ? DEATH_HANG
			: exited   ? DEATH_EXIT
				   : DEATH_SIGNAL,
			status->si_status);
	}
	if (part->life == LIFE_RUNNING && !rebuild)
		rebuild = judge(part, status);
	part_detach(part);
	FAULT("reap.detached");
	part_event(part, rebuild ? ON_REBUILD : ON_EXITED);
}

void part_reap(struct part *part)
{
	struct ev_loop *loop = part->fleet->opt.loop;
	siginfo_t status;
	/* What it said before it ended comes first. */
	if (part->control >= 0)
		on_control(loop, &part->control_watch, EV_READ);
	int pidfd = part->child.pidfd;
	ev_io_stop(loop, &part->child_watch); /* reaping closes the pidfd */
	if (part->child.pid && spawn_reap(&part->child, &status)) {
		reaped(part, &status);
	} else if (part->child.pid) {
		ev_io_set(&part->child_watch, pidfd, EV_READ);
		ev_io_start(loop, &part->child_watch);
	}
}

static void on_child(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	part_reap(w->data);
}

/* ------------------------------------------------------------------------- start */

static void add_property(void *arg, const char *name, const char *value)
{
	struct handoff *h = arg;
	must(h->n_properties < HANDOFF_PROPERTIES_MAX);
	h->properties[h->n_properties++] =
		(struct handoff_property){(char *)name, (char *)value, group_conf_client(name)};
}

static int pin_to(const struct part *part)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	return part_config(part)->cpu_affinity && cpus > 1 ? (int)(part->number % (unsigned)cpus)
							   : -1;
}

static void fill_handoff(const struct part *part, struct handoff *h, char client_id[96])
{
	const struct config *c = part_config(part);
	const struct fleet *fleet = part->fleet;
	*h = (struct handoff){
		.partition = part->number,
		.partitions = fleet->partitions,
		.generation = part->generation,
		.table_nonce = fleet->opt.table->head->nonce,
		.supervisor_pid = getpid(),
		.cpu = pin_to(part),
		.adopt = part->adopt,
		.batch_max = part->crash.one_by_one ? 1 : 0,
		.log_level = (enum log_level)c->log_level,
		.log_format = (enum log_format)c->log_format,
		.window_minutes = c->active_window_ms / 60000,
		.replay_margin_s = c->replay_margin_ms / 1000,
		.offsets_timeout_ms = c->offsets_timeout_ms,
		.batch_records = c->replay_batch,
		.flush_ms = c->flush_ms,
		.stall_timeout_ms = c->stall_timeout_ms,
		.queue_records = c->replay_queue,
		.readers_max = c->store_readers,
		.map_bytes = c->store_map_bytes,
		.on_lookup_failure =
			c->ready_on_lookup_failure ? ON_FAILURE_READY : ON_FAILURE_RETRY,
		.produce = c->produce,
		.produce_every_s = c->produce_every_ms / 1000,
		.outbox_max = c->outbox_max,
		.confine = c->confine,
		.run_dir = (char *)c->run_dir,
		.topic = (char *)c->topic,
		.zone = (char *)c->zone,
		.n_quarantine = part->n_quarantine,
	};
	memcpy(h->quarantine, part->quarantine, sizeof h->quarantine);
	snprintf(client_id, 96, "%s-%u", c->instance[0] ? c->instance : "tally", part->number);
	add_property(h, "client.id", client_id);
	group_worker_properties(c, add_property, h);
}

static int pack(const struct part *part, int *fd)
{
	static struct handoff handoff; /* large */
	char client_id[96];
	fill_handoff(part, &handoff, client_id);
	return handoff_pack(&handoff, fd);
}

static int spawn_worker(struct part *part, int handoff_fd, int control_fd)
{
	char name[TABLE_TOPIC_SIZE + 16];
	snprintf(name, sizeof name, "%s/%u", part_config(part)->topic, part->number);
	char *argv[] = {(char *)"tally-worker", name, NULL};
	int fds[] = {handoff_fd, control_fd};
	return spawn_child(part->fleet->opt.worker_program, argv, fds, 2, &part->child);
}

static void watch_worker(struct part *part)
{
	struct ev_loop *loop = part->fleet->opt.loop;
	ev_io_init(&part->child_watch, on_child, part->child.pidfd, EV_READ);
	ev_io_init(&part->control_watch, on_control, part->control, EV_READ);
	part->child_watch.data = part->control_watch.data = part;
	ev_io_start(loop, &part->child_watch);
	ev_io_start(loop, &part->control_watch);
}

static int open_generation(struct part *part)
{
	if (part->generation)
		return 0;
	part->adopt = false;
	int err = rundir_new_generation(part->fleet->opt.rundir, part->number, &part->generation);
	if (err)
		part->generation = 0;
	return err;
}

static int start(struct part *part)
{
	int pair[2], handoff_fd;
	int err = open_generation(part);
	if (err)
		return err;
	part_show(part, PART_PENDING);
	FAULT("start.shown");
	err = pack(part, &handoff_fd);
	if (err)
		return err;
	FAULT("start.packed");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err = err_from_errno(errno);
	} else {
		err = spawn_worker(part, handoff_fd, pair[1]);
		close(pair[1]);
		if (err)
			close(pair[0]);
		else
			part->control = pair[0];
	}
	close(handoff_fd);
	return err;
}

void part_start(struct part *part)
{
	errno = 0;
	int err = start(part);
	if (err) {
		struct crash_limits limits = {
			part_config(part)->restart_min_ms, part_config(part)->restart_max_ms};
		struct crash_death death = {.stored = part->crash.stored};
		uint32_t wait_ms;
		int64_t offset;
		int code = errno;
		crash_judge(&part->crash, &death, &limits, &wait_ms, &offset);
		part_back_off(part, wait_ms);
		note_death(part, DEATH_SPAWN, code);
		log_error("worker.start_failed",
			"partition=%u program=%s error=\"%s\" retry_in_ms=%u action=\"%s\"",
			part->number, part->fleet->opt.worker_program,
			code ? strerror(code) : err_text(err), wait_ms, err_advice(code));
		part_event(part, ON_UNSTARTED);
		return;
	}
	FAULT("start.spawned");
	watch_worker(part);
	part->spawned_at = host_boot_ns();
	part->adopt = true; /* from now on its directory holds something */
	part_renew(part);
	FAULT("start.leased");
	atomic_store(&part_slot(part)->pid, (uint32_t)part->child.pid);
	FAULT("start.named");
	atomic_store(&part_slot(part)->retry_in_ms, 0);
	log_info("worker.started", "partition=%u generation=%" PRIu64 " pid=%d", part->number,
		part->generation, part->child.pid);
}

void part_init(struct part *part, struct fleet *fleet, uint32_t number)
{
	part->fleet = fleet;
	part->number = number;
	part->child = (struct child){0, -1};
	part->control = -1;
	ev_timer_init(&part->timer, on_timer, 0., 0.);
	part->timer.data = part;
}
