/*
 * ask_plan.c - which streams the next question is about.
 *
 *	tenants in turn -> its streams in turn, per_request of them -> the same again, `rounds` times
 *
 * Runs in: load, mode `ask`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask_plan.h"

#define SKIPPED_MAX 10000000 /* streams of other partitions in a row */

struct cursor {
	uint64_t next, round;
};

struct ask_plan {
	const struct ask_options *options;
	uint64_t *hashes; /* of --hashes, else NULL */
	uint64_t n_hashes, streams;
	uint64_t turn, random;
	struct cursor *tenants;
};

static bool read_hashes(struct ask_plan *plan, const char *path)
{
	FILE *in = fopen(path, "r");
	unsigned long long hash;
	int found = 0;

	while (in && (found = fscanf(in, "%llu", &hash)) == 1) {
		if ((plan->n_hashes & (plan->n_hashes - 1)) == 0)
			plan->hashes = realloc(plan->hashes,
				(plan->n_hashes ? 2 * plan->n_hashes : 1) * sizeof(*plan->hashes));
		if (!plan->hashes)
			abort();
		plan->hashes[plan->n_hashes++] = hash;
	}
	if (!in)
		fprintf(stderr, "tally-load: --hashes: %s: %s\n", path, strerror(errno));
	else if (found == 0)
		fprintf(stderr, "tally-load: --hashes: %s: line %llu is no number\n", path,
			(unsigned long long)plan->n_hashes + 1);
	else if (plan->n_hashes == 0)
		fprintf(stderr, "tally-load: --hashes: %s is empty\n", path);
	if (in)
		fclose(in);
	plan->streams = plan->n_hashes;
	return in && found != 0 && plan->n_hashes > 0;
}

struct ask_plan *ask_plan_open(const struct ask_options *options)
{
	struct ask_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		abort();
	plan->options = options;
	plan->streams = options->streams;
	plan->random = options->seed ^ options->order;
	plan->tenants = calloc(options->tenants, sizeof(*plan->tenants));
	if (!plan->tenants)
		abort();
	if (options->hashes && !read_hashes(plan, options->hashes))
		ask_plan_free(&plan);
	return plan;
}

void ask_plan_free(struct ask_plan **planp)
{
	free((*planp)->hashes);
	free((*planp)->tenants);
	free(*planp);
	*planp = NULL;
}

static uint64_t draw_below(struct ask_plan *plan, uint64_t n)
{
	plan->random = plan->random * 6364136223846793005u + 1442695040888963407u;
	return (plan->random >> 20) % n;
}

static uint64_t size_of(struct ask_plan *plan)
{
	const struct ask_options *o = plan->options;

	if (o->size_max == o->size_min)
		return o->size_min;
	return o->size_min + draw_below(plan, o->size_max - o->size_min + 1);
}

/* The tenant's next stream; false: it has had its rounds. */
static bool next_stream(struct ask_plan *plan, uint64_t tenant, uint64_t *hash)
{
	const struct ask_options *o = plan->options;
	struct cursor *c = &plan->tenants[tenant];
	uint64_t at;

	for (unsigned skipped = 0; skipped < SKIPPED_MAX; skipped++) {
		if (plan->streams && c->next == plan->streams) {
			c->next = 0;
			c->round++;
		}
		if (o->rounds && c->round == o->rounds)
			return false;
		at = o->order ? draw_below(plan, plan->streams) : c->next;
		*hash = plan->hashes ? plan->hashes[at]
				     : model_hash(o->seed, tenant, o->first + at);
		c->next++;
		if (!o->partitions || *hash % o->partitions == o->partition)
			return true;
	}
	return false;
}

/* A question does not go across the end of a round. */
static bool fill(struct ask_plan *plan, uint64_t tenant, struct ask_question *q)
{
	const struct ask_options *o = plan->options;
	const struct cursor *c = &plan->tenants[tenant];

	for (q->n = 0; q->n < o->per_request; q->n++) {
		struct ask_stream *s = &q->streams[q->n];

		if (q->n > 0 && plan->streams && c->next == plan->streams)
			break;
		if (!next_stream(plan, tenant, &s->hash))
			break;
		s->size = size_of(plan);
		s->policy = model_policy(s->hash, o->policies);
	}
	return q->n > 0;
}

bool ask_plan_next(struct ask_plan *plan, struct ask_question *q)
{
	const struct ask_options *o = plan->options;

	for (uint64_t tries = 0; tries < o->tenants; tries++) {
		uint64_t tenant = plan->turn++ % o->tenants;

		if (!fill(plan, tenant, q))
			continue;
		if (o->tenant)
			snprintf(q->tenant, sizeof(q->tenant), "%s", o->tenant);
		else
			snprintf(q->tenant, sizeof(q->tenant), "%s%llu", o->tenant_prefix,
				(unsigned long long)tenant);
		return true;
	}
	return false;
}

const char *ask_plan_policy(const struct ask_options *options, const struct ask_stream *stream,
	char name[MODEL_NAME_SIZE])
{
	if (options->policy)
		return options->policy;
	model_policy_name(stream->policy, name);
	return name;
}
