/*
 * plan.c - where replay starts and ends: the whole decision, as a pure function.
 *
 *	            start              stored        end = target
 *	log  ...-----|-------------------|------------|--->
 *	                   ^ from, by time T = now - window - margin
 *
 * A store that may be resumed goes on where it stopped; one that is new starts
 * at the first record young enough to count.  When something cannot be had,
 * more is read rather than less: the time look-up is only a shortcut.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.  Pure.
 */
#include "plan.h"

static int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool out_of_time(const struct plan_facts *facts)
{
	return facts->waited_ms >= facts->offsets_timeout_ms;
}

static void rebuild(struct plan *plan, enum rebuild_reason reason)
{
	plan->action = PLAN_REBUILD;
	plan->reason = reason;
}

static void read_from(struct plan *plan, int64_t from)
{
	plan->action = PLAN_READ;
	plan->from = from;
}

/*
 * The first offset that is young enough to count: the log's start when that
 * cannot be found out.  False when more must be known first (plan->action says what).
 */
static bool first_young(const struct plan_facts *facts, struct plan *plan, int64_t *offset)
{
	*offset = facts->start;
	switch (facts->time) {
	case TIME_FOUND:
		*offset = max64(facts->start, min64(facts->time_offset, facts->end));
		return true;
	case TIME_NONE:
		if (facts->tail == TAIL_UNREAD) {
			plan->action = PLAN_TAIL;
			return false;
		}
		if (facts->tail == TAIL_OLD)
			*offset = facts->end;
		return true;
	case TIME_UNKNOWN:
		break;
	}
	return out_of_time(facts); /* PLAN_ASK until then */
}

static void plan_fresh(const struct plan_facts *facts, struct plan *plan)
{
	int64_t from;

	if (facts->start >= facts->end)
		read_from(plan, facts->end);
	else if (first_young(facts, plan, &from))
		read_from(plan, from);
}

/*
 * The log starts above our offset: [stored, start) was never read and is gone.
 *
 * That is harmless when all of it is older than T.  The records themselves are
 * gone, so it has to follow from what is left: if the first record with
 * timestamp >= T lies above `start`, then the records at `start` are still
 * older than T, and those before them are older still, as far as time rises
 * with the offset.  Records out of order are what T's margin (at least a minute,
 * and the longest outage) is for.  The timestamp of our own last record proves
 * nothing: those after it are younger.  Nor does an empty log.
 *
 * A store that has never been ready goes on: built anew, it would start at the
 * very same log start, knowing less, and with a log that is cut faster than it
 * is read it would start for ever.
 */
static void plan_gap(const struct plan_facts *facts, struct plan *plan)
{
	int64_t from = facts->start;

	plan->gap = facts->start - facts->stored;
	if (facts->start < facts->end && !first_young(facts, plan, &from))
		return;
	if (facts->never_ready || from > facts->start)
		read_from(plan, from);
	else
		rebuild(plan, REBUILD_GAP);
}

static void plan_resume(const struct plan_facts *facts, struct plan *plan)
{
	if (facts->stored > facts->end) {
		if (facts->beyond_ms >= PLAN_BEYOND_END_MS)
			rebuild(plan, REBUILD_BEYOND_END);
		return; /* else PLAN_ASK */
	}
	if (facts->stored < facts->start) {
		plan_gap(facts, plan);
		return;
	}
	/* No record was ever delivered: nothing tells whether this is still the log that had none,
	 * and nothing is counted twice when it is looked through again. */
	if (facts->print_offset < 0) {
		plan_fresh(facts, plan);
		return;
	}
	/*
	 * Time can only skip records that would be counted as too old.  So one
	 * answer is enough here, "none" is not followed up, and a failure is not
	 * waited for.
	 */
	read_from(plan, facts->stored);
	if (facts->time == TIME_FOUND)
		plan->from = max64(plan->from, min64(facts->time_offset, facts->end));
	if (facts->print_offset >= facts->start)
		plan->check = facts->print_offset;
	if (facts->anchor_offset >= facts->start && facts->anchor_offset < facts->print_offset)
		plan->anchor = facts->anchor_offset;
}

void plan_next(const struct plan_facts *facts, struct plan *plan)
{
	*plan = (struct plan){.action = PLAN_ASK, .target = facts->end, .check = -1, .anchor = -1};
	if (facts->end < 0 || facts->start < 0) {
		plan->degraded = facts->failures > 0;
		plan->ready_now = facts->ready_on_failure && plan->degraded && out_of_time(facts);
	} else if (facts->stored >= 0) {
		plan_resume(facts, plan);
	} else {
		plan_fresh(facts, plan);
	}
}

bool plan_done(int64_t target, int64_t next, int64_t eof, int64_t applied)
{
	return next >= target || eof >= target || applied >= target - 1;
}

int64_t plan_since_ms(int64_t now_ms, uint32_t window_minutes, uint32_t margin_s)
{
	int64_t since = now_ms - (int64_t)window_minutes * 60000 - (int64_t)margin_s * 1000;

	return max64(since, 0);
}

int64_t plan_tail_from(int64_t start, int64_t end, unsigned round)
{
	int64_t offsets = round < 40 ? (int64_t)PLAN_TAIL_OFFSETS << round : INT64_MAX;

	return offsets >= end - start ? start : end - offsets;
}
