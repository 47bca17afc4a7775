/*
 * test_fleet.c - what is given, taken, lost and given back: the test plays the group.
 *
 * The workers are real processes that follow a script: see fleet_fixture.h.
 */
#include "fleet_fixture.h"

#include <poll.h>

#include "supervisor/part.h"

/* ---------------------------------------------------------------------------- revoked */

static void fleet_frees_a_partition_when_its_worker_is_gone(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_begin(f, 1);
	assert_int_equal(fleet_starts(f, 0, &s), 1);
	uint64_t generation = fleet_generation(f, 0);
	assert_int_equal(s.generation, generation);
	assert_false(s.adopt);
	assert_int_equal(fleet_slot(f, 0)->pid, s.pid);
	assert_true(fleet_slot(f, 0)->lease_until > host_boot_ns());
	fleet_take(f, 1, GROUP_REVOKED);
	assert_int_equal(fleet_state(f, 0), PART_DRAINING);
	assert_int_equal(kill(s.pid, 0), 0);
	assert_true(fleet_has(f, 0, generation));
	assert_int_equal(f->released, 0);
	fleet_until(f, f->released);
	assert_int_equal(f->children_at_release, 0);
	assert_int_equal(f->generations_at_release, 0);
	assert_int_equal(f->named_at_release, 0);
	assert_true(fleet_is_reaped(s.pid));
	assert_true(fleet_journal(f, 0, "draining"));
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
	assert_int_equal(fleet_slot(f, 0)->pid, 0);
	fleet_run_ms(f, 100);
	assert_int_equal(f->released, 1);
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
}

static void fleet_kills_a_worker_that_does_not_drain_when_its_time_is_over(void **state)
{
	struct fixture *f = *state;
	f->config.drain_ms = 300;
	f->config.revoke_deadline_ms = 60000;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	uint64_t began = host_boot_ns();
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	uint64_t took_ms = (host_boot_ns() - began) / 1000000;
	assert_in_range(took_ms, 290, 30000);
	assert_int_equal(f->named_at_release, 0);
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_NONE); /* it ended as it was told to */
	assert_int_equal(fleet_logged(f, "worker.abandoned"), 0);
}

static void fleet_lets_go_at_the_deadline_when_a_worker_is_not_dead(void **state)
{
	struct fixture *f = *state;
	struct start s;
	f->config.drain_ms = 60000;
	f->config.revoke_deadline_ms = 200;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	assert_int_equal(f->named_at_release, 0);
	assert_int_equal(f->generations_at_release, 0);
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
	assert_int_equal(fleet_logged(f, "worker.abandoned "), 1);
	fleet_until(f, fleet_logged(f, "worker.abandoned_gone")); /* and it was killed */
	assert_true(fleet_is_reaped(s.pid));
	fleet_begin(f, 1);
	assert_int_equal(f->released, 1);
}

/* As after a stop of the machine: the deadline is over before we hear of the death. */
static void block_until_dead_and(int pid, unsigned ms)
{
	siginfo_t status;
	assert_int_equal(waitid(P_PID, (id_t)pid, &status, WEXITED | WNOWAIT), 0);
	poll(NULL, 0, (int)ms);
}

static void fleet_keeps_a_lost_store_when_it_hears_of_the_death_after_the_deadline(void **state)
{
	struct fixture *f = *state;
	struct start s;
	f->config.revoke_deadline_ms = 100;
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	fleet_take(f, 1, GROUP_LOSS);
	block_until_dead_and(s.pid, 200);
	fleet_until(f, f->released);
	assert_int_equal(fleet_logged(f, "worker.abandoned"), 0);
	assert_int_equal(fleet_state(f, 0), PART_PARKED);
	assert_true(fleet_has(f, 0, s.generation));
	assert_true(fleet_is_reaped(s.pid));
	fleet_begin(f, 1);
	assert_int_equal(fleet_generation(f, 0), s.generation);
}

static void fleet_resumes_when_it_is_given_back_and_the_deadline_is_over(void **state)
{
	struct fixture *f = *state;
	struct start s;
	f->config.revoke_deadline_ms = 100;
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	fleet_take(f, 1, GROUP_LOSS);
	fleet_give(f, 0);
	block_until_dead_and(s.pid, 200);
	fleet_until(f, fleet_state(f, 0) == PART_READY);
	assert_int_equal(fleet_logged(f, "worker.abandoned"), 0);
	assert_int_equal(fleet_generation(f, 0), s.generation);
	assert_int_equal(f->released, 1);
}

