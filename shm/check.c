/*
 * check.c - must(): says which promise was broken, then aborts; must_get(): what is lacking.
 *
 * Writes with write(2) alone: the heap or stdio may be what is broken.
 *
 * Runs in: every process.
 */
#include "shm/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `text` has room for `size`, and `n` is what snprintf said. */
static void write_line(char *text, size_t size, int n)
{
	ssize_t written = 0;

	if (n >= (int)size) {
		n = (int)size - 1;
		text[n - 1] = '\n';
	}
	if (n > 0)
		written = write(STDERR_FILENO, text, (size_t)n);
	(void)written; /* nobody may be listening: the end says it as well */
}

void must_failed(const char *what, const char *file, int line)
{
	char text[512];

	write_line(text, sizeof(text),
		snprintf(text, sizeof(text), "bug: must(%s) at %s:%d\n", what, file, line));
	abort();
}

void must_get_failed(const char *what, const char *file, int line)
{
	int errnum = errno;
	char text[512];

	write_line(text, sizeof(text),
		snprintf(text, sizeof(text),
			"tally: error lack what=\"%s\" at=%s:%d error=\"%s\" action=\"allow more "
			"memory, open files, threads (MemoryMax, LimitNOFILE, TasksMax)\"\n",
			what, file, line, strerror(errnum)));
	_exit(1);
}
