/*
 * usage_block.c - keys, and the search in a block.
 *
 *	key 'b' tenant upper      from is one above the key before it, or 0
 *	         |
 *	from <= hash[0] < hash[1] < ... < hash[n-1] <= upper
 *	entry[0]  entry[1]        entry[n-1]
 *
 * Readers call this on a map that another process writes, so nothing here
 * trusts a block further than block_of has looked.
 *
 * Runs in: worker, readers.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <string.h>

#include "shm/check.h"

/* --- keys ------------------------------------------------------------------------------------ */

struct store_bytes key_bytes(const struct usage_key *key)
{
	return (struct store_bytes){.data = key->bytes, .len = key->len};
}

void key_prefix(struct usage_key *key, char kind)
{
	key->bytes[0] = (uint8_t)kind;
	key->len = 1;
}

void key_add_u16(struct usage_key *key, uint16_t value)
{
	value = __builtin_bswap16(value);
	key_add_text(key, &value, sizeof(value));
}

void key_add_u32(struct usage_key *key, uint32_t value)
{
	value = __builtin_bswap32(value);
	key_add_text(key, &value, sizeof(value));
}

void key_add_u64(struct usage_key *key, uint64_t value)
{
	value = __builtin_bswap64(value);
	key_add_text(key, &value, sizeof(value));
}

void key_add_text(struct usage_key *key, const void *text, size_t len)
{
	must(len <= sizeof(key->bytes) - key->len);
	memcpy(key->bytes + key->len, text, len);
	key->len += len;
}

void key_block(struct usage_key *key, char kind, uint32_t tenant, uint64_t upper)
{
	key_prefix(key, kind);
	key_add_u32(key, tenant);
	key_add_u64(key, upper);
}

void key_row(struct usage_key *key, uint32_t tenant, uint16_t policy)
{
	key_prefix(key, KEY_ROW);
	key_add_u32(key, tenant);
	key_add_u16(key, policy);
}

static uint16_t get_u16(const uint8_t *p)
{
	uint16_t value;

	memcpy(&value, p, sizeof(value));
	return __builtin_bswap16(value);
}

static uint32_t get_u32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return __builtin_bswap32(value);
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t value;

	memcpy(&value, p, sizeof(value));
	return __builtin_bswap64(value);
}

static bool key_is(struct store_bytes key, char kind, size_t len)
{
	return key.len == len && ((const char *)key.data)[0] == kind;
}

bool key_parse_block(struct store_bytes key, char kind, uint32_t *tenant, uint64_t *upper)
{
	if (!key_is(key, kind, 13))
		return false;
	*tenant = get_u32((const uint8_t *)key.data + 1);
	*upper = get_u64((const uint8_t *)key.data + 5);
	return true;
}

static bool parse_pair(struct store_bytes key, char kind, uint32_t *tenant, uint16_t *policy)
{
	if (!key_is(key, kind, 7))
		return false;
	*tenant = get_u32((const uint8_t *)key.data + 1);
	*policy = get_u16((const uint8_t *)key.data + 5);
	return true;
}

bool key_parse_row(struct store_bytes key, uint32_t *tenant, uint16_t *policy)
{
	return parse_pair(key, KEY_ROW, tenant, policy);
}

bool key_parse_policy(struct store_bytes key, uint32_t *tenant, uint16_t *policy)
{
	return parse_pair(key, KEY_POLICY, tenant, policy);
}

bool key_parse_tenant(struct store_bytes key, uint32_t *tenant)
{
	if (!key_is(key, KEY_TENANT_NAME, 5))
		return false;
	*tenant = get_u32((const uint8_t *)key.data + 1);
	return true;
}

bool key_parse_u64(struct store_bytes key, char kind, uint64_t *value)
{
	if (!key_is(key, kind, 9))
		return false;
	*value = get_u64((const uint8_t *)key.data + 1);
	return true;
}

/* --- blocks ---------------------------------------------------------------------------------- */

