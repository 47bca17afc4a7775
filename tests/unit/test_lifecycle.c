/*
 * test_lifecycle.c - the table of a partition's life, walked against a model of what is promised.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "supervisor/lifecycle.h"

static bool has_worker(enum life s)
{
	return s == LIFE_RUNNING || s == LIFE_DRAINING || s == LIFE_RENEWING || s == LIFE_PARKING ||
	       s == LIFE_RETURNING || s == LIFE_STOPPING;
}

/* What holds a revocation's answer back: fleet's rule. */
static bool is_leaving(enum life s)
{
	return s == LIFE_DRAINING || s == LIFE_RENEWING || s == LIFE_PARKING || s == LIFE_RETURNING;
}

/* When an event of our own can be raised at all: fleet's and part's rules. */
static bool can_raise(enum life s, enum life_event e)
{
	switch (e) {
	case ON_START:
		return s == LIFE_QUEUED;
	case ON_UNSTARTED:
	case ON_HUNG:
	case ON_AGAIN:
		return s == LIFE_RUNNING;
	case ON_TIMER:
		return s == LIFE_DRAINING || s == LIFE_RENEWING || s == LIFE_STOPPING;
	case ON_DEADLINE:
		return is_leaving(s);
	case ON_RECOUNT:
		return s != LIFE_STOPPING && s != LIFE_STOPPED;
	default:
		return true;
	}
}

/* What the world is like after the actions so far. */
struct model {
	enum life life;
	bool worker; /* lives, or is not reaped */
	bool doomed; /* killed, or has a timer that will */
	bool store;  /* a directory that a word may name */
	bool old;    /* the store is of a routing that is over */
	bool queued; /* the next start is certain */
	bool ready;  /* the word says so */
	bool lease;
	bool owned; /* what Kafka has said */
};

static void act(struct model *m, enum life_action action)
{
	switch (action) {
	case DO_ADOPT:
		m->lease = true;
		m->store = true; /* a leftover, perhaps */
		m->ready = false;
		break;
	case DO_START:
		assert_false(m->worker || m->old);
		m->worker = m->store = true;
		m->doomed = m->ready = false;
		break;
	case DO_RETRY:
		m->ready = false;
		break;
	case DO_RESUME:
		m->lease = true;
		m->ready = false;
		break;
	case DO_RENEW:
		assert_false(m->worker);
		/* fall through */
	case DO_REBUILD:
		m->store = m->old = m->ready = false;
		m->lease = true;
		break;
	case DO_ANNOUNCE:
		assert_true(m->worker && m->store);
		m->ready = true;
		break;
	case DO_ABORT:
		break;
	case DO_DRAIN:
		m->ready = false;
		m->doomed = true;
		break;
	case DO_PARK:
	case DO_AGAIN:
		m->ready = m->lease = false;
		m->doomed = true;
		break;
	case DO_KILL:
		m->lease = false;
		m->doomed = true;
		break;
	case DO_KEEP:
		m->ready = m->lease = false;
		break;
	case DO_ABANDON_RENEW:
	case DO_ABANDON:
		assert_true(m->worker);
		m->worker = false;
		/* fall through */
	case DO_EVICT:
		assert_false(m->worker);
		m->store = m->old = m->ready = m->lease = false;
		if (action == DO_ABANDON_RENEW)
			m->lease = true;
		break;
	case DO_STOP:
		m->doomed = true;
		break;
	case DO_FINISH:
		m->ready = m->lease = false;
		break;
	case DO_NOTHING:
	case LIFE_ACTIONS:
		break;
	}
}

static void step(struct model *m, enum life_event event)
{
	if (event == ON_EXITED || event == ON_REBUILD || event == ON_UNSTARTED)
		m->worker = false;
	if (event == ON_ASSIGNED)
		m->owned = true;
	if (event == ON_REVOKED || event == ON_LOST)
		m->owned = false;
	if (event == ON_RECOUNT)
		m->old = m->store;
	struct life_step s = lifecycle_step(m->life, event);
	assert_true(s.next < LIFE_STATES && s.action < LIFE_ACTIONS);
	m->life = s.next;
	act(m, s.action);
}

/* The coordinator's contact renews these, whatever was done to the lease before. */
static void contact(struct model *m)
{
	if (m->life == LIFE_QUEUED || m->life == LIFE_RUNNING || m->life == LIFE_STOPPING)
		m->lease = true;
}

