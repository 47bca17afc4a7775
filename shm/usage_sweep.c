/*
 * usage_sweep.c - expired streams out of blocks, then expired rows, a slice per commit.
 *
 *	block  block  block  ...  block of rates  ...  row  row  (from the start again)
 *	  '------'                      what is left of neighbours that fit together becomes one
 *	^ sweep.tenant, sweep.hash
 *
 * Counting does not need this: an expired stream is out of every sum by the window
 * rule alone, so no row changes for it.  Only space is given back.
 *
 * A stream stays while it has unsent bytes, and until no record that still counts
 * could reach back to its rate buckets: a stream that returns looks the same
 * whether it was swept or not.  Records that wait in a batch were accepted earlier,
 * so their streams stay, too.  A row goes when all its minutes are as old.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <string.h>

#include "shm/err.h"

#define MERGED_MAX (USAGE_BLOCK_SLOTS * 3 / 4) /* leaves room to grow before the next split */

struct sweeper {
	struct store_txn *txn;
	const struct batch *batch; /* not in the store yet; or NULL */
	struct usage_meta *meta;
	uint32_t now_minute, keep_minutes;
	char kind;		    /* KEY_BLOCK or KEY_RATE */
	uint64_t *streams, *blocks; /* in meta, of that kind */
	/* The last block looked at, not written yet: the next one may take it in. */
	bool have, changed;
	uint32_t tenant;
	uint64_t upper;
	struct usage_block block;
};

static void finish_block(struct sweeper *sw)
{
	struct usage_key key;

	if (!sw->have || !sw->changed)
		return;
	key_block(&key, sw->kind, sw->tenant, sw->upper);
	if (sw->block.n == 0) {
		store_delete(sw->txn, key_bytes(&key));
		(*sw->blocks)--;
	} else {
		store_put(sw->txn, key_bytes(&key),
			(struct store_bytes){.data = &sw->block, .len = sizeof(sw->block)});
	}
}

static bool is_old(const struct sweeper *sw, uint32_t minute)
{
	return !window_active(sw->now_minute, minute, sw->keep_minutes);
}

static bool is_waiting(const struct batch *batch, uint32_t tenant, uint64_t hash)
{
	size_t from = 0, to = batch ? batch->n : 0;

	while (from < to) {
		size_t middle = (from + to) / 2;
		const struct item *item = &batch->items[middle];

		if (item->tenant == tenant && item->hash == hash)
			return true;
		if (item->tenant != tenant ? item->tenant < tenant : item->hash < hash)
			from = middle + 1;
		else
			to = middle;
	}
	return false;
}

static bool is_spent(
	const struct sweeper *sw, uint32_t tenant, uint64_t hash, const struct usage_entry *entry)
{
	return entry->unsent_bytes == 0 && !(entry->flags & ENTRY_UNSENT) &&
	       is_old(sw, window_minute_of_s(entry->last_seen_s)) &&
	       !is_waiting(sw->batch, tenant, hash);
}

/* Copies what stays; returns how many do not. */
static unsigned copy_living(const struct sweeper *sw, uint32_t tenant,
	const struct usage_block *from, struct usage_block *to)
{
	unsigned n = 0;

	block_clear(to);
	for (unsigned i = 0; i < from->n; i++) {
		if (is_spent(sw, tenant, from->hash[i], &from->entry[i]))
			continue;
		to->hash[n] = from->hash[i];
		to->entry[n++] = from->entry[i];
	}
	to->n = (uint16_t)n;
	to->lowest = n ? to->hash[0] : 0;
	return from->n - n;
}

static void sweep_block(
	struct sweeper *sw, uint32_t tenant, uint64_t upper, const struct usage_block *block)
{
	struct usage_block living;
	unsigned spent = copy_living(sw, tenant, block, &living);
	bool changed = spent > 0;
	struct usage_key key;

