/*
 * memory.c - how much memory a worker may take, so that a spoilt store ends it and not the machine.
 *
 *	memory_bound: RLIMIT_DATA --> malloc fails --> ERR_NOMEM --memory_is_there?--> a new store
 *	                                                              '-- no --> exit, and again
 *
 * RLIMIT_DATA counts private writable mappings: a store is shared and does not count, nor do
 * stacks that were only reserved.
 *
 * Runs in: worker, main thread.
 */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define GIB (UINT64_C(1) << 30)

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
	return GIB + handoff->map_bytes / 8 + handoff->batch_records * KIB +
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
