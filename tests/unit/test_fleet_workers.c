/*
 * test_fleet_workers.c - workers that crash, hang, lie or cannot be started.
 *
 * They are real processes that follow a script: see fleet_fixture.h.
 */
#include "fleet_fixture.h"

#include <poll.h>
#include <sys/resource.h>

#include "supervisor/fleet_retry.h"
#include "supervisor/part.h"

static bool is_ready(const struct fixture *f, uint32_t partition)
{
	return fleet_state(f, partition) == PART_READY;
}

/* ----------------------------------------------------------------------------- crashes */

static void fleet_restarts_a_dead_worker_on_its_store(void **state)
{
	struct fixture *f = *state;
	struct start first, second;
	fleet_script(f, 0, "replaying ready phase=4 serve");
	fleet_begin(f, 2);
	fleet_starts(f, 0, &first);
	kill(first.pid, SIGSEGV);
	fleet_until(f, fleet_state(f, 0) == PART_PENDING);
	fleet_until(f, is_ready(f, 0));
	assert_int_equal(fleet_starts(f, 0, &second), 2);
	assert_int_equal(second.generation, first.generation);
	assert_true(second.adopt);
	assert_int_equal(second.batch_max, 0);
	assert_int_equal(fleet_slot(f, 0)->restarts, 1);
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_SIGNAL);
	assert_int_equal(fleet_slot(f, 0)->death_code, SIGSEGV);
	assert_int_equal(fleet_slot(f, 0)->pid, second.pid);
	assert_true(fleet_is_reaped(first.pid));
	assert_int_equal(fleet_starts(f, 1, NULL), 1);
}

static void fleet_backs_off_and_says_failed_when_a_worker_dies_again_and_again(void **state)
{
	struct fixture *f = *state;
	f->config.restart_min_ms = 20;
	f->config.restart_max_ms = 100;
	fleet_script(f, 0, "exit=70");
	fleet_assign(f, 2);
	fleet_until(f, fleet_state(f, 0) == PART_FAILED);
	assert_int_equal(fleet_starts(f, 0, NULL), 5);
	assert_int_equal(fleet_slot(f, 0)->restarts, 5);
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_EXIT);
	assert_int_equal(fleet_slot(f, 0)->death_code, 70);
	assert_int_equal(fleet_logged(f, "deaths=1 retry_in_ms=20\n"), 1);
	assert_int_equal(fleet_logged(f, "deaths=2 retry_in_ms=40\n"), 1);
	assert_int_equal(fleet_logged(f, "deaths=3 retry_in_ms=80\n"), 1);
	assert_int_equal(fleet_logged(f, "deaths=5 retry_in_ms=100\n"), 1);
	fleet_script(f, 0, "replaying ready serve");
	fleet_until(f, is_ready(f, 0));
	assert_true(is_ready(f, 1));
	assert_int_equal(fleet_generations(f), 2); /* the same store all the time */
}

static void fleet_waits_as_long_as_it_says_before_a_restart(void **state)
{
	struct fixture *f = *state;
	struct start s;
	f->config.restart_min_ms = f->config.restart_max_ms = 400;
	fleet_script(f, 0, "exit=1\nready serve");
	fleet_assign(f, 1);
	fleet_until(f, fleet_slot(f, 0)->death);
	uint64_t died = fleet_slot(f, 0)->death_at;
	assert_int_equal(fleet_slot(f, 0)->retry_in_ms, 400);
	fleet_until(f, fleet_starts(f, 0, &s) == 2);
	uint64_t waited_ms = ((uint64_t)host_wall_ms() * 1000000 - died) / 1000000;
	assert_true(waited_ms >= 390);
	fleet_until(f, is_ready(f, 0));
	assert_int_equal(fleet_slot(f, 0)->retry_in_ms, 0);
}

static void fleet_makes_a_new_generation_when_the_worker_asks_for_one(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0, "ready serve\nreason=4 exit=64\nexit=64\nready serve");
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	uint64_t old = s.generation;
	kill(s.pid, SIGKILL);
	fleet_until(f, fleet_starts(f, 0, NULL) == 3);
	assert_int_equal(fleet_logged(f, "reason=corrupt"), 1);
	fleet_until(f, is_ready(f, 0));
	assert_int_equal(fleet_logged(f, "reason=locked"), 1); /* it could not write why */
	assert_int_equal(fleet_starts(f, 0, &s), 4);
	assert_true(s.generation > old);
	assert_int_equal(s.generation, fleet_generation(f, 0));
	assert_false(s.adopt);
	assert_false(fleet_has(f, 0, old));
	assert_int_equal(fleet_generations(f), 1);
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_REBUILD);
	assert_int_equal(fleet_slot(f, 0)->death_code, REBUILD_LOCKED);
	assert_true(fleet_slot(f, 0)->lease_until > host_boot_ns());
}

