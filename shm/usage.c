/*
 * usage.c - the writer: open, close, and the commit that puts a batch into the store.
 *
 *	usage_add ... usage_advance       in memory: items, new names, sources, pending meta
 *	usage_commit:
 *	    begin, reserve                no room: ERR_FULL before anything is written
 *	    names, blocks, rows, sources, outbox, quarantine, sweep, meta
 *	    may_commit?                   the lease, asked last
 *	    commit                        all of it or nothing
 *	    settle                        what was pending is committed
 *	usage_sweep:
 *	    begin, reserve                fewer steps when there is no room for all
 *	    sweep, meta as committed      the batch waits
 *	    may_commit?  commit
 *
 * The next offset is in the same transaction as the counts it accounts for: a
 * worker killed at any instruction goes on with the first record whose effect is
 * not in the store.  Nothing in memory changes before the commit has succeeded,
 * so a failed one can simply be called again.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/usage_private.h"

/*
 * Pages: meta and branches need a few.  What a commit had reserved and did not use is
 * what usage_sweep, with META_PAGES alone, begins with when the file system is full.
 */
#define RESERVE_SLACK 64
#define META_PAGES    8

uint64_t usage_hash_record(const void *key, size_t key_len, const void *value, size_t value_len)
{
	uint64_t hash = XXH3_64bits_withSeed(key, key_len, key_len);

	return XXH3_64bits_withSeed(value, value_len, hash);
}

/* --- meta ------------------------------------------------------------------------------------ */

static void put_meta(struct store_txn *txn, const struct usage_meta *meta)
{
	struct usage_key key;

	key_prefix(&key, KEY_META);
	seal_put(txn, &key, meta, sizeof(*meta));
}

static bool same_log(const struct usage_identity *have, const struct usage_identity *want)
{
	bool cluster = have->cluster[0] == '\0' || want->cluster[0] == '\0' ||
		       strncmp(have->cluster, want->cluster, sizeof(have->cluster)) == 0;

	return cluster && have->format == want->format && have->partition == want->partition &&
	       have->partitions == want->partitions &&
	       have->window_minutes == want->window_minutes &&
	       have->read_uncommitted == want->read_uncommitted &&
	       have->generation == want->generation &&
	       strncmp(have->topic, want->topic, sizeof(have->topic)) == 0;
}

static int check_identity(
	const struct usage_identity *have, const struct usage_identity *want, bool *boot_differs)
{
	if (!same_log(have, want))
		return ERR_IDENTITY;
	*boot_differs = memcmp(have->boot_id, want->boot_id, HOST_BOOT_ID_SIZE) != 0;
	return *boot_differs ? ERR_IDENTITY : 0;
}

/* --- open and close -------------------------------------------------------------------------- */

static int create_meta(struct usage *usage, const struct usage_identity *identity)
{
	struct store_txn txn;
	struct usage_meta *meta = &usage->meta;

	meta->identity = *identity;
	meta->identity.format = USAGE_FORMAT;
	meta->next_offset = -1;
	meta->fingerprint.offset = -1;
	meta->anchor.offset = -1;
	if (getrandom(meta->incarnation, sizeof(meta->incarnation), 0) != sizeof(meta->incarnation))
		return ERR_IO;
	store_begin(&txn, usage->store);
	store_reserve(&txn, &(struct store_need){.pages = META_PAGES});
	seal_set_seed(&txn, meta);
	put_meta(&txn, meta);
	names_create(&txn);
	return store_commit(&txn);
}

/* ERR_NOT_FOUND only when there is nothing at all in the store. */
static int load_meta(struct usage *usage, struct store_txn *txn)
{
	struct store_bytes key, value;
	int err = usage_read_meta(txn, &usage->meta);

	if (err == ERR_NOT_FOUND &&
		store_seek(txn, (struct store_bytes){.data = "", .len = 1}, &key, &value))
		return ERR_CORRUPT;
	return txn->err ? txn->err : err;
}

static int load_rest(struct usage *usage, struct store_txn *txn)
{
	int err = names_load(&usage->names, txn);

	if (!err)
		err = sources_load(&usage->sources, txn);
	if (!err && (usage->names.tenants != usage->meta.tenants ||
			    names_policies(&usage->names) != usage->meta.policies ||
			    usage->sources.n != usage->meta.sources))
		err = ERR_CORRUPT;
	return err;
}

static int load(struct usage *usage, const struct usage_options *options, bool *boot_differs)
{
	struct store_txn txn;
	int err;

	store_begin_read(&txn, usage->store);
	err = txn.err ? txn.err : load_meta(usage, &txn);
	if (err == ERR_NOT_FOUND) {
		store_abort(&txn);
		err = create_meta(usage, &options->identity);
		store_begin_read(&txn, usage->store);
		if (!err)
			err = txn.err;
	} else if (!err) {
		err = check_identity(&usage->meta.identity, &options->identity, boot_differs);
	} else if (err == ERR_FORMAT) {
		err = ERR_IDENTITY;
	}
	if (!err)
		err = load_rest(usage, &txn);
	store_abort(&txn);
	usage->pending = usage->meta;
	usage->sweep.has_rows = true;
	usage_set_cluster(usage, options->identity.cluster);
	return err;
}

