/*
 * ask.c - questions: taken apart, answered from the map, put together again.
 *
 *	ask_begin -> names checked -> parts and map (ask_map.c) -> claims (ask_send.c)
 *	ask_settle -> touches -> words and leases again -> done
 *
 * A large question is looked up ASK_SLICE streams a turn of the loop, so that
 * the others are answered in between.
 *
 * Runs in: queryd, asker thread.  Blocks in: opening the stores of new generations.
 */
#include <string.h>

#include "ask_private.h"

#include "shm/check.h"
#include "shm/client_stand.h"
#include "shm/host.h"
#include "shm/record.h"

/* ------------------------------------------------------------------ turns */

static void read_on(struct ask_work *work)
{
	struct asker *asker = work->asker;
	if (work->reading)
		return;
	work->reading = true;
	work->reading_next = NULL;
	work->reading_prev = asker->reading_last;
	*(asker->reading_last ? &asker->reading_last->reading_next : &asker->reading) = work;
	asker->reading_last = work;
	ev_check_start(asker->loop, &asker->turn);
	ev_idle_start(asker->loop, &asker->awake);
}

static void stop_reading(struct ask_work *work)
{
	struct asker *asker = work->asker;
	if (!work->reading)
		return;
	work->reading = false;
	*(work->reading_prev ? &work->reading_prev->reading_next : &asker->reading) =
		work->reading_next;
	*(work->reading_next ? &work->reading_next->reading_prev : &asker->reading_last) =
		work->reading_prev;
	if (asker->reading)
		return;
	ev_check_stop(asker->loop, &asker->turn);
	ev_idle_stop(asker->loop, &asker->awake);
}

void ask_refuse_later(struct ask_work *work)
{
	read_on(work);
}

/* ------------------------------------------------------------------ begin */

static void make_ready(struct ask_work *work)
{
	struct asker *asker = work->asker;
	if (work->ready)
		return;
	stop_reading(work);
	work->ready = true;
	work->ready_next = NULL;
	*(asker->ready ? &asker->ready_last->ready_next : &asker->ready) = work;
	asker->ready_last = work;
}

void ask_closed(struct ask_work *work, size_t n)
{
	must(n <= work->open);
	work->open -= n;
	if (!work->open)
		make_ready(work);
}

static void deadline_came(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct ask_work *work = timer->data;
	(void)loop;
	(void)events;
	work->late = true;
	ask_abandon(work);
	make_ready(work);
	ask_settle(work->asker);
}

static void set_deadline(struct ask_work *work)
{
	uint64_t now = host_boot_ns(), until = work->begun_ns + ASK_WAIT_NS;
	if (work->ask->deadline_ns < until)
		until = work->ask->deadline_ns;
	double wait = until > now ? (double)(until - now) / 1e9 : 0;
	ev_now_update(work->asker->loop);
	ev_timer_set(&work->deadline, wait, 0);
	ev_timer_start(work->asker->loop, &work->deadline);
}

/* The map has been read. */
static void ask_workers(struct ask_work *work)
{
	if (work->ask->all_or_nothing && !work->whole) {
		ask_set_all(work, ASK_UNSERVED);
		return;
	}
	if (work->found_expiring)
		ask_renew(work);
	if (work->found_new)
		ask_claim_all(work);
}

/* false: it is not all on its way yet. */
static bool begin_work(struct ask_work *work)
{
	struct ask *ask = work->ask;
	bool all = !ask_open_table(work->asker, &work->partitions) && ask_take_apart(work);
	if (!work->partitions || (ask->all_or_nothing && !all)) {
		ask_set_all(work, ASK_UNSERVED);
		return true;
	}
	work->seen_ms = tally_now_ms(work->asker->tally);
	if (ask->kind == ASK_RATES) {
		for (size_t p = 0; p < work->n_parts; p++)
			if (!work->parts[p].generation)
				ask_set_part(work, &work->parts[p], ASK_UNSERVED);
		ask_send_rates(work);
		return true;
	}
	if (!ask_read_map(work, ASK_SLICE)) {
		read_on(work);
		return false;
	}
	ask_workers(work);
	return true;
}

static void take_turn(struct ev_loop *loop, ev_check *watcher, int events)
{
	struct asker *asker = watcher->data;
	struct ask_work *work = asker->reading;
	(void)loop;
	(void)events;
	stop_reading(work); /* the others first */
	if (work->read_part == work->n_parts) {
		if (!ask_refuse_some(work, ASK_SLICE))
			read_on(work);
	} else if (ask_read_map(work, ASK_SLICE)) {
		ask_workers(work);
		ledger_pump(asker->ledger);
		ask_closed(work, 1);
	} else {
		read_on(work);
	}
	ask_settle(asker);
}

