/*
 * store_fixture.h - a store in a directory of its own, and children that read it.
 *
 * A store may be open once in a process, so whoever reads beside the writer is a
 * child.  Children are forked before the parent has anything open, and say what
 * they found with their exit code.
 */
#ifndef TALLY_TESTS_STORE_FIXTURE_H
#define TALLY_TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/store.h"

#define MAP (UINT64_C(4) << 20)

static char dir[64], data_path[96], lock_path[96];

/* --- kit ------------------------------------------------------------------------------------- */

static inline struct store_bytes text(const char *s)
{
	return (struct store_bytes){.data = s, .len = strlen(s)};
}

static inline bool is(struct store_bytes bytes, const char *s)
{
	return bytes.len == strlen(s) && memcmp(bytes.data, s, bytes.len) == 0;
}

static inline void clean(void)
{
	unlink(data_path);
	unlink(lock_path);
}

static inline int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/tally-test-store.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(data_path, sizeof(data_path), "%s/data.mdb", dir);
	snprintf(lock_path, sizeof(lock_path), "%s/lock.mdb", dir);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	clean();
	return rmdir(dir);
}

static inline int each_setup(void **state)
{
	(void)state;
	clean();
	return 0;
}

static inline struct store *open_writer(void)
{
	struct store *store;

	assert_int_equal(store_open_writer(dir, MAP, 8, &store), 0);
	return store;
}

static inline int put(struct store *store, const char *key, const char *value)
{
	struct store_txn txn;

	store_begin(&txn, store);
	store_reserve(&txn, &(struct store_need){.pages = 64});
	store_put(&txn, text(key), text(value));
	return store_commit(&txn);
}

/* In a child: a failed check is its exit code. */
#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: child: %s\n", __FILE__, __LINE__, #x);             \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

struct child {
	pid_t pid;
	int to, from; /* one byte each way: go on, done so far */
};

/* A child that runs `body` with a pipe each way.  Nothing is open in the parent at this time. */
static inline struct child start(void (*body)(int in, int out))
{
	int down[2], up[2];
	struct child child;

	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		close(down[1]);
		close(up[0]);
		alarm(60);
		body(down[0], up[1]);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	child.to = down[1];
	child.from = up[0];
	return child;
}

static inline void give(int fd)
{
	if (write(fd, "x", 1) != 1)
		abort();
}

static inline void await(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(2);
}

/* One step of the child. */
static inline void step(struct child *child)
{
	char byte;

	give(child->to);
	assert_int_equal(read(child->from, &byte, 1), 1);
}

static inline void finish(struct child *child)
{
	int status;

	close(child->to);
	close(child->from);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
