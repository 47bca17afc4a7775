/*
 * usage_apply.c - the sorted batch into blocks and rows.
 *
 *	items sorted by (tenant, hash), a group = records of one stream, oldest offset first
 *
 *	tenant:  row cache ......................................... put once each
 *	block:     copy --> change, change, split, change --> write back
 *	group:        find or insert, records one by one, then the stream's
 *	              move from (old policy, old minute) to (policy, minute)
 *
 * A block is copied out once however many of its streams are in the batch: what a
 * batch costs is the pages it touches.
 *
 * Moving the stream once per group is the same as moving it per record: every
 * record adds its bytes at its own (policy, minute), which brings that row's base
 * forward just as the move there would have done.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <stdlib.h>
#include <string.h>

#include "shm/check.h"
#include "shm/err.h"

#define INLINE_MAX	1900 /* a value this long shares a page with its key and others */
#define BLOCKS_PER_LEAF 30   /* at least; LMDB merges leaves that are less than a quarter full */

struct apply {
	struct usage *usage;
	struct store_txn *txn;
	struct usage_meta *meta;
	uint32_t window;
	uint32_t tenant;
	/* The block in hand: the one that (tenant, hash) up to `upper` belongs to. */
	bool have_block;
	bool at_cursor; /* the cursor stands on it: may be written in place */
	uint64_t upper;
	struct usage_block block, lower;
};

/* --- rows ------------------------------------------------------------------------------------ */

void rows_free(struct rows *rows)
{
	free(rows->row);
	free(rows->slab);
	memset(rows, 0, sizeof(*rows));
}

/* The slab moves when it grows, so the rows are laid over it anew. */
static void rows_grow(struct rows *rows, uint32_t window)
{
	size_t cap = rows->cap ? 2 * rows->cap : 8;

	for (size_t i = 0; i < rows->n; i++)
		window_row_seal(&rows->row[i], rows->slab + i * rows->size);
	rows->size = window_row_size(window);
	rows->slab = reallocarray(rows->slab, cap, rows->size);
	rows->row = reallocarray(rows->row, cap, sizeof(*rows->row));
	must(rows->slab != NULL && rows->row != NULL);
	rows->cap = cap;
	for (size_t i = 0; i < rows->n; i++)
		window_row_map(&rows->row[i], rows->slab + i * rows->size, window);
}

static struct window_row *load_row(struct apply *ap, uint16_t policy)
{
	struct rows *rows = &ap->usage->rows;
	struct store_bytes value;
	struct usage_key key;
	char *buf;

	if (rows->n == rows->cap)
		rows_grow(rows, ap->window);
	buf = rows->slab + rows->n * rows->size;
	key_row(&key, ap->tenant, policy);
	if (!store_get(ap->txn, key_bytes(&key), &value)) {
		memset(buf, 0, rows->size);
	} else if (value.len == rows->size) {
		memcpy(buf, value.data, rows->size);
	} else {
		ap->txn->err = ERR_CORRUPT;
		memset(buf, 0, rows->size);
	}
	window_row_map(&rows->row[rows->n], buf, ap->window);
	rows->policy[rows->n] = policy;
	rows->slot[policy] = (uint16_t)++rows->n;
	return &rows->row[rows->n - 1];
}

/* The row of a policy of the tenant in hand; valid until the next call. */
static struct window_row *row_of(struct apply *ap, uint16_t policy)
{
	struct rows *rows = &ap->usage->rows;
	unsigned slot = rows->slot[policy];

	return slot ? &rows->row[slot - 1] : load_row(ap, policy);
}

static void put_rows(struct apply *ap)
{
	struct rows *rows = &ap->usage->rows;
	struct usage_key key;

	for (size_t i = 0; i < rows->n; i++) {
		char *buf = rows->slab + i * rows->size;

		window_row_seal(&rows->row[i], buf);
		key_row(&key, ap->tenant, rows->policy[i]);
		store_put(ap->txn, key_bytes(&key),
			(struct store_bytes){.data = buf, .len = rows->size});
		rows->slot[rows->policy[i]] = 0;
	}
	rows->n = 0;
}

/* --- blocks ---------------------------------------------------------------------------------- */

static void put_block(struct apply *ap, uint64_t upper, const struct usage_block *block)
{
	struct usage_key key;

	key_block(&key, ap->tenant, upper);
	store_put(ap->txn, key_bytes(&key),
		(struct store_bytes){.data = block, .len = sizeof(*block)});
}

/* Every block that was taken in hand was changed. */
static void finish_block(struct apply *ap)
{
	struct usage_key key;

	if (!ap->have_block)
		return;
	ap->have_block = false;
	if (!ap->at_cursor) {
		put_block(ap, ap->upper, &ap->block);
		return;
	}
	key_block(&key, ap->tenant, ap->upper);
	store_put_current(ap->txn, key_bytes(&key),
		(struct store_bytes){.data = &ap->block, .len = sizeof(ap->block)});
}

static void take_block(struct apply *ap, uint64_t hash)
{
	const struct usage_block *block;
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;
	uint64_t upper;

	finish_block(ap);
	key_block(&from, ap->tenant, hash);
	ap->have_block = true;
	if (store_seek(ap->txn, key_bytes(&from), &key, &value) &&
		key_parse_block(key, &tenant, &upper) && tenant == ap->tenant) {
		block = block_of(value);
		if (block) {
			ap->block = *block;
			ap->upper = upper;
			ap->at_cursor = true;
			return;
		}
		ap->txn->err = ERR_CORRUPT;
	}
	block_clear(&ap->block);
	ap->upper = UINT64_MAX;
	ap->at_cursor = false;
	ap->meta->blocks++;
}

