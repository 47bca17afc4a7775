/*
 * fleet.c - the partitions that are ours, and their workers.
 *
 *	assigned --> part_event(ON_ASSIGNED) --> pump: 8 starts a turn, as tokens allow
 *	revoked  --> part_event(ON_REVOKED)  --> all gone, or the deadline --> released
 *	contact  --> lease --> every slot that is ours
 *	count    --> fleet_routing.c
 *
 * A token is held by every worker that is replaying or about to: that is what
 * costs memory and processor, so that is what is bounded.  One that only waits
 * (for a broker, for room) holds none, or it would keep the others from starting.
 *
 * Runs in: supervisor.  Blocks in: nowhere but part.c's spawn.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shm/check.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "shm/log.h"
#include "supervisor/lease.h"
#include "supervisor/part.h"

#define STARTS_PER_TURN 8
#define PUMP_S		0.05
#define FROZEN_NS	UINT64_C(2000000000) /* at least two ticks missed */

/* ------------------------------------------------------------------------- events */

void part_event(struct part *part, enum life_event event)
{
	struct life_step step = lifecycle_step(part->life, event);
	if (step.surprise)
		log_warn("partition.surprise", "partition=%u life=%s event=%s", part->number,
			life_word(part->life), life_event_word(event));
	if (step.next != part->life)
		log_debug("partition.life", "partition=%u from=%s event=%s to=%s", part->number,
			life_word(part->life), life_event_word(event), life_word(step.next));
	/* Its time belonged to the state that it leaves; renewing waits for the same worker. */
	if (step.next != part->life && step.next != LIFE_RENEWING)
		ev_timer_stop(part->fleet->opt.loop, &part->timer);
	part->life = step.next;
	part->event = event;
	part_apply(part, step.action);
	part->died = false;
	fleet_changed(part->fleet);
}

static bool is_leaving(const struct part *part)
{
	return part->life == LIFE_DRAINING || part->life == LIFE_RENEWING ||
	       part->life == LIFE_PARKING || part->life == LIFE_RETURNING;
}

static unsigned count_leaving(const struct fleet *fleet)
{
	unsigned n = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		n += is_leaving(&fleet->parts[p]);
	return n;
}

static void check_released(struct fleet *fleet)
{
	if (fleet->busy || !fleet->unacknowledged || count_leaving(fleet))
		return;
	while (fleet->unacknowledged) {
		fleet->unacknowledged--;
		FAULT("released.begin");
		fleet->opt.released(fleet->opt.arg);
		FAULT("released.done");
	}
}

static void check_stopped(struct fleet *fleet)
{
	if (fleet->busy || !fleet->stopping || fleet->stopped_told)
		return;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		if (fleet->parts[p].child.pid)
			return;
	fleet->stopped_told = true;
	fleet->opt.stopped(fleet->opt.arg);
}

/* --------------------------------------------------------------------------- starts */

static unsigned count_tokens(const struct fleet *fleet)
{
	unsigned n = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		n += fleet->parts[p].child.pid && !fleet->parts[p].ready && !fleet->parts[p].waits;
	return n;
}

static bool wants_start(const struct part *part)
{
	return part->life == LIFE_QUEUED && !part_is_held(part);
}

/* Returns whether anything is left waiting. */
static bool start_some(struct fleet *fleet)
{
	unsigned tokens = count_tokens(fleet), started = 0;
	uint64_t now = host_boot_ns();
	bool waiting = false;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		struct part *part = &fleet->parts[p];
		if (!wants_start(part))
			continue;
		if (started < STARTS_PER_TURN && tokens < fleet->opt.config->replay_concurrency &&
			now >= part->not_before) {
			part_event(part, ON_START);
			started++;
			tokens++;
		}
		waiting |= wants_start(part);
	}
	return waiting;
}

static void on_pump(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct fleet *fleet = w->data;
	(void)revents;
	if (fleet->stopping || !start_some(fleet))
		ev_timer_stop(loop, w);
}

