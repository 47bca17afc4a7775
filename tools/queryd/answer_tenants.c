/*
 * answer_tenants.c - what tenants use, from the stores.
 *
 *	/api/v1/tenants                    a page of them, by name (sort=, q=: answer_ranked.c)
 *	/api/v1/tenants/{tenant}           by policy and by minute
 *	/api/v1/tenants/{tenant}/streams   a page of active streams, or those seen last
 *	/ingest-limits/usage/{tenant}      the shape that Loki's service answers in
 *
 * Every answer says on which partitions it stands (basis).  Nothing at all
 * ready is 503, some of it missing is "complete": false, and "unknown tenant"
 * is said only when every owned partition was asked.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS_LOOKED_AT 20000 /* for sort=newest */

/* One tenant, read in two calls to stores. */
struct tenant_view {
	const char *name;
	struct tally_instance instance;
	struct tally_policy *policies;
	size_t n_policies;
	struct tally_minute *minutes;
	size_t n_minutes;
	struct tally_basis basis;
	bool known;
	uint64_t streams, bytes;
	double rate; /* bytes per second over the rate window */
	int64_t now_ms;
};

static void view_free(struct tenant_view *view)
{
	free(view->policies);
	free(view->minutes);
}

static int read_policies(struct question *question, struct tenant_view *view)
{
	struct tally *tally = seat_store(question->seat);
	size_t cap = 64;
	int err;

	for (;;) {
		free(view->policies);
		view->policies = calloc(cap, sizeof(*view->policies));
		if (view->policies == NULL)
			return TALLY_ENOMEM;
		err = tally_policies(
			tally, view->name, view->policies, cap, &view->n_policies, &view->basis);
		if (err != 0 || view->n_policies <= cap)
			return err;
		cap = view->n_policies + 16; /* more may come in between */
	}
}

static int read_minutes(
	struct question *question, struct tenant_view *view, struct tally_basis *basis)
{
	struct tally *tally = seat_store(question->seat);
	size_t cap = (size_t)view->instance.window_minutes + 1;
	int err;

	view->minutes = calloc(cap, sizeof(*view->minutes));
	if (view->minutes == NULL)
		return TALLY_ENOMEM;
	err = tally_histogram(tally, view->name, view->minutes, cap, &view->n_minutes, basis);
	view->now_ms = tally_now_ms(tally);
	/* Another supervisor with another window has come in between. */
	return err == TALLY_EINVALID ? ANSWER_AGAIN : err;
}

/* Bytes per second over the last `rate_minutes`, the present one as far as it has gone. */
static double rate_of(const struct tenant_view *view)
{
	uint32_t minutes = view->instance.rate_minutes;
	uint64_t bytes = 0;
	int64_t since_ms, ms;

	if (minutes == 0 || view->n_minutes < minutes)
		return 0;
	for (size_t i = view->n_minutes - minutes; i < view->n_minutes; i++)
		bytes += view->minutes[i].bytes;
	since_ms = view->minutes[view->n_minutes - minutes].minute * 60000;
	ms = view->now_ms - since_ms;
	return (double)bytes / (ms > 1000 ? (double)ms / 1000 : 1);
}

static void add_up(struct tenant_view *view)
{
	for (size_t i = 0; i < view->n_policies; i++) {
		view->streams += view->policies[i].streams;
		view->bytes += view->policies[i].bytes;
	}
	view->rate = rate_of(view);
}

static bool same_basis(const struct tally_basis *a, const struct tally_basis *b)
{
	return a->partitions == b->partitions && a->owned == b->owned &&
	       a->answered == b->answered && a->partial == b->partial;
}

/* Both calls must have found the same partitions, else the answer would be half of each. */
static int view_read(struct question *question, struct tenant_view *view)
{
	struct tally_basis basis = {0};
	int err, minutes_err;

	err = tally_instance(question->seat->table, &view->instance);
	if (err != 0)
		return err;
	err = read_policies(question, view);
	if (err != 0 && err != TALLY_ENOTFOUND)
		return err;
	minutes_err = read_minutes(question, view, &basis);
	if (minutes_err != 0 && minutes_err != TALLY_ENOTFOUND)
		return minutes_err;
	if (!same_basis(&view->basis, &basis))
		return ANSWER_AGAIN;
	if (err != minutes_err)
		return ANSWER_AGAIN; /* it was heard of for the first time in between */
	view->known = err == 0;
	if (view->known)
		add_up(view);
	return 0;
}

