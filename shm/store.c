/*
 * store.c - the files of a store: opening and closing.
 *
 *	data.mdb  0640   the map: readers cannot write it
 *	lock.mdb  0660   LMDB's reader slots: readers write here
 *
 * The lock file gets all its blocks before LMDB opens it, so that a reader that
 * takes a slot on a full file system cannot fault.  It is opened by us that one
 * time, before LMDB has it, and never again: closing any descriptor of it would
 * drop LMDB's fcntl locks in this process.
 *
 * Runs in: worker (writer), all readers.  Blocks in: store_open_reader, at most
 * OPEN_RETRY_MS.
 */
#include "shm/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/log.h"

#define DATA_NAME      "data.mdb"
#define LOCK_NAME      "lock.mdb"
#define OPEN_RETRY_MS  100
#define LOCK_SLOT_SIZE 64 /* of one reader in lock.mdb */
#define LOCK_HEAD_SIZE 4096

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
	case MDB_CURSOR_FULL: /* a tree that is too deep is none of ours */
	case MDB_PAGE_FULL:
		return ERR_CORRUPT;
	case MDB_VERSION_MISMATCH:
		return ERR_FORMAT;
	}
	if (rc > 0)
		return err_from_errno(rc);
	return ERR_IO;
}

int store_error(const struct store *store, const char *what, int rc)
{
	int err = lmdb_error(rc);

	if (err == ERR_IO && store->writer)
		log_error("store.io", "call=%s code=%d text=\"%s\"", what, rc, mdb_strerror(rc));
	return err;
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
	if (fd < 0) /* what is no file of ours is no store */
		return errno == ELOOP || errno == EISDIR ? ERR_CORRUPT : err_from_errno(errno);
	if (fstat(fd, &st) != 0 || (S_ISREG(st.st_mode) && fchmod(fd, mode) != 0)) {
		errnum = errno;
	} else if (!S_ISREG(st.st_mode)) {
		close(fd);
		return ERR_CORRUPT;
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
void store_keep_out_of_cores(const struct store *store)
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

/* --- order ----------------------------------------------------------------------------------- */

static uint64_t eight_bytes(const void *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return __builtin_bswap64(value);
}

/*
 * A descent compares a dozen keys, most of them blocks' (13 bytes): two loads instead of a call.
 * The second one may take bytes again that the first one has found to be equal.
 */
int store_compare(const MDB_val *a, const MDB_val *b)
{
	size_t len = a->mv_size < b->mv_size ? a->mv_size : b->mv_size;
	const char *p = a->mv_data, *q = b->mv_data;
	int result;

	if (len >= 8 && len <= 16) {
		uint64_t x = eight_bytes(p), y = eight_bytes(q);

		if (x == y) {
			x = eight_bytes(p + len - 8);
			y = eight_bytes(q + len - 8);
		}
		result = (x > y) - (x < y);
	} else {
		result = memcmp(p, q, len);
	}
	return result ? result : (a->mv_size > b->mv_size) - (a->mv_size < b->mv_size);
}

/* What every handle needs to know once LMDB has the files; `size_before` is data.mdb's, for a
 * writer. */
static int store_attach(struct store *store, off_t size_before)
{
	MDB_envinfo info;
	MDB_stat stat;
	MDB_txn *txn;
	struct stat st;
	int dead, rc;

	rc = mdb_env_get_fd(store->env, &store->fd);
	if (rc == 0)
		rc = mdb_env_info(store->env, &info);
	if (rc == 0)
		rc = mdb_env_stat(store->env, &stat);
	if (rc != 0)
		return store_error(store, "env_info", rc);
	store->page_size = stat.ms_psize;
	if (!store->writer && fstat(store->fd, &st) == 0)
		size_before = st.st_size; /* only a writer's opening changes it, and only upwards */
	if (size_before > 0 && (uint64_t)size_before / stat.ms_psize <= info.me_last_pgno)
		return ERR_CORRUPT; /* cut short: pages in use would read as zeros, or fault */
	rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
	if (rc == MDB_READERS_FULL && mdb_reader_check(store->env, &dead) == 0)
		rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
	if (rc != 0)
		return store_error(store, "txn_begin", rc);
	rc = mdb_dbi_open(txn, NULL, 0, &store->dbi);
	if (rc == 0)
		rc = mdb_set_compare(txn, store->dbi, store_compare);
	mdb_txn_abort(txn);
	if (rc != 0)
		return store_error(store, "dbi_open", rc);
	store_keep_out_of_cores(store);
	return 0;
}

static bool stat_file(const char *dir, const char *name, struct stat *st)
{
	char path[4096];

	return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
	       lstat(path, st) == 0;
}

/*
 * What LMDB has written there when it made the file; whoever opens the store compares it.  The
 * descriptor stays until LMDB has closed its own: to close any ends all our locks on the file.
 */
static uint64_t lock_head(const struct store *store)
{
	uint64_t head = 0;

	return pread(store->lock_fd, &head, sizeof(head), 0) == sizeof(head) ? head : 0;
}

static int keep_lock_head(struct store *store, const char *path)
{
	char name[4096];

	if (snprintf(name, sizeof(name), "%s/%s", path, LOCK_NAME) >= (int)sizeof(name))
		return ERR_INVALID;
	store->lock_fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (store->lock_fd < 0)
		return err_from_errno(errno);
	store->lock_head = lock_head(store);
	return 0;
}

int store_open_writer(
	const char *path, uint64_t map_bytes, uint32_t readers_max, struct store **out)
{
	struct store *store;
	struct stat lock;
	off_t data_size = 0, lock_size = 0;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int err, rc;

	*out = NULL;
	if (readers_max == 0 || map_bytes < 16 * page)
		return ERR_INVALID;
	err = prepare_file(path, DATA_NAME, 0640, (off_t)(16 * page), &data_size);
	if (!err)
		err = prepare_file(path, LOCK_NAME, 0660,
			LOCK_HEAD_SIZE + (off_t)readers_max * LOCK_SLOT_SIZE, &lock_size);
	if (!err && data_size > 0 && lock_size == 0)
		err = ERR_CORRUPT;
	if (!err && !stat_file(path, LOCK_NAME, &lock))
		err = err_from_errno(errno);
	if (err)
		return err;
	FAULT("store.prepared");
	store = calloc(1, sizeof(*store));
	if (!store)
		return ERR_NOMEM;
	store->writer = true;
	store->lock_fd = -1;
	store->lock_dev = lock.st_dev;
	store->lock_ino = lock.st_ino;
	rc = mdb_env_create(&store->env);
	if (rc == 0)
		rc = mdb_env_set_mapsize(store->env, map_bytes / page * page);
	if (rc == 0)
		rc = mdb_env_set_maxreaders(store->env, readers_max);
	if (rc == 0)
		rc = mdb_env_open(store->env, path,
			MDB_WRITEMAP | MDB_NOSYNC | MDB_NOMETASYNC | MDB_NOTLS, 0640);
	FAULT("store.opened");
	err = rc ? store_error(store, "env_open", rc) : store_attach(store, data_size);
	if (!err)
		err = keep_lock_head(store, path);
	if (err)
		store_close(&store);
	*out = store;
	return err;
}

bool store_is_in_place(const struct store *store, const char *path)
{
	struct stat data, lock, ours;
	MDB_envinfo info;

	/* A call that fails for another reason says nothing: the next look will. */
	if (!stat_file(path, DATA_NAME, &data) || !stat_file(path, LOCK_NAME, &lock))
		return errno != ENOENT && errno != ENOTDIR;
	if (fstat(store->fd, &ours) != 0 || mdb_env_info(store->env, &info) != 0)
		return true;
	return data.st_dev == ours.st_dev && data.st_ino == ours.st_ino &&
	       lock.st_dev == store->lock_dev && lock.st_ino == store->lock_ino &&
	       lock_head(store) == store->lock_head &&
	       (uint64_t)ours.st_size / store->page_size > info.me_last_pgno;
}

/* Both files must be there: LMDB would make a second lock file for a store that has lost its own.
 */
static int check_files(const char *dir)
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
	return st.st_size < 2 * sysconf(_SC_PAGESIZE) ? ERR_CORRUPT : 0;
}

int store_open_reader(const char *path, struct store **out)
{
	struct store *store = NULL;
	struct timespec pause = {.tv_nsec = 1000000};
	int err = 0, rc = 0;

	*out = NULL;
	for (int tries = 0; tries < OPEN_RETRY_MS; tries++) {
		err = check_files(path);
		if (err)
			return err;
		store = calloc(1, sizeof(*store));
		if (!store)
			return ERR_NOMEM;
		rc = mdb_env_create(&store->env);
		if (rc == 0)
			rc = mdb_env_open(store->env, path, MDB_RDONLY | MDB_NOTLS, 0660);
		FAULT("reader.opened");
		err = rc ? store_error(store, "env_open", rc) : store_attach(store, 0);
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
	if (store->writer && store->lock_fd >= 0)
		close(store->lock_fd);
	free(store);
	*storep = NULL;
}
