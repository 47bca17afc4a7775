/*
 * test_client.c - libtally against a run directory whose content is known.
 */
#include "client_run.h"

static const struct put in_p0[] = {
	{"a", "", 0, 100, 0}, {"a", "gold", 4, 50, 120}, {"b", "", 8, 7, 0},
	{"a", "", UINT64_MAX - 3, 1, 60}, /* the highest hash of partition 0 */
};
static const struct put in_p1[] = {
	{"a", "gold", 1, 30, 0},
	{"c", "silver", 5, 9, 3600},
};
static const struct put in_p2[] = {{"a", "bronze", 2, 5, 0}};

#define N(array) (sizeof(array) / sizeof *(array))

static struct run run;
static struct tally *tally;

static int setup(void **state)
{
	(void)state;
	run_start(&run);
	run_write(&run, 0, 10, in_p0, N(in_p0));
	run_write(&run, 1, 11, in_p1, N(in_p1));
	run_write(&run, 2, 12, in_p2, N(in_p2));
	for (uint32_t p = 0; p < 3; p++)
		run_publish(&run, p, PART_READY, 10 + p);
	assert_int_equal(tally_open(run.dir, 0, &tally), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tally_close(&tally);
	assert_null(tally);
	run_end(&run);
	return 0;
}

static void assert_basis(const struct tally_basis *basis, uint32_t owned, uint32_t answered)
{
	assert_int_equal(basis->partitions, RUN_PARTITIONS);
	assert_int_equal(basis->owned, owned);
	assert_int_equal(basis->answered, answered);
	assert_int_equal(basis->complete, owned == answered && owned);
}

/* ------------------------------------------------------------------ what is counted */

static void client_adds_up_a_tenant_over_partitions(void **state)
{
	(void)state;
	struct tally_usage usage;
	assert_int_equal(tally_tenant(tally, "a", &usage), 0);
	assert_string_equal(usage.tenant, "a");
	assert_int_equal(usage.streams, 5);
	assert_int_equal(usage.bytes, 186);
	assert_int_equal(usage.policies, 3);
	assert_basis(&usage.basis, 3, 3);
	assert_false(usage.basis.stale);
	assert_true(tally_still_valid(tally));

	assert_int_equal(tally_tenant(tally, "nobody", &usage), TALLY_ENOTFOUND);
	assert_basis(&usage.basis, 3, 3);
	assert_int_equal(usage.streams, 0);
}

static void client_splits_a_tenant_by_policy(void **state)
{
	(void)state;
	struct tally_policy policies[2];
	struct tally_basis basis;
	size_t n;
	assert_int_equal(tally_policies(tally, "a", policies, 2, &n, &basis), 0);
	assert_int_equal(n, 3); /* more than there was room for */
	assert_string_equal(policies[0].policy, "");
	assert_int_equal(policies[0].streams, 2);
	assert_int_equal(policies[0].bytes, 101);
	assert_string_equal(policies[1].policy, "bronze");
	assert_int_equal(policies[1].streams, 1);
	assert_basis(&basis, 3, 3);
}

static void client_splits_a_tenant_by_minute(void **state)
{
	(void)state;
	static struct tally_minute minutes[RUN_WINDOW + 1];
	struct tally_basis basis;
	size_t n;
	uint64_t streams = 0, bytes = 0;
	assert_int_equal(tally_histogram(tally, "a", minutes, RUN_WINDOW + 1, &n, &basis), 0);
	assert_int_equal(n, RUN_WINDOW + 1);
	for (size_t i = 0; i < n; i++) {
		streams += minutes[i].streams;
		bytes += minutes[i].bytes;
		assert_int_equal(minutes[i].minute, minutes[0].minute + (int64_t)i);
	}
	assert_int_equal(streams, 5);
	assert_int_equal(bytes, 186);
	int64_t now_minute = tally_now_ms(tally) / 60000;
	assert_in_range(minutes[n - 1].minute, now_minute - 1, now_minute);
	/* The one of 120 s ago lies two minutes back, whatever second it is. */
	uint64_t back = minutes[n - 3].bytes + minutes[n - 4].bytes;
	assert_true(back == 50 || back == 51);
	assert_int_equal(
		tally_histogram(tally, "a", minutes, RUN_WINDOW, &n, &basis), TALLY_EINVALID);
}

static void client_lists_tenants_by_name_and_by_size(void **state)
{
	(void)state;
	struct tally_usage list[4];
	struct tally_basis basis;
	size_t n;
	assert_int_equal(tally_tenants(tally, NULL, list, 4, &n, &basis), 0);
	assert_int_equal(n, 3);
	assert_string_equal(list[0].tenant, "a");
	assert_int_equal(list[0].streams, 5);
	assert_int_equal(list[0].policies, 3);
	assert_string_equal(list[1].tenant, "b");
	assert_string_equal(list[2].tenant, "c");
	assert_int_equal(list[2].bytes, 9);
	assert_int_equal(list[2].policies, 1);
	assert_int_equal(tally_tenants(tally, "a", list, 1, &n, &basis), 0);
	assert_int_equal(n, 1);
	assert_string_equal(list[0].tenant, "b");
	assert_int_equal(tally_tenants(tally, "c", list, 4, &n, &basis), 0);
	assert_int_equal(n, 0);

	assert_int_equal(tally_top(tally, list, 2, &n, &basis), 0);
	assert_int_equal(n, 2);
	assert_string_equal(list[0].tenant, "a");
	assert_string_equal(list[1].tenant, "b"); /* as many as c: by name */
	assert_basis(&basis, 3, 3);
}

static void client_finds_one_stream(void **state)
{
	(void)state;
	struct tally_stream stream;
	assert_int_equal(tally_stream(tally, "a", 4, &stream), 0);
	assert_int_equal(stream.partition, 0);
	assert_true(stream.active);
	assert_string_equal(stream.policy, "gold");
	int64_t age = tally_now_ms(tally) - stream.last_seen_ms;
	assert_in_range(age, 120000, 140000);
	assert_int_equal(tally_stream(tally, "a", 8, &stream), TALLY_ENOTFOUND); /* b's */
	assert_true(tally_still_valid(tally));
	run_publish(&run, 0, PART_DRAINING, 10);
	assert_false(tally_still_valid(tally)); /* "not found" stands on the partition, too */
	assert_int_equal(tally_stream(tally, "a", 4, &stream), TALLY_ENOTREADY);
	assert_int_equal(tally_stream(tally, "a", 3, &stream), TALLY_ENOTREADY); /* not ours */
}

static void client_looks_up_many_streams_at_once(void **state)
{
	(void)state;
	struct tally_lookup ask[] = {
		{.hash = 0}, {.hash = 1}, {.hash = 3}, {.hash = 8}, {.hash = 4}, {.hash = 2}};
	assert_int_equal(tally_lookup(tally, "a", ask, N(ask)), 0);
	static const int expected[] = {0, 0, TALLY_ENOTREADY, TALLY_ENOTFOUND, 0, 0};
	for (size_t i = 0; i < N(ask); i++) {
		assert_int_equal(ask[i].result, expected[i]);
		assert_int_equal(ask[i].partition, ask[i].hash % RUN_PARTITIONS);
		assert_int_equal(ask[i].active, expected[i] == 0);
		assert_int_equal(ask[i].generation,
			expected[i] == TALLY_ENOTREADY ? 0 : 10 + ask[i].partition);
	}
	assert_true(tally_still_valid(tally));
	run_lease(&run, 2, 0);
	assert_false(tally_still_valid(tally));
}

static void client_lists_each_active_stream_once(void **state)
{
	(void)state;
	struct tally_cursor cursor = {0};
	struct tally_stream page[2];
	struct tally_basis basis;
	uint64_t seen[8];
	size_t n, total = 0;
	while (!cursor.done) {
		assert_int_equal(tally_streams(tally, "a", &cursor, page, 2, &n, &basis), 0);
		for (size_t i = 0; i < n; i++)
			seen[total++] = page[i].hash;
		assert_true(total <= 5);
		assert_basis(&basis, 3, 3);
	}
	static const uint64_t expected[] = {0, 4, UINT64_MAX - 3, 1, 2};
	assert_int_equal(total, N(expected));
	assert_memory_equal(seen, expected, sizeof expected);
	cursor = (struct tally_cursor){0};
	assert_int_equal(
		tally_streams(tally, "nobody", &cursor, page, 2, &n, &basis), TALLY_ENOTFOUND);
	assert_true(cursor.done);
}

static void client_skips_expired_streams_over_many_transactions(void **state)
{
	(void)state;
	enum { OLD = 3000, NEW = 700 };
	struct put *puts = calloc(OLD, sizeof *puts);
	struct tally_stream *page = calloc(NEW, sizeof *page);
	struct tally_cursor cursor = {0};
	struct tally_basis basis;
	size_t n, total = 0;
	for (size_t i = 0; i < OLD; i++)
		puts[i] = (struct put){"old", "", i * 4 + 3, 1, 0};
	run_write_how(&run, 3, 13, puts, OLD,
		&(struct worker_how){.back_ms = (RUN_WINDOW + 5) * INT64_C(60000)});
	for (size_t i = 0; i < NEW; i++)
		puts[i] = (struct put){"old", "", (i * 2 + 1500) * 4 + 3, 1, 0};
	run_write(&run, 3, 13, puts, NEW);
	run_publish(&run, 3, PART_READY, 13);
	for (uint64_t last = 0; !cursor.done; total += n) {
		assert_int_equal(tally_streams(tally, "old", &cursor, page, 100, &n, &basis), 0);
		for (size_t i = 0; i < n; i++) {
			assert_true(page[i].active);
			assert_true(page[i].hash > last);
			last = page[i].hash;
		}
	}
	assert_int_equal(total, NEW);
	struct tally_stream stream;
	assert_int_equal(tally_stream(tally, "old", 3, &stream), 0); /* stored, though expired */
	assert_false(stream.active);
	struct tally_usage usage;
	assert_int_equal(tally_tenant(tally, "old", &usage), 0);
	assert_int_equal(usage.streams, NEW);
	free(page);
	free(puts);
}

static void client_gives_one_partition_as_of_its_offset(void **state)
{
	(void)state;
	struct tally_part_usage part;
	assert_int_equal(tally_partition_usage(tally, 0, "a", &part), 0);
	assert_int_equal(part.generation, 10);
	assert_int_equal(part.next_offset, 4);
	assert_int_equal(part.streams, 3);
	assert_int_equal(part.bytes, 151);
	assert_int_equal(tally_partition_usage(tally, 1, "b", &part), TALLY_ENOTFOUND);
	assert_int_equal(part.generation, 11);
	assert_int_equal(part.next_offset, 2);
	assert_int_equal(tally_partition_usage(tally, 3, "a", &part), TALLY_ENOTREADY);
	assert_int_equal(tally_partition_usage(tally, 4, "a", &part), TALLY_EINVALID);
	run_write(&run, 1, 11, &(struct put){"b", "", 9, 2, 0}, 1);
	assert_int_equal(tally_partition_usage(tally, 1, "b", &part), 0); /* sees the new commit */
	assert_int_equal(part.next_offset, 3);
	assert_int_equal(part.streams, 1);
}

static void client_gives_bytes_per_second_over_the_rate_window(void **state)
{
	(void)state;
	static const struct put recent[] = {{"rate", "", 3, 60000, 0},
		{"rate", "gold", 7, 30000, 61}, {"rate", "", 11, 9999, 600}};
	struct tally_usage usage, list[5];
	size_t n;
	run_write(&run, 3, 13, recent, 3);
	run_publish(&run, 3, PART_READY, 13);
	assert_int_equal(tally_tenant(tally, "rate", &usage), 0);
	/* 90000 bytes in four whole minutes and some of the present one. */
	assert_true(usage.bytes_per_sec > 90000 / 300.1 && usage.bytes_per_sec < 90000 / 240.9);
	assert_int_equal(tally_top(tally, list, 5, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].tenant, "rate"))
			assert_true(list[i].bytes_per_sec > 300 && list[i].bytes_per_sec < 374);
	_Atomic int64_t *offset = &table_head_mut(&run.table)->clock_offset_ms;
	atomic_store(offset, 6 * 60000);
	assert_int_equal(tally_tenant(tally, "rate", &usage), 0);
	assert_float_equal(usage.bytes_per_sec, 0, 0);
	assert_int_equal(usage.bytes, 99999);
}

