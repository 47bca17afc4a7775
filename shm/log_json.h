/*
 * log_json.h - a line of the log as a JSON object; used by log.c alone.
 *
 *	"records=500 next=81200 error=\"no broker\"" -->
 *	{"time":"...","program":"worker","instance":7,"level":"info","event":"replay.commit",
 *	 "records":500,"next":81200,"error":"no broker"}
 */
#ifndef TALLY_SHM_LOG_JSON_H
#define TALLY_SHM_LOG_JSON_H

#include <stddef.h>

struct log_head {
	const char *time; /* "" = none: the journal has it */
	const char *program;
	int instance; /* < 0: none */
	const char *level, *event;
};

/*
 * Whole numbers of at most 15 digits are numbers, all else is text; words that belong to no
 * key are "text".  Characters that must not reach a terminal are the text \xNN.  What does not
 * fit is cut, ends in "...", and the object is whole all the same.  No newline.  Returns the
 * length, below `size`, which is 512 at least.
 */
size_t log_json(char *out, size_t size, const struct log_head *head, const char *body);

#endif