/* Keeps that half in hand which `hash` belongs to. */
static void split_block(struct apply *ap, uint64_t hash)
{
	uint64_t middle;

	block_split(&ap->block, USAGE_BLOCK_SLOTS / 2, &ap->lower);
	middle = ap->lower.hash[ap->lower.n - 1];
	if (hash <= middle) {
		put_block(ap, ap->upper, &ap->block);
		ap->block = ap->lower;
		ap->upper = middle;
	} else {
		put_block(ap, middle, &ap->lower);
	}
	ap->at_cursor = false;
	ap->meta->blocks++;
}

static struct usage_entry *find_or_insert(struct apply *ap, uint64_t hash, bool *is_new)
{
	unsigned i;

	if (!ap->have_block || hash > ap->upper)
		take_block(ap, hash);
	i = block_search(&ap->block, ap->block.n, hash);
	*is_new = i == ap->block.n || ap->block.hash[i] != hash;
	if (!*is_new)
		return &ap->block.entry[i];
	if (ap->block.n == USAGE_BLOCK_SLOTS) {
		split_block(ap, hash);
		i = block_search(&ap->block, ap->block.n, hash);
	}
	ap->meta->streams++;
	return block_insert(&ap->block, i, hash);
}

/* --- records --------------------------------------------------------------------------------- */

static void apply_record(struct apply *ap, struct usage_entry *entry, const struct item *item)
{
	uint32_t minute = window_minute_of_s(item->seen_s);

	window_rate_add(entry->bucket, window_minute_of_s(entry->last_seen_s), minute, item->bytes);
	if (item->seen_s >= entry->last_seen_s) {
		entry->last_seen_s = item->seen_s;
		entry->policy = item->policy;
	}
	window_row_add_bytes(row_of(ap, item->policy), minute, item->bytes);
}

/* All records of one stream.  Returns how many. */
static size_t apply_group(struct apply *ap, const struct item *items, size_t n)
{
	struct usage_entry *entry;
	uint32_t old_minute, minute;
	uint16_t old_policy;
	bool is_new;
	size_t i;

	entry = find_or_insert(ap, items[0].hash, &is_new);
	if (is_new) {
		entry->last_seen_s = items[0].seen_s;
		entry->policy = items[0].policy;
	}
	old_minute = window_minute_of_s(entry->last_seen_s);
	old_policy = entry->policy;
	if (old_policy >= USAGE_POLICIES_MAX) {
		ap->txn->err = ERR_CORRUPT;
		return n;
	}
	for (i = 0; i < n && items[i].hash == items[0].hash && items[i].tenant == ap->tenant; i++)
		apply_record(ap, entry, &items[i]);
	minute = window_minute_of_s(entry->last_seen_s);
	if (is_new) {
		window_row_add_stream(row_of(ap, entry->policy), minute);
	} else if (minute != old_minute || entry->policy != old_policy) {
		window_row_remove_stream(row_of(ap, old_policy), old_minute);
		window_row_add_stream(row_of(ap, entry->policy), minute);
	}
	return i;
}

void apply_batch(struct usage *usage, struct store_txn *txn, struct usage_meta *meta)
{
	const struct batch *batch = &usage->batch;
	struct apply ap = {.usage = usage, .txn = txn, .meta = meta};
	size_t i = 0;

	ap.window = meta->identity.window_minutes;
	while (i < batch->n && !txn->err) {
		if (batch->items[i].tenant != ap.tenant) {
			finish_block(&ap);
			put_rows(&ap);
			ap.tenant = batch->items[i].tenant;
		}
		i += apply_group(&ap, &batch->items[i], batch->n - i);
	}
	finish_block(&ap);
	put_rows(&ap);
}

/* --- space ----------------------------------------------------------------------------------- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t row_run(const struct usage *usage)
{
	size_t size = window_row_size(usage->meta.identity.window_minutes);

	return size <= STORE_BLOCK_SIZE ? 0 : size / STORE_BLOCK_SIZE + 1;
}

/* Single pages that putting a row can dirty. */
static uint64_t row_pages(const struct usage *usage)
{
	size_t size = window_row_size(usage->meta.identity.window_minutes);

	return size > INLINE_MAX && size <= STORE_BLOCK_SIZE ? 3 : 2;
}

void apply_need(const struct usage *usage, struct store_need *need)
{
	const struct batch *batch = &usage->batch;
	uint64_t streams = 0, tenants = 0, rows = 0, tenant_rows = 0, blocks, leaves;

	for (size_t i = 0; i < batch->n; i++) {
		const struct item *item = &batch->items[i];

		if (i == 0 || item->tenant != item[-1].tenant) {
			tenants++;
			streams++;
			rows += tenant_rows;
			tenant_rows = 0;
		} else if (item->hash != item[-1].hash) {
			streams++;
		}
		tenant_rows = min_u64(tenant_rows + 2, usage->names.policies[item->tenant]);
	}
	rows += tenant_rows;
	/* Each block is a page; where it is listed is a leaf, which may split. */
	blocks = min_u64(streams, usage->meta.blocks + tenants) +
		 2 * (streams / (USAGE_BLOCK_SLOTS / 2)) + tenants;
	leaves = min_u64(blocks, usage->meta.blocks / BLOCKS_PER_LEAF + tenants + 1) +
		 blocks / BLOCKS_PER_LEAF;
	need->pages += blocks + leaves + rows * row_pages(usage);
	need->runs += rows * row_run(usage);
}
