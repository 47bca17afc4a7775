/*
 * test_fleet_growth.c - the topic gets more partitions, or fewer, while all is running.
 *
 * The workers are real processes that follow a script: see fleet_fixture.h.
 */
#include "fleet_fixture.h"

#include "supervisor/part.h"

/* ------------------------------------------------------------------------ the count is followed */

static void fleet_renews_all_and_serves_the_new_ones_when_the_topic_grows(void **state)
{
	struct fixture *f = fleet_follow(state, 4);
	struct start old[4], new;
	fleet_begin(f, 4);
	for (uint32_t p = 0; p < 4; p++)
		fleet_starts(f, p, &old[p]);
	fleet_partitions(f->fleet, 6);
	assert_int_equal(fleet_routing(f), 6);
	assert_int_equal(fleet_count_open(f), 0);
	uint32_t added[] = {4, 5};
	fleet_assigned(f->fleet, added, 2, false);
	fleet_until(f, fleet_count_open(f) == 6);
	for (uint32_t p = 0; p < 4; p++) {
		assert_int_equal(fleet_starts(f, p, &new), 2);
		assert_true(new.generation > old[p].generation);
		assert_int_equal(new.partitions, 6);
		assert_false(new.adopt);
		assert_true(fleet_is_reaped(old[p].pid));
		assert_false(fleet_has(f, p, old[p].generation));
		assert_true(fleet_journal(f, p, "draining")); /* its outbox went out */
	}
	for (uint32_t p = 4; p < 6; p++) {
		assert_int_equal(fleet_starts(f, p, &new), 1);
		assert_int_equal(new.partitions, 6);
	}
	for (uint32_t p = 0; p < 6; p++)
		assert_int_equal(fleet_slot(f, p)->restarts, 0); /* nobody died */
	assert_int_equal(f->released, 0);
	assert_int_equal(fleet_logged(f, "topic.partitions_changed"), 1);
	assert_int_equal(fleet_logged(f, "partition.surprise"), 0);
}

/* A reader takes the count first, then the word: no ready word may be older than its count. */
static void fleet_changes_the_count_only_when_no_word_is_ready(void **state)
{
	struct fixture *f = fleet_follow(state, 4);
	fleet_begin(f, 4);
	fleet_partitions(f->fleet, 6);
	assert_int_equal(fleet_logged_before(f, "state=draining", "topic.partitions_changed"), 4);
	assert_int_equal(fleet_logged_before(f, "state=ready", "topic.partitions_changed"), 4);
	fleet_until(f, fleet_count_open(f) == 4);
}

static void fleet_renews_with_what_it_was_told_last_when_the_topic_grows_twice(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	struct start s;
	fleet_script(f, 0, "ready deaf"); /* the first growth is still under way at the second */
	f->config.drain_ms = 300;
	fleet_begin(f, 2);
	fleet_partitions(f->fleet, 3);
	fleet_run_ms(f, 50);
	fleet_partitions(f->fleet, 5);
	fleet_until(f, fleet_count_open(f) == 2);
	for (uint32_t p = 0; p < 2; p++) {
		fleet_starts(f, p, &s);
		assert_int_equal(s.partitions, 5);
	}
	assert_int_equal(fleet_routing(f), 5);
	assert_int_equal(f->released, 0);
}

static void fleet_holds_what_it_is_given_ahead_of_the_count(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	fleet_begin(f, 2);
	unsigned asked = f->asked;
	fleet_give(f, 3);
	assert_true(f->asked > asked);
	assert_int_equal(fleet_state(f, 3), PART_PENDING);
	asked = f->asked;
	fleet_run_ms(f, 100);
	assert_true(f->asked > asked); /* at every tick */
	assert_int_equal(fleet_state(f, 3), PART_PENDING);
	assert_int_equal(fleet_starts(f, 3, NULL), 0);
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
	fleet_run_ms(f, 500); /* of ticks that are 10 ms here: not for ever */
	assert_in_range(f->asked - asked, 10, 40);
	assert_false(ev_is_active(&f->fleet->pump)); /* nothing to start: nothing is polled */
	fleet_partitions(f->fleet, 3);		     /* not yet */
	fleet_until(f, fleet_count_open(f) == 2);
	assert_int_equal(fleet_state(f, 3), PART_PENDING);
	fleet_partitions(f->fleet, 4);
	fleet_until(f, fleet_count_open(f) == 3);
	assert_true(fleet_is_ready(f, 3));
	asked = f->asked;
	fleet_run_ms(f, 50);
	assert_int_equal(f->asked, asked);
	assert_int_equal(fleet_logged(f, "state=failed"), 0);
	assert_int_equal(fleet_logged(f, "partition.unserved"), 0);
	assert_int_equal(fleet_logged(f, "partition.held"), 1);
}

