/*
 * watch.c - notices that reading has stopped without an error, or that the log
 * ends below our position.
 *
 * The end is asked by another way than the records come, so a stall of the one
 * does not hide in the other.  An end below the position is believed only after
 * it has lasted: a leader just elected may say less at first.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.  Pure.
 */
#include "watch.h"

#include "plan.h"

void watch_start(struct watch *watch, int64_t position, uint64_t now_ns)
{
	*watch = (struct watch){.position = position, .moved_ns = now_ns};
}

void watch_progress(struct watch *watch, int64_t position, bool held, uint64_t now_ns)
{
	if (position != watch->position)
		watch->cures = 0;
	if (position != watch->position || held)
		watch->moved_ns = now_ns;
	watch->position = position;
}

enum watch_verdict watch_end(struct watch *watch, int64_t end, int64_t position_asked,
	uint64_t stall_ms, uint64_t now_ns)
{
	if (end >= position_asked)
		watch->beyond_ns = 0;
	else if (watch->beyond_ns == 0)
		watch->beyond_ns = now_ns;
	else if (now_ns - watch->beyond_ns >= PLAN_BEYOND_END_MS * UINT64_C(1000000))
		return WATCH_BEYOND_END;
	if (end <= watch->position)
		watch->moved_ns = now_ns;
	if (now_ns - watch->moved_ns < stall_ms * UINT64_C(1000000))
		return WATCH_FINE;
	watch->moved_ns = now_ns;
	return watch->cures++ < WATCH_CURES ? WATCH_CURE : WATCH_GIVE_UP;
}
