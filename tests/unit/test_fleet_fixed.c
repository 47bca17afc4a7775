/*
 * test_fleet_fixed.c - kafka.partitions is set: routing does not go with the topic.
 *
 * The workers are real processes that follow a script: see fleet_fixture.h.
 */
#include "fleet_fixture.h"

#include "supervisor/part.h"

/* kafka.partitions: FLEET_PARTITIONS */
static struct fixture *fix(void **state)
{
	struct fixture *f = *state;
	f->config.partitions = FLEET_PARTITIONS;
	return f;
}

/* The same, and nothing is known of the topic yet. */
static struct fixture *fix_anew(void **state)
{
	struct fixture *f = fix(state);
	f->fleet->partitions = f->fleet->topic_partitions = 0;
	return f;
}

static void fleet_routes_by_a_fixed_count_from_the_start_when_the_topic_has_more(void **state)
{
	struct fixture *f = fix_anew(state);
	struct start s;
	fleet_partitions(f->fleet, FLEET_PARTITIONS + 3);
	assert_int_equal(fleet_routing(f), FLEET_PARTITIONS);
	assert_int_equal(f->table.head->topic_partitions, FLEET_PARTITIONS + 3);
	assert_int_equal(fleet_logged(f, "topic.partitions_refused"), 1);
	assert_int_equal(fleet_logged(f, "topic.partitions_changed"), 0);
	fleet_give(f, FLEET_PARTITIONS);
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	assert_int_equal(s.partitions, FLEET_PARTITIONS);
	assert_int_equal(fleet_state(f, FLEET_PARTITIONS), PART_FAILED);
	assert_int_equal(fleet_starts(f, FLEET_PARTITIONS, NULL), 0);
	assert_int_equal(fleet_logged(f, "partition.unserved"), 1);
}

static void fleet_says_nothing_of_a_fixed_count_that_the_topic_has(void **state)
{
	struct fixture *f = fix_anew(state);
	fleet_partitions(f->fleet, FLEET_PARTITIONS);
	assert_int_equal(fleet_routing(f), FLEET_PARTITIONS);
	assert_int_equal(fleet_logged(f, "topic.partitions_"), 0);
}

static void fleet_serves_a_fixed_count_of_a_topic_that_the_table_cannot_hold(void **state)
{
	struct fixture *f = fix_anew(state);
	fleet_partitions(f->fleet, TABLE_CAPACITY * 2);
	assert_int_equal(fleet_routing(f), FLEET_PARTITIONS);
	assert_int_equal(fleet_logged(f, "topic.partitions_refused"), 1);
	fleet_begin(f, 2);
}

static void fleet_refuses_partitions_beyond_a_fixed_count(void **state)
{
	static const uint32_t beyond[] = {FLEET_PARTITIONS, TABLE_CAPACITY - 1};
	struct fixture *f = fix(state);
	fleet_begin(f, 1);
	uint64_t generation = fleet_generation(f, 0);
	fleet_partitions(f->fleet, FLEET_PARTITIONS * 2);
	fleet_partitions(f->fleet, FLEET_PARTITIONS * 2);
	assert_int_equal(fleet_logged(f, "topic.partitions_refused"), 1);
	assert_int_equal(f->table.head->topic_partitions, FLEET_PARTITIONS * 2);
	assert_int_equal(fleet_routing(f), FLEET_PARTITIONS);
	fleet_assigned(f->fleet, beyond, 2, false);
	unsigned asked = f->asked;
	fleet_run_ms(f, 100);
	assert_int_equal(f->asked, asked); /* there is nothing to wait for */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fleet_state(f, beyond[i]), PART_FAILED);
		assert_int_equal(fleet_starts(f, beyond[i], NULL), 0);
	}
	assert_int_equal(fleet_logged(f, "partition.unserved"), 2);
	assert_false(ev_is_active(&f->fleet->pump));
	assert_true(fleet_is_ready(f, 0)); /* untouched */
	assert_int_equal(fleet_generation(f, 0), generation);
	fleet_revoked(f->fleet, beyond, 2, GROUP_REVOKED);
	assert_int_equal(f->released, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fleet_state(f, beyond[i]), PART_FREE);
	assert_true(fleet_is_ready(f, 0));
}

static void fleet_refuses_the_same_when_it_is_given_before_the_topic_is_known_to_grow(void **state)
{
	struct fixture *f = fix(state);
	fleet_begin(f, 1);
	fleet_give(f, FLEET_PARTITIONS);
	assert_int_equal(fleet_state(f, FLEET_PARTITIONS), PART_FAILED);
	fleet_partitions(f->fleet, FLEET_PARTITIONS + 1);
	fleet_run_ms(f, 50);
	assert_int_equal(fleet_state(f, FLEET_PARTITIONS), PART_FAILED);
	assert_int_equal(fleet_logged(f, "partition.unserved"), 1);
}

static void fleet_keeps_a_fixed_count_when_the_topic_has_fewer_and_as_many_again(void **state)
{
	struct fixture *f = fix(state);
	fleet_begin(f, 1);
	uint64_t generation = fleet_generation(f, 0);
	fleet_partitions(f->fleet, 2);
	assert_int_equal(fleet_logged(f, "topic.partitions_missing"), 1);
	fleet_partitions(f->fleet, FLEET_PARTITIONS);
	assert_int_equal(fleet_logged(f, "topic.partitions_restored"), 1);
	assert_int_equal(fleet_routing(f), FLEET_PARTITIONS);
	assert_int_equal(fleet_generation(f, 0), generation);
}