/* The same offset may be an innocent record: for all we know the topic was made again. */
static void fleet_forgets_what_it_passed_over_when_the_topic_grows(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	struct start s;
	fleet_begin(f, 2);
	for (uint32_t p = 0; p < 2; p++) {
		f->fleet->parts[p].n_quarantine = 1;
		atomic_store(&fleet_slot(f, p)->quarantined, 1);
	}
	fleet_partitions(f->fleet, 3);
	fleet_until(f, fleet_count_open(f) == 2);
	for (uint32_t p = 0; p < 2; p++) {
		fleet_starts(f, p, &s);
		assert_int_equal(s.n_quarantine, 0);
		assert_int_equal(fleet_slot(f, p)->quarantined, 0);
	}
}

static void fleet_gives_back_what_it_holds_ahead_of_the_count(void **state)
{
	static const uint32_t ahead[] = {2, 3, 4};
	struct fixture *f = fleet_follow(state, 2);
	fleet_begin(f, 2);
	fleet_assigned(f->fleet, ahead, 3, false);
	fleet_revoked(f->fleet, ahead, 1, GROUP_REVOKED);
	assert_int_equal(f->released, 1);
	assert_int_equal(fleet_state(f, 2), PART_FREE);
	fleet_revoked(f->fleet, ahead + 1, 1, GROUP_LOSS);
	assert_int_equal(f->released, 2);
	assert_int_equal(fleet_state(f, 3), PART_PARKED); /* as all that is lost */
	fleet_partitions(f->fleet, 5);
	assert_int_equal(fleet_state(f, 3), PART_FREE); /* there is nothing to come back to */
	fleet_until(f, fleet_count_open(f) == 3);
	assert_int_equal(fleet_starts(f, 2, NULL) + fleet_starts(f, 3, NULL), 0);
	assert_true(fleet_is_ready(f, 4));
}

/* ----------------------------------------------------------------------- wherever it was */

static void fleet_evicts_what_is_parked_when_the_topic_grows(void **state)
{
	struct fixture *f = fleet_follow(state, 4);
	struct start old, new;
	fleet_begin(f, 2);
	fleet_starts(f, 0, &old);
	fleet_take(f, 1, GROUP_LOSS);
	fleet_until(f, f->released);
	fleet_partitions(f->fleet, 8);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	assert_false(fleet_has(f, 0, old.generation));
	fleet_give(f, 0);
	fleet_until(f, fleet_is_ready(f, 0) && fleet_is_ready(f, 1));
	fleet_starts(f, 0, &new);
	assert_true(new.generation > old.generation);
	assert_false(new.adopt);
	assert_int_equal(new.partitions, 8);
}

/* All is given up before a rejoin, the count is learnt in between, all and more comes back. */
static void fleet_renews_all_when_an_eager_group_grows(void **state)
{
	static const uint32_t all[] = {0, 1, 2, 3};
	struct fixture *f = fleet_follow(state, 2);
	struct start s;
	fleet_begin(f, 2);
	fleet_take(f, 2, GROUP_EAGER); /* being killed */
	fleet_partitions(f->fleet, 4);
	fleet_assigned(f->fleet, all, 4, true);
	fleet_until(f, fleet_count_open(f) == 4);
	for (uint32_t p = 0; p < 2; p++) {
		assert_int_equal(fleet_starts(f, p, &s), 2);
		assert_int_equal(s.partitions, 4);
		assert_false(s.adopt);
	}
	assert_int_equal(f->released, 1);
	assert_int_equal(fleet_generations(f), 4);
}

