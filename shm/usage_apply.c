/*
 * usage_apply.c - the sorted batch into blocks and rows.
 *
 *	items sorted by (tenant, hash), a group = records of one stream, oldest offset first
 *
 *	tenant:  row cache ......................................... put once each
 *	block:     copy --> change, change, split, change --> write back
 *	group:        find, then items one by one: a record or a touch inserts what is
 *	              missing, what is to be judged does so only when it may; then the
 *	              stream's move from (old policy, old minute) to (policy, minute);
 *	              then, when its unsent bytes are due, a row of the outbox
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

struct apply {
	struct usage *usage;
	struct store_txn *txn;
	struct usage_meta *meta;
	uint32_t window;
	int64_t now_ms;
	uint32_t now_minute, now_s;
	char kind;		    /* KEY_BLOCK or KEY_RATE */
	uint64_t *streams, *blocks; /* in meta, of that kind */
	uint64_t *sum;
	uint32_t tenant;
	uint64_t seed; /* of blocks of that kind and tenant */
	/* The block in hand: the one that (tenant, hash) up to `upper` belongs to. */
	bool have_block;
	bool at_cursor; /* the cursor stands on it: may be written in place */
	bool changed;
	bool fresh; /* it is not in the store yet */
	uint64_t upper;
	struct usage_block block, lower;
};

/* --- rows ------------------------------------------------------------------------------------ */

void rows_free(struct rows *rows)
{
	free(rows->row);
	free(rows->check);
	free(rows->slab);
	memset(rows, 0, sizeof(*rows));
}

/* The slab moves when it grows, so the rows are laid over it anew. */
static void rows_grow(struct rows *rows, uint32_t window)
{
	size_t cap = rows->cap ? 2 * rows->cap : 8;

	for (size_t i = 0; i < rows->n; i++)
		window_row_seal(&rows->row[i], rows->slab + i * rows->stride);
	rows->size = window_row_size(window);
	rows->stride = rows->size + SEAL_SIZE;
	rows->slab = reallocarray(rows->slab, cap, rows->stride);
	rows->row = reallocarray(rows->row, cap, sizeof(*rows->row));
	rows->check = reallocarray(rows->check, cap, sizeof(*rows->check));
	must_get(rows->slab != NULL && rows->row != NULL && rows->check != NULL);
	rows->cap = cap;
	for (size_t i = 0; i < rows->n; i++)
		window_row_map(&rows->row[i], rows->slab + i * rows->stride, window);
}

static struct window_row *load_row(struct apply *ap, uint16_t policy)
{
	struct rows *rows = &ap->usage->rows;
	struct store_bytes value;
	struct usage_key key;
	char *buf;