static void fleet_starts_afresh_when_it_is_given_back_before_it_was_gone(void **state)
{
	struct fixture *f = *state;
	struct start old, new;
	fleet_begin(f, 1);
	fleet_starts(f, 0, &old);
	for (int i = 0; i < 8; i++) {
		fleet_take(f, 1, GROUP_REVOKED);
		fleet_give(f, 0);
		assert_int_equal(fleet_state(f, 0), PART_DRAINING);
		fleet_until(f, fleet_state(f, 0) == PART_READY);
		assert_int_equal(f->released, i + 1);
		assert_int_equal(f->children_at_release, 0);
		fleet_starts(f, 0, &new);
		assert_true(fleet_is_reaped(old.pid));
		assert_false(new.adopt);
		assert_true(new.generation > old.generation);
		assert_false(fleet_has(f, 0, old.generation));
		assert_int_equal(f->fleet->parts[0].crash.deaths, 0);
		old = new;
	}
	assert_int_equal(fleet_logged(f, "state=failed"), 0);
}

static void fleet_starts_afresh_at_the_deadline_when_the_old_worker_is_not_dead(void **state)
{
	struct fixture *f = *state;
	struct start old, new;
	f->config.drain_ms = 60000;
	f->config.revoke_deadline_ms = 200;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	fleet_starts(f, 0, &old);
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_give(f, 0);
	fleet_until(f, fleet_state(f, 0) == PART_READY);
	fleet_starts(f, 0, &new);
	assert_int_equal(f->released, 1);
	assert_true(new.generation > old.generation);
	assert_false(fleet_has(f, 0, old.generation));
	fleet_until(f, fleet_is_reaped(old.pid));
	assert_int_equal(fleet_state(f, 0), PART_READY);
}

static void fleet_answers_both_when_what_drains_is_lost_as_well(void **state)
{
	struct fixture *f = *state;
	f->config.drain_ms = 60000;
	f->config.revoke_deadline_ms = 60000;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_take(f, 1, GROUP_LOSS); /* no time to drain any more */
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
	fleet_until(f, f->released);
	assert_int_equal(f->released, 2);
	assert_int_equal(f->children_at_release, 0);
	assert_int_equal(fleet_state(f, 0), PART_FREE); /* what was revoked does not come back */
	assert_int_equal(f->generations_at_release, 0);
}

static void fleet_restarts_no_worker_that_dies_while_it_drains(void **state)
{
	struct fixture *f = *state;
	struct start s;
	f->config.drain_ms = 60000;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	fleet_take(f, 1, GROUP_REVOKED);
	kill(s.pid, SIGSEGV);
	fleet_until(f, f->released);
	fleet_run_ms(f, 100);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
	assert_int_equal(fleet_logged(f, "worker.died"), 0);
}

static void fleet_gives_back_at_once_when_nothing_was_started(void **state)
{
	struct fixture *f = *state;
	f->config.replay_concurrency = 0;
	fleet_assign(f, 2);
	assert_int_equal(fleet_state(f, 0), PART_PENDING);
	fleet_run_ms(f, 150);
	assert_int_equal(fleet_starts(f, 0, NULL), 0);
	fleet_take(f, 1, GROUP_REVOKED);
	assert_int_equal(f->released, 1);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	assert_int_equal(fleet_state(f, 1), PART_PENDING);
	fleet_take(f, 2, GROUP_LOSS); /* the first is not ours any more */
	assert_int_equal(f->released, 2);
	assert_int_equal(fleet_state(f, 1), PART_PARKED);
	fleet_take(f, 0, GROUP_REVOKED); /* an empty list has its answer too */
	assert_int_equal(f->released, 3);
	f->config.replay_concurrency = 8;
	fleet_begin(f, 2);
	assert_int_equal(f->released, 3);
}

static void fleet_gives_back_sixty_four_partitions_at_once(void **state)
{
	struct fixture *f = *state;
	for (uint32_t p = 0; p < 64; p += 8)
		fleet_script(f, p, "ready deaf");
	fleet_script(f, 63, "replaying deaf");
	fleet_assign(f, 64);
	fleet_until(f, fleet_state(f, 63) == PART_REPLAYING);
	struct fleet_status status;
	do {
		fleet_turn(f);
		fleet_status(f->fleet, &status);
	} while (status.ready < 63);
	assert_int_equal(fleet_generations(f), 64);
	fleet_take(f, 64, GROUP_REVOKED);
	for (uint32_t p = 0; p < 64; p++)
		assert_int_equal(fleet_state(f, p), PART_DRAINING);
	fleet_until(f, f->released);
	assert_int_equal(f->children_at_release, 0);
	assert_int_equal(f->generations_at_release, 0);
	assert_int_equal(f->named_at_release, 0);
	assert_int_equal(fleet_logged(f, "worker.abandoned"), 0);
	fleet_run_ms(f, 50);
	assert_int_equal(f->released, 1);
}