static void fleet_starts_afresh_when_the_topic_grows_while_a_lost_one_returns(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	struct start s;
	fleet_begin(f, 1);
	fleet_take(f, 1, GROUP_LOSS);
	fleet_give(f, 0); /* its worker is not dead yet: it would resume */
	fleet_partitions(f->fleet, 3);
	fleet_until(f, fleet_is_ready(f, 0));
	fleet_starts(f, 0, &s);
	assert_false(s.adopt);
	assert_int_equal(s.partitions, 3);
	assert_int_equal(fleet_generations(f), 1);
}

static void fleet_goes_on_draining_when_the_topic_grows(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	f->config.drain_ms = 200;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 2);
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_partitions(f->fleet, 3);
	fleet_until(f, f->released);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	assert_false(f->fleet->parts[0].child.pid);
	fleet_until(f, fleet_is_ready(f, 1));
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
	assert_int_equal(f->released, 1);
}

/* Growth moves partitions, so a revocation follows close: time to drain is left to it. */
static void fleet_still_drains_when_it_is_revoked_while_it_renews(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	f->config.drain_ms = 300;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	fleet_partitions(f->fleet, 3);
	uint64_t began = host_boot_ns();
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	assert_in_range((host_boot_ns() - began) / 1000000, 290, 5000);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	assert_int_equal(fleet_generations(f), 0);
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
}

static void fleet_keeps_a_failed_one_failed_until_it_is_well_when_the_topic_grows(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	struct start old, new;
	fleet_script(f, 0, "exit=1");
	fleet_assign(f, 2);
	fleet_until(f, fleet_state(f, 0) == PART_FAILED);
	f->config.restart_min_ms = f->config.restart_max_ms = 60000; /* no more starts for now */
	fleet_until(f, !f->fleet->parts[0].child.pid && f->fleet->parts[0].life == LIFE_QUEUED &&
			       f->fleet->parts[0].not_before > host_boot_ns() + 10000000000);
	unsigned starts = fleet_starts(f, 0, &old);
	fleet_partitions(f->fleet, 3);
	assert_int_equal(fleet_state(f, 0), PART_FAILED);
	assert_int_equal(fleet_generation(f, 0), 0);
	assert_false(fleet_has(f, 0, old.generation));
	fleet_until(f, fleet_is_ready(f, 1));
	assert_int_equal(fleet_starts(f, 0, NULL), starts); /* and its back-off goes on */
	fleet_script(f, 0, "ready serve");
	f->fleet->parts[0].not_before = 0;
	fleet_until(f, fleet_is_ready(f, 0));
	fleet_starts(f, 0, &new);
	assert_int_equal(new.partitions, 3);
}

static void fleet_gives_a_worker_up_at_the_deadline_when_it_does_not_die_of_growth(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	struct start old, new;
	f->config.drain_ms = 60000;
	f->config.revoke_deadline_ms = 200;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	fleet_starts(f, 0, &old);
	fleet_partitions(f->fleet, 3);
	fleet_until(f, fleet_is_ready(f, 0));
	fleet_starts(f, 0, &new);
	assert_int_equal(new.partitions, 3);
	assert_false(fleet_has(f, 0, old.generation));
	fleet_until(f, fleet_is_reaped(old.pid));
}

static void fleet_stops_by_the_old_count_when_the_topic_grows_meanwhile(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	f->config.stop_deadline_ms = 300;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 2);
	uint64_t kept = fleet_generation(f, 0);
	fleet_stop(f->fleet);
	fleet_partitions(f->fleet, 3);
	assert_true(fleet_is_ready(f, 0)); /* it answers until it has ended */
	assert_int_equal(fleet_routing(f), 2);
	fleet_until(f, f->stopped);
	assert_int_equal(fleet_state(f, 0), PART_STOPPED);
	assert_int_equal(fleet_generation(f, 0), kept);
	assert_int_equal(fleet_routing(f), 2);
}

static void fleet_adopts_no_leftover_of_another_count(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	struct start s;
	fleet_begin(f, 1);
	uint64_t gone = fleet_generation(f, 0);
	fleet_renew(f);
	assert_true(fleet_has(f, 0, gone));
	fleet_partitions(f->fleet, 3); /* of 64: another one */
	assert_false(fleet_has(f, 0, gone));
	fleet_give(f, 0);
	fleet_until(f, fleet_is_ready(f, 0));
	fleet_starts(f, 0, &s);
	assert_false(s.adopt);
}

