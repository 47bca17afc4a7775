/*
 * usage_batch.c - add: checks, the append array, its sort.
 *
 *	record -> misrouted? own? duplicate? too old? -> names to ids -> items[n++]
 *
 *	sort: stable radix over the upper bits of tenant and hash put together, as many
 *	      as tell most items apart, a large batch by the first of them before all others;
 *	      then one insertion pass for what is left
 *
 * Hashes come from outside.  When they share their upper bits the insertion pass
 * would be quadratic, so it has a budget; beyond it all bits are sorted by radix.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <stdlib.h>
#include <string.h>

#include "shm/check.h"

#define RADIX_BITS	11
#define RADIX_SIZE	(1u << RADIX_BITS)
#define SMALL_SORT	64
#define FEW_ITEMS	8 /* left to the insertion pass */
#define MANY_ITEMS	8192
#define BUDGET_PER_ITEM 4
#define KEEP_ITEMS	4096 /* arrays beyond this are given back when they were hardly used */

void *array_grow(void *array, size_t *cap, size_t n, size_t size)
{
	size_t new_cap = *cap ? *cap : 16;

	if (n <= *cap)
		return array;
	while (new_cap < n)
		new_cap *= 2;
	array = reallocarray(array, new_cap, size);
	must_get(array != NULL);
	*cap = new_cap;
	return array;
}

struct item *batch_append(struct batch *batch)
{
	struct item *item;

	batch->items = array_grow(batch->items, &batch->cap, batch->n + 1, sizeof(*batch->items));
	item = &batch->items[batch->n++];
	memset(item, 0, sizeof(*item));
	return item;
}

/* --- add ------------------------------------------------------------------------------------- */

static uint32_t seconds_of_ms(int64_t ms)
{
	int64_t seconds = ms < 0 ? 0 : ms / 1000;

	return seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
}

static bool is_own(const struct usage *usage, const struct record *record)
{
	return record->has_source &&
	       memcmp(record->incarnation, usage->meta.incarnation, INCARNATION_SIZE) == 0;
}

static enum skip_reason check_record(
	struct usage *usage, const struct record *record, int64_t now_ms, uint32_t *seen_s)
{
	const struct usage_identity *id = &usage->meta.identity;
	struct batch *batch = &usage->batch;

	if (record->hash % id->partitions != id->partition)
		return SKIP_MISROUTED;
	if (is_own(usage, record)) {
		/* A number that we never gave is somebody else's mistake. */
		if (record->sequence > batch->cleared_to &&
			record->sequence <= usage->meta.sequence)
			batch->cleared_to = record->sequence;
		return SKIP_OWN;
	}
	if (record->has_source && !sources_pass(&usage->sources, record->incarnation,
					  record->sequence, seconds_of_ms(now_ms)))
		return SKIP_DUPLICATE;
	if (!window_clamp(record->timestamp_ms, now_ms, id->window_minutes, seen_s))
		return SKIP_TOO_OLD;
	return SKIP_NONE;
}

enum skip_reason usage_add(struct usage *usage, const struct record *record, int64_t now_ms)
{
	struct usage_meta *meta = &usage->pending;
	struct batch *batch = &usage->batch;
	enum skip_reason reason;
	struct item *item;
	uint32_t seen_s;
	bool overflow;

	reason = check_record(usage, record, now_ms, &seen_s);
	if (reason != SKIP_NONE) {
		usage_skip(usage, reason);
		return reason;
	}
	item = batch_append(batch);
	item->hash = record->hash;
	item->bytes = record->size;
	item->tenant = names_tenant(&usage->names, record->tenant, record->tenant_len);
	item->seen_s = seen_s;
	item->policy = names_policy(
		&usage->names, item->tenant, record->policy, record->policy_len, &overflow);
	meta->policy_overflow += overflow;
	if (now_ms > meta->clock_ms)
		meta->clock_ms = now_ms;
	meta->records++;
	meta->applied++;
	if (__builtin_add_overflow(meta->bytes, record->size, &meta->bytes))
		meta->bytes = UINT64_MAX;
	return SKIP_NONE;
}

