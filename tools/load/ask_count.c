/*
 * ask_count.c - what came of the questions: counts, times, and --out.
 *
 *	call --> status --> results by reason --> counts, lines of --out
 *	     '-> time ----> a bucket of 1/64 of its power of two --> percentiles
 *
 * Runs in: load, mode `ask`.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask_count.h"
#include "ask_wire.h"

#define STEPS	 64 /* of a power of two: 1.6 % */
#define STATUSES 17 /* of gRPC */
#define REASONS	 3  /* of a result: accepted, failed, rejected */

struct ask_count {
	const struct ask_options *options;
	FILE *out;
	struct ask_result *results; /* of one answer, sorted by key */
	size_t n_results, cap;
	uint64_t requests, lost, garbled, statuses[STATUSES + 1]; /* the last: any other */
	uint64_t streams, reasons[REASONS + 1];			  /* the last: any other */
	uint64_t buckets[64 * STEPS], max_ns;
	bool told;
};

struct ask_count *ask_count_open(const struct ask_options *options)
{
	struct ask_count *count = calloc(1, sizeof(*count));

	if (!count)
		abort();
	count->options = options;
	count->cap = options->per_request > 65536 ? options->per_request : 65536;
	count->results = malloc(count->cap * sizeof(*count->results));
	if (!count->results)
		abort();
	if (options->out && !(count->out = fopen(options->out, "w"))) {
		fprintf(stderr, "tally-load: --out: %s: %s\n", options->out, strerror(errno));
		free(count->results);
		free(count);
		return NULL;
	}
	return count;
}

/* --- times ----------------------------------------------------------------------------------- */

static unsigned bucket_of(uint64_t ns)
{
	unsigned power;

	if (ns < STEPS)
		return (unsigned)ns;
	power = 63 - (unsigned)__builtin_clzll(ns);
	return (power - 5) * STEPS + (unsigned)(ns >> (power - 6)) % STEPS;
}

static double middle_of(unsigned bucket)
{
	unsigned power = bucket / STEPS + 5;

	if (bucket < STEPS)
		return bucket;
	return ((double)(STEPS + bucket % STEPS) + 0.5) * (double)(1ull << (power - 6));
}

static double percentile_us(const struct ask_count *count, double part)
{
	uint64_t seen = 0, wanted = (uint64_t)(part * (double)(count->requests - count->lost));

	for (unsigned i = 0; i < 64 * STEPS; i++) {
		seen += count->buckets[i];
		if (seen > wanted)
			return middle_of(i) / 1000;
	}
	return 0;
}

/* --- results --------------------------------------------------------------------------------- */

static int by_key(const void *x, const void *y)
{
	const struct ask_result *a = x, *b = y;

	return (a->key > b->key) - (a->key < b->key);
}

/* The result of a stream, and takes it away: a hash that was asked for twice has two. */
static const struct ask_result *take_result(struct ask_count *count, uint64_t hash)
{
	static struct ask_result taken;
	struct ask_result key = {hash, 0}, *found;

	found = bsearch(&key, count->results, count->n_results, sizeof(key), by_key);
	if (!found)
		return NULL;
	while (found > count->results && found[-1].key == hash)
		found--;
	while (found < count->results + count->n_results && found->key == hash &&
		found->value == UINT64_MAX)
		found++;
	if (found == count->results + count->n_results || found->key != hash)
		return NULL;
	taken = *found;
	found->value = UINT64_MAX;
	return &taken;
}

static void word_of(
	struct ask_count *count, const struct ask_call *call, uint64_t hash, char word[32])
{
	static const char *const words[REASONS] = {"accepted", "failed", "rejected"};
	const struct ask_result *result;

	if (call->status != 0) {
		snprintf(word, 32, call->status < 0 ? "lost" : "status-%d", call->status);
		return;
	}
	result = take_result(count, hash);
	if (count->options->method == ASK_RATES)
		snprintf(word, 32, "%" PRIu64, result ? result->value : 0);
	else if (result && (result->value == 0 || result->value >= REASONS))
		snprintf(word, 32, "reason-%" PRIu64, result->value);
	else
		snprintf(word, 32, "%s", words[result ? result->value : 0]);
}

