/*
 * usage_verify.c - a whole store against itself.
 *
 *	names      'T' id -> name -> 't' -> the same id, as many as meta says
 *	blocks     in order, without a gap, sorted; hashes of this partition; checks
 *	rows       count[m] == entries of that policy last seen in minute m, for the window
 *	           that ends at the store's clock (older slots are nobody's)
 *	meta       streams, blocks, tenants, sources, outbox, the sums of checks
 *
 * Bytes have no second copy to be compared with; the tests' oracle does that.
 *
 * Runs in: tests, tallyctl.  Blocks in: nowhere, but reads everything.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "shm/usage_private.h"

struct verify {
	struct store_txn *txn;
	char *why;
	struct usage_meta meta;
	uint32_t first_minute; /* of the window at the store's clock */
	uint32_t tenant;       /* in hand */
	uint64_t streams, blocks, unsent;
	uint64_t stream_sum, rate_sum, row_sum;
	char kind; /* of the blocks in hand */
	uint64_t seed, *sum;
	/* Entries by [policy][minute - first_minute], the tenant's; arrays when needed. */
	uint32_t *counts[USAGE_POLICIES_MAX];
	char *row_buf;
};

__attribute__((format(printf, 2, 3))) static int wrong(struct verify *v, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(v->why, 256, fmt, args);
	va_end(args);
	return ERR_CORRUPT;
}

static uint32_t slots(const struct verify *v)
{
	return v->meta.identity.window_minutes + 1;
}

/* --- blocks ---------------------------------------------------------------------------------- */

static int verify_entry(struct verify *v, uint64_t hash, const struct usage_entry *entry)
{
	uint32_t minute = window_minute_of_s(entry->last_seen_s);
	uint32_t **counts;

	if (hash % v->meta.identity.partitions != v->meta.identity.partition)
		return wrong(v, "stream %016" PRIx64 " is of another partition", hash);
	if (minute > window_minute_of_ms(v->meta.clock_ms))
		return wrong(v, "stream %016" PRIx64 " was seen after the store's clock", hash);
	v->unsent += (entry->flags & ENTRY_UNSENT) != 0;
	if (minute < v->first_minute)
		return 0;
	counts = &v->counts[entry->policy];
	if (!*counts && !(*counts = calloc(slots(v), sizeof(**counts))))
		return ERR_NOMEM;
	(*counts)[minute - v->first_minute]++;
	return 0;
}

/* `from`: where it has to begin. */
static int verify_block(
	struct verify *v, const struct usage_block *block, uint64_t from, uint64_t upper)
{
	unsigned n = block_count(block);
	uint64_t sum;
	int err = 0;

	if (n == 0)
		return wrong(v, "tenant %u: empty block %016" PRIx64, v->tenant, upper);
	if (block->from != from || !block_head_ok(block, n, v->seed, upper))
		return wrong(v, "tenant %u: block %016" PRIx64 ": its head", v->tenant, upper);
	if (block->hash[0] < from || block->hash[n - 1] > upper)
		return wrong(v, "tenant %u: block %016" PRIx64 ": streams out of its bounds",
			v->tenant, upper);
	for (unsigned i = 0; i < n && !err; i++) {
		if (i > 0 && block->hash[i] <= block->hash[i - 1])
			return wrong(
				v, "tenant %u: block %016" PRIx64 ": not sorted", v->tenant, upper);
		if (!block_entry_ok(block, i, v->seed, &sum))
			return wrong(v, "stream %016" PRIx64 ": its check", block->hash[i]);
		*v->sum += sum;
		if (v->kind == KEY_BLOCK)
			err = verify_entry(v, block->hash[i], &block->entry[i]);
	}
	if (v->kind == KEY_BLOCK) {
		v->streams += n;
		v->blocks++;
	}
	return err;
}

/* Whether it has some, and all hashes are between them. */
static int verify_cover(struct verify *v, uint64_t next, bool any)
{
	struct tenant_row row;
	size_t len;

	if (any && next != 0)
		return wrong(v, "tenant %u: no block has its last hashes", v->tenant);
	if (v->kind == KEY_BLOCK && tenant_get(v->txn, v->tenant, &row, &len) &&
		row.has_blocks != any)
		return wrong(v, "tenant %u: has blocks, or has none", v->tenant);
	return v->txn->err;
}

