/*
 * explain.c - tallyctl explain TENANT: which limit, from where, how much of it is ours, what is
 * used where, and what happens to the next new stream.
 *
 *	limits file + table --> limit, share and its arithmetic
 *	stores              --> streams by bucket, policy, partition
 *	                    --> one sentence for each bucket
 *
 * While tallyd does not run it explains what was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define SENTENCE_SIZE 256
#define POLICIES_MAX  1024

struct part {
	struct tally_partition of;
	bool counted; /* its store could be read */
	uint64_t streams;
	bool full; /* with limit_scope partition: the default bucket has no room in it */
};

struct answer {
	const char *tenant;
	struct tally *tally;  /* whose numbers these are */
	struct tally *strict; /* takes nothing that is not ready; NULL: tallyd is gone */
	struct tally_tenant_limits limits;
	struct tally_bucket *buckets;
	struct tally_policy *policies;
	struct part *parts;
	size_t n_buckets, n_policies, n_parts;
	bool unknown;	   /* no partition that could be read has heard of it */
	bool without_file; /* limits.file is not set */
};

/* ------------------------------------------------------------------ reading */

static int read_buckets(struct answer *answer)
{
	size_t cap = 8;
	for (;;) {
		free(answer->buckets);
		answer->buckets = calloc(cap, sizeof *answer->buckets);
		if (!answer->buckets)
			abort();
		int err = tally_buckets(answer->tally, answer->tenant, -1, &answer->limits,
			answer->buckets, cap, &answer->n_buckets);
		if (err || answer->n_buckets <= cap)
			return err;
		cap = answer->n_buckets;
	}
}

static void read_part(struct answer *answer, struct part *part)
{
	struct tally_bucket buckets[64];
	size_t n;
	if (tally_buckets(answer->tally, answer->tenant, (int32_t)part->of.partition, NULL, buckets,
		    64, &n))
		return;
	part->counted = true;
	part->full = !buckets[0].headroom;
	for (size_t i = 0; i < n && i < 64; i++)
		part->streams += buckets[i].streams;
}

static int read_parts(const struct ctl *ctl, struct answer *answer)
{
	size_t cap = ctl->instance.partitions + 1, n = 0;
	struct tally_partition *list = calloc(cap, sizeof *list);
	answer->parts = calloc(cap, sizeof *answer->parts);
	if (!list || !answer->parts)
		abort();
	int err = tally_partitions(ctl->tally, list, cap, &n);
	for (size_t i = 0; !err && i < n && i < cap; i++) {
		answer->parts[i].of = list[i];
		read_part(answer, &answer->parts[i]);
		answer->n_parts++;
	}
	free(list);
	return err;
}

/* TALLY_ENOTFOUND: nobody has heard of it; then it has limits all the same. */
static int read_policies(const struct ctl *ctl, struct answer *answer)
{
	struct tally_basis basis;
	answer->policies = calloc(POLICIES_MAX, sizeof *answer->policies);
	if (!answer->policies)
		abort();
	int err = tally_policies(ctl->tally, answer->tenant, answer->policies, POLICIES_MAX,
		&answer->n_policies, &basis);
	if (err || answer->n_policies > POLICIES_MAX)
		answer->n_policies = err ? 0 : POLICIES_MAX;
	answer->unknown = err == TALLY_ENOTFOUND;
	return err == TALLY_ENOTFOUND || err == TALLY_ENOTREADY ? 0 : err;
}

static int read_all(struct ctl *ctl, struct answer *answer)
{
	int err = tally_open(ctl->run_dir, 0, &answer->strict);
	answer->tally = answer->strict;
	if (!err)
		err = read_buckets(answer);
	if (err == TALLY_ESTALE) { /* tallyd is gone: what was */
		tally_close(&answer->strict);
		answer->tally = ctl->tally;
		err = read_buckets(answer);
	}
	if (!err)
		err = read_parts(ctl, answer);
	return err ? err : read_policies(ctl, answer);
}

static void release(struct answer *answer)
{
	tally_close(&answer->strict);
	free(answer->buckets);
	free(answer->policies);
	free(answer->parts);
}

/* ------------------------------------------------------------------ words */

static const char *source_of(const struct answer *answer, const struct tally_bucket *bucket)
{
	const struct tally_tenant_limits *limits = &answer->limits;
	if (!limits->version)
		return "no limits have been published";
	if (*bucket->policy)
		return "policy_override_limits of its entry in limits.yaml";
	if (!limits->is_default)
		return "its entry in limits.yaml";
	if (answer->without_file)
		return "the default, limits.max_global_streams_per_user: limits.file is not set";
	return limits->listed
		       ? "the default, limits.max_global_streams_per_user: its entry in "
			 "limits.yaml has no limit of its own"
		       : "the default, limits.max_global_streams_per_user: limits.yaml has no "
			 "entry for it";
}

