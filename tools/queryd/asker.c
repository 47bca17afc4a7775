/*
 * asker.c - the thread that asks: one loop with the map, the ledger, the workers, the touches.
 *
 *	mailbox (mutex) --ev_async--> post: fn(arg) in the loop
 *	250 ms after the first touch: touches_flush        once a second: what has left is let go
 *
 * Runs in: queryd, asker thread; asker_call, asker_submit in others.
 * Blocks in: these two, until the loop has done it.
 */
#include "asker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "ask_private.h"

#include "shm/check.h"
#include "shm/client_stand.h"
#include "shm/host.h"

#define RETRY_TOUCHES_S 0.01
#define TOUCHES_A_TURN	5000 /* a fraction of a millisecond */
#define STOPPING_S	0.005
#define FACTS_NS	UINT64_C(10000000) /* facts are not older while there is work */

struct post {
	struct post *next;
	void (*fn)(void *arg);
	void *arg;
};

struct asker_thread {
	struct asker *asker;
	pthread_t id;
	bool started;
	pthread_mutex_t lock; /* mailbox, facts */
	pthread_cond_t done;
	struct post *first, *last;
	unsigned submits;
	bool stopping;
	ev_async mail;
	ev_timer touches, tick, stop;
	bool retrying;	     /* a worker did not take its touches */
	double flush_s;	     /* that sending them has taken so far */
	uint32_t partitions; /* while touches are sent */
	uint64_t stop_at_ns;
	int (*begin)(void *arg, struct ask *ask); /* NULL = ask_begin */
	void *begin_arg;
	struct asker_facts facts; /* of links, touches, ledger */
	uint64_t copied_ns;
};

uint64_t asker_latency_ns(unsigned bucket)
{
	static const unsigned us[ASKER_LATENCIES] = {50, 100, 250, 500, 1000, 2500, 5000, 10000,
		25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000};
	return bucket < ASKER_LATENCIES ? us[bucket] * UINT64_C(1000) : UINT64_MAX;
}

/* ------------------------------------------------------------------ timers */

static bool still_served(uint32_t partition, uint64_t generation, void *arg)
{
	struct asker *asker = arg;
	return asker->thread->partitions &&
	       client_stand_of(asker->tally, partition, generation, asker->thread->partitions,
		       host_boot_ns()) != STANDS_LEFT;
}

static void copy_facts(struct asker *asker)
{
	const struct links_facts *links = links_facts(asker->links);
	const struct ledger_facts *ledger = ledger_facts(asker->ledger);
	const struct touches_facts *touches = touches_facts(asker->touches);
	struct asker_thread *thread = asker->thread;
	thread->copied_ns = host_boot_ns();
	pthread_mutex_lock(&thread->lock);
	thread->facts = (struct asker_facts){
		.touches_waiting = touches_waiting(asker->touches),
		.touches_sent = touches->sent,
		.touches_dropped = touches->dropped,
		.touches_refused = touches->refused,
		.touches_coalesced = touches->coalesced,
		.links_open = links->open,
		.link_waiting = links->waiting,
		.link_lost = links->lost,
		.link_refused = links->refused,
		.link_unexpected = links->unexpected,
		.ledger_accounts = ledger->accounts,
		.ledger_waiting = ledger->waiting,
		.ledger_reserved = ledger->reserved,
		.ledger_readings = ledger->readings,
	};
	pthread_mutex_unlock(&thread->lock);
}

static void set_touches(struct asker *asker, double seconds)
{
	ev_timer *timer = &asker->thread->touches;
	ev_timer_stop(asker->loop, timer);
	ev_timer_set(timer, seconds, 0);
	ev_timer_start(asker->loop, timer);
}

/* true: there is more to be sent. */
static bool flush_touches(struct asker *asker, size_t most)
{
	struct asker_thread *thread = asker->thread;
	if (!asker->tally || client_stand_begin(asker->tally, &thread->partitions))
		thread->partitions = 0;
	return touches_flush(asker->touches, most, still_served, asker);
}

