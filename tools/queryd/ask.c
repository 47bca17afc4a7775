/*
 * ask.c - questions: taken apart, answered from the map, put together again.
 *
 *	ask_begin -> names checked -> parts, one per partition -> map -> claims (ask_send.c)
 *	ask_settle -> touches -> words and leases again -> done
 *
 * A question that the map can answer costs no allocation once the pool is warm.
 *
 * Runs in: queryd, asker thread.  Blocks in: opening the stores of new generations.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "ask_private.h"

#include "shm/check.h"
#include "shm/client_stand.h"
#include "shm/host.h"
#include "shm/record.h"

#define OPEN_EVERY_NS UINT64_C(100000000) /* a run directory that is not there */

/* ------------------------------------------------------------------ the pool */

static void free_arrays(struct ask_work *work)
{
	free(work->part);
	free(work->policy);
	free(work->state);
	free(work->order);
	free(work->hash);
	free(work->active);
	free(work->candidate);
	free(work->claim_of);
	free(work->grouped);
}

static void free_work(struct ask_work *work)
{
	free_arrays(work);
	free(work->parts);
	free(work->policies);
	free(work->policy_mark);
	free(work->policy_index);
	free(work->claims);
	free(work);
}

void ask_free_pool(struct asker *asker)
{
	while (asker->pool) {
		struct ask_work *work = asker->pool;
		asker->pool = work->next;
		free_work(work);
	}
	asker->n_pool = 0;
}

static void make_room(struct ask_work *work, size_t n)
{
	if (n <= work->cap)
		return;
	free_arrays(work);
	work->cap = n + n / 2 + 16;
	work->part = malloc(work->cap * sizeof *work->part);
	work->policy = malloc(work->cap * sizeof *work->policy);
	work->state = malloc(work->cap);
	work->order = malloc(work->cap * sizeof *work->order);
	work->hash = malloc(work->cap * sizeof *work->hash);
	work->active = malloc(work->cap);
	work->candidate = malloc(work->cap * sizeof *work->candidate);
	work->claim_of = malloc(work->cap * sizeof *work->claim_of);
	work->grouped = malloc(work->cap * sizeof *work->grouped);
	must(work->part && work->policy && work->state && work->order && work->hash &&
		work->active && work->candidate && work->claim_of && work->grouped);
}

static void deadline_came(struct ev_loop *loop, ev_timer *timer, int events);

static struct ask_work *take_work(struct asker *asker, struct ask *ask)
{
	struct ask_work *work = asker->pool;
	if (work) {
		asker->pool = work->next;
		asker->n_pool--;
	} else {
		work = calloc(1, sizeof *work);
		must(work);
		work->asker = asker;
	}
	make_room(work, ask->n);
	ev_init(&work->deadline, deadline_came);
	work->deadline.data = work;
	work->ask = ask;
	work->n = ask->n;
	work->open = work->n_parts = work->n_policies = work->n_claims = 0;
	work->again = 0;
	work->ready = work->late = false;
	work->messages = NULL;
	work->begun_ns = host_boot_ns();
	work->prev = NULL;
	work->next = asker->works;
	if (work->next)
		work->next->prev = work;
	asker->works = work;
	ask->private = work;
	return work;
}

static void give_work(struct ask_work *work)
{
	struct asker *asker = work->asker;
	ev_timer_stop(asker->loop, &work->deadline);
	*(work->prev ? &work->prev->next : &asker->works) = work->next;
	if (work->next)
		work->next->prev = work->prev;
	if (asker->n_pool == ASK_POOL_MAX || work->cap > 2 * ASK_POOL_KEEP ||
		work->policies_cap > ASK_POOL_POLICIES) {
		free_work(work);
		return;
	}
	work->next = asker->pool;
	asker->pool = work;
	asker->n_pool++;
}

/* ------------------------------------------------------------------ names */

static bool name_ok(const char *name, size_t max)
{
	size_t len = strnlen(name, max + 1);
	return len <= max && record_text_ok(name, len);
}