static void write_lines(struct ask_count *count, const struct ask_question *q,
	const struct ask_call *call, const struct ask_times *times)
{
	char name[MODEL_NAME_SIZE], word[32];

	for (size_t i = 0; i < q->n; i++) {
		const struct ask_stream *s = &q->streams[i];
		const char *policy = ask_plan_policy(count->options, s, name);

		word_of(count, call, s->hash, word);
		fprintf(count->out,
			"%" PRId64 "\t%" PRId64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\n",
			times->sent_us, times->answered_us, *q->tenant ? q->tenant : "-", s->hash,
			s->size, *policy ? policy : "-", word);
	}
}

/* What was asked by itself, and is worth printing. */
static void print_answer(struct ask_count *count)
{
	static const char *const health[] = {
		"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
	const struct ask_result *r = count->results;

	if (count->options->method == ASK_HEALTH)
		puts(health[count->n_results && r->value < 4 ? r->value : 0]);
	for (size_t i = 0; count->options->method == ASK_PARTITIONS && i < count->n_results; i++)
		printf("%" PRIu64 "\t%" PRIu64 "\n", r[i].key, r[i].value);
}

static void read_answer(
	struct ask_count *count, const struct ask_question *q, const struct ask_call *call)
{
	size_t n, found = 0;

	if (!ask_wire_answer(count->options->method, call->reply, call->reply_len, count->results,
		    count->cap, &n) ||
		n > count->cap) {
		count->garbled++;
		return;
	}
	count->n_results = n;
	for (size_t i = 0; i < n && count->options->method == ASK_EXCEEDS; i++) {
		uint64_t reason = count->results[i].value;

		count->reasons[reason > 0 && reason < REASONS ? reason : REASONS]++;
		found++;
	}
	count->reasons[0] += q->n > found ? q->n - found : 0;
	qsort(count->results, n, sizeof(*count->results), by_key);
	if (count->options->method >= ASK_PARTITIONS)
		print_answer(count);
}

static void tell_once(struct ask_count *count, const struct ask_call *call)
{
	if (!count->told && call->status < 0)
		fprintf(stderr, "tally-load: a call was lost: %s\n", call->why);
	else if (!count->told)
		fprintf(stderr, "tally-load: a call failed: status %d: %s\n", call->status,
			call->why);
	count->told = true; /* the rest is in the summary */
}

void ask_count_call(struct ask_count *count, const struct ask_question *q,
	const struct ask_call *call, const struct ask_times *times)
{
	count->requests++;
	count->streams += q->n;
	count->n_results = 0;
	if (call->status < 0) {
		count->lost++;
	} else {
		count->statuses[call->status < STATUSES ? call->status : STATUSES]++;
		count->buckets[bucket_of(times->took_ns)]++;
		if (times->took_ns > count->max_ns)
			count->max_ns = times->took_ns;
	}
	if (call->status == 0)
		read_answer(count, q, call);
	else
		tell_once(count, call);
	if (count->out)
		write_lines(count, q, call, times);
}

static void print_summary(const struct ask_count *count, double seconds)
{
	uint64_t answered = count->statuses[0];

	printf("requests=%" PRIu64 " ok=%" PRIu64 " lost=%" PRIu64 " garbled=%" PRIu64
	       " streams=%" PRIu64 " accepted=%" PRIu64 " rejected=%" PRIu64 " failed=%" PRIu64
	       " other=%" PRIu64,
		count->requests, answered, count->lost, count->garbled, count->streams,
		count->reasons[0], count->reasons[2], count->reasons[1], count->reasons[REASONS]);
	for (int i = 1; i <= STATUSES; i++)
		if (count->statuses[i])
			printf(" status%d=%" PRIu64, i, count->statuses[i]);
	printf(" seconds=%.3f requests_per_s=%.0f streams_per_s=%.0f", seconds,
		(double)count->requests / seconds, (double)count->streams / seconds);
	printf(" p50_us=%.1f p99_us=%.1f p999_us=%.1f max_us=%.1f\n", percentile_us(count, 0.5),
		percentile_us(count, 0.99), percentile_us(count, 0.999),
		(double)count->max_ns / 1000);
}

bool ask_count_close(struct ask_count **countp, double seconds)
{
	struct ask_count *count = *countp;
	bool ok = count->statuses[0] == count->requests && count->garbled == 0;

	print_summary(count, seconds);
	if (count->out && (ferror(count->out) | fclose(count->out)) != 0) {
		fprintf(stderr, "tally-load: --out: %s: could not be written: %s\n",
			count->options->out, strerror(errno));
		ok = false;
	}
	free(count->results);
	free(count);
	*countp = NULL;
	return ok;
}
