/*
 * totals.c - counters of this process over all partitions that it has seen.
 *
 *	(partition, generation, value) -> value - value last seen of that generation -> sum
 *
 * Runs in: queryd, any thread.  Blocks in: its own mutex, held for a few lines.
 */
#include "totals.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct seen {
	uint64_t generation;
	struct totals_sum last;
};

struct totals {
	pthread_mutex_t lock;
	struct totals_sum sum;
	struct seen *seen; /* by partition */
	size_t capacity;
};

struct totals *totals_new(void)
{
	struct totals *totals = calloc(1, sizeof(*totals));

	if (totals != NULL)
		pthread_mutex_init(&totals->lock, NULL);
	return totals;
}

void totals_free(struct totals **totals)
{
	if (*totals == NULL)
		return;
	pthread_mutex_destroy(&(*totals)->lock);
	free((*totals)->seen);
	free(*totals);
	*totals = NULL;
}

/* Room for `partition`; NULL when there is no memory: it is not counted then. */
static struct seen *seen_of(struct totals *totals, uint32_t partition)
{
	if (partition >= totals->capacity) {
		size_t capacity = (size_t)partition + 64;
		struct seen *seen = realloc(totals->seen, capacity * sizeof(*seen));

		if (seen == NULL)
			return NULL;
		memset(seen + totals->capacity, 0, (capacity - totals->capacity) * sizeof(*seen));
		totals->seen = seen;
		totals->capacity = capacity;
	}
	return &totals->seen[partition];
}

static struct totals_sum now_of(const struct tally_partition *partition)
{
	struct totals_sum now = {.records = partition->records};

	for (unsigned i = 0; i < TALLY_SKIP_REASONS; i++) {
		const char *reason = tally_skip_reason(i);

		if (reason == NULL || strcmp(reason, "applied") == 0)
			continue;
		if (strcmp(reason, "undecodable") == 0 || strncmp(reason, "no_", 3) == 0)
			now.invalid += partition->skipped[i];
		else
			now.discarded += partition->skipped[i];
	}
	return now;
}

static void add(uint64_t *sum, uint64_t *last, uint64_t now)
{
	if (now <= *last)
		return; /* a worker that starts shows zeros until its first commit */
	*sum += now - *last;
	*last = now;
}

void totals_update(struct totals *totals, const struct tally_partition *partitions, size_t n)
{
	pthread_mutex_lock(&totals->lock);
	for (size_t i = 0; i < n; i++) {
		struct seen *seen = seen_of(totals, partitions[i].partition);
		struct totals_sum now;

		if (seen == NULL || !partitions[i].has_stats)
			continue;
		if (seen->generation != partitions[i].generation)
			*seen = (struct seen){.generation = partitions[i].generation};
		now = now_of(&partitions[i]);
		add(&totals->sum.records, &seen->last.records, now.records);
		add(&totals->sum.discarded, &seen->last.discarded, now.discarded);
		add(&totals->sum.invalid, &seen->last.invalid, now.invalid);
	}
	pthread_mutex_unlock(&totals->lock);
}

void totals_sum(struct totals *totals, struct totals_sum *sum)
{
	pthread_mutex_lock(&totals->lock);
	*sum = totals->sum;
	pthread_mutex_unlock(&totals->lock);
}
