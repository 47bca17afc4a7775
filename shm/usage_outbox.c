/*
 * usage_outbox.c - rows for Kafka: made in the commit that decides to produce, gone
 * when our own record has come back from the log.
 *
 *	outbox_put --> pack --full, or all is applied--> 'o' sequence of the last one:8 --> { row, row ... }
 *
 * A pack is one value: a question brings a dozen new streams, and a value each would cost as
 * much as their blocks.  It goes when all of it has come back; meta says how many rows of the
 * oldest one still wait.
 *
 * Sequences rise without holes within one incarnation: others count a record of
 * ours only when its sequence is above the highest one they have seen.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <stdlib.h>
#include <string.h>

#include "shm/err.h"

#define ROWS_PER_LEAF 40 /* at least, where they are appended, alone or in packs */

static void row_key(struct usage_key *key, uint64_t sequence)
{
	key_prefix(key, KEY_OUTBOX);
	key_add_u64(key, sequence);
}

void outbox_begin(struct outbox *outbox)
{
	outbox->n = 0;
}

void outbox_flush(struct outbox *outbox, struct store_txn *txn, const struct usage_meta *meta)
{
	struct usage_key key;

	if (outbox->n == 0)
		return;
	row_key(&key, meta->sequence);
	seal_put(txn, &key, outbox->rows, outbox->n * sizeof(outbox->rows[0]));
	outbox->n = 0;
}

void outbox_put(struct outbox *outbox, struct store_txn *txn, struct usage_meta *meta,
	const struct usage_outbox_row *row)
{
	outbox->rows[outbox->n++] = *row;
	meta->sequence++;
	meta->outbox++;
	if (outbox->n == OUTBOX_PACK)
		outbox_flush(outbox, txn, meta);
}

/*
 * All up to the highest that came back: a row is first seen in the log after all
 * lower ones, or those were given up (worker/emit.c).
 */
void outbox_clear(const struct batch *batch, struct store_txn *txn, struct usage_meta *meta)
{
	uint64_t first = outbox_first(meta), last, to = batch->cleared_to;
	struct store_bytes key, value;
	struct usage_key from, pack;

	if (to > meta->sequence)
		to = meta->sequence;
	if (to < first)
		return;
	meta->outbox -= to - first + 1;
	row_key(&from, 0);
	while (store_seek(txn, key_bytes(&from), &key, &value) &&
		key_parse_u64(key, KEY_OUTBOX, &last) && last <= to) {
		row_key(&pack, last);
		store_delete(txn, key_bytes(&pack));
	}
}

uint64_t outbox_first(const struct usage_meta *meta)
{
	return meta->sequence > meta->outbox ? meta->sequence - meta->outbox + 1 : 1;
}

static uint64_t rows_to_clear(const struct usage *usage)
{
	const struct usage_meta *meta = &usage->meta;
	uint64_t first = outbox_first(meta);
	uint64_t to =
		usage->batch.cleared_to < meta->sequence ? usage->batch.cleared_to : meta->sequence;

	return to >= first ? to - first + 1 : 0;
}

uint64_t outbox_pages(const struct usage *usage)
{
	uint64_t leaves = rows_to_clear(usage) / (ROWS_PER_LEAF / 4) + 2;
	uint64_t asked = 0;

	for (size_t i = 0; i < usage->batch.n; i++)
		asked += usage->batch.items[i].kind != ITEM_RECORD;
	if (!usage->produce.every_s)
		asked = 0;
	return 2 * leaves + 2 * (asked / ROWS_PER_LEAF) + 4;
}

/* --- for emit -------------------------------------------------------------------------------- */

/* Names as in memory; ids in the store are below their number. */
static bool fill_names(
	const struct names *names, uint32_t tenant, uint16_t policy, struct usage_outgoing *out)
{
	const struct name *name = names_by_id(names, 0, tenant);

	if (!name)
		return false;
	out->tenant = names->texts + name->text;
	out->tenant_len = name->len;
	out->policy = "";
	out->policy_len = 0;
	if (policy == 0)
		return true;
	name = names_by_id(names, tenant + 1, policy);
	if (!name)
		return false;
	out->policy = names->texts + name->text;
	out->policy_len = name->len;
	return true;
}

bool outbox_open(struct store_txn *txn, struct store_bytes key, struct store_bytes value,
	struct outbox_pack *pack)
{
	if (!key_parse_u64(key, KEY_OUTBOX, &pack->last))
		return false;
	if (!seal_open(txn, key, &value))
		return false;
	pack->n = value.len / sizeof(struct usage_outbox_row);
	pack->rows = value.data;
	if (value.len % sizeof(struct usage_outbox_row) || pack->n == 0 || pack->n > OUTBOX_PACK ||
		pack->n > pack->last)
		return usage_corrupt(txn);
	pack->first = pack->last - pack->n + 1;
	return true;
}

