/*
 * test_client_protocol.c - libtally answers only from what is published all the
 * time while it reads, and finds its way when that changes.
 */
#include "client_reader.h"

/* ------------------------------------------------------------------ readiness */

static void client_answers_from_ready_partitions_only(void **state)
{
	(void)state;
	run_publish(&run, 1, PART_READY, 7);
	assert_streams(tally, 10);
	for (int s = PART_FREE; s < PART_STATES; s++) {
		if (s == PART_READY)
			continue;
		run_publish(&run, 0, (enum part_state)s, 3);
		assert_streams(tally, 7);
		assert_int_equal(usage.basis.owned, s == PART_FREE ? 1 : 2);
		assert_int_equal(usage.basis.answered, 1);
		assert_int_equal(usage.basis.complete, s == PART_FREE);
	}
	run_publish(&run, 0, PART_FREE, 0);
	run_publish(&run, 1, PART_PARKED, 7);
	assert_int_equal(tally_tenant(tally, "t", &usage), TALLY_ENOTREADY);
	assert_int_equal(usage.basis.owned, 1);
}

static void client_stops_answering_when_the_lease_is_over(void **state)
{
	(void)state;
	assert_streams(tally, 3);
	assert_true(tally_still_valid(tally));
	run_lease(&run, 0, -1);
	assert_false(tally_still_valid(tally));
	assert_int_equal(tally_tenant(tally, "t", &usage), TALLY_ENOTREADY);
	run_lease(&run, 0, 60000);
	assert_streams(tally, 3);
}

static void client_says_stale_when_tallyd_is_gone(void **state)
{
	(void)state;
	run_lease(&run, 0, 0);
	atomic_store(&table_head_mut(&run.table)->heartbeat, host_boot_ns() - 6000000000u);
	assert_int_equal(tally_tenant(tally, "t", &usage), TALLY_ESTALE);
	struct tally_stream stream;
	assert_int_equal(tally_stream(tally, "t", 0, &stream), TALLY_ESTALE);
}

static void client_reads_what_is_not_published_with_stale_ok_only(void **state)
{
	(void)state;
	struct tally *any;
	assert_int_equal(tally_open(run.dir, TALLY_STALE_OK, &any), 0);
	assert_streams(any, 3);
	assert_false(usage.basis.stale);
	for (int s = PART_PENDING; s < PART_STATES; s++) {
		run_publish(&run, 0, (enum part_state)s, 3);
		run_publish(&run, 1, PART_READY, 7);
		assert_streams(any, 10);
		assert_int_equal(usage.basis.stale, s != PART_READY && s != PART_REPLAYING);
		assert_int_equal(usage.basis.complete, s != PART_REPLAYING);
		assert_int_equal(usage.basis.partial, s == PART_REPLAYING);
		assert_true(tally_still_valid(any));
		struct tally_cursor cursor = {0};
		struct tally_stream page[20];
		struct tally_basis basis;
		size_t n;
		assert_int_equal(tally_streams(any, "t", &cursor, page, 20, &n, &basis), 0);
		assert_int_equal(n, 10);
		assert_int_equal(basis.stale, s != PART_READY && s != PART_REPLAYING);
	}
	run_publish(&run, 0, PART_READY, 3);
	run_lease(&run, 0, 0);
	assert_streams(any, 10);
	assert_true(usage.basis.stale);
	run_publish(&run, 0, PART_STOPPED, 99); /* its directory is not there */
	assert_streams(any, 7);
	assert_false(usage.basis.complete);
	run_publish(&run, 0, PART_FREE, 3);
	assert_streams(any, 7);
	assert_int_equal(usage.basis.owned, 1);
	tally_close(&any);
}

