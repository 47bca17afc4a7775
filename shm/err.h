/*
 * err.h - the one list of error codes, and the words for them.
 *
 * Functions return 0 or one of these, all negative.  LMDB, Kafka and errno
 * codes are translated where they enter (store.c, worker/source.c, here).
 */
#ifndef TALLY_SHM_ERR_H
#define TALLY_SHM_ERR_H

enum err {
	ERR_OK = 0,
	ERR_NOMEM = -1,	      /* out of memory */
	ERR_IO = -2,	      /* the operating system refused; errno was logged where it entered */
	ERR_FULL = -3,	      /* file system or map is full; try again when there is room */
	ERR_CORRUPT = -4,     /* content contradicts itself */
	ERR_FORMAT = -5,      /* not our file, or another version of it */
	ERR_ACCESS = -6,      /* permission denied, or an owner or mode that is not safe */
	ERR_NOT_FOUND = -7,   /* no such thing */
	ERR_BUSY = -8,	      /* somebody else holds it */
	ERR_STALE = -9,	      /* the supervisor has gone, stopped, or its lease is over */
	ERR_NOT_READY = -10,  /* the partition is not ready, or left ready while it was read */
	ERR_INVALID = -11,    /* an argument out of its range */
	ERR_NAMESPACE = -12,  /* reader and writer are in different PID namespaces */
	ERR_IDENTITY = -13,   /* the store belongs to another log, boot or layout */
	ERR_LEASE = -14,      /* the lease is over or the partition was taken away: not committed */
	ERR_TIMEOUT = -15,    /* no answer in time */
	ERR_UNAVAILABLE = -16 /* the broker cannot be reached or cannot answer */
};

/* The word for a code: "full", "not_ready".  Never NULL. */
const char *err_word(int err);

/* One sentence for a person.  Never NULL. */
const char *err_text(int err);

/* Translates errno (positive). */
int err_from_errno(int errnum);

/* What the operator of a service can do about this errno; "" when nothing general.  Never NULL. */
const char *err_advice(int errnum);

#endif
