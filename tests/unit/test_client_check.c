/*
 * test_client_check.c - limits, buckets, and what may come in, over four partitions.
 *
 *	store, limits file --libtally--> tally_buckets, tally_check
 */
#include <signal.h>
#include <sys/prctl.h>

#include "client_reader.h"

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

static void publish(uint64_t version, uint64_t preset, enum limit_scope scope)
{
	publish_limits(&(struct limits_source){.version = version,
		.default_streams = preset,
		.scope = scope,
		.tenants = tenants,
		.n_tenants = sizeof tenants / sizeof *tenants});
}

static void publish_one(
	uint64_t version, const char *name, uint64_t streams, enum limit_scope scope)
{
	const struct limits_tenant one = {.name = name, .streams = streams, .has_streams = true};
	publish_limits(&(struct limits_source){.version = version,
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
	for (int i = 0; i < ROUNDS || seen <= 10; i++) {
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

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, reader_setup, reader_teardown)
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
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