static char *limit_text(char to[CTL_TEXT_SIZE], uint64_t limit)
{
	if (limit == TALLY_UNLIMITED)
		snprintf(to, CTL_TEXT_SIZE, "unlimited");
	else
		snprintf(to, CTL_TEXT_SIZE, "%" PRIu64, limit);
	return to;
}

/* How the share comes about: "5000 x 16 / 64 = 1250". */
static void arithmetic(
	const struct answer *answer, const struct tally_bucket *bucket, char to[SENTENCE_SIZE])
{
	const struct tally_basis *basis = &answer->limits.basis;
	uint32_t all = basis->partitions ? basis->partitions : 1;
	if (bucket->limit == TALLY_UNLIMITED)
		snprintf(to, SENTENCE_SIZE, "no limit, so no share");
	else if (answer->limits.by_partition)
		snprintf(to, SENTENCE_SIZE,
			"%" PRIu64 " / %" PRIu32 "%s = %" PRIu64 " in each of the %" PRIu32
			" partitions of this instance",
			bucket->limit, all, bucket->limit % all ? ", rounded up," : "",
			bucket->limit / all + (bucket->limit % all != 0), basis->owned);
	else
		snprintf(to, SENTENCE_SIZE,
			"%" PRIu64 " x %" PRIu32 " owned / %" PRIu32 " partitions%s = %" PRIu64,
			bucket->limit, basis->owned, all,
			bucket->limit % all * basis->owned % all ? ", rounded up," : "",
			bucket->share);
}

static size_t parts_full(const struct answer *answer)
{
	size_t n = 0;
	for (size_t i = 0; i < answer->n_parts; i++)
		n += answer->parts[i].full;
	return n;
}

enum outcome { ACCEPTED, DRY_RUN, DEPENDS, REJECTED, NOBODY };
static const char *const outcomes[] = {
	"accepted", "accepted_dry_run", "depends", "rejected", "undecided"};

/* What becomes of the next new stream, and why. */
static enum outcome next_stream(
	const struct answer *answer, const struct tally_bucket *bucket, char to[SENTENCE_SIZE])
{
	const struct tally_tenant_limits *limits = &answer->limits;
	uint64_t over = bucket->streams >= bucket->share ? bucket->streams - bucket->share + 1 : 1;
	if (!answer->strict) {
		snprintf(to, SENTENCE_SIZE, "nobody decides: tallyd is not running");
		return NOBODY;
	}
	if (!limits->basis.answered) {
		snprintf(to, SENTENCE_SIZE,
			"nobody decides here: none of the %" PRIu32 " partition%s is ready",
			limits->basis.owned, ctl_s(limits->basis.owned));
		return NOBODY;
	}
	if (bucket->headroom == TALLY_UNLIMITED) {
		snprintf(to, SENTENCE_SIZE, "is let in: there is no limit");
		return ACCEPTED;
	}
	if (!bucket->headroom && limits->dry_run) {
		snprintf(to, SENTENCE_SIZE,
			"is let in, and counted as a would-be rejection: %" PRIu64
			" active streams fill the share of %" PRIu64 ", but it is a dry run",
			bucket->streams, bucket->share);
		return DRY_RUN;
	}
	if (!bucket->headroom) {
		snprintf(to, SENTENCE_SIZE,
			"is rejected (reason 2, max streams): %" PRIu64
			" active streams fill the share of %" PRIu64
			"; there is room again when %" PRIu64 " of them %s expired",
			bucket->streams, bucket->share, over, over == 1 ? "has" : "have");
		return REJECTED;
	}
	if (limits->by_partition && !*bucket->policy && parts_full(answer)) {
		snprintf(to, SENTENCE_SIZE,
			"depends on its partition: %zu of %zu are full, in the others %" PRIu64
			" more fit",
			parts_full(answer), answer->n_parts, bucket->headroom);
		return DEPENDS;
	}
	snprintf(to, SENTENCE_SIZE, "is let in: %" PRIu64 " more fit", bucket->headroom);
	return ACCEPTED;
}

static const char *bucket_of(const struct answer *answer, const char *policy)
{
	for (size_t i = 1; i < answer->n_buckets; i++)
		if (!strcmp(answer->buckets[i].policy, policy))
			return policy;
	return "";
}

static const char *shown(char to[CTL_NAME_SIZE], const char *policy)
{
	return *policy ? ctl_name(to, policy) : "(default)";
}