static void touches_due(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct asker *asker = timer->data;
	(void)loop;
	(void)events;
	struct asker_thread *thread = asker->thread;
	uint64_t before = host_boot_ns();
	bool more = flush_touches(asker, TOUCHES_A_TURN);
	thread->flush_s += (double)(host_boot_ns() - before) / 1e9;
	thread->retrying = !more && touches_kept(asker->touches) > 0;
	if (more) /* questions first */
		set_touches(asker, 0);
	else if (thread->retrying) /* very many that are not taken must not eat a CPU */
		set_touches(asker,
			thread->flush_s > RETRY_TOUCHES_S ? 4 * thread->flush_s : RETRY_TOUCHES_S);
	else if (touches_waiting(asker->touches)) /* they came meanwhile */
		set_touches(asker, TOUCH_EVERY_MS / 1e3);
	if (!more)
		thread->flush_s = 0;
	ask_settle(asker); /* a connection may have been lost */
}

void asker_nudge(struct asker *asker)
{
	struct asker_thread *thread = asker->thread;
	size_t waiting = touches_waiting(asker->touches);
	if (!asker->works || host_boot_ns() - thread->copied_ns > FACTS_NS)
		copy_facts(asker);
	if (waiting >= TOUCH_MANY && !thread->retrying)
		set_touches(asker, 0);
	else if (waiting && !ev_is_active(&thread->touches))
		set_touches(asker, TOUCH_EVERY_MS / 1e3);
}

static void tick(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct asker *asker = timer->data;
	uint64_t boot = host_boot_ns();
	uint32_t partitions = 0;
	(void)loop;
	(void)events;
	if (asker->tally) {
		tally_idle(asker->tally);
		bool attached = !client_stand_begin(asker->tally, &partitions);
		for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
			uint64_t generation = links_generation(asker->links, p);
			if (generation && (!attached || client_stand_of(asker->tally, p, generation,
								partitions, boot) == STANDS_LEFT))
				links_keep(asker->links, p, 0);
		}
	}
	ledger_idle(asker->ledger);
	copy_facts(asker);
	ask_settle(asker);
}

/* ------------------------------------------------------------------ the mailbox */

static void read_mail(struct ev_loop *loop, ev_async *watcher, int events)
{
	struct asker_thread *thread = watcher->data;
	(void)loop;
	(void)events;
	for (;;) {
		pthread_mutex_lock(&thread->lock);
		struct post *post = thread->first;
		if (post)
			thread->first = post->next;
		pthread_mutex_unlock(&thread->lock);
		if (!post)
			break;
		post->fn(post->arg); /* frees, or hands on, what the post lies in */
	}
	ask_settle(thread->asker);
}

/* With the lock held. */
static void put_post(struct asker_thread *thread, struct post *post)
{
	post->next = NULL;
	*(thread->first ? &thread->last->next : &thread->first) = post;
	thread->last = post;
	ev_async_send(thread->asker->loop, &thread->mail);
}

struct call {
	struct post post;
	struct asker_thread *thread;
	void (*fn)(void *arg);
	void *arg;
	bool over;
};

static void make_call(void *arg)
{
	struct call *call = arg;
	struct asker_thread *thread = call->thread;
	call->fn(call->arg);
	pthread_mutex_lock(&thread->lock);
	call->over = true;
	pthread_cond_broadcast(&thread->done);
	pthread_mutex_unlock(&thread->lock);
}

void asker_call(struct asker *asker, void (*fn)(void *arg), void *arg)
{
	struct asker_thread *thread = asker->thread;
	struct call call = {.thread = thread, .fn = fn, .arg = arg};
	call.post = (struct post){.fn = make_call, .arg = &call};
	pthread_mutex_lock(&thread->lock);
	put_post(thread, &call.post);
	while (!call.over)
		pthread_cond_wait(&thread->done, &thread->lock);
	pthread_mutex_unlock(&thread->lock);
}

/* ------------------------------------------------------------------ questions of other threads */

struct stand {
	uint32_t partition;
	uint64_t generation;
};

struct submit {
	struct post post;
	struct asker *asker;
	struct ask *ask;
	int err;
	bool over;
	pthread_cond_t done;
	uint32_t partitions;
	struct stand *stands;
	size_t n;
};

static void end_submit(struct submit *submit)
{
	struct asker_thread *thread = submit->asker->thread;
	pthread_mutex_lock(&thread->lock);
	submit->over = true;
	pthread_cond_signal(&submit->done);
	pthread_mutex_unlock(&thread->lock);
}