static int verify_blocks(struct verify *v, char kind)
{
	const struct usage_block *block;
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;
	uint64_t upper, next = 0;
	bool more, any = false;
	int err = 0;

	v->kind = kind;
	v->seed = block_seed(seal_seed(v->txn), kind, v->tenant);
	v->sum = kind == KEY_BLOCK ? &v->stream_sum : &v->rate_sum;
	key_block(&from, kind, v->tenant, 0);
	for (more = store_seek(v->txn, key_bytes(&from), &key, &value);
		!err && more && key_parse_block(key, kind, &tenant, &upper) && tenant == v->tenant;
		more = store_next(v->txn, &key, &value)) {
		block = block_of(value);
		if (!block)
			return wrong(v, "tenant %u: block %016" PRIx64 " is none", tenant, upper);
		err = verify_block(v, block, next, upper);
		next = upper + 1;
		any = true;
	}
	return err ? err : verify_cover(v, next, any);
}

/* --- rows ------------------------------------------------------------------------------------ */

static int verify_row(struct verify *v, int policy, const struct window_row *row)
{
	const uint32_t *counts = v->counts[policy];
	uint32_t oldest = row->base >= row->slots ? row->base - row->slots + 1 : 0;

	for (uint32_t i = 0; i < row->slots; i++) {
		uint32_t minute = v->first_minute + i;
		uint32_t entries = counts ? counts[i] : 0;
		uint32_t count = minute >= oldest && minute <= row->base
					 ? row->count[minute % row->slots]
					 : 0;

		if (count != entries)
			return wrong(v,
				"tenant %u policy %d minute %u: row says %u streams, there are %u",
				v->tenant, policy, minute, count, entries);
	}
	return 0;
}

static int verify_rows(struct verify *v)
{
	char name[USAGE_NAME_SIZE + 1];
	struct window_row row;
	int policy = -1, err = 0;
	uint32_t n = 0;

	while (!err && usage_next_row(v->txn, v->tenant, &policy, slots(v) - 1, v->row_buf, &row)) {
		n++;
		err = verify_row(v, policy, &row);
		if (!usage_policy_name(v->txn, v->tenant, (uint32_t)policy, name))
			return wrong(v, "tenant %u: policy %d has no name", v->tenant, policy);
		free(v->counts[policy]);
		v->counts[policy] = NULL;
	}
	for (int p = 0; p < USAGE_POLICIES_MAX && !err; p++)
		if (v->counts[p])
			err = wrong(v, "tenant %u: streams of policy %d, but no row", v->tenant, p);
	if (!err)
		usage_check_rows(v->txn, v->tenant, n);
	return err ? err : v->txn->err;
}

/* --- the rest -------------------------------------------------------------------------------- */

static int verify_tenants(struct verify *v)
{
	char name[USAGE_NAME_SIZE + 1];
	uint32_t tenant = UINT32_MAX, id, n = 0;
	int err = 0;

	while (!err && usage_next_tenant(v->txn, &tenant, name)) {
		if (tenant != n++)
			return wrong(v, "tenant ids have a gap before %u", tenant);
		if (!usage_find_tenant(v->txn, name, strlen(name), &id) || id != tenant)
			return wrong(v, "tenant %u is not found by its name", tenant);
		if (!name_is_linked(v->txn, name, strlen(name)))
			return wrong(v, "tenant %u does not follow the name before it", tenant);
		v->tenant = tenant;
		err = verify_blocks(v, KEY_BLOCK);
		if (!err)
			err = verify_blocks(v, KEY_RATE);
		if (!err)
			err = verify_rows(v);
	}
	if (!err && n != v->meta.tenants)
		return wrong(v, "%u tenants, meta says %u", n, v->meta.tenants);
	return err ? err : v->txn->err;
}

