/*
 * usage.h - what is counted, on top of store.  All keys are made here.
 *
 *	record_decode -> usage_add (interns names, appends to the batch)
 *	                     |
 *	usage_commit:  sort by (tenant, hash) -> merge neighbours -> apply block by block
 *	               -> rows -> sources -> meta with the next offset -> one commit
 *
 *	key                                   value (integers in keys are big-endian)
 *	'b' tenant:4 upper_hash:8             block: 84 streams sorted by hash (struct usage_block)
 *	'h' tenant:4 policy:2                 row: window_row, per minute count[] and bytes[]
 *	't' name                              tenant id:4 (native), the name that follows
 *	'T' tenant:4                          what it has in the store, name
 *	'p' tenant:4 policy:2                 policy name (policy 0 = "", never stored)
 *	'f' incarnation:16                    foreign source: highest sequence:8, last seen s:4
 *	'o' sequence of the last:8            struct usage_outbox_row, up to 31
 *	'r' tenant:4 upper_hash:8             block: keys of UpdateRates, which are no streams
 *	'q' offset:8                          quarantined record, raw
 *	'm'                                   struct usage_meta
 *
 * The block of (tenant, hash) is the first key >= it: the key holds the
 * block's upper bound, and a tenant's last block has ~0.  A tenant's blocks have
 * all hashes between them, without a gap; or it has no block.
 *
 * LMDB's pages have no checksums.  So every value has a check of its own, of key,
 * value and store (usage_seal.c), and what is not there can be seen not to be: who
 * reads a page that was overwritten gets ERR_CORRUPT, the writer before it counts on
 * it.  usage_scrub reads what nobody asks for.
 *
 * Sole writer: the partition's worker.  The result of a batch does not depend
 * on where batches are cut: within a stream, records count in offset order.
 */
#ifndef TALLY_SHM_USAGE_H
#define TALLY_SHM_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/host.h"
#include "shm/record.h"
#include "shm/store.h"
#include "shm/window.h"

#define USAGE_FORMAT		   5
#define USAGE_BLOCK_SLOTS	   84
#define USAGE_POLICIES_MAX	   1024 /* per tenant, the default one included; more fall into it */
#define USAGE_NAME_SIZE		   256
#define USAGE_QUARANTINE_BYTES_MAX 65536 /* of a quarantined record's raw bytes that are kept */

/*
 * Foreign stores whose highest sequence is kept.  Of more, the ones heard of longest
 * ago are forgotten: what such a one sends a second time would count a second time.
 * An honest fleet has as many as it has had partitions and generations in a window.
 */
#define USAGE_SOURCES_MAX 65536

struct usage_entry {
	uint32_t last_seen_s;	       /* Unix seconds */
	uint32_t last_produced_s;      /* when the topic last got a record of it; 0 = never */
	uint64_t unsent_bytes;	       /* admitted here, not yet produced */
	uint16_t policy : 10;	       /* of the latest record */
	uint16_t flags : 6;	       /* ENTRY_* */
	uint16_t check;		       /* usage_seal.c; 0 in what readers are given */
	uint32_t bucket[RATE_MINUTES]; /* window_rate_add */
};
_Static_assert(sizeof(struct usage_entry) == 40, "file format");
_Static_assert(USAGE_POLICIES_MAX <= 1 << 10, "file format");

#define ENTRY_UNSENT 1 /* seen here since it was last produced; unsent_bytes may be 0 */

struct usage_outbox_row {
	uint64_t hash, bytes;
	uint32_t tenant, seen_s;
	uint16_t policy;
	uint16_t reserved[3];
};
_Static_assert(sizeof(struct usage_outbox_row) == 32, "file format");

struct usage_block {
	uint64_t from; /* it has all hashes from here to the bound in its key */
	uint16_t n;
	uint8_t version;
	uint8_t reserved[5];
	uint64_t check; /* of its bounds, n and the last hash (usage_seal.c) */
	uint64_t hash[USAGE_BLOCK_SLOTS];
	struct usage_entry entry[USAGE_BLOCK_SLOTS];
	uint8_t tail[STORE_BLOCK_SIZE - 24 - USAGE_BLOCK_SLOTS * 48];
};
_Static_assert(sizeof(struct usage_block) == STORE_BLOCK_SIZE, "file format");

