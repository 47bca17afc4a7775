/*
 * ask-oracle.c - judges what many clients were told at the same time.
 *
 *	tally-load ask --out  --> questions: sent, answered, stream, result  --.
 *	tally-load --out      --> records of another zone                     +--> contradictions
 *	events                --> limits, clock, workers that died            |
 *	store-dump            --> what is there in the end                  --'
 *
 * Nobody knows in which order things happened whose times overlap.  So each question
 * is judged twice: with those streams that were active all the time, whatever the
 * order (sure), and with those that were active in some order (possible).
 *
 *	accepted, and not possibly active before: it was new, so fewer than the limit were sure
 *	rejected: it was not sure to be active, and at least the limit were possible
 *	failed: only near the death of a worker
 *	in the end: what is sure is in the store, and what is there is possible
 *
 * A stream is a list of questions and records; every judgement looks at all of them.
 * Times are wall microseconds.  EVENTS, one a line; from BEGIN on something may hold,
 * from END on it does:
 *
 *	limit TENANT N BEGIN END	0 = none
 *	clock OFFSET_MS BEGIN END
 *	kill BEGIN END			a worker died, its successor is ready
 *	applied UPTO AT			records of before UPTO have been applied at AT
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/text.h"

#define NAME_MAX_LEN 64
#define EVENTS_MAX   4096
#define TOUCH_US     1000000 /* a touch is in the store by then */
#define LATE_US	     5000000 /* what was lost may still be done so much later */
#define SHOWN	     20

enum result { ACCEPTED, REJECTED, UNKNOWN, RECORD };

/* A question about one stream, or a record of it (sent = its timestamp, answered = applied). */
struct item {
	char tenant[NAME_MAX_LEN];
	uint64_t hash;
	int64_t sent, answered;
	enum result result;
	bool maybe_touch; /* it was possibly active before */
};

/* What holds from some moment between begin and end on. */
struct event {
	char tenant[NAME_MAX_LEN];
	int64_t value, begin, end;
};

struct events {
	struct event list[EVENTS_MAX];
	size_t n;
};

struct range {
	int64_t low, high;
};

/* All items of one stream; all streams of one tenant. */
struct stream {
	const struct item *first;
	size_t n;
};

static struct {
	int64_t window;
	struct item *items;
	size_t n_items;
	struct events limits, clocks, kills, applied;
	struct stream *streams;
	size_t n_streams;
	uint64_t fresh, known, rejected, unknown, wrong;
} o;

static _Noreturn void fail(const char *what, const char *where)
{
	fprintf(stderr, "ask-oracle: %s: %s\n", what, where);
	exit(2);
}