/* ------------------------------------------------------------------ text */

static void print_head(const struct ctl *ctl, const struct answer *answer)
{
	const struct tally_bucket *first = answer->buckets;
	const struct tally_basis *basis = &answer->limits.basis;
	char name[CTL_NAME_SIZE], limit[CTL_TEXT_SIZE], text[SENTENCE_SIZE];
	ctl_print_stale(ctl);
	printf("%s: limit of active streams: %s\n\n", ctl_name(name, answer->tenant),
		limit_text(limit, first->limit));
	printf("limit     %s\n", source_of(answer, first));
	arithmetic(answer, first, text);
	printf("scope     %s\n",
		answer->limits.by_partition
			? "partition: each partition has its own part"
			: "instance: one sum over the partitions of this instance");
	printf("share     %s\n", text);
	printf("active    %" PRIu64 "%s in %" PRIu32 " partition%s, %" PRIu32 " of them ready\n",
		first->streams, answer->n_buckets > 1 ? " (default bucket)" : "", basis->owned,
		ctl_s(basis->owned), answer->strict ? basis->answered : 0);
	if (answer->unknown)
		printf("seen      never: no partition %s has heard of it\n",
			basis->complete ? "of this instance" : "that could be read");
	printf("headroom  %s\n", limit_text(limit, first->headroom));
	printf("dry run   %s\n",
		answer->limits.dry_run ? "yes: nothing is rejected, would-be rejections are counted"
				       : "no");
}

static void print_buckets(const struct answer *answer)
{
	static const char *const headings[] = {
		">LIMIT", ">SHARE", ">STREAMS", ">HEADROOM", "BUCKET (POLICY)"};
	char limit[CTL_TEXT_SIZE], share[CTL_TEXT_SIZE], streams[CTL_TEXT_SIZE],
		room[CTL_TEXT_SIZE], name[CTL_NAME_SIZE];
	struct ctl_table table;
	ctl_table_start(&table, 5, headings);
	for (size_t i = 0; i < answer->n_buckets; i++) {
		const struct tally_bucket *b = &answer->buckets[i];
		ctl_table_row(&table,
			(const char *[]){limit_text(limit, b->limit), limit_text(share, b->share),
				limit_text(streams, b->streams), limit_text(room, b->headroom),
				shown(name, b->policy)});
	}
	putchar('\n');
	ctl_table_end(&table);
}

static void print_policies(const struct answer *answer)
{
	static const char *const headings[] = {">STREAMS", "POLICY", "COUNTS IN"};
	char streams[CTL_TEXT_SIZE], name[CTL_NAME_SIZE], bucket[CTL_NAME_SIZE];
	struct ctl_table table;
	if (!answer->n_policies)
		return;
	ctl_table_start(&table, 3, headings);
	for (size_t i = 0; i < answer->n_policies; i++) {
		const struct tally_policy *p = &answer->policies[i];
		ctl_table_row(&table,
			(const char *[]){limit_text(streams, p->streams), shown(name, p->policy),
				shown(bucket, bucket_of(answer, p->policy))});
	}
	putchar('\n');
	ctl_table_end(&table);
}

static void print_parts(const struct answer *answer)
{
	static const char *const headings[] = {">P", "STATE", ">STREAMS", "NEW STREAMS"};
	struct ctl_table table;
	ctl_table_start(&table, 4, headings);
	for (size_t i = 0; i < answer->n_parts; i++) {
		const struct part *part = &answer->parts[i];
		char number[CTL_TEXT_SIZE], streams[CTL_TEXT_SIZE];
		snprintf(number, sizeof number, "%" PRIu32, part->of.partition);
		ctl_table_row(&table,
			(const char *[]){number, part->of.state,
				part->counted ? limit_text(streams, part->streams) : "-",
				!part->of.ready ? "failed (reason 1) until it is ready"
				: answer->limits.by_partition && part->full ? "full"
									    : "decided here"});
	}
	putchar('\n');
	ctl_table_end(&table);
}

static void print_next(const struct answer *answer)
{
	const struct tally_basis *basis = &answer->limits.basis;
	char text[SENTENCE_SIZE], name[CTL_NAME_SIZE];
	putchar('\n');
	for (size_t i = 0; i < answer->n_buckets; i++) {
		next_stream(answer, &answer->buckets[i], text);
		printf("the next new stream%s%s %s\n", i ? " of policy " : "",
			i ? ctl_name(name, answer->buckets[i].policy) : "", text);
	}
	if (answer->strict && basis->answered && basis->answered < basis->owned)
		printf("but streams of the %" PRIu32
		       " partition%s not ready are not decided: failed (reason 1)\n",
			basis->owned - basis->answered, ctl_s(basis->owned - basis->answered));
	if (basis->owned < basis->partitions)
		printf("streams of the other %" PRIu32
		       " partition%s are decided by other instances\n",
			basis->partitions - basis->owned, ctl_s(basis->partitions - basis->owned));
}

