/*
 * part.c - applies what lifecycle decides to one partition.
 *
 *	evict:   rename --> word free            (nobody can find it any more)
 *	kill:    lease 0 --> SIGKILL             (nothing is committed any more)
 *	start:   handoff --> spawn --> watchers
 *
 * The word and the lease are what others see; they change before the worker is
 * touched when something is taken away, and after it has spoken when something
 * is given.
 *
 * Runs in: supervisor.  Blocks in: posix_spawn.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "shm/check.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "shm/log.h"
#include "supervisor/part.h"

#define ABORT_TO_KILL_S	    5.0
#define DEATHS_UNTIL_FAILED 5

/* For people: what changed, and why. */
static void remember(struct part *part, enum part_state from, enum part_state to)
{
	const struct table_slot *slot = part_slot(part);
	struct history_change change = {.at_ms = (uint64_t)host_wall_ms(),
		.generation = part->generation,
		.from = from,
		.to = to};
	snprintf(change.why, sizeof change.why, "%s", life_event_word(part->event));
	if (part->died) {
		change.death = (enum part_death)atomic_load(&slot->death);
		change.death_code = atomic_load(&slot->death_code);
	}
	history_add(part->fleet->opt.history, part->number, &change);
}

/* The one place where a partition's published state changes. */
void part_show(struct part *part, enum part_state state)
{
	uint64_t generation = state == PART_FREE ? 0 : part->generation;
	uint64_t before = atomic_load(&part_slot(part)->word);
	if (before == table_word(state, generation))
		return;
	table_publish(part->fleet->opt.table, part->number, state, generation);
	FAULT("show.published");
	if (part->fleet->opt.history)
		remember(part, table_word_state(before), state);
	log_info("partition.state", "partition=%u state=%s generation=%" PRIu64, part->number,
		part_state_word(state), generation);
}

/* One that is ahead of the count that we know waits; one that cannot be served says so. */
static enum part_state waiting_state(const struct part *part)
{
	bool failed = part_is_held(part) ? !fleet_follows(part->fleet)
					 : part->crash.deaths >= DEATHS_UNTIL_FAILED;
	return failed ? PART_FAILED : PART_PENDING;
}

void part_show_waiting(struct part *part)
{
	const struct fleet *fleet = part->fleet;
	enum part_state before = table_word_state(table_word_of(fleet->opt.table, part->number));
	enum part_state state = waiting_state(part);
	part_show(part, state);
	if (!part_is_held(part) || state == before)
		return;
	if (state == PART_FAILED)
		log_info("partition.unserved", "partition=%u partitions=%u has=%u", part->number,
			fleet->partitions, fleet->topic_partitions);
	else
		log_info("partition.held", "partition=%u partitions=%u", part->number,
			fleet->partitions);
}

static void set_lease(struct part *part, uint64_t until)
{
	atomic_store_explicit(&part_slot(part)->lease_until, until, memory_order_release);
}

void part_renew(struct part *part)
{
	if (part->life == LIFE_QUEUED || part->life == LIFE_RUNNING || part->life == LIFE_STOPPING)
		set_lease(part, part->fleet->lease);
}

/* ------------------------------------------------------------------------ actions */

static void do_adopt(struct part *part)
{
	struct table_slot *slot = part_slot(part);
	uint64_t now = (uint64_t)host_wall_ms() * 1000000;
	part->assigned_at = now > part->assigned_at ? now : part->assigned_at + 1;
	part->generation = part_is_held(part)
				   ? 0
				   : rundir_take_leftover(part->fleet->opt.rundir, part->number);
	FAULT("adopt.taken");
	part->adopt = part->generation != 0;
	part->restarts = 0;
	part->crash = (struct crash){0};
	atomic_store(&slot->assigned_at, part->assigned_at);
	atomic_store(&slot->restarts, 0);
	atomic_store(&slot->death, DEATH_NONE);
	atomic_store(&slot->death_at, 0);
	if (part->adopt)
		log_info("partition.adopting", "partition=%u generation=%" PRIu64, part->number,
			part->generation);
	part_back_off(part, 0);
	set_lease(part, part->fleet->lease);
	FAULT("adopt.leased");
	part_show_waiting(part);
	FAULT("adopt.shown");
}

static void do_resume(struct part *part)
{
	struct table_slot *slot = part_slot(part);
	uint64_t now = (uint64_t)host_wall_ms() * 1000000;
	part->assigned_at = now > part->assigned_at ? now : part->assigned_at + 1;
	atomic_store(&slot->assigned_at, part->assigned_at);
	part_back_off(part, 0);
	set_lease(part, part->fleet->lease);
	FAULT("resume.leased");
	part_show_waiting(part);
	FAULT("resume.shown");
}

static void count_restart(struct part *part)
{
	atomic_store(&part_slot(part)->restarts, ++part->restarts);
}

static void do_retry(struct part *part)
{
	count_restart(part);
	FAULT("retry.counted");
	part_show_waiting(part);
}

static void forget_store(struct part *part)
{
	if (part->generation)
		rundir_evict(part->fleet->opt.rundir, part->number, part->generation);
}

