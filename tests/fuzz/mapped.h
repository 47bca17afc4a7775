/*
 * mapped.h - of a mapped file, what is behind its end may not be read either.
 *
 *	mmap(file of 5000 bytes) -> the kernel gives 8192 -> the last 3192 are poisoned
 *
 * Linked with --wrap=mmap,--wrap=munmap: calls of our own code pass here, LMDB's do not.
 */
#ifndef TALLY_TESTS_FUZZ_MAPPED_H
#define TALLY_TESTS_FUZZ_MAPPED_H

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t len);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t len);

static size_t mapped_tail(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (page - len % page) % page;
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	char *map = __real_mmap(at, len, prot, flags, fd, offset);

	if (map != MAP_FAILED && fd >= 0)
		ASAN_POISON_MEMORY_REGION(map + len, mapped_tail(len));
	return map;
}

int __wrap_munmap(void *at, size_t len)
{
	ASAN_UNPOISON_MEMORY_REGION(at, len + mapped_tail(len));
	return __real_munmap(at, len);
}

#endif