/* An error of a call that adds up partitions, or an instance that owns none. */
static int no_answer(struct answer *answer, int err, const struct tally_basis *basis)
{
	if (err != TALLY_ENOTREADY && err != 0)
		return err;
	answer_not_ready(answer, basis);
	return 0;
}

/* The tenant that is asked about; NULL: the answer is an error already. */
static const char *tenant_of(struct question *question, unsigned segment, struct answer *answer)
{
	const char *name = question->request->segment[segment];
	char why[REQUEST_WHY_SIZE];

	if (request_name_ok(name, "the tenant in the path", why))
		return name;
	answer_error(answer, 400, "invalid", "%s", why);
	return NULL;
}

/* Nobody who answered knows the tenant.  Others might: then that is no 404. */
static void unknown_tenant(struct answer *answer, const char *name, const struct tally_basis *basis)
{
	json_t *json = json_object();
	const char *reason = "no partition of this instance has heard of this tenant";

	if (!basis->complete)
		reason = basis->partial > 0
				 ? "no partition has heard of this tenant so far, but some are "
				   "still replaying; /ready says which"
				 : "no partition that could be asked has heard of this tenant, "
				   "but not all of them could be asked; /ready says why";
	json_object_set_new(
		json, "error", json_string(basis->complete ? "unknown_tenant" : "not_ready"));
	json_object_set_new(json, "reason", json_string(reason));
	json_object_set_new(json, "tenant", answer_text(name));
	json_object_set_new(json, "basis", answer_basis(basis));
	answer_json(answer, basis->complete ? 404 : 503, json);
}

static json_t *policies_json(const struct tenant_view *view)
{
	json_t *list = json_array();

	for (size_t i = 0; i < view->n_policies; i++) {
		json_t *one = json_object();

		json_object_set_new(one, "policy", answer_text(view->policies[i].policy));
		json_object_set_new(one, "streams", answer_count(view->policies[i].streams));
		json_object_set_new(one, "bytes", answer_count(view->policies[i].bytes));
		json_array_append_new(list, one);
	}
	return list;
}

/* Columns, since a row of names for each of up to 10081 minutes would be mostly names. */
static void histogram_json(const struct tenant_view *view, json_t *json)
{
	json_t *histogram = json_object(), *streams = json_array(), *bytes = json_array();

	for (size_t i = 0; i < view->n_minutes; i++) {
		json_array_append_new(streams, answer_count(view->minutes[i].streams));
		json_array_append_new(bytes, answer_count(view->minutes[i].bytes));
	}
	json_object_set_new(histogram, "first_minute",
		json_integer(view->n_minutes > 0 ? view->minutes[0].minute : 0));
	json_object_set_new(histogram, "streams", streams);
	json_object_set_new(histogram, "bytes", bytes);
	json_object_set_new(json, "histogram", histogram);
}

int answer_tenant(struct question *question, struct answer *answer)
{
	struct tenant_view view = {.name = tenant_of(question, 3, answer)};
	json_t *json;
	int err;

	if (view.name == NULL)
		return 0;
	err = view_read(question, &view);
	if (err != 0 && err != ANSWER_AGAIN)
		err = no_answer(answer, err, &view.basis);
	else if (err == 0 && !view.known)
		unknown_tenant(answer, view.name, &view.basis);
	else if (err == 0) {
		json = json_object();
		json_object_set_new(json, "tenant", answer_text(view.name));
		json_object_set_new(json, "streams", answer_count(view.streams));
		json_object_set_new(json, "bytes", answer_count(view.bytes));
		json_object_set_new(json, "rate", json_real(view.rate));
		json_object_set_new(
			json, "window_minutes", json_integer(view.instance.window_minutes));
		json_object_set_new(json, "rate_minutes", json_integer(view.instance.rate_minutes));
		json_object_set_new(json, "policies", policies_json(&view));
		histogram_json(&view, json);
		json_object_set_new(json, "as_of_ms", json_integer(view.now_ms));
		json_object_set_new(json, "basis", answer_basis(&view.basis));
		answer_json(answer, 200, json);
	}
	view_free(&view);
	return err;
}

