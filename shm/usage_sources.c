/*
 * usage_sources.c - the highest sequence number applied per foreign store.
 *
 *	record with header {incarnation, sequence} --> sources_pass --> new, or seen before
 *
 * A producer sends its records in order of their sequence and, after a crash,
 * some of them again with the same numbers.  Whatever is not above the highest
 * number of its incarnation was delivered before.
 *
 * A source is forgotten when it was not heard of for a whole window: the records
 * it could repeat are too old by then.  And there are never more than
 * USAGE_SOURCES_MAX after a commit: a producer that makes up incarnations grows
 * neither memory nor store.  In between there can be one more per record of the batch.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "shm/check.h"
#include "shm/err.h"

#define TABLE_MIN     64
#define ROWS_PER_LEAF 20 /* at least; LMDB merges leaves that are less than a quarter full */

static size_t source_slot(const struct sources *sources, const uint8_t incarnation[])
{
	return XXH3_64bits_withSeed(incarnation, INCARNATION_SIZE, sources->seed) &
	       (sources->table_size - 1);
}

static void table_insert(struct sources *sources, size_t index)
{
	size_t at = source_slot(sources, sources->sources[index].incarnation);

	while (sources->table[at])
		at = (at + 1) & (sources->table_size - 1);
	sources->table[at] = (uint32_t)index + 1;
}

/* At most half full. */
static void table_rebuild(struct sources *sources)
{
	size_t size = sources->table_size ? sources->table_size : TABLE_MIN;

	while (size < 2 * (sources->n + 1))
		size *= 2;
	free(sources->table);
	sources->table = calloc(size, sizeof(*sources->table));
	must_get(sources->table != NULL);
	sources->table_size = size;
	for (size_t i = 0; i < sources->n; i++)
		table_insert(sources, i);
}

static struct source *sources_find(const struct sources *sources, const uint8_t incarnation[])
{
	size_t at = source_slot(sources, incarnation);

	for (; sources->table[at]; at = (at + 1) & (sources->table_size - 1)) {
		struct source *source = &sources->sources[sources->table[at] - 1];

		if (memcmp(source->incarnation, incarnation, INCARNATION_SIZE) == 0)
			return source;
	}
	return NULL;
}

/* The table is the caller's business. */
static struct source *sources_append(struct sources *sources, const uint8_t incarnation[])
{
	struct source *source;

	sources->sources = array_grow(
		sources->sources, &sources->cap, sources->n + 1, sizeof(*sources->sources));
	source = &sources->sources[sources->n++];
	memset(source, 0, sizeof(*source));
	memcpy(source->incarnation, incarnation, INCARNATION_SIZE);
	return source;
}

static bool source_changed(const struct source *source)
{
	return !source->is_committed || source->now.sequence != source->committed.sequence;
}

static void mark_dirty(struct sources *sources, const struct source *source)
{
	sources->dirty = array_grow(
		sources->dirty, &sources->dirty_cap, sources->n_dirty + 1, sizeof(*sources->dirty));
	sources->dirty[sources->n_dirty++] = (uint32_t)(source - sources->sources);
}

bool sources_pass(struct sources *sources, const uint8_t incarnation[INCARNATION_SIZE],
	uint64_t sequence, uint32_t now_s)
{
	struct source *source = sources_find(sources, incarnation);

	if (source && sequence <= source->now.sequence)
		return false;
	if (!source) {
		source = sources_append(sources, incarnation);
		if (2 * (sources->n + 1) > sources->table_size)
			table_rebuild(sources);
		else
			table_insert(sources, sources->n - 1);
		mark_dirty(sources, source);
	} else if (!source_changed(source)) {
		mark_dirty(sources, source);
	}
	source->now.sequence = sequence;
	source->now.seen_s = now_s;
	return true;
}

/* --- the store ------------------------------------------------------------------------------- */

void source_key(struct usage_key *key, const struct source *source)
{
	key_prefix(key, KEY_SOURCE);
	key_add_text(key, source->incarnation, INCARNATION_SIZE);
}

int sources_load(struct sources *sources, struct store_txn *txn)
{
	struct store_bytes key, value;
	struct usage_key from;
	bool more;

	sources->seed = host_random();
	key_prefix(&from, KEY_SOURCE);
	for (more = store_seek(txn, key_bytes(&from), &key, &value);
		more && *(const char *)key.data == KEY_SOURCE;
		more = store_next(txn, &key, &value)) {
		struct source *source;

		if (!seal_open(txn, key, &value) || key.len != 1 + INCARNATION_SIZE ||
			value.len != sizeof(source->now))
			return ERR_CORRUPT;
		source = sources_append(sources, (const uint8_t *)key.data + 1);
		memcpy(&source->now, value.data, sizeof(source->now));
		source->committed = source->now;
		source->is_committed = true;
	}
	table_rebuild(sources);
	return txn->err;
}

