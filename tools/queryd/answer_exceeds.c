/*
 * answer_exceeds.c - questions that write: may these streams come in, how fast are these keys.
 *
 *	POST /ingest-limits/exceeds-limits   Loki's shape: only what does not come in, with a reason
 *	POST /api/v1/exceeds-limits          every stream, in a word
 *	POST /api/v1/update-rates            every key, with its rate
 *
 *	body -> generations of the ready partitions -> query->ask -> still those generations? -> text
 *	                                               (once)              |        ^
 *	                                             no longer: unserved <-'--------'
 *
 * Who asks holds a thread of the HTTP server: all but one may, so that one is
 * always there for whoever only reads; others are told to come again (503 busy).
 *
 * What has been asked is asked once, however often the answer is built.  Between
 * the last look at the partitions and the send there is only the hand-over.
 *
 * Runs in: queryd, any thread.  Blocks in: query->ask, ASK_TIMEOUT_MS at most.
 */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "posted.h"

#include "shm/client_stand.h"
#include "shm/host.h"

#define ASK_TIMEOUT_MS 2000

/* The partitions that were ready before anything was asked. */
struct stood {
	struct tally *tally;
	uint32_t partitions;
	uint64_t *generation; /* by partition; 0: it was not ready */
};

static int stood_begin(struct stood *stood, struct tally *tally)
{
	uint64_t boot = host_boot_ns();
	int err;

	stood->tally = tally;
	err = client_stand_begin(tally, &stood->partitions);
	if (err != 0)
		return err;
	stood->generation = calloc(stood->partitions + 1, sizeof(*stood->generation));
	if (stood->generation == NULL)
		return TALLY_ENOMEM;
	for (uint32_t p = 0; p < stood->partitions; p++)
		stood->generation[p] = client_stand_generation(tally, p, boot);
	return 0;
}

/* Streams whose partition has left since: nothing that it said may be passed on.  How many. */
static size_t stood_unserve(const struct stood *stood, struct posted *posted)
{
	uint64_t boot = host_boot_ns();
	size_t left = 0;

	for (size_t i = 0; i < posted->n; i++) {
		struct ask_stream *stream = &posted->streams[i];
		uint32_t p;

		if (stood->partitions == 0 || stream->result == ASK_UNSERVED ||
			stream->result == ASK_FAILED)
			continue;
		p = (uint32_t)(stream->hash % stood->partitions);
		if (stood->generation[p] == 0 || /* not from a store of ours */
			client_stand_of(stood->tally, p, stood->generation[p], stood->partitions,
				boot) == STANDS_READY)
			continue;
		stream->result = ASK_UNSERVED;
		left++;
	}
	return left;
}

/* --- shapes ----------------------------------------------------------------------------------- */

static const char *const words[] = {
	[ASK_ACCEPTED] = "accepted",
	[ASK_REJECTED] = "rejected",
	[ASK_FAILED] = "failed",
	[ASK_UNSERVED] = "unserved",
};

/* As Loki's front-end numbers them; 0: there is no result for it. */
static unsigned reason_of(enum ask_result result)
{
	if (result == ASK_ACCEPTED)
		return 0;
	return result == ASK_REJECTED ? 2 : 1;
}

/* Numbers with all their digits: these are for programs that read 64 bits, as Loki's do. */
static void write_loki(FILE *out, const struct posted *posted)
{
	bool first = true;

	fputc('{', out);
	for (size_t i = 0; i < posted->n; i++) {
		unsigned reason = reason_of(posted->streams[i].result);

		if (reason == 0)
			continue;
		fprintf(out, "%s{\"streamHash\":%" PRIu64 ",\"reason\":%u}",
			first ? "\"results\":[" : ",", posted->streams[i].hash, reason);
		first = false;
	}
	fputs(first ? "}" : "]}", out);
}

static void write_tenant(FILE *out, const char *tenant)
{
	json_t *text = answer_text(tenant);
	char *json = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT);

	fputs(json, out);
	free(json);
	json_decref(text);
}