void usage_skip(struct usage *usage, enum skip_reason reason)
{
	must(reason > SKIP_NONE && reason < SKIP_REASONS);
	usage->pending.records++;
	usage->pending.skipped[reason]++;
}

void usage_quarantine(struct usage *usage, int64_t offset, struct store_bytes raw)
{
	struct batch *batch = &usage->batch;
	size_t len = raw.len < USAGE_QUARANTINE_BYTES_MAX ? raw.len : USAGE_QUARANTINE_BYTES_MAX;

	must(offset >= 0);
	batch->quarantined = array_grow(batch->quarantined, &batch->quarantined_cap,
		batch->n_quarantined + 1, sizeof(*batch->quarantined));
	batch->raw = array_grow(batch->raw, &batch->raw_cap, batch->raw_len + len + SEAL_SIZE, 1);
	batch->quarantined[batch->n_quarantined++] =
		(struct quarantined){.offset = offset, .at = batch->raw_len, .len = len};
	if (len)
		memcpy(batch->raw + batch->raw_len, raw.data, len);
	batch->raw_len += len + SEAL_SIZE;
	usage_skip(usage, SKIP_QUARANTINED);
}

/* --- sort ------------------------------------------------------------------------------------ */

static bool item_less(const struct item *a, const struct item *b)
{
	return a->tenant != b->tenant ? a->tenant < b->tenant : a->hash < b->hash;
}

/* Stable.  False when it took more than `budget` moves; the items are all there then, in some
 * order. */
static bool insertion_sort(struct item *items, size_t n, size_t budget)
{
	size_t moves = 0;

	for (size_t i = 1; i < n; i++) {
		struct item item = items[i];
		size_t j = i;

		while (j > 0 && item_less(&item, &items[j - 1])) {
			items[j] = items[j - 1];
			j--;
		}
		items[j] = item;
		moves += i - j;
		if (moves > budget)
			return false;
	}
	return true;
}

/* The upper 64 bits of tenant and hash put together, where tenants need `tenant_bits`. */
static uint64_t item_key(const struct item *item, unsigned tenant_bits)
{
	if (tenant_bits == 0)
		return item->hash;
	return (uint64_t)item->tenant << (64 - tenant_bits) | item->hash >> tenant_bits;
}

struct digit {
	unsigned shift, mask;
};

static unsigned item_digit(const struct item *item, unsigned tenant_bits, struct digit digit)
{
	return (unsigned)(item_key(item, tenant_bits) >> digit.shift) & digit.mask;
}

/* One stable pass; at: where each digit's items end.  False when all are equal: nothing is done. */
static bool radix_pass(const struct item *from, struct item *to, size_t n, unsigned tenant_bits,
	struct digit digit, uint32_t at[RADIX_SIZE])
{
	uint32_t sum = 0;

