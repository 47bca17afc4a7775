/*
 * ask_wire.h - questions and answers as bytes: a gRPC message of limits.proto.
 */
#ifndef TALLY_LOAD_ASK_WIRE_H
#define TALLY_LOAD_ASK_WIRE_H

#include "ask_plan.h"

#define ASK_PREFIX 5 /* of a gRPC message: compressed?, be32 length */

/* Room that a question of per_request streams takes at most. */
size_t ask_wire_room(const struct ask_options *options);

/* The length, prefix included. */
size_t ask_wire_question(
	const struct ask_options *options, const struct ask_question *question, uint8_t *out);

/*
 * One result of ExceedsLimits (hash, reason) or UpdateRates (hash, rate), or one
 * entry of GetAssignedPartitions, or the number in a health response.
 */
struct ask_result {
	uint64_t key, value;
};

/*
 * Reads a whole answer with its prefix.  At most cap results are kept, *n = how
 * many there are.  false: it is none.
 */
bool ask_wire_answer(enum ask_method method, const uint8_t *bytes, size_t len,
	struct ask_result *results, size_t cap, size_t *n);

#endif
