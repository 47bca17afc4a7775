/*
 * worker_read.c - the half of the loop that speaks with the broker.
 *
 *	LOCATING --found--> REPLAYING --target committed--> LIVE
 *	    ^                   |                            |
 *	    '-- the log does not hold our offset, or may be -'
 *	        another one by now
 *
 * Once ready, a worker stays ready for the supervisor: if it has to find its
 * place again, what it has counted so far is still right up to its offset.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "worker_private.h"

#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "quit.h"

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/log.h"

#define ASLEEP_NS UINT64_C(500000000) /* two ticks missed; a fetch waits a tenth of a second */

static void set_more(struct worker *worker, bool on)
{
	if (on)
		ev_idle_start(worker->loop, &worker->more);
	else
		ev_idle_stop(worker->loop, &worker->more);
}

/* One timer for whatever is due next. */
void worker_set_due(struct worker *worker)
{
	uint64_t due_ns = worker->phase == PHASE_LOCATING ? worker->start.due_ns : 0;
	uint64_t flush_ns = replay_due_ns(worker->replay), now_ns = host_boot_ns();

	if (flush_ns && (!due_ns || flush_ns < due_ns))
		due_ns = flush_ns;
	ev_timer_stop(worker->loop, &worker->due);
	if (!due_ns)
		return;
	ev_now_update(worker->loop);
	ev_timer_set(&worker->due, due_ns > now_ns ? (double)(due_ns - now_ns) / 1e9 : 0., 0.);
	ev_timer_start(worker->loop, &worker->due);
}

/* --- ready --------------------------------------------------------------------------------- */

static void say_ready(struct worker *worker)
{
	if (worker->was_ready)
		return;
	worker->was_ready = true;
	stats_set(worker->stats, ready_at, host_wall_ms());
	FAULT("ready.telling");
	worker_tell(worker, CONTROL_READY);
}

static void go_live(struct worker *worker)
{
	uint64_t took_ms = (uint64_t)host_wall_ms() - stats_get(worker->stats, replay_started_at);

	replay_go_live(worker->replay);
	worker_enter(worker, PHASE_LIVE);
	cpu_unpin();
	log_info("worker.live", "next=%lld replayed=%llu took_ms=%llu streams=%llu",
		(long long)replay_next(worker->replay),
		(unsigned long long)stats_get(worker->stats, replayed), (unsigned long long)took_ms,
		(unsigned long long)stats_get(worker->stats, streams));
	say_ready(worker);
}

/* --- finding the place --------------------------------------------------------------------- */

void worker_locate(struct worker *worker, bool again)
{
	struct start_store store = {
		.next_offset = replay_next(worker->replay),
		.print = *replay_fingerprint(worker->replay),
		.anchor = *replay_anchor(worker->replay),
		.never_ready = stats_get(worker->stats, ready_at) == 0,
		.again = again,
	};

	if (again) /* a matter of milliseconds, and of nobody else: not shown */
		worker->phase = PHASE_LOCATING;
	else
		worker_enter(worker, PHASE_LOCATING);
	locate_hurry(worker->locate, false);
	worker->watch_waiting = false;
	start_begin(&worker->start, &store, now_ms(worker->p.now));
	worker_set_due(worker);
}

static void begin_reading(struct worker *worker)
{
	const struct plan *plan = &worker->start.plan;

	facts_flag(worker->p.facts, FLAG_DEGRADED, replay_denied(worker->replay));
	replay_begin(worker->replay, plan);
	/* A look whether it is still the same log must not hide that nothing arrives. */
	if (!worker->start.again)
		watch_start(&worker->watch, replay_next(worker->replay), host_boot_ns());
	if (replay_is_live(worker->replay)) { /* it had lost its place */
		worker_enter(worker, PHASE_LIVE);
		return;
	}
	worker_enter(worker, PHASE_REPLAYING);
	if (replay_reached(worker->replay)) {
		go_live(worker);
		return;
	}
	locate_hurry(worker->locate, true);
	if (!worker->was_ready)
		worker_tell(worker, CONTROL_REPLAYING);
}

