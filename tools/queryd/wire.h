/*
 * wire.h - the messages of limits.proto that come by the thousand: requests in, answers out.
 *
 * Read and written by hand: protobuf-c takes a dozen times the memory of a
 * message, twice the time of looking its streams up, and ends a text at its first
 * NUL.  What both read they read alike (test_wire.c).
 *
 * proto3 rules: unknown fields are skipped, the last value of a field wins, a
 * text is UTF-8.
 */
#ifndef TALLY_QUERYD_WIRE_H
#define TALLY_QUERYD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ask.h"
#include "asker.h"

#define WIRE_WHY_SIZE 160

/* ExceedsLimitsRequest and UpdateRatesRequest, which are alike. */
struct wire_request {
	const char *tenant; /* these point into memory */
	struct ask_stream *streams;
	size_t n;
	void *memory; /* freed by the caller */
};

/*
 * false, with one line in `why`: it is not a request, or a name is missing, too
 * long or no text, or there are more than ASK_STREAMS_MAX streams.
 */
bool wire_read_request(
	const uint8_t *message, size_t len, struct wire_request *request, char why[WIRE_WHY_SIZE]);

/* Whether it is a message at all, whatever its fields. */
bool wire_read_empty(const uint8_t *message, size_t len);

/*
 * Bytes of an answer, to be freed.  Results are those that are not accepted, with
 * reason 1 (failed) or 2 (max streams); or a rate for each.
 */
uint8_t *wire_write_results(const struct ask *ask, size_t *len);
uint8_t *wire_write_rates(const struct ask *ask, size_t *len);
uint8_t *wire_write_partitions(const struct asker_partition *partitions, size_t n, size_t *len);

#endif