	if (rows->n == rows->cap)
		rows_grow(rows, ap->window);
	buf = rows->slab + rows->n * rows->stride;
	rows->check[rows->n] = 0;
	key_row(&key, ap->tenant, policy);
	if (!seal_get(ap->txn, &key, &value)) {
		memset(buf, 0, rows->size);
	} else if (value.len == rows->size) {
		memcpy(buf, value.data, rows->size);
		rows->check[rows->n] = seal_of(value);
	} else {
		usage_corrupt(ap->txn);
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
	uint64_t check;
	int fresh = 0;

	for (size_t i = 0; i < rows->n; i++) {
		char *buf = rows->slab + i * rows->stride;

		window_row_seal(&rows->row[i], buf);
		key_row(&key, ap->tenant, rows->policy[i]);
		check = seal_put_in_place(ap->txn, &key, buf, rows->size);
		scrub_change(&ap->usage->scrub, &ap->meta->row_sum, KEY_ROW, ap->tenant,
			rows->policy[i], check - rows->check[i]);
		fresh += rows->check[i] == 0;
		rows->slot[rows->policy[i]] = 0;
	}
	rows->n = 0;
	if (fresh)
		tenant_add_rows(ap->txn, ap->tenant, fresh);
}

/* --- blocks ---------------------------------------------------------------------------------- */

static void put_block(struct apply *ap, uint64_t upper, struct usage_block *block)
{
	struct usage_key key;

	block_seal_head(block, ap->seed, upper);
	key_block(&key, ap->kind, ap->tenant, upper);
	store_put(ap->txn, key_bytes(&key),
		(struct store_bytes){.data = block, .len = sizeof(*block)});
	if (ap->fresh && ap->kind == KEY_BLOCK)
		tenant_set_blocks(ap->txn, ap->tenant, true);
	ap->fresh = false;
}

static void finish_block(struct apply *ap)
{
	struct usage_key key;

	if (!ap->have_block)
		return;
	ap->have_block = false;
	if (!ap->changed) {
		*ap->blocks -= ap->fresh;
		return;
	}
	if (!ap->at_cursor) {
		put_block(ap, ap->upper, &ap->block);
		return;
	}
	block_seal_head(&ap->block, ap->seed, ap->upper);
	key_block(&key, ap->kind, ap->tenant, ap->upper);
	store_put_current(ap->txn, key_bytes(&key),
		(struct store_bytes){.data = &ap->block, .len = sizeof(ap->block)});
}

/* `value` as the block that ends at ap->upper and has `hash`'s place; false: txn->err. */
static bool copy_block(struct apply *ap, struct store_bytes value, uint64_t hash)
{
	const struct usage_block *block = block_of(value);

	if (!block || block->from > hash || !block_head_ok(block, block->n, ap->seed, ap->upper))
		return usage_corrupt(ap->txn);
	ap->block = *block;
	return true;
}

/* In a batch of a replay it mostly is the one that follows: no search then. */
static bool load_next_block(struct apply *ap, uint64_t hash)
{
	struct store_bytes key, value;
	uint64_t upper;
	uint32_t tenant;

	if (!store_next(ap->txn, &key, &value) ||
		!key_parse_block(key, ap->kind, &tenant, &upper) || tenant != ap->tenant ||
		upper < hash)
		return false;
	ap->upper = upper;
	return copy_block(ap, value, hash);
}

/* The block of `hash` from the store; false: the tenant has none, or txn->err. */
static bool load_block(struct apply *ap, uint64_t hash)
{
	struct store_bytes key, value;
	struct tenant_row row;
	struct usage_key from;
	uint32_t tenant;
	size_t len;

	key_block(&from, ap->kind, ap->tenant, hash);
	if (store_seek(ap->txn, key_bytes(&from), &key, &value) &&
		key_parse_block(key, ap->kind, &tenant, &ap->upper) && tenant == ap->tenant)
		return copy_block(ap, value, hash);
	if (ap->kind == KEY_BLOCK && tenant_get(ap->txn, ap->tenant, &row, &len) && row.has_blocks)
		usage_corrupt(ap->txn);
	return false;
}

static void take_block(struct apply *ap, uint64_t hash)
{
	bool goes_on = ap->have_block && ap->at_cursor;

	finish_block(ap);
	ap->have_block = true;
	ap->changed = false;
	ap->at_cursor = (goes_on && load_next_block(ap, hash)) || load_block(ap, hash);
	ap->fresh = !ap->at_cursor;
	if (!ap->fresh)
		return;
	block_clear(&ap->block);
	ap->upper = UINT64_MAX;
	(*ap->blocks)++;
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
	(*ap->blocks)++;
}

/* NULL: there is none.  *sum: of its check. */
static struct usage_entry *find(struct apply *ap, uint64_t hash, uint64_t *sum)
{
	unsigned i;

	if (!ap->have_block || hash > ap->upper)
		take_block(ap, hash);
	i = block_search(&ap->block, ap->block.n, hash);
	/* Also the one that follows it: its check says that there is none before. */
	if (i < ap->block.n && !block_entry_ok(&ap->block, i, ap->seed, sum))
		usage_corrupt(ap->txn);
	if (i < ap->block.n && ap->block.hash[i] == hash)
		return &ap->block.entry[i];
	*sum = 0;
	return NULL;
}

static void change_sum(struct apply *ap, unsigned i, uint64_t change)
{
	scrub_change(&ap->usage->scrub, ap->sum, ap->kind, ap->tenant, ap->block.hash[i], change);
}

/* It has changed: a check that is right, and the sum of all.  `sum` is what find gave. */
static void seal_entry(struct apply *ap, const struct usage_entry *entry, uint64_t sum)
{
	unsigned i = (unsigned)(entry - ap->block.entry);

	change_sum(ap, i, block_seal_entry(&ap->block, i, ap->seed) - sum);
}

/* After find has found none.  To be sealed. */
static struct usage_entry *insert(struct apply *ap, uint64_t hash)
{
	struct usage_entry *entry;
	uint64_t sum;
	unsigned i;

