/*
 * err.c - one table: error code -> word, sentence.
 *
 * Runs in: every process.
 */
#include "shm/err.h"

#include <errno.h>
#include <stddef.h>

struct err_name {
	const char *word, *text;
};

/* clang-format off */
static const struct err_name names[] = {
	[0]                = { "ok",          "no error" },
	[-ERR_NOMEM]       = { "nomem",       "out of memory" },
	[-ERR_IO]          = { "io",          "the operating system refused a read, a write or a system call" },
	[-ERR_FULL]        = { "full",        "the file system or the store's map is full" },
	[-ERR_CORRUPT]     = { "corrupt",     "the content contradicts itself" },
	[-ERR_FORMAT]      = { "format",      "not a file of Tally, or written by another version of it" },
	[-ERR_ACCESS]      = { "access",      "permission denied, or an owner or mode that is not safe" },
	[-ERR_NOT_FOUND]   = { "not_found",   "there is no such thing" },
	[-ERR_BUSY]        = { "busy",        "somebody else holds it" },
	[-ERR_STALE]       = { "stale",       "the supervisor has gone, has stopped, or its lease is over" },
	[-ERR_NOT_READY]   = { "not_ready",   "the partition is not ready, or stopped being ready while it was read" },
	[-ERR_INVALID]     = { "invalid",     "an argument is out of its range" },
	[-ERR_NAMESPACE]   = { "namespace",   "reader and writer run in different PID namespaces" },
	[-ERR_IDENTITY]    = { "identity",    "the store belongs to another log, another boot or another layout" },
	[-ERR_LEASE]       = { "lease",       "the lease is over or the partition was taken away; nothing was committed" },
	[-ERR_TIMEOUT]     = { "timeout",     "no answer came in time" },
	[-ERR_UNAVAILABLE] = { "unavailable", "the other side cannot be reached or cannot answer now" },
};
/* clang-format on */

#define N_NAMES ((int)(sizeof(names) / sizeof(names[0])))

static const struct err_name *find(int err)
{
	static const struct err_name unknown = {
		"unknown", "an error code that this version does not know"};

	if (err > 0 || err <= -N_NAMES)
		return &unknown;
	return &names[-err];
}

const char *err_word(int err)
{
	return find(err)->word;
}

const char *err_text(int err)
{
	return find(err)->text;
}

int err_from_errno(int errnum)
{
	switch (errnum) {
	case ENOMEM:
		return ERR_NOMEM;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return ERR_FULL;
	case EACCES:
	case EPERM:
	case EROFS:
	case ELOOP: /* a symbolic link where none is allowed */
		return ERR_ACCESS;
	case ENOENT:
	case ENOTDIR:
		return ERR_NOT_FOUND;
	case EAGAIN: /* flock(LOCK_NB) */
	case EBUSY:
	case EEXIST:
	case EADDRINUSE:
		return ERR_BUSY;
	case EINVAL:
	case ENAMETOOLONG:
	case EMSGSIZE:
		return ERR_INVALID;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENOTCONN:
	case EPIPE:
		return ERR_UNAVAILABLE;
	default: /* 0 too: a failure whose errno got lost is still a failure */
		return ERR_IO;
	}
}

const char *err_advice(int errnum)
{
	switch (errnum) {
	case EMFILE:
	case ENFILE:
		return "allow more open files (LimitNOFILE)";
	case EAGAIN: /* of a new process or thread */
		return "allow more processes and threads (TasksMax, LimitNPROC)";
	case ENOMEM:
		return "allow more memory and address space (MemoryMax, LimitAS)";
	case ENOSPC:
		return "make room in run_dir";
	default:
		return "";
	}
}
