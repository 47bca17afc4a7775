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
 * it could repeat are too old by then.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "shm/check.h"
#include "shm/err.h"

#define TABLE_MIN 64

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
	must(sources->table != NULL);
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

static void source_key(struct usage_key *key, const struct source *source)
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

		if (key.len != 1 + INCARNATION_SIZE || value.len != sizeof(source->now))
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

uint32_t sources_write(
	struct sources *sources, struct store_txn *txn, uint32_t now_minute, uint32_t window)
{
	struct usage_key key;
	size_t left = sources->n;

	for (size_t i = 0; i < sources->n_dirty; i++) {
		const struct source *source = &sources->sources[sources->dirty[i]];

		source_key(&key, source);
		store_put(txn, key_bytes(&key),
			(struct store_bytes){.data = &source->now, .len = sizeof(source->now)});
	}
	if (sources->pruned_minute == now_minute)
		return (uint32_t)left;
	for (size_t i = 0; i < sources->n; i++) {
		if (!source_is_old(&sources->sources[i], now_minute, window))
			continue;
		source_key(&key, &sources->sources[i]);
		store_delete(txn, key_bytes(&key));
		left--;
	}
	return (uint32_t)left;
}

void sources_commit(struct sources *sources, uint32_t now_minute, uint32_t window)
{
	size_t kept = 0;

	for (size_t i = 0; i < sources->n_dirty; i++) {
		struct source *source = &sources->sources[sources->dirty[i]];

		source->committed = source->now;
		source->is_committed = true;
	}
	sources->n_dirty = 0;
	if (sources->pruned_minute == now_minute)
		return;
	sources->pruned_minute = now_minute;
	for (size_t i = 0; i < sources->n; i++)
		if (!source_is_old(&sources->sources[i], now_minute, window))
			sources->sources[kept++] = sources->sources[i];
	if (kept != sources->n) {
		sources->n = kept;
		table_rebuild(sources);
	}
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
	table_rebuild(sources);
}
