/*
 * test_fleet_growth.c - the topic gets more partitions, or fewer, while all is running.
 *
 * The workers are real processes that follow a script: see fleet_fixture.h.
 */
#include "fleet_fixture.h"

#include "supervisor/part.h"

static bool is_ready(const struct fixture *f, uint32_t partition)
{
	return fleet_state(f, partition) == PART_READY;
}

/* What a reader would route by. */
static uint32_t routing(const struct fixture *f)
{
	return atomic_load(&f->table.head->partitions);
}

/* Words that let a reader into a store of before. */
static unsigned count_open(const struct fixture *f)
{
	unsigned n = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		n += is_ready(f, p);
	return n;
}

static unsigned count_state(const struct fixture *f, enum part_state state)
{
	unsigned n = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		n += fleet_state(f, p) == state;
	return n;
}

/* kafka.partitions: 0, and the topic has n. */
static struct fixture *follow(void **state, uint32_t n)
{
	struct fixture *f = *state;
	f->fleet->partitions = f->fleet->topic_partitions = 0; /* nothing was known yet */
	fleet_partitions(f->fleet, n);
	assert_int_equal(routing(f), n);
	return f;
}

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

/* ------------------------------------------------------------------------ the count is followed */

static void fleet_renews_all_and_serves_the_new_ones_when_the_topic_grows(void **state)
{
	struct fixture *f = follow(state, 4);
	struct start old[4], new;
	fleet_begin(f, 4);
	for (uint32_t p = 0; p < 4; p++)
		fleet_starts(f, p, &old[p]);
	fleet_partitions(f->fleet, 6);
	assert_int_equal(routing(f), 6);
	assert_int_equal(count_open(f), 0);
	uint32_t added[] = {4, 5};
	fleet_assigned(f->fleet, added, 2, false);
	fleet_until(f, count_open(f) == 6);
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
	struct fixture *f = follow(state, 4);
	fleet_begin(f, 4);
	fleet_partitions(f->fleet, 6);
	assert_int_equal(fleet_logged_before(f, "state=draining", "topic.partitions_changed"), 4);
	assert_int_equal(fleet_logged_before(f, "state=ready", "topic.partitions_changed"), 4);
	fleet_until(f, count_open(f) == 4);
}

static void fleet_renews_with_what_it_was_told_last_when_the_topic_grows_twice(void **state)
{
	struct fixture *f = follow(state, 2);
	struct start s;
	fleet_script(f, 0, "ready deaf"); /* the first growth is still under way at the second */
	f->config.drain_ms = 300;
	fleet_begin(f, 2);
	fleet_partitions(f->fleet, 3);
	fleet_run_ms(f, 50);
	fleet_partitions(f->fleet, 5);
	fleet_until(f, count_open(f) == 2);
	for (uint32_t p = 0; p < 2; p++) {
		fleet_starts(f, p, &s);
		assert_int_equal(s.partitions, 5);
	}
	assert_int_equal(routing(f), 5);
	assert_int_equal(f->released, 0);
}

static void fleet_holds_what_it_is_given_ahead_of_the_count(void **state)
{
	struct fixture *f = follow(state, 2);
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
	fleet_until(f, count_open(f) == 2);
	assert_int_equal(fleet_state(f, 3), PART_PENDING);
	fleet_partitions(f->fleet, 4);
	fleet_until(f, count_open(f) == 3);
	assert_true(is_ready(f, 3));
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
	struct fixture *f = follow(state, 2);
	struct start s;
	fleet_begin(f, 2);
	for (uint32_t p = 0; p < 2; p++) {
		f->fleet->parts[p].n_quarantine = 1;
		atomic_store(&fleet_slot(f, p)->quarantined, 1);
	}
	fleet_partitions(f->fleet, 3);
	fleet_until(f, count_open(f) == 2);
	for (uint32_t p = 0; p < 2; p++) {
		fleet_starts(f, p, &s);
		assert_int_equal(s.n_quarantine, 0);
		assert_int_equal(fleet_slot(f, p)->quarantined, 0);
	}
}

static void fleet_gives_back_what_it_holds_ahead_of_the_count(void **state)
{
	static const uint32_t ahead[] = {2, 3, 4};
	struct fixture *f = follow(state, 2);
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
	fleet_until(f, count_open(f) == 3);
	assert_int_equal(fleet_starts(f, 2, NULL) + fleet_starts(f, 3, NULL), 0);
	assert_true(is_ready(f, 4));
}

/* ----------------------------------------------------------------------- wherever it was */

