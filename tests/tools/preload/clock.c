/*
 * clock.c - a clock that a test can move, for programs that are told nothing of it.
 *
 *	cc -shared -fPIC -o clock.so clock.c -ldl
 *	LD_PRELOAD=clock.so TEST_CLOCK=FILE tally-worker ...
 *
 * FILE has two numbers of 8 bytes, in ms: what is added to wall time, and to boot time.  It
 * is mapped, so a change is there at once, in the middle of a call too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, BOOT };

static const volatile int64_t *offsets_ms;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0);

	real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (map != MAP_FAILED)
		offsets_ms = map;
	if (fd >= 0)
		close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int64_t ns;
	int failed;

	if (!real_gettime)
		start();
	failed = real_gettime(id, ts);
	if (failed || !offsets_ms || (id != CLOCK_REALTIME && id != CLOCK_BOOTTIME))
		return failed;
	ns = ts->tv_sec * INT64_C(1000000000) + ts->tv_nsec +
	     offsets_ms[id == CLOCK_BOOTTIME ? BOOT : WALL] * 1000000;
	ts->tv_sec = ns / 1000000000;
	ts->tv_nsec = ns % 1000000000;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;

	(void)tz;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}