/* Partition 1 has 7 streams of "t", the hashes 1, 5, 9, ... */
static void assert_single_streams(struct tally *t, bool replaying)
{
	int absent = replaying ? TALLY_ENOTREADY : TALLY_ENOTFOUND;
	struct tally_lookup lookups[] = {{.hash = 1}, {.hash = 4001}, {.hash = 4000}};
	struct tally_stream stream;
	assert_int_equal(tally_stream(t, "t", 1, &stream), 0);
	assert_true(stream.active);
	assert_int_equal(tally_stream(t, "t", 4001, &stream), absent);
	assert_int_equal(tally_stream(t, "t", 4000, &stream), TALLY_ENOTFOUND);
	assert_int_equal(tally_lookup(t, "t", lookups, 3), 0);
	assert_int_equal(lookups[0].result, 0);
	assert_true(lookups[0].active);
	assert_int_equal(lookups[1].result, absent);
	assert_int_equal(lookups[2].result, TALLY_ENOTFOUND);
}

static void assert_checks(struct tally *t, bool replaying)
{
	struct tally_check checks[] = {{.hash = 1}, {.hash = 4001}, {.hash = 4000}};
	assert_int_equal(tally_check(t, "t", checks, 3, NULL), 0);
	assert_int_equal(checks[0].result, replaying ? TALLY_ENOTREADY : 0);
	assert_int_equal(checks[1].result, replaying ? TALLY_ENOTREADY : 0);
	assert_int_equal(checks[2].result, 0);
	assert_int_equal(checks[2].verdict, TALLY_NEW);
}

static void assert_partial(struct tally *t)
{
	assert_streams(t, 10);
	assert_int_equal(usage.basis.owned, 2);
	assert_int_equal(usage.basis.answered, 1);
	assert_int_equal(usage.basis.partial, 1);
	assert_false(usage.basis.complete);
	assert_false(usage.basis.stale);
	assert_in_range(usage.basis.counted_to_ms, host_wall_ms() - 60000, host_wall_ms());
	assert_single_streams(t, true);
	assert_checks(t, true);
}

static void client_reads_a_replay_as_far_as_it_has_come_with_partial_ok_only(void **state)
{
	(void)state;
	struct tally *any;
	assert_int_equal(tally_open(run.dir, TALLY_PARTIAL_OK, &any), 0);
	for (int s = PART_PENDING; s < PART_STATES; s++) {
		if (s == PART_READY)
			continue;
		run_publish(&run, 1, (enum part_state)s, 7);
		assert_streams(tally, 3);
		assert_streams(any, s == PART_REPLAYING ? 10 : 3);
	}
	run_publish(&run, 1, PART_REPLAYING, 7);
	assert_partial(any);
	assert_streams(any, 10);
	run_lease(&run, 1, -1);
	assert_false(tally_still_valid(any));
	assert_streams(any, 3);
	run_publish(&run, 1, PART_REPLAYING, 7);
	assert_streams(any, 10);
	run_publish(&run, 0, PART_FREE, 3); /* nobody else: it answers alone */
	assert_streams(any, 7);
	assert_int_equal(usage.basis.answered, 0);
	tally_close(&any);
}

static void client_calls_a_replay_complete_when_it_is_ready_and_not_when_it_goes_on(void **state)
{
	(void)state;
	struct tally *any;
	assert_int_equal(tally_open(run.dir, TALLY_PARTIAL_OK, &any), 0);
	run_publish(&run, 1, PART_REPLAYING, 7);
	assert_streams(any, 10);
	run_publish(&run, 1, PART_READY, 7);
	assert_false(tally_still_valid(any)); /* it was read before its last records */
	assert_streams(any, 10);
	assert_true(usage.basis.complete);
	assert_int_equal(usage.basis.partial, 0);
	assert_int_equal(usage.basis.counted_to_ms, 0);
	assert_single_streams(any, false);
	assert_checks(any, false);
	/* Back after a death, or an outage: what has come meanwhile is missing. */
	run_publish(&run, 1, PART_REPLAYING, 7);
	assert_partial(any);
	tally_close(&any);
}

