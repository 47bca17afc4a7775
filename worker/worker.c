/*
 * worker.c - the loop of a worker: which event leads to what.
 *
 *	records  --eventfd-->  pump --> start_event (LOCATING) | replay_turn (REPLAYING, LIVE)
 *	offsets  --eventfd-->  start_answer (LOCATING) | watch_end
 *	supervisor --socket--> DRAIN, STOP, end of file
 *	250 ms   -- timer -->  heartbeat, clock, lease, what was missed
 *
 *	LOCATING --found--> REPLAYING --target committed--> LIVE
 *	    ^                   |                            |
 *	    '---- the log does not hold our offset ----------'
 *
 * Once ready, a worker stays ready for the supervisor: if it has to find its
 * place again, what it has counted so far is still right up to its offset.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere but the loop.
 */
#include "worker.h"

#include <ev.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "cpu.h"
#include "locate.h"
#include "quit.h"
#include "replay.h"
#include "source.h"
#include "start.h"
#include "watch.h"

#include "shm/check.h"
#include "shm/err.h"
#include "shm/log.h"

#define TICK_S		  0.25
#define TICKS_A_SECOND	  4
#define TICKS_A_WATCH	  20
#define LOOKUP_TIMEOUT_MS 5000
#define FAR_BEHIND	  (2 * SOURCE_BATCH) /* live, but the queue may be full: wake the fetcher */

struct worker {
	struct worker_parts p;
	struct stats *stats;
	struct ev_loop *loop;
	struct source *source;
	struct locate *locate;
	struct replay *replay;
	struct start start;
	struct watch watch;
	enum worker_phase phase;
	bool was_ready; /* this process has said so */
	unsigned owed;	/* bits 1 << control_kind that the socket had no room for */
	unsigned ticks;
	unsigned watch_question;
	int64_t watch_asked_at; /* our position when it was asked */
	bool watch_waiting;
	bool lookups_fail;
	bool clock_off;
	ev_io source_io, locate_io, control_io;
	ev_timer tick, due;
	ev_idle more;
};

static void pump(struct worker *worker);

static void enter(struct worker *worker, enum worker_phase phase)
{
	worker->phase = phase;
	facts_phase(worker->p.facts, phase);
}

static void tell(struct worker *worker, enum control_kind kind)
{
	if (control_send(kind, worker->p.handoff->generation))
		worker->owed &= ~(1u << kind);
	else
		worker->owed |= 1u << kind;
}

static void set_more(struct worker *worker, bool on)
{
	if (on)
		ev_idle_start(worker->loop, &worker->more);
	else
		ev_idle_stop(worker->loop, &worker->more);
}

/* One timer for whatever is due next. */
static void set_due(struct worker *worker)
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
	tell(worker, CONTROL_READY);
}

static void go_live(struct worker *worker)
{
	uint64_t took_ms = (uint64_t)host_wall_ms() - stats_get(worker->stats, replay_started_at);

	replay_go_live(worker->replay);
	enter(worker, PHASE_LIVE);
	cpu_unpin();
	log_info("worker.live", "next=%lld replayed=%llu took_ms=%llu streams=%llu",
		(long long)replay_next(worker->replay),
		(unsigned long long)stats_get(worker->stats, replayed), (unsigned long long)took_ms,
		(unsigned long long)stats_get(worker->stats, streams));
	say_ready(worker);
}

/* --- finding the place --------------------------------------------------------------------- */

static void locate_again(struct worker *worker)
{
	struct start_store store = {
		.next_offset = replay_next(worker->replay),
		.print = *replay_fingerprint(worker->replay),
		.never_ready = stats_get(worker->stats, ready_at) == 0,
	};

	enter(worker, PHASE_LOCATING);
	locate_hurry(worker->locate, false);
	worker->watch_waiting = false;
	start_begin(&worker->start, &store, now_ms(worker->p.now));
	set_due(worker);
}

static void begin_reading(struct worker *worker)
{
	const struct plan *plan = &worker->start.plan;

	facts_flag(worker->p.facts, FLAG_DEGRADED, false);
	replay_begin(worker->replay, plan);
	watch_start(&worker->watch, replay_next(worker->replay), host_boot_ns());
	if (replay_is_live(worker->replay)) { /* it had lost its place */
		enter(worker, PHASE_LIVE);
		return;
	}
	enter(worker, PHASE_REPLAYING);
	if (replay_reached(worker->replay)) {
		go_live(worker);
		return;
	}
	locate_hurry(worker->locate, true);
	if (!worker->was_ready)
		tell(worker, CONTROL_REPLAYING);
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
	set_due(worker);
}

