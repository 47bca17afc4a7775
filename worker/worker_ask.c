/*
 * worker_ask.c - the part of the loop that is asked, and writes to the topic.
 *
 *	admit.sock --> batch --before the loop sleeps--> one commit --> answers
 *	                                                     '--> outbox --> emit --> topic
 *	every second: streams whose unsent bytes are due --> batch
 *	STOP: all unsent bytes --> commit --> emit, for a while --> exit
 *	DRAIN: outbox and unsent bytes --> emit --> DRAINED (then the supervisor kills us)
 *
 * Everything that came in one turn of the loop is one commit: questions of all
 * connections, and the records that were there.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "worker_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/log.h"

#define STOP_FLUSH_NS UINT64_C(3000000000) /* for the broker to confirm what is left */

static int may_ask(void *arg)
{
	const struct worker *worker = arg;

	if (!worker->was_ready || worker->phase == PHASE_DRAINING ||
		worker->phase == PHASE_STOPPING)
		return ERR_NOT_READY;
	return replay_holds(worker->replay);
}

static void touched(void *arg)
{
	struct worker *worker = arg;

	if (replay_holds(worker->replay))
		return; /* it is tried again anyway */
	replay_touched(worker->replay);
	worker_set_due(worker);
}

/* All that came in this turn, in one commit; nothing between the commit and the answers. */
static void before_sleep(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	struct worker *worker = prepare->data;
	int err;

	(void)loop;
	(void)events;
	if (!admit_waiting(worker->admit))
		return;
	FAULT("ask.begin");
	err = may_ask(worker);
	if (!err &&
		!admit_judged(worker->admit)) /* a batch of records may have been full just now */
		err = replay_ask(worker->replay);
	FAULT("ask.committed");
	admit_answer(worker->admit, err);
	FAULT("ask.answered");
	replay_asked(worker->replay, err);
	worker_emit(worker);
	worker_set_due(worker);
}

static void on_emit(struct ev_loop *loop, ev_io *io, int events)
{
	struct worker *worker = io->data;

	(void)loop;
	(void)events;
	emit_pump(worker->emit);
	worker_check_end(worker);
}

/* Threads of the producer inherit a mask with every signal blocked. */
static void open_emit(struct worker *worker)
{
	struct emit_options options = {.handoff = worker->p.handoff,
		.usage = worker->p.usage,
		.facts = worker->p.facts,
		.now = worker->p.now,
		.may_send = replay_may_send,
		.arg = worker->replay};
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	emit_new(&options, &worker->emit);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	ev_io_init(&worker->emit_io, on_emit, emit_fd(worker->emit), EV_READ);
	worker->emit_io.data = worker;
	ev_io_start(worker->loop, &worker->emit_io);
}

void worker_open_asking(struct worker *worker)
{
	const struct handoff *handoff = worker->p.handoff;
	struct usage_produce produce = {
		.rate_minutes = worker->p.table->head->rate_minutes,
		.every_s = handoff->produce ? handoff->produce_every_s : 0,
		.outbox_max = handoff->outbox_max,
	};

	usage_set_produce(worker->p.usage, &produce);
	if (handoff->produce)
		open_emit(worker);
	admit_open(&(struct admit_options){.handoff = handoff,
			   .path = worker->p.path,
			   .usage = worker->p.usage,
			   .facts = worker->p.facts,
			   .now = worker->p.now,
			   .loop = worker->loop,
			   .may_ask = may_ask,
			   .touched = touched,
			   .arg = worker},
		&worker->admit);
	ev_prepare_init(&worker->before_sleep, before_sleep);
	worker->before_sleep.data = worker;
	ev_prepare_start(worker->loop, &worker->before_sleep);
}

/* --- writing ------------------------------------------------------------------------------- */

void worker_emit(struct worker *worker)
{
	/* Before it is ready, what is in the outbox may still come back by itself. */
	if (worker->emit && worker->was_ready)
		emit_pump(worker->emit);
}

void worker_produce(struct worker *worker)
{
	if (!worker->was_ready || replay_holds(worker->replay))
		return;
	if (usage_produce_due(worker->p.usage, now_ms(worker->p.now)))
		touched(worker);
}

bool worker_has_emitted(const struct worker *worker)
{
	return !worker->emit || emit_is_done(worker->emit);
}

/* --- the end ------------------------------------------------------------------------------- */

void worker_stop_asking(struct worker *worker, bool draining)
{
	worker->stop_at_ns = host_boot_ns() + STOP_FLUSH_NS;
	if (draining || !worker->emit || replay_holds(worker->replay))
		return;
	usage_produce_all(worker->p.usage);
	FAULT("stop.produced");
	(void)replay_flush(worker->replay);
	FAULT("stop.flushed");
	emit_pump(worker->emit);
}

/*
 * What is written from here on has sequences that no commit knows of: should the
 * supervisor die now, nobody may go on with this store.
 */
static void retire_store(struct worker *worker)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/data.mdb", worker->p.path);
	if (unlink(path) != 0)
		log_warn("worker.not_retired", "path=%s error=\"%s\"", path, strerror(errno));
}

void worker_drain_asking(struct worker *worker)
{
	if (!worker->emit)
		return;
	retire_store(worker);
	FAULT("drain.retired");
	emit_drain(worker->emit);
}

void worker_check_end(struct worker *worker)
{
	long long next = (long long)usage_meta(worker->p.usage)->next_offset;
	bool done;

	if (worker->phase != PHASE_DRAINING && worker->phase != PHASE_STOPPING)
		return;
	done = worker_has_emitted(worker);
	if (worker->phase == PHASE_DRAINING && done && !worker->drained) {
		worker->drained = true;
		log_info("worker.drained", "next=%lld", next);
		FAULT("drain.done");
		worker_tell(worker, CONTROL_DRAINED);
	}
	if (worker->phase != PHASE_STOPPING)
		return;
	if (done || host_boot_ns() >= worker->stop_at_ns) {
		log_info("worker.stopped", "next=%lld outbox=%llu%s", next,
			(unsigned long long)usage_meta(worker->p.usage)->outbox,
			done ? "" : " unconfirmed=yes");
		FAULT("stop.done");
		_exit(0);
	}
}
