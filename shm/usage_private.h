/*
 * usage_private.h - what the usage_*.c files share: keys, blocks, the batch, the writer's state.
 *
 *	usage.c         open, close, commit: one transaction out of the parts below
 *	usage_batch.c   add: checks, the append array, its sort
 *	usage_names.c   tenant and policy names <-> ids
 *	usage_sources.c highest sequence per foreign store
 *	usage_ask.c     what is to be judged: tickets and budgets
 *	usage_apply.c   the sorted batch into blocks and rows
 *	usage_need.c    what that can need of the file system
 *	usage_due.c     which streams have to be produced when
 *	usage_outbox.c  rows for Kafka
 *	usage_sweep.c   expired streams out of blocks
 *	usage_block.c   keys, and the search in a block
 *	usage_seal.c    checks of values (usage_seal.h)
 *	usage_scrub.c   what nobody asks for, compared with its checks
 *	usage_read.c    readers
 *	usage_find.c    many streams side by side
 *	usage_verify.c  a whole store against itself
 *
 * What the writer has in memory and no commit has made durable is pending:
 * usage_reset takes it back, and a failed commit can be tried again.
 */
#ifndef TALLY_SHM_USAGE_PRIVATE_H
#define TALLY_SHM_USAGE_PRIVATE_H

#include "shm/usage.h"
#include "shm/usage_seal.h"

struct usage;

/* --- usage_block.c: keys (a prefix byte, then big-endian integers) and blocks ---------------- */

#define KEY_BLOCK	'b'
#define KEY_ROW		'h'
#define KEY_TENANT	't' /* by name */
#define KEY_TENANT_NAME 'T' /* by id */
#define KEY_POLICY	'p'
#define KEY_SOURCE	'f'
#define KEY_OUTBOX	'o'
#define KEY_QUARANTINE	'q'
#define KEY_META	'm'
#define KEY_RATE	'r'

#define BLOCK_VERSION 2

struct usage_key {
	uint8_t bytes[1 + USAGE_NAME_SIZE];
	size_t len;
};
_Static_assert(1 + USAGE_NAME_SIZE <= 511, "LMDB's longest key");

/* The bytes of a key, which is borrowed. */
struct store_bytes key_bytes(const struct usage_key *key);

void key_prefix(struct usage_key *key, char kind);
void key_add_u16(struct usage_key *key, uint16_t value);
void key_add_u32(struct usage_key *key, uint32_t value);
void key_add_u64(struct usage_key *key, uint64_t value);
void key_add_text(struct usage_key *key, const void *text, size_t len);
void key_block(struct usage_key *key, char kind, uint32_t tenant, uint64_t upper);
void key_row(struct usage_key *key, uint32_t tenant, uint16_t policy);

/* false when it is a key of another kind or length. */
bool key_parse_block(struct store_bytes key, char kind, uint32_t *tenant, uint64_t *upper);
bool key_parse_row(struct store_bytes key, uint32_t *tenant, uint16_t *policy);
bool key_parse_policy(struct store_bytes key, uint32_t *tenant, uint16_t *policy);
bool key_parse_tenant(struct store_bytes key, uint32_t *tenant);
bool key_parse_u64(struct store_bytes key, char kind, uint64_t *value);

/*
 * The block in a value, in place; NULL when it is none.  In two steps for who does not want to
 * wait for the memory yet: its place by the value's shape, then its head.
 */
const struct usage_block *block_of(struct store_bytes value);
const struct usage_block *block_shape(struct store_bytes value);
bool block_sane(const struct usage_block *block);

/* Its n, read once and never above USAGE_BLOCK_SLOTS: a reader's map may change under it. */
unsigned block_count(const struct usage_block *block);

/* Index of the first hash >= `hash` among the first n. */
unsigned block_search(const struct usage_block *block, unsigned n, uint64_t hash);

/* The same from a place that is near it, at most n. */
unsigned block_search_from(const struct usage_block *block, unsigned n, unsigned i, uint64_t hash);

/* Opens a gap at `at` and puts a zeroed entry there; there must be room. */
struct usage_entry *block_insert(struct usage_block *block, unsigned at, uint64_t hash);

/* Moves the first `k` streams (at least one) to `lower` (emptied first), up to the k-th's hash. */
void block_split(struct usage_block *block, unsigned k, struct usage_block *lower);

/* Puts all of `lower` before those of `block`; there must be room. */
void block_merge(struct usage_block *block, const struct usage_block *lower);

void block_clear(struct usage_block *block);

/* --- usage_names.c --------------------------------------------------------------------------- */

