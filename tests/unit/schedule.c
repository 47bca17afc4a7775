/*
 * schedule.c - a list of records drawn from a seed, with all that can be odd about them.
 *
 * Runs in: tests.
 */
#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/host.h"

#define PARTITION  3
#define PARTITIONS 7
#define STREAMS	   150 /* per tenant */
#define SOURCES	   3

static const char *const tenants[] = {"a", "tenant-b", "c", "dd", "e"};
static const char *const policies[] = {"", "finance", "ops", "x"};

uint64_t schedule_draw64(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint32_t schedule_draw(uint64_t *state, uint32_t below)
{
	return (uint32_t)(schedule_draw64(state) % below);
}

uint64_t schedule_seed(void)
{
	const char *text = getenv("TALLY_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : host_random();

	printf("TALLY_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

static int64_t draw_timestamp(const struct schedule *schedule, uint64_t *state, int64_t now_ms)
{
	int64_t window_ms = (int64_t)schedule->window * 60000;

	switch (schedule_draw(state, 20)) {
	case 0:
		return now_ms + schedule_draw(state, 600000); /* the future */
	case 1:
	case 2:
	case 3:
		return now_ms - schedule_draw(state, (uint32_t)(window_ms * 13 / 10)); /* late */
	case 4:
		return schedule_draw(state, 4) ? now_ms - window_ms - schedule_draw(state, 120000)
					       : -1;
	default:
		return now_ms - schedule_draw(state, 3000);
	}
}

/* A third of all records are of a tenth of the streams. */
static uint64_t draw_hash(const struct schedule *schedule, uint64_t *state, unsigned tenant)
{
	uint32_t stream =
		schedule_draw(state, schedule_draw(state, 3) == 0 ? STREAMS / 10 : STREAMS);
	uint64_t hash = schedule->seed + tenant * 1000 + stream;
	uint64_t spread = schedule_draw64(&hash);

	spread -= spread % schedule->partitions;
	if (spread > UINT64_MAX - schedule->partitions)
		spread -= schedule->partitions;
	return spread + (schedule_draw(state, 50) ? schedule->partition : 0);
}

static void draw_source(struct record *record, uint64_t *state, uint64_t sequences[], bool *own)
{
	unsigned source;

	*own = schedule_draw(state, 40) == 0;
	record->has_source = *own || schedule_draw(state, 2) == 0;
	if (!record->has_source)
		return;
	source = schedule_draw(state, SOURCES);
	memset(record->incarnation, (int)source + 1, INCARNATION_SIZE);
	record->sequence = sequences[source] + 1;
	if (schedule_draw(state, 6) == 0 && sequences[source] > 0) /* sent once more */
		record->sequence -= schedule_draw(state, 3);
	else
		sequences[source]++;
}

void schedule_make(
	struct schedule *schedule, uint64_t seed, uint32_t window, size_t n, int64_t span_ms)
{
	uint64_t state = seed, sequences[SOURCES] = {0};
	int64_t now_ms = SCHEDULE_START_MS;
	uint32_t step = (uint32_t)(2 * span_ms / (int64_t)n) + 1;

	*schedule = (struct schedule){.seed = seed,
		.partition = PARTITION,
		.partitions = PARTITIONS,
		.window = window,
		.n = n};
	schedule->records = calloc(n, sizeof(*schedule->records));
	schedule->now_ms = calloc(n, sizeof(*schedule->now_ms));
	schedule->own = calloc(n, sizeof(*schedule->own));
	for (size_t i = 0; i < n; i++) {
		struct record *record = &schedule->records[i];
		unsigned tenant = schedule_draw(&state, 5);

		now_ms += schedule_draw(&state, step);
		schedule->now_ms[i] = now_ms;
		record->tenant = tenants[tenant];
		record->tenant_len = strlen(record->tenant);
		record->policy = policies[schedule_draw(&state, 4)];
		record->policy_len = strlen(record->policy);
		record->hash = draw_hash(schedule, &state, tenant);
		record->size = schedule_draw(&state, 5000);
		if (schedule_draw(&state, 500) == 0)
			record->size = UINT64_C(1) << 33;
		record->timestamp_ms = draw_timestamp(schedule, &state, now_ms);
		record->offset = (int64_t)i;
		if (i > 0 &&
			schedule_draw(&state, 4) == 0) { /* the same moment, maybe another policy */
			record->tenant = record[-1].tenant;
			record->tenant_len = record[-1].tenant_len;
			record->hash = record[-1].hash;
			record->timestamp_ms = record[-1].timestamp_ms;
		}
		draw_source(record, &state, sequences, &schedule->own[i]);
	}
}

void schedule_own(struct schedule *schedule, const uint8_t incarnation[INCARNATION_SIZE])
{
	for (size_t i = 0; i < schedule->n; i++)
		if (schedule->own[i])
			memcpy(schedule->records[i].incarnation, incarnation, INCARNATION_SIZE);
}

void schedule_free(struct schedule *schedule)
{
	free(schedule->records);
	free(schedule->now_ms);
	free(schedule->own);
	memset(schedule, 0, sizeof(*schedule));
}