static void arm_deadline(struct fleet *fleet)
{
	ev_timer_stop(fleet->opt.loop, &fleet->deadline);
	ev_timer_set(&fleet->deadline, fleet->opt.config->revoke_deadline_ms / 1000., 0.);
	ev_timer_start(fleet->opt.loop, &fleet->deadline);
}

void fleet_changed(struct fleet *fleet)
{
	check_released(fleet);
	check_stopped(fleet);
	if (!count_leaving(fleet))
		ev_timer_stop(fleet->opt.loop, &fleet->deadline);
	else if (!ev_is_active(&fleet->deadline))
		arm_deadline(fleet);
	if (fleet->stopping || ev_is_active(&fleet->pump))
		return;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		if (wants_start(&fleet->parts[p])) {
			ev_timer_set(&fleet->pump, 0., PUMP_S);
			ev_timer_start(fleet->opt.loop, &fleet->pump);
			return;
		}
}

/* ------------------------------------------------------------------- from the group */

static bool lists(const uint32_t *list, size_t n, uint32_t number)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == number)
			return true;
	return false;
}

/* An eager assignment is everything: what was parked for it and is not in it has gone. */
static void drop_absent(struct fleet *fleet, const uint32_t *list, size_t n)
{
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		enum life life = fleet->parts[p].life;
		if ((life == LIFE_PARKED || life == LIFE_PARKING) && !lists(list, n, p))
			part_event(&fleet->parts[p], ON_GRACE);
	}
}

static void start_grace(struct fleet *fleet)
{
	const struct config *c = fleet->opt.config;
	uint32_t ms = c->lost_grace_ms ? c->lost_grace_ms : c->session_timeout_ms;
	if (!fleet->grace_wanted)
		return;
	fleet->grace_wanted = false;
	ev_timer_stop(fleet->opt.loop, &fleet->grace);
	ev_timer_set(&fleet->grace, ms / 1000., 0.);
	ev_timer_start(fleet->opt.loop, &fleet->grace);
}

void fleet_assigned(struct fleet *fleet, const uint32_t *list, size_t n, bool full)
{
	must(fleet->partitions);
	atomic_fetch_add(&table_head_mut(fleet->opt.table)->rebalances, 1);
	FAULT("assigned.begin");
	for (size_t i = 0; i < n; i++)
		part_event(&fleet->parts[list[i]], ON_ASSIGNED);
	if (full)
		drop_absent(fleet, list, n);
	FAULT("assigned.done");
	start_grace(fleet);
	fleet_ask_anew(fleet); /* growth is what rebalances a group, too */
}

static void on_grace(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct fleet *fleet = w->data;
	(void)loop;
	(void)revents;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		if (fleet->parts[p].life == LIFE_PARKED || fleet->parts[p].life == LIFE_PARKING)
			part_event(&fleet->parts[p], ON_GRACE);
	FAULT("grace.begin");
	unsigned n = rundir_evict_leftovers(fleet->opt.rundir);
	FAULT("grace.evicted");
	if (n)
		log_info("leftover.evicted", "generations=%u", n);
}

static void on_deadline(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct fleet *fleet = w->data;
	(void)loop;
	(void)revents;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		struct part *part = &fleet->parts[p];
		/* After we were frozen its death may be known to the kernel, and not to us. */
		if (is_leaving(part) && part->child.pid)
			part_reap(part);
		if (is_leaving(part))
			part_event(part, ON_DEADLINE);
	}
}

