/*
 * store_txn.c - a transaction that keeps its first error, and what can be done in one.
 *
 *	begin_read:  idle one kept? --> renew   else begin
 *	             slots full     --> clear those of the dead, once more
 *	             map has grown  --> map anew when we are alone, once more
 *	end:         none idle?     --> reset and keep   else abort
 *
 * Several threads may read through one handle.  The idle transaction is handed
 * over by compare-and-swap; nobody waits for it.
 *
 * Runs in: worker (writer), all readers.  Blocks in: store_begin, if there were
 * a second writer.
 */
#include "shm/store_private.h"

#include <sched.h>
#include <string.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"

#define RESIZE_TRIES 100
#define RESIZING     0x40000000 /* in store.active: nobody may begin */

enum idle_state { IDLE_NONE, IDLE_MOVING, IDLE_HERE };

static _Thread_local int transactions; /* of this thread, begun and not ended */

bool store_in_use(void)
{
	return transactions > 0;
}

void store_txn_fail(struct store_txn *txn, const char *what, int rc)
{
	if (rc != MDB_SUCCESS && txn->err == 0)
		txn->err = store_error(txn->store, what, rc);
}

/* --- transactions -------------------------------------------------------------------------- */

static uint64_t last_committed(const struct store *store)
{
	MDB_envinfo info;

	mdb_env_info(store->env, &info);
	return info.me_last_txnid;
}

/*
 * LMDB takes the number of the last transaction from the lock file, which every
 * reader can write.  A wrong one there makes it work on a stale root; so it is
 * compared with what we know ourselves.
 */
static bool follows_the_last(const struct store *store, MDB_txn *handle)
{
	uint64_t last = last_committed(store);

	return last == store->last_txn && mdb_txn_id(handle) == last + 1;
}

void store_begin(struct store_txn *txn, struct store *store)
{
	MDB_txn *handle = NULL;

	must(store->writer);
	*txn = (struct store_txn){.store = store, .write = true};
	transactions++;
	if (store->last_txn == 0)
		store->last_txn = last_committed(store);
	store_txn_fail(txn, "txn_begin", mdb_txn_begin(store->env, NULL, 0, &handle));
	txn->txn = handle;
	FAULT("store.begun");
	if (!handle)
		transactions--;
	else if (!follows_the_last(store, handle))
		txn->err = ERR_CORRUPT;
}

static bool move_idle(struct store *store, enum idle_state from)
{
	int expected = (int)from;

	return atomic_compare_exchange_strong(&store->idle, &expected, IDLE_MOVING);
}

/*
 * The writer has a larger map than ours.  Ours may only be replaced when no
 * transaction of this process uses it (the caller's own one has not begun).
 */
static bool grow_map(struct store *store)
{
	int alone;

	for (int i = 0; i < RESIZE_TRIES; i++) {
		alone = 1;
		if (atomic_compare_exchange_strong(&store->active, &alone, RESIZING | 1)) {
			int rc = mdb_env_set_mapsize(store->env, 0);

			store_keep_out_of_cores(store);
			atomic_fetch_and(&store->active, ~RESIZING);
			return rc == 0;
		}
		sched_yield();
	}
	return false;
}

static bool enter_read(struct store *store)
{
	for (int i = 0; i < RESIZE_TRIES; i++) {
		if (!(atomic_fetch_add(&store->active, 1) & RESIZING))
			return true;
		atomic_fetch_sub(&store->active, 1);
		sched_yield();
	}
	return false;
}

static int begin_read_handle(struct store *store, MDB_txn **handle)
{
	int dead, rc = MDB_SUCCESS;

	for (int tries = 0; tries < 3; tries++) {
		rc = *handle ? mdb_txn_renew(*handle)
			     : mdb_txn_begin(store->env, NULL, MDB_RDONLY, handle);
		if (rc == MDB_READERS_FULL)
			mdb_reader_check(store->env, &dead);
		else if (rc != MDB_MAP_RESIZED || !grow_map(store))
			return rc;
	}
	return rc;
}

/* Ends what a read transaction has, for good. */
static void drop_read_handle(MDB_txn *handle, MDB_cursor *cursor)
{
	if (cursor)
		mdb_cursor_close(cursor);
	if (handle)
		mdb_txn_abort(handle);
}

void store_begin_read(struct store_txn *txn, struct store *store)
{
	MDB_txn *handle = NULL;
	MDB_cursor *cursor = NULL;
	int rc;

	*txn = (struct store_txn){.store = store};
	if (!enter_read(store)) {
		txn->err = ERR_BUSY;
		return;
	}
	if (move_idle(store, IDLE_HERE)) {
		handle = store->idle_txn;
		cursor = store->idle_cursor;
		store->idle_txn = NULL;
		store->idle_cursor = NULL;
		atomic_store(&store->idle, IDLE_NONE);
	}
	transactions++;
	rc = begin_read_handle(store, &handle);
	if (rc == 0 && cursor)
		rc = mdb_cursor_renew(handle, cursor);
	if (rc != 0) {
		transactions--;
		drop_read_handle(handle, cursor);
		atomic_fetch_sub(&store->active, 1);
		store_txn_fail(txn, "txn_begin", rc);
		return;
	}
	txn->txn = handle;
	txn->cursor = cursor;
	FAULT("read.begun");
}

