/*
 * usage_scrub.c - what nobody asks for, compared with its checks; and the sums of them.
 *
 *	blocks -> rates -> rows -> names -> sources -> outbox -> (from the start again)
 *	'---------------------'    '------------------------'
 *	each check, and the sum    what the writer has in memory
 *	of all against meta's      is in the store
 *
 * A look-up sees what is wrong with the value it reads.  This sees what nobody reads, what
 * has vanished, and what is an older copy of itself.
 *
 * A pass takes many slices, and the store changes in between.  The sum of what lies below
 * the place where the next slice begins is kept: who changes something there changes that
 * sum as well (scrub_change), and it counts when the commit has succeeded.  So at the end
 * of the stage it has to be meta's.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shm/err.h"

struct scrubber {
	struct usage *usage;
	struct scrub *scrub;
	struct store_txn txn;
	char *why;
};

__attribute__((format(printf, 2, 3))) static bool wrong(struct scrubber *sc, const char *fmt, ...)
{
	va_list args;

	if (!sc->txn.err) {
		va_start(args, fmt);
		vsnprintf(sc->why, 256, fmt, args);
		va_end(args);
	}
	return usage_corrupt(&sc->txn);
}

/* --- the sum --------------------------------------------------------------------------------- */

void scrub_begin(struct scrub *scrub)
{
	scrub->change = 0;
}

void scrub_commit(struct scrub *scrub)
{
	scrub->sum += scrub->change;
	scrub->change = 0;
}

static void enter(struct scrub *scrub, enum scrub_stage stage)
{
	static const char kinds[SCRUB_STAGES] = {
		[SCRUB_BLOCKS] = KEY_BLOCK, [SCRUB_RATES] = KEY_RATE, [SCRUB_ROWS] = KEY_ROW};

	*scrub = (struct scrub){.stage = stage, .kind = kinds[stage], .passes = scrub->passes};
}

static bool sum_is(struct scrubber *sc, const char *what, uint64_t meta)
{
	if (sc->txn.err || sc->scrub->sum == meta)
		return false;
	return wrong(sc, "some %s are missing, or older than they were", what);
}

/* --- stages: the next value; false at the end, or with txn.err -------------------------------- */

static bool add_block(
	struct scrubber *sc, uint32_t tenant, uint64_t upper, const struct usage_block *block)
{
	struct scrub *scrub = sc->scrub;
	uint64_t seed = block_seed(seal_seed(&sc->txn), scrub->kind, tenant), sum;
	uint64_t from = tenant == scrub->tenant ? scrub->at : 0;
	unsigned n = block->n;

	/* It may have become larger, but between two there is nothing. */
	if (block->from > from || !block_head_ok(block, n, seed, upper))
		return wrong(sc, "tenant %u: block %016" PRIx64, tenant, upper);
	for (unsigned i = 0; i < n; i++) {
		if (!block_entry_ok(block, i, seed, &sum))
			return wrong(sc, "tenant %u: stream %016" PRIx64, tenant, block->hash[i]);
		if (block->hash[i] >= from)
			scrub->sum += sum;
	}
	return true;
}

static bool next_block(struct scrubber *sc, uint64_t meta_sum)
{
	struct scrub *scrub = sc->scrub;
	const struct usage_block *block;
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;
	uint64_t upper;

	key_block(&from, scrub->kind, scrub->tenant, scrub->at);
	if (!store_seek(&sc->txn, key_bytes(&from), &key, &value) ||
		!key_parse_block(key, scrub->kind, &tenant, &upper))
		return sum_is(sc, "blocks", meta_sum);
	block = block_of(value);
	if (!block)
		return wrong(sc, "tenant %u: block %016" PRIx64 " is none", tenant, upper);
	if (!add_block(sc, tenant, upper, block))
		return false;
	scrub->tenant = tenant + (upper == UINT64_MAX);
	scrub->at = upper + 1;
	return true;
}

static bool next_row(struct scrubber *sc)
{
	const struct usage_meta *meta = &sc->usage->meta;
	struct scrub *scrub = sc->scrub;
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;
	uint16_t policy;

	key_row(&from, scrub->tenant, (uint16_t)scrub->at);
	if (!store_seek(&sc->txn, key_bytes(&from), &key, &value) ||
		!key_parse_row(key, &tenant, &policy))
		return sum_is(sc, "rows", meta->row_sum);
	if (!seal_open(&sc->txn, key, &value) ||
		value.len != window_row_size(meta->identity.window_minutes))
		return wrong(sc, "tenant %u: row of policy %u", tenant, policy);
	scrub->sum += seal_of(value);
	scrub->tenant = tenant + (policy == UINT16_MAX);
	scrub->at = (uint16_t)(policy + 1);
	return true;
}

/* As it is in the store. */
static struct store_bytes policy_of(struct scrubber *sc, const struct name *name)
{
	struct store_bytes value = {0};
	struct usage_key key;

