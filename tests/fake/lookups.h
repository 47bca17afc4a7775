/*
 * lookups.h - tells the faked rd_kafka_offsets_for_times what to answer.
 *
 * Linked with -Wl,--wrap=rd_kafka_offsets_for_times.  A question is one of end
 * (-1), start (-2) and time (a timestamp); each has its own answer.
 *
 * In a worker of a system test the answers come from the file that the
 * environment variable TALLY_FAKE_LOOKUPS names, read at each call; one line a
 * question, the last that fits counts; what is not named is asked for real:
 *
 *	end real | 120 | none | timeout | never | unavailable | unknown
 *	start ...
 *	time ...
 *	time.3 ...	of partition 3 alone
 */
#ifndef TALLY_TESTS_FAKE_LOOKUPS_H
#define TALLY_TESTS_FAKE_LOOKUPS_H

#include <stdint.h>

enum lookups_what { LOOKUPS_END, LOOKUPS_START, LOOKUPS_TIME, LOOKUPS_WHATS };

enum lookups_kind {
	LOOKUPS_REAL,
	LOOKUPS_OFFSET,	 /* this offset */
	LOOKUPS_NONE,	 /* -1 without an error: "no such record" */
	LOOKUPS_TIMEOUT, /* returns an error, the element still holds the question and no error */
	LOOKUPS_NEVER,	 /* the same, after the whole timeout */
	LOOKUPS_UNAVAILABLE, /* the element holds an error, the return value does not */
	LOOKUPS_UNKNOWN	     /* no such topic or partition */
};

struct lookups_answer {
	enum lookups_kind kind;
	int64_t offset;
	unsigned delay_ms;
};

/* Everything real again, counts at 0. */
void lookups_reset(void);

void lookups_set(enum lookups_what what, struct lookups_answer answer);

/* How often it was asked. */
unsigned lookups_count(enum lookups_what what);

/* The questions in the order they came, as letters: "est" = end, start, time.  At most 63. */
void lookups_order(char order[64]);

/* The last question by time. */
int64_t lookups_last_time(void);

#endif