__attribute__((format(printf, 2, 3))) static void wrong(
	const struct item *item, const char *format, ...)
{
	va_list args;

	if (o.wrong++ >= SHOWN)
		return;
	printf("%s %" PRIu64 " [%" PRId64 " %" PRId64 "]: ", item->tenant, item->hash, item->sent,
		item->answered);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* --- reading --------------------------------------------------------------------------------- */

static struct item *add_item(void)
{
	if ((o.n_items & (o.n_items - 1)) == 0)
		o.items = realloc(o.items, (o.n_items ? 2 * o.n_items : 1) * sizeof(*o.items));
	if (!o.items)
		fail("out of memory", "");
	return &o.items[o.n_items++];
}

static enum result result_of(const char *word)
{
	if (strcmp(word, "accepted") == 0)
		return ACCEPTED;
	return strcmp(word, "rejected") == 0 ? REJECTED : UNKNOWN;
}

static void read_questions(const char *path)
{
	FILE *in = fopen(path, "r");
	struct item item = {0};
	char word[32];

	if (!in)
		fail("cannot open", path);
	while (fscanf(in, "%" SCNd64 " %" SCNd64 " %63s %" SCNu64 " %*s %*s %31s", &item.sent,
		       &item.answered, item.tenant, &item.hash, word) == 5) {
		item.result = result_of(word);
		*add_item() = item;
	}
	if (!feof(in))
		fail("not a line of tally-load ask --out", path);
	fclose(in);
}

static void read_records(const char *path)
{
	FILE *in = fopen(path, "r");
	struct item item = {.result = RECORD};
	int64_t ms;

	if (!in)
		fail("cannot open", path);
	while (fscanf(in, "%*s %*s %" SCNd64 " %63s %" SCNu64 " %*s %*s %*s %*s %*s", &ms,
		       item.tenant, &item.hash) == 3) {
		item.sent = ms * 1000;
		item.answered = INT64_MAX;
		for (size_t i = 0; i < o.applied.n; i++)
			if (item.sent < o.applied.list[i].begin &&
				o.applied.list[i].end < item.answered)
				item.answered = o.applied.list[i].end;
		*add_item() = item;
	}
	if (!feof(in))
		fail("not a line of tally-load --out", path);
	fclose(in);
}

static void read_events(const char *path)
{
	FILE *in = fopen(path, "r");
	char line[256], kind[16];

	if (!in)
		fail("cannot open", path);
	while (fgets(line, sizeof(line), in)) {
		struct event e = {0};
		struct events *to = NULL;

		sscanf(line, "%15s", kind);
		if (sscanf(line, "limit %63s %" SCNd64 " %" SCNd64 " %" SCNd64, e.tenant, &e.value,
			    &e.begin, &e.end) == 4)
			to = &o.limits;
		else if (sscanf(line, "clock %" SCNd64 " %" SCNd64 " %" SCNd64, &e.value, &e.begin,
				 &e.end) == 3)
			to = &o.clocks;
		else if (sscanf(line, "kill %" SCNd64 " %" SCNd64, &e.begin, &e.end) == 2)
			to = &o.kills;
		else if (sscanf(line, "applied %" SCNd64 " %" SCNd64, &e.begin, &e.end) == 2)
			to = &o.applied;
		if (!to || to->n == EVENTS_MAX)
			fail("not an event", line);
		to->list[to->n++] = e;
	}
	fclose(in);
}

/* --- what may have held between two moments -------------------------------------------------- */

/* Values of events of one kind (and tenant) that may have been in force in [from, to]. */
static struct range in_force(
	const struct events *events, const char *tenant, int64_t from, int64_t to)
{
	struct range range = {INT64_MAX, INT64_MIN};

	for (size_t i = 0; i < events->n; i++) {
		const struct event *e = &events->list[i], *next = e + 1;

		if (strcmp(e->tenant, tenant) != 0 || e->begin > to)
			continue;
		while (next < events->list + events->n && strcmp(next->tenant, tenant) != 0)
			next++;
		if (next < events->list + events->n && next->end < from)
			continue;
		range.low = e->value < range.low ? e->value : range.low;
		range.high = e->value > range.high ? e->value : range.high;
	}
	return range;
}

static int64_t minute(int64_t us)
{
	return us / 60000000;
}

/* The instance's own minute in [from, to]. */
static struct range minutes(int64_t from, int64_t to)
{
	struct range offset = in_force(&o.clocks, "", from, to);

	return (struct range){minute(from + offset.low * 1000), minute(to + offset.high * 1000)};
}

static bool killed_near(int64_t from, int64_t to)
{
	for (size_t i = 0; i < o.kills.n; i++)
		if (o.kills.list[i].begin <= to && o.kills.list[i].end >= from)
			return true;
	return false;
}

/* --- a stream -------------------------------------------------------------------------------- */

struct state {
	bool sure, possible;
};

/* The minute that an item surely made the stream's last seen, by `from`; INT64_MIN: none. */
static int64_t sure_minute(const struct item *item, int64_t from)
{
	int64_t by = item->answered;

	if (item->result == RECORD)
		return by <= from ? minute(item->sent) : INT64_MIN;
	if (item->result != ACCEPTED)
		return INT64_MIN;
	if (item->maybe_touch) {
		by += TOUCH_US;
		if (killed_near(item->sent, by)) /* it may have died with the worker */
			return INT64_MIN;
	}
	return by <= from ? minutes(item->sent, item->answered).low : INT64_MIN;
}

/* The latest minute that an item may have made it, by `to`; INT64_MIN: none. */
static int64_t possible_minute(const struct item *item, int64_t to)
{
	if (item->sent > to || item->result == REJECTED)
		return INT64_MIN;
	if (item->result == RECORD)
		return minute(item->sent);
	return minutes(item->sent, item->answered + (item->result == UNKNOWN ? LATE_US : 0)).high;
}

/* Was the stream active in all of [from, to], was it at some time?  Without what `but` did. */
static struct state state_of(
	const struct stream *stream, int64_t from, int64_t to, const struct item *but)
{
	int64_t sure = INT64_MIN, possible = INT64_MIN;
	struct range now = minutes(from, to);

	for (const struct item *item = stream->first; item < stream->first + stream->n; item++) {
		int64_t a, b;

		if (item == but)
			continue;
		a = sure_minute(item, from);
		b = possible_minute(item, to);
		sure = a > sure ? a : sure;
		possible = b > possible ? b : possible;
	}
	return (struct state){sure >= now.high - o.window, possible >= now.low - o.window};
}

/* How many streams of a tenant were active, for sure and possibly; without this one. */
static struct range count(const struct item *of, const struct stream *but)
{
	struct range n = {0, 0};

	for (size_t i = 0; i < o.n_streams; i++) {
		const struct stream *stream = &o.streams[i];
		struct state state;

		if (stream == but || strcmp(stream->first->tenant, of->tenant) != 0)
			continue;
		state = state_of(stream, of->sent, of->answered, NULL);
		n.low += state.sure;
		n.high += state.possible;
	}
	return n;
}

/* --- judging --------------------------------------------------------------------------------- */

static void judge(const struct stream *stream, const struct item *item)
{
	struct range limit = in_force(&o.limits, item->tenant, item->sent, item->answered), n;
	struct state before = state_of(stream, item->sent, item->answered, item);

	if (item->result == UNKNOWN) {
		o.unknown++;
		if (!killed_near(item->sent, item->answered))
			wrong(item, "failed, and no worker had died");
		return;
	}
	if (item->result == REJECTED && before.sure)
		wrong(item, "rejected, and it was known");
	if (item->result == ACCEPTED && before.possible) {
		o.known++;
		return;
	}
	n = count(item, stream);
	if (item->result == ACCEPTED) {
		o.fresh++;
		if (limit.low > 0 && n.low >= limit.high)
			wrong(item,
				"a new one was accepted, and %" PRId64
				" were active, limit %" PRId64,
				n.low, limit.high);
	} else {
		o.rejected++;
		if (limit.low == 0 || n.high < limit.low)
			wrong(item, "rejected, and at most %" PRId64 " were active, limit %" PRId64,
				n.high, limit.low);
	}
}

static int by_stream(const void *x, const void *y)
{
	const struct item *a = x, *b = y;
	int c = strcmp(a->tenant, b->tenant);

	if (c != 0)
		return c;
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return (a->sent > b->sent) - (a->sent < b->sent);
}

static void find_streams(void)
{
	qsort(o.items, o.n_items, sizeof(*o.items), by_stream);
	o.streams = calloc(o.n_items + 1, sizeof(*o.streams));
	for (size_t i = 0; i < o.n_items; i++) {
		struct stream *last = o.n_streams ? &o.streams[o.n_streams - 1] : NULL;

		if (!last || last->first->hash != o.items[i].hash ||
			strcmp(last->first->tenant, o.items[i].tenant) != 0)
			o.streams[o.n_streams++].first = &o.items[i];
		o.streams[o.n_streams - 1].n++;
	}
}

/* Before all else: what may be a touch is less sure than what was committed. */
static void find_touches(void)
{
	for (size_t i = 0; i < o.n_streams; i++)
		for (size_t j = 0; j < o.streams[i].n; j++) {
			struct item *item = &o.items[o.streams[i].first - o.items + (ptrdiff_t)j];

			item->maybe_touch =
				state_of(&o.streams[i], item->sent, item->answered, item).possible;
		}
}

/* --- the end --------------------------------------------------------------------------------- */

static void judge_store(const char *path, int64_t at_us)
{
	FILE *in = fopen(path, "r");
	bool *there = calloc(o.n_streams + 1, sizeof(*there));
	struct item line = {.sent = at_us, .answered = at_us};
	char text[1024];

	if (!in)
		fail("cannot open", path);
	while (fgets(text, sizeof(text), in)) {
		size_t i = 0;

		if (sscanf(text, "stream %*s %63s %" SCNu64, line.tenant, &line.hash) != 2)
			continue;
		while (i < o.n_streams &&
			(o.streams[i].first->hash != line.hash ||
				strcmp(o.streams[i].first->tenant, line.tenant) != 0))
			i++;
		there[i] = true;
		if (i == o.n_streams || !state_of(&o.streams[i], at_us, at_us, NULL).possible)
			wrong(&line, "is in the store, and nobody let it in");
	}
	fclose(in);
	for (size_t i = 0; i < o.n_streams; i++)
		if (!there[i] && state_of(&o.streams[i], at_us, at_us, NULL).sure)
			wrong(o.streams[i].first, "is not in the store");
	free(there);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"window", required_argument, NULL, 'w'},
		{"events", required_argument, NULL, 'e'}, {"records", required_argument, NULL, 'r'},
		{"store", required_argument, NULL, 's'}, {"at", required_argument, NULL, 'a'}, {0}};
	const char *store = NULL;
	int64_t at = 0;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'w')
			o.window = text_number("--window", optarg);
		else if (c == 'e')
			read_events(optarg);
		else if (c == 'r')
			read_records(optarg);
		else if (c == 's')
			store = optarg;
		else if (c == 'a')
			at = text_number("--at", optarg);
		else
			return 2;
	}
	if (!o.window || !o.clocks.n || optind == argc || (store && !at))
		fail("usage", "ask-oracle --window MINUTES --events FILE [--records FILE]... "
			      "[--store FILE --at WALL_US] FILE...");
	for (; optind < argc; optind++)
		read_questions(argv[optind]);
	find_streams();
	find_touches();
	for (size_t i = 0; i < o.n_streams; i++)
		for (size_t j = 0; j < o.streams[i].n; j++)
			if (o.streams[i].first[j].result != RECORD)
				judge(&o.streams[i], &o.streams[i].first[j]);
	if (store)
		judge_store(store, at);
	printf("streams=%zu new=%" PRIu64 " known=%" PRIu64 " rejected=%" PRIu64 " unknown=%" PRIu64
	       " wrong=%" PRIu64 "\n",
		o.n_streams, o.fresh, o.known, o.rejected, o.unknown, o.wrong);
	return o.wrong != 0;
}