static void write_own(FILE *out, const struct posted *posted, bool rates)
{
	size_t counts[sizeof(words) / sizeof(words[0])] = {0};

	fputs("{\"tenant\":", out);
	write_tenant(out, posted->tenant);
	fputs(",\"results\":[", out);
	for (size_t i = 0; i < posted->n; i++) {
		const struct ask_stream *stream = &posted->streams[i];

		counts[stream->result]++;
		fprintf(out, "%s{\"streamHash\":\"%" PRIu64 "\",\"result\":\"%s\"",
			i > 0 ? "," : "", stream->hash, words[stream->result]);
		if (rates && stream->result == ASK_ACCEPTED)
			fprintf(out, ",\"rate\":%" PRIu64,
				stream->rate > INT64_MAX ? (uint64_t)INT64_MAX : stream->rate);
		fputc('}', out);
	}
	fputc(']', out);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		fprintf(out, ",\"%s\":%zu", words[i], counts[i]);
	fputc('}', out);
}

enum shape { SHAPE_LOKI, SHAPE_OWN, SHAPE_RATES };

static int write_answer(struct answer *answer, const struct posted *posted, enum shape shape)
{
	FILE *out;

	answer_clear(answer);
	out = open_memstream(&answer->body, &answer->len);
	if (out == NULL)
		return TALLY_ENOMEM;
	if (shape == SHAPE_LOKI)
		write_loki(out, posted);
	else
		write_own(out, posted, shape == SHAPE_RATES);
	answer->status = 200;
	answer->type = "application/json";
	return fclose(out) != 0 ? TALLY_ENOMEM : 0;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int ask_workers(struct question *question, struct posted *posted, enum shape shape)
{
	struct query *query = question->query;
	struct ask ask = {
		.kind = shape == SHAPE_RATES ? ASK_RATES : ASK_EXCEEDS,
		.tenant = posted->tenant,
		.streams = posted->streams,
		.n = posted->n,
		.deadline_ns = host_boot_ns() + ASK_TIMEOUT_MS * UINT64_C(1000000),
	};

	for (size_t i = 0; i < posted->n; i++)
		posted->streams[i].result = ASK_FAILED;
	return posted->n == 0 ? 0 : query->ask(query->asker, &ask, question->seat->table);
}

/* false: as many wait as may. */
static bool asking_begin(struct query *query)
{
	unsigned most = query->threads > 1 ? query->threads - 1 : 1;

	if (atomic_fetch_add(&query->asking, 1) < most)
		return true;
	atomic_fetch_sub(&query->asking, 1);
	return false;
}

static void asking_end(struct query *query)
{
	atomic_fetch_sub(&query->asking, 1);
}

static int answer_asked(struct question *question, struct answer *answer, enum shape shape)
{
	struct posted *posted = question_posted(question, answer);
	struct stood stood = {0};
	int err;

	if (posted == NULL)
		return 0;
	if (question->query->ask == NULL) {
		answer_error(answer, 503, "no_asker",
			"this query process takes no questions that write");
		return 0;
	}
	if (!asking_begin(question->query)) {
		answer_error(answer, 503, "busy",
			"too many questions wait for their answer: ask again, or over gRPC");
		return 0;
	}
	err = stood_begin(&stood, question->seat->table);
	if (err == 0)
		err = ask_workers(question, posted, shape);
	asking_end(question->query);
	if (err == 0)
		stood_unserve(&stood, posted);
	do {
		if (err == 0)
			err = write_answer(answer, posted, shape);
	} while (err == 0 && stood_unserve(&stood, posted) > 0);
	free(stood.generation);
	return err;
}

int answer_exceeds_loki(struct question *question, struct answer *answer)
{
	return answer_asked(question, answer, SHAPE_LOKI);
}

int answer_exceeds(struct question *question, struct answer *answer)
{
	return answer_asked(question, answer, SHAPE_OWN);
}

int answer_update_rates(struct question *question, struct answer *answer)
{
	return answer_asked(question, answer, SHAPE_RATES);
}