static void fleet_makes_a_new_generation_when_opening_the_store_crashes(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0, "phase=1 exit=1\nphase=1 signal=7\nready serve"); /* OPENING, SIGBUS */
	fleet_assign(f, 1);
	fleet_until(f, fleet_starts(f, 0, &s) == 2);
	assert_true(s.adopt); /* it had only said that it cannot */
	uint64_t old = s.generation;
	fleet_until(f, is_ready(f, 0));
	assert_int_equal(fleet_starts(f, 0, &s), 3);
	assert_false(s.adopt);
	assert_true(s.generation > old);
	assert_false(fleet_has(f, 0, old));
}

static void fleet_says_failed_when_new_generations_do_not_help(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "phase=1 signal=11");
	fleet_assign(f, 1);
	fleet_until(f, fleet_state(f, 0) == PART_FAILED);
	fleet_script(f, 0, "ready serve");
	fleet_until(f, is_ready(f, 0));
	assert_int_equal(fleet_generations(f), 1);
}

/* ------------------------------------------------------------------------------ poison */

#define IN_A_BATCH "replaying ready phase=4 next=101 in_hand=151 signal=11\n"
#define ALONE	   "replaying ready phase=4 next=141 in_hand=151 signal=11\n"

static void fleet_passes_over_a_record_that_kills_its_worker_three_times(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0, IN_A_BATCH IN_A_BATCH ALONE "ready phase=4 next=152 in_hand=0 serve");
	fleet_assign(f, 1);
	fleet_until(f, fleet_starts(f, 0, &s) == 2);
	assert_int_equal(s.batch_max, 0);
	fleet_until(f, fleet_starts(f, 0, &s) == 3);
	assert_int_equal(s.batch_max, 1);
	assert_int_equal(s.n_quarantine, 0);
	fleet_until(f, fleet_starts(f, 0, &s) == 4);
	assert_int_equal(s.batch_max, 1); /* until it is past it */
	assert_int_equal(s.n_quarantine, 1);
	assert_int_equal(s.quarantine[0], 150);
	assert_int_equal(fleet_slot(f, 0)->quarantined, 1);
	assert_int_equal(fleet_logged(f, "poison.quarantined partition=0 offset=150\n"), 1);
	fleet_until(f, is_ready(f, 0) && !f->fleet->parts[0].crash.one_by_one);
	kill(s.pid, SIGKILL);
	fleet_until(f, fleet_starts(f, 0, &s) == 5);
	assert_int_equal(s.batch_max, 0);
	assert_int_equal(s.n_quarantine, 1);
	fleet_until(f, is_ready(f, 0));
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	assert_int_equal(s.n_quarantine, 0); /* the next owner finds out for itself */
}

/* What it passes over after three deaths and one rebuild for this reason. */
static unsigned passed_over_after(struct fixture *f, uint32_t partition, enum rebuild_reason reason)
{
	char script[400];
	struct start s;
	snprintf(script, sizeof script, "%sreason=%u exit=64\nready serve",
		IN_A_BATCH IN_A_BATCH ALONE, (unsigned)reason);
	fleet_script(f, partition, script);
	fleet_give(f, partition);
	fleet_until(f, is_ready(f, partition) && fleet_starts(f, partition, &s) == 5);
	assert_int_equal(fleet_slot(f, partition)->death_code, reason);
	assert_int_equal(fleet_slot(f, partition)->quarantined, s.n_quarantine);
	return s.n_quarantine;
}

/* Where the poison was, another log has an innocent record. */
static void fleet_forgets_what_it_passed_over_when_the_log_is_another_one(void **state)
{
	static const bool another[REBUILD_REASONS] = {
		[REBUILD_IDENTITY] = true,
		[REBUILD_FINGERPRINT] = true,
		[REBUILD_BEYOND_END] = true,
	};
	struct fixture *f = *state;
	for (unsigned reason = REBUILD_LOCKED; reason < REBUILD_REASONS; reason++) {
		unsigned kept = passed_over_after(f, reason, (enum rebuild_reason)reason);
		assert_int_equal(kept, another[reason] ? 0 : 1);
	}
}