/* The word names no store between the two generations. */
static void do_renew(struct part *part)
{
	if (part->generation)
		part_show(part, PART_FREE);
	FAULT("renew.hidden");
	forget_store(part);
	FAULT("renew.evicted");
	part->generation = 0;
	part->adopt = false;
	/* Suspects were in the old store or log; the deaths still count for the back-off. */
	part->crash = (struct crash){
		.deaths = part->crash.deaths, .renewed_for = part->crash.renewed_for};
	set_lease(part, part->fleet->lease);
	part_show_waiting(part);
}

static void do_rebuild(struct part *part)
{
	count_restart(part);
	do_renew(part);
}

static void do_kill(struct part *part)
{
	set_lease(part, 0);
	FAULT("kill.unleased");
	spawn_signal(&part->child, SIGKILL);
	FAULT("kill.sent");
}

void part_forget_quarantine(struct part *part)
{
	part->n_quarantine = 0;
	atomic_store(&part_slot(part)->quarantined, 0);
}

static void do_evict(struct part *part)
{
	set_lease(part, 0);
	FAULT("evict.unleased");
	forget_store(part);
	FAULT("evict.renamed");
	part_show(part, PART_FREE);
	FAULT("evict.freed");
	part->generation = 0;
	part->adopt = false;
	part_forget_quarantine(part);
	atomic_store(&part_slot(part)->retry_in_ms, 0);
}

static void on_abandoned(struct ev_loop *loop, ev_io *w, int revents)
{
	struct abandoned *a = w->data, **at = &a->fleet->abandoned;
	siginfo_t status;
	(void)revents;
	int pidfd = a->child.pidfd;
	pid_t pid = a->child.pid;
	ev_io_stop(loop, w);
	if (!spawn_reap(&a->child, &status)) {
		ev_io_set(w, pidfd, EV_READ);
		ev_io_start(loop, w);
		return;
	}
	log_info("worker.abandoned_gone", "pid=%d", pid);
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	free(a);
}

/* Its lease is over and its directory has no name: what it still commits lands nowhere. */
static void do_abandon(struct part *part)
{
	struct abandoned *a = calloc(1, sizeof *a);
	must_get(a);
	log_error("worker.abandoned", "partition=%u pid=%d why=\"not dead at the deadline\"",
		part->number, part->child.pid);
	part_detach(part);
	a->fleet = part->fleet;
	a->child = part->child;
	spawn_signal(&a->child, SIGKILL); /* also the one that was never told to go */
	part->child = (struct child){0, -1};
	a->next = part->fleet->abandoned;
	part->fleet->abandoned = a;
	ev_io_init(&a->watch, on_abandoned, a->child.pidfd, EV_READ);
	a->watch.data = a;
	ev_io_start(part->fleet->opt.loop, &a->watch);
	do_evict(part);
}

static void do_park(struct part *part)
{
	part_show(part, PART_PARKED);
	FAULT("park.shown");
	do_kill(part);
}

static void do_drain(struct part *part)
{
	part_show(part, PART_DRAINING);
	FAULT("drain.shown");
	part_tell(part, CONTROL_DRAIN);
	FAULT("drain.told");
	part_arm(part, part_config(part)->drain_ms / 1000.);
}

static void do_abort(struct part *part)
{
	part->hung = true;
	log_error("worker.hung", "partition=%u pid=%d action=abort", part->number, part->child.pid);
	spawn_signal(&part->child, SIGABRT);
	FAULT("hung.aborted");
	part_arm(part, ABORT_TO_KILL_S);
}

static void do_announce(struct part *part)
{
	if (part->ready)
		atomic_store(&part_slot(part)->whole, part->generation);
	FAULT("announce.whole");
	part_show(part, part->ready ? PART_READY : PART_REPLAYING);
}

static void do_again(struct part *part)
{
	part_show(part, PART_PENDING);
	do_kill(part);
}

static void do_keep(struct part *part)
{
	set_lease(part, 0);
	FAULT("keep.unleased");
	part_show(part, PART_PARKED);
}

static void do_abandon_renew(struct part *part)
{
	do_abandon(part);
	do_adopt(part);
}

static void do_stop(struct part *part)
{
	part_tell(part, CONTROL_STOP);
	FAULT("stop.told");
	part_arm(part, part_config(part)->stop_deadline_ms / 1000.);
}

static void do_finish(struct part *part)
{
	set_lease(part, 0);
	FAULT("finish.unleased");
	part_show(part, part->generation ? PART_STOPPED : PART_FREE);
}

static void do_nothing(struct part *part)
{
	(void)part;
}

static void (*const actions[LIFE_ACTIONS])(struct part *part) = {
	[DO_NOTHING] = do_nothing,
	[DO_ADOPT] = do_adopt,
	[DO_START] = part_start,
	[DO_RETRY] = do_retry,
	[DO_REBUILD] = do_rebuild,
	[DO_RENEW] = do_renew,
	[DO_RESUME] = do_resume,
	[DO_ANNOUNCE] = do_announce,
	[DO_ABORT] = do_abort,
	[DO_DRAIN] = do_drain,
	[DO_KILL] = do_kill,
	[DO_PARK] = do_park,
	[DO_AGAIN] = do_again,
	[DO_KEEP] = do_keep,
	[DO_EVICT] = do_evict,
	[DO_ABANDON] = do_abandon,
	[DO_ABANDON_RENEW] = do_abandon_renew,
	[DO_STOP] = do_stop,
	[DO_FINISH] = do_finish,
};

void part_apply(struct part *part, enum life_action action)
{
	must(action < LIFE_ACTIONS && actions[action]);
	actions[action](part);
}
