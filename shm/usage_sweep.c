/*
 * usage_sweep.c - expired streams out of blocks, a slice per commit.
 *
 *	block  block  block  block  ...
 *	  '------'                      what is left of neighbours that fit together becomes one
 *	^ sweep.tenant, sweep.hash
 *
 * Counting does not need this: an expired stream is out of every sum by the window
 * rule alone, so rows are left as they are.  Only space is given back.
 *
 * A stream stays while it has unsent bytes, and until no record that still counts
 * could reach back to its rate buckets: a stream that returns looks the same
 * whether it was swept or not.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <string.h>

#include "shm/err.h"

#define MERGED_MAX (USAGE_BLOCK_SLOTS * 3 / 4) /* leaves room to grow before the next split */

struct sweeper {
	struct store_txn *txn;
	struct usage_meta *meta;
	uint32_t now_minute, keep_minutes;
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
	key_block(&key, sw->tenant, sw->upper);
	if (sw->block.n == 0) {
		store_delete(sw->txn, key_bytes(&key));
		sw->meta->blocks--;
	} else {
		store_put(sw->txn, key_bytes(&key),
			(struct store_bytes){.data = &sw->block, .len = sizeof(sw->block)});
	}
}

static bool is_spent(const struct sweeper *sw, const struct usage_entry *entry)
{
	return entry->unsent_bytes == 0 &&
	       !window_active(
		       sw->now_minute, window_minute_of_s(entry->last_seen_s), sw->keep_minutes);
}

/* Copies what stays; returns how many do not. */
static unsigned copy_living(
	const struct sweeper *sw, const struct usage_block *from, struct usage_block *to)
{
	unsigned n = 0;

	block_clear(to);
	for (unsigned i = 0; i < from->n; i++) {
		if (is_spent(sw, &from->entry[i]))
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
	unsigned spent = copy_living(sw, block, &living);
	bool changed = spent > 0;
	struct usage_key key;

	sw->meta->streams -= spent;
	sw->meta->swept += spent;
	if (sw->have && sw->tenant == tenant && sw->block.n + living.n <= MERGED_MAX) {
		block_merge(&living, &sw->block);
		key_block(&key, sw->tenant, sw->upper);
		store_delete(sw->txn, key_bytes(&key));
		sw->meta->blocks--;
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

/* Sets *at behind (tenant, upper); false behind the very last one. */
static bool step(struct sweep *at, uint32_t tenant, uint64_t upper)
{
	at->tenant = tenant;
	at->hash = upper + 1;
	if (at->hash == 0)
		at->tenant++;
	return at->hash != 0 || at->tenant != 0;
}

void sweep_slice(struct store_txn *txn, unsigned blocks, uint32_t now_minute,
	struct usage_meta *meta, struct sweep *at)
{
	struct sweeper sw = {.txn = txn, .meta = meta, .now_minute = now_minute};
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;
	uint64_t upper;

	sw.keep_minutes = meta->identity.window_minutes + RATE_MINUTES - 1;
	while (blocks-- > 0 && !txn->err) {
		const struct usage_block *block;

		key_block(&from, at->tenant, at->hash);
		if (!store_seek(txn, key_bytes(&from), &key, &value) ||
			!key_parse_block(key, &tenant, &upper)) {
			*at = (struct sweep){0}; /* the end: from the start next time */
			break;
		}
		block = block_of(value);
		if (!block) {
			txn->err = ERR_CORRUPT;
			break;
		}
		sweep_block(&sw, tenant, upper, block);
		if (!step(at, tenant, upper))
			break;
	}
	finish_block(&sw);
}