static void fleet_blames_no_record_when_the_worker_was_killed_from_outside(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0,
		"ready phase=4 next=1 in_hand=8 signal=9\nready phase=4 signal=9\n"
		"ready phase=4 signal=15\nready phase=4 signal=9\nready serve");
	fleet_assign(f, 1);
	fleet_until(f, fleet_starts(f, 0, &s) == 5 && is_ready(f, 0));
	assert_int_equal(s.n_quarantine, 0);
	assert_int_equal(s.batch_max, 0);
}

/* -------------------------------------------------------------------------------- hangs */

/* As if its time were over, as soon as its only worker has gone still for the n-th time. */
static void hang(struct fixture *f, uint32_t partition, unsigned n)
{
	unsigned hung = fleet_logged(f, "worker.hung");
	fleet_until(f, fleet_journal(f, partition, "still") == n);
	f->config.hang_timeout_ms = 1;
	fleet_until(f, fleet_logged(f, "worker.hung") > hung);
	f->config.hang_timeout_ms = 30000;
}

static void fleet_aborts_a_worker_that_has_no_heartbeat(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0, "replaying ready phase=4 still\nready serve");
	fleet_begin(f, 2);
	f->config.hang_timeout_ms = 1000;
	fleet_until(f, fleet_logged(f, "worker.hung"));
	f->config.hang_timeout_ms = 30000;
	fleet_until(f, fleet_starts(f, 0, &s) == 2 && is_ready(f, 0));
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_HANG);
	assert_int_equal(fleet_slot(f, 0)->death_code, SIGABRT);
	assert_int_equal(fleet_logged(f, "worker.hung"), 1);
	assert_true(s.adopt);
	assert_int_equal(fleet_starts(f, 1, NULL), 1);
}

static void fleet_kills_a_worker_that_survives_its_abortion(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "tough ready phase=4 still\nready serve");
	fleet_begin(f, 1);
	hang(f, 0, 1);
	fleet_until(f, fleet_starts(f, 0, NULL) == 2 && is_ready(f, 0));
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_HANG);
	assert_int_equal(fleet_slot(f, 0)->death_code, SIGKILL);
	assert_int_equal(fleet_logged(f, "worker.hung"), 1);
}

static void fleet_takes_a_partition_whose_worker_hangs_as_fast_as_any(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "tough ready phase=4 still");
	fleet_begin(f, 1);
	hang(f, 0, 1);
	uint64_t began = host_boot_ns();
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	assert_true(host_boot_ns() - began < 3000000000); /* not the time from SIGABRT to SIGKILL */
	assert_int_equal(f->generations_at_release, 0);
}

static void fleet_blames_the_record_in_hand_only_when_it_was_worked_on(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0,
		"flags=2 phase=3 in_hand=8 still\nflags=2 phase=3 in_hand=8 still\n" /* full */
		"flags=16 phase=3 in_hand=8 still\nphase=1 in_hand=8 still\nready serve");
	fleet_assign(f, 1);
	for (unsigned n = 1; n <= 4; n++)
		hang(f, 0, n);
	fleet_until(f, fleet_starts(f, 0, &s) == 5 && is_ready(f, 0));
	assert_int_equal(s.n_quarantine, 0);
	assert_int_equal(s.batch_max, 0);
	assert_true(s.adopt); /* nor the store, though it hung while that was opened */
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	fleet_script(f, 1,
		"phase=3 in_hand=8 still\nphase=3 in_hand=8 still\nphase=3 in_hand=8 still\n"
		"ready serve");
	fleet_give(f, 1);
	for (unsigned n = 1; n <= 3; n++)
		hang(f, 1, n);
	fleet_until(f, fleet_starts(f, 1, &s) == 4 && is_ready(f, 1));
	assert_int_equal(s.n_quarantine, 1);
	assert_int_equal(s.quarantine[0], 7);
}

static void fleet_sees_a_hang_when_it_looks_as_seldom_as_the_timeout_is_long(void **state)
{
	struct fixture *f = *state;
	f->config.hang_timeout_ms = 1000;
	ev_timer_stop(f->loop, &f->turn);
	ev_timer_set(&f->turn, 1., 1.);
	ev_timer_start(f->loop, &f->turn);
	fleet_script(f, 0, "ready phase=4 still\nready serve");
	fleet_begin(f, 1);
	fleet_until(f, fleet_slot(f, 0)->death == DEATH_HANG);
}

