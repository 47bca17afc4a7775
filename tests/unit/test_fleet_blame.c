/*
 * test_fleet_blame.c - stores that kill those who use them: built anew, and nobody else notices.
 *
 * Workers are real processes that follow a script: see fleet_fixture.h.
 */
#include "fleet_fixture.h"

#include "supervisor/fleet_blame.h"
#include "supervisor/part.h"

static bool is_ready(const struct fixture *f, uint32_t partition)
{
	return fleet_state(f, partition) == PART_READY;
}

static void fleet_renews_a_store_that_query_processes_die_of_twice(void **state)
{
	struct fixture *f = *state;
	struct start first, second;
	fleet_begin(f, 2);
	fleet_starts(f, 0, &first);
	fleet_blame(f->fleet, 0, first.generation);
	fleet_run_ms(f, 100);
	assert_true(is_ready(f, 0)); /* once is chance */
	fleet_blame(f->fleet, 0, first.generation);
	assert_int_equal(fleet_state(f, 0), PART_DRAINING);
	fleet_until(f, fleet_starts(f, 0, &second) == 2 && is_ready(f, 0));
	assert_true(second.generation > first.generation);
	assert_false(second.adopt);
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_REBUILD);
	assert_int_equal(fleet_slot(f, 0)->death_code, REBUILD_DEADLY);
	assert_int_equal(fleet_logged(f, "store.deadly"), 1);
	assert_int_equal(fleet_starts(f, 1, NULL), 1);
	assert_true(is_ready(f, 1));
}

static void fleet_believes_no_blame_of_a_generation_that_is_not_there(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	for (int i = 0; i < 5; i++) {
		fleet_blame(f->fleet, 0, s.generation - 1);
		fleet_blame(f->fleet, 0, s.generation + 1);
		fleet_blame(f->fleet, 0, 0);
		fleet_blame(f->fleet, 1, 0);
		fleet_blame(f->fleet, 1, s.generation);
		fleet_blame(f->fleet, TABLE_CAPACITY, s.generation);
		fleet_blame(f->fleet, UINT32_MAX, UINT64_MAX);
	}
	fleet_run_ms(f, 100);
	assert_true(is_ready(f, 0));
	assert_int_equal(fleet_logged(f, "store."), 0);
}

/* Should it be the reader's fault, replays must not follow each other without a pause. */
static void fleet_waits_longer_each_time_a_new_store_is_blamed_too(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_begin(f, 1);
	for (unsigned i = 1; i <= 3; i++) {
		fleet_starts(f, 0, &s);
		fleet_blame(f->fleet, 0, s.generation);
		fleet_blame(f->fleet, 0, s.generation);
		assert_true(f->fleet->parts[0].not_before <=
			    host_boot_ns() + ((uint64_t)f->config.restart_min_ms << i) * 1000000);
		if (i > 1)
			assert_true(f->fleet->parts[0].not_before > host_boot_ns());
		fleet_until(f, fleet_starts(f, 0, NULL) == i + 1 && is_ready(f, 0));
	}
}

static void fleet_gives_up_a_blamed_store_in_every_state(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	fleet_take(f, 1, GROUP_LOSS);
	fleet_until(f, fleet_state(f, 0) == PART_PARKED && !f->fleet->parts[0].child.pid);
	fleet_blame(f->fleet, 0, s.generation);
	fleet_blame(f->fleet, 0, s.generation);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	fleet_stop(f->fleet);
	fleet_blame(f->fleet, 0, s.generation);
	fleet_blame(f->fleet, 0, s.generation);
	fleet_until(f, f->stopped);
	fleet_blame(f->fleet, 0, s.generation); /* after all of it */
	fleet_blame(f->fleet, 0, s.generation);
}

#define IN_STORE "replaying ready phase=4 next=8 in_hand=9 in_store=1 signal=11\n"

static void fleet_renews_a_store_whose_worker_dies_inside_of_it_three_times(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0, IN_STORE IN_STORE IN_STORE "replaying ready serve");
	fleet_assign(f, 1);
	fleet_until(f, fleet_starts(f, 0, &s) == 4 && is_ready(f, 0));
	assert_false(s.adopt);
	assert_int_equal(s.n_quarantine, 0);
	assert_int_equal(fleet_slot(f, 0)->death_code, REBUILD_DEADLY);
	assert_int_equal(fleet_logged(f, "kills=worker"), 1);
}

static void fleet_blames_the_record_when_a_new_store_does_not_help(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0,
		IN_STORE IN_STORE IN_STORE IN_STORE IN_STORE IN_STORE "replaying ready serve");
	fleet_assign(f, 1);
	fleet_until(f, fleet_starts(f, 0, &s) == 7 && is_ready(f, 0));
	assert_true(s.adopt);
	assert_int_equal(s.n_quarantine, 1);
	assert_int_equal(s.quarantine[0], 8);
	assert_int_equal(fleet_logged(f, "store.deadly"), 1);
}

int main(int argc, char **argv)
{
#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, fleet_setup, fleet_teardown)
	const struct CMUnitTest tests[] = {
		FLEET_TEST(fleet_renews_a_store_that_query_processes_die_of_twice),
		FLEET_TEST(fleet_believes_no_blame_of_a_generation_that_is_not_there),
		FLEET_TEST(fleet_waits_longer_each_time_a_new_store_is_blamed_too),
		FLEET_TEST(fleet_gives_up_a_blamed_store_in_every_state),
		FLEET_TEST(fleet_renews_a_store_whose_worker_dies_inside_of_it_three_times),
		FLEET_TEST(fleet_blames_the_record_when_a_new_store_does_not_help),
	};
	if (fleet_main(argc, argv))
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