/* Reads for `start` until it has what it wants; true: more is waiting. */
static bool pump_start(struct worker *worker)
{
	struct source_event event;
	bool any = false;

	for (int fetches = 0; fetches < 2; fetches++) {
		while (worker->phase == PHASE_LOCATING && source_next(worker->source, &event)) {
			any = true;
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
	set_due(worker);
	return any;
}

/* --- reading ------------------------------------------------------------------------------- */

static void after_turn(struct worker *worker, enum replay_result result)
{
	if (worker->phase == PHASE_REPLAYING && replay_reached(worker->replay))
		go_live(worker);
	set_more(worker, result == REPLAY_MORE);
	if (result == REPLAY_NO_TOPIC)
		facts_flag(worker->p.facts, FLAG_DEGRADED, true);
	if (result == REPLAY_NO_TOPIC || result == REPLAY_LOST_PLACE)
		locate_again(worker);
	set_due(worker);
}

static bool is_reading(const struct worker *worker)
{
	return worker->phase == PHASE_REPLAYING || worker->phase == PHASE_LIVE;
}

static void pump(struct worker *worker)
{
	if (worker->phase == PHASE_LOCATING)
		set_more(worker, pump_start(worker));
	else if (is_reading(worker))
		after_turn(worker, replay_turn(worker->replay));
}

static void on_source(struct ev_loop *loop, ev_io *io, int events)
{
	struct worker *worker = io->data;
	uint64_t count;

	(void)loop;
	(void)events;
	/* First read, then fetch: a wake-up that comes in between is not lost. */
	(void)!read(io->fd, &count, sizeof(count));
	pump(worker);
}

static void on_more(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)loop;
	(void)events;
	pump(idle->data);
}

static void on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct worker *worker = timer->data;

	(void)loop;
	(void)events;
	if (worker->phase == PHASE_LOCATING) {
		start_timer(&worker->start);
		after_start(worker);
	}
	if (is_reading(worker)) {
		after_turn(worker, replay_timer(worker->replay));
		pump(worker);
	} else if (worker->phase == PHASE_LOCATING) {
		(void)replay_timer(worker->replay);
		set_due(worker);
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

static void judge(struct worker *worker, int64_t end)
{
	uint64_t now_ns = host_boot_ns();
	enum watch_verdict verdict = watch_end(&worker->watch, end, worker->watch_asked_at,
		worker->p.handoff->stall_timeout_ms, now_ns);

	if (verdict == WATCH_FINE)
		return;
	if (verdict == WATCH_BEYOND_END)
		quit_rebuild(worker->stats, REBUILD_BEYOND_END, "the log ends before our offset");
	facts_flag(worker->p.facts, FLAG_STALLED, true);
	log_warn("worker.stalled", "next=%lld log_end=%lld cures=%u",
		(long long)replay_next(worker->replay), (long long)end, worker->watch.cures);
	if (verdict == WATCH_GIVE_UP)
		quit_internal("the log has more, but nothing arrives", ERR_TIMEOUT);
	read_again(worker);
}

static void on_locate(struct ev_loop *loop, ev_io *io, int events)
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
		if (start_answer(&worker->start, &answer))
			after_start(worker);
	} else if (worker->watch_waiting && answer.id == worker->watch_question) {
		worker->watch_waiting = false;
		worker->lookups_fail = answer.end < 0;
		facts_flag(worker->p.facts, FLAG_DEGRADED, worker->lookups_fail);
		if (answer.end >= 0)
			judge(worker, answer.end);
	}
}

static void watch_log(struct worker *worker)
{
	if (worker->watch_waiting)
		return;
	worker->watch_waiting = true;
	worker->watch_asked_at = replay_next(worker->replay);
	worker->watch_question = locate_ask(worker->locate, -1);
}

/* --- what the supervisor says -------------------------------------------------------------- */

static void stop_reading(struct worker *worker)
{
	ev_io_stop(worker->loop, &worker->source_io);
	ev_io_stop(worker->loop, &worker->locate_io);
	ev_timer_stop(worker->loop, &worker->due);
	set_more(worker, false);
	locate_hurry(worker->locate, false);
}

/* Revoked.  Nothing more is applied; what was not committed is the next owner's. */
static void drain(struct worker *worker)
{
	if (worker->phase != PHASE_DRAINING) {
		stop_reading(worker);
		enter(worker, PHASE_DRAINING);
		log_info("worker.drained", "next=%llu",
			(unsigned long long)stats_get(worker->stats, next_offset));
	}
	tell(worker, CONTROL_DRAINED);
}

static _Noreturn void stop(struct worker *worker)
{
	bool draining = worker->phase == PHASE_DRAINING;

	stop_reading(worker);
	enter(worker, PHASE_STOPPING);
	/* If it cannot be committed now, it is read again by whoever is next. */
	if (!draining)
		(void)replay_flush(worker->replay);
	log_info(
		"worker.stopped", "next=%lld", (long long)usage_meta(worker->p.usage)->next_offset);
	_exit(0);
}

static void on_control(struct ev_loop *loop, ev_io *io, int events)
{
	struct worker *worker = io->data;
	enum control_kind kind;

	(void)loop;
	(void)events;
	while ((kind = control_receive(worker->p.handoff->generation)) != 0) {
		if (kind == CONTROL_STOP)
			stop(worker);
		drain(worker);
	}
}

