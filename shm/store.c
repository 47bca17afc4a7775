/*
 * store.c - an LMDB environment, and a transaction that keeps its first error.
 *
 *	data.mdb  |########################|=========|.............................|
 *	          0          last page in use  reserved                      map_bytes
 *	                                       (fallocate)         (sparse: no blocks)
 *
 * WRITEMAP writes through memory, so a page that the file system cannot supply
 * is a SIGBUS.  store_reserve turns that into ERR_FULL: LMDB takes pages from
 * its free list first, then one after the other from the end, and everything
 * below `reserved` has blocks.  The lock file gets all its blocks when the store
 * is opened for writing, so that a reader cannot fault in it either.
 *
 * The lock file is opened once, before LMDB has it, and never again: closing any
 * descriptor of it would drop LMDB's fcntl locks in this process.
 *
 * Runs in: worker (writer), all readers.  Blocks in: store_open_reader, at most
 * OPEN_RETRY_MS; store_begin, if there were a second writer.
 */
#include "shm/store.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/log.h"

#define DATA_NAME      "data.mdb"
#define LOCK_NAME      "lock.mdb"
#define OPEN_RETRY_MS  100
#define RESIZE_TRIES   100
#define RESERVE_STEP   64 /* pages: small transactions do not call fallocate each time */
#define LOCK_SLOT_SIZE 64 /* of one reader in lock.mdb */
#define LOCK_HEAD_SIZE 4096
#define RESIZING       0x40000000 /* in store.active: nobody may begin */
#define FREE_LIST      0	  /* LMDB's number for its database of free pages */

enum idle_state { IDLE_NONE, IDLE_MOVING, IDLE_HERE };

struct store {
	MDB_env *env;
	MDB_dbi dbi;
	int fd; /* LMDB's, of data.mdb */
	bool writer;
	uint32_t page_size;
	uint64_t reserved; /* bytes from the start of the file that have blocks, as far as we made
			      sure */
	/* One ended read transaction is kept for the next one: renewing is 4 times cheaper. */
	_Atomic int idle;
	MDB_txn *idle_txn;
	MDB_cursor *idle_cursor;
	_Atomic int active; /* read transactions of this process */
};

static int lmdb_error(int rc)
{
	switch (rc) {
	case MDB_SUCCESS:
		return 0;
	case MDB_NOTFOUND:
		return ERR_NOT_FOUND;
	case MDB_MAP_FULL:
	case ENOSPC:
	case EDQUOT:
		return ERR_FULL;
	case MDB_READERS_FULL:
	case MDB_MAP_RESIZED:
	case EBUSY:
	case EAGAIN:
		return ERR_BUSY;
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_INVALID:
	case MDB_PANIC:
	case MDB_BAD_VALSIZE:
	case MDB_INCOMPATIBLE:
		return ERR_CORRUPT;
	case MDB_VERSION_MISMATCH:
		return ERR_FORMAT;
	}
	if (rc > 0)
		return err_from_errno(rc);
	return ERR_IO;
}

/* Translates, and says the original of what ERR_IO hides. */
static int store_error(const struct store *store, const char *what, int rc)
{
	int err = lmdb_error(rc);

	if (err == ERR_IO && store->writer)
		log_error("store.io", "call=%s code=%d text=\"%s\"", what, rc, mdb_strerror(rc));
	return err;
}

static void txn_fail(struct store_txn *txn, const char *what, int rc)
{
	if (rc != MDB_SUCCESS && txn->err == 0)
		txn->err = store_error(txn->store, what, rc);
}

/* --- opening ------------------------------------------------------------------------------- */

/*
 * Creates `name` or takes what is there, with exactly `mode`, and with blocks for
 * its first `blocks` bytes.  *size is the size it had.
 */
