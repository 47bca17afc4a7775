/*
 * usage_find.c - many streams of one tenant, looked up side by side.
 *
 *	seek     LMDB: which block                        --> fetch its head
 *	guess    bounds and n: about where in it          --> fetch that hash and its entry
 *	search   the place                                --> fetch the entry that is there
 *	check    the entry, or the one that follows it    --> last seen
 *
 * A stream of a large store lies in memory that no cache has.  One after the other each
 * look-up waits three or four times; of AT_ONCE of them, step by step, the waits are the same
 * ones.  What is looked at, and in which order it is trusted, is as in usage_find_stream.
 *
 * Runs in: readers.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#define AT_ONCE 16

struct look_up {
	struct found_block in;
	unsigned at;
};

static void fetch(const void *place)
{
	__builtin_prefetch(place, 0, 3);
}

/* 40 bytes: on one line, or on two. */
static void fetch_entry(const struct usage_block *block, unsigned at)
{
	fetch(&block->entry[at]);
	fetch((const char *)(&block->entry[at] + 1) - 1);
}

/* Hashes are spread evenly as a rule. */
static unsigned guess(const struct found_block *in, uint64_t hash)
{
	double part =
		(double)(hash - in->block->from) / ((double)(in->upper - in->block->from) + 1);
	unsigned at = (unsigned)(part * in->n);

	return at < in->n ? at : in->n - 1;
}

static void seek_all(struct store_txn *txn, uint32_t tenant, const uint64_t *hash, size_t n,
	struct look_up *looks)
{
	for (size_t i = 0; i < n; i++) {
		looks[i].at = 0;
		if (block_seek(txn, tenant, hash[i], &looks[i].in))
			fetch(looks[i].in.block);
		else
			looks[i].in.block = NULL;
	}
}

static void guess_all(struct store_txn *txn, uint32_t tenant, const uint64_t *hash, size_t n,
	struct look_up *looks)
{
	for (size_t i = 0; i < n; i++) {
		struct found_block *in = &looks[i].in;

		if (!in->block)
			continue;
		if (!block_enter(txn, tenant, hash[i], in)) {
			in->block = NULL;
		} else if (in->n > 0) {
			looks[i].at = guess(in, hash[i]);
			fetch(&in->block->hash[looks[i].at]);
			fetch_entry(in->block, looks[i].at);
		}
	}
}

static void search_all(const uint64_t *hash, size_t n, struct look_up *looks)
{
	for (size_t i = 0; i < n; i++) {
		struct found_block *in = &looks[i].in;

		if (!in->block || in->n == 0)
			continue;
		looks[i].at = block_search_from(in->block, in->n, looks[i].at, hash[i]);
		if (looks[i].at < in->n)
			fetch_entry(in->block, looks[i].at);
	}
}

void usage_find_streams(struct store_txn *txn, uint32_t tenant, const uint64_t *hash, size_t n,
	int64_t *last_seen_s)
{
	struct look_up looks[AT_ONCE];
	struct usage_stream stream;

	for (size_t done = 0; done < n; done += AT_ONCE) {
		size_t now = n - done < AT_ONCE ? n - done : AT_ONCE;

		seek_all(txn, tenant, hash + done, now, looks);
		guess_all(txn, tenant, hash + done, now, looks);
		search_all(hash + done, now, looks);
		for (size_t i = 0; i < now; i++) {
			bool known = looks[i].in.block &&
				     block_copy(txn, &looks[i].in, looks[i].at, &stream) &&
				     stream.hash == hash[done + i];

			last_seen_s[done + i] = known ? (int64_t)stream.entry.last_seen_s : -1;
		}
	}
}
