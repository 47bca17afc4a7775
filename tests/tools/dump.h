/*
 * dump.h - what oracle and store-dump print, so that diff can compare them.
 *
 *	partition P next OFFSET incarnation HEX
 *	skipped   P REASON N                          every reason, "applied" too
 *	usage     P TENANT POLICY STREAMS BYTES       those that are not both zero
 *	stream    P TENANT HASH LAST_SEEN_S POLICY BYTES BYTES BYTES BYTES BYTES
 *
 * A stream is printed when it is active; its last numbers are the bytes of the
 * minute of its last record and of the four before.  --no-streams leaves them
 * out; --totals adds up over the partitions and leaves P out ("total" lines
 * then have each tenant's sum).  Names are as in text.h.
 */
#ifndef TALLY_TESTS_DUMP_H
#define TALLY_TESTS_DUMP_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DUMP_PARTITIONS_MAX 1024
#define DUMP_BUCKETS	    5

enum dump_reason {
	DUMP_APPLIED,
	DUMP_UNDECODABLE,
	DUMP_NO_METADATA,
	DUMP_NO_TENANT,
	DUMP_MISROUTED,
	DUMP_OWN,
	DUMP_DUPLICATE,
	DUMP_TOO_OLD,
	DUMP_STORE_FULL,
	DUMP_QUARANTINED,
	DUMP_REASONS
};

static const char *const dump_reason_words[DUMP_REASONS] = {"applied", "undecodable", "no_metadata",
	"no_tenant", "misrouted", "own", "duplicate", "too_old", "store_full", "quarantined"};

struct dump_usage {
	unsigned partition;
	char *tenant, *policy;
	uint64_t streams, bytes;
};

struct dump_stream {
	unsigned partition;
	const char *tenant, *policy;
	uint64_t hash;
	int64_t last_seen_s;
	uint64_t bucket[DUMP_BUCKETS];
};

struct dump {
	bool totals, no_streams;
	struct dump_usage *usage;
	size_t n_usage;
	char **lines;
	size_t n_lines;
	uint64_t reasons[DUMP_REASONS];
};

#define DUMP_OPTIONS                                                                               \
	{"totals", no_argument, NULL, 'T'},                                                        \
	{                                                                                          \
		"no-streams", no_argument, NULL, 'S'                                               \
	}

static inline bool dump_option(struct dump *dump, int c)
{
	dump->totals |= c == 'T';
	dump->no_streams |= c == 'T' || c == 'S';
	return c == 'T' || c == 'S';
}

/* Saturates. */
static inline uint64_t dump_add(uint64_t a, uint64_t b, uint64_t max)
{
	return a > max || b > max - a ? max : a + b;
}

static inline void *dump_grow(void *array, size_t n, size_t size)
{
	if ((n & (n - 1)) == 0)
		array = realloc(array, (n ? 2 * n : 1) * size);
	if (array == NULL)
		abort();
	return array;
}

static inline void dump_line(struct dump *dump, char *line)
{
	dump->lines = dump_grow(dump->lines, dump->n_lines, sizeof(*dump->lines));
	dump->lines[dump->n_lines++] = line;
}

static inline void dump_partition(struct dump *dump, unsigned partition, int64_t next,
	const char *incarnation, const uint64_t reasons[DUMP_REASONS])
{
	char *line;

	if (asprintf(&line, "partition %u next %" PRId64 " incarnation %s\n", partition, next,
		    incarnation) > 0)
		dump_line(dump, line);
	for (int r = 0; r < DUMP_REASONS; r++) {
		dump->reasons[r] += reasons[r];
		if (!dump->totals && asprintf(&line, "skipped %u %s %" PRIu64 "\n", partition,
					     dump_reason_words[r], reasons[r]) > 0)
			dump_line(dump, line);
	}
}