/* ------------------------------------------------------------------------------- lost */

static void fleet_resumes_the_same_store_when_what_was_lost_comes_back(void **state)
{
	struct fixture *f = *state;
	struct start first, second;
	fleet_begin(f, 1);
	fleet_starts(f, 0, &first);
	uint64_t assigned_at = fleet_slot(f, 0)->assigned_at;
	fleet_take(f, 1, GROUP_LOSS);
	assert_int_equal(fleet_state(f, 0), PART_PARKED);
	assert_int_equal(fleet_slot(f, 0)->lease_until, 0);
	assert_int_equal(f->released, 0);
	fleet_until(f, f->released);
	assert_int_equal(f->children_at_release, 0);
	assert_true(fleet_is_reaped(first.pid));
	assert_true(fleet_has(f, 0, first.generation));
	fleet_begin(f, 1);
	assert_int_equal(fleet_starts(f, 0, &second), 2);
	assert_int_equal(second.generation, first.generation);
	assert_true(second.adopt);
	assert_true(fleet_slot(f, 0)->assigned_at > assigned_at);
	assert_int_equal(f->table.head->lost_events, 1);
	assert_int_equal(f->released, 1);
}

static void fleet_evicts_what_does_not_come_back_in_time(void **state)
{
	struct fixture *f = *state;
	f->config.lost_grace_ms = 100;
	fleet_begin(f, 2);
	uint64_t gone = fleet_generation(f, 0), kept = fleet_generation(f, 1);
	fleet_take(f, 2, GROUP_LOSS);
	fleet_until(f, f->released);
	fleet_run_ms(f, 300); /* an outage of any length: the grace has not begun */
	assert_int_equal(fleet_state(f, 0), PART_PARKED);
	fleet_give(f, 1);
	assert_int_equal(fleet_state(f, 0), PART_PARKED);
	fleet_until(f, fleet_state(f, 0) == PART_FREE);
	assert_false(fleet_has(f, 0, gone));
	fleet_until(f, fleet_state(f, 1) == PART_READY);
	assert_int_equal(fleet_generation(f, 1), kept);
}

static void fleet_begins_the_grace_anew_when_all_is_lost_again(void **state)
{
	struct fixture *f = *state;
	f->config.lost_grace_ms = 250;
	fleet_begin(f, 2);
	uint64_t kept = fleet_generation(f, 0);
	fleet_take(f, 2, GROUP_LOSS);
	fleet_take(f, 2, GROUP_LOSS); /* while its worker is being killed */
	fleet_until(f, f->released);
	assert_int_equal(f->released, 2);
	fleet_give(f, 1);
	fleet_take(f, 2, GROUP_LOSS);
	fleet_until(f, f->released == 3);
	fleet_run_ms(f, 500);
	assert_int_equal(fleet_state(f, 0), PART_PARKED);
	assert_true(fleet_has(f, 0, kept));
	fleet_give(f, 1);
	fleet_until(f, fleet_state(f, 0) == PART_FREE);
	assert_int_equal(f->released, 3);
}

static void take_all_and_give_back_two(struct fixture *f, bool at_once)
{
	static const uint32_t odd[] = {1, 3};
	uint64_t generation[4];
	fleet_begin(f, 4);
	for (uint32_t p = 0; p < 4; p++)
		generation[p] = fleet_generation(f, p);
	unsigned released = f->released;
	fleet_take(f, 4, GROUP_EAGER);
	for (uint32_t p = 0; p < 4; p++)
		assert_int_equal(fleet_state(f, p), PART_PARKED);
	if (!at_once)
		fleet_until(f, f->released == released + 1);
	fleet_assigned(f->fleet, odd, 2, true);
	fleet_until(f, fleet_state(f, 0) == PART_FREE && fleet_state(f, 2) == PART_FREE);
	assert_false(fleet_has(f, 0, generation[0]));
	assert_false(fleet_has(f, 2, generation[2]));
	fleet_until(f, fleet_state(f, 1) == PART_READY && fleet_state(f, 3) == PART_READY);
	assert_int_equal(fleet_generation(f, 1), generation[1]);
	assert_int_equal(fleet_generation(f, 3), generation[3]);
	assert_int_equal(f->released, released + 1);
}

static void fleet_evicts_what_is_not_in_a_full_assignment(void **state)
{
	struct fixture *f = *state;
	take_all_and_give_back_two(f, false);
	fleet_take(f, 4, GROUP_REVOKED);
	fleet_until(f, f->released == 2);
	take_all_and_give_back_two(f, true);
	assert_int_equal(f->table.head->lost_events, 0);
}