static void client_says_of_each_answer_that_a_replay_is_in_it(void **state)
{
	(void)state;
	struct tally_check check = {.hash = 4}; /* of the other partition */
	struct tally_tenant_limits limits;
	struct tally_cursor cursor = {0};
	struct tally_part_usage part;
	struct tally_stream page[2];
	struct tally_bucket bucket;
	struct tally_basis basis;
	struct tally *any;
	size_t n;
	assert_int_equal(tally_open(run.dir, TALLY_PARTIAL_OK, &any), 0);
	run_publish(&run, 1, PART_REPLAYING, 7);
	assert_int_equal(tally_buckets(any, "t", -1, &limits, &bucket, 1, &n), 0);
	assert_int_equal(bucket.streams, 10);
	assert_int_equal(limits.basis.answered, 1);
	assert_int_equal(limits.basis.partial, 1);
	do {
		assert_int_equal(tally_streams(any, "t", &cursor, page, 2, &n, &basis), 0);
		assert_int_equal(basis.partial, 1);
		assert_true(basis.counted_to_ms > 0); /* also of a page that has nothing of it */
	} while (!cursor.done);
	assert_int_equal(tally_check(any, "t", &check, 1, &limits), 0);
	assert_int_equal(check.verdict, TALLY_KNOWN);
	assert_int_equal(limits.basis.answered, 1);
	assert_int_equal(limits.basis.partial, 1);
	assert_false(limits.basis.complete);
	assert_int_equal(tally_partition_usage(any, 1, "t", &part), TALLY_ENOTREADY);
	tally_close(&any);
}

static void client_calls_no_stale_answer_complete_that_is_partial(void **state)
{
	(void)state;
	struct tally *any;
	assert_int_equal(tally_open(run.dir, TALLY_STALE_OK, &any), 0);
	run_publish(&run, 1, PART_PARKED, 7);
	assert_streams(any, 10);
	assert_int_equal(usage.basis.partial, 1);
	assert_false(usage.basis.complete);
	assert_checks(any, true);
	run_publish(&run, 1, PART_READY, 7);
	run_publish(&run, 1, PART_PARKED, 7);
	assert_streams(any, 10);
	assert_int_equal(usage.basis.partial, 0);
	assert_true(usage.basis.complete);
	tally_close(&any);
}

/* ------------------------------------------------------------------ changes while reading */

struct hook {
	int reads, change_until; /* changes in the first so many reads */
	void (*change)(int nth);
	uint64_t generation;
};

static int read_and_change(struct client_visit *visit, void *arg)
{
	struct hook *hook = arg;
	hook->generation = visit->generation;
	if (hook->reads++ < hook->change_until)
		hook->change(hook->reads);
	return 0;
}

static int visit_with(struct hook *hook)
{
	assert_int_equal(client_enter(tally), 0);
	return client_visit(tally, 0, read_and_change, hook);
}

static void other_generation(int nth)
{
	run_publish(&run, 0, PART_READY, nth % 2 ? 5 : 3);
}

static void take_away(int nth)
{
	(void)nth;
	run_publish(&run, 0, PART_DRAINING, 3);
}

static void end_lease(int nth)
{
	(void)nth;
	run_lease(&run, 0, 0);
}

static void retire(int nth)
{
	(void)nth;
	atomic_store(&table_head_mut(&run.table)->retired, 1);
}

static void client_reads_again_when_the_word_changes_under_it(void **state)
{
	(void)state;
	struct hook hook = {.change_until = 1, .change = other_generation};
	assert_int_equal(visit_with(&hook), 0);
	assert_int_equal(hook.reads, 2);
	assert_int_equal(hook.generation, 5);
	assert_int_equal(tally->n_stands, 1);
	assert_true(tally->stands[0].word == table_word(PART_READY, 5));
	assert_true(tally_still_valid(tally));
}

static void client_gives_up_when_the_word_never_stands(void **state)
{
	(void)state;
	struct hook hook = {.change_until = 100, .change = other_generation};
	assert_int_equal(visit_with(&hook), ERR_NOT_READY);
	assert_int_equal(hook.reads, CLIENT_TRIES);
	assert_int_equal(tally->n_stands, 0);
}

static void renew_lease(int nth)
{
	(void)nth;
	run_lease(&run, 0, 60000);
}

