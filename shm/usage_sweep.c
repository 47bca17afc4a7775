/*
 * usage_sweep.c - expired streams out of blocks, then expired rows, a slice per commit.
 *
 *	block  block  block  ...  block of rates  ...  row  row  (from the start again)
 *	  '------'                      what is left of neighbours that fit together becomes one
 *	^ sweep.tenant, sweep.hash
 *
 * No block is empty, and no hash between a tenant's blocks: a neighbour takes the
 * hashes of one that has become empty, the next one as a rule.
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
	uint64_t *sum;
	struct scrub *scrub;
	uint64_t seed; /* of blocks of that kind and tenant */
	/* The last block looked at, not written yet: the next one may take it in. */
	bool have, changed;
	uint32_t tenant;
	uint64_t upper;
	struct usage_block block;
};

static void change_sum(struct sweeper *sw, uint64_t hash, uint64_t change)
{
	scrub_change(sw->scrub, sw->sum, sw->kind, sw->tenant, hash, change);
}

/* Of a stream that goes, or whose neighbour does. */
static uint64_t sum_of(struct sweeper *sw, const struct usage_block *block, unsigned i)
{
	uint64_t sum;

	if (!block_entry_ok(block, i, sw->seed, &sum))
		usage_corrupt(sw->txn);
	return sum;
}

/* --- blocks in the store --------------------------------------------------------------------- */

static void put_block(struct sweeper *sw, uint64_t upper, struct usage_block *block)
{
	struct usage_key key;

	block_seal_head(block, sw->seed, upper);
	key_block(&key, sw->kind, sw->tenant, upper);
	store_put(sw->txn, key_bytes(&key),
		(struct store_bytes){.data = block, .len = sizeof(*block)});
}

static void delete_block(struct sweeper *sw, uint64_t upper)
{
	struct usage_key key;

	key_block(&key, sw->kind, sw->tenant, upper);
	store_delete(sw->txn, key_bytes(&key));
	(*sw->blocks)--;
}

/* A copy of the one that has `hash`, which is the tenant's. */
static bool get_block(struct sweeper *sw, uint64_t hash, uint64_t *upper, struct usage_block *block)
{
	const struct usage_block *there;
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;

	key_block(&from, sw->kind, sw->tenant, hash);
	if (!store_seek(sw->txn, key_bytes(&from), &key, &value) ||
		!key_parse_block(key, sw->kind, &tenant, upper) || tenant != sw->tenant)
		return usage_corrupt(sw->txn);
	there = block_of(value);
	if (!there || there->from > hash || !block_head_ok(there, there->n, sw->seed, *upper))
		return usage_corrupt(sw->txn);
	*block = *there;
	return true;
}

/* Puts `lower`, the one before it, into `block`. */
static void merge(struct sweeper *sw, struct usage_block *block, const struct usage_block *lower)
{
	unsigned k = lower->n;
	uint64_t sum = block->n > 0 ? sum_of(sw, block, 0) : 0;

	block_merge(block, lower);
	if (block->n > k) /* follows another one now */
		change_sum(sw, block->hash[k], block_seal_entry(block, k, sw->seed) - sum);
}

/* The block in hand has become empty: somebody else has its hashes, or nobody needs to. */
static void drop_block(struct sweeper *sw)
{
	struct usage_block other;
	uint64_t upper;

	if (sw->upper == UINT64_MAX && sw->block.from == 0) {
		delete_block(sw, sw->upper);
		if (sw->kind == KEY_BLOCK)
			tenant_set_blocks(sw->txn, sw->tenant, false);
	} else if (sw->upper != UINT64_MAX) {
		if (!get_block(sw, sw->upper + 1, &upper, &other))
			return;
		merge(sw, &other, &sw->block);
		delete_block(sw, sw->upper);
		put_block(sw, upper, &other);
	} else if (get_block(sw, sw->block.from - 1, &upper, &other) &&
		   (upper == sw->block.from - 1 || usage_corrupt(sw->txn))) {
		delete_block(sw, upper);
		put_block(sw, sw->upper, &other);
	}
}

static void finish_block(struct sweeper *sw)
{
	if (!sw->have || !sw->changed || sw->txn->err)
		return;
	if (sw->block.n == 0)
		drop_block(sw);
	else
		put_block(sw, sw->upper, &sw->block);
}

/* --- what stays ------------------------------------------------------------------------------ */

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
static unsigned copy_living(
	struct sweeper *sw, const struct usage_block *from, struct usage_block *to)
{
	unsigned n = 0, last = 0; /* last: behind the one copied last */