/* ------------------------------------------------------------------ time */

static void client_counts_by_the_instances_clock(void **state)
{
	(void)state;
	struct tally_usage usage;
	_Atomic int64_t *offset = &table_head_mut(&run.table)->clock_offset_ms;
	int64_t before = tally_now_ms(tally);
	atomic_store(offset, (RUN_WINDOW + 2) * INT64_C(60000));
	assert_int_equal(tally_tenant(tally, "a", &usage), 0);
	assert_int_equal(usage.streams, 0); /* all out of the window */
	assert_in_range(
		tally_now_ms(tally) - before, (RUN_WINDOW + 2) * 60000, (RUN_WINDOW + 3) * 60000);
	int64_t ahead = tally_now_ms(tally);
	atomic_store(offset, 0);
	assert_true(tally_now_ms(tally) >= ahead); /* never back */
	atomic_store(offset, INT64_MAX);
	assert_true(tally_now_ms(tally) >= ahead);
}

/* ------------------------------------------------------------------ facts */

static void client_describes_a_partition(void **state)
{
	(void)state;
	struct tally_partition part;
	struct table_slot *slot = table_slot_mut(&run.table, 1);
	atomic_store(&slot->death, DEATH_SIGNAL);
	atomic_store(&slot->death_code, 11);
	atomic_store(&slot->restarts, 3);
	run_publish(&run, 1, PART_REPLAYING, 11);
	assert_int_equal(tally_partition(tally, 1, &part), 0);
	assert_string_equal(part.state, "replaying");
	assert_false(part.ready);
	assert_int_equal(part.generation, 11);
	assert_string_equal(part.death, "signal");
	assert_string_equal(part.death_detail, "SIGSEGV");
	assert_int_equal(part.restarts, 3);
	assert_true(part.has_stats);
	assert_string_equal(part.phase, "replaying");
	assert_string_equal(part.problems, "degraded stalled");
	assert_int_equal(part.next_offset, 500);
	assert_int_equal(part.lag, 500);
	assert_true(part.progress > 0.499 && part.progress < 0.501);
	assert_int_equal(part.eta_ms, 4000);
	assert_int_equal(part.skipped[SKIP_TOO_OLD], 17);
	assert_int_equal(tally_partition(tally, 3, &part), 0);
	assert_string_equal(part.state, "free");
	assert_false(part.has_stats);
	/* Another's stats are not its own. */
	assert_int_equal(renameat(run.dirfd, "p0.10/stats", run.dirfd, "p1.11/stats"), 0);
	assert_int_equal(tally_partition(tally, 1, &part), 0);
	assert_false(part.has_stats);
	assert_int_equal(tally_partition(tally, 4, &part), TALLY_EINVALID);
}