static size_t policy_place(const struct ask_work *work, const char *policy)
{
	size_t at = XXH3_64bits_withSeed(policy, strlen(policy), work->asker->seed) &
		    (work->policy_index_size - 1);
	while (work->policy_index[at] &&
		strcmp(work->policies[work->policy_index[at] - 1], policy) != 0)
		at = (at + 1) & (work->policy_index_size - 1);
	return at;
}

static void grow_policies(struct ask_work *work)
{
	work->policies_cap = work->policies_cap ? work->policies_cap * 2 : 16;
	work->policies = reallocarray(work->policies, work->policies_cap, sizeof *work->policies);
	work->policy_mark =
		reallocarray(work->policy_mark, work->policies_cap, sizeof *work->policy_mark);
	free(work->policy_index);
	work->policy_index_size = work->policies_cap * 2;
	work->policy_index = calloc(work->policy_index_size, sizeof *work->policy_index);
	must(work->policies && work->policy_mark && work->policy_index);
	for (size_t i = 1; i < work->n_policies; i++)
		work->policy_index[policy_place(work, work->policies[i])] = (uint32_t)i + 1;
}

/* false: it is none. */
static bool policy_number(struct ask_work *work, const char *policy, uint32_t *number)
{
	size_t at = policy_place(work, policy);
	if (!work->policy_index[at]) {
		if (!name_ok(policy, RECORD_POLICY_MAX))
			return false;
		if (work->n_policies == work->policies_cap) {
			grow_policies(work);
			at = policy_place(work, policy);
		}
		work->policies[work->n_policies++] = policy;
		work->policy_index[at] = (uint32_t)work->n_policies;
	}
	*number = work->policy_index[at] - 1;
	return true;
}

