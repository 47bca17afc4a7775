/*
 * fuzz.h - what all targets share: the promise that was broken, and reading their input.
 *
 *	input -> take_* -> the code under test -> hold(what its header promises)
 *
 * An input is taken from the front; when it is used up, zeros come.  So every string
 * of bytes is an input, and a longer one does what a shorter one did, and more.
 */
#ifndef TALLY_TESTS_FUZZ_H
#define TALLY_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/record.h"

#define FUZZ_UNUSED __attribute__((unused))

/* What libFuzzer, or replay.c, calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Aborts with the condition: a finding. */
#define hold(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__,          \
				#condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct input {
	const uint8_t *at;
	size_t left;
};

/* A copy of exactly this size, so that a byte too much is seen; to be freed. */
FUZZ_UNUSED static uint8_t *fuzz_copy(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);

	hold(copy != NULL);
	if (len > 0)
		memcpy(copy, bytes, len);
	return copy;
}

/* The same as text: NUL-terminated. */
FUZZ_UNUSED static char *fuzz_text(const void *bytes, size_t len)
{
	char *copy = malloc(len + 1);

	hold(copy != NULL);
	if (len > 0)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

/* At most `most` of what is left; gives how many. */
FUZZ_UNUSED static size_t take_bytes(struct input *in, size_t most, const uint8_t **bytes)
{
	size_t n = most < in->left ? most : in->left;

	*bytes = in->at;
	in->at += n;
	in->left -= n;
	return n;
}

/* A number of so many bytes, the largest first. */
FUZZ_UNUSED static uint64_t take(struct input *in, unsigned bytes)
{
	const uint8_t *from;
	size_t n = take_bytes(in, bytes, &from);
	uint64_t number = 0;

	for (size_t i = 0; i < bytes; i++)
		number = number << 8 | (i < n ? from[i] : 0);
	return number;
}

/* One line for a person: no control character in it. */
FUZZ_UNUSED static void hold_line(const char *line, size_t size)
{
	hold(memchr(line, '\0', size) != NULL);
	hold(line[0] != '\0');
	for (const char *s = line; *s != '\0'; s++)
		hold((unsigned char)*s >= 0x20 && *s != 0x7f);
	hold(record_text_ok(line, strlen(line)));
}

#endif