static bool fill_row(const struct usage *usage, const struct outbox_pack *pack, uint64_t sequence,
	struct usage_outgoing *out)
{
	struct usage_outbox_row row;

	memcpy(&row, pack->rows + (sequence - pack->first) * sizeof(row), sizeof(row));
	*out = (struct usage_outgoing){
		.sequence = sequence, .hash = row.hash, .bytes = row.bytes, .seen_s = row.seen_s};
	return fill_names(&usage->names, row.tenant, row.policy, out);
}

int usage_outbox_list(struct usage *usage, uint64_t after, struct usage_outgoing *rows, size_t cap)
{
	uint64_t next = outbox_first(&usage->meta);
	struct store_bytes key, value;
	struct outbox_pack pack;
	struct store_txn txn;
	struct usage_key from;
	size_t n = 0;
	bool more;
	int err;

	/* No row is above the last sequence: a worker that has nothing to write asks each turn. */
	if (usage->meta.outbox == 0 || after >= usage->meta.sequence)
		return 0;
	store_begin_read(&txn, usage->store);
	if (next <= after)
		next = after + 1;
	row_key(&from, next);
	for (more = store_seek(&txn, key_bytes(&from), &key, &value);
		more && n < cap && outbox_open(&txn, key, value, &pack);
		more = store_next(&txn, &key, &value)) {
		if (pack.first > next || pack.last < next)
			usage_corrupt(&txn);
		for (; next <= pack.last && n < cap && !txn.err; next++)
			if (!fill_row(usage, &pack, next, &rows[n++]))
				usage_corrupt(&txn);
	}
	if (n < cap && next != usage->meta.sequence + 1)
		usage_corrupt(&txn);
	err = txn.err;
	store_abort(&txn);
	return err ? err : (int)n;
}

/* --- what no commit can put there any more --------------------------------------------------- */

static bool fill_unsent(struct usage *usage, struct store_txn *txn, const struct due_stream *due,
	struct usage_outgoing *out)
{
	struct usage_stream stream;

	if (!usage_find_stream(txn, due->tenant, due->hash, &stream) ||
		!(stream.entry.flags & ENTRY_UNSENT))
		return false;
	*out = (struct usage_outgoing){.hash = due->hash,
		.bytes = stream.entry.unsent_bytes,
		.seen_s = stream.entry.last_seen_s};
	return fill_names(&usage->names, due->tenant, stream.entry.policy, out);
}

static int compare_due(const void *a, const void *b)
{
	const struct due_stream *x = a, *y = b;

	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	return (x->hash > y->hash) - (x->hash < y->hash);
}

/* All in one slot, each once. */
static void gather(struct usage *usage)
{
	struct due *due = &usage->due;
	struct due_slot *all = &due->slot[0];
	size_t n = 0;

	/* Those that were due just now and wait for their commit. */
	for (size_t i = 0; i < usage->batch.n; i++) {
		const struct item *item = &usage->batch.items[i];

		if (item->kind == ITEM_DUE)
			due_note(due, item->tenant, item->hash, 0);
	}
	due_commit(due);

	for (unsigned i = 1; i < DUE_SLOTS; i++) {
		for (size_t j = 0; j < due->slot[i].n; j++) {
			all->streams = array_grow(
				all->streams, &all->cap, all->n + 1, sizeof(*all->streams));
			all->streams[all->n++] = due->slot[i].streams[j];
		}
		due->slot[i].n = 0;
	}
	if (all->n)
		qsort(all->streams, all->n, sizeof(*all->streams), compare_due);
	for (size_t i = 0; i < all->n; i++)
		if (n == 0 || compare_due(&all->streams[n - 1], &all->streams[i]) != 0)
			all->streams[n++] = all->streams[i];
	all->n = n;
}

int usage_unsent_list(struct usage *usage, struct usage_unsent_cursor *cursor,
	struct usage_outgoing *rows, size_t cap)
{
	const struct due_slot *all = &usage->due.slot[0];
	struct store_txn txn;
	size_t n = 0;
	int err;

	if (!usage->produce.every_s)
		return 0;
	if (cursor->at == 0)
		gather(usage);
	store_begin_read(&txn, usage->store);
	for (; cursor->at < all->n && n < cap && !txn.err; cursor->at++) {
		if (fill_unsent(usage, &txn, &all->streams[cursor->at], &rows[n])) {
			rows[n].sequence = usage->meta.sequence + ++cursor->sequence;
			n++;
		}
	}
	err = txn.err;
	store_abort(&txn);
	return err ? err : (int)n;
}
