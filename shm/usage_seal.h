/*
 * usage_seal.h - what says of a value that it is whole, and in its place: for the usage_*.c alone.
 */
#ifndef TALLY_SHM_USAGE_SEAL_H
#define TALLY_SHM_USAGE_SEAL_H

#include "shm/usage.h"

struct usage_key;

#define SEAL_SIZE      8
#define SEAL_VALUE_MAX 1024

/* Sets ERR_CORRUPT, unless there is an error already.  false. */
bool usage_corrupt(struct store_txn *txn);

/* What makes the checks of this store its own.  0, with txn->err: there is none. */
uint64_t seal_seed(struct store_txn *txn);
void seal_set_seed(struct store_txn *txn, const struct usage_meta *meta);

/* Puts the value and, behind it, its check. */
void seal_put(struct store_txn *txn, const struct usage_key *key, const void *value, size_t len);

/* The same where SEAL_SIZE bytes behind `len` are free for it.  Gives the check. */
uint64_t seal_put_in_place(
	struct store_txn *txn, const struct usage_key *key, void *value, size_t len);

/* Takes the check off what was found under `key`; false with txn->err when it is not right. */
bool seal_open(struct store_txn *txn, struct store_bytes key, struct store_bytes *value);

/* The check of a value that was opened. */
uint64_t seal_of(struct store_bytes value);

/* store_get and seal_open. */
bool seal_get(struct store_txn *txn, const struct usage_key *key, struct store_bytes *value);

/* For blocks of one kind and tenant. */
uint64_t block_seed(uint64_t store_seed, char kind, uint32_t tenant);

/* Digits of pi. */
#define SEAL_K0 UINT64_C(0x243f6a8885a308d3)
#define SEAL_K1 UINT64_C(0x13198a2e03707344)
#define SEAL_K2 UINT64_C(0xa4093822299f31d0)
#define SEAL_K3 UINT64_C(0x082efa98ec4e6c89)
#define SEAL_K4 UINT64_C(0x452821e638d01377)
#define SEAL_K5 UINT64_C(0xbe5466cf34e90c6c)
#define SEAL_K6 UINT64_C(0xc0ac29b7c97c50dd)

__extension__ typedef unsigned __int128 seal_product;

/* The halves of a product put together: each bit of it depends on all of both. */
static inline uint64_t seal_fold(uint64_t a, uint64_t b)
{
	seal_product product = (seal_product)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * Of entry i as it is now: what is added up in meta.  Here, because it is computed twice for each
 * stream that changes.
 */
static inline uint64_t block_sum(const struct usage_block *block, unsigned i, uint64_t seed)
{
	const struct usage_entry *e = &block->entry[i];
	uint64_t before = i > 0 ? block->hash[i - 1] : block->from - 1;
	uint64_t times = (uint64_t)e->last_seen_s << 32 | e->last_produced_s;
	uint64_t first = (uint64_t)e->bucket[0] << 16 | (uint64_t)e->policy << 6 | e->flags;
	uint64_t second = (uint64_t)e->bucket[1] << 32 | e->bucket[2];
	uint64_t third = (uint64_t)e->bucket[3] << 32 | e->bucket[4];
	uint64_t sum = seal_fold(block->hash[i] ^ SEAL_K0, before ^ SEAL_K1) ^
		       seal_fold(times ^ SEAL_K2, e->unsent_bytes ^ SEAL_K3) ^
		       seal_fold(first ^ SEAL_K4, second ^ SEAL_K5);

	return seal_fold(sum ^ SEAL_K6, third ^ seed);
}

/* Whether its check, a part of the sum, is right.  *sum: block_sum. */
static inline bool block_entry_ok(
	const struct usage_block *block, unsigned i, uint64_t seed, uint64_t *sum)
{
	*sum = block_sum(block, i, seed);
	return (uint16_t)(*sum >> 48) == block->entry[i].check;
}

/* Gives it its check.  Returns block_sum. */
static inline uint64_t block_seal_entry(struct usage_block *block, unsigned i, uint64_t seed)
{
	uint64_t sum = block_sum(block, i, seed);

	block->entry[i].check = (uint16_t)(sum >> 48);
	return sum;
}

/* The same for n, the last hash and the bounds.  n: as block_count gave it. */
bool block_head_ok(const struct usage_block *block, unsigned n, uint64_t seed, uint64_t upper);
void block_seal_head(struct usage_block *block, uint64_t seed, uint64_t upper);

#endif
