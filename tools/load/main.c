/*
 * main.c - tally-load: writes records to a topic as a fleet of ingest nodes would; `ask`: ask.c.
 *
 *	options -> model_next -> maker_make -> sink (kafka | dump) -> counts, --out
 *	              ^                          |
 *	              '--- rate, stop, mix of broken ones
 *
 * Runs in: load.  Blocks in: the sink.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"
#include "message.h"
#include "model.h"
#include "options.h"
#include "out.h"
#include "sink.h"

#define BROKEN_EVERY 10 /* good records between two broken ones when their number is not known */

static volatile sig_atomic_t stopped;

struct run {
	struct options options;
	struct load_count count;
	struct model model;
	struct maker *maker;
	struct out *out;
	struct sink *sink;
	uint64_t good, mixed_in, broken; /* made so far; made so far; to be made */
	uint64_t broken_left[KINDS];
	int next_kind;
	int64_t start_ms; /* wall: where timestamps are spread up to */
	double start, shown;
	uint64_t shown_records;
};

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Evenly up to now, in the order of the log. */
static int64_t timestamp(const struct run *run, enum kind kind)
{
	const struct options *o = &run->options;

	if (o->spread_ms == 0 || kind == KIND_FUTURE)
		return wall_ms();
	return run->start_ms - (int64_t)o->spread_ms +
	       (int64_t)((double)o->spread_ms * (double)run->good / (double)o->records);
}

/* The kind that is due after so many good records; kinds take turns.  KIND_OK: none. */
static enum kind broken_due(struct run *run)
{
	uint64_t n = run->options.records, place;

	if (run->mixed_in == run->broken)
		return KIND_OK;
	place = n ? (uint64_t)((double)n * (double)(run->mixed_in + 1) / (double)(run->broken + 1))
		  : (run->mixed_in + 1) * BROKEN_EVERY;
	if (run->good < place)
		return KIND_OK;
	for (int i = 0; i < KINDS; i++) {
		int kind = run->next_kind++ % KINDS;

		if (run->broken_left[kind] &&
			(kind != KIND_DUPLICATE || maker_can_repeat(run->maker)))
			return (enum kind)kind;
	}
	return KIND_OK;
}

static bool send_one(struct run *run)
{
	enum kind kind = broken_due(run);
	struct pick pick;

	if (!model_next(&run->model, &pick)) {
		fprintf(stderr,
			"tally-load: no stream belongs to partition %llu: give more --streams\n",
			(unsigned long long)run->options.partition);
		return false;
	}
	run->sink->send(run->sink, maker_make(run->maker, &pick, timestamp(run, kind), kind));
	if (kind == KIND_OK) {
		run->good++;
	} else {
		run->mixed_in++;
		run->broken_left[kind]--;
	}
	return true;
}

static void progress(struct run *run, double now)
{
	uint64_t records = run->count.delivered;

	if (now - run->shown < 1)
		return;
	fprintf(stderr, "\rrecords=%llu rate=%.0f failed=%llu ", (unsigned long long)records,
		(double)(records - run->shown_records) / (now - run->shown),
		(unsigned long long)run->count.failed);
	run->shown = now;
	run->shown_records = records;
}

static bool all_sent(const struct run *run)
{
	return run->options.records && run->good == run->options.records &&
	       run->mixed_in == run->broken;
}

/* Seconds until the next record is due; <= 0: now. */
static double ahead(const struct run *run, double now)
{
	if (run->options.rate == 0)
		return 0;
	return (double)(run->good + run->mixed_in) / (double)run->options.rate - (now - run->start);
}

static bool produce(struct run *run)
{
	const struct options *o = &run->options;
	bool show = isatty(STDERR_FILENO), ok = true;

	while (ok && !stopped && !all_sent(run)) {
		double now = now_s(), wait = ahead(run, now);

		if (show)
			progress(run, now);
		if (o->seconds && now - run->start >= (double)o->seconds)
			break;
		if (wait > 0.001)
			run->sink->wait(run->sink, wait < 0.1 ? (int)(wait * 1000) : 100);
		else
			ok = send_one(run);
	}
	if (show && run->shown > run->start)
		fputc('\n', stderr);
	return ok;
}

static bool open_all(struct run *run)
{
	struct options *o = &run->options;

	if (o->out && !(run->out = out_open(o)))
		return false;
	run->sink = o->dump ? sink_open_dump(o, run->out, &run->count)
			    : sink_open_kafka(o, run->out, &run->count);
	if (!run->sink)
		return false;
	options_check_partitions(o);
	model_start(&run->model, o);
	run->maker = maker_new(o);
	for (int kind = 0; kind < KINDS; kind++)
		run->broken += run->broken_left[kind] = o->broken[kind];
	run->start_ms = wall_ms();
	run->start = run->shown = now_s();
	return run->maker != NULL;
}

static bool close_all(struct run *run)
{
	bool ok = true;

	if (run->sink)
		run->sink->finish(&run->sink);
	if (run->maker)
		maker_free(&run->maker);
	if (run->out)
		ok = out_close(&run->out) == 0;
	return ok;
}

static void summary(const struct run *run)
{
	double seconds = now_s() - run->start;

	printf("records=%llu broken=%llu seconds=%.3f rate=%.0f failed=%llu\n",
		(unsigned long long)run->count.delivered, (unsigned long long)run->count.broken,
		seconds, seconds > 0 ? (double)run->count.delivered / seconds : 0,
		(unsigned long long)run->count.failed);
}

int main(int argc, char **argv)
{
	static struct run run;
	struct sigaction stop = {.sa_handler = on_signal};
	bool ok;

	if (argc > 1 && strcmp(argv[1], "ask") == 0)
		return ask_main(argc - 1, argv + 1);
	options_parse(&run.options, argc, argv);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &stop, NULL);
	if (!open_all(&run)) {
		close_all(&run);
		return 1;
	}
	ok = produce(&run);
	ok &= close_all(&run);
	summary(&run);
	return ok && run.count.failed == 0 ? 0 : 1;
}