	block_clear(to);
	to->from = from->from;
	for (unsigned i = 0; i < from->n; i++) {
		if (is_spent(sw, sw->tenant, from->hash[i], &from->entry[i])) {
			change_sum(sw, from->hash[i], -sum_of(sw, from, i));
			continue;
		}
		to->hash[n] = from->hash[i];
		to->entry[n] = from->entry[i];
		if (last < i) { /* follows another one now */
			uint64_t sum = sum_of(sw, from, i);

			change_sum(sw, to->hash[n], block_seal_entry(to, n, sw->seed) - sum);
		}
		last = i + 1;
		n++;
	}
	to->n = (uint16_t)n;
	return from->n - n;
}

static bool fit_together(const struct usage_block *a, const struct usage_block *b)
{
	return a->n == 0 || b->n == 0 || a->n + b->n <= MERGED_MAX;
}

static void start_tenant(struct sweeper *sw, uint32_t tenant)
{
	finish_block(sw);
	sw->have = false;
	sw->tenant = tenant;
	sw->seed = block_seed(seal_seed(sw->txn), sw->kind, tenant);
}

static void sweep_block(
	struct sweeper *sw, uint32_t tenant, uint64_t upper, const struct usage_block *block)
{
	bool follows = sw->have && sw->tenant == tenant;
	struct usage_block living;
	unsigned spent;

	if (!follows)
		start_tenant(sw, tenant);
	if (!block_head_ok(block, block->n, sw->seed, upper) ||
		(follows && block->from != sw->upper + 1)) {
		usage_corrupt(sw->txn);
		return;
	}
	spent = copy_living(sw, block, &living);
	*sw->streams -= spent;
	sw->meta->swept += sw->kind == KEY_BLOCK ? spent : 0;
	if (follows && fit_together(&sw->block, &living)) {
		merge(sw, &living, &sw->block);
		delete_block(sw, sw->upper);
		spent = 1;
	} else {
		finish_block(sw);
	}
	sw->have = true;
	sw->changed = spent > 0;
	sw->upper = upper;
	sw->block = living;
}

/* --- steps ----------------------------------------------------------------------------------- */

/* One block; false behind the last one. */
static bool step_block(struct sweeper *sw, struct sweep *at)
{
	struct usage_block block; /* what is in the store may move when others are written */
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;
	uint64_t upper;

	key_block(&from, sw->kind, at->tenant, at->hash);
	if (!store_seek(sw->txn, key_bytes(&from), &key, &value) ||
		!key_parse_block(key, sw->kind, &tenant, &upper))
		return false;
	if (!block_of(value))
		return usage_corrupt(sw->txn);
	block = *block_of(value);
	sweep_block(sw, tenant, upper, &block);
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
	uint64_t check;
	uint16_t policy;

	key_row(&from, at->tenant, (uint16_t)at->policy);
	if (!store_seek(sw->txn, key_bytes(&from), &key, &value) ||
		!key_parse_row(key, &tenant, &policy))
		return false;
	if (!seal_open(sw->txn, key, &value) || value.len != window_row_size(window))
		return usage_corrupt(sw->txn);
	memcpy(&base, value.data, sizeof(base));
	check = seal_of(value);
	if (is_old(sw, base)) {
		key_row(&from, tenant, policy);
		store_delete(sw->txn, key_bytes(&from));
		scrub_change(sw->scrub, &sw->meta->row_sum, KEY_ROW, tenant, policy, -check);
		tenant_add_rows(sw->txn, tenant, -1);
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
	sw->sum = rates ? &sw->meta->rate_sum : &sw->meta->stream_sum;
	/* Keys of UpdateRates are in no row: they go with their last bucket. */
	sw->keep_minutes = (rates ? 0 : sw->meta->identity.window_minutes) + RATE_MINUTES - 1;
}

unsigned sweep_slice(struct store_txn *txn, unsigned steps, uint32_t now_minute,
	const struct batch *batch, struct usage_meta *meta, struct sweep *at, struct scrub *scrub)
{
	struct sweeper sw = {
		.txn = txn, .batch = batch, .meta = meta, .now_minute = now_minute, .scrub = scrub};
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
	/* A block: its page, and the leaf that lists it.  A row: its leaf, and the tenant's.  And two
	 * neighbours of blocks that have become empty. */
	uint64_t pages = steps > 0 ? 2 * ((uint64_t)steps + 4) : 0;

	return (struct store_need){.pages = pages, .freed = row_run(usage) * steps};
}
