/*
 * ask_options.h - what `tally-load ask` was asked to do.
 */
#ifndef TALLY_LOAD_ASK_OPTIONS_H
#define TALLY_LOAD_ASK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* ASK_ECHO: a question as ASK_EXCEEDS sends it, whose answer is only counted. */
enum ask_method { ASK_EXCEEDS, ASK_RATES, ASK_ECHO, ASK_PARTITIONS, ASK_HEALTH };

/* Numbers are 64 bits wide: rows.h. */
struct ask_options {
	const char *target, *service;
	enum ask_method method;
	const char *path;   /* of the method */
	const char *tenant; /* NULL = tenant_prefix and a number */
	const char *policy; /* NULL = by the stream's hash, of `policies` */
	const char *hashes; /* NULL = made from the seed */
	const char *out;    /* NULL = none */
	const char *tenant_prefix;
	uint64_t tenants, streams, first, order, policies; /* order 0 = in turn */
	uint64_t partition, partitions;			   /* partitions 0 = streams of all */
	uint64_t per_request, connections, concurrency;
	uint64_t rate, requests, seconds, rounds; /* 0 = no limit */
	uint64_t deadline_ms, patience_ms;
	uint64_t size_min, size_max; /* in this order: row_range */
	uint64_t seed;
};

/* Defaults, then argv.  A mistake ends the program: one line, exit 2. */
void ask_options_parse(struct ask_options *options, int argc, char **argv);

#endif