/* After anything that may have moved `start`. */
static void after_start(struct worker *worker)
{
	const struct plan *plan = &worker->start.plan;

	switch (worker->start.state) {
	case START_REBUILD:
		quit_rebuild(worker->stats, plan->reason, "the log and our store do not fit");
	case START_FOUND:
		begin_reading(worker);
		break;
	case START_WAITING:
		if (plan->degraded)
			facts_flag(worker->p.facts, FLAG_DEGRADED, true);
		if (plan->ready_now && !worker->was_ready) {
			log_warn("worker.ready_early", "reason=\"offsets cannot be had\" option=%s",
				"replay.on_lookup_failure");
			say_ready(worker);
		}
		break;
	case START_ASKING:
	case START_TAIL:
	case START_CHECK:
		break;
	}
	worker_set_due(worker);
}

/* Something arrives, though it cannot be read: that is no stall. */
static void known_trouble(struct worker *worker)
{
	facts_flag(worker->p.facts, FLAG_BAD_BATCH, true);
	watch_start(&worker->watch, replay_next(worker->replay), host_boot_ns());
}

/* Reads for `start` until it has what it wants; true: more is waiting. */
static bool pump_start(struct worker *worker)
{
	struct source_event event;
	bool any = false;

	for (int fetches = 0; fetches < 2; fetches++) {
		while (worker->phase == PHASE_LOCATING && source_next(worker->source, &event)) {
			any = true;
			if (event.kind == SOURCE_BAD)
				known_trouble(worker);
			start_event(&worker->start, &event);
			if (worker->start.state == START_FOUND ||
				worker->start.state == START_REBUILD)
				after_start(worker);
		}
		if (worker->phase != PHASE_LOCATING)
			return true;
		if (fetches == 0 && source_fetch(worker->source, SOURCE_BATCH) == 0)
			break;
	}
	worker_set_due(worker);
	return any;
}

/* --- reading ------------------------------------------------------------------------------- */

static void after_turn(struct worker *worker, enum replay_result result)
{
	if (worker->phase == PHASE_REPLAYING && replay_reached(worker->replay))
		go_live(worker);
	set_more(worker, result == REPLAY_MORE);
	worker_emit(worker);
	if (result == REPLAY_NO_TOPIC)
		facts_flag(worker->p.facts, FLAG_DEGRADED, true);
	if (result == REPLAY_NO_TOPIC || result == REPLAY_LOST_PLACE)
		worker_locate(worker, false);
	if (result == REPLAY_BAD)
		known_trouble(worker);
	if (result == REPLAY_DOUBT || result == REPLAY_BAD)
		worker_locate(worker, true);
	worker_set_due(worker);
}

bool worker_is_reading(const struct worker *worker)
{
	return worker->phase == PHASE_REPLAYING || worker->phase == PHASE_LIVE;
}

/*
 * Who was not there, or had no room, for longer than a fetch waits at the broker
 * may have had none under way when the log was replaced (P07).
 */
static void mind_the_gap(struct worker *worker)
{
	uint64_t now_ns = host_boot_ns();

	if (replay_held(worker->replay))
		return;
	if (now_ns - worker->awake_ns > ASLEEP_NS)
		source_distrust(worker->source);
	worker->awake_ns = now_ns;
}

void worker_pump(struct worker *worker)
{
	mind_the_gap(worker);
	if (worker->phase == PHASE_LOCATING)
		set_more(worker, pump_start(worker));
	else if (worker_is_reading(worker))
		after_turn(worker, replay_turn(worker->replay));
}

void worker_on_source(struct ev_loop *loop, ev_io *io, int events)
{
	struct worker *worker = io->data;
	uint64_t count;

	(void)loop;
	(void)events;
	/* First read, then fetch: a wake-up that comes in between is not lost. */
	(void)!read(io->fd, &count, sizeof(count));
	worker_pump(worker);
}

void worker_on_more(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)loop;
	(void)events;
	worker_pump(idle->data);
}

