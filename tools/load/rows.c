/*
 * rows.c - command line options as a table: reading, bounds, help.
 *
 * Runs in: load, before anything else.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "shm/record.h"

#define ROWS_MAX 62 /* getopt_long answers with a row number, or with a question mark */
#define OPT_HELP 1000

void usage_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("tally-load: ", stderr);
	vfprintf(stderr, fmt, args);
	fputs("; see --help\n", stderr);
	va_end(args);
	exit(2);
}

void row_text(const struct row *row, void *into, const char *text)
{
	size_t len = strlen(text);

	if (len < row->low || len > row->high)
		usage_error("--%s: must have %llu to %llu bytes", row->name,
			(unsigned long long)row->low, (unsigned long long)row->high);
	if (!record_text_ok(text, len))
		usage_error("--%s: must be UTF-8", row->name);
	memcpy((char *)into + row->at, &text, sizeof(text));
}

bool row_whole(const char *text, uint64_t *number, char **end)
{
	uint64_t unit = 1;

	errno = 0;
	if (*text < '0' || *text > '9')
		return false;
	*number = strtoull(text, end, 10);
	if (**end == 'k')
		unit = 1000;
	else if (**end == 'M')
		unit = 1000000;
	*end += unit > 1;
	return errno == 0 && !__builtin_mul_overflow(*number, unit, number);
}

void row_number(const struct row *row, void *into, const char *text)
{
	uint64_t n;
	char *end;

	if (!row_whole(text, &n, &end) || *end != '\0' || n < row->low || n > row->high)
		usage_error("--%s: '%s' is not a whole number from %llu to %llu", row->name, text,
			(unsigned long long)row->low, (unsigned long long)row->high);
	memcpy((char *)into + row->at, &n, sizeof(n));
}

void row_duration(const struct row *row, void *into, const char *text)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} unit[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
	uint64_t n, ms = 0;
	char *end;

	errno = 0;
	n = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : (errno = EINVAL, 0);
	for (size_t i = 0; errno == 0 && i < sizeof(unit) / sizeof(*unit); i++)
		if (strcmp(end, unit[i].name) == 0)
			ms = unit[i].ms;
	if (errno == 0 && n == 0 && *end == '\0')
		ms = 1;
	if (ms == 0 || __builtin_mul_overflow(n, ms, &n) || n > row->high)
		usage_error("--%s: '%s' is not a duration such as 90s, 30m, 2h (at most 30d)",
			row->name, text);
	memcpy((char *)into + row->at, &n, sizeof(n));
}

void row_range(const struct row *row, void *into, const char *text)
{
	uint64_t range[2];
	char *end;
	bool ok = row_whole(text, &range[0], &end);

	range[1] = range[0];
	if (ok && *end == '-')
		ok = row_whole(end + 1, &range[1], &end);
	if (!ok || *end != '\0' || range[0] > range[1])
		usage_error("--%s: '%s' is not MIN-MAX in bytes", row->name, text);
	memcpy((char *)into + row->at, range, sizeof(range));
}

static void print_help(const struct rows *rows)
{
	char left[64];

	puts(rows->head);
	for (size_t i = 0; i < rows->n; i++) {
		snprintf(left, sizeof(left), "--%s %s", rows->row[i].name, rows->row[i].arg);
		printf("  %-22s  %s\n", left, rows->row[i].help);
	}
	rows->tail();
}

void rows_parse(const struct rows *rows, void *into, int argc, char **argv)
{
	struct option list[ROWS_MAX + 2] = {0};
	int c;

	if (rows->n > ROWS_MAX)
		abort();
	for (size_t i = 0; i < rows->n; i++)
		list[i] = (struct option){rows->row[i].name, required_argument, NULL, (int)i};
	list[rows->n] = (struct option){"help", no_argument, NULL, OPT_HELP};
	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1) {
		if (c == '?')
			exit(2); /* getopt has said why */
		if (c == OPT_HELP) {
			print_help(rows);
			exit(0);
		}
		rows->row[c].read(&rows->row[c], into, optarg);
	}
	if (optind < argc)
		usage_error("'%s': there are no arguments but options", argv[optind]);
}

void rows_check_word(const char *option, const char *text, const char *words)
{
	const char *at = strchr(text, ' ') ? NULL : words;
	size_t len = strlen(text);

	while (at && !(strncmp(at, text, len) == 0 && at[len] == ' '))
		at = at[strcspn(at, " ") + 1] ? at + strcspn(at, " ") + 1 : NULL;
	if (!at)
		usage_error(
			"--%s: '%s' is none of: %.*s", option, text, (int)strlen(words) - 1, words);
}
