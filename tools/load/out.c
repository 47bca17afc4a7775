/*
 * out.c - the --out file: one line per delivered record, for a test's oracle.
 *
 * Runs in: load, main thread (delivery reports are served there).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"

struct out {
	const struct options *options;
	FILE *file;
	char source[2 * INCARNATION_SIZE + 1];
};

struct out *out_open(const struct options *options)
{
	struct out *out = calloc(1, sizeof(*out));

	if (out)
		out->file = fopen(options->out, "w");
	if (!out || !out->file) {
		fprintf(stderr, "tally-load: --out: %s: %s\n", options->out, strerror(errno));
		free(out);
		return NULL;
	}
	out->options = options;
	for (size_t i = 0; i < INCARNATION_SIZE; i++)
		snprintf(out->source + 2 * i, 3, "%02x", options->incarnation[i]);
	return out;
}

/* The payload can be read and has metadata. */
static bool has_metadata(enum kind kind)
{
	return kind != KIND_UNDECODABLE && kind != KIND_NO_METADATA && kind != KIND_NULL &&
	       kind != KIND_HUGE && kind != KIND_OLD_FORMAT;
}

void out_write(struct out *out, int32_t partition, int64_t offset, const struct note *note)
{
	char tenant[MODEL_NAME_SIZE], policy[MODEL_NAME_SIZE];

	model_tenant_name(out->options, note->tenant, tenant);
	model_policy_name(note->policy, policy);
	fprintf(out->file, "%" PRId32 "\t%" PRId64 "\t%" PRId64 "\t%s\t", partition, offset,
		note->timestamp_ms,
		note->kind == KIND_NO_TENANT || note->kind == KIND_NULL ? "-" : tenant);
	if (has_metadata(note->kind))
		fprintf(out->file, "%" PRIu64 "\t%" PRIu64 "\t%s\t", note->hash, note->size,
			*policy ? policy : "-");
	else
		fputs("-\t-\t-\t", out->file);
	if (note->has_source)
		fprintf(out->file, "%s\t%s\t%" PRIu64 "\n", kind_word(note->kind), out->source,
			note->sequence);
	else
		fprintf(out->file, "%s\t-\t-\n", kind_word(note->kind));
}

int out_close(struct out **out)
{
	struct out *o = *out;
	int failed = ferror(o->file);

	if (fclose(o->file) != 0 || failed) {
		fprintf(stderr, "tally-load: --out: %s: could not be written: %s\n",
			o->options->out, strerror(errno));
		failed = -1;
	}
	free(o);
	*out = NULL;
	return failed;
}
