/*
 * model.c - which record comes next.
 *
 *	popularity --> tenant, stream --mix(seed)--> hash --> partition = hash % N
 *	                                        '--> policy
 *
 * Runs in: load.
 */
#include <math.h>
#include <stdio.h>

#include "model.h"

#define GOLDEN 0x9e3779b97f4a7c15

/* splitmix64's finisher: each bit of the input flips half of the output's. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t draw(struct model *model)
{
	return mix(model->random += GOLDEN);
}

/* 0 .. n - 1, evenly: the upper half of a 128-bit product. */
static uint64_t draw_below(struct model *model, uint64_t n)
{
	__extension__ typedef unsigned __int128 wide;

	return (uint64_t)((wide)draw(model) * n >> 64);
}

static double draw_unit(struct model *model)
{
	return (double)(draw(model) >> 11) * 0x1p-53;
}

/*
 * Zipf by rejection-inversion (Hoermann and Derflinger, 1996): area() is the
 * integral of k^-s, and area_inverse() its inverse.  No table, whatever n is.
 */
static double area(double x, double s)
{
	double log_x = log(x);

	return s == 1 ? log_x : expm1((1 - s) * log_x) / (1 - s);
}

static double area_inverse(double y, double s)
{
	return s == 1 ? exp(y) : exp(log1p(y * (1 - s)) / (1 - s));
}

static void zipf_start(struct zipf *z, uint64_t n, double s)
{
	z->n = (double)n;
	z->s = s;
	z->low = area(1.5, s) - 1;
	z->high = area(z->n + 0.5, s);
	z->accept = 2 - area_inverse(area(2.5, s) - pow(2, -s), s);
}

static uint64_t zipf_draw(const struct zipf *z, struct model *model)
{
	for (;;) {
		double y = z->high + draw_unit(model) * (z->low - z->high);
		double x = area_inverse(y, z->s), k = floor(x + 0.5);

		k = k < 1 ? 1 : k > z->n ? z->n : k;
		if (k - x <= z->accept || y >= area(k + 0.5, z->s) - pow(k, -z->s))
			return (uint64_t)k - 1;
	}
}

void model_start(struct model *model, const struct options *options)
{
	*model = (struct model){.options = options, .random = mix(options->seed + GOLDEN)};
	if (options->popularity != POPULARITY_ZIPF)
		return;
	zipf_start(&model->tenants, options->tenants, options->zipf);
	zipf_start(&model->streams, options->streams, options->zipf);
}

uint64_t model_hash(uint64_t seed, uint64_t tenant, uint64_t stream)
{
	return mix(mix(mix(seed) + tenant * GOLDEN) + stream * GOLDEN);
}

unsigned model_policy(uint64_t hash, uint64_t policies)
{
	return (unsigned)(mix(hash) % (policies + 1));
}

static void pick_stream(struct model *model, struct pick *pick)
{
	const struct options *o = model->options;

	switch (o->popularity) {
	case POPULARITY_EACH:
		pick->tenant = model->next % o->tenants;
		pick->stream = model->next / o->tenants;
		model->next = (model->next + 1) % (o->tenants * o->streams);
		break;
	case POPULARITY_ZIPF:
		pick->tenant = zipf_draw(&model->tenants, model);
		pick->stream = zipf_draw(&model->streams, model);
		break;
	case POPULARITY_UNIFORM:
		pick->tenant = draw_below(model, o->tenants);
		pick->stream = draw_below(model, o->streams);
	}
	pick->hash = model_hash(o->seed, pick->tenant, pick->stream);
}

bool model_next(struct model *model, struct pick *pick)
{
	const struct options *o = model->options;
	uint64_t tries = o->partition == PARTITION_ANY ? 0 : 1000 * o->partitions;

	do
		pick_stream(model, pick);
	while (o->partition != PARTITION_ANY && pick->hash % o->partitions != o->partition &&
		tries-- > 0);
	if (o->partition != PARTITION_ANY && pick->hash % o->partitions != o->partition)
		return false;
	pick->policy = model_policy(pick->hash, o->policies);
	pick->size = o->size_min;
	if (o->size_max > o->size_min)
		pick->size += draw_below(model, o->size_max - o->size_min + 1);
	return true;
}

void model_tenant_name(const struct options *options, uint64_t tenant, char name[MODEL_NAME_SIZE])
{
	snprintf(name, MODEL_NAME_SIZE, "%s%llu", options->tenant_prefix,
		(unsigned long long)tenant);
}

void model_policy_name(unsigned policy, char name[MODEL_NAME_SIZE])
{
	name[0] = '\0';
	if (policy)
		snprintf(name, MODEL_NAME_SIZE, "policy-%u", policy);
}