static void client_calls_stale_what_was_stale_when_it_began(void **state)
{
	(void)state;
	struct hook hook = {.change_until = 1, .change = renew_lease};
	tally->flags = TALLY_STALE_OK;
	run_lease(&run, 0, 0);
	assert_int_equal(visit_with(&hook), 0);
	assert_int_equal(hook.reads, 1);
	assert_false(tally->stands[0].ready);
}

static int visit_once(struct tally *t, void *arg)
{
	return client_visit(t, 0, read_and_change, arg);
}

static void client_throws_away_what_was_revoked_while_it_read(void **state)
{
	(void)state;
	void (*changes[])(int) = {take_away, end_lease, retire};
	for (size_t i = 0; i < 3; i++) {
		struct hook hook = {.change_until = 1, .change = changes[i]};
		run_publish(&run, 0, PART_READY, 3);
		assert_int_equal(client_call(tally, visit_once, &hook),
			changes[i] == retire ? TALLY_ESTALE : TALLY_ENOTREADY);
		assert_int_equal(hook.reads, 1);
		assert_int_equal(tally->n_stands, 0);
	}
}

static int end_lease_and_fail(struct client_visit *visit, void *arg)
{
	(void)visit, (void)arg;
	end_lease(1);
	return ERR_CORRUPT;
}

static void client_blames_no_store_whose_lease_has_ended(void **state)
{
	(void)state;
	assert_int_equal(client_enter(tally), 0);
	assert_int_equal(client_visit(tally, 0, end_lease_and_fail, NULL), ERR_NOT_READY);
}

static int revoke_the_other(struct tally *t, void *arg)
{
	struct hook *hook = arg;
	struct hook quiet = {0};
	hook->reads++;
	int err = client_visit(t, 0, read_and_change, &quiet);
	if (!err)
		err = client_visit(t, 1, read_and_change, &quiet);
	if (hook->reads == 1)
		run_publish(&run, 0, PART_READY, 5);
	return err;
}

static void client_asks_all_again_when_an_earlier_partition_changed(void **state)
{
	(void)state;
	struct hook hook = {0};
	run_publish(&run, 1, PART_READY, 7);
	assert_int_equal(client_call(tally, revoke_the_other, &hook), 0);
	assert_int_equal(hook.reads, 2);
	assert_true(tally->stands[0].word == table_word(PART_READY, 5));
}

/* ------------------------------------------------------------------ another number of partitions */

#define GROWN (2 * RUN_PARTITIONS)

/* As the supervisor does it: words that name stores go first, then the number, then new stores. */
static void set_partitions(uint32_t n)
{
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		run_publish(&run, p, PART_PENDING, 0);
	atomic_store(&table_head_mut(&run.table)->partitions, n);
}

/* Generation 9 of partition 0 for twice as many: hash 0 is still there, hash 4 is not. */
static void write_grown(void)
{
	struct put put = {"t", "", 0, 10, 0};
	run_write_how(&run, 0, 9, &put, 1, &(struct worker_how){.partitions = GROWN});
}

static int result_of(struct tally *t, uint64_t hash)
{
	struct tally_lookup one = {.hash = hash};
	assert_int_equal(tally_lookup(t, "t", &one, 1), 0);
	return one.result;
}

static void client_reads_no_store_of_another_number_of_partitions(void **state)
{
	(void)state;
	write_grown();
	run_publish(&run, 0, PART_READY, 9);
	assert_int_equal(tally_tenant(tally, "t", &usage), TALLY_ENOTREADY);
	assert_int_equal(result_of(tally, 0), TALLY_ENOTREADY);
	atomic_store(&table_head_mut(&run.table)->partitions, GROWN);
	assert_streams(tally, 1);
	assert_int_equal(usage.basis.partitions, GROWN);
}

