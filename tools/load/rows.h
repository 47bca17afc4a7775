/*
 * rows.h - command line options as a table: reading, bounds, help.
 *
 *	row[] --> getopt_long --> a row's reader --> a field of the caller's struct
 *
 * Numbers are all 64 bits wide, so that one reader reads them.
 */
#ifndef TALLY_LOAD_ROWS_H
#define TALLY_LOAD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row {
	const char *name, *arg, *help;
	void (*read)(const struct row *row, void *into, const char *text);
	size_t at; /* offset of the field */
	uint64_t low, high;
};

/* Readers.  A mistake ends the program. */
void row_text(const struct row *row, void *into, const char *text);	/* const char *; UTF-8 */
void row_number(const struct row *row, void *into, const char *text);	/* uint64_t; k, M */
void row_duration(const struct row *row, void *into, const char *text); /* uint64_t, ms */
void row_range(const struct row *row, void *into, const char *text);	/* uint64_t[2]: MIN-MAX */

/* A whole number with k or M; *end is what follows.  False: none, or too large. */
bool row_whole(const char *text, uint64_t *number, char **end);

/* All of argv; --help prints `head`, the rows and what `tail` says, and ends the program. */
struct rows {
	const struct row *row;
	size_t n;
	const char *head;
	void (*tail)(void);
};
void rows_parse(const struct rows *rows, void *into, int argc, char **argv);

/* `words`: those that may be said, with a blank behind each. */
void rows_check_word(const char *option, const char *text, const char *words);

/* One line on stderr, exit 2. */
_Noreturn void __attribute__((format(printf, 1, 2))) usage_error(const char *fmt, ...);

#endif
