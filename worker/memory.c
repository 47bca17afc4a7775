/*
 * memory.c - how much memory a worker may take, and what it gives back when it rests.
 *
 *	memory_bound: RLIMIT_DATA --> malloc fails --> ERR_NOMEM --memory_is_there?--> a new store
 *	                                                              '-- no --> exit, and again
 *
 *	memory_give_back --> main thread: collect
 *	                '--> others, at their next memory_turn: collect
 *
 * RLIMIT_DATA counts private writable mappings: a store is shared and does not count, nor do
 * stacks that were only reserved.
 *
 * Runs in: worker; memory_turn in any thread.  Blocks in: nowhere for long.
 */
#include "memory.h"

#include <mimalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB	     UINT64_C(1024)
#define GIB	     (UINT64_C(1) << 30)
#define RECORD_BYTES UINT64_C(256)

/* Properties that let a client keep more, and their unit in bytes. */
static const struct {
	const char *name;
	uint64_t unit;
} kept[] = {
	{"queued.max.messages.kbytes", KIB},
	{"queue.buffering.max.kbytes", KIB},
	{"fetch.max.bytes", 1},
	{"receive.message.max.bytes", 1},
};

static uint64_t fetched_ahead(const struct handoff *handoff)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < handoff->n_properties; i++)
		for (size_t k = 0; k < sizeof(kept) / sizeof(kept[0]); k++)
			if (strcmp(handoff->properties[i].name, kept[k].name) == 0)
				sum += strtoul(handoff->properties[i].value, NULL, 10) *
				       kept[k].unit;
	return sum;
}

uint64_t memory_need(const struct handoff *handoff)
{
	return GIB + handoff->map_bytes / 8 + handoff->batch_records * RECORD_BYTES +
	       handoff->window_minutes * 32 * KIB + fetched_ahead(handoff);
}

/* What counts by now: hardly anything, or the terabytes of a sanitizer's shadow. */
static uint64_t taken(void)
{
	unsigned long long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "re");

	if (!statm)
		return 0;
	if (fscanf(statm, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
		pages = 0;
	fclose(statm);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void memory_bound(const struct handoff *handoff)
{
	struct rlimit limit;
	uint64_t bound = taken() + memory_need(handoff);

	if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur <= bound)
		return;
	limit.rlim_cur = limit.rlim_max = bound;
	setrlimit(RLIMIT_DATA, &limit);
}

bool memory_is_there(const struct handoff *handoff)
{
	size_t half = memory_need(handoff) / 2;
	void *map = mmap(NULL, half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return map != MAP_FAILED && munmap(map, half) == 0;
}

/* --- giving back --------------------------------------------------------------------------- */

/* Not there in programs with another allocator: they give back when they like. */
#pragma weak mi_collect
#pragma weak mi_free
#pragma weak mi_malloc
#pragma weak mi_option_set
#if MI_MALLOC_VERSION < 212
#define DELAY  mi_option_decommit_delay
#define EXTEND mi_option_decommit_extend_delay
#else
#define DELAY  mi_option_purge_delay
#define EXTEND mi_option_purge_extend_delay
#endif
#define DELAY_MS 25 /* mimalloc's own */

static _Atomic unsigned rounds;

void memory_tune(void)
{
	/* Else each page that a replay frees puts off the giving back of all others. */
	if (mi_option_set)
		mi_option_set(EXTEND, 0);
}

static void collect(void)
{
	static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&alone);
	mi_option_set(DELAY, 0);
	mi_free(mi_malloc(MEMORY_LARGE)); /* what waits to be given back is, when room is sought */
	mi_collect(true);
	mi_option_set(DELAY, DELAY_MS);
	pthread_mutex_unlock(&alone);
}

void memory_turn(void)
{
	static _Thread_local unsigned done;
	unsigned now = atomic_load_explicit(&rounds, memory_order_relaxed);

	if (done == now || !mi_collect)
		return;
	done = now;
	collect();
}

void memory_give_back(void)
{
	atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
	memory_turn();
}

void memory_zero(char *block, size_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)block;
	char *from = block + (page - at % page) % page;
	char *to = block + len - (at + len) % page;

	if (from >= to || madvise(from, (size_t)(to - from), MADV_DONTNEED) != 0) {
		memset(block, 0, len);
		return;
	}
	memset(block, 0, (size_t)(from - block));
	memset(to, 0, (size_t)(block + len - to));
}
