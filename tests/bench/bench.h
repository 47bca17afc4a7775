/*
 * bench.h - what the measuring programs share: a clock, a generator, medians.
 *
 * They print lines of key, tab, value: what run.sh collects.
 */
#ifndef TALLY_TESTS_BENCH_H
#define TALLY_TESTS_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BENCH_UNUSED __attribute__((unused))

static double bench_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

BENCH_UNUSED static double bench_ns(void)
{
	return bench_clock(CLOCK_MONOTONIC);
}

/* Of this process: for what never waits it is the same, and other processes do not disturb it. */
BENCH_UNUSED static double bench_cpu_ns(void)
{
	return bench_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* splitmix64 */
BENCH_UNUSED static uint64_t bench_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

BENCH_UNUSED static uint64_t bench_draw(uint64_t *rng)
{
	return bench_mix(*rng += UINT64_C(0x9e3779b97f4a7c15));
}

static int bench_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts them; share 0.5 is the median. */
BENCH_UNUSED static double bench_percentile(double *values, size_t n, double share)
{
	qsort(values, n, sizeof(*values), bench_by_value);
	return values[(size_t)((double)(n - 1) * share)];
}

BENCH_UNUSED static void bench_say(const char *key, double value)
{
	printf("%s\t%.6g\n", key, value);
	fflush(stdout);
}

#endif