static void check(const struct model *m)
{
	assert_int_equal(m->worker, has_worker(m->life));
	if (m->life == LIFE_FREE)
		assert_false(m->store || m->ready || m->lease);
	if (is_leaving(m->life))
		assert_true(m->doomed);
	/* The promise: no answer by another routing than the present one. */
	assert_false(m->ready && m->old);
	if (!m->owned) {
		/* The promise: no answer from what is not ours. */
		assert_false(m->ready && m->lease);
		assert_true(m->life != LIFE_QUEUED && m->life != LIFE_RUNNING);
	}
	if (m->life == LIFE_STOPPED || m->life == LIFE_PARKED)
		assert_false(m->ready || m->lease);
}

static void lifecycle_has_a_cell_for_every_event_from_outside(void **state)
{
	(void)state;
	for (unsigned s = 0; s < LIFE_STATES; s++)
		for (unsigned e = ON_ASSIGNED; e <= ON_DRAINED; e++) {
			struct life_step got = lifecycle_step((enum life)s, (enum life_event)e);
			assert_true(got.next < LIFE_STATES && got.action < LIFE_ACTIONS);
		}
}

static void lifecycle_has_a_cell_for_every_event_that_we_raise(void **state)
{
	(void)state;
	for (unsigned s = 0; s < LIFE_STATES; s++)
		for (unsigned e = ON_START; e < LIFE_EVENTS; e++)
			if (can_raise((enum life)s, (enum life_event)e))
				lifecycle_step((enum life)s, (enum life_event)e);
}

