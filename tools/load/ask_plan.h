/*
 * ask_plan.h - which streams the next question is about.
 *
 * All is arithmetic on (seed, tenant, stream), as in model.h: the same options
 * give the same questions, and the streams of records made with the same seed.
 */
#ifndef TALLY_LOAD_ASK_PLAN_H
#define TALLY_LOAD_ASK_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ask_options.h"
#include "model.h"

struct ask_stream {
	uint64_t hash, size;
	unsigned policy; /* model_policy_name; unless options->policy names it */
};

struct ask_question {
	char tenant[MODEL_NAME_SIZE + 64];
	size_t n;
	struct ask_stream *streams; /* room for options->per_request */
};

struct ask_plan;

/* `options` is kept.  NULL after one line on stderr. */
struct ask_plan *ask_plan_open(const struct ask_options *options);
void ask_plan_free(struct ask_plan **plan);

/* Fills in the next question; false: all has been asked. */
bool ask_plan_next(struct ask_plan *plan, struct ask_question *question);

/* The name of a stream's policy. */
const char *ask_plan_policy(const struct ask_options *options, const struct ask_stream *stream,
	char name[MODEL_NAME_SIZE]);

#endif