static void client_routes_anew_when_the_number_of_partitions_changes(void **state)
{
	(void)state;
	write_grown();
	assert_int_equal(result_of(tally, RUN_PARTITIONS), 0);
	assert_true(tally_still_valid(tally));
	set_partitions(GROWN);
	assert_false(tally_still_valid(tally));
	run_publish(&run, 0, PART_READY, 9);
	/* In partition 4 now, which is another instance's: not "unknown" from partition 0. */
	assert_int_equal(result_of(tally, RUN_PARTITIONS), TALLY_ENOTREADY);
	assert_int_equal(result_of(tally, 0), 0);
	assert_int_equal(client_env_count(), 1);
}

/* It has the store open, and no word's change tells it to look again. */
static void client_reads_no_open_store_of_another_number_of_partitions(void **state)
{
	(void)state;
	struct tally *any;
	assert_int_equal(tally_open(run.dir, TALLY_STALE_OK, &any), 0);
	assert_streams(any, 3);
	run_publish(&run, 0, PART_DRAINING, 3);
	assert_streams(any, 3);
	atomic_store(&table_head_mut(&run.table)->partitions, GROWN);
	assert_int_equal(tally_tenant(any, "t", &usage), TALLY_ENOTREADY);
	assert_int_equal(result_of(any, 0), TALLY_ENOTREADY);
	tally_close(&any);
}

/* A reader that stands still between the number and the word, for as long as the change takes. */
static int route_and_stand_still(struct tally *t, void *arg)
{
	struct hook *hook = arg;
	struct hook quiet = {0};
	uint32_t n = client_partitions(t);
	if (hook->reads++ == 0) {
		set_partitions(GROWN);
		run_publish(&run, 0, PART_READY, 9);
	}
	assert_int_equal(client_partitions(t), n); /* one number all through a call */
	int err = client_visit(t, RUN_PARTITIONS % n, read_and_change, &quiet);
	assert_int_equal(quiet.reads, 0); /* it gets to see no store at all */
	return err;
}

static void client_mixes_no_old_number_with_a_new_store(void **state)
{
	(void)state;
	struct hook hook = {0};
	write_grown();
	assert_int_equal(client_call(tally, route_and_stand_still, &hook), ERR_NOT_READY);
	assert_int_equal(hook.reads, 2);
	assert_int_equal(tally->partitions, GROWN);
}

/* The same when it has read the old store before: the answer is thrown away. */
static int read_then_change(struct tally *t, void *arg)
{
	struct hook *hook = arg;
	struct hook quiet = {0};
	int err = client_visit(t, 0, read_and_change, &quiet);
	if (hook->reads++ == 0) /* the number alone: as if the word were back as it was */
		atomic_store(&table_head_mut(&run.table)->partitions, GROWN);
	return err;
}

static void client_throws_away_what_was_routed_by_an_old_number(void **state)
{
	(void)state;
	struct hook hook = {0};
	assert_int_equal(client_call(tally, read_then_change, &hook), ERR_NOT_READY);
	assert_int_equal(hook.reads, 2);
}

/* ------------------------------------------------------------------ changes between calls */

/* Numbers are by generation: "t" is the first one in 3, the second one in 7. */
static void client_takes_no_number_of_a_tenant_to_another_generation(void **state)
{
	(void)state;
	const struct put puts[] = {{"x", "", 0, 10, 0}, {"x", "", 4, 10, 0}, {"t", "", 8, 10, 0}};
	run_write(&run, 0, 7, puts, 3);
	assert_streams(tally, 3);
	assert_int_equal(tally_tenant(tally, "x", &usage), TALLY_ENOTFOUND);
	assert_streams(tally, 3);
	run_publish(&run, 0, PART_READY, 7);
	assert_streams(tally, 1);
	assert_int_equal(tally_tenant(tally, "x", &usage), 0);
	assert_int_equal(usage.streams, 2);
	assert_streams(tally, 1);
	run_publish(&run, 0, PART_READY, 3);
	assert_streams(tally, 3);
}

static void client_follows_a_new_generation(void **state)
{
	(void)state;
	assert_streams(tally, 3);
	run_publish(&run, 0, PART_READY, 5);
	assert_false(tally_still_valid(tally));
	assert_streams(tally, 5);
	assert_int_equal(client_env_count(), 1);
}