int usage_open(const struct usage_options *options, struct usage **out, bool *boot_differs)
{
	const struct usage_identity *id = &options->identity;
	struct usage *usage;
	int err;

	*out = NULL;
	*boot_differs = false;
	if (id->partitions == 0 || id->partition >= id->partitions || id->window_minutes == 0 ||
		id->window_minutes > WINDOW_MINUTES_MAX)
		return ERR_INVALID;
	usage = calloc(1, sizeof(*usage));
	if (!usage)
		return ERR_NOMEM;
	err = store_open_writer(
		options->path, options->map_bytes, options->readers_max, &usage->store);
	if (!err)
		err = load(usage, options, boot_differs);
	if (err)
		usage_close(&usage);
	*out = usage;
	return err;
}

void usage_close(struct usage **usagep)
{
	struct usage *usage = *usagep;

	if (!usage)
		return;
	store_close(&usage->store);
	batch_free(&usage->batch);
	batch_free(&usage->rates);
	asked_free(&usage->asked);
	due_free(&usage->due);
	names_free(&usage->names);
	sources_free(&usage->sources);
	rows_free(&usage->rows);
	free(usage);
	*usagep = NULL;
}

/* --- the batch ------------------------------------------------------------------------------- */

const struct usage_meta *usage_meta(const struct usage *usage)
{
	return &usage->meta;
}

void usage_set_cluster(struct usage *usage, const char *cluster)
{
	struct usage_identity *id = &usage->pending.identity;

	if (id->cluster[0] == '\0')
		memcpy(id->cluster, cluster, strnlen(cluster, sizeof(id->cluster) - 1));
}

struct store *usage_store(struct usage *usage)
{
	return usage->store;
}

void usage_advance(
	struct usage *usage, int64_t next_offset, const struct usage_fingerprint *fingerprint)
{
	must(next_offset > usage->pending.next_offset);
	usage->pending.next_offset = next_offset;
	if (!fingerprint)
		return;
	usage->pending.fingerprint = *fingerprint;
	if (usage->pending.anchor.offset < 0)
		usage->pending.anchor = *fingerprint;
}

void usage_anchor(struct usage *usage, const struct usage_fingerprint *anchor)
{
	usage->pending.anchor = *anchor;
}

void usage_rewind(struct usage *usage, int64_t next_offset)
{
	must(next_offset > usage->pending.fingerprint.offset);
	usage->pending.next_offset = next_offset;
}

void usage_gap(struct usage *usage, uint64_t offsets)
{
	usage->pending.gaps++;
	usage->pending.gap_offsets += offsets;
}

size_t usage_pending(const struct usage *usage)
{
	return usage->batch.n;
}

bool usage_dirty(const struct usage *usage)
{
	return usage->batch.n > 0 || usage->rates.n > 0 ||
	       memcmp(&usage->pending, &usage->meta, sizeof(usage->meta)) != 0;
}

void usage_reset(struct usage *usage)
{
	char cluster[sizeof(usage->meta.identity.cluster)]; /* is no part of the batch */

	memcpy(cluster, usage->pending.identity.cluster, sizeof(cluster));
	batch_clear(&usage->batch);
	batch_clear(&usage->rates);
	asked_clear(&usage->asked);
	due_free(
		&usage->due); /* some of them are in the batch: they are found again in the store */
	names_reset(&usage->names);
	sources_reset(&usage->sources);
	usage->pending = usage->meta;
	usage_set_cluster(usage, cluster);
}

/* --- commit ---------------------------------------------------------------------------------- */

static void put_quarantined(struct usage *usage, struct store_txn *txn)
{
	const struct batch *batch = &usage->batch;
	struct usage_key key;

	for (size_t i = 0; i < batch->n_quarantined; i++) {
		const struct quarantined *q = &batch->quarantined[i];

		key_prefix(&key, KEY_QUARANTINE);
		key_add_u64(&key, (uint64_t)q->offset);
		seal_put_in_place(txn, &key, batch->raw + q->at, q->len);
	}
}

/* What the transaction can need, on the safe side. */
static struct store_need commit_need(const struct usage *usage, const struct usage_commit *how)
{
	const struct batch *batch = &usage->batch;
	struct store_need need = sweep_need(usage, how->sweep_blocks);

	apply_need(usage, &need);
	need.pages += 6 * names_pending(&usage->names);
	need.pages += sources_pages(&usage->sources);
	need.pages += outbox_pages(usage) + 2 * batch->n_quarantined;
	need.pages += need.pages / 4 + RESERVE_SLACK;
	need.runs += 2 * batch->n_quarantined + batch->raw_len / STORE_BLOCK_SIZE;
	return need;
}