	key_prefix(&key, KEY_POLICY);
	key_add_u32(&key, name->scope - 1);
	key_add_u16(&key, (uint16_t)name->id);
	return seal_get(&sc->txn, &key, &value) ? value : (struct store_bytes){0};
}

static bool next_name(struct scrubber *sc)
{
	const struct names *names = &sc->usage->names;
	struct store_bytes found = {0};
	const struct name *name;
	struct tenant_row row;
	const char *text;
	uint32_t id = 0;

	if (sc->scrub->at >= names->n_committed)
		return false;
	name = &names->names[sc->scrub->at++];
	text = names->texts + name->text;
	if (name->scope > 0) {
		found = policy_of(sc, name);
	} else if (usage_find_tenant(&sc->txn, text, name->len, &id) && id == name->id &&
		   name_is_linked(&sc->txn, text, name->len) &&
		   tenant_get(&sc->txn, id, &row, &found.len)) {
		found.data = row.name;
	}
	if (found.data && found.len == name->len && memcmp(found.data, text, found.len) == 0)
		return true;
	return wrong(sc, "the name of %s %u", name->scope > 0 ? "policy" : "tenant", name->id);
}

static bool next_source(struct scrubber *sc)
{
	const struct sources *sources = &sc->usage->sources;
	const struct source *source;
	struct store_bytes value;
	struct usage_key key;

	if (sc->scrub->at >= sources->n)
		return false;
	source = &sources->sources[sc->scrub->at++];
	source_key(&key, source);
	if (!source->is_committed)
		return true;
	if (seal_get(&sc->txn, &key, &value) && value.len == sizeof(source->committed) &&
		memcmp(value.data, &source->committed, value.len) == 0)
		return true;
	return wrong(sc, "a foreign store's sequence");
}

static bool next_outgoing(struct scrubber *sc)
{
	const struct usage_meta *meta = &sc->usage->meta;
	struct scrub *scrub = sc->scrub;
	struct store_bytes key, value;
	struct outbox_pack pack;
	struct usage_key from;

	if (scrub->at < outbox_first(meta))
		scrub->at = outbox_first(meta);
	if (meta->outbox == 0 || scrub->at > meta->sequence)
		return false;
	key_prefix(&from, KEY_OUTBOX);
	key_add_u64(&from, scrub->at);
	if (!store_seek(&sc->txn, key_bytes(&from), &key, &value) ||
		!outbox_open(&sc->txn, key, value, &pack) || pack.first > scrub->at ||
		pack.last > meta->sequence)
		return wrong(sc, "rows of the outbox");
	scrub->at = pack.last + 1;
	return true;
}

static bool step(struct scrubber *sc)
{
	const struct usage_meta *meta = &sc->usage->meta;

	switch (sc->scrub->stage) {
	case SCRUB_BLOCKS:
		return next_block(sc, meta->stream_sum);
	case SCRUB_RATES:
		return next_block(sc, meta->rate_sum);
	case SCRUB_ROWS:
		return next_row(sc);
	case SCRUB_NAMES:
		return next_name(sc);
	case SCRUB_SOURCES:
		return next_source(sc);
	default:
		return next_outgoing(sc);
	}
}

/* --- a slice --------------------------------------------------------------------------------- */

/* LMDB has the last commit, not one before. */
static void check_meta(struct scrubber *sc)
{
	struct usage_meta meta;
	int err = sc->txn.err ? sc->txn.err : usage_read_meta(&sc->txn, &meta);

	if (err == ERR_NOT_FOUND || err == ERR_FORMAT ||
		(!err && memcmp(&meta, &sc->usage->meta, sizeof(meta)) != 0))
		wrong(sc, "meta");
}

int usage_scrub(struct usage *usage, uint64_t steps, char why[256])
{
	struct scrubber sc = {.usage = usage, .scrub = &usage->scrub, .why = why};
	struct scrub *scrub = sc.scrub;

	snprintf(why, 256, "a value does not fit its check, or the pages that list it");
	if (scrub->kind == 0 && scrub->stage == SCRUB_BLOCKS)
		enter(scrub, SCRUB_BLOCKS);
	store_begin_read(&sc.txn, usage->store);
	check_meta(&sc);
	while (steps-- > 0 && !sc.txn.err) {
		if (step(&sc) || sc.txn.err)
			continue;
		scrub->passes += scrub->stage + 1 == SCRUB_STAGES;
		enter(scrub, (scrub->stage + 1) % SCRUB_STAGES);
	}
	store_abort(&sc.txn);
	return sc.txn.err;
}

uint64_t usage_scrub_steps(const struct usage *usage)
{
	const struct usage_meta *meta = &usage->meta;

	/* Each tenant and each policy has a name, and at most one row. */
	return meta->blocks + meta->rate_blocks + 2 * usage->names.n + usage->sources.n +
	       meta->outbox + SCRUB_STAGES;
}

uint64_t usage_scrubbed(const struct usage *usage)
{
	return usage->scrub.passes;
}