/* A topic loses partitions only by being made anew: the log of a missing one is gone. */
static void fleet_drops_what_the_topic_lacks_of_a_fixed_count_and_serves_it_again(void **state)
{
	struct fixture *f = fix(state);
	struct start old[3], new;
	fleet_partitions(f->fleet, FLEET_PARTITIONS);
	fleet_begin(f, 3);
	for (uint32_t p = 0; p < 3; p++)
		fleet_starts(f, p, &old[p]);
	f->fleet->parts[1].n_quarantine = 1;
	fleet_partitions(f->fleet, 1);
	assert_int_equal(fleet_count_open(f), 1);
	assert_int_equal(f->table.head->topic_partitions, 1);
	fleet_until(f, fleet_count_state(f, PART_FAILED) == 2);
	fleet_run_ms(f, 100);
	assert_true(fleet_is_ready(f, 0));
	for (uint32_t p = 1; p < 3; p++) {
		assert_int_equal(fleet_state(f, p), PART_FAILED);
		assert_int_equal(fleet_starts(f, p, NULL), 1);
		assert_false(fleet_has(f, p, old[p].generation));
		assert_true(fleet_is_reaped(old[p].pid));
	}
	assert_false(ev_is_active(&f->fleet->pump));
	assert_int_equal(fleet_logged(f, "partition.unserved"), 2);
	fleet_give(f, 3); /* a group that has not heard of it yet */
	assert_int_equal(fleet_state(f, 3), PART_FAILED);
	fleet_partitions(f->fleet, 2); /* not all */
	fleet_until(f, fleet_is_ready(f, 1));
	assert_int_equal(fleet_state(f, 2), PART_FAILED);
	fleet_partitions(f->fleet, FLEET_PARTITIONS);
	fleet_until(f, fleet_count_open(f) == 4);
	for (uint32_t p = 1; p < 4; p++) {
		fleet_starts(f, p, &new);
		assert_int_equal(new.partitions, FLEET_PARTITIONS);
		assert_int_equal(new.n_quarantine, 0);
		assert_false(new.adopt);
		assert_int_equal(fleet_slot(f, p)->restarts, 0);
	}
	assert_int_equal(fleet_starts(f, 0, NULL), 1); /* its own worker looks whose log it is */
	assert_int_equal(fleet_generations(f), 4);
	assert_int_equal(f->released, 0);
}

/* What is parked, leaves, or comes back has no log to come back to either. */
static void fleet_drops_what_the_topic_lacks_whatever_it_was_doing(void **state)
{
	static const uint32_t parked[] = {1}, coming[] = {2}, leaving[] = {3};
	struct fixture *f = fix(state);
	f->config.drain_ms = 200;
	fleet_script(f, 3, "ready deaf");
	fleet_partitions(f->fleet, FLEET_PARTITIONS);
	fleet_begin(f, 4);
	fleet_revoked(f->fleet, parked, 1, GROUP_LOSS);
	fleet_until(f, f->fleet->parts[1].life == LIFE_PARKED);
	fleet_revoked(f->fleet, coming, 1, GROUP_LOSS);
	fleet_give(f, 2);
	fleet_revoked(f->fleet, leaving, 1, GROUP_REVOKED);
	fleet_partitions(f->fleet, 1);
	fleet_until(f, fleet_state(f, 2) == PART_FAILED && f->released == 3);
	assert_int_equal(fleet_state(f, 1), PART_FREE);
	assert_int_equal(fleet_state(f, 3), PART_FREE);
	assert_int_equal(fleet_generations(f), 1);
	fleet_give(f, 1);
	assert_int_equal(fleet_state(f, 1), PART_FAILED);
	fleet_partitions(f->fleet, FLEET_PARTITIONS);
	fleet_until(f, fleet_is_ready(f, 1) && fleet_is_ready(f, 2));
}

/* More than the table can name: what is served goes on, and nothing else begins. */
static void fleet_refuses_a_topic_that_outgrows_the_table(void **state)
{
	struct fixture *f = fleet_follow(state, 4);
	fleet_begin(f, 2);
	uint64_t generation = fleet_generation(f, 0);
	fleet_give(f, 4);
	assert_int_equal(fleet_state(f, 4), PART_PENDING);
	fleet_partitions(f->fleet, TABLE_CAPACITY + 1);
	assert_int_equal(fleet_state(f, 4), PART_FAILED);
	assert_int_equal(fleet_routing(f), 4);
	assert_int_equal(fleet_generation(f, 0), generation);
	fleet_partitions(f->fleet, TABLE_CAPACITY);
	assert_int_equal(fleet_routing(f), TABLE_CAPACITY);
	fleet_until(f, fleet_count_open(f) == 3);
}

#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, fleet_setup, fleet_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FLEET_TEST(fleet_routes_by_a_fixed_count_from_the_start_when_the_topic_has_more),
		FLEET_TEST(fleet_says_nothing_of_a_fixed_count_that_the_topic_has),
		FLEET_TEST(fleet_serves_a_fixed_count_of_a_topic_that_the_table_cannot_hold),
		FLEET_TEST(fleet_refuses_partitions_beyond_a_fixed_count),
		FLEET_TEST(
			fleet_refuses_the_same_when_it_is_given_before_the_topic_is_known_to_grow),
		FLEET_TEST(fleet_keeps_a_fixed_count_when_the_topic_has_fewer_and_as_many_again),
		FLEET_TEST(fleet_drops_what_the_topic_lacks_of_a_fixed_count_and_serves_it_again),
		FLEET_TEST(fleet_drops_what_the_topic_lacks_whatever_it_was_doing),
		FLEET_TEST(fleet_refuses_a_topic_that_outgrows_the_table),
	};
	return fleet_main(argc, argv) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