/* ----------------------------------------------------------------------------- it shrinks */

static void fleet_renews_what_is_left_when_the_topic_has_fewer(void **state)
{
	struct fixture *f = fleet_follow(state, 4);
	struct start s;
	fleet_begin(f, 4);
	f->fleet->parts[0].n_quarantine = 1; /* an offset of the log that is gone */
	fleet_partitions(f->fleet, 2);
	assert_int_equal(fleet_routing(f), 2);
	assert_int_equal(fleet_count_open(f), 0);
	fleet_until(f, fleet_is_ready(f, 0) && fleet_is_ready(f, 1));
	fleet_until(f, fleet_count_state(f, PART_DRAINING) == 0);
	fleet_starts(f, 0, &s);
	assert_int_equal(s.partitions, 2);
	assert_int_equal(s.n_quarantine, 0);
	for (uint32_t p = 2; p < 4; p++) { /* the group has not said so yet */
		assert_int_equal(fleet_state(f, p), PART_PENDING);
		assert_int_equal(fleet_starts(f, p, NULL), 1);
	}
	assert_int_equal(fleet_generations(f), 2);
	fleet_take(f, 4, GROUP_REVOKED);
	fleet_until(f, f->released);
	assert_int_equal(f->named_at_release, 0);
	assert_int_equal(fleet_generations(f), 0);
}

static void fleet_says_pending_of_a_failed_one_that_the_topic_has_no_more(void **state)
{
	struct fixture *f = fleet_follow(state, 2);
	f->config.drain_ms = 100;
	fleet_script(f, 1, "exit=1\nexit=1\nexit=1\nexit=1\nexit=1\ndeaf");
	fleet_assign(f, 2);
	fleet_until(f, fleet_starts(f, 1, NULL) == 6 && fleet_is_ready(f, 0));
	assert_int_equal(fleet_logged(f, "partition=1 state=failed"), 1);
	fleet_partitions(f->fleet, 1);
	fleet_until(f, fleet_is_ready(f, 0) && f->fleet->parts[1].life == LIFE_QUEUED);
	assert_int_equal(fleet_state(f, 1), PART_PENDING); /* it is the group's turn to take it */
}

#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, fleet_setup, fleet_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FLEET_TEST(fleet_renews_all_and_serves_the_new_ones_when_the_topic_grows),
		FLEET_TEST(fleet_changes_the_count_only_when_no_word_is_ready),
		FLEET_TEST(fleet_renews_with_what_it_was_told_last_when_the_topic_grows_twice),
		FLEET_TEST(fleet_holds_what_it_is_given_ahead_of_the_count),
		FLEET_TEST(fleet_forgets_what_it_passed_over_when_the_topic_grows),
		FLEET_TEST(fleet_gives_back_what_it_holds_ahead_of_the_count),
		FLEET_TEST(fleet_evicts_what_is_parked_when_the_topic_grows),
		FLEET_TEST(fleet_renews_all_when_an_eager_group_grows),
		FLEET_TEST(fleet_starts_afresh_when_the_topic_grows_while_a_lost_one_returns),
		FLEET_TEST(fleet_goes_on_draining_when_the_topic_grows),
		FLEET_TEST(fleet_still_drains_when_it_is_revoked_while_it_renews),
		FLEET_TEST(fleet_keeps_a_failed_one_failed_until_it_is_well_when_the_topic_grows),
		FLEET_TEST(fleet_gives_a_worker_up_at_the_deadline_when_it_does_not_die_of_growth),
		FLEET_TEST(fleet_stops_by_the_old_count_when_the_topic_grows_meanwhile),
		FLEET_TEST(fleet_adopts_no_leftover_of_another_count),
		FLEET_TEST(fleet_renews_what_is_left_when_the_topic_has_fewer),
		FLEET_TEST(fleet_says_pending_of_a_failed_one_that_the_topic_has_no_more),
	};
	return fleet_main(argc, argv) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