static int prepare_file(const char *dir, const char *name, mode_t mode, off_t blocks, off_t *size)
{
	char path[4096];
	struct stat st;
	int fd, errnum = 0;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return ERR_INVALID;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mode);
	if (fd < 0)
		return err_from_errno(errno);
	if (fstat(fd, &st) != 0 || fchmod(fd, mode) != 0) {
		errnum = errno;
	} else if (!S_ISREG(st.st_mode)) {
		errnum = EINVAL;
	} else {
		*size = st.st_size;
		while (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, blocks) != 0) {
			errnum = errno;
			if (errnum != EINTR)
				break;
			errnum = 0;
		}
	}
	close(fd);
	if (errnum == EOPNOTSUPP)
		log_error("store.no_fallocate",
			"path=\"%s\" text=\"this file system cannot reserve space; put run_dir on "
			"tmpfs, ext4 or xfs\"",
			path);
	if (errnum == ENOSPC || errnum == EDQUOT)
		return ERR_FULL;
	return errnum ? err_from_errno(errnum) : 0;
}

/* Core dumps would otherwise hold the whole store.  Best effort: LMDB does not tell where its map
 * is. */
static void keep_out_of_cores(const struct store *store)
{
	char line[512], path[8];
	unsigned long from, to, inode;
	struct stat st;
	FILE *maps;

	if (fstat(store->fd, &st) != 0 || !(maps = fopen("/proc/self/maps", "re")))
		return;
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu %7s", &from, &to, &inode, path) == 4 &&
			inode == st.st_ino && strstr(line, "/" DATA_NAME))
			madvise((void *)from, to - from, MADV_DONTDUMP);
	fclose(maps);
}

/* What every handle needs to know once LMDB has the files. */
static int store_attach(struct store *store, off_t size_before)
{
	MDB_envinfo info;
	MDB_stat stat;
	MDB_txn *txn;
	int rc;

	rc = mdb_env_get_fd(store->env, &store->fd);
	if (rc == 0)
		rc = mdb_env_info(store->env, &info);
	if (rc == 0)
		rc = mdb_env_stat(store->env, &stat);
	if (rc != 0)
		return store_error(store, "env_info", rc);
	store->page_size = stat.ms_psize;
	if (size_before > 0 && (uint64_t)size_before / stat.ms_psize <= info.me_last_pgno)
		return ERR_CORRUPT; /* cut short: pages in use would read as zeros, or fault */
	rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
	if (rc != 0)
		return store_error(store, "txn_begin", rc);
	rc = mdb_dbi_open(txn, NULL, 0, &store->dbi);
	mdb_txn_abort(txn);
	if (rc != 0)
		return store_error(store, "dbi_open", rc);
	keep_out_of_cores(store);
	return 0;
}

int store_open_writer(
	const char *path, uint64_t map_bytes, uint32_t readers_max, struct store **out)
{
	struct store *store;
	off_t data_size = 0, lock_size;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int err, rc;

	*out = NULL;
	if (readers_max == 0 || map_bytes < 16 * page)
		return ERR_INVALID;
	err = prepare_file(path, DATA_NAME, 0640, (off_t)(16 * page), &data_size);
	if (!err)
		err = prepare_file(path, LOCK_NAME, 0660,
			LOCK_HEAD_SIZE + (off_t)readers_max * LOCK_SLOT_SIZE, &lock_size);
	if (err)
		return err;
	store = calloc(1, sizeof(*store));
	if (!store)
		return ERR_NOMEM;
	store->writer = true;
	rc = mdb_env_create(&store->env);
	if (rc == 0)
		rc = mdb_env_set_mapsize(store->env, map_bytes / page * page);
	if (rc == 0)
		rc = mdb_env_set_maxreaders(store->env, readers_max);
	if (rc == 0)
		rc = mdb_env_open(store->env, path,
			MDB_WRITEMAP | MDB_NOSYNC | MDB_NOMETASYNC | MDB_NOTLS, 0640);
	err = rc ? store_error(store, "env_open", rc) : store_attach(store, data_size);
	if (err)
		store_close(&store);
	*out = store;
	return err;
}

/* Both files must be there: LMDB would make a second lock file for a store that has lost its own.
 */
static int check_files(const char *dir, off_t *data_size)
{
	static const char *const names[] = {LOCK_NAME, DATA_NAME};
	char path[4096];
	struct stat st;

	for (int i = 0; i < 2; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", dir, names[i]) >= (int)sizeof(path))
			return ERR_INVALID;
		if (lstat(path, &st) != 0)
			return err_from_errno(errno);
		if (!S_ISREG(st.st_mode))
			return ERR_FORMAT;
	}
	*data_size = st.st_size;
	return st.st_size < 2 * sysconf(_SC_PAGESIZE) ? ERR_CORRUPT : 0;
}