	if (ap->block.n == USAGE_BLOCK_SLOTS)
		split_block(ap, hash);
	(*ap->streams)++;
	i = block_search(&ap->block, ap->block.n, hash);
	sum = i < ap->block.n ? block_sum(&ap->block, i, ap->seed) : 0;
	entry = block_insert(&ap->block, i, hash);
	if (i + 1 < ap->block.n) /* follows another one now */
		seal_entry(ap, entry + 1, sum);
	return entry;
}

/* --- one stream ------------------------------------------------------------------------------ */

struct group {
	struct usage_entry *entry; /* NULL: not there */
	bool was_there, was_active, was_unsent;
	uint16_t old_policy;
	uint32_t old_minute;
	bool is_due; /* it was noted for now */
};

static bool is_active(const struct apply *ap, const struct usage_entry *entry)
{
	return window_active(ap->now_minute, window_minute_of_s(entry->last_seen_s), ap->window);
}

/* More than `most` rows wait for Kafka already. */
static bool outbox_full(const struct apply *ap, uint64_t most)
{
	return ap->usage->produce.every_s && ap->meta->outbox >= most;
}

/* Known and active: never rejected. */
static bool judge(struct apply *ap, const struct group *g, const struct item *item)
{
	struct asked *asked = &ap->usage->asked;
	enum usage_verdict verdict;

	if (g->entry && is_active(ap, g->entry))
		verdict = USAGE_KNOWN;
	else if (outbox_full(ap, ap->usage->produce.outbox_max))
		verdict = USAGE_FAILED;
	else
		verdict = asked_take(asked, item->ticket) ? USAGE_NEW : USAGE_REJECTED;
	asked->result[item->ticket] = verdict;
	return verdict == USAGE_KNOWN || verdict == USAGE_NEW;
}

static void add_u64(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

/* Not from the log: the log has to hear of it. */
static void note_unsent(struct apply *ap, struct usage_entry *entry, uint64_t bytes)
{
	add_u64(&ap->meta->bytes, bytes);
	if (!ap->usage->produce.every_s)
		return;
	ap->meta->unsent += !(entry->flags & ENTRY_UNSENT);
	entry->flags |= ENTRY_UNSENT;
	add_u64(&entry->unsent_bytes, bytes);
}

static void apply_item(struct apply *ap, struct group *g, const struct item *item)
{
	uint32_t minute = window_minute_of_s(item->seen_s);
	struct usage_entry *entry;

	if (item->kind == ITEM_DUE) {
		g->is_due = true;
		return;
	}
	if (item->kind == ITEM_ADMIT && !judge(ap, g, item))
		return;
	if (!g->entry) {
		g->entry = insert(ap, item->hash);
		g->entry->last_seen_s = item->seen_s;
		g->entry->policy = item->policy;
	}
	entry = g->entry;
	window_rate_add(entry->bucket, window_minute_of_s(entry->last_seen_s), minute, item->bytes);
	if (item->seen_s >= entry->last_seen_s) {
		entry->last_seen_s = item->seen_s;
		entry->policy = item->policy;
	}
	window_row_add_bytes(row_of(ap, item->policy), minute, item->bytes);
	if (item->kind != ITEM_RECORD)
		note_unsent(ap, entry, item->bytes);
	else if (!(entry->flags & ENTRY_UNSENT) && item->seen_s > entry->last_produced_s)
		entry->last_produced_s = item->seen_s; /* after a replay not all are due at once */
	ap->changed = true;
}

/* The row that counts it is the one of its policy and minute. */
static void move_in_rows(struct apply *ap, const struct group *g)
{
	const struct usage_entry *entry = g->entry;
	uint32_t minute = window_minute_of_s(entry->last_seen_s);

	if (!g->was_there) {
		window_row_add_stream(row_of(ap, entry->policy), minute);
	} else if (minute != g->old_minute || entry->policy != g->old_policy) {
		window_row_remove_stream(row_of(ap, g->old_policy), g->old_minute);
		window_row_add_stream(row_of(ap, entry->policy), minute);
	}
}

/* A stream that came in now is what others have to know of; bytes of known ones can wait. */
static void produce(struct apply *ap, struct group *g, uint64_t hash)
{
	const struct usage_produce *how = &ap->usage->produce;
	struct usage_entry *entry = g->entry;
	uint64_t most = g->was_active ? how->outbox_max / 2 : how->outbox_max;
	uint32_t due_s = entry->last_produced_s + how->every_s;
	bool is_due = ap->usage->produce_all || ap->now_s >= due_s;

	if (is_due && !outbox_full(ap, most)) {
		outbox_put(&ap->usage->outbox, ap->txn, ap->meta,
			&(struct usage_outbox_row){.hash = hash,
				.bytes = entry->unsent_bytes,
				.tenant = ap->tenant,
				.seen_s = entry->last_seen_s,
				.policy = entry->policy});
		entry->last_produced_s = ap->now_s;
		entry->unsent_bytes = 0;
		entry->flags &= (uint16_t)~ENTRY_UNSENT;
		ap->meta->unsent--;
		ap->changed = true;
	} else if (!g->was_unsent || g->is_due) { /* else it is noted already */
		due_note(&ap->usage->due, ap->tenant, hash,
			is_due ? ap->now_s + how->every_s : due_s);
	}
}

/* All items of one stream.  Returns how many. */
static size_t apply_group(struct apply *ap, const struct item *items, size_t n)
{
	struct group g = {0};
	uint64_t sum;
	size_t i;

	g.entry = find(ap, items[0].hash, &sum);
	if (g.entry) {
		g.was_there = true;
		g.was_active = is_active(ap, g.entry);
		g.was_unsent = g.entry->flags & ENTRY_UNSENT;
		g.old_minute = window_minute_of_s(g.entry->last_seen_s);
		g.old_policy = g.entry->policy;
	}
	for (i = 0; i < n && items[i].hash == items[0].hash && items[i].tenant == ap->tenant; i++)
		apply_item(ap, &g, &items[i]);
	if (!g.entry)
		return i;
	move_in_rows(ap, &g);
	if (g.entry->flags & ENTRY_UNSENT && ap->usage->produce.every_s)
		produce(ap, &g, items[0].hash);
	seal_entry(ap, g.entry, sum);
	return i;
}

/* --- keys of UpdateRates: no streams, in no row, never produced ------------------------------- */

static size_t apply_rates(struct apply *ap, const struct item *items, size_t n)
{
	uint64_t sum;
	struct usage_entry *entry = find(ap, items[0].hash, &sum);
	size_t i;

	if (!entry) {
		entry = insert(ap, items[0].hash);
		entry->last_seen_s = items[0].seen_s;
	}
	for (i = 0; i < n && items[i].hash == items[0].hash && items[i].tenant == ap->tenant; i++) {
		const struct item *item = &items[i];

		window_rate_add(entry->bucket, window_minute_of_s(entry->last_seen_s),
			window_minute_of_s(item->seen_s), item->bytes);
		if (item->seen_s > entry->last_seen_s)
			entry->last_seen_s = item->seen_s;
	}
	for (size_t j = 0; j < i; j++)
		ap->usage->asked.result[items[j].ticket] =
			(uint64_t)window_rate(entry->bucket, window_minute_of_s(entry->last_seen_s),
				ap->now_ms, ap->usage->produce.rate_minutes);
	seal_entry(ap, entry, sum);
	ap->changed = true;
	return i;
}

/* --- all of it ------------------------------------------------------------------------------- */

static void start_kind(struct apply *ap, char kind)
{
	bool rates = kind == KEY_RATE;

	ap->kind = kind;
	ap->streams = rates ? &ap->meta->rates : &ap->meta->streams;
	ap->blocks = rates ? &ap->meta->rate_blocks : &ap->meta->blocks;
	ap->sum = rates ? &ap->meta->rate_sum : &ap->meta->stream_sum;
}

static void start_tenant(struct apply *ap, uint32_t tenant)
{
	ap->tenant = tenant;
	ap->seed = block_seed(seal_seed(ap->txn), ap->kind, tenant);
}

static void apply_kind(struct apply *ap, const struct batch *batch, char kind)
{
	size_t i = 0;

	start_kind(ap, kind);
	start_tenant(ap, 0);
	while (i < batch->n && !ap->txn->err) {
		const struct item *item = &batch->items[i];

		if (item->tenant != ap->tenant) {
			finish_block(ap);
			put_rows(ap);
			start_tenant(ap, item->tenant);
		}
		i += kind == KEY_RATE ? apply_rates(ap, item, batch->n - i)
				      : apply_group(ap, item, batch->n - i);
	}
	finish_block(ap);
	put_rows(ap);
}

void apply_batch(struct usage *usage, struct store_txn *txn, struct usage_meta *meta)
{
	struct apply ap = {.usage = usage, .txn = txn, .meta = meta, .now_ms = meta->clock_ms};

	ap.window = meta->identity.window_minutes;
	ap.now_minute = window_minute_of_ms(meta->clock_ms);
	ap.now_s = meta->clock_ms > 0 ? (uint32_t)(meta->clock_ms / 1000) : 0;
	apply_kind(&ap, &usage->batch, KEY_BLOCK);
	apply_kind(&ap, &usage->rates, KEY_RATE);
}