void fleet_revoked(struct fleet *fleet, const uint32_t *list, size_t n, enum group_loss loss)
{
	enum life_event event = loss == GROUP_REVOKED ? ON_REVOKED : ON_LOST;
	if (loss == GROUP_LOSS)
		atomic_fetch_add(&table_head_mut(fleet->opt.table)->lost_events, 1);
	fleet->unacknowledged++;
	FAULT("revoked.begin");
	if (loss != GROUP_REVOKED) { /* the grace starts anew, at the assignment after this */
		ev_timer_stop(fleet->opt.loop, &fleet->grace);
		fleet->grace_wanted = true;
	}
	if (loss == GROUP_LOSS) {
		fleet->lease = fleet->spoke_again = 0;
		fleet->ignore_contacts_before = host_boot_ns();
	}
	arm_deadline(fleet); /* anew: what leaves now has its own time to do so */
	fleet->busy++;
	for (size_t i = 0; i < n; i++)
		part_event(&fleet->parts[list[i]], event);
	fleet->busy--;
	FAULT("revoked.told");
	fleet_changed(fleet);
	fleet_ask_topic(fleet); /* it may have been made anew */
}

/*
 * An answer to a heartbeat may be that we are no member any more, and the
 * statistics cannot tell: the loss arrives a moment after the contact.  That
 * matters once the lease is over, for then somebody else may be ready.  So a
 * coordinator that speaks again is believed when a later request, too, has been
 * answered: librdkafka sends none before it has read the answer to the first.
 */
static bool believes(struct fleet *fleet, uint64_t boot_ns, const struct lease_terms *terms)
{
	uint64_t now = host_boot_ns();
	if (!fleet->lease || now < fleet->lease) /* it runs, or we have begun anew */
		return true;
	if (lease_until(boot_ns, terms) <= now)
		return false;
	bool again = fleet->spoke_again != 0;
	fleet->spoke_again = again ? 0 : boot_ns;
	return again;
}

void fleet_contact(struct fleet *fleet, uint64_t boot_ns)
{
	const struct config *c = fleet->opt.config;
	struct lease_terms terms = {
		c->session_timeout_ms, c->heartbeat_interval_ms, c->commit_allowance_ms};
	if (boot_ns <= fleet->contact || boot_ns < fleet->ignore_contacts_before ||
		boot_ns > host_boot_ns())
		return;
	fleet->contact = boot_ns;
	if (!believes(fleet, boot_ns, &terms))
		return;
	fleet->spoke_again = 0;
	fleet->lease = lease_until(boot_ns, &terms);
	FAULT("contact.leased");
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		part_renew(&fleet->parts[p]);
}

/* ------------------------------------------------------------------------ once a second */

static void keep_progress(struct part *part, const struct stats_copy *stats)
{
	uint64_t from = stats->start_offset, to = stats->target_offset;
	uint64_t next = stats->next_offset ? stats->next_offset - 1 : 0;
	bool replays = stats->phase == PHASE_REPLAYING && (int64_t)from >= 0 && to > from;
	part->to_read = replays ? to - from : 0;
	part->left_to_read = !replays ? 0 : next <= from ? to - from : next < to ? to - next : 0;
	part->read_per_sec = stats->records_per_sec;
}

static void look_at(struct part *part, uint64_t now)
{
	char name[TABLE_DIR_NAME_SIZE];
	struct stats_copy stats;
	uint64_t beat = part->spawned_at;
	table_dir_name(name, part->number, part->generation);
	if (!stats_pread(rundir_fd(part->fleet->opt.rundir), name, &stats) &&
		stats.generation == part->generation && stats.pid == (uint64_t)part->child.pid) {
		crash_progress(&part->crash, stats.next_offset);
		keep_progress(part, &stats);
		part->waits =
			stats.flags & (FLAG_DEGRADED | FLAG_STORE_FULL | FLAG_STALLED |
					      FLAG_LEASE_OVER | FLAG_BAD_BATCH | FLAG_UNWRITTEN);
		if (stats.heartbeat > beat)
			beat = stats.heartbeat;
	}
	uint64_t limit = (uint64_t)part->fleet->opt.config->hang_timeout_ms * 1000000;
	if (!part->hung && now > beat && now - beat > limit)
		part_event(part, ON_HUNG);
}