static void lifecycle_stops_with_a_core_when_we_raise_what_we_never_should(void **state)
{
	static const struct {
		enum life life;
		enum life_event event;
	} never[] = {{LIFE_FREE, ON_START}, {LIFE_RUNNING, ON_START}, {LIFE_PARKED, ON_TIMER},
		{LIFE_STOPPED, ON_HUNG}, {LIFE_QUEUED, ON_UNSTARTED}, {LIFE_RUNNING, ON_DEADLINE},
		{LIFE_STATES, ON_LOST}, {LIFE_FREE, LIFE_EVENTS}};
	(void)state;
	for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
		int status;
		pid_t pid = fork();
		if (!pid) {
			if (!freopen("/dev/null", "w", stderr))
				_exit(1);
			signal(SIGABRT, SIG_DFL);
			lifecycle_step(never[i].life, never[i].event);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

/* Everything that can happen, in any order, and the coordinator heard in between. */
static void lifecycle_keeps_its_promises_on_every_walk(void **state)
{
	uint64_t seed = 88172645463325252u;
	unsigned seen[LIFE_STATES] = {0};
	(void)state;
	for (int walk = 0; walk < 20000; walk++) {
		struct model m = {.life = LIFE_FREE};
		for (int i = 0; i < 60; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			enum life_event e = (enum life_event)(seed % LIFE_EVENTS);
			bool dies = e == ON_EXITED || e == ON_REBUILD;
			if (!can_raise(m.life, e) || (dies && !m.worker))
				continue;
			if (e == ON_STOP && seed >> 32 & 15) /* seldom: there is no way back */
				continue;
			step(&m, e);
			seen[m.life]++;
			check(&m);
			if (m.life != LIFE_STOPPING || m.owned)
				contact(&m);
			else
				m.lease = true; /* of other partitions: must not matter */
			check(&m);
		}
	}
	for (unsigned s = 0; s < LIFE_STATES; s++)
		assert_true(seen[s] > 100);
}

/* A model in a state, reached by a way that fleet goes. */
static struct model reach(enum life life)
{
	static const enum life_event ways[LIFE_STATES][6] = {
		[LIFE_FREE] = {LIFE_EVENTS},
		[LIFE_QUEUED] = {ON_ASSIGNED, LIFE_EVENTS},
		[LIFE_RUNNING] = {ON_ASSIGNED, ON_START, ON_READY, LIFE_EVENTS},
		[LIFE_DRAINING] = {ON_ASSIGNED, ON_START, ON_READY, ON_REVOKED, LIFE_EVENTS},
		[LIFE_RENEWING] = {ON_ASSIGNED, ON_START, ON_REVOKED, ON_ASSIGNED, LIFE_EVENTS},
		[LIFE_PARKING] = {ON_ASSIGNED, ON_START, ON_READY, ON_LOST, LIFE_EVENTS},
		[LIFE_RETURNING] = {ON_ASSIGNED, ON_START, ON_LOST, ON_ASSIGNED, LIFE_EVENTS},
		[LIFE_PARKED] = {ON_ASSIGNED, ON_START, ON_LOST, ON_EXITED, LIFE_EVENTS},
		[LIFE_STOPPING] = {ON_ASSIGNED, ON_START, ON_READY, ON_STOP, LIFE_EVENTS},
		[LIFE_STOPPED] = {ON_ASSIGNED, ON_START, ON_STOP, ON_EXITED, LIFE_EVENTS},
	};
	struct model m = {.life = LIFE_FREE};
	for (const enum life_event *e = ways[life]; *e != LIFE_EVENTS; e++)
		step(&m, *e);
	assert_int_equal(m.life, life);
	check(&m);
	return m;
}

static void lifecycle_ends_free_and_evicted_when_revoked_wherever_it_was(void **state)
{
	static const enum life_event ends[] = {ON_EXITED, ON_REBUILD, ON_DEADLINE};
	(void)state;
	for (unsigned s = 0; s < LIFE_STATES; s++)
		for (size_t i = 0; s != LIFE_STOPPED && i < 3; i++) {
			struct model m = reach((enum life)s);
			step(&m, ON_REVOKED);
			assert_false(m.ready && m.lease);
			if (m.worker)
				step(&m, ends[i]);
			assert_int_equal(m.life, LIFE_FREE);
			assert_false(m.store || m.worker);
		}
}

static void lifecycle_keeps_the_store_when_lost_and_resumes_it_when_back(void **state)
{
	(void)state;
	struct model m = reach(LIFE_RUNNING);
	step(&m, ON_LOST);
	assert_false(m.ready || m.lease);
	step(&m, ON_EXITED);
	assert_true(m.life == LIFE_PARKED && m.store);
	step(&m, ON_ASSIGNED);
	assert_true(m.life == LIFE_QUEUED && m.store && m.lease);
	/* Back before its worker was gone: the same. */
	m = reach(LIFE_RUNNING);
	step(&m, ON_LOST);
	step(&m, ON_ASSIGNED);
	step(&m, ON_EXITED);
	assert_true(m.life == LIFE_QUEUED && m.store && m.lease);
	/* Not back in time: evicted. */
	m = reach(LIFE_PARKED);
	step(&m, ON_GRACE);
	assert_true(m.life == LIFE_FREE && !m.store);
	m = reach(LIFE_PARKING);
	step(&m, ON_GRACE);
	step(&m, ON_EXITED);
	assert_true(m.life == LIFE_FREE && !m.store);
}

static void lifecycle_keeps_the_store_when_its_worker_dies(void **state)
{
	(void)state;
	struct model m = reach(LIFE_RUNNING);
	step(&m, ON_EXITED);
	assert_true(m.life == LIFE_QUEUED && m.store && !m.ready);
	step(&m, ON_START);
	step(&m, ON_REBUILD);
	assert_true(m.life == LIFE_QUEUED && !m.store);
}

static void lifecycle_resumes_and_counts_nothing_when_a_worker_is_started_again(void **state)
{
	(void)state;
	struct model m = reach(LIFE_RUNNING);
	step(&m, ON_AGAIN);
	assert_false(m.ready || m.lease);
	assert_int_equal(lifecycle_step(m.life, ON_EXITED).action, DO_RESUME);
	step(&m, ON_EXITED);
	assert_true(m.life == LIFE_QUEUED && m.store && m.lease);
	/* It may have died for a reason of its own before it was killed. */
	m = reach(LIFE_RUNNING);
	step(&m, ON_AGAIN);
	step(&m, ON_REBUILD);
	assert_true(m.life == LIFE_QUEUED && !m.store);
}

/* A restart is what a worker caused: see part.c, which counts with the action. */
static void lifecycle_counts_no_restart_for_a_renewal_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(lifecycle_step(LIFE_RENEWING, ON_EXITED).action, DO_RENEW);
	assert_int_equal(lifecycle_step(LIFE_RENEWING, ON_REBUILD).action, DO_REBUILD);
	assert_int_equal(lifecycle_step(LIFE_QUEUED, ON_RECOUNT).action, DO_RENEW);
	assert_int_equal(lifecycle_step(LIFE_RUNNING, ON_EXITED).action, DO_RETRY);
	assert_int_equal(lifecycle_step(LIFE_RUNNING, ON_REBUILD).action, DO_REBUILD);
}

/* What is given back while the old worker still ends must not inherit its store. */
static void lifecycle_starts_afresh_when_given_back_while_draining(void **state)
{
	(void)state;
	struct model m = reach(LIFE_RENEWING);
	assert_int_equal(lifecycle_step(LIFE_RENEWING, ON_TIMER).action, DO_KILL);
	step(&m, ON_EXITED);
	assert_true(m.life == LIFE_QUEUED && !m.store);
}

static void lifecycle_comes_to_an_end_when_stopped_wherever_it_was(void **state)
{
	(void)state;
	for (unsigned s = 0; s < LIFE_STATES; s++) {
		struct model m = reach((enum life)s);
		bool kept = s == LIFE_RUNNING || s == LIFE_PARKED || s == LIFE_PARKING ||
			    s == LIFE_RETURNING || s == LIFE_STOPPING || s == LIFE_STOPPED;
		step(&m, ON_STOP);
		if (m.worker)
			step(&m, ON_EXITED);
		assert_false(m.worker || m.ready || m.lease);
		assert_true(m.life == LIFE_FREE || m.life == LIFE_STOPPED);
		if (kept)
			assert_true(m.life == LIFE_STOPPED && m.store);
	}
}

static void lifecycle_has_no_store_of_an_old_routing_when_it_starts_again(void **state)
{
	static const enum life_event ends[] = {ON_EXITED, ON_REBUILD, ON_DEADLINE};
	(void)state;
	for (unsigned s = 0; s < LIFE_STOPPING; s++)
		for (size_t i = 0; i < 3; i++) {
			struct model m = reach((enum life)s);
			bool owned = m.owned;
			step(&m, ON_RECOUNT);
			check(&m);
			if (m.worker)
				step(&m, ends[i]);
			assert_int_equal(m.life, owned ? LIFE_QUEUED : LIFE_FREE);
			assert_false(m.old || m.worker);
		}
}

/* Another member joins while we stop: what it is given must be gone from here. */
static void lifecycle_evicts_when_revoked_while_stopping(void **state)
{
	(void)state;
	struct model m = reach(LIFE_STOPPING);
	assert_true(m.ready && m.lease);
	step(&m, ON_REVOKED);
	assert_true(is_leaving(m.life) && !m.ready);
	step(&m, ON_EXITED);
	assert_true(m.life == LIFE_FREE && !m.store);
}

static void lifecycle_has_a_word_for_everything(void **state)
{
	(void)state;
	for (unsigned s = 0; s < LIFE_STATES; s++)
		assert_non_null(life_word((enum life)s));
	for (unsigned e = 0; e < LIFE_EVENTS; e++)
		assert_non_null(life_event_word((enum life_event)e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lifecycle_has_a_cell_for_every_event_from_outside),
		cmocka_unit_test(lifecycle_has_a_cell_for_every_event_that_we_raise),
		cmocka_unit_test(lifecycle_stops_with_a_core_when_we_raise_what_we_never_should),
		cmocka_unit_test(lifecycle_keeps_its_promises_on_every_walk),
		cmocka_unit_test(lifecycle_ends_free_and_evicted_when_revoked_wherever_it_was),
		cmocka_unit_test(lifecycle_keeps_the_store_when_lost_and_resumes_it_when_back),
		cmocka_unit_test(lifecycle_keeps_the_store_when_its_worker_dies),
		cmocka_unit_test(
			lifecycle_resumes_and_counts_nothing_when_a_worker_is_started_again),
		cmocka_unit_test(lifecycle_counts_no_restart_for_a_renewal_of_its_own),
		cmocka_unit_test(lifecycle_starts_afresh_when_given_back_while_draining),
		cmocka_unit_test(lifecycle_comes_to_an_end_when_stopped_wherever_it_was),
		cmocka_unit_test(lifecycle_has_no_store_of_an_old_routing_when_it_starts_again),
		cmocka_unit_test(lifecycle_evicts_when_revoked_while_stopping),
		cmocka_unit_test(lifecycle_has_a_word_for_everything),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
