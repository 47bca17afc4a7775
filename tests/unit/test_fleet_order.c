/*
 * test_fleet_order.c - leases, start tokens, and the orderly stop.
 *
 * The workers are real processes that follow a script: see fleet_fixture.h.
 */
#include "fleet_fixture.h"

#include "supervisor/lease.h"

static bool is_ready(const struct fixture *f, uint32_t partition)
{
	return fleet_state(f, partition) == PART_READY;
}

/* ------------------------------------------------------------------------------ leases */

static uint64_t lease_after(const struct fixture *f, uint64_t contact)
{
	struct lease_terms terms = {f->config.session_timeout_ms, f->config.heartbeat_interval_ms,
		f->config.commit_allowance_ms};
	return lease_until(contact, &terms);
}

static void fleet_counts_the_lease_from_the_contact_it_believes(void **state)
{
	struct fixture *f = *state;
	fleet_begin(f, 1);
	f->contacts = false;
	uint64_t now = host_boot_ns(), lease = lease_after(f, now);
	fleet_contact(f->fleet, now);
	assert_int_equal(fleet_slot(f, 0)->lease_until, lease);
	fleet_contact(f->fleet, now - 1000000000); /* older than the last */
	assert_int_equal(fleet_slot(f, 0)->lease_until, lease);
	fleet_contact(f->fleet, host_boot_ns() + 10000000000); /* has not been */
	assert_int_equal(fleet_slot(f, 0)->lease_until, lease);
	fleet_contact(f->fleet, now + 1);
	assert_int_equal(fleet_slot(f, 0)->lease_until, lease + 1);
	for (uint32_t p = 1; p < TABLE_CAPACITY; p++)
		assert_int_equal(fleet_slot(f, p)->lease_until, 0);
}

static void fleet_renews_no_lease_of_what_is_being_taken(void **state)
{
	struct fixture *f = *state;
	f->config.drain_ms = 500;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 2);
	f->contacts = false;
	uint64_t lease = fleet_slot(f, 0)->lease_until;
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_run_ms(f, 20);
	fleet_contact(f->fleet, host_boot_ns());
	assert_int_equal(fleet_state(f, 0), PART_DRAINING);
	assert_int_equal(fleet_slot(f, 0)->lease_until, lease);
	assert_true(fleet_slot(f, 1)->lease_until > lease);
	fleet_until(f, f->released);
	fleet_contact(f->fleet, host_boot_ns());
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
}

static void fleet_believes_a_coordinator_that_speaks_again_when_it_does_so_twice(void **state)
{
	struct fixture *f = *state;
	fleet_begin(f, 1);
	f->contacts = false;
	f->config.session_timeout_ms = 400;
	f->config.heartbeat_interval_ms = f->config.commit_allowance_ms = 100;
	for (int round = 0; round < 2; round++) {
		fleet_contact(f->fleet, host_boot_ns());
		fleet_contact(f->fleet, host_boot_ns());
		uint64_t lease = fleet_slot(f, 0)->lease_until, first;
		assert_true(lease > host_boot_ns());
		fleet_run_ms(f, 260);
		/* What was asked before the frost proves nothing. */
		fleet_contact(f->fleet, host_boot_ns() - 250000000);
		first = host_boot_ns();
		fleet_contact(f->fleet, first); /* it may have said that we are out */
		fleet_contact(f->fleet, first);
		assert_int_equal(fleet_slot(f, 0)->lease_until, lease);
		fleet_run_ms(f, 5);
		uint64_t second = host_boot_ns();
		fleet_contact(f->fleet, second);
		assert_int_equal(fleet_slot(f, 0)->lease_until, lease_after(f, second));
		fleet_run_ms(f, 260);
	}
}

static void fleet_believes_no_contact_from_before_a_loss(void **state)
{
	struct fixture *f = *state;
	fleet_begin(f, 1);
	f->contacts = false;
	fleet_run_ms(f, 20);
	uint64_t before = host_boot_ns();
	fleet_take(f, 1, GROUP_LOSS);
	fleet_contact(f->fleet, before);
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
	fleet_give(f, 0);
	fleet_until(f, fleet_state(f, 0) == PART_READY);
	fleet_contact(f->fleet, before);
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
	uint64_t now = host_boot_ns();
	fleet_contact(f->fleet, now);
	assert_int_equal(fleet_slot(f, 0)->lease_until, lease_after(f, now));
}

/* ------------------------------------------------------------------------------ tokens */

static void fleet_starts_another_when_one_waits_for_what_it_cannot_get(void **state)
{
	struct fixture *f = *state;
	f->config.replay_concurrency = 1;
	fleet_script(f, 0, "flags=1 deaf"); /* FLAG_DEGRADED */
	fleet_assign(f, 2);
	fleet_until(f, fleet_state(f, 1) == PART_READY);
	assert_int_equal(fleet_state(f, 0), PART_PENDING);
}

static void fleet_starts_no_more_than_may_replay_at_once(void **state)
{
	struct fixture *f = *state;
	f->config.replay_concurrency = 1;
	fleet_script(f, 0, "replaying deaf");
	fleet_assign(f, 3);
	fleet_until(f, fleet_state(f, 0) == PART_REPLAYING);
	fleet_run_ms(f, 300);
	assert_int_equal(fleet_starts(f, 1, NULL) + fleet_starts(f, 2, NULL), 0);
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, fleet_state(f, 1) == PART_READY && fleet_state(f, 2) == PART_READY);
}