static void usage_json(const struct tenant_view *view, struct answer *answer)
{
	json_t *json = json_object(), *policies = json_object(), *partitions = json_object();

	for (size_t i = 0; i < view->n_policies; i++)
		json_object_set_new(policies, view->policies[i].policy,
			answer_count(view->policies[i].streams));
	json_object_set_new(json, "tenant", answer_text(view->name));
	json_object_set_new(json, "streams_total", answer_count(view->streams));
	json_object_set_new(json, "streams_by_policy", policies);
	json_object_set_new(json, "rate", json_real(view->rate));
	/* Loki's answer ends here. */
	json_object_set_new(json, "complete", json_boolean(view->basis.complete));
	json_object_set_new(partitions, "answered", json_integer(view->basis.answered));
	json_object_set_new(partitions, "partial", json_integer(view->basis.partial));
	json_object_set_new(partitions, "owned", json_integer(view->basis.owned));
	json_object_set_new(json, "partitions", partitions);
	answer_json(answer, 200, json);
}

int answer_usage(struct question *question, struct answer *answer)
{
	struct tenant_view view = {.name = tenant_of(question, 2, answer)};
	int err;

	if (view.name == NULL)
		return 0;
	err = view_read(question, &view);
	if (err != 0 && err != ANSWER_AGAIN)
		err = no_answer(answer, err, &view.basis);
	else if (err == 0)
		usage_json(&view, answer);
	view_free(&view);
	return err;
}

/* The parameters of a list; false: the answer is an error already. */
static bool page_of(struct question *question, struct request_page *page, struct answer *answer)
{
	char why[REQUEST_WHY_SIZE];

	if (request_search(question->request, page, why) == 0)
		return true;
	answer_error(answer, 400, "invalid", "%s", why);
	return false;
}

static void tenants_json(struct answer *answer, const struct tally_usage *tenants, size_t n,
	size_t limit, const struct tally_basis *basis)
{
	json_t *json = json_object(), *list = json_array();

	for (size_t i = 0; i < n && i < limit; i++) {
		json_t *one = json_object();

		json_object_set_new(one, "tenant", answer_text(tenants[i].tenant));
		json_object_set_new(one, "streams", answer_count(tenants[i].streams));
		json_object_set_new(one, "bytes", answer_count(tenants[i].bytes));
		json_object_set_new(one, "policies", json_integer(tenants[i].policies));
		json_object_set_new(one, "rate", json_real(tenants[i].bytes_per_sec));
		json_array_append_new(list, one);
	}
	json_object_set_new(json, "tenants", list);
	json_object_set_new(
		json, "next", n > limit ? answer_text(tenants[limit - 1].tenant) : json_null());
	json_object_set_new(json, "basis", answer_basis(basis));
	answer_json(answer, 200, json);
}

int answer_tenants(struct question *question, struct answer *answer)
{
	struct tally_basis basis = {0};
	struct tally_usage *tenants;
	char why[REQUEST_WHY_SIZE];
	struct request_page page;
	size_t n;
	int err;

	if (!page_of(question, &page, answer))
		return 0;
	if (page.sort != NULL || page.query != NULL)
		return answer_ranked(question, &page, answer);
	if (page.after != NULL && !request_name_ok(page.after, "after (a tenant's name)", why)) {
		answer_error(answer, 400, "invalid", "%s", why);
		return 0;
	}
	tenants = calloc(page.limit + 1, sizeof(*tenants)); /* one more: is there a next page? */
	if (tenants == NULL)
		return TALLY_ENOMEM;
	err = tally_tenants(
		seat_store(question->seat), page.after, tenants, page.limit + 1, &n, &basis);
	if (err != 0)
		err = no_answer(answer, err, &basis);
	else
		tenants_json(answer, tenants, n, page.limit, &basis);
	free(tenants);
	return err;
}

static json_t *stream_json(const struct tally_stream *stream)
{
	json_t *one = json_object();
	char hash[24];

	snprintf(hash, sizeof(hash), "%" PRIu64, stream->hash);
	json_object_set_new(one, "hash", json_string(hash)); /* JSON numbers have 53 bits */
	json_object_set_new(one, "partition", json_integer(stream->partition));
	json_object_set_new(one, "policy", answer_text(stream->policy));
	json_object_set_new(one, "last_seen_ms", json_integer(stream->last_seen_ms));
	json_object_set_new(one, "last_produced_ms",
		stream->last_produced_ms == 0 ? json_null()
					      : json_integer(stream->last_produced_ms));
	json_object_set_new(one, "unsent_bytes", answer_count(stream->unsent_bytes));
	json_object_set_new(one, "rate", json_real(stream->bytes_per_sec));
	return one;
}