static void fleet_evicts_what_is_parked_when_the_topic_grows(void **state)
{
	struct fixture *f = follow(state, 4);
	struct start old, new;
	fleet_begin(f, 2);
	fleet_starts(f, 0, &old);
	fleet_take(f, 1, GROUP_LOSS);
	fleet_until(f, f->released);
	fleet_partitions(f->fleet, 8);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	assert_false(fleet_has(f, 0, old.generation));
	fleet_give(f, 0);
	fleet_until(f, is_ready(f, 0) && is_ready(f, 1));
	fleet_starts(f, 0, &new);
	assert_true(new.generation > old.generation);
	assert_false(new.adopt);
	assert_int_equal(new.partitions, 8);
}

/* All is given up before a rejoin, the count is learnt in between, all and more comes back. */
static void fleet_renews_all_when_an_eager_group_grows(void **state)
{
	static const uint32_t all[] = {0, 1, 2, 3};
	struct fixture *f = follow(state, 2);
	struct start s;
	fleet_begin(f, 2);
	fleet_take(f, 2, GROUP_EAGER); /* being killed */
	fleet_partitions(f->fleet, 4);
	fleet_assigned(f->fleet, all, 4, true);
	fleet_until(f, count_open(f) == 4);
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
	struct fixture *f = follow(state, 2);
	struct start s;
	fleet_begin(f, 1);
	fleet_take(f, 1, GROUP_LOSS);
	fleet_give(f, 0); /* its worker is not dead yet: it would resume */
	fleet_partitions(f->fleet, 3);
	fleet_until(f, is_ready(f, 0));
	fleet_starts(f, 0, &s);
	assert_false(s.adopt);
	assert_int_equal(s.partitions, 3);
	assert_int_equal(fleet_generations(f), 1);
}

static void fleet_goes_on_draining_when_the_topic_grows(void **state)
{
	struct fixture *f = follow(state, 2);
	f->config.drain_ms = 200;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 2);
	fleet_take(f, 1, GROUP_REVOKED);
	fleet_partitions(f->fleet, 3);
	fleet_until(f, f->released);
	assert_int_equal(fleet_state(f, 0), PART_FREE);
	assert_false(f->fleet->parts[0].child.pid);
	fleet_until(f, is_ready(f, 1));
	assert_int_equal(fleet_starts(f, 0, NULL), 1);
	assert_int_equal(f->released, 1);
}

/* Growth moves partitions, so a revocation follows close: time to drain is left to it. */
static void fleet_still_drains_when_it_is_revoked_while_it_renews(void **state)
{
	struct fixture *f = follow(state, 2);
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
	struct fixture *f = follow(state, 2);
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
	fleet_until(f, is_ready(f, 1));
	assert_int_equal(fleet_starts(f, 0, NULL), starts); /* and its back-off goes on */
	fleet_script(f, 0, "ready serve");
	f->fleet->parts[0].not_before = 0;
	fleet_until(f, is_ready(f, 0));
	fleet_starts(f, 0, &new);
	assert_int_equal(new.partitions, 3);
}

static void fleet_gives_a_worker_up_at_the_deadline_when_it_does_not_die_of_growth(void **state)
{
	struct fixture *f = follow(state, 2);
	struct start old, new;
	f->config.drain_ms = 60000;
	f->config.revoke_deadline_ms = 200;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 1);
	fleet_starts(f, 0, &old);
	fleet_partitions(f->fleet, 3);
	fleet_until(f, is_ready(f, 0));
	fleet_starts(f, 0, &new);
	assert_int_equal(new.partitions, 3);
	assert_false(fleet_has(f, 0, old.generation));
	fleet_until(f, fleet_is_reaped(old.pid));
}

static void fleet_stops_by_the_old_count_when_the_topic_grows_meanwhile(void **state)
{
	struct fixture *f = follow(state, 2);
	f->config.stop_deadline_ms = 300;
	fleet_script(f, 0, "ready deaf");
	fleet_begin(f, 2);
	uint64_t kept = fleet_generation(f, 0);
	fleet_stop(f->fleet);
	fleet_partitions(f->fleet, 3);
	assert_true(is_ready(f, 0)); /* it answers until it has ended */
	assert_int_equal(routing(f), 2);
	fleet_until(f, f->stopped);
	assert_int_equal(fleet_state(f, 0), PART_STOPPED);
	assert_int_equal(fleet_generation(f, 0), kept);
	assert_int_equal(routing(f), 2);
}

