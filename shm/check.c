/*
 * check.c - must(): says which promise was broken, then aborts.
 *
 * Writes with write(2) alone: the heap or stdio may be what is broken.
 *
 * Runs in: every process.
 */
#include "shm/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void must_failed(const char *what, const char *file, int line)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "bug: must(%s) at %s:%d\n", what, file, line);
	ssize_t written = 0;

	if (n >= (int)sizeof(text)) {
		n = sizeof(text) - 1;
		text[n - 1] = '\n';
	}
	if (n > 0)
		written = write(STDERR_FILENO, text, (size_t)n);
	(void)written; /* nobody may be listening: the core says it as well */
	abort();
}