static void fleet_parks_and_resumes_when_it_is_assigned_what_it_has(void **state)
{
	struct fixture *f = *state;
	struct start first, second;
	f->config.revoke_deadline_ms = 400;
	fleet_begin(f, 1);
	fleet_starts(f, 0, &first);
	fleet_give(f, 0);
	assert_int_equal(fleet_state(f, 0), PART_PARKED);
	assert_true(ev_is_active(&f->fleet->deadline)); /* it ends, dead or not */
	fleet_until(f, fleet_state(f, 0) == PART_READY);
	assert_int_equal(fleet_starts(f, 0, &second), 2);
	assert_int_equal(second.generation, first.generation);
	assert_int_equal(fleet_logged(f, "partition.surprise"), 1);
	assert_int_equal(f->released, 0);
	assert_false(ev_is_active(&f->fleet->deadline)); /* it was for the one that has gone */
}

/* ---------------------------------------------------------------------------- the rest */

static void fleet_adopts_what_its_predecessor_left_when_it_is_assigned_in_time(void **state)
{
	struct fixture *f = *state;
	struct start s;
	f->config.lost_grace_ms = 100;
	fleet_begin(f, 2);
	uint64_t gone = fleet_generation(f, 0), kept = fleet_generation(f, 1);
	fleet_renew(f);
	fleet_run_ms(f, 200);
	assert_true(fleet_has(f, 0, gone));
	fleet_give(f, 1);
	fleet_until(f, fleet_state(f, 1) == PART_READY);
	assert_int_equal(fleet_starts(f, 1, &s), 2);
	assert_true(s.adopt);
	assert_int_equal(s.generation, kept);
	fleet_until(f, !fleet_has(f, 0, gone));
	assert_int_equal(fleet_state(f, 1), PART_READY);
}

static void go_round(struct fixture *f, int i)
{
	unsigned released = f->released, starts = fleet_starts(f, 0, NULL);
	fleet_assign(f, 1);
	if (i % 4 == 1) /* as soon as it is there */
		fleet_until(f, fleet_starts(f, 0, NULL) > starts);
	else if (i % 4)
		fleet_until(f, fleet_state(f, 0) == PART_READY);
	fleet_take(f, 1, i % 4 == 3 ? GROUP_LOSS : GROUP_REVOKED);
	fleet_until(f, f->released > released);
	assert_int_equal(f->released, released + 1);
	assert_int_equal(f->children_at_release, 0);
}

static void fleet_leaks_nothing_when_partitions_come_and_go_two_hundred_times(void **state)
{
	struct fixture *f = *state;
	f->config.drain_ms = 5;
	for (int i = 0; i < 4; i++)
		go_round(f, i);
	unsigned before = fleet_descriptors(f);
	for (int i = 0; i < 200; i++)
		go_round(f, i);
	fleet_take(f, 1, GROUP_REVOKED);
	assert_int_equal(fleet_generations(f), 0);
	assert_int_equal(fleet_descriptors(f), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, fleet_setup, fleet_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FLEET_TEST(fleet_frees_a_partition_when_its_worker_is_gone),
		FLEET_TEST(fleet_kills_a_worker_that_does_not_drain_when_its_time_is_over),
		FLEET_TEST(fleet_lets_go_at_the_deadline_when_a_worker_is_not_dead),
		FLEET_TEST(fleet_keeps_a_lost_store_when_it_hears_of_the_death_after_the_deadline),
		FLEET_TEST(fleet_resumes_when_it_is_given_back_and_the_deadline_is_over),
		FLEET_TEST(fleet_starts_afresh_when_it_is_given_back_before_it_was_gone),
		FLEET_TEST(fleet_starts_afresh_at_the_deadline_when_the_old_worker_is_not_dead),
		FLEET_TEST(fleet_answers_both_when_what_drains_is_lost_as_well),
		FLEET_TEST(fleet_restarts_no_worker_that_dies_while_it_drains),
		FLEET_TEST(fleet_gives_back_at_once_when_nothing_was_started),
		FLEET_TEST(fleet_gives_back_sixty_four_partitions_at_once),
		FLEET_TEST(fleet_resumes_the_same_store_when_what_was_lost_comes_back),
		FLEET_TEST(fleet_evicts_what_does_not_come_back_in_time),
		FLEET_TEST(fleet_begins_the_grace_anew_when_all_is_lost_again),
		FLEET_TEST(fleet_evicts_what_is_not_in_a_full_assignment),
		FLEET_TEST(fleet_parks_and_resumes_when_it_is_assigned_what_it_has),
		FLEET_TEST(fleet_adopts_what_its_predecessor_left_when_it_is_assigned_in_time),
		FLEET_TEST(fleet_leaks_nothing_when_partitions_come_and_go_two_hundred_times),
	};
	return fleet_main(argc, argv) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
