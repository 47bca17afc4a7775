/*
 * text.h - how the test tools write names: one word, whatever is in them.
 *
 *	log-dump --> lines of tab-separated fields --> oracle --.
 *	store-dump ---------------------------------------------+--> diff
 *
 * Every byte that is not plain printable ASCII, and '%', is %XX; an empty name
 * is "-", and a name that is "-" is "%2D".
 */
#ifndef TALLY_TESTS_TEXT_H
#define TALLY_TESTS_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A name of 256 bytes, all of them escaped. */
#define TEXT_SIZE (3 * 256 + 1)

static inline const char *text_of(char out[TEXT_SIZE], const void *name, size_t len)
{
	const uint8_t *p = name;
	char *q = out;

	if (len == 0)
		return "-";
	for (size_t i = 0; i < len && i < 256; i++) {
		if (p[i] <= ' ' || p[i] > '~' || p[i] == '%' || (len == 1 && p[i] == '-'))
			q += sprintf(q, "%%%02X", (unsigned)p[i]);
		else
			*q++ = (char)p[i];
	}
	*q = '\0';
	return out;
}

/* A number from the command line, or the end of the program. */
static inline int64_t text_number(const char *option, const char *word)
{
	char *end;
	long long n = strtoll(word, &end, 10);

	if (*word == '\0' || *end != '\0') {
		fprintf(stderr, "%s: '%s' is not a number\n", option, word);
		exit(2);
	}
	return n;
}

#endif