static void fleet_gives_everybody_time_to_beat_after_it_was_frozen(void **state)
{
	struct fixture *f = *state;
	struct start s;
	f->config.hang_timeout_ms = 1000;
	fleet_begin(f, 1);
	fleet_starts(f, 0, &s);
	fleet_run_ms(f, 100);
	kill(s.pid, SIGSTOP); /* the machine sleeps */
	poll(NULL, 0, 2500);
	for (int i = 0; i < 5; i++)
		fleet_turn(f);
	kill(s.pid, SIGCONT);
	fleet_run_ms(f, 1500);
	assert_int_equal(fleet_logged(f, "worker.hung"), 0);
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
}

/* ------------------------------------------------------------------------------- liars */

static void fleet_ignores_garbage_and_hears_what_comes_after_it(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "stale garbage zero zero garbage replaying deaf");
	fleet_assign(f, 2);
	fleet_until(f, fleet_state(f, 0) == PART_REPLAYING && is_ready(f, 1));
	assert_int_equal(fleet_logged(f, "worker.garbage partition=0"), 1);
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
}

static void fleet_serves_the_others_when_a_worker_floods_it(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "ready flood");
	fleet_begin(f, 4);
	fleet_run_ms(f, 300);
	assert_int_equal(fleet_logged(f, "worker.garbage"), 1);
	uint64_t began = host_boot_ns();
	fleet_take(f, 4, GROUP_REVOKED);
	fleet_until(f, f->released);
	assert_true(host_boot_ns() - began < 3000000000);
	assert_int_equal(f->generations_at_release, 0);
	assert_int_equal(fleet_logged(f, "worker.abandoned"), 0);
}

static void fleet_rests_when_a_worker_has_closed_its_end(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "ready mute");
	fleet_begin(f, 1);
	fleet_run_ms(f, 100);
	unsigned turns = ev_iteration(f->loop);
	fleet_run_ms(f, 300);
	assert_true(ev_iteration(f->loop) - turns < 100); /* 30, by its timer */
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	assert_int_equal(f->generations_at_release, 0);
}

static void fleet_believes_no_worker_that_says_it_has_drained_unasked(void **state)
{
	struct fixture *f = *state;
	struct start s;
	fleet_script(f, 0, "drained ready serve");
	fleet_begin(f, 1);
	assert_int_equal(fleet_starts(f, 0, &s), 1);
	assert_int_equal(kill(s.pid, 0), 0);
	assert_int_equal(
		fleet_logged(f, "partition.surprise partition=0 life=running event=drained"), 1);
}

/* --------------------------------------------------------------------- told to start again */

static void fleet_counts_no_death_of_a_worker_that_it_starts_again_itself(void **state)
{
	struct fixture *f = *state;
	struct start old, new;
	fleet_script(f, 0, "replaying serve\nready serve");
	fleet_assign(f, 2);
	fleet_until(f, fleet_state(f, 0) == PART_REPLAYING && is_ready(f, 1));
	fleet_starts(f, 0, &old);
	fleet_retry(f->fleet); /* it may have an old password */
	fleet_until(f, is_ready(f, 0));
	assert_int_equal(fleet_starts(f, 0, &new), 2);
	assert_int_equal(new.generation, old.generation);
	assert_true(new.adopt);
	assert_true(fleet_is_reaped(old.pid));
	assert_int_equal(fleet_slot(f, 0)->restarts, 0);
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_NONE);
	assert_int_equal(f->fleet->parts[0].crash.deaths, 0);
	assert_int_equal(fleet_starts(f, 1, NULL), 1); /* was well */
	assert_int_equal(fleet_logged(f, "worker.died"), 0);
	assert_int_equal(fleet_logged(f, "reload.workers_again workers=1"), 1);
}

static void fleet_starts_a_ready_worker_again_when_it_cannot_write(void **state)
{
	struct fixture *f = *state;
	fleet_script(f, 0, "flags=64 ready serve\nready serve"); /* FLAG_UNWRITTEN */
	fleet_assign(f, 1);
	fleet_until(f, is_ready(f, 0) && f->fleet->parts[0].waits);
	fleet_retry(f->fleet);
	fleet_until(f, fleet_starts(f, 0, NULL) == 2 && is_ready(f, 0));
	assert_int_equal(fleet_slot(f, 0)->restarts, 0);
}

/* ------------------------------------------------------------------------- cannot start */