/* The loop does not wait while there is something to be read. */
static void stay_awake(struct ev_loop *loop, ev_idle *watcher, int events)
{
	(void)loop;
	(void)watcher;
	(void)events;
}

void ask_init_turns(struct asker *asker)
{
	ev_check_init(&asker->turn, take_turn);
	asker->turn.data = asker;
	ev_idle_init(&asker->awake, stay_awake);
}

/* Too much is under way. */
static void refuse_at_once(struct asker *asker, struct ask *ask)
{
	struct ask_work nothing = {.asker = asker};
	for (size_t i = 0; i < ask->n; i++)
		ask->streams[i].result = ASK_FAILED;
	ask_count(&asker->count->questions[ask->kind], 1);
	ask_count(&asker->count->streams[ask->kind][ASK_FAILED], ask->n);
	ask_count(&asker->count->refused, 1);
	struct ask_work *before = asker->finishing;
	asker->finishing = &nothing;
	ask->done(ask);
	asker->finishing = before;
}

int ask_begin(struct asker *asker, struct ask *ask)
{
	ask->private = NULL;
	if (ask->n > ASK_STREAMS_MAX || (ask->n && !ask->streams) || !ask->tenant ||
		!*ask->tenant || !ask_name_ok(ask->tenant, RECORD_TENANT_MAX))
		return TALLY_EINVALID;
	if (!ask_reserve(asker, ask->n)) {
		refuse_at_once(asker, ask);
		return 0;
	}
	struct ask_work *work = ask_take_work(asker, ask);
	if (!ask_number_policies(work)) {
		ask_give_work(work);
		ask->private = NULL;
		return TALLY_EINVALID;
	}
	ask_count(&asker->count->questions[ask->kind], 1);
	ask_count(&asker->count->under_way, 1);
	ask_set_all(work, ASK_FAILED);
	ev_init(&work->deadline, deadline_came);
	work->deadline.data = work;
	work->open = 1; /* until all of it has been sent on its way */
	bool begun = !work->n || begin_work(work);
	/* Claims may be decided, and messages may have failed, without the loop. */
	ledger_pump(asker->ledger);
	if (begun)
		ask_closed(work, 1);
	if (work->open)
		set_deadline(work);
	ask_settle(asker);
	return 0;
}

/* ------------------------------------------------------------------ end */

/* Streams of any partitions that are touched together, so that the waits for memory overlap. */
struct run {
	size_t n;
	uint32_t stream[TOUCH_FETCH], group[TOUCH_FETCH];
	uint64_t hash[TOUCH_FETCH];
};

static void touch_run(struct ask_work *work, struct run *run)
{
	struct touches *touches = work->asker->touches;
	uint32_t seen_s = (uint32_t)(work->seen_ms / 1000);
	touches_fetch(touches, run->group, run->hash, run->n);
	for (size_t i = 0; i < run->n; i++) {
		struct ask_stream *asked = &work->ask->streams[run->stream[i]];
		uint32_t policy = work->policy[run->stream[i]];
		if (work->policy_mark[policy] == UINT32_MAX)
			work->policy_mark[policy] = touches_policy(touches, work->policies[policy]);
		if (!touches_add(touches, run->group[i], work->policy_mark[policy], run->hash[i],
			    asked->bytes, seen_s))
			asked->result = ASK_FAILED;
	}
	ask_count(&work->asker->count->from_map, run->n);
	run->n = 0;
}

static void touch_part(struct ask_work *work, const struct ask_part *part, struct run *run)
{
	uint32_t group = UINT32_MAX;
	for (size_t i = part->first; i < part->first + part->n; i++) {
		uint32_t stream = work->order[i];
		if (work->ask->streams[stream].result != ASK_ACCEPTED ||
			work->state[stream] != STREAM_IN_MAP)
			continue;
		if (group == UINT32_MAX)
			group = touches_group(work->asker->touches, work->ask->tenant,
				part->partition, part->generation);
		run->stream[run->n] = stream;
		run->group[run->n] = group;
		run->hash[run->n] = work->ask->streams[stream].hash;
		if (++run->n == TOUCH_FETCH)
			touch_run(work, run);
	}
}

/* What was accepted from the map is told to the workers.  No room for it: failed. */
static void queue_touches(struct ask_work *work)
{
	struct run run = {.n = 0};
	for (size_t i = 0; i < work->n_policies; i++)
		work->policy_mark[i] = UINT32_MAX;
	for (size_t p = 0; p < work->n_parts; p++)
		if (work->parts[p].generation)
			touch_part(work, &work->parts[p], &run);
	touch_run(work, &run);
}

