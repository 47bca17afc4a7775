/*
 * scratch.h - an empty directory for one test, gone after it; and children that end as told.
 *
 *	cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
 */
#ifndef TALLY_TESTS_SCRATCH_H
#define TALLY_TESTS_SCRATCH_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct scratch {
	char path[64];
	int fd;
};

static int scratch_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

__attribute__((unused)) static int scratch_setup(void **state)
{
	struct scratch *s = calloc(1, sizeof *s);
	strcpy(s->path, "/tmp/tally-unit-XXXXXX");
	if (!mkdtemp(s->path))
		return -1;
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = s;
	return s->fd < 0 ? -1 : 0;
}

__attribute__((unused)) static int scratch_teardown(void **state)
{
	struct scratch *s = *state;
	close(s->fd);
	nftw(s->path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(s);
	return 0;
}

/* The whole file anew, also one that nobody may write (table, limits, lock). */
__attribute__((unused)) static void scratch_write(
	int dirfd, const char *name, const void *data, size_t len)
{
	assert_true(!fchmodat(dirfd, name, 0640, 0) || errno == ENOENT);
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

/* The whole file; the caller frees it. */
__attribute__((unused)) static void *scratch_read(int dirfd, const char *name, size_t *len)
{
	struct stat st;
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	char *data = malloc((size_t)st.st_size + 1);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	close(fd);
	*len = (size_t)st.st_size;
	return data;
}

__attribute__((unused)) static bool scratch_has(int dirfd, const char *name)
{
	struct stat st;
	return !fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW);
}

/* A child that does not outlive a test that fails. */
__attribute__((unused)) static pid_t scratch_fork(void)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* How a child ended: its exit code, or 128 + the signal. */
__attribute__((unused)) static int scratch_wait(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* xorshift: the same numbers in every run. */
__attribute__((unused)) static uint64_t scratch_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#endif
