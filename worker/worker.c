/*
 * worker.c - the loop of a worker: which event leads to what.
 *
 *	records, offsets --eventfds--> worker_read.c
 *	questions --admit.sock--> worker_ask.c --> topic
 *	supervisor --socket--> DRAIN, STOP, end of file
 *	250 ms   -- timer -->  heartbeat, clock, lease, what was missed
 *
 * Runs in: worker, main thread.  Blocks in: nowhere but the loop.
 */
#include "worker_private.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "control.h"
#include "cpu.h"
#include "memory.h"
#include "quit.h"
#include "scrub.h"

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"
#include "shm/log.h"
#include "shm/store.h"

#define TICK_S		  0.25
#define TICKS_A_SECOND	  4
#define TICKS_A_WATCH	  20
#define GIVES_AT_ONCE	  3  /* seconds after the replay in which memory is given back */
#define SECONDS_A_BREATH  60 /* and between later ones */
#define LOOKUP_TIMEOUT_MS 5000
#define HURRY_NS	  UINT64_C(1500000000) /* longer than the pause of a full queue */
#define FAR_BEHIND	  (2 * SOURCE_BATCH) /* live, but the queue may be full: wake the fetcher */

void worker_enter(struct worker *worker, enum worker_phase phase)
{
	worker->phase = phase;
	facts_phase(worker->p.facts, phase);
}

void worker_tell(struct worker *worker, enum control_kind kind)
{
	if (control_send(kind, worker->p.handoff->generation))
		worker->owed &= ~(1u << kind);
	else
		worker->owed |= 1u << kind;
}

/* --- what the supervisor says -------------------------------------------------------------- */

/* Revoked.  Nothing more is applied; what was not committed is the next owner's. */
static void drain(struct worker *worker)
{
	if (worker->phase != PHASE_DRAINING) {
		worker_stop_reading(worker);
		worker_enter(worker, PHASE_DRAINING);
		FAULT("drain.heard");
		worker_drain_asking(worker);
	}
	worker_check_end(worker);
}

static void stop(struct worker *worker)
{
	bool draining = worker->phase == PHASE_DRAINING;

	if (worker->phase == PHASE_STOPPING)
		return;
	worker_stop_reading(worker);
	worker_enter(worker, PHASE_STOPPING);
	FAULT("stop.heard");
	/* If it cannot be committed now, it is read again by whoever is next. */
	if (!draining)
		(void)replay_flush(worker->replay);
	worker_stop_asking(worker, draining);
	worker_check_end(worker);
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
		else
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
			(long long)host_wall_ms(), (long long)now->clock.now_ms);
	worker->clock_off = off;
	facts_flag(worker->p.facts, FLAG_CLOCK_OFF, off);
}

/*
 * What a replay has taken, when it is over: not all is free in the first second, nor do all
 * threads hear of it.  Then what a burst has taken, now and then.
 */
static void give_back(struct worker *worker)
{
	unsigned second = ++worker->live_seconds;

	if (second > GIVES_AT_ONCE && second % SECONDS_A_BREATH != 0)
		return;
	usage_give_back(worker->p.usage);
	memory_give_back();
}

static void every_second(struct worker *worker)
{
	if (!store_is_in_place(usage_store(worker->p.usage), worker->p.path))
		quit_rebuild(worker->stats, REBUILD_CORRUPT, "its files are gone, or cut short");
	log_set_level(table_log_level(worker->p.table));
	usage_check_readers(worker->p.usage);
	facts_second(worker->p.facts, worker->p.usage, host_boot_ns());
	/* As if it had been woken: one wake-up that is lost must not be waited for, for ever. */
	ev_feed_event(worker->loop, &worker->locate_io, EV_READ);
	if (!worker_is_reading(worker))
		return;
	worker_produce(worker);
	replay_idle_second(worker->replay);
	if (worker->phase == PHASE_LIVE)
		give_back(worker);
}

static void mind_the_queue(struct worker *worker)
{
	int64_t end = locate_end(worker->locate), next = replay_next(worker->replay);
	bool behind = worker->phase == PHASE_REPLAYING || end - next > FAR_BEHIND;

	/* What was read is in the log, too. */
	stats_set(worker->stats, log_end, end > next ? end : next);
	watch_progress(&worker->watch, next, replay_held(worker->replay), host_boot_ns());
	/* Where nothing arrives, no full queue is to blame. */
	locate_hurry(worker->locate, behind && !replay_held(worker->replay) &&
					     host_boot_ns() - worker->watch.moved_ns < HURRY_NS);
}

/* Closer when something is wrong. */
static unsigned watch_ticks(const struct worker *worker)
{
	return worker->lookups_fail || worker->watch.beyond_ns ? TICKS_A_SECOND : TICKS_A_WATCH;
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
			worker_tell(worker, (enum control_kind)kind);
	if (worker->phase == PHASE_DRAINING || worker->phase == PHASE_STOPPING) {
		worker_emit(worker);
		worker_check_end(worker);
		return;
	}
	worker_emit(worker);
	source_poll(worker->source);
	check_clock(worker);
	scrub_slice(worker->p.usage, worker->stats, TICKS_A_SECOND);
	replay_check_lease(worker->replay);
	if (worker_is_reading(worker))
		mind_the_queue(worker);
	if (worker->ticks % TICKS_A_SECOND == 0)
		every_second(worker);
	if (worker->ticks % watch_ticks(worker) == 0)
		worker_watch(worker);
	worker_pump(worker); /* should a wake-up ever be missed */
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
	ev_io_init(&worker->source_io, worker_on_source, source_fd(worker->source), EV_READ);
	ev_io_init(&worker->locate_io, worker_on_locate, locate_fd(worker->locate), EV_READ);
	ev_io_init(&worker->control_io, on_control, HANDOFF_CONTROL_FD, EV_READ);
	ev_timer_init(&worker->tick, on_tick, TICK_S, TICK_S);
	ev_timer_init(&worker->due, worker_on_due, 0., 0.);
	ev_idle_init(&worker->more, worker_on_more);
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

	must_get(worker);
	worker->p = *parts;
	worker->stats = parts->facts->stats;
	worker->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	must_get(worker->loop);
	cpu_pin(parts->handoff->cpu);
	quit_by_library(parts->handoff->partition);
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
	worker_open_asking(worker);
	facts_second(parts->facts, parts->usage, host_boot_ns());
	stats_set(worker->stats, replay_started_at, host_wall_ms());
	worker->awake_ns = host_boot_ns();
	worker_locate(worker, false);
	ev_run(worker->loop, 0);
	quit_internal("the event loop has ended", ERR_IO);
}