struct name {
	uint32_t scope; /* 0: a tenant; else a policy of tenant scope - 1 */
	uint32_t id;
	size_t text; /* in names.texts */
	size_t len;
};

struct names {
	struct name *names;
	size_t n, cap, n_committed;
	char *texts;
	size_t texts_len, texts_cap;
	uint32_t *table; /* hash table of indices + 1, by text */
	uint32_t *by_id; /* the same by id */
	size_t table_size;
	uint16_t *policies; /* by tenant: ids given out, 0 included */
	uint32_t tenants;
	size_t tenants_cap;
	uint64_t seed;
};

int names_load(struct names *names, struct store_txn *txn);
void names_free(struct names *names);

/* Gives an id, a new one when the name is new. */
uint32_t names_tenant(struct names *names, const char *text, size_t len);

/* The same; 0 with *overflow set when the tenant has too many. */
uint16_t names_policy(
	struct names *names, uint32_t tenant, const char *text, size_t len, bool *overflow);

/* In the store: what a tenant has there, so that what has vanished can be missed. */
struct tenant_row {
	uint16_t rows;
	uint8_t has_blocks; /* of streams: they have all hashes between them.  0: there is none */
	uint8_t reserved;
	char name[USAGE_NAME_SIZE];
};

/* In the store, by name; by the empty name, which nobody has, what the first one follows. */
struct name_row {
	uint32_t id;
	uint32_t reserved;
	uint64_t next; /* name_mark of the one that follows in the order of names; 0: none */
};

/* Never 0. */
uint64_t name_mark(const void *name, size_t len);

/* Of an id that was given out: it has one, else ERR_CORRUPT.  *len: of the name. */
bool tenant_get(struct store_txn *txn, uint32_t tenant, struct tenant_row *row, size_t *len);
bool tenant_open(struct store_txn *txn, struct store_bytes key, struct store_bytes value,
	struct tenant_row *row, size_t *len); /* what was found */
void tenant_add_rows(struct store_txn *txn, uint32_t tenant, int rows);
void tenant_set_blocks(struct store_txn *txn, uint32_t tenant, bool has_blocks);

/* The name before `key`, in the order of keys, and its row: there is always one. */
bool name_before(struct store_txn *txn, const struct usage_key *key, struct usage_key *before,
	struct name_row *row);
void key_name(struct usage_key *key, const void *name, size_t len);

/* That one says that this one follows. */
bool name_is_linked(struct store_txn *txn, const void *name, size_t len);

/* Of a new store. */
void names_create(struct store_txn *txn);

/* NULL: that id was never given out. */
const struct name *names_by_id(const struct names *names, uint32_t scope, uint32_t id);

void names_write(const struct names *names, struct store_txn *txn);
size_t names_pending(const struct names *names);
uint32_t names_policies(const struct names *names); /* of all tenants */
void names_commit(struct names *names);
void names_reset(struct names *names);

/* Only the first n stay; not fewer than are committed. */
void names_cut(struct names *names, size_t n);

/* --- usage_sources.c ------------------------------------------------------------------------- */

struct source_value {
	uint64_t sequence; /* highest applied */
	uint32_t seen_s;   /* when that was, by our clock */
	uint32_t reserved;
};
_Static_assert(sizeof(struct source_value) == 16, "file format");

struct source {
	uint8_t incarnation[INCARNATION_SIZE];
	struct source_value now, committed;
	bool is_committed; /* there is a row for it */
	bool is_spent;	   /* the commit under way forgets it */
};

struct sources {
	struct source *sources;
	size_t n, cap;
	uint32_t *table; /* hash table of indices + 1 */
	size_t table_size;
	uint32_t *dirty; /* indices */
	size_t n_dirty, dirty_cap;
	size_t n_spent;
	uint32_t pruned_minute; /* last minute in which old ones were looked for */
	uint64_t seed;
};

void source_key(struct usage_key *key, const struct source *source);
int sources_load(struct sources *sources, struct store_txn *txn);
void sources_free(struct sources *sources);

/* False when the sequence is not above the highest one of its source; else it is that now. */
bool sources_pass(struct sources *sources, const uint8_t incarnation[INCARNATION_SIZE],
	uint64_t sequence, uint32_t now_s);

/*
 * A commit, in this order.  mark: which ones it forgets: once a minute those not
 * heard of for a window, and always what is more than USAGE_SOURCES_MAX.
 */
void sources_mark(struct sources *sources, uint32_t now_minute, uint32_t window);
uint64_t sources_pages(const struct sources *sources); /* that sources_write can dirty */
uint32_t sources_write(const struct sources *sources, struct store_txn *txn); /* rows left */
void sources_commit(struct sources *sources, uint32_t now_minute);

