/*
 * answer_ranked.c - tenants for people: looked for by name, in an order, with what their limit leaves.
 *
 *	/api/v1/tenants?sort=headroom&q=team&limit=100
 *
 * What it says is up to some seconds old (as_of_ms): see ranking.h.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "answer.h"

#include <stdlib.h>
#include <string.h>

static json_t *count_or_null(uint64_t count)
{
	return count == TALLY_UNLIMITED ? json_null() : answer_count(count);
}

static json_t *limit_json(const struct ranked *row)
{
	json_t *json = json_object();
	bool limited = row->share != TALLY_UNLIMITED;
	uint64_t left = row->share > row->counted ? row->share - row->counted : 0;

	if (!row->known) {
		json_decref(json);
		return json_null();
	}
	json_object_set_new(json, "policy", answer_text(row->policy));
	json_object_set_new(json, "limit", count_or_null(row->limit));
	json_object_set_new(json, "share", count_or_null(row->share));
	json_object_set_new(json, "streams", answer_count(row->counted));
	json_object_set_new(json, "left", limited ? answer_count(left) : json_null());
	json_object_set_new(json, "used", limited ? json_real(row->used) : json_null());
	json_object_set_new(json, "dry_run", json_boolean(row->dry_run));
	return json;
}

static json_t *row_json(const struct ranked *row)
{
	json_t *json = json_object();

	json_object_set_new(json, "tenant", answer_text(row->usage.tenant));
	json_object_set_new(json, "streams", answer_count(row->usage.streams));
	json_object_set_new(json, "bytes", answer_count(row->usage.bytes));
	json_object_set_new(json, "policies", json_integer(row->usage.policies));
	json_object_set_new(json, "rate", json_real(row->usage.bytes_per_sec));
	json_object_set_new(json, "nearest", limit_json(row));
	return json;
}

static void ranked_json(struct answer *answer, const struct ranking_ask *ask,
	const struct ranked *rows, size_t n, const struct ranking_facts *facts)
{
	json_t *json = json_object(), *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, row_json(&rows[i]));
	json_object_set_new(json, "tenants", list);
	json_object_set_new(json, "sort", json_string(ranking_sort_word(ask->sort)));
	json_object_set_new(json, "matched", answer_count(facts->matched));
	json_object_set_new(json, "looked_at", answer_count(facts->tenants));
	json_object_set_new(json, "all", json_boolean(facts->tenants < RANKING_TENANTS_MAX));
	json_object_set_new(json, "as_of_ms", json_integer(facts->as_of_ms));
	json_object_set_new(json, "basis", answer_basis(&facts->basis));
	answer_json(answer, 200, json);
}

/* false: the answer is an error already. */
static bool understood(
	const struct request_page *page, struct ranking_ask *ask, struct answer *answer)
{
	char why[REQUEST_WHY_SIZE];

	*ask = (struct ranking_ask){.query = page->query, .rows = page->limit};
	if (page->query != NULL && page->query[0] == '\0')
		ask->query = NULL;
	while (page->sort != NULL && ranking_sort_word(ask->sort) != NULL &&
		strcmp(ranking_sort_word(ask->sort), page->sort) != 0)
		ask->sort++;
	if (ranking_sort_word(ask->sort) == NULL)
		answer_error(answer, 400, "invalid",
			"sort must be headroom, streams, rate, bytes or name");
	else if (page->after != NULL)
		answer_error(answer, 400, "invalid",
			"after= is not for lists with sort= or q=: ask for more with limit=");
	else if (page->limit > RANKING_ROWS_MAX)
		answer_error(answer, 400, "invalid",
			"limit must be a whole number from 1 to %d in a list with sort= or q=",
			RANKING_ROWS_MAX);
	else if (ask->query != NULL && !request_name_ok(ask->query, "q (a part of a name)", why))
		answer_error(answer, 400, "invalid", "%s", why);
	else
		return true;
	return false;
}

int answer_ranked(struct question *question, const struct request_page *page, struct answer *answer)
{
	struct ranking *ranking = question->query->ranking;
	struct ranking_facts facts;
	struct ranking_ask ask;
	struct ranked *rows;
	size_t n;
	int err;

	if (!understood(page, &ask, answer))
		return 0;
	err = question_ranked(question);
	if (err != 0)
		return err;
	rows = calloc(ask.rows, sizeof(*rows));
	if (rows == NULL)
		return TALLY_ENOMEM;
	err = ranking_read(ranking, &ask, rows, &n, &facts);
	if (err == TALLY_ENOTREADY) {
		answer_not_ready(answer, &facts.basis);
		err = 0;
	} else if (err == 0) {
		question->seat->ranking = ranking;
		question->seat->ranking_id = facts.id;
		ranked_json(answer, &ask, rows, n, &facts);
	}
	free(rows);
	return err == RANKING_LEFT ? ANSWER_AGAIN : err;
}
