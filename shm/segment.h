/*
 * segment.h - create or attach a mapped file that says what it is.
 *
 * Every mapped file starts with a struct segment_head.  A file is built under
 * a temporary name, filled, and renamed into place; it is never resized
 * afterwards, so a reader that has checked the size cannot fault.
 */
#ifndef TALLY_SHM_SEGMENT_H
#define TALLY_SHM_SEGMENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SEGMENT_MAGIC_SIZE 8

struct segment_head {
	char magic[SEGMENT_MAGIC_SIZE];
	uint32_t version; /* layout version: a reader refuses any other */
	uint32_t endian;  /* 0x01020304, as the writer stores it */
	uint64_t size;	  /* of the whole file, bytes */
};
_Static_assert(sizeof(struct segment_head) == 24, "file format");

struct segment {
	void *map;
	size_t size;
	uint64_t dev, ino; /* which file this is: compare with what the path names now */
};

struct segment_spec {
	const char *magic; /* SEGMENT_MAGIC_SIZE bytes */
	uint32_t version;
	size_t size;
};

/*
 * Creates `name` in `dirfd`: O_EXCL under "<name>.new", space reserved,
 * fchmod `mode`, zeroed, head filled, mapped read-write.  Not visible under
 * its name before segment_publish.  A leftover "<name>.new" is removed first.
 * *fd_out (may be NULL) gets the open descriptor, else it is closed.
 */
int segment_create(int dirfd, const char *name, const struct segment_spec *spec, mode_t mode,
	struct segment *seg, int *fd_out);

/*
 * Mode 0440 is for files that their maker alone changes, by the map it made them with: nobody
 * else of its user, were it a query process that was taken over, can open them for writing.  This
 * opens one all the same, for the user who may change modes, and closes it again behind itself.
 * Returns a descriptor for reading and writing, or -1 and errno.
 */
int segment_open_own(int dirfd, const char *name);

/* Renames "<name>.new" to `name`. */
int segment_publish(int dirfd, const char *name);

/*
 * Maps `name` read-only.  Refuses (ERR_FORMAT) what is not a regular file, has
 * another magic, version, byte order, or a size other than its head says or
 * below spec->size.  ERR_NOT_FOUND, ERR_ACCESS, ERR_IO.
 */
int segment_attach(
	int dirfd, const char *name, const struct segment_spec *spec, struct segment *seg);

void segment_detach(struct segment *seg);

/* The checks of segment_attach on bytes already at hand. */
int segment_check(const void *map, size_t size, const struct segment_spec *spec);

#endif
