/*
 * crash.c - what to do about a worker that died.  Pure.
 *
 *	death -> crash_judge -> retry | rebuild | quarantine, and how long to wait
 *
 * Runs in: supervisor.
 */
#include <signal.h>

#include "supervisor/crash.h"

#define CRASHES_BEFORE_ONE_BY_ONE 2
#define CRASHES_BEFORE_QUARANTINE 3
#define OPENINGS_BEFORE_REBUILD	  3
#define IN_STORE_BEFORE_REBUILD	  3

static bool counts(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
	       signal == SIGABRT || signal == SIGSYS; /* a call that is forbidden */
}

static uint32_t back_off(unsigned deaths, const struct crash_limits *limits)
{
	uint64_t wait = limits->min_ms;
	for (unsigned i = 1; i < deaths && wait < limits->max_ms; i++)
		wait *= 2;
	return wait > limits->max_ms ? limits->max_ms : (uint32_t)wait;
}

/* A page of the store, or a record that kills when it is applied?  A new store tells. */
static bool store_is_deadly(struct crash *crash, const struct crash_death *death)
{
	if (!death->in_store || ++crash->in_store < IN_STORE_BEFORE_REBUILD ||
		(death->in_hand && death->in_hand == crash->renewed_for))
		return false;
	crash->renewed_for = death->in_hand;
	return true;
}

/*
 * Being past everything that was in hand when it died clears the records.
 * Merely advancing does not: with batches of one the worker advances right up
 * to the record that kills it.
 */
void crash_progress(struct crash *crash, uint64_t stored)
{
	if (crash->suspect && stored > crash->suspect) {
		crash->crashes = 0;
		crash->in_hand = crash->suspect = 0;
		crash->one_by_one = false;
	}
}

enum crash_verdict crash_judge(struct crash *crash, const struct crash_death *death,
	const struct crash_limits *limits, uint32_t *wait_ms, int64_t *offset)
{
	crash_progress(crash, death->stored);
	if (death->stored > crash->stored)
		crash->deaths = 0;
	crash->stored = death->stored;
	crash->deaths++;
	*wait_ms = back_off(crash->deaths, limits);
	crash->openings = death->opening && !death->signal ? crash->openings + 1 : 0;
	if (crash->openings >= OPENINGS_BEFORE_REBUILD) {
		crash->openings = 0;
		return CRASH_REBUILD;
	}
	if (!counts(death->signal))
		return CRASH_RETRY;
	if (death->opening)
		return CRASH_REBUILD;
	crash->crashes++;
	bool same = death->in_hand && death->in_hand == crash->in_hand;
	crash->in_hand = death->in_hand;
	if (death->in_hand > crash->suspect)
		crash->suspect = death->in_hand;
	if (crash->crashes >= CRASHES_BEFORE_ONE_BY_ONE)
		crash->one_by_one = true;
	if (store_is_deadly(crash, death))
		return CRASH_REBUILD;
	if (crash->crashes < CRASHES_BEFORE_QUARANTINE || !same)
		return CRASH_RETRY;
	*offset = (int64_t)death->in_hand - 1;
	crash->crashes = crash->in_store = 0;
	crash->in_hand = 0; /* suspect stays: batches of one until it is past it */
	return CRASH_QUARANTINE;
}
