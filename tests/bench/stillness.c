/*
 * stillness.c - how still the machine is by itself: two threads walk through memory, and nothing else happens.
 *
 *	stillness [SECONDS]	(6)	of the first thread
 *
 *	| step | step | STEP >>> | STEP >>> | step |	a step: LOADS loads of uniform places, and a pause
 *	               '-- slow: SLOW times the median --'	a stretch: slow steps less than GAP_MS apart
 *
 * Where others share its memory, a virtual machine has stretches in which each load takes several times
 * as long, and all that runs then is as late.  No software on it has percentiles that are better than that.
 */
#include <pthread.h>
#include <string.h>

#include "bench.h"

#define MEMORY	  (UINT64_C(64) << 20) /* bytes a thread: beyond its caches */
#define LOADS	  20000
#define BUSY	  0.6 /* of the time */
#define SLOW	  2.0
#define GAP_MS	  10
#define STEPS_MAX 200000

static double seconds = 6;

struct walk {
	uint64_t seed, *memory, sum;
	size_t n;
	double *began, *took; /* of each step, ns */
};

static double step(struct walk *walk)
{
	double began = bench_ns();

	for (int i = 0; i < LOADS; i++)
		walk->sum += walk->memory[bench_draw(&walk->seed) % (MEMORY / sizeof(uint64_t))];
	return bench_ns() - began;
}

static void *run(void *arg)
{
	struct walk *walk = arg;
	double end;

	memset(walk->memory, 1, MEMORY);
	end = bench_ns() + seconds * 1e9;
	while (bench_ns() < end && walk->n < STEPS_MAX) {
		double now = bench_ns(), took = step(walk);
		struct timespec pause = {0, (long)(took * (1 - BUSY) / BUSY) % 1000000000};

		walk->began[walk->n] = now;
		walk->took[walk->n++] = took;
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* The longest stretch, ms. */
static double longest(const struct walk *walk, double median)
{
	double most = 0, began = 0, ended = -1e18;

	for (size_t i = 0; i < walk->n; i++) {
		if (walk->took[i] < SLOW * median)
			continue;
		if (walk->began[i] - ended > GAP_MS * 1e6)
			began = walk->began[i];
		ended = walk->began[i] + walk->took[i];
		if (ended - began > most)
			most = ended - began;
	}
	return most / 1e6;
}

static void make(struct walk *walk, uint64_t seed)
{
	walk->seed = seed;
	walk->memory = malloc(MEMORY);
	walk->began = calloc(STEPS_MAX, sizeof(double));
	walk->took = calloc(STEPS_MAX, sizeof(double));
	if (!walk->memory || !walk->began || !walk->took)
		abort();
}

static void report(const struct walk *walk)
{
	double *sorted = malloc(walk->n * sizeof(double)), median, slow = 0, all = 0;

	if (!sorted)
		abort();
	memcpy(sorted, walk->took, walk->n * sizeof(double));
	median = bench_percentile(sorted, walk->n, 0.5);
	for (size_t i = 0; i < walk->n; i++) {
		all += walk->took[i];
		slow += walk->took[i] >= SLOW * median ? walk->took[i] : 0;
	}
	printf("load_ns\t%.2f\n", median / LOADS);
	printf("p99_ratio\t%.2f\n", bench_percentile(sorted, walk->n, 0.99) / median);
	printf("slow_percent\t%.1f\n", 100 * slow / all);
	printf("longest_ms\t%.1f\n", longest(walk, median));
	free(sorted);
}

int main(int argc, char **argv)
{
	struct walk walk[2] = {{0}, {0}};
	pthread_t other;

	if (argc > 1)
		seconds = atof(argv[1]);
	if (argc > 2 || !(seconds >= 1 && seconds <= 60)) {
		fprintf(stderr, "usage: stillness [SECONDS from 1 to 60]\n");
		return 2;
	}
	make(&walk[0], 1);
	make(&walk[1], 2);
	if (pthread_create(&other, NULL, run, &walk[1]) != 0)
		abort();
	run(&walk[0]);
	pthread_join(other, NULL);
	report(&walk[0]);
	for (int i = 0; i < 2; i++) {
		free(walk[i].memory);
		free(walk[i].began);
		free(walk[i].took);
	}
	return 0;
}