void sources_reset(struct sources *sources);

/* --- usage_batch.c --------------------------------------------------------------------------- */

enum item_kind {
	ITEM_RECORD, /* of the log */
	ITEM_TOUCH,  /* accepted elsewhere */
	ITEM_ADMIT,  /* to be judged; has a ticket */
	ITEM_RATE,   /* of the other key space; has a ticket */
	ITEM_DUE     /* nothing new: its unsent bytes may be due */
};

struct item {
	uint64_t hash;
	uint64_t bytes;
	uint32_t tenant;
	uint32_t seen_s;
	uint16_t policy;
	uint16_t kind;
	uint32_t ticket;
};
_Static_assert(sizeof(struct item) == 32, "two to a cache line");

struct quarantined {
	int64_t offset;
	size_t at, len; /* in batch.raw */
};

struct batch {
	struct item *items, *spare; /* spare: for the sort, same size */
	size_t n, cap, spare_cap;
	uint64_t cleared_to; /* highest sequence of our own records that came back; 0 = none */
	struct quarantined *quarantined;
	size_t n_quarantined, quarantined_cap;
	char *raw;
	size_t raw_len, raw_cap;
};

/* Makes room for n elements of `size` and gives the array; stops the process when there is none. */
void *array_grow(void *array, size_t *cap, size_t n, size_t size);

/* Room for one more at the end, zeroed. */
struct item *batch_append(struct batch *batch);

/* Sorts by (tenant, hash), records of one stream in the order they came. */
void batch_sort(struct batch *batch);
void batch_clear(struct batch *batch);
void batch_free(struct batch *batch);

/* --- usage_apply.c --------------------------------------------------------------------------- */

/* The rows of the tenant in hand, loaded when needed and put once. */
struct rows {
	uint16_t slot[USAGE_POLICIES_MAX];   /* index + 1 into the others */
	uint16_t policy[USAGE_POLICIES_MAX]; /* in the order they were loaded */
	struct window_row *row;
	uint64_t *check; /* as they were loaded; 0: not in the store yet */
	char *slab;	 /* rows as in the store, with room for their checks */
	size_t n, cap, size, stride;
};

/* --- usage_ask.c ----------------------------------------------------------------------------- */

struct asked {
	uint64_t *result; /* by ticket: enum usage_verdict, or bytes per second */
	uint32_t *budget; /* by ticket */
	size_t n, result_cap, budget_cap;
	size_t judged;		  /* so many of them in commits that have succeeded */
	uint64_t *granted, *left; /* by budget; left: in the commit under way */
	size_t n_budgets, granted_cap, left_cap;
};

void asked_begin(struct asked *asked);		       /* a commit: budgets are whole */
bool asked_take(struct asked *asked, uint32_t ticket); /* one of its budget; false: none left */
void asked_clear(struct asked *asked);
void asked_free(struct asked *asked);

/* --- usage_due.c ----------------------------------------------------------------------------- */

#define DUE_SLOTS 4096 /* seconds; above the longest produce interval */

struct due_stream {
	uint64_t hash;
	uint32_t tenant;
	uint32_t at_s;
};

struct due_slot {
	struct due_stream *streams;
	size_t n, cap;
};

struct due {
	struct due_slot slot[DUE_SLOTS]; /* by second % DUE_SLOTS */
	struct due_slot noted;		 /* by the commit under way */
	uint32_t looked_s;		 /* slots up to this second have been looked at */
	bool loaded;
};

/* A commit under way finds that a stream will be due. */
void due_note(struct due *due, uint32_t tenant, uint64_t hash, uint32_t at_s);
void due_commit(struct due *due);
void due_drop(struct due *due); /* the commit has failed */
void due_free(struct due *due);

/* --- usage_outbox.c -------------------------------------------------------------------------- */

#define OUTBOX_PACK 31 /* rows in a value, at most: SEAL_VALUE_MAX */
_Static_assert(OUTBOX_PACK * sizeof(struct usage_outbox_row) <= SEAL_VALUE_MAX, "fits");

/* Rows of the commit under way that are in no value yet. */
struct outbox {
	size_t n;
	struct usage_outbox_row rows[OUTBOX_PACK];
};

void outbox_begin(struct outbox *outbox);
void outbox_put(struct outbox *outbox, struct store_txn *txn, struct usage_meta *meta,
	const struct usage_outbox_row *row);
void outbox_flush(struct outbox *outbox, struct store_txn *txn, const struct usage_meta *meta);

/* A value, checked: rows first .. last, 32 bytes each, aligned to nothing. */
struct outbox_pack {
	uint64_t first, last;
	size_t n;
	const char *rows;
};