/* Everything is in the store: the batch is empty and what was pending is committed. */
static void settle(struct usage *usage, const struct usage_meta *meta, const struct sweep *sweep,
	uint32_t now_minute)
{
	usage->meta = *meta;
	usage->pending = *meta;
	usage->sweep = *sweep;
	usage->sweep.has_rows |= usage->batch.n > 0;
	scrub_commit(&usage->scrub);
	usage->produce_all = false;
	usage->asked.judged = usage->asked.n;
	batch_clear(&usage->batch);
	batch_clear(&usage->rates);
	due_commit(&usage->due);
	names_commit(&usage->names);
	sources_commit(&usage->sources, now_minute);
}

/* The lease, asked last; then all of it or nothing. */
static int commit_txn(struct store_txn *txn, const struct usage_commit *how)
{
	if (!txn->err && how->may_commit && !how->may_commit(how->arg))
		txn->err = ERR_LEASE;
	return store_commit(txn);
}

int usage_commit(struct usage *usage, const struct usage_commit *how)
{
	struct usage_meta meta = usage->pending;
	struct sweep sweep = usage->sweep;
	struct store_need need;
	struct store_txn txn;
	uint32_t now_minute;
	int err;

	if (how->now_ms > meta.clock_ms)
		meta.clock_ms = how->now_ms;
	now_minute = window_minute_of_ms(meta.clock_ms);
	batch_sort(&usage->batch);
	batch_sort(&usage->rates);
	asked_begin(&usage->asked);
	sources_mark(&usage->sources, now_minute, meta.identity.window_minutes);
	need = commit_need(usage, how);
	store_begin(&txn, usage->store);
	store_reserve(&txn, &need);
	scrub_begin(&usage->scrub);
	names_write(&usage->names, &txn);
	outbox_begin(&usage->outbox);
	apply_batch(usage, &txn, &meta);
	outbox_flush(&usage->outbox, &txn, &meta);
	meta.tenants = usage->names.tenants;
	meta.policies = names_policies(&usage->names);
	meta.sources = sources_write(&usage->sources, &txn);
	outbox_clear(&usage->batch, &txn, &meta);
	put_quarantined(usage, &txn);
	sweep_slice(&txn, how->sweep_blocks, now_minute, NULL, &meta, &sweep, &usage->scrub);
	put_meta(&txn, &meta);
	err = commit_txn(&txn, how);
	if (!err)
		settle(usage, &meta, &sweep, now_minute);
	else
		due_drop(&usage->due);
	return err;
}

/* --- the sweep alone ------------------------------------------------------------------------- */

static int sweep_once(
	struct usage *usage, const struct usage_commit *how, unsigned blocks, unsigned *steps)
{
	struct usage_meta meta = usage->meta, *pending = &usage->pending;
	struct sweep sweep = usage->sweep;
	struct store_need need = sweep_need(usage, blocks);
	struct store_txn txn;
	int err;

	if (how->now_ms > meta.clock_ms)
		meta.clock_ms = how->now_ms;
	need.pages += META_PAGES;
	store_begin(&txn, usage->store);
	store_reserve(&txn, &need);
	scrub_begin(&usage->scrub);
	*steps = sweep_slice(&txn, blocks, window_minute_of_ms(meta.clock_ms), &usage->batch, &meta,
		&sweep, &usage->scrub);
	put_meta(&txn, &meta);
	err = commit_txn(&txn, how);
	if (err)
		return err;
	usage->meta = meta;
	usage->sweep = sweep;
	scrub_commit(&usage->scrub);
	pending->stream_sum = meta.stream_sum;
	pending->rate_sum = meta.rate_sum;
	pending->row_sum = meta.row_sum;
	pending->streams = meta.streams;
	pending->blocks = meta.blocks;
	pending->swept = meta.swept;
	pending->rates = meta.rates;
	pending->rate_blocks = meta.rate_blocks;
	if (pending->clock_ms < meta.clock_ms)
		pending->clock_ms = meta.clock_ms;
	return 0;
}

int usage_sweep(struct usage *usage, const struct usage_commit *how, unsigned *steps)
{
	unsigned blocks = how->sweep_blocks;
	int err;

	batch_sort(&usage->batch);
	while ((err = sweep_once(usage, how, blocks, steps)) == ERR_FULL && blocks > 1)
		blocks = (blocks + 3) / 4;
	if (err)
		*steps = 0;
	return err;
}

uint64_t usage_sweep_steps(const struct usage *usage)
{
	const struct sweep *sweep = &usage->sweep;
	uint64_t blocks = usage->meta.blocks + usage->meta.rate_blocks;
	/* Each tenant and each policy has a name, and at most one row. */
	uint64_t rows = sweep->has_rows || sweep->stage != SWEEP_BLOCKS ? usage->names.n : 0;

	return blocks + rows ? blocks + rows + 3 : 0; /* 3: to see that they end */
}

void usage_check_readers(struct usage *usage)
{
	store_check_readers(usage->store);
}

void usage_store_facts(struct usage *usage, struct store_facts *facts)
{
	store_facts(usage->store, facts);
}