void sources_free(struct sources *sources)
{
	free(sources->sources);
	free(sources->table);
	free(sources->dirty);
	memset(sources, 0, sizeof(*sources));
}

static bool source_is_old(const struct source *source, uint32_t now_minute, uint32_t window)
{
	return !window_active(now_minute, window_minute_of_s(source->now.seen_s), window);
}

static int compare_seen(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/*
 * Marks `excess` more, those heard of longest ago; of equal ones those known for the
 * shortest time, so that a flood of new ones drives out itself.
 */
static void mark_excess(struct sources *sources, size_t excess)
{
	uint32_t *seen = reallocarray(NULL, sources->n, sizeof(*seen)), limit;
	size_t n = 0, below = 0;

	must_get(seen != NULL);
	for (size_t i = 0; i < sources->n; i++)
		if (!sources->sources[i].is_spent)
			seen[n++] = sources->sources[i].now.seen_s;
	qsort(seen, n, sizeof(*seen), compare_seen);
	limit = seen[excess - 1];
	while (seen[below] < limit)
		below++;
	free(seen);
	for (size_t i = sources->n, equal = excess - below; i-- > 0;) {
		struct source *source = &sources->sources[i];

		if (source->is_spent || source->now.seen_s > limit)
			continue;
		if (source->now.seen_s == limit && equal == 0)
			continue;
		equal -= source->now.seen_s == limit;
		source->is_spent = true;
	}
	sources->n_spent += excess;
}

void sources_mark(struct sources *sources, uint32_t now_minute, uint32_t window)
{
	bool look = sources->pruned_minute != now_minute;

	if (!look && sources->n_spent == 0 && sources->n <= USAGE_SOURCES_MAX)
		return;
	sources->n_spent = 0; /* marks of a commit that failed */
	for (size_t i = 0; i < sources->n; i++) {
		struct source *source = &sources->sources[i];

		source->is_spent = look && source_is_old(source, now_minute, window);
		sources->n_spent += source->is_spent;
	}
	if (sources->n - sources->n_spent > USAGE_SOURCES_MAX)
		mark_excess(sources, sources->n - sources->n_spent - USAGE_SOURCES_MAX);
}

uint64_t sources_pages(const struct sources *sources)
{
	uint64_t changed = 2 * (uint64_t)(sources->n_dirty + sources->n_spent);
	uint64_t all = sources->n / ROWS_PER_LEAF + ROWS_PER_LEAF;

	return changed < all ? changed : all;
}

uint32_t sources_write(const struct sources *sources, struct store_txn *txn)
{
	struct usage_key key;

	for (size_t i = 0; i < sources->n_dirty; i++) {
		const struct source *source = &sources->sources[sources->dirty[i]];

		source_key(&key, source);
		if (!source->is_spent)
			seal_put(txn, &key, &source->now, sizeof(source->now));
	}
	for (size_t i = 0; i < sources->n && sources->n_spent; i++) {
		const struct source *source = &sources->sources[i];

		source_key(&key, source);
		if (source->is_spent && source->is_committed)
			store_delete(txn, key_bytes(&key));
	}
	return (uint32_t)(sources->n - sources->n_spent);
}

static void forget_spent(struct sources *sources)
{
	size_t kept = 0;

	for (size_t i = 0; i < sources->n; i++)
		if (!sources->sources[i].is_spent)
			sources->sources[kept++] = sources->sources[i];
	sources->n = kept;
	sources->n_spent = 0;
	if (sources->cap > 4 * (kept + TABLE_MIN)) {
		sources->cap = 2 * (kept + TABLE_MIN);
		sources->sources =
			reallocarray(sources->sources, sources->cap, sizeof(*sources->sources));
		must_get(sources->sources != NULL);
	}
	sources->table_size = 0;
	table_rebuild(sources);
}

void sources_commit(struct sources *sources, uint32_t now_minute)
{
	for (size_t i = 0; i < sources->n_dirty; i++) {
		struct source *source = &sources->sources[sources->dirty[i]];

		source->committed = source->now;
		source->is_committed = true;
	}
	sources->n_dirty = 0;
	sources->pruned_minute = now_minute;
	if (sources->n_spent)
		forget_spent(sources);
}

void sources_reset(struct sources *sources)
{
	size_t kept = 0;

	for (size_t i = 0; i < sources->n; i++) {
		struct source source = sources->sources[i];

		if (!source.is_committed)
			continue;
		source.now = source.committed;
		sources->sources[kept++] = source;
	}
	sources->n = kept;
	sources->n_dirty = 0;
	sources->n_spent = 0;
	table_rebuild(sources);
}