/* Which log this store was made from.  All of it must match to resume. */
struct usage_identity {
	uint32_t format; /* USAGE_FORMAT */
	uint32_t partition, partitions;
	uint32_t window_minutes;
	uint32_t read_uncommitted; /* aborted records were counted, too */
	uint32_t reserved;	   /* 0; it is compared and stored as bytes: no holes */
	uint64_t generation;
	uint8_t boot_id[HOST_BOOT_ID_SIZE];
	char cluster[64]; /* Kafka cluster id; "" = not known when it was made: matches any */
	char topic[256];
};

/* The last record delivered: compared with the log when reading is resumed. */
struct usage_fingerprint {
	int64_t offset; /* -1 = none yet */
	int64_t timestamp_ms;
	uint64_t hash; /* XXH3 of key and value, see usage_hash_record */
};

struct usage_meta {
	struct usage_identity identity;
	uint8_t incarnation[INCARNATION_SIZE]; /* random, made with the store */
	uint64_t sequence;		       /* last one used for the outbox */
	int64_t next_offset;		       /* -1 = nothing read yet */
	struct usage_fingerprint fingerprint;
	struct usage_fingerprint anchor; /* an older one, that the log was last seen to hold */
	int64_t clock_ms;		 /* "now" of the last commit */
	uint64_t records;		 /* delivered, whatever became of them */
	uint64_t applied;
	uint64_t bytes; /* of applied records and touches, cumulative */
	uint64_t skipped[SKIP_REASONS];
	uint64_t gaps, gap_offsets;
	uint64_t streams; /* entries, expired ones included */
	uint64_t blocks;
	uint64_t swept;
	uint64_t policy_overflow;
	uint64_t outbox;	     /* rows */
	uint64_t unsent;	     /* streams with ENTRY_UNSENT */
	uint64_t rates, rate_blocks; /* keys of UpdateRates, and their blocks */
	uint32_t tenants;
	uint32_t sources;
	uint32_t policies; /* names of all tenants */
	uint32_t reserved;
	uint64_t stream_sum, rate_sum, row_sum; /* of the checks of all entries, of all rows */
};

/* --- writer: the worker ------------------------------------------------------------------- */

struct usage;

struct usage_options {
	const char *path; /* generation directory */
	struct usage_identity identity;
	uint64_t map_bytes;
	uint32_t readers_max;
};

/*
 * Opens or creates.  A new store is initialised (identity, incarnation) in its
 * first commit, inside this call.  ERR_IDENTITY when it belongs to another log
 * (format, partition(s), window, isolation, generation, topic, cluster), with *boot_differs
 * set when the boot id is what differs; ERR_CORRUPT; errors of store_open_writer.
 */
int usage_open(const struct usage_options *options, struct usage **out, bool *boot_differs);
void usage_close(struct usage **usage);

/* Completes the identity of a store that was made before the cluster's id was known; else nothing.
 */
void usage_set_cluster(struct usage *usage, const char *cluster);

/*
 * The store, for read transactions in the writer's own process (usage_verify,
 * tests): LMDB forbids to open it there a second time.  Borrowed.
 */
struct store *usage_store(struct usage *usage);

/* As of the last commit.  Borrowed; valid until usage_close. */
const struct usage_meta *usage_meta(const struct usage *usage);

/*
 * Adds one decoded record to the batch, in memory only.  Checks misrouted, own,
 * duplicate, too old (in this order) and counts the reason; returns it.
 * `record` is borrowed.  A record that cannot be added for lack of memory stops
 * the process (must).
 */
enum skip_reason usage_add(struct usage *usage, const struct record *record, int64_t now_ms);

/* Counts a record that never got that far (undecodable, no metadata, no tenant). */
void usage_skip(struct usage *usage, enum skip_reason reason);

/* Keeps a poison record's raw bytes (cut at USAGE_QUARANTINE_BYTES_MAX) and counts it. */
void usage_quarantine(struct usage *usage, int64_t offset, struct store_bytes raw);

/*
 * The batch now accounts for everything below `next_offset`.  fingerprint may
 * be NULL (a gap at the end of the log: nothing was delivered).  A next_offset
 * that does not rise is a bug.
 */
void usage_advance(
	struct usage *usage, int64_t next_offset, const struct usage_fingerprint *fingerprint);

/*
 * The log was seen to hold this record, and everything counted up to it is of
 * that log.  Until the first call it is the first fingerprint there was.  Stored
 * with the next commit that has something else to store.
 */
void usage_anchor(struct usage *usage, const struct usage_fingerprint *anchor);