static void submit_done(struct ask *ask)
{
	struct submit *submit = ask->arg;
	const struct ask_work *work = submit->asker->finishing;
	submit->stands = reallocarray(NULL, work->n_parts + 1, sizeof(*submit->stands));
	must_get(submit->stands);
	submit->partitions = work->partitions;
	for (size_t i = 0; i < work->n_parts; i++)
		if (work->parts[i].generation)
			submit->stands[submit->n++] =
				(struct stand){.partition = work->parts[i].partition,
					.generation = work->parts[i].generation};
	end_submit(submit);
}

static void begin_submit(void *arg)
{
	struct submit *submit = arg;
	const struct asker_thread *thread = submit->asker->thread;
	int err = thread->begin ? thread->begin(thread->begin_arg, submit->ask)
				: ask_begin(submit->asker, submit->ask);
	if (!err)
		return; /* it may be over, and gone */
	submit->err = err;
	end_submit(submit);
}

void asker_set_begin(struct asker *asker, int (*begin)(void *arg, struct ask *ask), void *arg)
{
	asker->thread->begin = begin;
	asker->thread->begin_arg = arg;
}

/* With the caller's handle, in the caller's thread. */
static void check_again(struct submit *submit, struct tally *again)
{
	uint32_t partitions;
	uint64_t boot;
	bool left = client_stand_begin(again, &partitions);
	struct ask *ask = submit->ask;
	boot = host_boot_ns();
	for (size_t i = 0; i < submit->n; i++) {
		const struct stand *stand = &submit->stands[i];
		if (!left && client_stand_of(again, stand->partition, stand->generation,
				     submit->partitions, boot) == STANDS_READY)
			continue;
		for (size_t k = 0; k < ask->n; k++)
			if (ask->all_or_nothing ||
				ask->streams[k].hash % submit->partitions == stand->partition)
				ask->streams[k].result = ASK_UNSERVED;
	}
}

int asker_submit(struct asker *asker, struct ask *ask, struct tally *again)
{
	struct asker_thread *thread = asker->thread;
	struct submit submit = {.asker = asker, .ask = ask};
	submit.post = (struct post){.fn = begin_submit, .arg = &submit};
	pthread_cond_init(&submit.done, NULL);
	ask->done = submit_done;
	ask->arg = &submit;
	pthread_mutex_lock(&thread->lock);
	if (thread->stopping)
		submit.err = TALLY_ESTALE;
	else if (thread->submits >= ASKER_SUBMITS_MAX)
		submit.err = TALLY_EBUSY;
	if (!submit.err) {
		thread->submits++;
		put_post(thread, &submit.post);
		while (!submit.over)
			pthread_cond_wait(&submit.done, &thread->lock);
		thread->submits--;
	}
	pthread_mutex_unlock(&thread->lock);
	pthread_cond_destroy(&submit.done);
	if (!submit.err && again)
		check_again(&submit, again);
	free(submit.stands);
	return submit.err;
}

/* ------------------------------------------------------------------ start and stop */

struct asker *asker_new(const char *run_dir)
{
	struct asker *asker = calloc(1, sizeof(*asker));
	struct asker_thread *thread = calloc(1, sizeof(*thread));
	must_get(asker && thread);
	asker->run_dir = run_dir;
	asker->seed = host_random();
	asker->thread = thread;
	asker->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	must_get(asker->loop);
	asker->links = links_new(&(struct links_options){.loop = asker->loop,
		.run_dir = run_dir,
		.done = ask_answered,
		.settle = ask_settle,
		.arg = asker});
	asker->ledger = ledger_new(&asker->tally);
	asker->touches = touches_new(asker->links);
	asker->known = known_new();
	asker->refusals = refusals_new();
	asker->accepted = refusals_new();
	asker->count = &asker->own_count;
	thread->asker = asker;
	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->done, NULL);
	ev_async_init(&thread->mail, read_mail);
	thread->mail.data = thread;
	ev_async_start(asker->loop, &thread->mail);
	ask_init_turns(asker);
	ev_init(&thread->touches, touches_due);
	thread->touches.data = asker;
	ev_timer_init(&thread->tick, tick, 1., 1.);
	thread->tick.data = asker;
	ev_timer_start(asker->loop, &thread->tick);
	return asker;
}

void asker_count_in(struct asker *asker, struct ask_counts *counts, struct refusals_rows *refused,
	struct refusals_rows *accepted)
{
	asker->count = counts;
	must(refusals_keep_in(asker->refusals, refused));
	must(refusals_keep_in(asker->accepted, accepted));
}

struct ev_loop *asker_loop(struct asker *asker)
{
	return asker->loop;
}