/* --- what time brings ---------------------------------------------------------------------- */

static void check_clock(struct worker *worker)
{
	struct now *now = worker->p.now;
	bool off;

	(void)now_ms(now);
	if (clock_stuck(&now->clock, host_boot_ns()))
		quit_rebuild(worker->stats, REBUILD_CLOCK, "wall time has gone back for good");
	off = clock_off(&now->clock);
	if (off && !worker->clock_off)
		log_error("worker.clock_off",
			"wall_ms=%lld counting_ms=%lld hint=\"check the machine's clock\"",
			(long long)now_wall_ms(now), (long long)now->clock.now_ms);
	worker->clock_off = off;
	facts_flag(worker->p.facts, FLAG_CLOCK_OFF, off);
}

static void every_second(struct worker *worker)
{
	usage_check_readers(worker->p.usage);
	facts_second(worker->p.facts, worker->p.usage, host_boot_ns());
	if (is_reading(worker))
		replay_idle_second(worker->replay);
}

static void mind_the_queue(struct worker *worker)
{
	int64_t end = locate_end(worker->locate), next = replay_next(worker->replay);
	bool behind = worker->phase == PHASE_REPLAYING || end - next > FAR_BEHIND;

	/* What was read is in the log, too. */
	stats_set(worker->stats, log_end, end > next ? end : next);
	locate_hurry(worker->locate, behind && !replay_held(worker->replay));
	watch_progress(&worker->watch, next, replay_held(worker->replay), host_boot_ns());
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct worker *worker = timer->data;

	(void)loop;
	(void)events;
	worker->ticks++;
	stats_set(worker->stats, heartbeat, host_boot_ns());
	for (unsigned kind = 1; worker->owed >> kind; kind++)
		if (worker->owed & 1u << kind)
			tell(worker, (enum control_kind)kind);
	if (worker->phase == PHASE_DRAINING)
		return;
	source_poll(worker->source);
	check_clock(worker);
	replay_check_lease(worker->replay);
	if (is_reading(worker))
		mind_the_queue(worker);
	if (worker->ticks % TICKS_A_SECOND == 0)
		every_second(worker);
	if (worker->ticks % (worker->lookups_fail ? TICKS_A_SECOND : TICKS_A_WATCH) == 0 &&
		is_reading(worker))
		watch_log(worker);
	pump(worker); /* should a wake-up ever be missed */
}

/* --- making it ----------------------------------------------------------------------------- */

/* Threads of librdkafka, and ours, inherit a mask with every signal blocked. */
static void make_threads(struct worker *worker)
{
	const struct handoff *handoff = worker->p.handoff;
	struct locate_options options = {
		.topic = handoff->topic,
		.partition = (int32_t)handoff->partition,
		.timeout_ms = LOOKUP_TIMEOUT_MS,
		.hurry = source_needs_hurry(),
	};
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (source_open(handoff, &worker->source) != 0)
		_exit(EXIT_CONFIG);
	options.client = source_client(worker->source);
	err = locate_start(&options, &worker->locate);
	if (err)
		quit_internal("the look-up thread", err);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void make_watchers(struct worker *worker)
{
	ev_io_init(&worker->source_io, on_source, source_fd(worker->source), EV_READ);
	ev_io_init(&worker->locate_io, on_locate, locate_fd(worker->locate), EV_READ);
	ev_io_init(&worker->control_io, on_control, HANDOFF_CONTROL_FD, EV_READ);
	ev_timer_init(&worker->tick, on_tick, TICK_S, TICK_S);
	ev_timer_init(&worker->due, on_due, 0., 0.);
	ev_idle_init(&worker->more, on_more);
	worker->source_io.data = worker->locate_io.data = worker->control_io.data = worker;
	worker->tick.data = worker->due.data = worker->more.data = worker;
	ev_set_priority(&worker->control_io, EV_MAXPRI);
	ev_io_start(worker->loop, &worker->source_io);
	ev_io_start(worker->loop, &worker->locate_io);
	ev_io_start(worker->loop, &worker->control_io);
	ev_timer_start(worker->loop, &worker->tick);
}

void worker_run(const struct worker_parts *parts)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	must(worker);
	worker->p = *parts;
	worker->stats = parts->facts->stats;
	worker->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	must(worker->loop);
	cpu_pin(parts->handoff->cpu);
	make_threads(worker);
	replay_new(&(struct replay_options){.handoff = parts->handoff,
			   .table = parts->table,
			   .usage = parts->usage,
			   .source = worker->source,
			   .facts = parts->facts,
			   .now = parts->now},
		&worker->replay);
	start_init(&worker->start, parts->handoff, worker->source, worker->locate);
	make_watchers(worker);
	facts_second(parts->facts, parts->usage, host_boot_ns());
	stats_set(worker->stats, replay_started_at, host_wall_ms());
	locate_again(worker);
	ev_run(worker->loop, 0);
	quit_internal("the event loop has ended", ERR_IO);
}