void worker_on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct worker *worker = timer->data;

	(void)loop;
	(void)events;
	if (worker->phase == PHASE_LOCATING) {
		start_timer(&worker->start);
		after_start(worker);
	}
	if (worker_is_reading(worker)) {
		after_turn(worker, replay_timer(worker->replay));
		worker_pump(worker);
	} else if (worker->phase == PHASE_LOCATING) {
		(void)replay_timer(worker->replay);
		worker_set_due(worker);
	}
}

/* --- what the broker says ------------------------------------------------------------------ */

/* The store and the log must be of one cluster.  A store made before it was known learns it. */
static void check_cluster(struct worker *worker, const char *cluster)
{
	const char *ours = usage_meta(worker->p.usage)->identity.cluster;

	if (cluster[0] && !ours[0])
		usage_set_cluster(worker->p.usage, cluster);
	else if (cluster[0] && strcmp(cluster, ours) != 0)
		quit_rebuild(worker->stats, REBUILD_IDENTITY, "the store is of another cluster");
}

static void read_again(struct worker *worker)
{
	source_start(worker->source, replay_next(worker->replay));
}

static void judge(struct worker *worker, int64_t end, int64_t asked_at)
{
	uint64_t now_ns = host_boot_ns();
	enum watch_verdict verdict = watch_end(
		&worker->watch, end, asked_at, worker->p.handoff->stall_timeout_ms, now_ns);

	if (verdict == WATCH_FINE)
		return;
	if (verdict == WATCH_BEYOND_END)
		quit_rebuild(worker->stats, REBUILD_BEYOND_END, "the log ends before our offset");
	facts_flag(worker->p.facts, FLAG_STALLED, true);
	log_warn("worker.stalled", "next=%lld log_end=%lld cures=%u",
		(long long)replay_next(worker->replay), (long long)end, worker->watch.cures);
	if (verdict == WATCH_GIVE_UP)
		quit_internal("the log has more, but nothing arrives", ERR_TIMEOUT);
	if (worker_is_reading(worker)) /* else it is about to be */
		read_again(worker);
}

void worker_on_locate(struct ev_loop *loop, ev_io *io, int events)
{
	struct worker *worker = io->data;
	struct locate_answer answer;

	(void)loop;
	(void)events;
	if (!locate_answer(worker->locate, &answer))
		return;
	check_cluster(worker, answer.cluster);
	if (answer.error[0])
		facts_add_lookup_error(worker->p.facts);
	if (answer.end >= 0) {
		stats_set(worker->stats, log_end, answer.end);
		stats_set(worker->stats, log_start, answer.start);
	}
	if (worker->phase == PHASE_LOCATING) {
		if (!start_answer(&worker->start, &answer))
			return;
		after_start(worker);
	} else if (worker->watch_waiting && answer.id == worker->watch_question) {
		worker->watch_waiting = false;
		worker->lookups_fail = answer.end < 0;
		facts_flag(worker->p.facts, FLAG_DEGRADED,
			worker->lookups_fail || replay_denied(worker->replay));
		if (answer.end >= 0)
			judge(worker, answer.end, worker->watch_asked_at);
	}
}

/* A look whether the log is still the same: it may be what nothing arrives for. */
static void watch_the_look(struct worker *worker)
{
	int64_t end = worker->start.facts.end, next = replay_next(worker->replay);

	if (worker->phase == PHASE_LOCATING && worker->start.again && end >= next)
		judge(worker, end, next);
}

void worker_watch(struct worker *worker)
{
	if (!worker_is_reading(worker)) {
		watch_the_look(worker);
		return;
	}
	if (worker->watch_waiting)
		return;
	worker->watch_waiting = true;
	worker->watch_asked_at = replay_next(worker->replay);
	worker->watch_question = locate_ask(worker->locate, -1);
}

void worker_stop_reading(struct worker *worker)
{
	ev_io_stop(worker->loop, &worker->source_io);
	ev_io_stop(worker->loop, &worker->locate_io);
	ev_timer_stop(worker->loop, &worker->due);
	set_more(worker, false);
	locate_hurry(worker->locate, false);
}
