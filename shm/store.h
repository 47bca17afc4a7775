/*
 * store.h - an LMDB environment, and a transaction that keeps its first error.
 *
 *	store_begin(&txn, store);
 *	store_put(&txn, key, value); ...	(does nothing once txn.err is set)
 *	err = store_commit(&txn);		(aborts instead when txn.err is set)
 *
 * One environment per generation directory: data.mdb, lock.mdb.  All keys are
 * in LMDB's unnamed database and made in usage.c.  The only file that includes
 * lmdb.h is store.c.
 *
 * Writer: WRITEMAP | NOSYNC | NOMETASYNC | NOTLS, safe against the death of the
 * process (not of the kernel: identity.boot_id guards that), with the guard
 * that makes WRITEMAP safe on a full file system: store_reserve at the start of
 * every transaction.  Exactly one writer process per store.
 *
 * Threads: a write handle belongs to one thread.  Read transactions may be
 * begun on one handle by several threads; each transaction stays in its thread.
 *
 * A pointer into the store lives until its transaction ends; none leaves shm/.
 */
#ifndef TALLY_SHM_STORE_H
#define TALLY_SHM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_BLOCK_SIZE 4080 /* a value that fills exactly one overflow page */

struct store;

struct store_bytes {
	const void *data;
	size_t len;
};

struct store_txn {
	struct store *store;
	void *txn;    /* MDB_txn */
	void *cursor; /* MDB_cursor, made on first use */
	int err;      /* first error, or 0 */
	bool write;
};

/* What a write transaction can need at most, in pages. */
struct store_need {
	uint64_t pages; /* dirtied one at a time: any free page will do */
	uint64_t runs;	/* for values that take several neighbouring pages */
	uint64_t freed; /* freed without being dirtied */
};

struct store_facts {
	uint64_t map_bytes;
	uint64_t used_bytes;	/* (last page + 1) x page size */
	uint64_t free_pages;	/* pages on the free list, as of the last commit */
	uint64_t last_txn;	/* id */
	uint64_t oldest_reader; /* id of the oldest one that a reader holds; last_txn when none */
	uint32_t oldest_pid;	/* whose that is; 0 = nobody's */
	uint32_t readers;	/* slots taken, idle ones included */
	uint32_t readers_max;
	uint32_t page_size;
};

/*
 * Opens for writing, creates when empty.  `path` is the generation directory;
 * it must exist.  Files get mode 0640 (data) and 0660 (lock), whatever the
 * umask says.  map_bytes: address space, sparse.  The map is MADV_DONTDUMP.
 * ERR_FULL, ERR_CORRUPT (not an LMDB file, wrong version, a store that has lost its lock
 * file: readers may still have it, and with another one nobody minds them), ERR_ACCESS, ERR_IO.
 */
int store_open_writer(
	const char *path, uint64_t map_bytes, uint32_t readers_max, struct store **out);

/*
 * Opens read-only.  Never creates anything.  The caller (client.c) guarantees
 * that a process opens one store once: POSIX locks (lmdb.h, caveats).
 */
int store_open_reader(const char *path, struct store **out);

void store_close(struct store **store);

/*
 * Writer: both files still lie in `path`, data.mdb is as long as it has to be, and lock.mdb begins
 * as it has to.  Readers that come find no store otherwise, or another one, and what is beyond the
 * end of a file is a SIGBUS.
 */
bool store_is_in_place(const struct store *store, const char *path);

/*
 * Write transactions: one at a time.  Read transactions: any number, short, on
 * either kind of handle.  ERR_BUSY for a reader: all slots are taken, or the map
 * has grown and other transactions of this process are in the way: try again.
 */
void store_begin(struct store_txn *txn, struct store *store);
void store_begin_read(struct store_txn *txn, struct store *store);
int store_commit(struct store_txn *txn); /* 0 or the first error; the transaction is over */
void store_abort(struct store_txn *txn); /* also ends a read transaction; idempotent */

/*
 * Inside a write transaction, before its first change: makes sure that what it
 * needs cannot run out of file system.  Counts the free pages that LMDB may reuse,
 * for what is dirtied one page at a time alone: free pages are scattered, and what
 * is longer than a page is taken from the end when no free run is long enough.
 * Then fallocate(KEEP_SIZE)s beyond the last page in use; cheap when there is room
 * already.  No room: txn->err = ERR_FULL, nothing has changed.  The end of the map
 * is not looked at: there LMDB's own error (also ERR_FULL) comes from a put.
 */
void store_reserve(struct store_txn *txn, const struct store_need *need);

/* false when absent (txn->err stays 0) or on error (txn->err set). */
bool store_get(struct store_txn *txn, struct store_bytes key, struct store_bytes *value);

/* The first key >= `key`; ERR_CORRUPT when LMDB finds another.  Leaves the cursor there. */
bool store_seek(struct store_txn *txn, struct store_bytes key, struct store_bytes *found,
	struct store_bytes *value);

/* The one after the cursor, which only store_seek, store_before and this one move. */
bool store_next(struct store_txn *txn, struct store_bytes *key, struct store_bytes *value);

/* The last key < `key`. */
bool store_before(struct store_txn *txn, struct store_bytes key, struct store_bytes *found,
	struct store_bytes *value);

void store_put(struct store_txn *txn, struct store_bytes key, struct store_bytes value);

/* Replaces the value at the cursor, as left by store_seek or store_next on `key`; same length. */
void store_put_current(struct store_txn *txn, struct store_bytes key, struct store_bytes value);

void store_delete(struct store_txn *txn, struct store_bytes key); /* absent: no error */

/*
 * This thread is inside of a transaction: what it dies of now, the store is to
 * blame for (pages have no checksums: LMDB follows what stands in them).  For
 * handlers of signals.
 */
bool store_in_use(void);

/* A number that whoever uses the store keeps with the handle (usage_seal.c); 0 until it is set. */
uint64_t store_seed(const struct store *store);
void store_set_seed(struct store *store, uint64_t seed);

/* Frees slots of readers that died.  Once a second. */
void store_check_readers(struct store *store);

void store_facts(struct store *store, struct store_facts *facts);

#endif
