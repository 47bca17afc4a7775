/*
 * model.h - which record comes next: a fleet's streams, and how popular each is.
 *
 * All is made of (tenant, stream, seed) by arithmetic: nothing is kept per
 * stream, so there may be any number of them, and the same options give the
 * same records.
 */
#ifndef TALLY_LOAD_MODEL_H
#define TALLY_LOAD_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

#define MODEL_NAME_SIZE (TENANT_PREFIX_MAX + 24)

/* Draws 1 .. n with probability ~ 1 / k^s. */
struct zipf {
	double n, s, low, high, accept;
};

struct model {
	const struct options *options; /* borrowed for life */
	uint64_t random, next;	       /* state of the generator; next stream of POPULARITY_EACH */
	struct zipf tenants, streams;
};

struct pick {
	uint64_t tenant, stream, hash, size;
	unsigned policy; /* 0 = the unnamed one */
};

void model_start(struct model *model, const struct options *options);

/* The next record; false when no stream falls into the partition that was asked for. */
bool model_next(struct model *model, struct pick *pick);

/* What a stream is, whoever asks. */
uint64_t model_hash(uint64_t seed, uint64_t tenant, uint64_t stream);
unsigned model_policy(uint64_t hash, uint64_t policies);

void model_tenant_name(const struct options *options, uint64_t tenant, char name[MODEL_NAME_SIZE]);
void model_policy_name(unsigned policy, char name[MODEL_NAME_SIZE]); /* "" for 0 */

#endif
