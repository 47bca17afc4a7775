/*
 * answer.c - what every answer is made of.
 *
 *	json_t --answer_json--> status, type, body
 *	TALLY_E* --answer_failure--> status, {"error": word, "reason": sentence}
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/check.h"
#include "shm/record.h"

void answer_clear(struct answer *answer)
{
	free(answer->body);
	memset(answer, 0, sizeof(*answer));
}

unsigned answer_status_at(unsigned index)
{
	static const unsigned status[ANSWER_STATUSES] = {
		200, 304, 400, 401, 403, 404, 405, 413, 415, 421, 500, 503};

	return index < ANSWER_STATUSES ? status[index] : 0;
}

unsigned answer_status_index(unsigned status)
{
	unsigned index = 0;

	while (index < ANSWER_STATUSES - 1 && answer_status_at(index) != status)
		index++;
	return index;
}

void answer_json(struct answer *answer, unsigned status, json_t *json)
{
	answer_clear(answer);
	answer->status = status;
	answer->type = "application/json";
	answer->body = json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
	must_get(answer->body != NULL); /* all text went through answer_text */
	answer->len = strlen(answer->body);
	json_decref(json);
}

void answer_error(struct answer *answer, unsigned status, const char *word, const char *fmt, ...)
{
	char reason[1024];
	json_t *json = json_object();
	va_list args;

	va_start(args, fmt);
	vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	json_object_set_new(json, "error", json_string(word));
	json_object_set_new(json, "reason", answer_text(reason));
	answer_json(answer, status, json);
}

/* clang-format off */
static const struct failure {
	int err;
	unsigned status;
	const char *word;
	const char *text; /* NULL = tally_error's */
} failures[] = {
	{ TALLY_ENOTFOUND,  503, "no_instance", "no Tally has run here yet: start tallyd" },
	{ TALLY_ESTALE,     503, "stale",       NULL },
	{ TALLY_ENOTREADY,  503, "not_ready",   NULL },
	{ TALLY_EBUSY,      503, "busy",        NULL },
	{ TALLY_ENOMEM,     503, "no_memory",   NULL },
	{ TALLY_EINVALID,   400, "invalid",     NULL },
	{ TALLY_EIO,        500, "io",          NULL },
	{ TALLY_ECORRUPT,   500, "corrupt",     NULL },
	{ TALLY_EFORMAT,    500, "format",      NULL },
	{ TALLY_EACCESS,    500, "access",      NULL },
	{ TALLY_ENAMESPACE, 500, "namespace",   NULL },
};
/* clang-format on */

void answer_failure(struct answer *answer, const struct query *query, int err)
{
	static const struct failure internal = {.status = 500, .word = "internal"};
	const struct failure *failure = &internal;

	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		if (failures[i].err == err)
			failure = &failures[i];
	answer_error(answer, failure->status, failure->word, "%s (run_dir %s)",
		failure->text != NULL ? failure->text : tally_error(err), query->run_dir);
}

void answer_not_ready(struct answer *answer, const struct tally_basis *basis)
{
	json_t *json = json_object();

	json_object_set_new(json, "error", json_string("not_ready"));
	json_object_set_new(json, "reason",
		json_string(basis->owned == 0
				    ? "this instance owns no partition: it can say nothing about "
				      "tenants"
				    : "no partition of this instance is ready; /ready says why"));
	json_object_set_new(json, "basis", answer_basis(basis));
	answer_json(answer, 503, json);
}

bool question_allowed(
	const struct question *question, unsigned needs, const char *tenant, struct answer *answer)
{
	struct access *access = question->query->access;
	const char *header = question->authorization;
	enum access_verdict verdict;

	if (access == NULL || needs == 0)
		return true;
	verdict = access_judge(access, header, header == NULL ? 0 : strlen(header), needs, tenant);
	if (verdict == ACCESS_GRANTED)
		return true;
	access_refused(access, ACCESS_HTTP, verdict, question->fd);
	if (verdict == ACCESS_OUT_OF_SCOPE)
		answer_error(answer, 403, "forbidden", "%s", access_words(verdict));
	else
		answer_error(answer, 401, "unauthenticated", "%s", access_words(verdict));
	return false;
}

int question_ranked(struct question *question)
{
	struct ranking *ranking = question->query->ranking;

	if (ranking == NULL)
		return 0;
	if (question->pass_no != NULL)
		return ranking_begin(ranking, question->pass_no) ? 0 : ANSWER_LATER;
	ranking_wait(ranking);
	return 0;
}

struct posted *question_posted(struct question *question, struct answer *answer)
{
	struct body *body = question->body;
	char why[POSTED_WHY_SIZE];
	int err = 0;

	if (body->state == BODY_TOO_LARGE)
		answer_error(answer, 413, "too_large",
			"the body has more than %u bytes: ask about fewer streams at a time",
			BODY_MAX);
	else if (body->state == BODY_NO_ROOM)
		answer_error(answer, 503, "busy",
			"too many bodies are coming in at the same time; ask again");
	else if (!body->parsed) {
		err = posted_parse(&body->posted, body->data, body->len, why);
		body->parsed = true;
		if (err == TALLY_EINVALID)
			answer_error(answer, 400, "invalid", "%s", why);
		else if (err != 0)
			answer_failure(answer, question->query, err);
	}
	return body->state == BODY_KEPT && err == 0 ? &body->posted : NULL;
}

json_t *answer_text(const char *text)
{
	size_t len = strlen(text);
	char *copy;
	json_t *json;

	if (record_text_ok(text, len))
		return json_stringn(text, len);
	copy = strdup(text);
	must_get(copy != NULL);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)copy[i] >= 0x80)
			copy[i] = '?';
	json = json_stringn(copy, len);
	free(copy);
	return json;
}

json_t *answer_count(uint64_t count)
{
	return json_integer(count > INT64_MAX ? INT64_MAX : (json_int_t)count);
}

json_t *answer_basis(const struct tally_basis *basis)
{
	json_t *json = json_object();

	json_object_set_new(json, "partitions", json_integer(basis->partitions));
	json_object_set_new(json, "owned", json_integer(basis->owned));
	json_object_set_new(json, "answered", json_integer(basis->answered));
	json_object_set_new(json, "partial", json_integer(basis->partial));
	if (basis->counted_to_ms > 0)
		json_object_set_new(json, "counted_to_ms", json_integer(basis->counted_to_ms));
	json_object_set_new(json, "complete", json_boolean(basis->complete));
	json_object_set_new(json, "stale", json_boolean(basis->stale));
	return json;
}

int answer_list_partitions(struct tally *tally, struct tally_partition **partitions, size_t *n)
{
	size_t cap = 64;
	int err;

	for (;;) {
		*partitions = calloc(cap, sizeof(**partitions));
		if (*partitions == NULL)
			return TALLY_ENOMEM;
		err = tally_partitions(tally, *partitions, cap, n);
		if (err == 0 && *n <= cap)
			return 0;
		free(*partitions);
		*partitions = NULL;
		if (err != 0)
			return err;
		cap = *n + 16; /* more may come in between */
	}
}