static bool number_policies(struct ask_work *work)
{
	uint32_t last = 0;
	if (!work->policies_cap)
		grow_policies(work);
	else
		memset(work->policy_index, 0, work->policy_index_size * sizeof *work->policy_index);
	work->policies[0] = "";
	work->n_policies = 1;
	for (size_t i = 0; i < work->n; i++) {
		const char *policy = work->ask->streams[i].policy;
		if (!policy || !*policy || work->ask->kind == ASK_RATES)
			work->policy[i] = 0;
		else if (last && !strcmp(work->policies[last], policy))
			work->policy[i] = last;
		else if (policy_number(work, policy, &last))
			work->policy[i] = last;
		else
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ parts */

static int open_table(struct asker *asker, uint32_t *partitions)
{
	uint64_t now = host_boot_ns();
	*partitions = 0;
	if (!asker->tally) {
		if (now < asker->next_open_ns)
			return TALLY_ENOTREADY;
		asker->next_open_ns = now + OPEN_EVERY_NS;
		int err = tally_open(asker->run_dir, 0, &asker->tally);
		if (err)
			return err;
	}
	int err = client_stand_begin(asker->tally, partitions);
	return !err && !*partitions ? TALLY_ENOTREADY : err;
}

static uint32_t part_number(struct ask_work *work, uint32_t partition)
{
	uint32_t *number = &work->asker->part_of[partition];
	if (*number)
		return *number - 1;
	if (work->n_parts == work->parts_cap) {
		work->parts_cap = work->parts_cap ? work->parts_cap * 2 : 64;
		work->parts = reallocarray(work->parts, work->parts_cap, sizeof *work->parts);
		must(work->parts);
	}
	work->parts[work->n_parts] = (struct ask_part){.partition = partition};
	*number = (uint32_t)++work->n_parts;
	return *number - 1;
}

/* Sorts the streams by partition, and looks at their words.  false: some are not served. */
static bool take_apart(struct ask_work *work)
{
	struct asker *asker = work->asker;
	uint64_t boot = host_boot_ns();
	size_t at = 0;
	bool all = true;
	for (size_t i = 0; i < work->n; i++) {
		work->part[i] = part_number(
			work, (uint32_t)(work->ask->streams[i].hash % work->partitions));
		work->parts[work->part[i]].n++;
	}
	for (size_t p = 0; p < work->n_parts; p++) {
		struct ask_part *part = &work->parts[p];
		asker->part_of[part->partition] = 0;
		part->first = at;
		at += part->n;
		part->n = 0;
		part->generation = client_stand_generation(asker->tally, part->partition, boot);
		all = all && part->generation;
	}
	for (size_t i = 0; i < work->n; i++) {
		struct ask_part *part = &work->parts[work->part[i]];
		work->order[part->first + part->n++] = (uint32_t)i;
	}
	return all;
}

void ask_group(struct ask_work *work, const uint32_t *streams, size_t n)
{
	size_t at = 0;
	for (size_t p = 0; p < work->n_parts; p++)
		work->parts[p].count = 0;
	for (size_t i = 0; i < n; i++)
		work->parts[work->part[streams[i]]].count++;
	for (size_t p = 0; p < work->n_parts; p++) {
		struct ask_part *part = &work->parts[p];
		part->from = at;
		at += part->count;
		part->count = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct ask_part *part = &work->parts[work->part[streams[i]]];
		work->grouped[part->from + part->count++] = streams[i];
	}
}

static void set_part(struct ask_work *work, const struct ask_part *part, enum ask_result result)
{
	for (size_t i = 0; i < part->n; i++)
		work->ask->streams[work->order[part->first + i]].result = result;
}

static void set_all(struct ask_work *work, enum ask_result result)
{
	for (size_t i = 0; i < work->n; i++)
		work->ask->streams[i].result = result;
}

/* ------------------------------------------------------------------ the map */

/* A store that cannot be read is not served; no room among its readers passes. */
static enum ask_result result_of_error(int err)
{
	return err == TALLY_EBUSY || err == TALLY_ENOMEM ? ASK_FAILED : ASK_UNSERVED;
}

bool ask_look_up(struct ask_work *work, const struct ask_part *part, const uint32_t *streams,
	size_t n, uint64_t *hashes, uint8_t *active)
{
	for (size_t i = 0; i < n; i++)
		hashes[i] = work->ask->streams[streams[i]].hash;
	int err = client_stand_known(work->asker->tally, work->ask->tenant, part->partition,
		part->generation, hashes, n, active);
	for (size_t i = 0; err && i < n; i++)
		work->ask->streams[streams[i]].result = result_of_error(err);
	return !err;
}

/* false: the partition cannot be read. */
static bool read_part(struct ask_work *work, struct ask_part *part, size_t found[])
{
	const uint32_t *streams = work->order + part->first;
	uint8_t *active = work->active + part->first;
	if (!ask_look_up(work, part, streams, part->n, work->hash + part->first, active)) {
		part->generation = 0;
		return false;
	}
	for (size_t i = 0; i < part->n; i++) {
		static const uint8_t states[] = {[STREAM_NEW] = STREAM_OPEN,
			[STREAM_ACTIVE] = STREAM_IN_MAP,
			[STREAM_EXPIRING] = STREAM_TO_RENEW};
		work->state[streams[i]] = states[active[i]];
		found[states[active[i]]]++;
		if (active[i] == STREAM_ACTIVE)
			work->ask->streams[streams[i]].result = ASK_ACCEPTED;
	}
	return true;
}

/* How many streams of each state were found.  *all: every partition could be read. */
static void read_map(struct ask_work *work, size_t found[], bool *all)
{
	memset(work->state, STREAM_SETTLED, work->n);
	for (size_t p = 0; p < work->n_parts; p++) {
		struct ask_part *part = &work->parts[p];
		if (!part->generation)
			set_part(work, part, ASK_UNSERVED);
		else if (!read_part(work, part, found))
			*all = work->ask->streams[work->order[part->first]].result !=
				       ASK_UNSERVED &&
			       *all;
	}
}

/* ------------------------------------------------------------------ begin */

static void make_ready(struct ask_work *work)
{
	struct asker *asker = work->asker;
	if (work->ready)
		return;
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

static void begin_work(struct ask_work *work)
{
	struct ask *ask = work->ask;
	bool all = !open_table(work->asker, &work->partitions) && take_apart(work);
	if (!work->partitions || (ask->all_or_nothing && !all)) {
		set_all(work, ASK_UNSERVED);
		return;
	}
	work->seen_ms = tally_now_ms(work->asker->tally);
	if (ask->kind == ASK_RATES) {
		for (size_t p = 0; p < work->n_parts; p++)
			if (!work->parts[p].generation)
				set_part(work, &work->parts[p], ASK_UNSERVED);
		ask_send_rates(work);
		return;
	}
	bool whole = true;
	size_t found[STREAM_SETTLED] = {0};
	read_map(work, found, &whole);
	if (ask->all_or_nothing && !whole) {
		set_all(work, ASK_UNSERVED);
		return;
	}
	if (found[STREAM_TO_RENEW])
		ask_renew(work);
	if (found[STREAM_OPEN])
		ask_claim_all(work);
}

int ask_begin(struct asker *asker, struct ask *ask)
{
	ask->private = NULL;
	if (ask->n > ASK_STREAMS_MAX || (ask->n && !ask->streams) || !ask->tenant ||
		!*ask->tenant || !name_ok(ask->tenant, RECORD_TENANT_MAX))
		return TALLY_EINVALID;
	struct ask_work *work = take_work(asker, ask);
	if (!number_policies(work)) {
		give_work(work);
		ask->private = NULL;
		return TALLY_EINVALID;
	}
	ask_count(&asker->count.questions[ask->kind], 1);
	ask_count(&asker->count.under_way, 1);
	set_all(work, ASK_FAILED);
	work->open = 1; /* until all of it has been sent on its way */
	if (work->n)
		begin_work(work);
	/* Claims may be decided, and messages may have failed, without the loop. */
	ledger_pump(asker->ledger);
	ask_closed(work, 1);
	if (work->open)
		set_deadline(work);
	ask_settle(asker);
	return 0;
}

/* ------------------------------------------------------------------ end */

/* What was accepted from the map is told to the workers.  No room for it: failed. */
static void queue_touches(struct ask_work *work)
{
	struct touches *touches = work->asker->touches;
	uint64_t known = 0;
	for (size_t i = 0; i < work->n_policies; i++)
		work->policy_mark[i] = UINT32_MAX;
	for (size_t p = 0; p < work->n_parts; p++) {
		const struct ask_part *part = &work->parts[p];
		uint32_t group = UINT32_MAX;
		for (size_t i = part->first; part->generation && i < part->first + part->n; i++) {
			uint32_t stream = work->order[i], policy = work->policy[stream];
			struct ask_stream *asked = &work->ask->streams[stream];
			if (asked->result != ASK_ACCEPTED || work->state[stream] != STREAM_IN_MAP)
				continue;
			if (group == UINT32_MAX)
				group = touches_group(touches, work->ask->tenant, part->partition,
					part->generation);
			if (work->policy_mark[policy] == UINT32_MAX)
				work->policy_mark[policy] =
					touches_policy(touches, work->policies[policy]);
			known++;
			if (!touches_add(touches, group, work->policy_mark[policy], asked->hash,
				    asked->bytes, work->seen_ms))
				asked->result = ASK_FAILED;
		}
	}
	ask_count(&work->asker->count.from_map, known);
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
	uint64_t ns = host_boot_ns() - work->begun_ns, results[4] = {0};
	unsigned bucket = 0;
	for (size_t i = 0; i < work->n; i++)
		results[work->ask->streams[i].result]++;
	for (unsigned i = 0; i < 4; i++)
		ask_count(&asker->count.streams[work->ask->kind][i], results[i]);
	while (bucket < ASKER_LATENCIES && ns > asker_latency_ns(bucket))
		bucket++;
	ask_count(&asker->count.latency[bucket], 1);
	ask_count(&asker->count.latency_ns, ns);
	ask_count(&asker->count.under_way, UINT64_MAX);
}

static void finish(struct ask_work *work)
{
	struct ask *ask = work->ask;
	ask_abandon(work);
	if (ask->kind == ASK_EXCEEDS && work->n_parts)
		queue_touches(work);
	check_words(work);
	if (ask->all_or_nothing && any_unserved(work))
		set_all(work, ASK_UNSERVED);
	count_answer(work);
	ask->private = NULL;
	work->asker->finishing = work;
	ask->done(ask);
	work->asker->finishing = NULL;
	give_work(work);
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
	if (work->ready)
		drop_ready(work);
	ask_count(&asker->count.under_way, UINT64_MAX);
	give_work(work);
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
