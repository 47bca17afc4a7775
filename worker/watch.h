/*
 * watch.h - notices that reading has stopped without an error, or that the log
 * ends below our position.  Pure: the caller brings the facts and acts.
 *
 *	position moves --watch_progress-->  .
 *	broker's end   --watch_end-->  fine | start reading again | give up | rebuild
 */
#ifndef TALLY_WORKER_WATCH_H
#define TALLY_WORKER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define WATCH_CURES 2 /* so many new starts of reading, then the process is replaced */

enum watch_verdict {
	WATCH_FINE,
	WATCH_CURE,	 /* the log has more, nothing arrives: start reading again */
	WATCH_GIVE_UP,	 /* that has not helped */
	WATCH_BEYOND_END /* the log has ended below our position for PLAN_BEYOND_END_MS */
};

struct watch {
	int64_t position;
	uint64_t moved_ns;  /* when it last moved, or nothing was missing */
	uint64_t beyond_ns; /* since when the log ends below it; 0 = it does not */
	unsigned cures;
};

void watch_start(struct watch *watch, int64_t position, uint64_t now_ns);

/* The position as it is now; `held`: reading is paused on purpose. */
void watch_progress(struct watch *watch, int64_t position, bool held, uint64_t now_ns);

/* The broker's answer, and the position at the time when it was asked. */
enum watch_verdict watch_end(struct watch *watch, int64_t end, int64_t position_asked,
	uint64_t stall_ms, uint64_t now_ns);

#endif