static void fleet_adopts_no_leftover_of_another_count(void **state)
{
	struct fixture *f = follow(state, 2);
	struct start s;
	fleet_begin(f, 1);
	uint64_t gone = fleet_generation(f, 0);
	fleet_renew(f);
	assert_true(fleet_has(f, 0, gone));
	fleet_partitions(f->fleet, 3); /* of 64: another one */
	assert_false(fleet_has(f, 0, gone));
	fleet_give(f, 0);
	fleet_until(f, is_ready(f, 0));
	fleet_starts(f, 0, &s);
	assert_false(s.adopt);
}

/* ----------------------------------------------------------------------------- it shrinks */

static void fleet_renews_what_is_left_when_the_topic_has_fewer(void **state)
{
	struct fixture *f = follow(state, 4);
	struct start s;
	fleet_begin(f, 4);
	f->fleet->parts[0].n_quarantine = 1; /* an offset of the log that is gone */
	fleet_partitions(f->fleet, 2);
	assert_int_equal(routing(f), 2);
	assert_int_equal(count_open(f), 0);
	fleet_until(f, is_ready(f, 0) && is_ready(f, 1));
	fleet_until(f, count_state(f, PART_DRAINING) == 0);
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
	struct fixture *f = follow(state, 2);
	f->config.drain_ms = 100;
	fleet_script(f, 1, "exit=1\nexit=1\nexit=1\nexit=1\nexit=1\ndeaf");
	fleet_assign(f, 2);
	fleet_until(f, fleet_starts(f, 1, NULL) == 6 && is_ready(f, 0));
	assert_int_equal(fleet_logged(f, "partition=1 state=failed"), 1);
	fleet_partitions(f->fleet, 1);
	fleet_until(f, is_ready(f, 0) && f->fleet->parts[1].life == LIFE_QUEUED);
	assert_int_equal(fleet_state(f, 1), PART_PENDING); /* it is the group's turn to take it */
}

/* --------------------------------------------------------------------------- it is fixed */

static void fleet_routes_by_a_fixed_count_from_the_start_when_the_topic_has_more(void **state)
{
	struct fixture *f = fix_anew(state);
	struct start s;
	fleet_partitions(f->fleet, FLEET_PARTITIONS + 3);
	assert_int_equal(routing(f), FLEET_PARTITIONS);
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
	assert_int_equal(routing(f), FLEET_PARTITIONS);
	assert_int_equal(fleet_logged(f, "topic.partitions_"), 0);
}

static void fleet_serves_a_fixed_count_of_a_topic_that_the_table_cannot_hold(void **state)
{
	struct fixture *f = fix_anew(state);
	fleet_partitions(f->fleet, TABLE_CAPACITY * 2);
	assert_int_equal(routing(f), FLEET_PARTITIONS);
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
	assert_int_equal(routing(f), FLEET_PARTITIONS);
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
	assert_true(is_ready(f, 0)); /* untouched */
	assert_int_equal(fleet_generation(f, 0), generation);
	fleet_revoked(f->fleet, beyond, 2, GROUP_REVOKED);
	assert_int_equal(f->released, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fleet_state(f, beyond[i]), PART_FREE);
	assert_true(is_ready(f, 0));
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
	assert_int_equal(routing(f), FLEET_PARTITIONS);
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
	assert_int_equal(count_open(f), 1);
	assert_int_equal(f->table.head->topic_partitions, 1);
	fleet_until(f, count_state(f, PART_FAILED) == 2);
	fleet_run_ms(f, 100);
	assert_true(is_ready(f, 0));
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
	fleet_until(f, is_ready(f, 1));
	assert_int_equal(fleet_state(f, 2), PART_FAILED);
	fleet_partitions(f->fleet, FLEET_PARTITIONS);
	fleet_until(f, count_open(f) == 4);
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
	fleet_until(f, is_ready(f, 1) && is_ready(f, 2));
}

/* More than the table can name: what is served goes on, and nothing else begins. */
static void fleet_refuses_a_topic_that_outgrows_the_table(void **state)
{
	struct fixture *f = follow(state, 4);
	fleet_begin(f, 2);
	uint64_t generation = fleet_generation(f, 0);
	fleet_give(f, 4);
	assert_int_equal(fleet_state(f, 4), PART_PENDING);
	fleet_partitions(f->fleet, TABLE_CAPACITY + 1);
	assert_int_equal(fleet_state(f, 4), PART_FAILED);
	assert_int_equal(routing(f), 4);
	assert_int_equal(fleet_generation(f, 0), generation);
	fleet_partitions(f->fleet, TABLE_CAPACITY);
	assert_int_equal(routing(f), TABLE_CAPACITY);
	fleet_until(f, count_open(f) == 3);
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