void fleet_tick(struct fleet *fleet)
{
	uint64_t now = host_boot_ns();
	uint64_t limit = (uint64_t)fleet->opt.config->hang_timeout_ms * 1000000;
	uint64_t frozen = limit / 2 > FROZEN_NS ? limit / 2 : FROZEN_NS;
	/* After we were frozen, or the machine asleep, everybody gets time to beat again. */
	if (fleet->last_tick && now - fleet->last_tick > frozen)
		fleet->judge_from = now + limit;
	fleet->last_tick = now;
	for (uint32_t p = 0; now >= fleet->judge_from && p < TABLE_CAPACITY; p++)
		if (fleet->parts[p].life == LIFE_RUNNING)
			look_at(&fleet->parts[p], now);
	fleet_ask_while_held(fleet);
	atomic_store(&table_head_mut(fleet->opt.table)->heartbeat, now);
}

static void add_progress(const struct part *part, struct fleet_status *status)
{
	status->to_read += part->to_read;
	status->left_to_read += part->left_to_read;
	if (part->read_per_sec && part->left_to_read < UINT64_MAX / 1000) {
		uint64_t ms = part->left_to_read * 1000 / part->read_per_sec;
		status->left_ms = ms > status->left_ms ? ms : status->left_ms;
	}
}

void fleet_status(const struct fleet *fleet, struct fleet_status *status)
{
	memset(status, 0, sizeof *status);
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		enum part_state state = table_word_state(table_word_of(fleet->opt.table, p));
		if (state == PART_PENDING && part_is_held(&fleet->parts[p]))
			continue; /* no part of the routing, for all that we know */
		status->owned += state != PART_FREE;
		status->ready += state == PART_READY;
		status->replaying += state == PART_REPLAYING;
		status->pending += state == PART_PENDING;
		status->failed += state == PART_FAILED;
		status->parked += state == PART_PARKED;
		if (state == PART_REPLAYING)
			add_progress(&fleet->parts[p], status);
	}
}

/* ------------------------------------------------------------------------- start and end */

void fleet_stop(struct fleet *fleet)
{
	fleet->stopping = true;
	FAULT("stop.begin");
	fleet->busy++;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		part_event(&fleet->parts[p], ON_STOP);
	fleet->busy--;
	fleet_changed(fleet);
}

void fleet_kill(struct fleet *fleet)
{
	fleet->stopping = true;
	fleet->lease = 0;
	fleet->ignore_contacts_before = UINT64_MAX; /* it may be another's by now */
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		part_event(&fleet->parts[p], ON_STOP);
		part_apply(&fleet->parts[p], DO_KILL);
	}
}

static void init_timer(ev_timer *timer, void (*cb)(struct ev_loop *, ev_timer *, int), void *data)
{
	ev_timer_init(timer, cb, 0., 0.);
	timer->data = data;
}

void fleet_new(const struct fleet_options *options, struct fleet **out)
{
	struct fleet *fleet = calloc(1, sizeof *fleet);
	must_get(fleet);
	fleet->opt = *options;
	fleet->grace_wanted = true; /* leftovers of the last run wait for the first assignment */
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		part_init(&fleet->parts[p], fleet, p);
	init_timer(&fleet->pump, on_pump, fleet);
	init_timer(&fleet->deadline, on_deadline, fleet);
	init_timer(&fleet->grace, on_grace, fleet);
	*out = fleet;
}

void fleet_free(struct fleet **fleet)
{
	struct fleet *f = *fleet;
	if (!f)
		return;
	ev_timer_stop(f->opt.loop, &f->pump);
	ev_timer_stop(f->opt.loop, &f->deadline);
	ev_timer_stop(f->opt.loop, &f->grace);
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		part_detach(&f->parts[p]);
	while (f->abandoned) {
		struct abandoned *next = f->abandoned->next;
		ev_io_stop(f->opt.loop, &f->abandoned->watch);
		free(f->abandoned);
		f->abandoned = next;
	}
	free(f);
	*fleet = NULL;
}