/* -------------------------------------------------------------------------------- stops */

static void fleet_stops_in_order_and_keeps_the_stores(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_begin(f, 2);
	uint64_t generation = fleet_generation(f, 0);
	fleet_starts(f, 0, &s);
	fleet_stop(f->fleet);
	assert_int_equal(f->stopped, 0);
	assert_true(is_ready(f, 0)); /* it answers until it has ended */
	fleet_until(f, f->stopped);
	assert_true(fleet_journal(f, 0, "stopping"));
	assert_true(fleet_is_reaped(s.pid));
	assert_int_equal(fleet_state(f, 0), PART_STOPPED);
	assert_int_equal(fleet_generation(f, 0), generation);
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
	assert_true(fleet_has(f, 0, generation));
	fleet_run_ms(f, 100);
	assert_int_equal(f->stopped, 1);
	assert_int_equal(f->released, 0);
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
}

static void fleet_kills_what_has_not_stopped_at_the_deadline(void **state)
{
	struct fixture *f = *state;
	f->config.stop_deadline_ms = 300;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 2);
	uint64_t began = host_boot_ns();
	fleet_stop(f->fleet);
	fleet_until(f, fleet_state(f, 1) == PART_STOPPED);
	assert_int_equal(f->stopped, 0);
	fleet_until(f, f->stopped);
	assert_in_range((host_boot_ns() - began) / 1000000, 290, 5000);
	assert_int_equal(fleet_state(f, 0), PART_STOPPED);
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_NONE); /* it ended as it was told to */
}

static void fleet_is_stopped_at_once_when_it_has_no_worker(void **state)
{
	struct fixture *f = *state;
	fleet_stop(f->fleet);
	assert_int_equal(f->stopped, 1);
	fleet_assign(f, 1); /* too late */
	fleet_run_ms(f, 100);
	assert_int_equal(f->stopped, 1);
	assert_int_equal(fleet_starts(f, 0, NULL), 0);
}

static void fleet_stops_what_is_parked_or_waits_as_well(void **state)
{
	struct fixture *f = *state;
	fleet_begin(f, 1);
	uint64_t generation = fleet_generation(f, 0);
	fleet_take(f, 1, GROUP_LOSS);
	fleet_until(f, f->released);
	f->config.replay_concurrency = 0;
	fleet_give(f, 1);
	fleet_stop(f->fleet);
	assert_int_equal(f->stopped, 1);
	assert_int_equal(fleet_state(f, 0), PART_STOPPED);
	assert_int_equal(fleet_generation(f, 0), generation);
	assert_int_equal(fleet_state(f, 1), PART_FREE); /* it has no store */
}

static void fleet_gives_back_what_is_revoked_while_it_stops(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "ready deaf");
	fleet_script(f, 1, "ready deaf");
	fleet_begin(f, 3);
	uint64_t kept = fleet_generation(f, 1);
	f->config.stop_deadline_ms = 1000;
	fleet_stop(f->fleet);
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	assert_int_equal(f->stopped, 0);
	fleet_until(f, f->stopped);
	assert_int_equal(fleet_state(f, 1), PART_STOPPED);
	assert_true(fleet_has(f, 1, kept));
	assert_int_equal(fleet_generations(f), 2);
	assert_int_equal(f->released, 1);
}

static void fleet_keeps_what_is_lost_while_it_stops(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	uint64_t kept = fleet_generation(f, 0);
	fleet_stop(f->fleet);
	fleet_take(f, 1, GROUP_LOSS);
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
	assert_false(is_ready(f, 0));
	fleet_until(f, f->stopped && f->released);
	assert_int_equal(f->released, 1);
	assert_int_equal(fleet_state(f, 0), PART_STOPPED);
	assert_true(fleet_has(f, 0, kept));
}

#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, fleet_setup, fleet_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FLEET_TEST(fleet_counts_the_lease_from_the_contact_it_believes),
		FLEET_TEST(fleet_renews_no_lease_of_what_is_being_taken),
		FLEET_TEST(fleet_believes_a_coordinator_that_speaks_again_when_it_does_so_twice),
		FLEET_TEST(fleet_believes_no_contact_from_before_a_loss),
		FLEET_TEST(fleet_starts_another_when_one_waits_for_what_it_cannot_get),
		FLEET_TEST(fleet_starts_no_more_than_may_replay_at_once),
		FLEET_TEST(fleet_stops_in_order_and_keeps_the_stores),
		FLEET_TEST(fleet_kills_what_has_not_stopped_at_the_deadline),
		FLEET_TEST(fleet_is_stopped_at_once_when_it_has_no_worker),
		FLEET_TEST(fleet_stops_what_is_parked_or_waits_as_well),
		FLEET_TEST(fleet_gives_back_what_is_revoked_while_it_stops),
		FLEET_TEST(fleet_keeps_what_is_lost_while_it_stops),
	};
	return fleet_main(argc, argv) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