	memset(at, 0, (digit.mask + 1) * sizeof(*at));
	for (size_t i = 0; i < n; i++)
		at[item_digit(&from[i], tenant_bits, digit)]++;
	if (at[item_digit(&from[0], tenant_bits, digit)] == n)
		return false;
	for (unsigned d = 0; d <= digit.mask; d++) {
		uint32_t count = at[d];

		at[d] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		to[at[item_digit(&from[i], tenant_bits, digit)]++] = from[i];
	return true;
}

static unsigned bits_of(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

static uint32_t highest_tenant(const struct batch *batch)
{
	uint32_t highest = 0;

	for (size_t i = 0; i < batch->n; i++)
		if (batch->items[i].tenant > highest)
			highest = batch->items[i].tenant;
	return highest;
}

/*
 * Items that share `done` upper bits of (tenant, hash): by as many more as leave a few of them
 * together, were they all of one tenant.
 */
static void radix_part(
	struct item *items, struct item *spare, size_t n, unsigned tenant_bits, unsigned done)
{
	unsigned bits = (tenant_bits > done ? tenant_bits - done : 0) + bits_of(n) - 1;
	unsigned passes = (bits + RADIX_BITS - 1) / RADIX_BITS,
		 width = (bits + passes - 1) / passes;
	struct item *from = items, *to = spare, *moved;
	uint32_t at[RADIX_SIZE];

	for (unsigned left = passes; left > 0; left--) {
		struct digit digit = {64 - done - left * width, (1u << width) - 1};

		if (!radix_pass(from, to, n, tenant_bits, digit, at))
			continue;
		moved = from;
		from = to;
		to = moved;
	}
	if (from != items)
		memcpy(items, from, n * sizeof(*items));
}

static void change_places(struct batch *batch)
{
	struct item *items = batch->items;

	batch->items = batch->spare;
	batch->spare = items;
}

/* Many are put apart first, so that the rest is done where they fit into the processor's cache. */
static void radix_upper(struct batch *batch, unsigned tenant_bits)
{
	struct digit first = {64 - RADIX_BITS, RADIX_SIZE - 1};
	uint32_t at[RADIX_SIZE];
	size_t i = 0;

	if (batch->n < MANY_ITEMS ||
		!radix_pass(batch->items, batch->spare, batch->n, tenant_bits, first, at)) {
		radix_part(batch->items, batch->spare, batch->n, tenant_bits, 0);
		return;
	}
	change_places(batch);
	for (unsigned d = 0; d < RADIX_SIZE; d++) {
		if (at[d] - i > FEW_ITEMS)
			radix_part(batch->items + i, batch->spare + i, at[d] - i, tenant_bits,
				RADIX_BITS);
		i = at[d];
	}
}

static void radix_whole(struct batch *batch, unsigned tenant_bits, unsigned shift)
{
	uint32_t at[RADIX_SIZE];

	if (radix_pass(batch->items, batch->spare, batch->n, tenant_bits,
		    (struct digit){shift, RADIX_SIZE - 1}, at))
		change_places(batch);
}

/* All bits of the hash, then all of the tenant. */
static void radix_all(struct batch *batch, unsigned tenant_bits)
{
	for (unsigned shift = 0; shift < 64; shift += RADIX_BITS)
		radix_whole(batch, 0, shift);
	for (unsigned shift = 0; shift < tenant_bits; shift += RADIX_BITS)
		radix_whole(batch, 32, 32 + shift);
}

void batch_sort(struct batch *batch)
{
	unsigned tenant_bits;

	if (batch->n <= SMALL_SORT) {
		insertion_sort(batch->items, batch->n, SIZE_MAX);
		return;
	}
	if (batch->spare_cap < batch->cap) {
		free(batch->spare);
		batch->spare = reallocarray(NULL, batch->cap, sizeof(*batch->spare));
		must_get(batch->spare != NULL);
		batch->spare_cap = batch->cap;
	}
	tenant_bits = bits_of(highest_tenant(batch));
	radix_upper(batch, tenant_bits);
	if (!insertion_sort(batch->items, batch->n, BUDGET_PER_ITEM * batch->n))
		radix_all(batch, tenant_bits);
}

static void give_back_items(struct batch *batch)
{
	free(batch->items);
	free(batch->spare);
	batch->items = batch->spare = NULL;
	batch->cap = batch->spare_cap = 0;
}

void usage_give_back(struct usage *usage)
{
	struct batch *const batches[] = {&usage->batch, &usage->rates};

	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++)
		if (batches[i]->n == 0 && batches[i]->cap > KEEP_ITEMS)
			give_back_items(batches[i]);
}

void batch_clear(struct batch *batch)
{
	if (batch->cap > KEEP_ITEMS && batch->n < batch->cap / 16)
		give_back_items(batch);
	if (batch->raw_cap > USAGE_QUARANTINE_BYTES_MAX) {
		free(batch->raw);
		batch->raw = NULL;
		batch->raw_cap = 0;
	}
	batch->n = 0;
	batch->cleared_to = 0;
	batch->n_quarantined = 0;
	batch->raw_len = 0;
}

void batch_free(struct batch *batch)
{
	free(batch->items);
	free(batch->spare);
	free(batch->quarantined);
	free(batch->raw);
	memset(batch, 0, sizeof(*batch));
}
