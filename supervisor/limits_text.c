/*
 * limits_text.c - the bytes of limits.yaml.
 *
 * Runs in: supervisor, the thread of limits_load.c; at start the main thread.  Blocks
 * in: reading the file, at most 64 MiB.
 */
#include "supervisor/limits_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/err.h"
#include "supervisor/limits_rows.h"

static int fail_file(const char *path, struct config_error *error, int errnum)
{
	struct config_source source = {.name = path, .error = error};

	config_fail(&source, 0, NULL, "%s; %s", strerror(errnum), config_file_action(errnum));
	return err_from_errno(errnum);
}

static int fail_kind(const char *path, struct config_error *error, const char *what)
{
	struct config_source source = {.name = path, .error = error};

	return config_fail(&source, 0, NULL, "%s", what);
}

/* At most LIMITS_FILE_MAX, with room for one byte more to see that it is too long. */
static int read_all(int fd, const char *path, struct limits_array *text, struct config_error *error)
{
	ssize_t n = 1;

	while (n > 0 && text->n <= LIMITS_FILE_MAX) {
		size_t piece = LIMITS_FILE_MAX + 1 - text->n;

		piece = piece < 65536 ? piece : 65536;
		if (!limits_array_grow(text, piece, 1))
			return fail_file(path, error, ENOMEM);
		text->n -= piece;
		n = read(fd, (char *)text->at + text->n, piece);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return fail_file(path, error, errno);
		else
			text->n += (size_t)n;
	}
	return text->n > LIMITS_FILE_MAX
		       ? fail_kind(path, error, "is larger than 64 MiB; these cannot be limits")
		       : 0;
}

int limits_text_read(const char *path, char **text, size_t *len, struct config_error *error)
{
	/* NONBLOCK: a FIFO must not hang us before it is refused. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct limits_array all = {0};
	struct stat st;
	int err;

	if (fd < 0)
		return fail_file(path, error, errno);
	if (fstat(fd, &st) < 0)
		err = fail_file(path, error, errno);
	else if (!S_ISREG(st.st_mode))
		err = fail_kind(path, error, "is not a regular file; name one in limits.file");
	else
		err = read_all(fd, path, &all, error);
	close(fd);
	if (err) {
		free(all.at);
		return err;
	}
	*text = all.at;
	*len = all.n;
	return 0;
}
