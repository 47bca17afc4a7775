/*
 * usage_seal.c - what says of a value that it is whole, and in its place.
 *
 *	any value   bytes | check:8        XXH3 of the store's seed, the key and the bytes
 *	block       check:8                of seed, kind, tenant, from, upper, n and the last hash
 *	   entry i  check:2 of the 8 of    seed, kind, tenant, hash[i - 1], hash[i], entry i
 *
 * LMDB's pages have none.  Zeroed, swapped with another, of another store, written over:
 * whoever reads the value sees it.  A block is not checked as a whole, because a look-up and
 * an update read one stream of 84: each has its own.  It covers the hash before it (before
 * the first one: where the block begins), so the one that follows a hash that is not there
 * proves that it is not there.  What is in a block and not looked at keeps its check as it
 * is: an update does not launder its neighbours.
 *
 * The sum of all checks is in meta, so what has vanished, or is an older copy of itself, is
 * found by adding up (usage_scrub.c).
 *
 * Against accidents, not against somebody who can write the file: he can compute them.
 *
 * Runs in: worker, readers.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <string.h>
#include <xxhash.h>

#include "shm/check.h"
#include "shm/err.h"

bool usage_corrupt(struct store_txn *txn)
{
	if (!txn->err)
		txn->err = ERR_CORRUPT;
	return false;
}

/* --- the seed -------------------------------------------------------------------------------- */

void seal_set_seed(struct store_txn *txn, const struct usage_meta *meta)
{
	if (store_seed(txn->store) == 0)
		store_set_seed(
			txn->store, XXH3_64bits(meta->incarnation, sizeof(meta->incarnation)) | 1);
}

uint64_t seal_seed(struct store_txn *txn)
{
	uint64_t seed = store_seed(txn->store);
	struct usage_meta meta;

	if (seed != 0 || txn->err)
		return seed;
	if (usage_read_meta(txn, &meta) != 0)
		usage_corrupt(txn);
	return store_seed(txn->store);
}

/* --- small values, rows ---------------------------------------------------------------------- */

static uint64_t check_of(
	struct store_txn *txn, struct store_bytes key, const void *value, size_t len)
{
	/* Meta has the seed, and says itself whose it is. */
	uint64_t seed = *(const char *)key.data == KEY_META ? 0 : seal_seed(txn);

	return XXH3_64bits_withSeed(value, len, XXH3_64bits_withSeed(key.data, key.len, seed));
}

uint64_t seal_put_in_place(
	struct store_txn *txn, const struct usage_key *key, void *value, size_t len)
{
	uint64_t check = check_of(txn, key_bytes(key), value, len);

	memcpy((char *)value + len, &check, sizeof(check));
	store_put(txn, key_bytes(key), (struct store_bytes){.data = value, .len = len + SEAL_SIZE});
	return check;
}

void seal_put(struct store_txn *txn, const struct usage_key *key, const void *value, size_t len)
{
	char buf[SEAL_VALUE_MAX + SEAL_SIZE];

	must(len <= SEAL_VALUE_MAX);
	if (len)
		memcpy(buf, value, len);
	seal_put_in_place(txn, key, buf, len);
}

bool seal_open(struct store_txn *txn, struct store_bytes key, struct store_bytes *value)
{
	if (value->len < SEAL_SIZE)
		return usage_corrupt(txn);
	value->len -= SEAL_SIZE;
	if (check_of(txn, key, value->data, value->len) != seal_of(*value) || txn->err)
		return usage_corrupt(txn);
	return true;
}

uint64_t seal_of(struct store_bytes value)
{
	uint64_t check;

	memcpy(&check, (const char *)value.data + value.len, sizeof(check));
	return check;
}

bool seal_get(struct store_txn *txn, const struct usage_key *key, struct store_bytes *value)
{
	return store_get(txn, key_bytes(key), value) && seal_open(txn, key_bytes(key), value);
}

/* --- blocks ---------------------------------------------------------------------------------- */

uint64_t block_seed(uint64_t store_seed, char kind, uint32_t tenant)
{
	return seal_fold(store_seed ^ SEAL_K0, ((uint64_t)(uint8_t)kind << 32 | tenant) ^ SEAL_K1);
}

static uint64_t head_of(const struct usage_block *block, unsigned n, uint64_t seed, uint64_t upper)
{
	uint64_t last = n > 0 ? block->hash[n - 1] : 0;
	uint64_t shape = (uint64_t)n << 8 | block->version;

	uint64_t sum = seal_fold(block->from ^ SEAL_K0, upper ^ SEAL_K1) ^
		       seal_fold(last ^ SEAL_K2, shape ^ SEAL_K3);

	return seal_fold(sum ^ SEAL_K4, seed);
}

bool block_head_ok(const struct usage_block *block, unsigned n, uint64_t seed, uint64_t upper)
{
	return block->check == head_of(block, n, seed, upper);
}

void block_seal_head(struct usage_block *block, uint64_t seed, uint64_t upper)
{
	block->check = head_of(block, block->n, seed, upper);
}
