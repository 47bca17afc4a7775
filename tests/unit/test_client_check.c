/*
 * test_client_check.c - limits, buckets, and what may come in, against a plain count.
 *
 *	model: every stream that was written --loops--> expected
 *	store, limits file --libtally--> tally_buckets, tally_check
 */
#include <math.h>
#include <signal.h>
#include <sys/prctl.h>

#include "client_run.h"

#define WIDE 64 /* partitions of the wide run */

static struct run run;
static struct tally *tally;

static int setup(void **state)
{
	(void)state;
	run_start(&run);
	assert_int_equal(tally_open(run.dir, 0, &tally), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tally_close(&tally);
	run_end(&run);
	return 0;
}

/* ------------------------------------------------------------------ kit */

static const struct limits_policy policies_of_a[] = {{"gold", 3}, {"free", LIMIT_NONE}};
static const struct limits_tenant tenants[] = {
	{.name = "a",
		.streams = 10,
		.has_streams = true,
		.policies = policies_of_a,
		.n_policies = 2},
	{.name = "dry", .streams = 1, .has_streams = true, .dry_run = true},
	{.name = "defaulted", .policies = policies_of_a, .n_policies = 1},
	{.name = "open", .streams = LIMIT_NONE, .has_streams = true},
};

/* As the supervisor does it: the file first, then its version. */
static void publish_source(const struct limits_source *source)
{
	assert_int_equal(limits_write(run.dirfd, source), 0);
	atomic_store(&table_head_mut(&run.table)->limits_version, source->version);
}

static void publish(uint64_t version, uint64_t preset, enum limit_scope scope)
{
	publish_source(&(struct limits_source){.version = version,
		.default_streams = preset,
		.scope = scope,
		.tenants = tenants,
		.n_tenants = sizeof tenants / sizeof *tenants});
}

static void publish_one(
	uint64_t version, const char *name, uint64_t streams, enum limit_scope scope)
{
	const struct limits_tenant one = {.name = name, .streams = streams, .has_streams = true};
	publish_source(&(struct limits_source){.version = version,
		.default_streams = 7,
		.scope = scope,
		.tenants = &one,
		.n_tenants = 1});
}

static struct tally_bucket bucket_of(const char *tenant, int32_t partition, size_t at)
{
	static struct tally_bucket buckets[8];
	size_t n;
	assert_int_equal(tally_buckets(tally, tenant, partition, NULL, buckets, 8, &n), 0);
	assert_true(at < n);
	return buckets[at];
}

/* Where a partition has not been ready yet, the others admit their own part alone. */
static void assert_bucket_room(
	const struct tally_bucket *bucket, uint64_t share, uint64_t streams, uint64_t headroom)
{
	assert_int_equal(bucket->share, share);
	assert_int_equal(bucket->streams, streams);
	assert_int_equal(bucket->headroom, headroom);
}

static void assert_bucket(const struct tally_bucket *bucket, const char *policy, uint64_t limit,
	uint64_t share, uint64_t streams)
{
	assert_string_equal(bucket->policy, policy);
	assert_int_equal(bucket->limit, limit);
	assert_bucket_room(bucket, share, streams,
		share == TALLY_UNLIMITED ? TALLY_UNLIMITED
		: share > streams	 ? share - streams
					 : 0);
}

static enum tally_verdict verdict_of(const char *tenant, uint64_t hash, const char *policy)
{
	struct tally_check check = {.hash = hash, .policy = policy};
	assert_int_equal(tally_check(tally, tenant, &check, 1, NULL), 0);
	assert_int_equal(check.result, 0);
	assert_int_not_equal(check.generation, 0);
	assert_int_equal(check.partition, hash % RUN_PARTITIONS);
	return check.verdict;
}

/* Tenant "a": 2 default and 1 gold in p0, 1 silver, 1 gold, 1 free in p1; and one expired. */
static void write_a(void)
{
	static const struct put in_p0[] = {{"a", "", 0, 1, 0}, {"a", "", 4, 1, 60},
		{"a", "gold", 8, 1, 0}, {"b", "", 12, 1, 0}};
	static const struct put in_p1[] = {
		{"a", "silver", 1, 1, 0}, {"a", "gold", 5, 1, 0}, {"a", "free", 9, 1, 0}};
	static const struct put old = {"a", "", 1000, 1, 0};
	run_write_how(&run, 0, 10, &old, 1,
		&(struct worker_how){.back_ms = (RUN_WINDOW + 2) * INT64_C(60000)});
	run_write(&run, 0, 10, in_p0, 4);
	run_write(&run, 1, 11, in_p1, 3);
	run_publish(&run, 0, PART_READY, 10);
	run_publish(&run, 1, PART_READY, 11);
}

/* ------------------------------------------------------------------ buckets */

static void buckets_are_unlimited_when_no_limits_have_been_published(void **state)
{
	(void)state;
	struct tally_tenant_limits limits;
	struct tally_bucket bucket;
	size_t n;
	write_a();
	assert_int_equal(tally_buckets(tally, "a", -1, &limits, &bucket, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_bucket(&bucket, "", TALLY_UNLIMITED, TALLY_UNLIMITED, 6);
	assert_int_equal(limits.version, 0);
	assert_false(limits.listed);
	assert_true(limits.is_default);
	assert_int_equal(limits.basis.owned, 2);
	assert_true(limits.basis.complete);
	assert_int_equal(verdict_of("a", 0, ""), TALLY_KNOWN);
	assert_int_equal(verdict_of("a", 16, NULL), TALLY_NEW);
	assert_int_equal(verdict_of("a", 1000, ""), TALLY_NEW); /* expired */
}

static void buckets_split_streams_by_policies_with_an_own_limit(void **state)
{
	(void)state;
	struct tally_tenant_limits limits;
	struct tally_bucket out[3];
	size_t n;
	write_a();
	publish(1, 7, LIMIT_INSTANCE);
	assert_int_equal(tally_buckets(tally, "a", -1, &limits, out, 3, &n), 0);
	assert_int_equal(n, 3);
	assert_bucket(&out[0], "", 10, 5, 3); /* half of the partitions; silver has no own limit */
	assert_bucket(&out[1], "free", TALLY_UNLIMITED, TALLY_UNLIMITED, 1);
	assert_bucket(&out[2], "gold", 3, 2, 2); /* rounded up */
	assert_true(limits.listed && !limits.is_default && !limits.dry_run);
	assert_int_equal(limits.version, 1);
	assert_true(tally_still_valid(tally));
	/* Less room than there are. */
	assert_int_equal(tally_buckets(tally, "a", -1, NULL, out, 1, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(tally_buckets(tally, "a", -1, NULL, NULL, 0, &n), 0);
	/* Others: by default; one whose entry says nothing of its own limit; unlimited by name. */
	struct tally_bucket of_b = bucket_of("b", -1, 0), of_d = bucket_of("defaulted", -1, 0);
	assert_bucket(&of_b, "", 7, 4, 1);
	assert_bucket(&of_d, "", 7, 4, 0);
	assert_int_equal(tally_buckets(tally, "defaulted", -1, &limits, out, 3, &n), 0);
	assert_true(limits.listed && limits.is_default);
	assert_int_equal(tally_buckets(tally, "dry", -1, &limits, out, 3, &n), 0);
	assert_true(limits.dry_run);
	assert_int_equal(bucket_of("open", -1, 0).headroom, TALLY_UNLIMITED);
	assert_int_equal(bucket_of("nobody", -1, 0).headroom, 4);
}

static void buckets_of_one_partition_have_its_part_of_the_limit(void **state)
{
	(void)state;
	size_t n;
	write_a();
	publish(1, 7, LIMIT_PARTITION);
	struct tally_bucket p0 = bucket_of("a", 0, 0), p1 = bucket_of("a", 1, 2),
			    all = bucket_of("a", -1, 0), gold = bucket_of("a", -1, 2);
	assert_bucket(&p0, "", 10, 3, 2);
	assert_bucket(&p1, "gold", 3, 1, 1);
	/* Over both: shares and room are added up, partition by partition. */
	assert_int_equal(all.share, 6);
	assert_int_equal(all.streams, 3);
	assert_int_equal(all.headroom, 1 + 2);
	assert_int_equal(gold.share, 2);
	assert_int_equal(gold.headroom, 0);
	publish(2, 7, LIMIT_INSTANCE);
	p0 = bucket_of("a", 0, 0);
	assert_bucket(&p0, "", 10, 3, 2);
	assert_int_equal(tally_buckets(tally, "a", 3, NULL, NULL, 0, &n), TALLY_ENOTREADY);
	assert_int_equal(tally_buckets(tally, "a", 4, NULL, NULL, 0, &n), TALLY_EINVALID);
	assert_int_equal(tally_buckets(tally, "", -1, NULL, NULL, 0, &n), TALLY_EINVALID);
}

static void buckets_count_what_is_owned_and_not_ready(void **state)
{
	static const enum part_state unready[] = {
		PART_PENDING, PART_REPLAYING, PART_DRAINING, PART_PARKED, PART_FAILED};
	(void)state;
	struct tally_tenant_limits limits;
	struct tally_bucket bucket;
	size_t n;
	write_a();
	publish(1, 7, LIMIT_INSTANCE);
	bucket = bucket_of("a", -1, 0); /* has them open from here on */
	for (size_t i = 0; i < sizeof unready / sizeof *unready; i++) {
		run_publish(&run, 1, unready[i], 11);
		assert_int_equal(tally_buckets(tally, "a", -1, &limits, &bucket, 1, &n), 0);
		assert_bucket(&bucket, "", 10, 5, 3);
		assert_int_equal(limits.basis.owned, 2);
		assert_int_equal(limits.basis.answered, 1);
		assert_false(limits.basis.complete);
		/* It stands on what is ready only. */
		run_publish(&run, 1, PART_FREE, 0);
		assert_true(tally_still_valid(tally));
	}
	/* A share without streams: its store is not there yet. */
	run_publish(&run, 2, PART_PENDING, 12);
	run_publish(&run, 1, PART_READY, 11);
	publish_one(2, "a", 100, LIMIT_INSTANCE);
	bucket = bucket_of("a", -1, 0);
	assert_bucket_room(&bucket, 75, 6, 50 - 6 - 20);
	/* It comes; nobody waits for a worker that may hang while it opens it. */
	run_write(&run, 2, 12, &(struct put){"a", "", 2, 1, 0}, 1);
	bucket = bucket_of("a", -1, 0);
	assert_int_equal(bucket.streams, 6);
	run_publish(&run, 2, PART_REPLAYING, 12);
	bucket = bucket_of("a", -1, 0);
	assert_bucket_room(&bucket, 75, 7, 50 - 6 - 20);
	run_publish(&run, 2, PART_PENDING, 12); /* its worker has died: open here already */
	bucket = bucket_of("a", -1, 0);
	assert_bucket_room(&bucket, 75, 7, 50 - 6 - 20);
	run_publish(&run, 2, PART_READY, 12);
	bucket = bucket_of("a", -1, 0);
	assert_bucket(&bucket, "", 100, 75, 7);
	run_publish(&run, 0, PART_DRAINING, 10);
	run_publish(&run, 1, PART_DRAINING, 11);
	run_publish(&run, 2, PART_DRAINING, 12);
	assert_int_equal(tally_buckets(tally, "a", -1, &limits, &bucket, 1, &n), 0);
	assert_int_equal(limits.basis.answered, 0);
	assert_int_equal(bucket.streams, 7);
	atomic_store(&table_head_mut(&run.table)->stopped, 1);
	assert_int_equal(tally_buckets(tally, "a", -1, &limits, &bucket, 1, &n), TALLY_ESTALE);
}

static void buckets_do_not_count_a_store_that_is_another_one(void **state)
{
	(void)state;
	write_a();
	publish_one(1, "a", 100, LIMIT_INSTANCE);
	run_write_how(&run, 2, 12, &(struct put){"a", "", 2, 1, 0}, 1,
		&(struct worker_how){.generation = 99});
	run_publish(&run, 2, PART_REPLAYING, 12);
	struct tally_bucket bucket = bucket_of("a", -1, 0);
	assert_bucket_room(&bucket, 75, 6, 50 - 6 - 20);
}

/* ------------------------------------------------------------------ the limits file */

static void limits_are_taken_anew_when_their_version_changes(void **state)
{
	(void)state;
	write_a();
	assert_int_equal(bucket_of("b", -1, 0).limit, TALLY_UNLIMITED);
	for (uint64_t version = 1; version < 50; version++) {
		publish(version, version * 2, LIMIT_INSTANCE);
		assert_int_equal(bucket_of("b", -1, 0).share, version);
	}
	/* The file is there before its version is said. */
	publish(50, 6, LIMIT_INSTANCE);
	assert_int_equal(bucket_of("b", -1, 0).limit, 6);
	/* Withdrawn. */
	assert_int_equal(unlinkat(run.dirfd, LIMITS_NAME, 0), 0);
	assert_int_equal(bucket_of("b", -1, 0).limit, 6); /* nobody said so yet */
	atomic_store(&table_head_mut(&run.table)->limits_version, 51);
	assert_int_equal(bucket_of("b", -1, 0).limit, TALLY_UNLIMITED);
}

static void limits_are_those_of_a_new_supervisor(void **state)
{
	(void)state;
	struct table_head facts = run_facts();
	write_a();
	publish(5, 6, LIMIT_INSTANCE);
	assert_int_equal(bucket_of("b", -1, 0).limit, 6);
	run_install(&run, &facts);
	publish(5, 8, LIMIT_INSTANCE); /* counts from where it likes */
	run_publish(&run, 0, PART_READY, 10);
	assert_int_equal(bucket_of("b", -1, 0).limit, 8);
}

static void limits_that_cannot_be_used_leave_the_last_ones(void **state)
{
	(void)state;
	struct tally_tenant_limits limits;
	struct tally_check check = {.hash = 0};
	struct tally *fresh;
	char junk[300];
	size_t n;
	int err;
	write_a();
	publish(1, 6, LIMIT_INSTANCE);
	assert_int_equal(bucket_of("b", -1, 0).limit, 6);
	memset(junk, 0xab, sizeof junk);
	for (size_t len = 0; len <= sizeof junk; len += 100) {
		int fd = openat(run.dirfd, "limits.x", O_CREAT | O_TRUNC | O_WRONLY, 0640);
		assert_int_equal(write(fd, junk, len), len);
		close(fd);
		assert_int_equal(renameat(run.dirfd, "limits.x", run.dirfd, LIMITS_NAME), 0);
		atomic_fetch_add(&table_head_mut(&run.table)->limits_version, 1);
		assert_int_equal(tally_buckets(tally, "b", -1, &limits, NULL, 0, &n), 0);
		assert_int_equal(limits.version, 1);
		/* Nobody may take a limit that cannot be read for none. */
		assert_int_equal(tally_open(run.dir, 0, &fresh), 0);
		err = tally_buckets(fresh, "b", -1, NULL, NULL, 0, &n);
		assert_true(err == TALLY_EFORMAT || err == TALLY_ECORRUPT);
		assert_int_equal(tally_check(fresh, "b", &check, 1, NULL), err);
		assert_int_equal(check.result, err);
		tally_close(&fresh);
	}
	publish(9, 12, LIMIT_INSTANCE);
	assert_int_equal(bucket_of("b", -1, 0).limit, 12);
}

/* Another process publishes one after the other, as fast as it can. */
static void limits_are_whole_while_they_are_replaced(void **state)
{
	enum { ROUNDS = 4000 };
	(void)state;
	struct tally_tenant_limits limits;
	struct tally_bucket out[3];
	uint64_t last = 0, seen = 0;
	size_t n;
	write_a();
	publish(1, 2, LIMIT_INSTANCE);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (uint64_t version = 2;; version++)
			publish(version, version * 2,
				version % 2 ? LIMIT_INSTANCE : LIMIT_PARTITION);
	}
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(tally_buckets(tally, "b", -1, &limits, out, 3, &n), 0);
		assert_int_equal(n, 1);
		assert_int_equal(out[0].limit, limits.version * 2);
		assert_int_equal(limits.by_partition, limits.version % 2 == 0);
		assert_true(limits.version >= last);
		seen += limits.version != last;
		last = limits.version;
		assert_int_equal(tally_buckets(tally, "a", -1, &limits, out, 3, &n), 0);
		assert_int_equal(n, 3);
		assert_int_equal(out[2].limit, 3);
		struct tally_check check = {.hash = 16};
		assert_int_equal(tally_check(tally, "a", &check, 1, &limits), 0);
		assert_int_equal(check.verdict, TALLY_NEW);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(seen > 10);
}

/* ------------------------------------------------------------------ check */

static void check_never_rejects_what_is_known(void **state)
{
	(void)state;
	write_a();
	publish_one(1, "a", 100, LIMIT_INSTANCE);
	assert_int_equal(verdict_of("a", 16, ""), TALLY_NEW);
	for (int scope = LIMIT_INSTANCE; scope <= LIMIT_PARTITION; scope++) {
		publish_one(2 + (uint64_t)scope, "a", 1, (enum limit_scope)scope);
		assert_int_equal(bucket_of("a", -1, 0).headroom, 0);
		assert_int_equal(verdict_of("a", 0, ""), TALLY_KNOWN);
		assert_int_equal(verdict_of("a", 5, "silver"), TALLY_KNOWN);
		assert_int_equal(verdict_of("a", 16, ""), TALLY_FULL);
		assert_int_equal(verdict_of("a", 1000, ""), TALLY_FULL); /* expired is new */
	}
}

static void check_judges_by_the_bucket_of_the_policy(void **state)
{
	(void)state;
	struct tally_tenant_limits limits;
	struct tally_check list[] = {
		{.hash = 16, .policy = "gold"},
		{.hash = 20, .policy = "silver"},
		{.hash = 24, .policy = "free"},
		{.hash = 8, .policy = "gold"},
		{.hash = 17, .policy = "gold"},
		{.hash = 3, .policy = ""},
		{.hash = 16},
	};
	static const enum tally_verdict expected[] = {
		TALLY_FULL, TALLY_NEW, TALLY_NEW, TALLY_KNOWN, TALLY_FULL, TALLY_KNOWN, TALLY_NEW};
	write_a();
	publish(1, 7, LIMIT_INSTANCE);
	assert_int_equal(tally_check(tally, "a", list, 7, &limits), 0);
	for (size_t i = 0; i < 7; i++) {
		bool served = list[i].hash % RUN_PARTITIONS < 2;
		assert_int_equal(list[i].result, served ? 0 : TALLY_ENOTREADY);
		assert_int_equal(list[i].generation, served ? 10 + list[i].partition : 0);
		if (served)
			assert_int_equal(list[i].verdict, expected[i]);
	}
	assert_true(limits.basis.complete);
	assert_int_equal(limits.version, 1);
	assert_true(tally_still_valid(tally));
	run_publish(&run, 1, PART_DRAINING, 11);
	assert_false(tally_still_valid(tally));
	char name[300];
	memset(name, 'x', sizeof name - 1);
	name[299] = 0;
	list[0].policy = name;
	assert_int_equal(tally_check(tally, "a", list, 7, NULL), TALLY_EINVALID);
}

static void check_says_which_partitions_count_when_all_are_known(void **state)
{
	(void)state;
	struct tally_tenant_limits limits;
	struct tally_check list[] = {{.hash = 0}, {.hash = 2}, {.hash = 8}};
	write_a();
	publish(1, 7, LIMIT_INSTANCE);
	run_publish(&run, 2, PART_PENDING, 12);
	assert_int_equal(tally_check(tally, "a", list, 3, &limits), 0);
	assert_int_equal(list[0].result, 0);
	assert_int_equal(list[1].result, TALLY_ENOTREADY);
	assert_int_equal(list[2].verdict, TALLY_KNOWN);
	assert_int_equal(limits.basis.owned, 3);
	assert_int_equal(limits.basis.answered, 2);
	assert_int_equal(tally_check(tally, "a", NULL, 0, &limits), 0);
	atomic_store(&table_head_mut(&run.table)->partitions, 0);
	assert_int_equal(tally_check(tally, "a", list, 3, &limits), TALLY_ENOTREADY);
	assert_int_equal(list[0].result, TALLY_ENOTREADY);
}

/* ------------------------------------------------------------------ 64 partitions, at random */

enum { MODEL = 6000, MODEL_POLICIES = 5, MODEL_TENANTS = 2 };
static const char *const model_policies[MODEL_POLICIES] = {"", "gold", "silver", "free", "p"};
static const char *const model_tenants[MODEL_TENANTS] = {"a", "defaulted"};
static struct {
	uint64_t hash;
	unsigned tenant, policy;
} model[MODEL];

/* A plain count: which limit, how much of it is ours, how many there are. */
static uint64_t model_bucket(unsigned tenant, unsigned policy, uint64_t *limit)
{
	if (policy == 1 && tenant == 0) {
		*limit = 700;
		return 1;
	}
	*limit = tenant ? 2500 : 1200;
	return 0;
}

static uint64_t model_count(unsigned tenant, uint64_t bucket, int64_t partition, uint64_t owned)
{
	uint64_t n = 0, limit;
	for (size_t i = 0; i < MODEL; i++)
		n += model[i].tenant == tenant && owned >> model[i].hash % WIDE & 1 &&
		     (partition < 0 || (uint64_t)partition == model[i].hash % WIDE) &&
		     model_bucket(tenant, model[i].policy, &limit) == bucket;
	return n;
}

static void model_write(void)
{
	static struct put puts[MODEL];
	uint64_t random = 88172645463325252;
	for (size_t i = 0; i < MODEL; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		model[i].hash = random;
		model[i].tenant = i % 3 == 0;
		model[i].policy = (unsigned)(random >> 33) % MODEL_POLICIES;
	}
	for (uint32_t p = 0; p < WIDE; p++) {
		size_t n = 0;
		for (size_t i = 0; i < MODEL; i++)
			if (model[i].hash % WIDE == p)
				puts[n++] = (struct put){model_tenants[model[i].tenant],
					model_policies[model[i].policy], model[i].hash, 1,
					(int64_t)(i % 7000)};
		run_write_how(&run, p, 100 + p, puts, n, &(struct worker_how){.partitions = WIDE});
	}
}

static void model_publish(uint64_t owned, uint64_t ready)
{
	atomic_store(&table_head_mut(&run.table)->partitions, WIDE);
	for (uint32_t p = 0; p < WIDE; p++)
		run_publish(&run, p,
			!(owned >> p & 1) ? PART_FREE
			: ready >> p & 1  ? PART_READY
					  : PART_REPLAYING,
			100 + p);
}

static void model_limits(uint64_t version, enum limit_scope scope)
{
	static const struct limits_policy gold = {"gold", 700};
	static const struct limits_tenant a = {.name = "a",
		.streams = 1200,
		.has_streams = true,
		.policies = &gold,
		.n_policies = 1};
	publish_source(&(struct limits_source){.version = version,
		.default_streams = 2500,
		.scope = scope,
		.tenants = &a,
		.n_tenants = 1});
}

/* Four standard deviations of what so many partitions hold, each root rounded up. */
static uint64_t model_spread(uint64_t limit, uint64_t partitions)
{
	double around = ceil(sqrt((double)limit));
	double part = ceil(sqrt((double)(partitions * (WIDE - partitions))));
	return (uint64_t)ceil(4 * around * part / WIDE);
}

/* Those that are not ready have never been. */
static void model_compare(unsigned tenant, uint64_t owned, uint64_t ready, bool by_partition)
{
	struct tally_bucket out[2];
	uint64_t n_owned = (uint64_t)__builtin_popcountll(owned), limit;
	size_t n;
	assert_int_equal(tally_buckets(tally, model_tenants[tenant], -1, NULL, out, 2, &n), 0);
	assert_int_equal(n, tenant ? 1 : 2);
	for (uint64_t b = 0; b < n; b++) {
		uint64_t room = 0, streams = model_count(tenant, b, -1, owned);
		model_bucket(tenant, b ? 1 : 0, &limit);
		uint64_t each = (limit + WIDE - 1) / WIDE,
			 share = (limit * n_owned + WIDE - 1) / WIDE;
		assert_int_equal(out[b].streams, streams);
		assert_int_equal(out[b].share, by_partition ? each * n_owned : share);
		for (uint32_t p = 0; p < WIDE; p++) {
			uint64_t in = model_count(tenant, b, p, owned);
			room += owned >> p & 1 && each > in ? each - in : 0;
		}
		if (!by_partition) {
			uint64_t sure = model_count(tenant, b, -1, ready);
			uint64_t part =
				(limit * (uint64_t)__builtin_popcountll(ready) + WIDE - 1) / WIDE;
			room = share > streams ? share - streams : 0;
			sure += model_spread(
				limit, n_owned - (uint64_t)__builtin_popcountll(ready));
			part = part > sure ? part - sure : 0;
			room = room < part ? room : part;
		}
		assert_int_equal(out[b].headroom, room);
	}
}

/* What is whole has no more of its own part. */
static bool model_full(uint64_t b, uint64_t limit, uint64_t owned, uint64_t ready)
{
	uint64_t pending = (uint64_t)__builtin_popcountll(owned & ~ready);
	uint64_t part = (limit * (uint64_t)__builtin_popcountll(ready) + WIDE - 1) / WIDE;
	return model_count(0, b, -1, ready) + model_spread(limit, pending) >= part;
}

static void model_compare_checks(uint64_t owned, uint64_t ready, bool by_partition)
{
	enum { ASKED = 1500 };
	static struct tally_check list[ASKED];
	uint64_t random = 362436069, limit, n_owned = (uint64_t)__builtin_popcountll(owned);
	for (size_t i = 0; i < ASKED; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		list[i].hash = i % 2 ? random : model[i].hash;
		list[i].policy = model_policies[i % 2 ? i % MODEL_POLICIES : model[i].policy];
	}
	assert_int_equal(tally_check(tally, "a", list, ASKED, NULL), 0);
	for (size_t i = 0; i < ASKED; i++) {
		uint32_t p = (uint32_t)(list[i].hash % WIDE);
		if (!(ready >> p & 1)) {
			assert_int_equal(list[i].result, TALLY_ENOTREADY);
			continue;
		}
		assert_int_equal(list[i].result, 0);
		bool known = i % 2 == 0 && !model[i].tenant;
		unsigned policy = (unsigned)(i % 2 ? i % MODEL_POLICIES : model[i].policy);
		uint64_t b = model_bucket(0, policy, &limit);
		uint64_t share = by_partition ? (limit + WIDE - 1) / WIDE
					      : (limit * n_owned + WIDE - 1) / WIDE;
		bool full = model_count(0, b, by_partition ? (int64_t)p : -1, owned) >= share ||
			    (!by_partition && model_full(b, limit, owned, ready));
		assert_int_equal(list[i].verdict, known	 ? TALLY_KNOWN
						  : full ? TALLY_FULL
							 : TALLY_NEW);
	}
}

static void buckets_and_checks_agree_with_a_plain_count_over_64_partitions(void **state)
{
	static const uint64_t sets[][2] = {
		{UINT64_MAX, UINT64_MAX},
		{UINT64_MAX, 0x00ff00ff00ff00ff},
		{0xfffff, 0xfffff},
		{0x8000000000000001, 1},
		{0xaaaaaaaaaaaaaaaa, 0xaaaa0000aaaa0000},
	};
	(void)state;
	uint64_t version = 0;
	model_write();
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
		for (int scope = LIMIT_INSTANCE; scope <= LIMIT_PARTITION; scope++) {
			for (uint32_t p = 0; p < WIDE; p++)
				atomic_store(&table_slot_mut(&run.table, p)->whole, 0);
			model_publish(sets[i][0], sets[i][1]);
			model_limits(++version, (enum limit_scope)scope);
			model_compare(0, sets[i][0], sets[i][1], scope == LIMIT_PARTITION);
			model_compare(1, sets[i][0], sets[i][1], scope == LIMIT_PARTITION);
			model_compare_checks(sets[i][0], sets[i][1], scope == LIMIT_PARTITION);
		}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(buckets_are_unlimited_when_no_limits_have_been_published),
		TEST(buckets_split_streams_by_policies_with_an_own_limit),
		TEST(buckets_of_one_partition_have_its_part_of_the_limit),
		TEST(buckets_count_what_is_owned_and_not_ready),
		TEST(buckets_do_not_count_a_store_that_is_another_one),
		TEST(limits_are_taken_anew_when_their_version_changes),
		TEST(limits_are_those_of_a_new_supervisor),
		TEST(limits_that_cannot_be_used_leave_the_last_ones),
		TEST(limits_are_whole_while_they_are_replaced),
		TEST(check_never_rejects_what_is_known),
		TEST(check_judges_by_the_bucket_of_the_policy),
		TEST(check_says_which_partitions_count_when_all_are_known),
		TEST(buckets_and_checks_agree_with_a_plain_count_over_64_partitions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