	*sw->streams -= spent;
	sw->meta->swept += sw->kind == KEY_BLOCK ? spent : 0;
	if (sw->have && sw->tenant == tenant && sw->block.n + living.n <= MERGED_MAX) {
		block_merge(&living, &sw->block);
		key_block(&key, sw->kind, sw->tenant, sw->upper);
		store_delete(sw->txn, key_bytes(&key));
		(*sw->blocks)--;
		changed = true;
	} else {
		finish_block(sw);
	}
	sw->have = true;
	sw->changed = changed;
	sw->tenant = tenant;
	sw->upper = upper;
	sw->block = living;
}

/* --- steps ----------------------------------------------------------------------------------- */

/* One block; false behind the last one. */
static bool step_block(struct sweeper *sw, struct sweep *at)
{
	const struct usage_block *block;
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;
	uint64_t upper;

	key_block(&from, sw->kind, at->tenant, at->hash);
	if (!store_seek(sw->txn, key_bytes(&from), &key, &value) ||
		!key_parse_block(key, sw->kind, &tenant, &upper))
		return false;
	block = block_of(value);
	if (!block) {
		sw->txn->err = ERR_CORRUPT;
		return false;
	}
	sweep_block(sw, tenant, upper, block);
	at->tenant = tenant;
	at->hash = upper + 1;
	if (at->hash == 0)
		at->tenant++;
	return at->hash != 0 || at->tenant != 0;
}

/* One row; false behind the last one. */
static bool step_row(struct sweeper *sw, struct sweep *at)
{
	uint32_t window = sw->meta->identity.window_minutes;
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant, base;
	uint16_t policy;

	key_row(&from, at->tenant, (uint16_t)at->policy);
	if (!store_seek(sw->txn, key_bytes(&from), &key, &value) ||
		!key_parse_row(key, &tenant, &policy))
		return false;
	if (value.len != window_row_size(window)) {
		sw->txn->err = ERR_CORRUPT;
		return false;
	}
	memcpy(&base, value.data, sizeof(base));
	if (is_old(sw, base)) {
		key_row(&from, tenant, policy);
		store_delete(sw->txn, key_bytes(&from));
	} else {
		at->has_rows = true;
	}
	at->tenant = tenant;
	at->policy = policy + 1u;
	if (at->policy >= USAGE_POLICIES_MAX) {
		at->tenant++;
		at->policy = 0;
	}
	return at->policy != 0 || at->tenant != 0;
}

static void set_stage(struct sweeper *sw, enum sweep_stage stage)
{
	bool rates = stage == SWEEP_RATES;

	finish_block(sw);
	sw->have = false;
	sw->kind = rates ? KEY_RATE : KEY_BLOCK;
	sw->streams = rates ? &sw->meta->rates : &sw->meta->streams;
	sw->blocks = rates ? &sw->meta->rate_blocks : &sw->meta->blocks;
	/* Keys of UpdateRates are in no row: they go with their last bucket. */
	sw->keep_minutes = (rates ? 0 : sw->meta->identity.window_minutes) + RATE_MINUTES - 1;
}

unsigned sweep_slice(struct store_txn *txn, unsigned steps, uint32_t now_minute,
	const struct batch *batch, struct usage_meta *meta, struct sweep *at)
{
	struct sweeper sw = {.txn = txn, .batch = batch, .meta = meta, .now_minute = now_minute};
	bool has_rows;
	unsigned n = 0;

	set_stage(&sw, at->stage);
	while (n < steps && !txn->err) {
		n++;
		if (at->stage == SWEEP_ROWS ? step_row(&sw, at) : step_block(&sw, at))
			continue;
		has_rows = at->stage == SWEEP_ROWS && at->has_rows;
		*at = (struct sweep){
			.stage = (at->stage + 1) % (SWEEP_ROWS + 1), .has_rows = has_rows};
		set_stage(&sw, at->stage);
		if (at->stage == SWEEP_BLOCKS)
			break; /* from the start next time */
	}
	finish_block(&sw);
	return n;
}

struct store_need sweep_need(const struct usage *usage, unsigned steps)
{
	/* A block: its page, and the leaf that lists it.  A row: its leaf. */
	return (struct store_need){.pages = 2 * (uint64_t)steps, .freed = row_run(usage) * steps};
}