/* Of blocks the keys alone; the checks of others, too. */
static uint64_t count_keys(struct verify *v, char kind)
{
	bool blocks = kind == KEY_BLOCK || kind == KEY_RATE;
	struct store_bytes key, value;
	struct usage_key from;
	uint64_t n = 0;
	bool more;

	key_prefix(&from, kind);
	for (more = store_seek(v->txn, key_bytes(&from), &key, &value);
		more && *(const char *)key.data == kind; more = store_next(v->txn, &key, &value)) {
		n++;
		if (!blocks && seal_open(v->txn, key, &value) && kind == KEY_ROW)
			v->row_sum += seal_of(value);
	}
	return n;
}

/* All that wait, without holes; of the oldest value some may have come back. */
static int verify_outbox(struct verify *v)
{
	uint64_t next = outbox_first(&v->meta);
	struct store_bytes key, value;
	struct outbox_pack pack;
	struct usage_key from;
	bool more;

	key_prefix(&from, KEY_OUTBOX);
	for (more = store_seek(v->txn, key_bytes(&from), &key, &value);
		more && outbox_open(v->txn, key, value, &pack);
		more = store_next(v->txn, &key, &value)) {
		if (pack.first > next || pack.last < next)
			return wrong(v,
				"outbox: rows %" PRIu64 " to %" PRIu64 " where %" PRIu64 " is next",
				pack.first, pack.last, next);
		next = pack.last + 1;
	}
	if (v->txn->err || next == v->meta.sequence + 1)
		return v->txn->err;
	return wrong(v, "outbox: ends before row %" PRIu64 ", meta says %" PRIu64, next,
		v->meta.sequence);
}

static int verify_sums(struct verify *v)
{
	const struct usage_meta *meta = &v->meta;

	count_keys(v, KEY_ROW);
	count_keys(v, KEY_QUARANTINE);
	if (v->stream_sum == meta->stream_sum && v->rate_sum == meta->rate_sum &&
		v->row_sum == meta->row_sum)
		return 0;
	return wrong(v, "checks do not add up to meta's");
}

static int verify_count(struct verify *v, const char *what, uint64_t n, uint64_t meta)
{
	if (n == meta)
		return 0;
	return wrong(v, "%" PRIu64 " %s, meta says %" PRIu64, n, what, meta);
}

static int verify_all(struct verify *v)
{
	uint32_t now_minute = window_minute_of_ms(v->meta.clock_ms);
	int err;

	v->first_minute = now_minute >= slots(v) ? now_minute - slots(v) + 1 : 0;
	err = verify_tenants(v);
	if (!err)
		err = verify_count(v, "streams", v->streams, v->meta.streams);
	if (!err)
		err = verify_count(v, "blocks", v->blocks, v->meta.blocks);
	if (!err)
		err = verify_count(v, "blocks of all tenants", count_keys(v, KEY_BLOCK), v->blocks);
	if (!err)
		err = verify_count(v, "sources", count_keys(v, KEY_SOURCE), v->meta.sources);
	if (!err)
		err = verify_outbox(v);
	if (!err)
		err = verify_count(v, "unsent streams", v->unsent, v->meta.unsent);
	if (!err)
		err = verify_count(
			v, "blocks of rates", count_keys(v, KEY_RATE), v->meta.rate_blocks);
	if (!err)
		err = verify_count(v, "policies", count_keys(v, KEY_POLICY), v->meta.policies);
	if (!err)
		err = verify_sums(v);
	return err ? err : v->txn->err;
}

int usage_verify(struct store_txn *txn, char why[256])
{
	struct verify *v = calloc(1, sizeof(*v));
	int err;

	why[0] = '\0';
	if (!v)
		return ERR_NOMEM;
	v->txn = txn;
	v->why = why;
	err = usage_read_meta(txn, &v->meta);
	if (!err && !(v->row_buf = malloc(window_row_size(v->meta.identity.window_minutes))))
		err = ERR_NOMEM;
	if (!err)
		err = verify_all(v);
	for (int p = 0; p < USAGE_POLICIES_MAX; p++)
		free(v->counts[p]);
	free(v->row_buf);
	free(v);
	if (err == ERR_CORRUPT && why[0] == '\0')
		snprintf(why, 256, "a value has not the shape it must have");
	return err;
}
