/*
 * store_private.h - what the store*.c files share.  They alone include lmdb.h.
 *
 *	store.c        files, opening, closing
 *	store_txn.c    transactions, keys and values
 *	store_space.c  the reserve that makes WRITEMAP safe; facts
 */
#ifndef TALLY_SHM_STORE_PRIVATE_H
#define TALLY_SHM_STORE_PRIVATE_H

#include <lmdb.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "shm/store.h"

struct store {
	MDB_env *env;
	MDB_dbi dbi;
	int fd; /* LMDB's, of data.mdb */
	bool writer;
	dev_t lock_dev; /* of lock.mdb, as a writer found it */
	ino_t lock_ino;
	int lock_fd; /* writer: a second one, of lock.mdb; -1 = none */
	uint64_t lock_head;
	uint32_t page_size;
	uint64_t last_txn;     /* writer: the one committed last */
	uint64_t reserved;     /* bytes from the start of the file that we know have blocks */
	_Atomic uint64_t seed; /* store_seed */
	/* One ended read transaction is kept for the next one: renewing is 4 times cheaper. */
	_Atomic int idle; /* enum idle_state, in store_txn.c */
	MDB_txn *idle_txn;
	MDB_cursor *idle_cursor;
	_Atomic int active; /* read transactions of this process */
};

/* Translates, and logs the original of what ERR_IO hides (in a writer: a library does not log). */
int store_error(const struct store *store, const char *what, int rc);

/* Keeps the map out of core dumps.  To be called whenever LMDB has mapped anew. */
void store_keep_out_of_cores(const struct store *store);

/* The order of keys: LMDB's own, by their bytes, then by length. */
int store_compare(const MDB_val *a, const MDB_val *b);

/* Keeps the transaction's first error. */
void store_txn_fail(struct store_txn *txn, const char *what, int rc);

#endif