static int print_text(struct ctl *ctl, void *arg)
{
	const struct answer *answer = arg;
	print_head(ctl, answer);
	if (answer->n_buckets > 1)
		print_buckets(answer);
	print_policies(answer);
	print_parts(answer);
	print_next(answer);
	return CTL_OK;
}

/* ------------------------------------------------------------------ JSON */

static void json_limit(json_t *to, const char *key, uint64_t value)
{
	if (value == TALLY_UNLIMITED)
		json_object_set_new(to, key, json_null());
	else
		ctl_json_count(to, key, value);
}

static json_t *json_buckets(const struct answer *answer)
{
	json_t *array = json_array();
	for (size_t i = 0; i < answer->n_buckets; i++) {
		const struct tally_bucket *b = &answer->buckets[i];
		json_t *one = json_object();
		char text[SENTENCE_SIZE];
		ctl_json_text(one, "policy", b->policy);
		json_limit(one, "limit", b->limit);
		ctl_json_text(one, "source", source_of(answer, b));
		json_limit(one, "share", b->share);
		arithmetic(answer, b, text);
		ctl_json_text(one, "arithmetic", text);
		ctl_json_count(one, "streams", b->streams);
		json_limit(one, "headroom", b->headroom);
		ctl_json_text(one, "next", outcomes[next_stream(answer, b, text)]);
		ctl_json_text(one, "why", text);
		json_array_append_new(array, one);
	}
	return array;
}

static json_t *json_policies(const struct answer *answer)
{
	json_t *array = json_array();
	for (size_t i = 0; i < answer->n_policies; i++) {
		json_t *one = json_object();
		ctl_json_text(one, "policy", answer->policies[i].policy);
		ctl_json_count(one, "streams", answer->policies[i].streams);
		ctl_json_text(one, "bucket", bucket_of(answer, answer->policies[i].policy));
		json_array_append_new(array, one);
	}
	return array;
}

static json_t *json_parts(const struct answer *answer)
{
	json_t *array = json_array();
	for (size_t i = 0; i < answer->n_parts; i++) {
		const struct part *part = &answer->parts[i];
		json_t *one = json_object();
		ctl_json_count(one, "partition", part->of.partition);
		ctl_json_text(one, "state", part->of.state);
		json_object_set_new(one, "ready", json_boolean(part->of.ready));
		ctl_json_known(one, "streams", part->counted ? (int64_t)part->streams : -1);
		json_object_set_new(
			one, "full", json_boolean(answer->limits.by_partition && part->full));
		json_array_append_new(array, one);
	}
	return array;
}

static void print_json(const struct ctl *ctl, const struct answer *answer)
{
	json_t *to = ctl_json(ctl);
	char version[24];
	snprintf(version, sizeof version, "%" PRIu64, answer->limits.version);
	ctl_json_text(to, "tenant", answer->tenant);
	ctl_json_text(to, "limits_version", version);
	json_object_set_new(to, "listed", json_boolean(answer->limits.listed));
	json_object_set_new(to, "is_default", json_boolean(answer->limits.is_default));
	json_object_set_new(to, "dry_run", json_boolean(answer->limits.dry_run));
	ctl_json_text(to, "scope", answer->limits.by_partition ? "partition" : "instance");
	json_object_set_new(to, "buckets", json_buckets(answer));
	json_object_set_new(to, "policies", json_policies(answer));
	json_object_set_new(to, "partitions", json_parts(answer));
	ctl_json_basis(to, &answer->limits.basis);
	ctl_json_print(to);
}

int ctl_explain(struct ctl *ctl, int argc, char **argv)
{
	struct answer answer = {.tenant = argc == 2 ? argv[1] : NULL};
	if (argc != 2)
		return ctl_usage("explain: needs one tenant's NAME");
	if (ctl_attach(ctl))
		return CTL_TROUBLE;
	answer.without_file = !strcmp(ctl->instance.limits_state, "none");
	int err = read_all(ctl, &answer), code;
	if (err) {
		code = ctl_failed(ctl, argv[1], err);
	} else {
		if (ctl->json) {
			print_json(ctl, &answer);
		} else {
			ctl_wrapped(ctl, print_text, &answer);
		}
		code = answer.limits.basis.complete ? CTL_OK : CTL_INCOMPLETE;
	}
	release(&answer);
	return code;
}
