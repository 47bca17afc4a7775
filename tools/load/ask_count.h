/*
 * ask_count.h - what came of the questions: counts, times, and --out.
 */
#ifndef TALLY_LOAD_ASK_COUNT_H
#define TALLY_LOAD_ASK_COUNT_H

#include "ask_conn.h"
#include "ask_plan.h"

struct ask_count;

/* `options` is kept.  NULL after one line on stderr. */
struct ask_count *ask_count_open(const struct ask_options *options);

struct ask_times {
	uint64_t took_ns;
	int64_t sent_us, answered_us; /* wall */
};
void ask_count_call(struct ask_count *count, const struct ask_question *question,
	const struct ask_call *call, const struct ask_times *times);

/* Prints the summary and frees it.  true: every call was answered with OK, and all was written. */
bool ask_count_close(struct ask_count **count, double seconds);

#endif
