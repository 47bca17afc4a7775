/*
 * client_env.c - one map per store and process, whoever asks.
 *
 *	handle A --.
 *	handle B --+--> registry { (dev, inode of lock.mdb), map, references }
 *	handle C --'
 *
 * POSIX locks belong to the process: closing any descriptor of a lock file
 * drops LMDB's protection of every reader in it.  So a store is found here by
 * stat, opened once, and closed when the last handle lets go.  After a fork
 * the child forgets what it inherited (without closing it) and opens anew.
 *
 * Runs in: every reader.  Blocks in: opening a store, under the one mutex.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/client_private.h"
#include "shm/err.h"

#define LOCK_FILE "lock.mdb"
#define DATA_FILE "data.mdb"

struct client_env {
	struct client_env *next;
	struct store *store;
	dev_t dev;
	ino_t ino;
	unsigned refs;
};

static struct {
	pthread_mutex_t mutex;
	pthread_once_t once;
	struct client_env *list;
	struct client_env *inherited; /* of a parent: kept, never touched */
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void before_fork(void)
{
	pthread_mutex_lock(&registry.mutex);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&registry.mutex);
}

static void after_fork_child(void)
{
	/* The parent's locks and slots are not ours to end. */
	registry.inherited = registry.list;
	registry.list = NULL;
	pthread_mutex_unlock(&registry.mutex);
}

/* In a page that the kernel empties in every child, however it was forked.  0: not known yet. */
static _Atomic pid_t *self;

static void watch_fork(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	if (page != MAP_FAILED && madvise(page, size, MADV_WIPEONFORK) == 0)
		self = page;
	else if (page != MAP_FAILED)
		munmap(page, size);
}

pid_t client_pid(void)
{
	pthread_once(&registry.once, watch_fork);
	pid_t pid = self ? atomic_load_explicit(self, memory_order_relaxed) : getpid();
	if (!pid) {
		pid = getpid();
		atomic_store_explicit(self, pid, memory_order_relaxed);
	}
	return pid;
}

/* Plain things only: a link would lead out of the run directory. */
static int stat_plain(int dirfd, const char *dir, const char *file, struct stat *st)
{
	char path[TABLE_DIR_NAME_SIZE + 16];
	snprintf(path, sizeof path, "%s%s%s", dir, *file ? "/" : "", file);
	if (fstatat(dirfd, path, st, AT_SYMLINK_NOFOLLOW))
		return err_from_errno(errno);
	if (*file ? !S_ISREG(st->st_mode) : !S_ISDIR(st->st_mode))
		return ERR_FORMAT;
	return 0;
}

static int stat_store(int dirfd, const char *name, struct stat *lock)
{
	struct stat st;
	int err = stat_plain(dirfd, name, "", &st);
	if (!err)
		err = stat_plain(dirfd, name, DATA_FILE, &st);
	if (!err)
		err = stat_plain(dirfd, name, LOCK_FILE, lock);
	return err;
}

static struct client_env *find(const struct stat *lock)
{
	for (struct client_env *env = registry.list; env; env = env->next)
		if (env->dev == lock->st_dev && env->ino == lock->st_ino)
			return env;
	return NULL;
}

/* LMDB opens by path: what it opened must be what we had found. */
static int open_env(int dirfd, const char *run_dir, const char *name, const struct stat *lock,
	struct client_env **out)
{
	char path[PATH_MAX];
	struct stat now;
	int n = snprintf(path, sizeof path, "%s/%s", run_dir, name);
	if (n < 0 || (size_t)n + sizeof LOCK_FILE >= sizeof path)
		return ERR_INVALID;
	struct client_env *env = calloc(1, sizeof *env);
	if (!env)
		return ERR_NOMEM;
	int err = store_open_reader(path, &env->store);
	if (!err)
		err = stat_store(dirfd, name, &now);
	if (!err && (now.st_dev != lock->st_dev || now.st_ino != lock->st_ino))
		err = ERR_NOT_READY;
	if (err) {
		if (env->store)
			store_close(&env->store);
		free(env);
		return err;
	}
	env->dev = lock->st_dev;
	env->ino = lock->st_ino;
	env->next = registry.list;
	registry.list = env;
	*out = env;
	return 0;
}

int client_env_acquire(int dirfd, const char *run_dir, const char *name, struct client_env **out)
{
	struct stat lock;
	int err = 0;
	pthread_once(&registry.once, watch_fork);
	pthread_mutex_lock(&registry.mutex);
	*out = NULL;
	err = stat_store(dirfd, name, &lock);
	if (!err)
		*out = find(&lock);
	if (!err && !*out)
		err = open_env(dirfd, run_dir, name, &lock, out);
	if (!err)
		(*out)->refs++;
	pthread_mutex_unlock(&registry.mutex);
	return err;
}

void client_env_release(struct client_env **env)
{
	struct client_env *gone = *env;
	*env = NULL;
	if (!gone)
		return;
	pthread_mutex_lock(&registry.mutex);
	if (--gone->refs == 0) {
		struct client_env **at = &registry.list;
		while (*at != gone)
			at = &(*at)->next;
		*at = gone->next;
		store_close(&gone->store);
		free(gone);
	}
	pthread_mutex_unlock(&registry.mutex);
}

struct store *client_env_store(const struct client_env *env)
{
	return env->store;
}

unsigned client_env_count(void)
{
	unsigned n = 0;
	pthread_mutex_lock(&registry.mutex);
	for (const struct client_env *env = registry.list; env; env = env->next)
		n++;
	pthread_mutex_unlock(&registry.mutex);
	return n;
}