static void end_read(struct store_txn *txn)
{
	struct store *store = txn->store;
	FAULT("read.ending");

	if (move_idle(store, IDLE_NONE)) {
		mdb_txn_reset(txn->txn);
		store->idle_txn = txn->txn;
		store->idle_cursor = txn->cursor;
		atomic_store(&store->idle, IDLE_HERE);
	} else {
		drop_read_handle(txn->txn, txn->cursor);
	}
	atomic_fetch_sub(&store->active, 1);
}

void store_abort(struct store_txn *txn)
{
	if (!txn->txn)
		return;
	if (!txn->write)
		end_read(txn);
	else
		mdb_txn_abort(txn->txn); /* closes its cursor */
	transactions--;
	txn->txn = txn->cursor = NULL;
}

int store_commit(struct store_txn *txn)
{
	MDB_txn *handle = txn->txn;

	if (txn->err || !txn->write) {
		store_abort(txn);
		return txn->err;
	}
	txn->txn = txn->cursor = NULL;
	FAULT("store.commit");
	store_txn_fail(txn, "txn_commit", mdb_txn_commit(handle));
	FAULT("store.committed");
	transactions--;
	if (!txn->err)
		txn->store->last_txn = last_committed(txn->store);
	return txn->err;
}

/* --- keys and values ----------------------------------------------------------------------- */

static MDB_val to_val(struct store_bytes bytes)
{
	return (MDB_val){.mv_size = bytes.len, .mv_data = (void *)bytes.data};
}

static struct store_bytes from_val(MDB_val val)
{
	return (struct store_bytes){.data = val.mv_data, .len = val.mv_size};
}

/* True when found; MDB_NOTFOUND is no error. */
static bool found(struct store_txn *txn, const char *what, int rc)
{
	if (rc != MDB_NOTFOUND)
		store_txn_fail(txn, what, rc);
	return rc == MDB_SUCCESS;
}

bool store_get(struct store_txn *txn, struct store_bytes key, struct store_bytes *value)
{
	MDB_val k = to_val(key), v;

	if (txn->err || !found(txn, "get", mdb_get(txn->txn, txn->store->dbi, &k, &v)))
		return false;
	*value = from_val(v);
	return true;
}

static int order(struct store_bytes a, struct store_bytes b)
{
	MDB_val x = to_val(a), y = to_val(b);

	return store_compare(&x, &y);
}

static bool cursor_get(struct store_txn *txn, MDB_val *k, MDB_cursor_op op, struct store_bytes *key,
	struct store_bytes *value)
{
	MDB_cursor *cursor = txn->cursor;
	MDB_val v;

	if (!found(txn, "cursor_get", mdb_cursor_get(cursor, k, &v, op)))
		return false;
	*key = from_val(*k);
	*value = from_val(v);
	return true;
}

/* Pages that list others, or other keys, than they did: whoever goes on from there goes in circles. */
static bool is_in_order(struct store_txn *txn, bool right)
{
	if (!right && !txn->err)
		txn->err = ERR_CORRUPT;
	return right;
}

bool store_seek(struct store_txn *txn, struct store_bytes key, struct store_bytes *found_key,
	struct store_bytes *value)
{
	MDB_val k = to_val(key);
	MDB_cursor *cursor = NULL;

	if (!txn->err && !txn->cursor) {
		store_txn_fail(
			txn, "cursor_open", mdb_cursor_open(txn->txn, txn->store->dbi, &cursor));
		txn->cursor = cursor;
	}
	return !txn->err && cursor_get(txn, &k, MDB_SET_RANGE, found_key, value) &&
	       is_in_order(txn, order(*found_key, key) >= 0);
}

bool store_before(struct store_txn *txn, struct store_bytes key, struct store_bytes *found_key,
	struct store_bytes *value)
{
	bool behind = store_seek(txn, key, found_key, value);
	MDB_val k;

	return !txn->err && cursor_get(txn, &k, behind ? MDB_PREV : MDB_LAST, found_key, value) &&
	       is_in_order(txn, order(*found_key, key) < 0);
}

bool store_next(struct store_txn *txn, struct store_bytes *key, struct store_bytes *value)
{
	MDB_val k;

	return !txn->err && cursor_get(txn, &k, MDB_NEXT, key, value);
}

uint64_t store_seed(const struct store *store)
{
	return atomic_load_explicit(&store->seed, memory_order_relaxed);
}

void store_set_seed(struct store *store, uint64_t seed)
{
	atomic_store_explicit(&store->seed, seed, memory_order_relaxed);
}

void store_put(struct store_txn *txn, struct store_bytes key, struct store_bytes value)
{
	MDB_val k = to_val(key), v = to_val(value);

	if (!txn->err)
		store_txn_fail(txn, "put", mdb_put(txn->txn, txn->store->dbi, &k, &v, 0));
}

void store_put_current(struct store_txn *txn, struct store_bytes key, struct store_bytes value)
{
	MDB_val k = to_val(key), v = to_val(value);

	if (!txn->err)
		store_txn_fail(txn, "cursor_put", mdb_cursor_put(txn->cursor, &k, &v, MDB_CURRENT));
}

void store_delete(struct store_txn *txn, struct store_bytes key)
{
	MDB_val k = to_val(key);

	if (!txn->err)
		found(txn, "del", mdb_del(txn->txn, txn->store->dbi, &k, NULL));
}
