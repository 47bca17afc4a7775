/*
 * race.c - one writer, some readers, until all have seen enough.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "race.h"
#include "shm/check.h"

/* Relaxed, all of it: the readers' orders must come from what is tested. */
static struct {
	_Atomic bool over;
	_Atomic uint64_t seen[RACE_READERS];
	uint64_t seed;
	void (*read)(struct race_reader *reader);
} race;

uint64_t race_seed(void)
{
	const char *text = getenv("SEED");

	if (!race.seed) {
		race.seed = text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
		printf("# SEED=%llu\n", (unsigned long long)race.seed);
		fflush(stdout);
	}
	return race.seed;
}

uint32_t race_chance(uint64_t *state, uint32_t n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 32) % n;
}

unsigned race_rounds(unsigned usual)
{
	const char *text = getenv("RACE_ROUNDS");

	return text && atoi(text) > 0 ? (unsigned)atoi(text) : usual;
}

bool race_over(void)
{
	return atomic_load_explicit(&race.over, memory_order_relaxed);
}

void race_saw(struct race_reader *reader)
{
	reader->seen++;
	atomic_store_explicit(&race.seen[reader->number], reader->seen, memory_order_relaxed);
}

static void *run_reader(void *arg)
{
	race.read(arg);
	return NULL;
}

static bool all_have_seen(uint64_t enough)
{
	for (unsigned i = 0; i < RACE_READERS; i++)
		if (atomic_load_explicit(&race.seen[i], memory_order_relaxed) < enough)
			return false;
	return true;
}

void race_run(void (*write)(unsigned round), void (*read)(struct race_reader *reader),
	unsigned rounds, uint64_t enough)
{
	struct race_reader readers[RACE_READERS] = {0};
	pthread_t threads[RACE_READERS];

	race.read = read;
	atomic_store(&race.over, false);
	for (unsigned i = 0; i < RACE_READERS; i++) {
		atomic_store(&race.seen[i], 0);
		readers[i].number = i;
		readers[i].state = race_seed() * 0x9e3779b97f4a7c15u + i + 1;
		must(pthread_create(&threads[i], NULL, run_reader, &readers[i]) == 0);
	}
	for (unsigned round = 0; round < rounds || !all_have_seen(enough); round++) {
		write(round);
		if (round % 16 == 0)
			sched_yield();
	}
	atomic_store_explicit(&race.over, true, memory_order_relaxed);
	for (unsigned i = 0; i < RACE_READERS; i++)
		pthread_join(threads[i], NULL);
}
