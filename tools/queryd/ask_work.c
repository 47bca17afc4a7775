/*
 * ask_work.c - the memory of a question under way, and the numbers of its policies.
 *
 *	pool <-> ask_work: arrays by stream, by partition, by claim
 *	names of policies -> an index -> a number for each stream
 *
 * Once the pool is warm nothing is allocated.
 *
 * Runs in: queryd, asker thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "ask_private.h"

#include "shm/check.h"
#include "shm/host.h"
#include "shm/record.h"

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
	asker->pool_streams = 0;
}

static void make_room(struct ask_work *work, size_t n)
{
	if (n <= work->cap)
		return;
	free_arrays(work);
	work->cap = n + n / 2 + 16;
	work->part = malloc(work->cap * sizeof(*work->part));
	work->policy = malloc(work->cap * sizeof(*work->policy));
	work->state = malloc(work->cap);
	work->order = malloc(work->cap * sizeof(*work->order));
	work->hash = malloc(work->cap * sizeof(*work->hash));
	work->active = malloc(work->cap);
	work->candidate = malloc(work->cap * sizeof(*work->candidate));
	work->claim_of = malloc(work->cap * sizeof(*work->claim_of));
	work->grouped = malloc(work->cap * sizeof(*work->grouped));
	must_get(work->part && work->policy && work->state && work->order && work->hash &&
		 work->active && work->candidate && work->claim_of && work->grouped);
}

struct ask_work *ask_take_work(struct asker *asker, struct ask *ask)
{
	struct ask_work *work = asker->pool;
	if (work) {
		asker->pool = work->next;
		asker->n_pool--;
		asker->pool_streams -= work->cap;
	} else {
		work = calloc(1, sizeof(*work));
		must_get(work);
		work->asker = asker;
	}
	make_room(work, ask->n);
	work->ask = ask;
	work->n = ask->n;
	work->open = work->n_parts = work->n_policies = work->n_claims = 0;
	work->again = work->read_part = work->read_at = 0;
	work->reading = false;
	work->whole = true;
	work->found_new = work->found_expiring = 0;
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

void ask_give_work(struct ask_work *work)
{
	struct asker *asker = work->asker;
	ev_timer_stop(asker->loop, &work->deadline);
	*(work->prev ? &work->prev->next : &asker->works) = work->next;
	if (work->next)
		work->next->prev = work->prev;
	ask_unreserve(asker, work->n);
	if (asker->n_pool == ASK_POOL_MAX || asker->pool_streams + work->cap > ASK_POOL_STREAMS ||
		work->policies_cap > ASK_POOL_POLICIES) {
		free_work(work);
		return;
	}
	work->next = asker->pool;
	asker->pool = work;
	asker->n_pool++;
	asker->pool_streams += work->cap;
}

/* ------------------------------------------------------------------ names */

bool ask_name_ok(const char *name, size_t max)
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
	work->policies = reallocarray(work->policies, work->policies_cap, sizeof(*work->policies));
	work->policy_mark =
		reallocarray(work->policy_mark, work->policies_cap, sizeof(*work->policy_mark));
	free(work->policy_index);
	work->policy_index_size = work->policies_cap * 2;
	work->policy_index = calloc(work->policy_index_size, sizeof(*work->policy_index));
	must_get(work->policies && work->policy_mark && work->policy_index);
	for (size_t i = 1; i < work->n_policies; i++)
		work->policy_index[policy_place(work, work->policies[i])] = (uint32_t)i + 1;
}

/* false: it is none. */
static bool policy_number(struct ask_work *work, const char *policy, uint32_t *number)
{
	size_t at = policy_place(work, policy);
	if (!work->policy_index[at]) {
		if (!ask_name_ok(policy, RECORD_POLICY_MAX))
			return false;
		if (work->n_policies == work->policies_cap) {
			grow_policies(work);
			at = policy_place(work, policy);
		}
		work->policy_mark[work->n_policies] = 0;
		work->policies[work->n_policies++] = policy;
		work->policy_index[at] = (uint32_t)work->n_policies;
	}
	*number = work->policy_index[at] - 1;
	return true;
}

bool ask_number_policies(struct ask_work *work)
{
	uint32_t last = 0;
	if (!work->policies_cap)
		grow_policies(work);
	else
		memset(work->policy_index, 0,
			work->policy_index_size * sizeof(*work->policy_index));
	work->policies[0] = "";
	work->policy_mark[0] = 0;
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
