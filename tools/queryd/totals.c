/*
 * totals.c - counters of this process over all partitions that it has seen.
 *
 *	(partition, generation, value) -> value - value last seen of that generation -> sum
 *
 * Runs in: queryd, any thread.  Blocks in: its own mutex, held for a few lines.
 */
#include "totals.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLACK_MS 1000 /* between tallyd's start and the first number that it gives */

struct counts {
	uint64_t records, discarded, invalid, swept, sent, send_errors;
};

struct seen {
	uint64_t generation;
	struct counts last;
};

struct totals {
	pthread_mutex_t lock;
	int64_t started_at_ms;
	struct totals_sum sum;
	struct seen *seen; /* by partition */
	size_t capacity;
};

struct totals *totals_new(int64_t started_at_ms)
{
	struct totals *totals = calloc(1, sizeof(*totals));

	if (totals == NULL)
		return NULL;
	totals->started_at_ms = started_at_ms;
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

void totals_go_on(struct totals *totals, const struct totals_sum *from)
{
	totals->sum = *from;
}

uint64_t totals_lag_ms(unsigned bucket)
{
	return UINT64_C(125) << bucket;
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

static struct counts counts_of(const struct tally_partition *partition)
{
	struct counts now = {
		.records = partition->records,
		.swept = partition->swept,
		.sent = partition->sent,
		.send_errors = partition->send_errors,
	};

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

/*
 * Whether all that it has counted was counted since this process started: tallyd has
 * made it (generations are numbered from the microsecond of its start on), not adopted
 * it, and its worker has begun after us.
 */
static bool is_new(const struct totals *totals, const struct tally_instance *instance,
	const struct tally_partition *partition)
{
	return (int64_t)(partition->generation / 1000) >= instance->started_at_ms - SLACK_MS &&
	       partition->replay_started_at_ms >= totals->started_at_ms;
}

static void add(uint64_t *sum, uint64_t *last, uint64_t now)
{
	if (now <= *last)
		return; /* a worker that starts may show zeros until its first commit */
	*sum += now - *last;
	*last = now;
}

static void add_lag(struct totals_sum *sum, int64_t lag_ms)
{
	uint64_t lag = lag_ms > 0 ? (uint64_t)lag_ms : 0;
	unsigned i = 0;

	while (i < TOTALS_LAGS && lag > totals_lag_ms(i))
		i++;
	sum->lags[i]++;
	sum->lag_ms += lag;
}

static void update_one(struct totals *totals, const struct tally_instance *instance,
	const struct tally_partition *partition)
{
	struct seen *seen = seen_of(totals, partition->partition);
	struct totals_sum *sum = &totals->sum;
	struct counts now = counts_of(partition), *last;

	/* Until its worker has begun, it is not known what it has counted before. */
	if (seen == NULL || !partition->has_stats || partition->replay_started_at_ms == 0)
		return;
	last = &seen->last;
	if (seen->generation != partition->generation) {
		seen->generation = partition->generation;
		*last = now;
		if (is_new(totals, instance, partition))
			memset(last, 0, sizeof(*last));
	}
	if (now.records > last->records)
		add_lag(sum, partition->record_lag_ms);
	add(&sum->records, &last->records, now.records);
	add(&sum->discarded, &last->discarded, now.discarded);
	add(&sum->invalid, &last->invalid, now.invalid);
	add(&sum->swept, &last->swept, now.swept);
	add(&sum->sent, &last->sent, now.sent);
	add(&sum->send_errors, &last->send_errors, now.send_errors);
}

void totals_update(struct totals *totals, const struct tally_instance *instance,
	const struct tally_partition *partitions, size_t n)
{
	pthread_mutex_lock(&totals->lock);
	for (size_t i = 0; i < n; i++)
		update_one(totals, instance, &partitions[i]);
	pthread_mutex_unlock(&totals->lock);
}

void totals_sum(struct totals *totals, struct totals_sum *sum)
{
	pthread_mutex_lock(&totals->lock);
	*sum = totals->sum;
	pthread_mutex_unlock(&totals->lock);
}
