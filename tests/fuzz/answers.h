/*
 * answers.h - what libtally says, so that it can be compared with what it said before.
 *
 *	answers_take    each question: who has answered, and the answer without what time changes
 *	answers_judge   the same | an error, or a partition less: refused | something else
 */
#ifndef TALLY_TESTS_FUZZ_ANSWERS_H
#define TALLY_TESTS_FUZZ_ANSWERS_H

#include "fuzz.h"

#include "shm/tally.h"
#include "shm/window.h"

#define ANSWERS_MAX 64

struct answer {
	int err; /* no answer */
	uint32_t answered;
	char *text;
};

struct answers {
	struct answer list[ANSWERS_MAX];
	size_t n;
};

enum answers_verdict { ANSWERS_SAME, ANSWERS_REFUSED, ANSWERS_OTHER };

/* --- taking them ------------------------------------------------------------------------------- */

static struct answer *answers_add(struct answers *answers, int err, uint32_t answered)
{
	struct answer *answer = &answers->list[answers->n++];

	hold(answers->n <= ANSWERS_MAX);
	/* That nobody knows it is an answer. */
	*answer = (struct answer){
		.err = err == TALLY_ENOTFOUND ? 0 : err, .answered = answered, .text = NULL};
	return answer;
}

static void take_tenants(struct answers *answers, struct tally *tally)
{
	static struct tally_usage list[16];
	struct tally_basis basis = {0};
	size_t n = 0, len;
	int err = tally_tenants(tally, NULL, list, 16, &n, &basis);
	struct answer *answer = answers_add(answers, err, basis.answered);
	FILE *out = open_memstream(&answer->text, &len);

	for (size_t i = 0; err == 0 && i < n; i++)
		fprintf(out, "%s %lu %lu %u\n", list[i].tenant, (unsigned long)list[i].streams,
			(unsigned long)list[i].bytes, list[i].policies);
	fclose(out);
}

static void take_tenant(struct answers *answers, struct tally *tally, const char *tenant)
{
	struct tally_usage usage = {0};
	int err = tally_tenant(tally, tenant, &usage);
	struct answer *answer = answers_add(answers, err, usage.basis.answered);

	hold(asprintf(&answer->text, "%s %lu %lu %u", tenant, (unsigned long)usage.streams,
		     (unsigned long)usage.bytes, usage.policies) > 0);
}

static void take_policies_of(struct answers *answers, struct tally *tally, const char *tenant)
{
	static struct tally_policy list[8];
	struct tally_basis basis = {0};
	size_t n = 0, len;
	int err = tally_policies(tally, tenant, list, 8, &n, &basis);
	struct answer *answer = answers_add(answers, err, basis.answered);
	FILE *out = open_memstream(&answer->text, &len);

	for (size_t i = 0; err == 0 && i < n && i < 8; i++)
		fprintf(out, "%s/%s %lu %lu\n", tenant, list[i].policy,
			(unsigned long)list[i].streams, (unsigned long)list[i].bytes);
	fclose(out);
}

/* By minute: what is in none of them counts as nothing. */
static void take_histogram(struct answers *answers, struct tally *tally, const char *tenant)
{
	static struct tally_minute list[WINDOW_MINUTES_MAX + 1];
	struct tally_basis basis = {0};
	size_t n = 0, len;
	int err = tally_histogram(tally, tenant, list, WINDOW_MINUTES_MAX + 1, &n, &basis);
	struct answer *answer = answers_add(answers, err, basis.answered);
	FILE *out = open_memstream(&answer->text, &len);

	for (size_t i = 0; err == 0 && i < n; i++)
		if (list[i].streams || list[i].bytes)
			fprintf(out, "%ld %lu %lu\n", (long)list[i].minute,
				(unsigned long)list[i].streams, (unsigned long)list[i].bytes);
	fclose(out);
}

static void take_streams(struct answers *answers, struct tally *tally, const char *tenant)
{
	static struct tally_stream list[512];
	struct tally_cursor cursor = {0};
	struct tally_basis basis = {0};
	size_t n = 0, len;
	int err = tally_streams(tally, tenant, &cursor, list, 512, &n, &basis);
	struct answer *answer = answers_add(answers, err, basis.answered);
	FILE *out = open_memstream(&answer->text, &len);

	for (size_t i = 0; err == 0 && i < n; i++)
		fprintf(out, "%016lx %ld %ld %lu %s\n", (unsigned long)list[i].hash,
			(long)list[i].last_seen_ms, (long)list[i].last_produced_ms,
			(unsigned long)list[i].unsent_bytes, list[i].policy);
	fclose(out);
}

/* Known ones, and some between them. */
static void take_lookups(struct answers *answers, struct tally *tally, const char *tenant)
{
	for (uint64_t i = 0; i < 16; i++) {
		struct tally_lookup ask = {
			.hash = (i / 2 * 40 + 1) * 4 * UINT64_C(0x9e3779b97f4a7c) + i % 2 * 4};
		int err = tally_lookup(tally, tenant, &ask, 1);
		struct answer *answer = answers_add(answers, err ? err : ask.result, 0);

		hold(asprintf(&answer->text, "%016lx %d %d %ld", (unsigned long)ask.hash,
			     ask.result, ask.active, (long)ask.last_seen_ms) > 0);
	}
}

FUZZ_UNUSED static void answers_take(struct answers *answers, struct tally *tally)
{
	static const char *const tenants[] = {"t", "b", "nobody"};

	answers->n = 0;
	take_tenants(answers, tally);
	for (size_t i = 0; i < 3; i++) {
		take_tenant(answers, tally, tenants[i]);
		take_policies_of(answers, tally, tenants[i]);
		take_histogram(answers, tally, tenants[i]);
		take_streams(answers, tally, tenants[i]);
	}
	take_lookups(answers, tally, "t");
	take_lookups(answers, tally, "b");
}

/* --- judging them ------------------------------------------------------------------------------ */

FUZZ_UNUSED static enum answers_verdict answers_judge(
	const struct answers *answers, const struct answers *good)
{
	enum answers_verdict verdict = ANSWERS_SAME;

	hold(answers->n == good->n);
	for (size_t i = 0; i < answers->n; i++) {
		const struct answer *now = &answers->list[i], *before = &good->list[i];

		if (now->err || now->answered < before->answered) {
			verdict = ANSWERS_REFUSED;
		} else if (strcmp(now->text, before->text) != 0) {
			fprintf(stderr, "was: %.300s\nis:  %.300s\n", before->text, now->text);
			return ANSWERS_OTHER;
		}
	}
	return verdict;
}

#endif
