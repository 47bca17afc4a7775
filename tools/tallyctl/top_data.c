/*
 * top_data.c - what tallyctl top shows: instance, partitions, tenants with what is near their limit.
 *
 *	ctl_refresh -> tally_partitions -> tally_top -> tally_buckets, as many as there is time for
 *	     '-- no: what to do about it, as text
 *
 * The limits of very many tenants take long to look up.  But most have no entry of their own: what
 * one of them may have is what each may have.  Who has one is asked once for each version of the
 * limits, and of one partition only.  What there was no time for comes with the next rounds; until
 * then what was found before stands, with the streams of now.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "top.h"

#define BUCKETS_MAX 1024
#define LOOK_UPS    32 /* of partitions, between two looks at the clock */

static void *must_have(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static int64_t clock_ms(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------ partitions */

static int read_parts(struct top_data *data)
{
	size_t cap = data->ctl->instance.partitions + 1;
	free(data->parts);
	data->parts = must_have(calloc(cap, sizeof *data->parts));
	int err = tally_partitions(data->ctl->tally, data->parts, cap, &data->n_parts);
	data->n_parts = err ? 0 : data->n_parts < cap ? data->n_parts : cap;
	return err ? ctl_cannot_attach(data->ctl, err) : 0;
}

/* ------------------------------------------------------------------ tenants */

static int by_name(const void *a, const void *b)
{
	const struct top_tenant *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* All there are, in memory that grows with them. */
static struct tally_usage *list_usages(struct top_data *data, size_t *n)
{
	struct tally_usage *list = NULL;
	for (size_t cap = data->n_tenants + data->n_tenants / 4 + 1024;; cap *= 4) {
		cap = cap < TOP_TENANTS_MAX ? cap : TOP_TENANTS_MAX;
		free(list);
		list = must_have(calloc(cap + 1, sizeof *list));
		data->tenants_err = tally_top(data->ctl->tally, list, cap + 1, n, &data->basis);
		if (data->tenants_err)
			*n = 0;
		data->more_tenants = *n > TOP_TENANTS_MAX;
		if (*n <= cap || cap == TOP_TENANTS_MAX) {
			*n -= data->more_tenants;
			return list;
		}
	}
}

/* What was known of its bucket, with the streams of now. */
static void keep(struct top_tenant *tenant, const struct top_tenant *before)
{
	struct tally_bucket bucket = {.limit = before->limit, .share = before->share};
	struct tally_tenant_limits limits = {.dry_run = before->dry_run};
	bool alone = !*before->policy && before->used == before->streams;
	tenant->listed = before->listed;
	tenant->as_of = before->as_of;
	if (!before->round)
		return;
	bucket.streams = alone ? tenant->streams : before->used;
	bucket.headroom = bucket.share > bucket.streams;
	snprintf(bucket.policy, sizeof bucket.policy, "%s", before->policy);
	top_choose_bucket(tenant, &bucket, 1, &limits);
	tenant->round = before->round;
}

static void list_tenants(struct top_data *data)
{
	struct top_tenant *before = data->tenants, *known;
	size_t n_before = data->n_tenants;
	struct tally_usage *list = list_usages(data, &data->n_tenants);
	data->tenants = must_have(calloc(data->n_tenants + 1, sizeof *data->tenants));
	for (size_t i = 0; i < data->n_tenants; i++) {
		struct top_tenant *tenant = &data->tenants[i];
		memcpy(tenant->name, list[i].tenant, sizeof tenant->name);
		tenant->streams = list[i].streams;
		tenant->bytes = list[i].bytes;
		tenant->bytes_per_sec = list[i].bytes_per_sec;
	}
	free(list);
	qsort(data->tenants, data->n_tenants, sizeof *data->tenants, by_name);
	for (size_t i = 0; n_before && i < data->n_tenants; i++) {
		known = bsearch(&data->tenants[i], before, n_before, sizeof *before, by_name);
		if (known)
			keep(&data->tenants[i], known);
	}
	free(before);
}

/* ------------------------------------------------------------------ limits */

static double nearness(const struct tally_bucket *bucket)
{
	if (bucket->share == TALLY_UNLIMITED)
		return 0;
	if (!bucket->share)
		return bucket->streams ? INFINITY : 1;
	return (double)bucket->streams / (double)bucket->share;
}

void top_choose_bucket(struct top_tenant *tenant, const struct tally_bucket *buckets, size_t n,
	const struct tally_tenant_limits *limits)
{
	size_t best = 0;
	for (size_t i = 1; i < n; i++)
		if (nearness(&buckets[i]) > nearness(&buckets[best]))
			best = i;
	const struct tally_bucket *bucket = &buckets[best];
	tenant->limit = bucket->limit;
	tenant->share = bucket->share;
	tenant->used = bucket->streams;
	tenant->full = !bucket->headroom;
	tenant->dry_run = limits->dry_run;
	tenant->nearness = nearness(bucket);
	snprintf(tenant->policy, sizeof tenant->policy, "%s", bucket->policy);
}

/* All its buckets, over all partitions. */
static void read_buckets(struct top_data *data, struct top_tenant *tenant)
{
	static struct tally_bucket buckets[BUCKETS_MAX]; /* large */
	struct tally_tenant_limits limits;
	size_t n;
	if (tally_buckets(data->ctl->tally, tenant->name, -1, &limits, buckets, BUCKETS_MAX, &n) ||
		!n)
		return;
	top_choose_bucket(tenant, buckets, n < BUCKETS_MAX ? n : BUCKETS_MAX, &limits);
	tenant->round = data->rounds;
	if (limits.listed || limits.by_partition)
		return;
	data->common_known = true;
	data->common = buckets[0];
	data->common_dry_run = limits.dry_run;
}

/* As for all others. */
static void use_common(struct top_data *data, struct top_tenant *tenant)
{
	struct tally_bucket bucket = data->common;
	struct tally_tenant_limits limits = {.dry_run = data->common_dry_run};
	bucket.streams = tenant->streams;
	bucket.headroom = bucket.share > bucket.streams;
	top_choose_bucket(tenant, &bucket, 1, &limits);
	tenant->round = data->rounds;
}

/* Gives how many partitions were read. */
static size_t read_limits(struct top_data *data, struct top_tenant *tenant)
{
	struct tally_tenant_limits limits = {0};
	uint64_t as_of = data->ctl->instance.limits_version + 1;
	size_t asked = 0, n;
	if (tenant->as_of != as_of && data->n_parts) {
		/* One bucket is enough to hear whether there is an entry. */
		struct tally_bucket bucket;
		int32_t partition = (int32_t)data->parts[0].partition;
		int err = tally_buckets(
			data->ctl->tally, tenant->name, partition, &limits, &bucket, 1, &n);
		tenant->as_of = err ? 0 : as_of;
		tenant->listed = limits.listed || limits.by_partition;
		asked++;
	}
	if (tenant->as_of && !tenant->listed && data->common_known) {
		use_common(data, tenant);
		return asked;
	}
	read_buckets(data, tenant);
	return asked + data->n_parts;
}

static void read_all_limits(struct top_data *data, int64_t budget_ms)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + budget_ms;
	size_t asked = 0;
	data->common_known = false;
	for (size_t i = 0; i < data->n_tenants; i++) {
		data->next = data->next < data->n_tenants ? data->next : 0;
		asked += read_limits(data, &data->tenants[data->next++]);
		if (asked >= LOOK_UPS && clock_ms(CLOCK_MONOTONIC) >= end)
			break;
		asked = asked < LOOK_UPS ? asked : 0;
	}
	data->unread = 0;
	for (size_t i = 0; i < data->n_tenants; i++)
		data->unread += !data->tenants[i].round;
}

/* ------------------------------------------------------------------ all */

static int read_instance(struct ctl *ctl, void *arg)
{
	int code = ctl_refresh(ctl);
	return code ? code : read_parts(arg);
}

void top_read(struct top_data *data, int64_t budget_ms)
{
	static const char prefix[] = "tallyctl: ";
	int code;
	data->rounds++;
	data->now_ms = clock_ms(CLOCK_REALTIME);
	*data->trouble = 0;
	char *said = ctl_capture(data->ctl, read_instance, data, &code, NULL);
	if (code) {
		said[strcspn(said, "\n")] = 0;
		bool named = !strncmp(said, prefix, strlen(prefix));
		snprintf(data->trouble, sizeof data->trouble, "%s",
			said + (named ? strlen(prefix) : 0));
		data->n_parts = data->n_tenants = data->unread = 0;
	} else {
		if (!data->ctl->instance.query_alive ||
			ctl_address(data->ctl, "query.http", data->http))
			*data->http = 0;
		list_tenants(data);
		read_all_limits(data, budget_ms);
	}
	free(said);
}

void top_free(struct top_data *data)
{
	free(data->parts);
	free(data->tenants);
	free(data->detail);
	*data = (struct top_data){0};
}
