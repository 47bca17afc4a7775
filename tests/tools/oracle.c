/*
 * oracle.c - what the stores must hold, worked out from the log in the most
 * obvious way.
 *
 *	log-dump | oracle --partitions N --at MS --applied-at MS --upto-from STORE.txt
 *
 *	line -> reason it is skipped, or: applied -> sort by (partition, tenant, hash, offset)
 *	     -> one stream after the other -> active at --at?  -> sum up
 *
 * STORE.txt is store-dump's output: its `partition` lines say up to which
 * offset each store has read, and as which incarnation.  Only partitions named
 * there are looked at.  Without it, the whole log counts.  The output has
 * store-dump's format, so that diff is the assertion.
 *
 * --applied-at is the time at which records were judged too old or clamped
 * (default: --at).  A record within a minute of that edge could have been
 * judged either way: it is refused, because the test would prove nothing.
 *
 * No index, no running sum, no block, nothing shared with shm/: a record is a
 * struct, a question is a loop over all of them.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/dump.h"
#include "tests/tools/text.h"

struct line {
	unsigned partition;
	int64_t offset, timestamp;
	const char *status, *tenant, *policy, *incarnation;
	uint64_t hash, size, sequence;
	/* worked out */
	int64_t seen_s;
};

struct part {
	bool wanted;
	int64_t next; /* the store has read everything below */
	char incarnation[33];
	uint64_t reasons[DUMP_REASONS];
};

struct source {
	unsigned partition;
	const char *incarnation;
	uint64_t highest;
};

static struct {
	unsigned partitions, window;
	int64_t at, applied_at;
	struct part part[DUMP_PARTITIONS_MAX];
	struct line *lines;
	size_t n_lines;
	struct source *sources;
	size_t n_sources;
} o = {.window = 120, .applied_at = -1};

static _Noreturn void fail(const char *what, const char *where)
{
	fprintf(stderr, "oracle: %s: %s\n", what, where);
	exit(1);
}

static void *grow(void *array, size_t n, size_t size)
{
	if ((n & (n - 1)) == 0)
		array = realloc(array, (n ? 2 * n : 1) * size);
	if (array == NULL)
		fail("out of memory", "");
	return array;
}

/* --- reading --------------------------------------------------------------------------------- */

static void read_upto(const char *path)
{
	FILE *in = fopen(path, "r");
	char line[512], incarnation[33];
	int64_t next;
	unsigned p;

	if (in == NULL)
		fail("cannot open", path);
	while (fgets(line, sizeof(line), in) != NULL) {
		if (sscanf(line, "partition %u next %" SCNd64 " incarnation %32s", &p, &next,
			    incarnation) != 3)
			continue;
		if (p >= DUMP_PARTITIONS_MAX)
			fail("no such partition", line);
		o.part[p].wanted = true;
		o.part[p].next = next;
		strcpy(o.part[p].incarnation, incarnation);
	}
	fclose(in);
}

static char *field(char **rest, const char *whole)
{
	char *word = strsep(rest, "\t\n");

	if (word == NULL)
		fail("not a line of log-dump", whole);
	return word;
}

static void read_line(char *text, struct line *l)
{
	char *whole = strdup(text), *rest = strdup(text);

	l->partition = (unsigned)strtoul(field(&rest, whole), NULL, 10);
	l->offset = strtoll(field(&rest, whole), NULL, 10);
	l->timestamp = strtoll(field(&rest, whole), NULL, 10);
	field(&rest, whole); /* key */
	l->status = field(&rest, whole);
	field(&rest, whole); /* zone */
	l->tenant = field(&rest, whole);
	l->policy = field(&rest, whole);
	l->hash = strtoull(field(&rest, whole), NULL, 10);
	l->size = strtoull(field(&rest, whole), NULL, 10);
	l->incarnation = field(&rest, whole);
	l->sequence = strtoull(field(&rest, whole), NULL, 10);
	if (l->partition >= o.partitions)
		fail("no such partition", whole);
	free(whole);
}

static void read_log(FILE *in)
{
	char *text = NULL;
	size_t size = 0;
	struct line l;

	while (getline(&text, &size, in) > 0) {
		memset(&l, 0, sizeof(l));
		read_line(text, &l);
		if (!o.part[l.partition].wanted || l.offset >= o.part[l.partition].next)
			continue;
		o.lines = grow(o.lines, o.n_lines, sizeof(*o.lines));
		o.lines[o.n_lines++] = l;
	}
	free(text);
}

/* --- judging --------------------------------------------------------------------------------- */

static bool active(int64_t now_s, int64_t seen_s)
{
	return now_s / 60 - seen_s / 60 <= o.window;
}

/* Remembers the sequence number; false when it was there, or a higher one. */
static bool first_time(const struct line *l)
{
	struct source *s = NULL;

	for (size_t i = 0; i < o.n_sources && s == NULL; i++)
		if (o.sources[i].partition == l->partition &&
			strcmp(o.sources[i].incarnation, l->incarnation) == 0)
			s = &o.sources[i];
	if (s == NULL) {
		o.sources = grow(o.sources, o.n_sources, sizeof(*o.sources));
		s = &o.sources[o.n_sources++];
		*s = (struct source){l->partition, l->incarnation, 0};
	} else if (l->sequence <= s->highest) {
		return false;
	}
	s->highest = l->sequence;
	return true;
}

static enum dump_reason judge(struct line *l)
{
	bool has_source = strcmp(l->incarnation, "-") != 0;
	int64_t now_s = o.applied_at / 1000;