static void client_describes_the_instance(void **state)
{
	(void)state;
	struct tally_instance in;
	struct tally_partition parts[2];
	size_t n;
	run_publish(&run, 3, PART_PENDING, 13);
	assert_int_equal(tally_instance(tally, &in), 0);
	assert_string_equal(in.topic, "usage");
	assert_string_equal(in.group_state, "member");
	assert_int_equal(in.partitions, RUN_PARTITIONS);
	assert_int_equal(in.topic_partitions, 0); /* written by no supervisor yet */
	atomic_store(&table_head_mut(&run.table)->topic_partitions, 12);
	assert_int_equal(tally_instance(tally, &in), 0);
	assert_int_equal(in.topic_partitions, 12);
	assert_int_equal(in.owned, 4);
	assert_int_equal(in.ready, 3);
	assert_true(in.alive);
	assert_int_equal(tally_partitions(tally, parts, 2, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(parts[1].partition, 1);
	atomic_store(&table_head_mut(&run.table)->heartbeat, host_boot_ns() - 6000000000u);
	assert_int_equal(tally_instance(tally, &in), 0);
	assert_false(in.alive);
	assert_in_range(in.heartbeat_age_ms, 6000, 60000);
}

static void client_refuses_arguments_out_of_range(void **state)
{
	(void)state;
	char name[300];
	struct tally_usage usage;
	struct tally *other = (struct tally *)name;
	memset(name, 'x', sizeof name);
	name[257] = 0;
	assert_int_equal(tally_tenant(tally, name, &usage), TALLY_EINVALID);
	assert_int_equal(tally_tenant(tally, "", &usage), TALLY_EINVALID);
	assert_int_equal(tally_tenant(tally, NULL, &usage), TALLY_EINVALID);
	name[256] = 0;
	assert_int_equal(tally_tenant(tally, name, &usage), TALLY_ENOTFOUND);
	assert_int_equal(tally_open(run.dir, 8, &other), TALLY_EINVALID);
	assert_null(other);
	assert_int_equal(tally_open("", 0, &other), TALLY_EINVALID);
	tally_close(&other);
	tally_close(NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(client_adds_up_a_tenant_over_partitions),
		TEST(client_splits_a_tenant_by_policy),
		TEST(client_splits_a_tenant_by_minute),
		TEST(client_lists_tenants_by_name_and_by_size),
		TEST(client_finds_one_stream),
		TEST(client_looks_up_many_streams_at_once),
		TEST(client_lists_each_active_stream_once),
		TEST(client_skips_expired_streams_over_many_transactions),
		TEST(client_gives_one_partition_as_of_its_offset),
		TEST(client_gives_bytes_per_second_over_the_rate_window),
		TEST(client_counts_by_the_instances_clock),
		TEST(client_describes_a_partition),
		TEST(client_describes_the_instance),
		TEST(client_refuses_arguments_out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
