/*
 * usage_due.c - which streams have unsent bytes that will be due, and when.
 *
 *	apply: unsent, not due yet --note--> commit --> slot[second % DUE_SLOTS]
 *	usage_produce_due: slots up to now --> ITEM_DUE into the batch --> apply: produced
 *
 * A stream is noted when it gets unsent bytes; so it is here once, or twice for a
 * moment.  Memory: 16 bytes for each stream that was seen since it was produced.
 * The flag in the store is the truth: after a restart the slots are made from it.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <stdlib.h>
#include <string.h>

#include "shm/check.h"

static void slot_add(struct due_slot *slot, const struct due_stream *stream)
{
	slot->streams = array_grow(slot->streams, &slot->cap, slot->n + 1, sizeof(*slot->streams));
	slot->streams[slot->n++] = *stream;
}

static void slot_empty(struct due_slot *slot)
{
	free(slot->streams);
	*slot = (struct due_slot){0};
}

static void add(struct due *due, const struct due_stream *stream)
{
	/* What should have been looked at already is looked at next. */
	uint32_t at_s = stream->at_s > due->looked_s ? stream->at_s : due->looked_s + 1;

	slot_add(&due->slot[at_s % DUE_SLOTS], stream);
}

void due_note(struct due *due, uint32_t tenant, uint64_t hash, uint32_t at_s)
{
	slot_add(&due->noted, &(struct due_stream){.hash = hash, .tenant = tenant, .at_s = at_s});
}

void due_commit(struct due *due)
{
	for (size_t i = 0; i < due->noted.n; i++)
		add(due, &due->noted.streams[i]);
	due_drop(due);
}

void due_drop(struct due *due)
{
	due->noted.n = 0;
	if (due->noted.cap > 65536)
		slot_empty(&due->noted);
}

void due_free(struct due *due)
{
	for (unsigned i = 0; i < DUE_SLOTS; i++)
		slot_empty(&due->slot[i]);
	slot_empty(&due->noted);
	due->loaded = false;
}

/* --- from the store -------------------------------------------------------------------------- */

static bool load_block(
	struct usage *usage, uint64_t seed, uint32_t tenant, const struct usage_block *block)
{
	unsigned n = block_count(block);
	uint64_t sum;

	for (unsigned i = 0; i < n; i++) {
		const struct usage_entry *entry = &block->entry[i];

		if (!block_entry_ok(block, i, seed, &sum))
			return false;
		if (entry->flags & ENTRY_UNSENT)
			add(&usage->due,
				&(struct due_stream){.hash = block->hash[i],
					.tenant = tenant,
					.at_s = entry->last_produced_s + usage->produce.every_s});
	}
	return true;
}

static void load(struct usage *usage)
{
	const struct usage_block *block;
	struct store_bytes key, value;
	struct store_txn txn;
	struct usage_key from;
	uint32_t tenant;
	uint64_t upper;
	bool more;

	due_free(&usage->due);
	usage->due.loaded = true;
	if (usage->meta.unsent == 0)
		return;
	store_begin_read(&txn, usage->store);
	key_block(&from, KEY_BLOCK, 0, 0);
	for (more = store_seek(&txn, key_bytes(&from), &key, &value);
		more && key_parse_block(key, KEY_BLOCK, &tenant, &upper);
		more = store_next(&txn, &key, &value)) {
		uint64_t seed = block_seed(seal_seed(&txn), KEY_BLOCK, tenant);

		block = block_of(value);
		if (!block || !load_block(usage, seed, tenant, block))
			usage_corrupt(&txn);
	}
	usage->due.loaded = !txn.err; /* else they are read again when they are next needed */
	store_abort(&txn);
}

void usage_set_produce(struct usage *usage, const struct usage_produce *produce)
{
	must(produce->every_s < DUE_SLOTS);
	usage->produce = *produce;
	if (produce->every_s)
		load(usage);
}

/* --- when it is time ------------------------------------------------------------------------- */

static size_t take_slot(struct usage *usage, struct due_slot *slot)
{
	size_t n = slot->n;

	for (size_t i = 0; i < n; i++) {
		struct item *item = batch_append(&usage->batch);

		item->hash = slot->streams[i].hash;
		item->tenant = slot->streams[i].tenant;
		item->kind = ITEM_DUE;
	}
	slot_empty(slot);
	return n;
}

bool usage_produce_due(struct usage *usage, int64_t now_ms)
{
	struct due *due = &usage->due;
	uint32_t now_s = now_ms > 0 ? (uint32_t)(now_ms / 1000) : 0;
	size_t n = 0;

	if (!usage->produce.every_s)
		return false;
	if (!due->loaded)
		load(usage);
	/* The clock has jumped, either way: all slots are looked at once. */
	if (now_s < due->looked_s || now_s - due->looked_s > DUE_SLOTS)
		due->looked_s = now_s > DUE_SLOTS ? now_s - DUE_SLOTS : 0;
	for (; due->looked_s < now_s; due->looked_s++)
		n += take_slot(usage, &due->slot[(due->looked_s + 1) % DUE_SLOTS]);
	return n > 0;
}

void usage_produce_all(struct usage *usage)
{
	if (!usage->produce.every_s)
		return;
	if (!usage->due.loaded)
		load(usage);
	for (unsigned i = 0; i < DUE_SLOTS; i++)
		take_slot(usage, &usage->due.slot[i]);
	usage->produce_all = true;
}