int store_open_reader(const char *path, struct store **out)
{
	struct store *store = NULL;
	struct timespec pause = {.tv_nsec = 1000000};
	off_t data_size = 0;
	int err = 0, rc = 0;

	*out = NULL;
	for (int tries = 0; tries < OPEN_RETRY_MS; tries++) {
		err = check_files(path, &data_size);
		if (err)
			return err;
		store = calloc(1, sizeof(*store));
		if (!store)
			return ERR_NOMEM;
		rc = mdb_env_create(&store->env);
		if (rc == 0)
			rc = mdb_env_open(store->env, path, MDB_RDONLY | MDB_NOTLS, 0660);
		err = rc ? store_error(store, "env_open", rc) : store_attach(store, data_size);
		if (!err)
			break;
		store_close(&store);
		/* Others are opening or closing at this moment: passes. */
		if (rc != EAGAIN && rc != EINTR && rc != EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	*out = store;
	return err;
}

void store_close(struct store **storep)
{
	struct store *store = *storep;

	if (!store)
		return;
	if (store->idle_cursor)
		mdb_cursor_close(store->idle_cursor);
	if (store->idle_txn)
		mdb_txn_abort(store->idle_txn);
	if (store->env)
		mdb_env_close(store->env);
	free(store);
	*storep = NULL;
}

/* --- transactions -------------------------------------------------------------------------- */

void store_begin(struct store_txn *txn, struct store *store)
{
	MDB_txn *handle = NULL;

	must(store->writer);
	*txn = (struct store_txn){.store = store, .write = true};
	txn_fail(txn, "txn_begin", mdb_txn_begin(store->env, NULL, 0, &handle));
	txn->txn = handle;
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

			keep_out_of_cores(store);
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
	rc = begin_read_handle(store, &handle);
	if (rc == 0 && cursor)
		rc = mdb_cursor_renew(handle, cursor);
	if (rc != 0) {
		drop_read_handle(handle, cursor);
		atomic_fetch_sub(&store->active, 1);
		txn_fail(txn, "txn_begin", rc);
		return;
	}
	txn->txn = handle;
	txn->cursor = cursor;
}

static void end_read(struct store_txn *txn)
{
	struct store *store = txn->store;

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
	txn_fail(txn, "txn_commit", mdb_txn_commit(handle));
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
		txn_fail(txn, what, rc);
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

bool store_seek(struct store_txn *txn, struct store_bytes key, struct store_bytes *found_key,
	struct store_bytes *value)
{
	MDB_val k = to_val(key);
	MDB_cursor *cursor = NULL;

	if (!txn->err && !txn->cursor) {
		txn_fail(txn, "cursor_open", mdb_cursor_open(txn->txn, txn->store->dbi, &cursor));
		txn->cursor = cursor;
	}
	return !txn->err && cursor_get(txn, &k, MDB_SET_RANGE, found_key, value);
}

bool store_next(struct store_txn *txn, struct store_bytes *key, struct store_bytes *value)
{
	MDB_val k;

	return !txn->err && cursor_get(txn, &k, MDB_NEXT, key, value);
}

void store_put(struct store_txn *txn, struct store_bytes key, struct store_bytes value)
{
	MDB_val k = to_val(key), v = to_val(value);

	if (!txn->err)
		txn_fail(txn, "put", mdb_put(txn->txn, txn->store->dbi, &k, &v, 0));
}

void store_put_current(struct store_txn *txn, struct store_bytes key, struct store_bytes value)
{
	MDB_val k = to_val(key), v = to_val(value);

	if (!txn->err)
		txn_fail(txn, "cursor_put", mdb_cursor_put(txn->cursor, &k, &v, MDB_CURRENT));
}

void store_delete(struct store_txn *txn, struct store_bytes key)
{
	MDB_val k = to_val(key);

	if (!txn->err)
		found(txn, "del", mdb_del(txn->txn, txn->store->dbi, &k, NULL));
}

/* --- space --------------------------------------------------------------------------------- */

struct reader_facts {
	uint32_t slots;
	size_t oldest;
};

/* One line of mdb_reader_list: "<pid> <thread> <transaction or ->". */
static int read_reader_line(const char *line, void *arg)
{
	struct reader_facts *facts = arg;
	size_t txnid;
	int pid, n;

	n = sscanf(line, "%d %*x %zu", &pid, &txnid);
	if (n >= 1)
		facts->slots++;
	if (n == 2 && txnid < facts->oldest)
		facts->oldest = txnid;
	return 0;
}

static struct reader_facts list_readers(struct store *store)
{
	struct reader_facts facts = {.oldest = SIZE_MAX};

	mdb_reader_list(store->env, read_reader_line, &facts);
	return facts;
}

/*
 * Pages on the free list that were freed by transactions before `before`; stops
 * counting when there are `enough`.  Only read transactions may look there.
 */
static uint64_t free_pages(struct store *store, size_t before, uint64_t enough)
{
	struct store_txn txn;
	MDB_cursor *cursor;
	MDB_val k, v;
	size_t txnid, n;
	uint64_t sum = 0;

	store_begin_read(&txn, store);
	if (!txn.err && mdb_cursor_open(txn.txn, FREE_LIST, &cursor) == 0) {
		while (sum < enough && mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
			if (k.mv_size != sizeof(txnid) || v.mv_size < sizeof(n))
				break;
			memcpy(&txnid, k.mv_data, sizeof(txnid));
			memcpy(&n, v.mv_data, sizeof(n));
			if (txnid >= before)
				break;
			sum += n;
		}
		mdb_cursor_close(cursor);
	}
	store_abort(&txn);
	return sum;
}

static int reserve_to(struct store *store, uint64_t end)
{
	int rc;

	do {
		rc = fallocate(store->fd, FALLOC_FL_KEEP_SIZE, (off_t)store->reserved,
			(off_t)(end - store->reserved));
	} while (rc != 0 && errno == EINTR);
	if (rc == 0)
		store->reserved = end;
	return rc == 0 ? 0 : errno;
}

void store_reserve(struct store_txn *txn, uint64_t pages)
{
	struct store *store = txn->store;
	MDB_envinfo info;
	uint64_t first, reusable, need, end, step = (uint64_t)RESERVE_STEP * store->page_size;
	size_t oldest;
	int errnum;

	if (txn->err)
		return;
	mdb_env_info(store->env, &info);
	first = info.me_last_pgno + 1;
	if ((first + pages) * store->page_size <= store->reserved)
		return;
	oldest = list_readers(store).oldest;
	reusable =
		free_pages(store, oldest < info.me_last_txnid ? oldest : info.me_last_txnid, pages);
	/* The new free-list records want neighbouring pages, 512 numbers a page: from the end. */
	need = (pages > reusable ? pages - reusable : 0) + pages / 128 + 8;
	end = (first + need) * store->page_size;
	if (end > info.me_mapsize)
		end = info.me_mapsize;
	if (end <= store->reserved)
		return;
	errnum = end + step <= info.me_mapsize ? reserve_to(store, end + step) : ENOSPC;
	if (errnum != 0)
		errnum = reserve_to(store, end);
	if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG)
		txn->err = ERR_FULL;
	else if (errnum != 0)
		txn_fail(txn, "fallocate", errnum);
}

void store_check_readers(struct store *store)
{
	int dead;

	mdb_reader_check(store->env, &dead);
}

void store_facts(struct store *store, struct store_facts *facts)
{
	struct reader_facts readers = list_readers(store);
	MDB_envinfo info;

	mdb_env_info(store->env, &info);
	*facts = (struct store_facts){
		.map_bytes = info.me_mapsize,
		.used_bytes = ((uint64_t)info.me_last_pgno + 1) * store->page_size,
		.free_pages = free_pages(store, SIZE_MAX, UINT64_MAX),
		.last_txn = info.me_last_txnid,
		.oldest_reader =
			readers.oldest < info.me_last_txnid ? readers.oldest : info.me_last_txnid,
		.readers = readers.slots,
		.readers_max = info.me_maxreaders,
		.page_size = store->page_size,
	};
}

const char *store_library(void)
{
	return mdb_version(NULL, NULL, NULL);
}