/* Counts a jump in offsets. */
void usage_gap(struct usage *usage, uint64_t offsets);

/* Back to a lower offset, above the fingerprint's: nothing was delivered in between. */
void usage_rewind(struct usage *usage, int64_t next_offset);

/* Appended records waiting for a commit; and whether a commit would change anything. */
size_t usage_pending(const struct usage *usage);
bool usage_dirty(const struct usage *usage);

struct usage_commit {
	int64_t now_ms;
	unsigned sweep_blocks; /* look at up to so many blocks (and rows) for what has expired */
	/* Asked immediately before the commit; false: the transaction is aborted, ERR_LEASE. */
	bool (*may_commit)(void *arg);
	void *arg;
};

/*
 * Applies the batch in one transaction.  0: the batch is empty again, meta is
 * new.  ERR_FULL, ERR_LEASE, any error: nothing has changed in the store, the
 * batch is kept whole and the call can be made again.
 */
int usage_commit(struct usage *usage, const struct usage_commit *how);

/*
 * Sweeps alone, at most how->sweep_blocks steps: the batch waits as it is, its
 * streams are left alone, nothing it counts changes.  For a store that is full while
 * the batch cannot be committed: a sweep inside that commit would be lost with it.
 * Takes fewer steps when there is no room for so many; some room is always left by
 * the last commits.  Errors as of usage_commit.  *steps: how many it took.
 */
int usage_sweep(struct usage *usage, const struct usage_commit *how, unsigned *steps);

/* How many steps a whole pass of the sweep takes, at most; 0: there is nothing to sweep. */
uint64_t usage_sweep_steps(const struct usage *usage);

/* What large batches needed is freed, if nothing is in them now.  For one that has nothing to do. */
void usage_give_back(struct usage *usage);

/* Drops the batch and goes back to the committed state. */
void usage_reset(struct usage *usage);

/* --- admission (worker/admit.c) --------------------------------------------------------------
 *
 *	usage_question -> usage_budget ... -> usage_touch | usage_admit | usage_rate ...
 *	usage_commit -> usage_verdict, usage_rate_of -> usage_questions_end
 *
 * What is asked joins the batch and is judged while it is applied, after the
 * records of the same stream that came before it: known and active means
 * accepted; a new or expired stream takes one of its budget, or is rejected
 * and changes nothing.
 */

struct usage_produce {
	uint32_t rate_minutes; /* that usage_rate_of looks back */
	uint32_t
		every_s; /* a stream is produced at most once in so long; 0 = nothing is produced */
	uint64_t outbox_max; /* rows; beyond them new streams fail, beyond half known ones wait */
};
void usage_set_produce(struct usage *usage, const struct usage_produce *produce);

struct usage_stream_asked {
	const char *tenant, *policy;
	size_t tenant_len, policy_len;
	uint64_t hash, bytes;
	int64_t seen_ms; /* clamped to now; too old counts as now */
};

/* Opens a budget of so many new streams (UINT64_MAX = any number).  Gives its index. */
uint32_t usage_budget(struct usage *usage, uint64_t streams);

/* Accepted elsewhere: inserted if missing, seen, its bytes added.  Never judged. */
void usage_touch(struct usage *usage, const struct usage_stream_asked *asked, int64_t now_ms);

/* To be judged.  Gives a ticket for usage_verdict. */
uint32_t usage_admit(struct usage *usage, const struct usage_stream_asked *asked, uint32_t budget,
	int64_t now_ms);

/* Bytes of a key that is no stream; gives a ticket for usage_rate_of.  policy is ignored. */
uint32_t usage_rate(struct usage *usage, const struct usage_stream_asked *asked, int64_t now_ms);

/* Tickets below this number have been judged, in commits that have succeeded. */
uint32_t usage_judged(const struct usage *usage);

/* After the commit: what became of it. */
enum usage_verdict { USAGE_KNOWN, USAGE_NEW, USAGE_REJECTED, USAGE_FAILED };
enum usage_verdict usage_verdict(const struct usage *usage, uint32_t ticket);
uint64_t usage_rate_of(const struct usage *usage, uint32_t ticket); /* bytes per second */

/*
 * Answers have been taken: tickets and budgets start anew.  When the commit has
 * failed this drops what was to be judged from the batch; records and touches stay.
 */
void usage_questions_end(struct usage *usage);