/* false: it is of another kind, or txn->err. */
bool outbox_open(struct store_txn *txn, struct store_bytes key, struct store_bytes value,
	struct outbox_pack *pack);

/* Rows are the last ones of the sequence: they go from below, without holes. */
uint64_t outbox_first(const struct usage_meta *meta);

void outbox_clear(const struct batch *batch, struct store_txn *txn, struct usage_meta *meta);
uint64_t outbox_pages(const struct usage *usage); /* that putting and clearing can dirty */

/* --- usage_scrub.c --------------------------------------------------------------------------- */

enum scrub_stage {
	SCRUB_BLOCKS,
	SCRUB_RATES,
	SCRUB_ROWS,
	SCRUB_NAMES,
	SCRUB_SOURCES,
	SCRUB_OUTBOX,
	SCRUB_STAGES
};

struct scrub {
	enum scrub_stage stage;
	char kind; /* of keys, in a stage that adds up; else 0 */
	/* Everything of this stage that is below has been looked at ... */
	uint32_t tenant;
	uint64_t at;	 /* hash, policy, index, sequence */
	uint64_t sum;	 /* ... and has these checks, as of the last commit */
	uint64_t change; /* by the commit under way */
	uint64_t passes;
};

/* A check goes, another comes, at a hash or policy: meta's sum changes, and ours if it is below. */
static inline void scrub_change(struct scrub *scrub, uint64_t *meta_sum, char kind, uint32_t tenant,
	uint64_t at, uint64_t change)
{
	*meta_sum += change;
	if (scrub->kind == kind &&
		(tenant < scrub->tenant || (tenant == scrub->tenant && at < scrub->at)))
		scrub->change += change;
}

void scrub_begin(struct scrub *scrub);	/* a transaction */
void scrub_commit(struct scrub *scrub); /* it has succeeded */

/* --- usage_sweep.c, and all of it ------------------------------------------------------------ */

enum sweep_stage { SWEEP_BLOCKS, SWEEP_RATES, SWEEP_ROWS };

/* The block, or the row, at which the sweep goes on. */
struct sweep {
	enum sweep_stage stage;
	uint32_t tenant;
	uint64_t hash;	 /* of blocks */
	uint32_t policy; /* of rows */
	bool has_rows;	 /* this pass has left some, or there are new ones */
};

struct usage {
	struct store *store;
	struct usage_meta meta;	   /* as committed */
	struct usage_meta pending; /* with the batch; what a commit finds out itself is not in it */
	struct batch batch;
	struct batch rates; /* items alone */
	struct asked asked;
	struct due due;
	struct usage_produce produce;
	bool produce_all; /* in the next commit, whatever is due */
	struct names names;
	struct sources sources;
	struct rows rows;
	struct outbox outbox;
	struct sweep sweep;
	struct scrub scrub;
};

/* Applies the sorted batch, and the sorted rates; the counters of *meta follow. */
void apply_batch(struct usage *usage, struct store_txn *txn, struct usage_meta *meta);

/* usage_need.c: adds what the sorted batch can need. */
void apply_need(const struct usage *usage, struct store_need *need);

/* Neighbouring pages that a row takes; 0 when it takes none, or a single one. */
uint64_t row_run(const struct usage *usage);
void rows_free(struct rows *rows);

/* --- usage_sweep.c --------------------------------------------------------------------------- */

/*
 * At most so many steps: a step looks at a block or at a row.  Returns how many
 * it took.  `batch`, when it is not NULL, is sorted and not in the store yet: its
 * streams are left alone.
 */
unsigned sweep_slice(struct store_txn *txn, unsigned steps, uint32_t now_minute,
	const struct batch *batch, struct usage_meta *meta, struct sweep *at, struct scrub *scrub);

/* What so many steps can need. */
struct store_need sweep_need(const struct usage *usage, unsigned steps);

/* --- usage_read.c: a stream, step by step ----------------------------------------------------- */

struct found_block {
	const struct usage_block *block; /* in the map */
	uint64_t upper, seed;
	unsigned n;
};

/* The block that (tenant, hash) belongs to, not looked at yet; false: the tenant has none. */
bool block_seek(struct store_txn *txn, uint32_t tenant, uint64_t hash, struct found_block *found);

/* Its head: from here on its n and seed are there. */
bool block_enter(struct store_txn *txn, uint32_t tenant, uint64_t hash, struct found_block *found);

/* Stream i, checked.  false: there is none behind the last one (the head says so), or txn->err. */
bool block_copy(struct store_txn *txn, const struct found_block *in, unsigned i,
	struct usage_stream *stream);

#endif
