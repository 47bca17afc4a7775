/*
 * one_map.c - a file is mapped once in this process, whoever maps it.
 *
 *	writer: mmap "table" rw --.
 *	                           >-- the same address
 *	reader: mmap "table" ro --'
 *
 * ThreadSanitizer knows memory by its address: two maps of a file are two
 * memories to it, and what one thread writes to the first never meets what
 * another reads from the second.  So the calls of shm/ come here first
 * (-Wl,--wrap); LMDB's own do not.
 *
 * The lock is also the order that the kernel gives: who finds a file under its
 * name sees all that was written to it before it was renamed there.  Nothing
 * else is ordered by it.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "race.h"
#include "shm/check.h"

#define MAPS_MAX 64

struct one {
	void *map;
	size_t size;
	int prot;
	dev_t dev;
	ino_t ino;
	unsigned holders;
};

static struct {
	pthread_mutex_t lock;
	struct one of[MAPS_MAX];
} maps = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t from);
int __real_munmap(void *map, size_t size);
int __real_renameat(int from, const char *old, int to, const char *new);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t from);
int __wrap_munmap(void *map, size_t size);
int __wrap_renameat(int from, const char *old, int to, const char *new);

static struct one *find(const struct stat *st, void *map)
{
	for (struct one *one = maps.of; one < maps.of + MAPS_MAX; one++)
		if (one->holders &&
			(st ? one->dev == st->st_dev && one->ino == st->st_ino : one->map == map))
			return one;
	return NULL;
}

static struct one *unused(void)
{
	for (struct one *one = maps.of; one < maps.of + MAPS_MAX; one++)
		if (!one->holders)
			return one;
	return NULL;
}

void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t from)
{
	struct stat st;
	struct one *one;
	void *map;

	if (fd < 0 || at || from || !(flags & MAP_SHARED) || fstat(fd, &st))
		return __real_mmap(at, size, prot, flags, fd, from);
	pthread_mutex_lock(&maps.lock);
	one = find(&st, NULL);
	if (one) {
		must(one->size == size);
		must((prot & ~one->prot) == 0);
		one->holders++;
		map = one->map;
	} else {
		map = __real_mmap(at, size, prot, flags, fd, from);
		one = unused();
		must(map == MAP_FAILED || one);
		if (map != MAP_FAILED)
			*one = (struct one){map, size, prot, st.st_dev, st.st_ino, 1};
	}
	pthread_mutex_unlock(&maps.lock);
	return map;
}

int __wrap_munmap(void *map, size_t size)
{
	struct one *one;
	int err = 0;

	pthread_mutex_lock(&maps.lock);
	one = find(NULL, map);
	must(!one || one->size == size);
	if (!one || --one->holders == 0)
		err = __real_munmap(map, size);
	pthread_mutex_unlock(&maps.lock);
	return err;
}

int __wrap_renameat(int from, const char *old, int to, const char *new)
{
	int err;

	pthread_mutex_lock(&maps.lock);
	err = __real_renameat(from, old, to, new);
	pthread_mutex_unlock(&maps.lock);
	return err;
}