static void fleet_tries_again_until_its_worker_program_is_there(void **state)
{
	struct fixture *f = *state;
	struct start s;
	char path[100];
	snprintf(path, sizeof path, "%s/worker", f->path);
	unsigned before = fleet_descriptors(f);
	fleet_program(f, path);
	fleet_assign(f, 1);
	fleet_until(f, fleet_state(f, 0) == PART_FAILED);
	assert_int_equal(fleet_descriptors(f), before);
	assert_int_equal(fleet_slot(f, 0)->death, DEATH_SPAWN);
	assert_int_equal(fleet_slot(f, 0)->death_code, ENOENT);
	assert_true(fleet_slot(f, 0)->restarts >= 5);
	assert_true(fleet_logged(f, "worker.start_failed") >= 5);
	assert_int_equal(fleet_generations(f), 1);
	fleet_link_program(path);
	fleet_until(f, is_ready(f, 0));
	assert_int_equal(fleet_starts(f, 0, &s), 1);
	assert_false(s.adopt); /* nobody has written into it yet */
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_until(f, f->released);
	assert_int_equal(f->generations_at_release, 0);
}

static void limit_descriptors(rlim_t n)
{
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void fleet_tries_again_when_it_is_out_of_descriptors(void **state)
{
	struct fixture *f = *state;
	struct rlimit before;
	unsigned open_before = fleet_descriptors(f);
	getrlimit(RLIMIT_NOFILE, &before);
	rlim_t next_fd = (rlim_t)dup(0);
	close((int)next_fd);
	for (unsigned more = 0; more < 6; more++) { /* one step further each time */
		unsigned released = f->released;
		fleet_slot(f, 0)->death = DEATH_NONE;
		limit_descriptors(next_fd + more);
		fleet_assign(f, 1);
		fleet_until(f, fleet_slot(f, 0)->death == DEATH_SPAWN || f->fleet->parts[0].ready);
		assert_true(more || fleet_slot(f, 0)->death == DEATH_SPAWN);
		limit_descriptors(before.rlim_cur);
		fleet_until(f, is_ready(f, 0));
		fleet_take(f, 1, GROUP_REVOKED);
		fleet_until(f, f->released > released);
		assert_int_equal(fleet_descriptors(f), open_before);
	}
	assert_int_equal(fleet_generations(f), 0);
}

#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, fleet_setup, fleet_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FLEET_TEST(fleet_restarts_a_dead_worker_on_its_store),
		FLEET_TEST(fleet_backs_off_and_says_failed_when_a_worker_dies_again_and_again),
		FLEET_TEST(fleet_waits_as_long_as_it_says_before_a_restart),
		FLEET_TEST(fleet_makes_a_new_generation_when_the_worker_asks_for_one),
		FLEET_TEST(fleet_makes_a_new_generation_when_opening_the_store_crashes),
		FLEET_TEST(fleet_says_failed_when_new_generations_do_not_help),
		FLEET_TEST(fleet_passes_over_a_record_that_kills_its_worker_three_times),
		FLEET_TEST(fleet_forgets_what_it_passed_over_when_the_log_is_another_one),
		FLEET_TEST(fleet_blames_no_record_when_the_worker_was_killed_from_outside),
		FLEET_TEST(fleet_aborts_a_worker_that_has_no_heartbeat),
		FLEET_TEST(fleet_kills_a_worker_that_survives_its_abortion),
		FLEET_TEST(fleet_takes_a_partition_whose_worker_hangs_as_fast_as_any),
		FLEET_TEST(fleet_blames_the_record_in_hand_only_when_it_was_worked_on),
		FLEET_TEST(fleet_sees_a_hang_when_it_looks_as_seldom_as_the_timeout_is_long),
		FLEET_TEST(fleet_gives_everybody_time_to_beat_after_it_was_frozen),
		FLEET_TEST(fleet_ignores_garbage_and_hears_what_comes_after_it),
		FLEET_TEST(fleet_serves_the_others_when_a_worker_floods_it),
		FLEET_TEST(fleet_rests_when_a_worker_has_closed_its_end),
		FLEET_TEST(fleet_believes_no_worker_that_says_it_has_drained_unasked),
		FLEET_TEST(fleet_counts_no_death_of_a_worker_that_it_starts_again_itself),
		FLEET_TEST(fleet_starts_a_ready_worker_again_when_it_cannot_write),
		FLEET_TEST(fleet_tries_again_until_its_worker_program_is_there),
		FLEET_TEST(fleet_tries_again_when_it_is_out_of_descriptors),
	};
	return fleet_main(argc, argv) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