static inline void dump_usage(struct dump *dump, unsigned partition, const char *tenant,
	const char *policy, uint64_t streams, uint64_t bytes)
{
	dump->usage = dump_grow(dump->usage, dump->n_usage, sizeof(*dump->usage));
	dump->usage[dump->n_usage++] = (struct dump_usage){
		dump->totals ? 0 : partition, strdup(tenant), strdup(policy), streams, bytes};
}

static inline void dump_stream(struct dump *dump, const struct dump_stream *s)
{
	char *line;

	if (!dump->no_streams &&
		asprintf(&line,
			"stream %u %s %" PRIu64 " %" PRId64 " %s %" PRIu64 " %" PRIu64 " %" PRIu64
			" %" PRIu64 " %" PRIu64 "\n",
			s->partition, s->tenant, s->hash, s->last_seen_s, s->policy, s->bucket[0],
			s->bucket[1], s->bucket[2], s->bucket[3], s->bucket[4]) > 0)
		dump_line(dump, line);
}

static inline int dump_by_key(const void *x, const void *y)
{
	const struct dump_usage *a = x, *b = y;
	int c;

	if (a->partition != b->partition)
		return a->partition < b->partition ? -1 : 1;
	c = strcmp(a->tenant, b->tenant);
	return c != 0 ? c : strcmp(a->policy, b->policy);
}

/* Sorts, adds up what has the same key, drops what is zero. */
static inline void dump_merge(struct dump *dump)
{
	size_t kept = 0;

	qsort(dump->usage, dump->n_usage, sizeof(*dump->usage), dump_by_key);
	for (size_t i = 0, n; i < dump->n_usage; i += n) {
		struct dump_usage sum = dump->usage[i];

		for (n = 1; i + n < dump->n_usage && dump_by_key(&sum, &dump->usage[i + n]) == 0;
			n++) {
			sum.streams += dump->usage[i + n].streams;
			sum.bytes = dump_add(sum.bytes, dump->usage[i + n].bytes, UINT64_MAX);
		}
		if (sum.streams != 0 || sum.bytes != 0)
			dump->usage[kept++] = sum;
	}
	dump->n_usage = kept;
}

static inline void dump_usage_lines(struct dump *dump)
{
	const struct dump_usage *u = dump->usage, *end = u + dump->n_usage;
	char *line;

	for (; u < end && !dump->totals; u++)
		if (asprintf(&line, "usage %u %s %s %" PRIu64 " %" PRIu64 "\n", u->partition,
			    u->tenant, u->policy, u->streams, u->bytes) > 0)
			dump_line(dump, line);
	for (uint64_t streams = 0, bytes = 0; u < end; u++) {
		streams += u->streams;
		bytes = dump_add(bytes, u->bytes, UINT64_MAX);
		if (asprintf(&line, "usage %s %s %" PRIu64 " %" PRIu64 "\n", u->tenant, u->policy,
			    u->streams, u->bytes) > 0)
			dump_line(dump, line);
		if (u + 1 < end && strcmp(u->tenant, u[1].tenant) == 0)
			continue;
		if (asprintf(&line, "total %s %" PRIu64 " %" PRIu64 "\n", u->tenant, streams,
			    bytes) > 0)
			dump_line(dump, line);
		streams = bytes = 0;
	}
}

static inline int dump_by_line(const void *x, const void *y)
{
	return strcmp(*(char *const *)x, *(char *const *)y);
}

/* Prints all that was collected, sorted. */
static inline void dump_end(struct dump *dump, FILE *out)
{
	char *line;

	dump_merge(dump);
	dump_usage_lines(dump);
	for (int r = 0; r < DUMP_REASONS && dump->totals; r++)
		if (asprintf(&line, "skipped %s %" PRIu64 "\n", dump_reason_words[r],
			    dump->reasons[r]) > 0)
			dump_line(dump, line);
	qsort(dump->lines, dump->n_lines, sizeof(*dump->lines), dump_by_line);
	for (size_t i = 0; i < dump->n_lines; i++)
		fputs(dump->lines[i], out);
}

#endif