/* --- the outbox (worker/emit.c) --------------------------------------------------------------
 *
 * A commit that finds a stream due moves its unsent bytes into a row of the
 * outbox; the row goes when our own record comes back from the log.
 */
struct usage_outgoing {
	uint64_t sequence;
	uint64_t hash, bytes;
	uint32_t seen_s;
	const char *tenant, *policy; /* valid until the next call that adds to the batch */
	size_t tenant_len, policy_len;
};

/* Committed rows above `after` in order of their sequence, at most cap.  How many; or an error < 0. */
int usage_outbox_list(struct usage *usage, uint64_t after, struct usage_outgoing *rows, size_t cap);

/* Puts streams whose unsent bytes are due into the batch.  Once a second.  true: there were some. */
bool usage_produce_due(struct usage *usage, int64_t now_ms);

/* All streams with unsent bytes are due now, whatever their time.  For an orderly stop. */
void usage_produce_all(struct usage *usage);

/*
 * For a partition that is being revoked, where nothing can be committed any more:
 * streams with unsent bytes as rows, numbered on from the last sequence; start
 * with a zeroed cursor.  How many; 0 at the end.  The store must never be resumed.
 */
struct usage_unsent_cursor {
	uint64_t at;
	uint64_t sequence;
};
int usage_unsent_list(struct usage *usage, struct usage_unsent_cursor *cursor,
	struct usage_outgoing *rows, size_t cap);

/*
 * Reads the next `steps` values of the committed store and compares them with their checks
 * and with what the writer knows; in a pass, all of them: then their sums, too.  0, or
 * ERR_CORRUPT with one line in `why`; other errors: not now.
 */
int usage_scrub(struct usage *usage, uint64_t steps, char why[256]);

/* How many steps a whole pass takes, about. */
uint64_t usage_scrub_steps(const struct usage *usage);

/* Passes that have been completed since the store was opened. */
uint64_t usage_scrubbed(const struct usage *usage);

void usage_check_readers(struct usage *usage);
void usage_store_facts(struct usage *usage, struct store_facts *facts);

/* XXH3-64 over key length, key, value. */
uint64_t usage_hash_record(const void *key, size_t key_len, const void *value, size_t value_len);

/* --- reader: client.c, inside one store_begin_read ... store_abort ------------------------- */

int usage_read_meta(
	struct store_txn *txn, struct usage_meta *meta); /* ERR_CORRUPT, ERR_NOT_FOUND */

bool usage_find_tenant(struct store_txn *txn, const char *name, size_t len, uint32_t *tenant);

/* Tenants in id order: *tenant is the last one seen (start with UINT32_MAX); false at the end. */
bool usage_next_tenant(struct store_txn *txn, uint32_t *tenant, char name[USAGE_NAME_SIZE + 1]);

/*
 * Rows of a tenant, in policy order: *policy is the last one seen, start with
 * -1.  `buf` has window_row_size(window) bytes; `row` is laid over it.  Who has
 * reached the end says how many it has seen: ERR_CORRUPT when there should be others.
 */
bool usage_next_row(struct store_txn *txn, uint32_t tenant, int *policy, uint32_t window, void *buf,
	struct window_row *row);
void usage_check_rows(struct store_txn *txn, uint32_t tenant, uint32_t seen);

/* Name of a policy; "" for policy 0. */
bool usage_policy_name(
	struct store_txn *txn, uint32_t tenant, uint32_t policy, char name[USAGE_NAME_SIZE + 1]);

struct usage_stream {
	uint64_t hash;
	struct usage_entry entry;
};

bool usage_find_stream(
	struct store_txn *txn, uint32_t tenant, uint64_t hash, struct usage_stream *stream);

/* When each of n was last seen, Unix seconds; -1: it is not there, or txn->err. */
void usage_find_streams(struct store_txn *txn, uint32_t tenant, const uint64_t *hash, size_t n,
	int64_t *last_seen_s);

/*
 * Streams of a tenant in hash order, expired ones included: those with
 * hash >= from, at most cap.  Returns how many.  To go on: last hash + 1.
 */
size_t usage_list_streams(struct store_txn *txn, uint32_t tenant, uint64_t from,
	struct usage_stream *streams, size_t cap);

/*
 * Checks a whole store against itself: blocks sorted and contiguous, meta's
 * numbers, rows against entries.  For tests and `tallyctl verify`.
 * 0, or ERR_CORRUPT with one line in `why`.
 */
int usage_verify(struct store_txn *txn, char why[256]);

#endif
