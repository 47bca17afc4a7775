/*
 * answer_limits.c - limits of tenants, from the map alone: nothing is asked or changed.
 *
 *	/api/v1/tenants/{tenant}/limits   buckets: limit, share, active streams, headroom
 *	POST /api/v1/check                known | new | full, for each stream
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "posted.h"

static json_t *count_or_null(uint64_t count)
{
	return count == TALLY_UNLIMITED ? json_null() : answer_count(count);
}

static json_t *limits_json(const struct tally_tenant_limits *limits)
{
	json_t *json = json_object();
	char version[24];

	snprintf(version, sizeof(version), "%" PRIu64, limits->version);
	json_object_set_new(json, "listed", json_boolean(limits->listed));
	json_object_set_new(json, "is_default", json_boolean(limits->is_default));
	json_object_set_new(json, "dry_run", json_boolean(limits->dry_run));
	json_object_set_new(
		json, "scope", json_string(limits->by_partition ? "partition" : "instance"));
	json_object_set_new(json, "version", json_string(version));
	return json;
}

static void buckets_json(struct answer *answer, const char *tenant,
	const struct tally_tenant_limits *limits, const struct tally_bucket *buckets, size_t n)
{
	json_t *json = json_object(), *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *one = json_object();

		json_object_set_new(one, "policy", answer_text(buckets[i].policy));
		json_object_set_new(one, "limit", count_or_null(buckets[i].limit));
		json_object_set_new(one, "share", count_or_null(buckets[i].share));
		json_object_set_new(one, "streams", answer_count(buckets[i].streams));
		json_object_set_new(one, "headroom", count_or_null(buckets[i].headroom));
		json_array_append_new(list, one);
	}
	json_object_set_new(json, "tenant", answer_text(tenant));
	json_object_set_new(json, "limits", limits_json(limits));
	json_object_set_new(json, "buckets", list);
	json_object_set_new(json, "basis", answer_basis(&limits->basis));
	answer_json(answer, 200, json);
}

static int failed(struct answer *answer, int err, const struct tally_basis *basis)
{
	if (err != TALLY_ENOTREADY)
		return err;
	answer_not_ready(answer, basis);
	return 0;
}

int answer_limits(struct question *question, struct answer *answer)
{
	const char *tenant = question->request->segment[3];
	struct tally *tally = seat_store(question->seat);
	struct tally_tenant_limits limits;
	struct tally_bucket *buckets = NULL;
	char why[REQUEST_WHY_SIZE];
	size_t cap = 16, n = 0;
	int err;

	if (!request_name_ok(tenant, "the tenant in the path", why)) {
		answer_error(answer, 400, "invalid", "%s", why);
		return 0;
	}
	do {
		free(buckets);
		cap = n > cap ? n : cap;
		buckets = calloc(cap, sizeof(*buckets));
		if (buckets == NULL)
			return TALLY_ENOMEM;
		err = tally_buckets(tally, tenant, -1, &limits, buckets, cap, &n);
	} while (err == 0 && n > cap);
	if (err != 0)
		err = failed(answer, err, &limits.basis);
	else
		buckets_json(answer, tenant, &limits, buckets, n);
	free(buckets);
	return err;
}

/* --- check ------------------------------------------------------------------------------------ */

static const char *check_word(const struct tally_check *check)
{
	static const char *const words[] = {"known", "new", "full"};

	if (check->result == 0)
		return words[check->verdict];
	return check->result == TALLY_ENOTREADY ? "not_ready" : "unreadable";
}

static void check_json(struct answer *answer, const char *tenant,
	const struct tally_tenant_limits *limits, const struct tally_check *checks, size_t n)
{
	json_t *json = json_object(), *list = json_array();
	char hash[24];

	for (size_t i = 0; i < n; i++) {
		json_t *one = json_object();

		snprintf(hash, sizeof(hash), "%" PRIu64, checks[i].hash);
		json_object_set_new(one, "streamHash", json_string(hash));
		json_object_set_new(one, "partition", json_integer(checks[i].partition));
		json_object_set_new(one, "result", json_string(check_word(&checks[i])));
		json_array_append_new(list, one);
	}
	json_object_set_new(json, "tenant", answer_text(tenant));
	json_object_set_new(json, "results", list);
	json_object_set_new(json, "limits", limits_json(limits));
	json_object_set_new(json, "basis", answer_basis(&limits->basis));
	answer_json(answer, 200, json);
}

int answer_check(struct question *question, struct answer *answer)
{
	struct tally_tenant_limits limits;
	const struct posted *posted = question_posted(question, answer);
	struct tally_check *checks;
	int err;

	/* Whether it is for this tenant is known only now. */
	if (posted == NULL || !question_allowed(question, TOKEN_ASK | TOKEN_READ | TOKEN_TENANT,
				      posted->tenant, answer))
		return 0;
	checks = calloc(posted->n + 1, sizeof(*checks));
	if (checks == NULL)
		return TALLY_ENOMEM;
	for (size_t i = 0; i < posted->n; i++)
		checks[i] = (struct tally_check){
			.hash = posted->streams[i].hash, .policy = posted->streams[i].policy};
	err = tally_check(seat_store(question->seat), posted->tenant, checks, posted->n, &limits);
	if (err != 0)
		err = failed(answer, err, &limits.basis);
	else
		check_json(answer, posted->tenant, &limits, checks, posted->n);
	free(checks);
	return err;
}