/* What stands on a partition that is not ready any more is not given. */
static bool take_back(struct ask_work *work, const struct ask_part *part, uint64_t boot)
{
	enum client_standing standing = client_stand_of(
		work->asker->tally, part->partition, part->generation, work->partitions, boot);
	if (standing == STANDS_READY)
		return false;
	for (size_t i = part->first; i < part->first + part->n; i++) {
		struct ask_stream *asked = &work->ask->streams[work->order[i]];
		if (asked->result != ASK_FAILED || standing == STANDS_LEFT)
			asked->result = ASK_UNSERVED;
	}
	return true;
}

static void check_words(struct ask_work *work)
{
	uint64_t boot = host_boot_ns();
	for (size_t p = 0; p < work->n_parts; p++)
		if (work->parts[p].generation)
			take_back(work, &work->parts[p], boot);
}

static bool any_unserved(const struct ask_work *work)
{
	for (size_t i = 0; i < work->n; i++)
		if (work->ask->streams[i].result == ASK_UNSERVED)
			return true;
	return false;
}

static void count_answer(struct ask_work *work)
{
	struct asker *asker = work->asker;
	uint64_t ns = host_boot_ns() - work->begun_ns, results[4] = {0}, bytes = 0;
	unsigned bucket = 0;
	for (size_t i = 0; i < work->n; i++) {
		const struct ask_stream *asked = &work->ask->streams[i];
		results[asked->result]++;
		bytes += asked->result == ASK_ACCEPTED ? asked->bytes : 0;
	}
	if (work->ask->kind == ASK_EXCEEDS)
		refusals_add(asker->accepted, work->ask->tenant, bytes, 0);
	for (unsigned i = 0; i < 4; i++)
		ask_count(&asker->count->streams[work->ask->kind][i], results[i]);
	while (bucket < ASKER_LATENCIES && ns > asker_latency_ns(bucket))
		bucket++;
	ask_count(&asker->count->latency[bucket], 1);
	ask_count(&asker->count->latency_ns, ns);
	ask_count(&asker->count->under_way, UINT64_MAX);
}

static void finish(struct ask_work *work)
{
	struct ask *ask = work->ask;
	ask_abandon(work);
	if (ask->kind == ASK_EXCEEDS && work->n_parts)
		queue_touches(work);
	check_words(work);
	if (ask->all_or_nothing && any_unserved(work))
		ask_set_all(work, ASK_UNSERVED);
	count_answer(work);
	ask->private = NULL;
	work->asker->finishing = work;
	ask->done(ask);
	work->asker->finishing = NULL;
	ask_give_work(work);
}

/* What has expired while it was to be renewed is as good as new. */
static void go_on(struct ask_work *work)
{
	for (size_t i = 0; i < work->n; i++)
		if (work->state[i] == STREAM_TO_CLAIM) {
			work->state[i] = STREAM_OPEN;
			work->ask->streams[i].result = ASK_FAILED;
		}
	work->again = 0;
	work->ready = false;
	ask_claim_all(work);
	if (!work->open)
		make_ready(work);
}

void ask_settle(void *arg)
{
	struct asker *asker = arg;
	if (asker->settling)
		return;
	asker->settling = true;
	for (;;) {
		ledger_pump(asker->ledger);
		struct ask_work *work = asker->ready;
		if (!work)
			break;
		asker->ready = work->ready_next;
		if (work->again && !work->late)
			go_on(work);
		else
			finish(work);
	}
	asker->settling = false;
	asker_nudge(asker);
}

static void drop_ready(struct ask_work *work)
{
	struct ask_work **at = &work->asker->ready, *last = NULL;
	while (*at && *at != work) {
		last = *at;
		at = &(*at)->ready_next;
	}
	if (!*at)
		return;
	*at = work->ready_next;
	if (work->asker->ready_last == work)
		work->asker->ready_last = last;
}

void ask_cancel(struct asker *asker, struct ask *ask)
{
	struct ask_work *work = ask->private;
	if (!work)
		return;
	ask->private = NULL;
	ask_abandon(work);
	stop_reading(work);
	if (work->ready)
		drop_ready(work);
	ask_count(&asker->count->under_way, UINT64_MAX);
	ask_give_work(work);
	ask_settle(asker);
}

void ask_end_all(struct asker *asker)
{
	for (struct ask_work *work = asker->works; work; work = work->next) {
		work->late = true;
		ask_abandon(work);
		make_ready(work);
	}
	ask_settle(asker);
}