	if (strcmp(l->status, "undecodable") == 0)
		return DUMP_UNDECODABLE;
	if (strcmp(l->status, "no_metadata") == 0)
		return DUMP_NO_METADATA;
	if (strcmp(l->tenant, "-") == 0)
		return DUMP_NO_TENANT;
	if (l->hash % o.partitions != l->partition)
		return DUMP_MISROUTED;
	if (has_source && strcmp(l->incarnation, o.part[l->partition].incarnation) == 0)
		return DUMP_OWN;
	if (has_source && !first_time(l))
		return DUMP_DUPLICATE;
	if (l->timestamp < 0)
		return DUMP_TOO_OLD;
	l->seen_s = l->timestamp / 1000 < now_s ? l->timestamp / 1000 : now_s;
	if (active(now_s - 60, l->seen_s) != active(now_s + 60, l->seen_s)) {
		fprintf(stderr,
			"oracle: partition %u offset %" PRId64
			": too close to the edge of the window to be judged\n",
			l->partition, l->offset);
		exit(1);
	}
	return active(now_s, l->seen_s) ? DUMP_APPLIED : DUMP_TOO_OLD;
}

/* Leaves only what was applied. */
static void judge_all(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < o.n_lines; i++) {
		enum dump_reason reason = judge(&o.lines[i]);

		o.part[o.lines[i].partition].reasons[reason]++;
		if (reason == DUMP_APPLIED)
			o.lines[kept++] = o.lines[i];
	}
	o.n_lines = kept;
}

/* --- adding up ------------------------------------------------------------------------------- */

#define ORDER(a, b)                                                                                \
	if ((a) != (b))                                                                            \
	return (a) < (b) ? -1 : 1

static int by_stream(const void *x, const void *y)
{
	const struct line *a = x, *b = y;
	int c;

	ORDER(a->partition, b->partition);
	if ((c = strcmp(a->tenant, b->tenant)) != 0)
		return c;
	ORDER(a->hash, b->hash);
	ORDER(a->offset, b->offset);
	return 0;
}

static bool same_stream(const struct line *a, const struct line *b)
{
	return a->partition == b->partition && strcmp(a->tenant, b->tenant) == 0 &&
	       a->hash == b->hash;
}

/* All records of one stream, in offset order. */
static void print_stream(struct dump *dump, const struct line *first, size_t n)
{
	struct dump_stream s = {.partition = first->partition,
		.tenant = first->tenant,
		.hash = first->hash,
		.policy = first[n - 1].policy};

	for (size_t i = 0; i < n; i++)
		if (first[i].seen_s > s.last_seen_s)
			s.last_seen_s = first[i].seen_s;
	for (size_t i = 0; i < n; i++) {
		int64_t age = s.last_seen_s / 60 - first[i].seen_s / 60;

		if (age < DUMP_BUCKETS)
			s.bucket[age] = dump_add(s.bucket[age], first[i].size, UINT32_MAX);
		if (active(o.at / 1000, first[i].seen_s))
			dump_usage(dump, s.partition, s.tenant, first[i].policy, 0, first[i].size);
	}
	if (active(o.at / 1000, s.last_seen_s)) {
		dump_usage(dump, s.partition, s.tenant, s.policy, 1, 0);
		dump_stream(dump, &s);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"partitions", required_argument, NULL, 'p'},
		{"window", required_argument, NULL, 'w'}, {"at", required_argument, NULL, 'a'},
		{"applied-at", required_argument, NULL, 'A'},
		{"upto-from", required_argument, NULL, 'u'}, DUMP_OPTIONS, {0}};
	const char *upto = NULL;
	struct dump dump = {0};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'p')
			o.partitions = (unsigned)text_number("--partitions", optarg);
		else if (c == 'w')
			o.window = (unsigned)text_number("--window", optarg);
		else if (c == 'a')
			o.at = text_number("--at", optarg);
		else if (c == 'A')
			o.applied_at = text_number("--applied-at", optarg);
		else if (c == 'u')
			upto = optarg;
		else if (!dump_option(&dump, c))
			return 2;
	}
	if (o.partitions == 0 || o.partitions > DUMP_PARTITIONS_MAX || o.at == 0 || optind != argc)
		fail("usage", "log-dump | oracle --partitions N --at MS [--applied-at MS] "
			      "[--window MINUTES] [--upto-from FILE] [--totals | --no-streams]");
	if (o.applied_at < 0)
		o.applied_at = o.at;
	for (unsigned p = 0; p < o.partitions && upto == NULL; p++)
		o.part[p] = (struct part){.wanted = true, .next = INT64_MAX, .incarnation = "?"};
	if (upto != NULL)
		read_upto(upto);

	read_log(stdin);
	judge_all();
	for (unsigned p = 0; p < o.partitions; p++)
		if (o.part[p].wanted)
			dump_partition(
				&dump, p, o.part[p].next, o.part[p].incarnation, o.part[p].reasons);
	qsort(o.lines, o.n_lines, sizeof(*o.lines), by_stream);
	for (size_t i = 0, n; i < o.n_lines; i += n) {
		for (n = 1; i + n < o.n_lines && same_stream(&o.lines[i], &o.lines[i + n]); n++)
			;
		print_stream(&dump, &o.lines[i], n);
	}
	dump_end(&dump, stdout);
	_exit(fflush(stdout) == 0 ? 0 : 1); /* its memory goes with it */
}
