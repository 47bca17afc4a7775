/*
 * segment.c - create or attach a mapped file that says what it is.
 *
 *	segment_create "table.new" --fill--> segment_publish "table" --> segment_attach
 *
 * A file that can be found under its name is whole: it was built under
 * another one.  Whoever attaches believes nothing before it has been checked.
 *
 * Runs in: every program.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/segment.h"

#define ENDIAN_MARK 0x01020304u

static int temporary_name(char out[NAME_MAX + 1], const char *name)
{
	int n = snprintf(out, NAME_MAX + 1, "%s.new", name);
	return n < 0 || n > NAME_MAX ? ERR_INVALID : 0;
}

static void remember(struct segment *seg, void *map, const struct stat *st)
{
	seg->map = map;
	seg->size = (size_t)st->st_size;
	seg->dev = st->st_dev;
	seg->ino = st->st_ino;
}

/* Space is reserved before it is mapped: a full file system is an error here, not a SIGBUS later.
 */
static int fill_new(int fd, const struct segment_spec *spec, mode_t mode, struct segment *seg)
{
	struct stat st;
	int err;
	while ((err = posix_fallocate(fd, 0, (off_t)spec->size)) == EINTR)
		;
	if (err)
		return err_from_errno(err);
	if (fchmod(fd, mode) || fstat(fd, &st))
		return err_from_errno(errno);
	void *map = mmap(NULL, spec->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_from_errno(errno);
	struct segment_head *head = map;
	memcpy(head->magic, spec->magic, SEGMENT_MAGIC_SIZE);
	head->version = spec->version;
	head->endian = ENDIAN_MARK;
	head->size = spec->size;
	remember(seg, map, &st);
	return 0;
}

int segment_create(int dirfd, const char *name, const struct segment_spec *spec, mode_t mode,
	struct segment *seg, int *fd_out)
{
	char temporary[NAME_MAX + 1];
	int err = temporary_name(temporary, name);
	if (err)
		return err;
	if (unlinkat(dirfd, temporary, 0) && errno != ENOENT)
		return err_from_errno(errno);
	FAULT("segment.cleared");
	int fd = openat(dirfd, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return err_from_errno(errno);
	err = fill_new(fd, spec, mode, seg);
	FAULT("segment.filled");
	if (err)
		unlinkat(dirfd, temporary, 0);
	if (!err && fd_out)
		*fd_out = fd;
	else
		close(fd);
	return err;
}

int segment_open_own(int dirfd, const char *name)
{
	struct stat st;
	int looked = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int fd = -1;
	if (looked < 0)
		return -1;
	if (fstat(looked, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
		errno = EACCES;
	} else if (!fchmod(looked, 0640)) {
		fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		fchmod(looked, 0440);
	}
	close(looked);
	return fd;
}

int segment_publish(int dirfd, const char *name)
{
	char temporary[NAME_MAX + 1];
	int err = temporary_name(temporary, name);
	if (err)
		return err;
	FAULT("segment.whole");
	return renameat(dirfd, temporary, dirfd, name) ? err_from_errno(errno) : 0;
}

int segment_check(const void *map, size_t size, const struct segment_spec *spec)
{
	const struct segment_head *head = map;
	if (size < sizeof *head || size < spec->size)
		return ERR_FORMAT;
	if (memcmp(head->magic, spec->magic, SEGMENT_MAGIC_SIZE) || head->endian != ENDIAN_MARK)
		return ERR_FORMAT;
	return head->version != spec->version || head->size != size ? ERR_FORMAT : 0;
}

static int attach_open(int fd, const struct segment_spec *spec, struct segment *seg)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_from_errno(errno);
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)spec->size ||
		st.st_size < (off_t)sizeof(struct segment_head))
		return ERR_FORMAT;
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_from_errno(errno);
	int err = segment_check(map, (size_t)st.st_size, spec);
	if (err)
		munmap(map, (size_t)st.st_size);
	else
		remember(seg, map, &st);
	return err;
}

int segment_attach(
	int dirfd, const char *name, const struct segment_spec *spec, struct segment *seg)
{
	/* NONBLOCK: a FIFO put in our place must not hang us. */
	int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ELOOP ? ERR_FORMAT : err_from_errno(errno);
	int err = attach_open(fd, spec, seg);
	close(fd);
	return err;
}

void segment_detach(struct segment *seg)
{
	if (seg->map)
		munmap(seg->map, seg->size);
	*seg = (struct segment){0};
}