static void client_lets_go_of_maps_when_idle(void **state)
{
	(void)state;
	assert_streams(tally, 3);
	tally_idle(tally);
	assert_int_equal(client_env_count(), 1);
	run_publish(&run, 0, PART_DRAINING, 3);
	tally_idle(tally);
	assert_int_equal(client_env_count(), 1); /* it may come back */
	run_publish(&run, 0, PART_FREE, 0);
	tally_idle(tally);
	assert_int_equal(client_env_count(), 0);
}

static void client_attaches_anew_when_the_table_was_replaced(void **state)
{
	(void)state;
	struct table_head facts = run_facts();
	struct tally_instance in;
	assert_streams(tally, 3);
	snprintf(facts.instance, sizeof facts.instance, "second");
	run_install(&run, &facts);
	assert_false(tally_still_valid(tally));
	assert_int_equal(tally_instance(tally, &in), 0);
	assert_string_equal(in.instance, "second");
	assert_int_equal(client_env_count(), 0); /* its old maps went with the old table */
	assert_int_equal(tally_tenant(tally, "t", &usage), TALLY_ENOTREADY);
	run_publish(&run, 0, PART_READY, 3); /* adopted */
	assert_streams(tally, 3);
}

static void client_finds_a_run_directory_that_was_made_anew(void **state)
{
	(void)state;
	struct run second;
	char aside[80];
	assert_streams(tally, 3);
	snprintf(aside, sizeof aside, "%s.old", run.dir);
	assert_int_equal(rename(run.dir, aside), 0);
	assert_int_equal(tally_tenant(tally, "t", &usage), 0); /* the table is still the same */
	atomic_store(&table_head_mut(&run.table)->retired, 1);
	assert_int_equal(tally_tenant(tally, "t", &usage), TALLY_ESTALE); /* gone, for now */
	run_start(&second);
	assert_int_equal(rename(second.dir, run.dir), 0);
	snprintf(second.dir, sizeof second.dir, "%s", run.dir);
	run_write_n(&second, 2, 4, 4);
	run_publish(&second, 2, PART_READY, 4);
	assert_streams(tally, 4);
	tally_close(&tally);
	run_end(&second);
	snprintf(run.dir, sizeof run.dir, "%.*s", (int)sizeof run.dir - 1, aside);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, reader_setup_generations, reader_teardown)
	const struct CMUnitTest tests[] = {
		TEST(client_answers_from_ready_partitions_only),
		TEST(client_stops_answering_when_the_lease_is_over),
		TEST(client_says_stale_when_tallyd_is_gone),
		TEST(client_reads_what_is_not_published_with_stale_ok_only),
		TEST(client_reads_a_replay_as_far_as_it_has_come_with_partial_ok_only),
		TEST(client_calls_a_replay_complete_when_it_is_ready_and_not_when_it_goes_on),
		TEST(client_says_of_each_answer_that_a_replay_is_in_it),
		TEST(client_calls_no_stale_answer_complete_that_is_partial),
		TEST(client_reads_again_when_the_word_changes_under_it),
		TEST(client_gives_up_when_the_word_never_stands),
		TEST(client_calls_stale_what_was_stale_when_it_began),
		TEST(client_throws_away_what_was_revoked_while_it_read),
		TEST(client_blames_no_store_whose_lease_has_ended),
		TEST(client_asks_all_again_when_an_earlier_partition_changed),
		TEST(client_reads_no_store_of_another_number_of_partitions),
		TEST(client_routes_anew_when_the_number_of_partitions_changes),
		TEST(client_reads_no_open_store_of_another_number_of_partitions),
		TEST(client_mixes_no_old_number_with_a_new_store),
		TEST(client_throws_away_what_was_routed_by_an_old_number),
		TEST(client_takes_no_number_of_a_tenant_to_another_generation),
		TEST(client_follows_a_new_generation),
		TEST(client_lets_go_of_maps_when_idle),
		TEST(client_attaches_anew_when_the_table_was_replaced),
		TEST(client_finds_a_run_directory_that_was_made_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