static void *run(void *arg)
{
	struct asker *asker = arg;
	ev_run(asker->loop, 0);
	return NULL;
}

bool asker_start(struct asker *asker)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	asker->thread->started = !pthread_create(&asker->thread->id, NULL, run, asker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return asker->thread->started;
}

static void look_whether_over(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct asker *asker = timer->data;
	(void)events;
	if (asker->works && host_boot_ns() < asker->thread->stop_at_ns)
		return;
	ask_end_all(asker);
	flush_touches(asker, SIZE_MAX); /* that is under way ... */
	flush_touches(asker, SIZE_MAX); /* ... and what has come meanwhile */
	copy_facts(asker);
	ev_break(loop, EVBREAK_ALL);
}

static void begin_stop(void *arg)
{
	struct asker *asker = arg;
	ev_timer_init(&asker->thread->stop, look_whether_over, 0., STOPPING_S);
	asker->thread->stop.data = asker;
	ev_timer_start(asker->loop, &asker->thread->stop);
}

void asker_stop(struct asker *asker, unsigned grace_ms)
{
	struct asker_thread *thread = asker->thread;
	if (!thread->started)
		return;
	pthread_mutex_lock(&thread->lock);
	thread->stopping = true;
	pthread_mutex_unlock(&thread->lock);
	thread->stop_at_ns = host_boot_ns() + grace_ms * UINT64_C(1000000);
	asker_call(asker, begin_stop, asker);
	pthread_join(thread->id, NULL);
	thread->started = false;
}

void asker_free(struct asker **handle)
{
	struct asker *asker = *handle;
	if (!asker)
		return;
	*handle = NULL;
	must(!asker->thread->started);
	ask_end_all(asker);
	links_free(&asker->links); /* nobody waits for what is under way */
	touches_free(&asker->touches);
	known_free(&asker->known);
	ledger_free(&asker->ledger);
	refusals_free(&asker->refusals);
	refusals_free(&asker->accepted);
	ask_free_pool(asker);
	if (asker->tally)
		tally_close(&asker->tally);
	ev_loop_destroy(asker->loop);
	pthread_mutex_destroy(&asker->thread->lock);
	pthread_cond_destroy(&asker->thread->done);
	free(asker->thread);
	free(asker);
}

/* ------------------------------------------------------------------ what it knows */

int asker_partitions(struct asker *asker, struct asker_partition *out, size_t cap)
{
	uint32_t partitions;
	int n = 0;
	if (!asker->tally) {
		int err = tally_open(asker->run_dir, 0, &asker->tally);
		if (err)
			return err;
	}
	int err = client_stand_begin(asker->tally, &partitions);
	uint64_t boot = host_boot_ns();
	for (uint32_t p = 0; !err && p < partitions && (size_t)n < cap; p++) {
		int64_t at = client_stand_assigned(asker->tally, p, boot);
		if (at)
			out[n++] = (struct asker_partition){.partition = p, .assigned_at_ns = at};
	}
	return err ? err : n;
}

bool asker_alive(struct asker *asker)
{
	struct tally_instance instance;
	if (!asker->tally && tally_open(asker->run_dir, 0, &asker->tally))
		return false;
	return !tally_instance(asker->tally, &instance) && instance.alive;
}

#define COPY(field) facts->field = atomic_load_explicit(&asker->count->field, memory_order_relaxed)

void asker_facts(struct asker *asker, struct asker_facts *facts)
{
	struct asker_thread *thread = asker->thread;
	pthread_mutex_lock(&thread->lock);
	*facts = thread->facts;
	pthread_mutex_unlock(&thread->lock);
	for (unsigned i = 0; i < 2; i++)
		COPY(questions[i]);
	for (unsigned i = 0; i < 4; i++)
		COPY(streams[ASK_EXCEEDS][i]), COPY(streams[ASK_RATES][i]);
	for (unsigned i = 0; i <= ASKER_LATENCIES; i++)
		COPY(latency[i]);
	COPY(latency_ns);
	COPY(from_map);
	COPY(refused);
	COPY(under_way);
}

size_t asker_refusals(struct asker *asker, struct refusals_of *out, size_t cap)
{
	return refusals_list(asker->refusals, out, cap);
}

size_t asker_accepted(struct asker *asker, struct refusals_of *out, size_t cap)
{
	return refusals_list(asker->accepted, out, cap);
}
