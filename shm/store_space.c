/*
 * store_space.c - the reserve that makes WRITEMAP safe, and facts about space and readers.
 *
 *	data.mdb  |########################|=========|.............................|
 *	          0          last page in use  reserved                      map_bytes
 *	                                       (fallocate)         (sparse: no blocks)
 *
 * WRITEMAP writes through memory, so a page that the file system cannot supply is
 * a SIGBUS.  store_reserve turns that into ERR_FULL: LMDB takes single pages from its
 * free list first, then from the end; neighbouring ones from the end as a rule; and
 * everything below `reserved` has blocks.
 *
 * Runs in: worker; facts also in readers.  Blocks in: nowhere.
 */
#include "shm/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "shm/fault.h"

#define RESERVE_STEP 64 /* pages: small transactions do not call fallocate each time */
#define FREE_LIST    0	/* LMDB's number for its database of free pages */
#define RUN_SLACK    4	/* pages */

#define NUMBERS_PER_PAGE 511 /* of pages, in a record of the free list */

struct reader_facts {
	uint32_t slots;
	int oldest_pid; /* 0 = none reads */
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
	if (n == 2 && txnid < facts->oldest) {
		facts->oldest = txnid;
		facts->oldest_pid = pid;
	}
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
 * counting when there are `enough`.
 */
static uint64_t count_free(struct store_txn *txn, size_t before, uint64_t enough)
{
	MDB_cursor *cursor;
	MDB_val k, v;
	size_t txnid, n;
	uint64_t sum = 0;

	if (txn->err || mdb_cursor_open(txn->txn, FREE_LIST, &cursor) != 0)
		return 0;
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
	return sum;
}

/*
 * What the free list needs for itself on top.  Records that were used from are
 * written anew, one per page as long as there are transaction numbers left to name
 * them; what this transaction frees is one record, which may be written three times
 * while it grows.
 */
static void add_free_list(struct store_need *need, struct store_txn *read, size_t last_txn)
{
	uint64_t records, freed;
	MDB_stat stat = {0};

	if (!read->err)
		mdb_stat(read->txn, FREE_LIST, &stat);
	records = stat.ms_overflow_pages + stat.ms_entries / 2;
	need->pages += stat.ms_branch_pages + stat.ms_leaf_pages + records;
	freed = need->pages + need->runs + need->freed;
	need->runs += 3 * (freed / NUMBERS_PER_PAGE + 1) + RUN_SLACK;
	if (records > last_txn / 2)
		need->runs += records;
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

/* Bytes from the start of the file that must have blocks; at most the map. */
static uint64_t end_needed(struct store_txn *txn, struct store_need need, const MDB_envinfo *info)
{
	struct store *store = txn->store;
	uint64_t first = info->me_last_pgno + 1;
	struct store_txn read; /* only these may look at the free list */
	uint64_t reusable = 0, end;
	size_t before;

	store_begin_read(&read, store);
	add_free_list(&need, &read, info->me_last_txnid);
	end = (first + need.pages + need.runs) * store->page_size;
	if (end > store->reserved) {
		before = list_readers(store).oldest;
		if (before > info->me_last_txnid)
			before = info->me_last_txnid;
		reusable = count_free(&read, before, need.pages);
		if (reusable > need.pages)
			reusable = need.pages;
		end -= reusable * store->page_size;
	}
	store_abort(&read);
	return end < info->me_mapsize ? end : info->me_mapsize;
}

void store_reserve(struct store_txn *txn, const struct store_need *need)
{
	struct store *store = txn->store;
	uint64_t end, step = (uint64_t)RESERVE_STEP * store->page_size;
	MDB_envinfo info;
	int errnum;

	if (txn->err)
		return;
	mdb_env_info(store->env, &info);
	end = end_needed(txn, *need, &info);
	if (end <= store->reserved)
		return;
	FAULT("store.reserving");
	errnum = end + step <= info.me_mapsize ? reserve_to(store, end + step) : ENOSPC;
	if (errnum != 0)
		errnum = reserve_to(store, end);
	FAULT("store.reserved");
	if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG)
		txn->err = ERR_FULL;
	else if (errnum != 0)
		store_txn_fail(txn, "fallocate", errnum);
}

void store_check_readers(struct store *store)
{
	int dead;

	mdb_reader_check(store->env, &dead);
}

void store_facts(struct store *store, struct store_facts *facts)
{
	struct reader_facts readers = list_readers(store);
	struct store_txn read;
	uint64_t free_pages;
	MDB_envinfo info;

	store_begin_read(&read, store);
	free_pages = count_free(&read, SIZE_MAX, UINT64_MAX);
	store_abort(&read);
	mdb_env_info(store->env, &info);
	*facts = (struct store_facts){
		.map_bytes = info.me_mapsize,
		.used_bytes = ((uint64_t)info.me_last_pgno + 1) * store->page_size,
		.free_pages = free_pages,
		.last_txn = info.me_last_txnid,
		.oldest_reader =
			readers.oldest < info.me_last_txnid ? readers.oldest : info.me_last_txnid,
		.oldest_pid =
			readers.oldest < info.me_last_txnid ? (uint32_t)readers.oldest_pid : 0,
		.readers = readers.slots,
		.readers_max = info.me_maxreaders,
		.page_size = store->page_size,
	};
}