const struct usage_block *block_shape(struct store_bytes value)
{
	bool right = value.len == sizeof(struct usage_block) &&
		     (uintptr_t)value.data % _Alignof(struct usage_block) == 0;

	return right ? value.data : NULL;
}

bool block_sane(const struct usage_block *block)
{
	return block->n <= USAGE_BLOCK_SLOTS && block->version == BLOCK_VERSION;
}

const struct usage_block *block_of(struct store_bytes value)
{
	const struct usage_block *block = block_shape(value);

	return block && block_sane(block) ? block : NULL;
}

unsigned block_count(const struct usage_block *block)
{
	unsigned n = *(const volatile uint16_t *)&block->n;

	return n < USAGE_BLOCK_SLOTS ? n : USAGE_BLOCK_SLOTS;
}

unsigned block_search_from(const struct usage_block *block, unsigned n, unsigned i, uint64_t hash)
{
	while (i > 0 && block->hash[i - 1] >= hash)
		i--;
	while (i < n && block->hash[i] < hash)
		i++;
	return i;
}

/* Hashes are spread evenly as a rule, so the guess is a step or two off; any other order is only
 * slow. */
unsigned block_search(const struct usage_block *block, unsigned n, uint64_t hash)
{
	uint64_t first, last;
	unsigned i;

	if (n == 0)
		return 0;
	first = block->hash[0];
	last = block->hash[n - 1];
	if (hash <= first)
		return 0;
	if (hash > last)
		return n;
	i = (unsigned)((double)(hash - first) / (double)(last - first) * (n - 1));
	return block_search_from(block, n, i < n ? i : n - 1, hash);
}

struct usage_entry *block_insert(struct usage_block *block, unsigned at, uint64_t hash)
{
	unsigned behind = block->n - at;

	must(block->n < USAGE_BLOCK_SLOTS && at <= block->n);
	memmove(&block->hash[at + 1], &block->hash[at], behind * sizeof(block->hash[0]));
	memmove(&block->entry[at + 1], &block->entry[at], behind * sizeof(block->entry[0]));
	block->hash[at] = hash;
	memset(&block->entry[at], 0, sizeof(block->entry[at]));
	block->n++;
	return &block->entry[at];
}

void block_clear(struct usage_block *block)
{
	memset(block, 0, sizeof(*block));
	block->version = BLOCK_VERSION;
}

/* What is not in use is zero, so that equal content is equal bytes. */
static void block_wipe_behind(struct usage_block *block)
{
	unsigned n = block->n, left = USAGE_BLOCK_SLOTS - n;

	memset(&block->hash[n], 0, left * sizeof(block->hash[0]));
	memset(&block->entry[n], 0, left * sizeof(block->entry[0]));
}

void block_split(struct usage_block *block, unsigned k, struct usage_block *lower)
{
	unsigned stay = block->n - k;

	must(k > 0 && k <= block->n);
	block_clear(lower);
	lower->from = block->from;
	block->from = block->hash[k - 1] + 1;
	memcpy(lower->hash, block->hash, k * sizeof(block->hash[0]));
	memcpy(lower->entry, block->entry, k * sizeof(block->entry[0]));
	lower->n = (uint16_t)k;
	block_wipe_behind(lower);
	memmove(block->hash, &block->hash[k], stay * sizeof(block->hash[0]));
	memmove(block->entry, &block->entry[k], stay * sizeof(block->entry[0]));
	block->n = (uint16_t)stay;
	block_wipe_behind(block);
}

void block_merge(struct usage_block *block, const struct usage_block *lower)
{
	unsigned k = lower->n;

	must(block->n + k <= USAGE_BLOCK_SLOTS);
	memmove(&block->hash[k], block->hash, block->n * sizeof(block->hash[0]));
	memmove(&block->entry[k], block->entry, block->n * sizeof(block->entry[0]));
	memcpy(block->hash, lower->hash, k * sizeof(block->hash[0]));
	memcpy(block->entry, lower->entry, k * sizeof(block->entry[0]));
	block->n = (uint16_t)(block->n + k);
	block->from = lower->from;
	block_wipe_behind(block);
}