static void streams_json(struct answer *answer, const char *tenant,
	const struct tally_stream *streams, size_t n, const struct tally_cursor *cursor,
	const struct tally_basis *basis)
{
	json_t *json = json_object(), *list = json_array();
	char next[REQUEST_CURSOR_SIZE];

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, stream_json(&streams[i]));
	request_cursor_text(cursor, next);
	json_object_set_new(json, "tenant", answer_text(tenant));
	json_object_set_new(json, "streams", list);
	json_object_set_new(json, "next", cursor->done ? json_null() : json_string(next));
	json_object_set_new(json, "basis", answer_basis(basis));
	answer_json(answer, 200, json);
}

static int read_streams(struct question *question, const char *tenant, struct tally_cursor *cursor,
	unsigned limit, struct answer *answer)
{
	struct tally_stream *streams = calloc(limit, sizeof(*streams));
	struct tally_basis basis = {0};
	size_t n;
	int err;

	if (streams == NULL)
		return TALLY_ENOMEM;
	err = tally_streams(seat_store(question->seat), tenant, cursor, streams, limit, &n, &basis);
	if (err == TALLY_ENOTFOUND) {
		unknown_tenant(answer, tenant, &basis);
		err = 0;
	} else if (err != 0) {
		err = no_answer(answer, err, &basis);
	} else {
		streams_json(answer, tenant, streams, n, cursor, &basis);
	}
	free(streams);
	return err;
}

static int seen_later(const void *a, const void *b)
{
	const struct tally_stream *x = a, *y = b;

	if (x->last_seen_ms != y->last_seen_ms)
		return x->last_seen_ms > y->last_seen_ms ? -1 : 1;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/*
 * Those seen last, of the first STREAMS_LOOKED_AT by partition and hash: there is no order by
 * time, and a tenant may have millions.  "all" says whether that was all of them.
 */
static int newest_streams(struct question *question, const char *tenant,
	const struct request_page *page, struct answer *answer)
{
	struct tally_stream *streams = calloc(STREAMS_LOOKED_AT, sizeof(*streams));
	struct tally_cursor cursor = {0};
	struct tally_basis basis = {0};
	json_t *json, *list;
	size_t n;
	int err;

	if (streams == NULL)
		return TALLY_ENOMEM;
	err = tally_streams(seat_store(question->seat), tenant, &cursor, streams, STREAMS_LOOKED_AT,
		&n, &basis);
	if (err == 0) {
		qsort(streams, n, sizeof(*streams), seen_later);
		list = json_array();
		for (size_t i = 0; i < n && i < page->limit; i++)
			json_array_append_new(list, stream_json(&streams[i]));
		json = json_object();
		json_object_set_new(json, "tenant", answer_text(tenant));
		json_object_set_new(json, "streams", list);
		json_object_set_new(json, "looked_at", answer_count(n));
		json_object_set_new(json, "all", json_boolean(cursor.done));
		json_object_set_new(json, "basis", answer_basis(&basis));
		answer_json(answer, 200, json);
	} else if (err == TALLY_ENOTFOUND) {
		unknown_tenant(answer, tenant, &basis);
		err = 0;
	} else {
		err = no_answer(answer, err, &basis);
	}
	free(streams);
	return err;
}

/* false: the answer is an error already. */
static bool streams_in_order(const struct request_page *page, bool *newest, struct answer *answer)
{
	*newest = page->sort != NULL && strcmp(page->sort, "newest") == 0;
	if (page->query != NULL)
		answer_error(answer, 400, "invalid", "streams have no names: q= is for tenants");
	else if (page->sort != NULL && !*newest)
		answer_error(answer, 400, "invalid", "sort must be newest, or not be given");
	else if (*newest && page->after != NULL)
		answer_error(answer, 400, "invalid",
			"after= is not for sort=newest: ask for more with limit=");
	else
		return true;
	return false;
}

int answer_streams(struct question *question, struct answer *answer)
{
	const char *tenant = tenant_of(question, 3, answer);
	struct tally_cursor cursor = {0};
	struct request_page page;
	bool newest;

	if (tenant == NULL || !page_of(question, &page, answer) ||
		!streams_in_order(&page, &newest, answer))
		return 0;
	if (newest)
		return newest_streams(question, tenant, &page, answer);
	if (page.after != NULL && !request_cursor_parse(page.after, &cursor)) {
		answer_error(answer, 400, "invalid",
			"after is not a cursor: give what \"next\" of the page before said");
		return 0;
	}
	return read_streams(question, tenant, &cursor, page.limit, answer);
}
