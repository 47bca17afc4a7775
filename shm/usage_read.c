/*
 * usage_read.c - readers: one short transaction, everything copied out.
 *
 * A value that has not the shape it must have sets the transaction's error to
 * ERR_CORRUPT and reads as absent; no length, count or id from the store is used
 * before it was checked.
 *
 * Runs in: readers, and the worker when it opens its store.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <string.h>

#include "shm/err.h"

static bool corrupt(struct store_txn *txn)
{
	if (!txn->err)
		txn->err = ERR_CORRUPT;
	return false;
}

int usage_read_meta(struct store_txn *txn, struct usage_meta *meta)
{
	struct store_bytes value;
	struct usage_key key;
	uint32_t format;

	key_prefix(&key, KEY_META);
	if (!store_get(txn, key_bytes(&key), &value))
		return txn->err ? txn->err : ERR_NOT_FOUND;
	if (value.len < sizeof(format))
		return ERR_CORRUPT;
	memcpy(&format, value.data, sizeof(format));
	if (format != USAGE_FORMAT)
		return ERR_FORMAT;
	if (value.len != sizeof(*meta))
		return ERR_CORRUPT;
	memcpy(meta, value.data, sizeof(*meta));
	if (meta->identity.partitions == 0 || meta->identity.window_minutes == 0 ||
		meta->identity.window_minutes > WINDOW_MINUTES_MAX ||
		meta->identity.cluster[sizeof(meta->identity.cluster) - 1] != '\0' ||
		meta->identity.topic[sizeof(meta->identity.topic) - 1] != '\0')
		return ERR_CORRUPT;
	return 0;
}

/* --- names ----------------------------------------------------------------------------------- */

bool usage_find_tenant(struct store_txn *txn, const char *name, size_t len, uint32_t *tenant)
{
	struct store_bytes value;
	struct usage_key key;

	if (len == 0 || len > USAGE_NAME_SIZE)
		return false;
	key_prefix(&key, KEY_TENANT);
	key_add_text(&key, name, len);
	if (!store_get(txn, key_bytes(&key), &value))
		return false;
	if (value.len != sizeof(*tenant))
		return corrupt(txn);
	memcpy(tenant, value.data, sizeof(*tenant));
	return true;
}

static bool copy_name(
	struct store_txn *txn, struct store_bytes value, char name[USAGE_NAME_SIZE + 1])
{
	if (value.len == 0 || value.len > USAGE_NAME_SIZE)
		return corrupt(txn);
	memcpy(name, value.data, value.len);
	name[value.len] = '\0';
	return true;
}

bool usage_next_tenant(struct store_txn *txn, uint32_t *tenant, char name[USAGE_NAME_SIZE + 1])
{
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t next = *tenant + 1, id;

	key_prefix(&from, KEY_TENANT_NAME);
	key_add_u32(&from, next);
	if (!store_seek(txn, key_bytes(&from), &key, &value) || !key_parse_tenant(key, &id))
		return false;
	if (id == UINT32_MAX) /* never given out; would start anew */
		return corrupt(txn);
	*tenant = id;
	return copy_name(txn, value, name);
}

bool usage_policy_name(
	struct store_txn *txn, uint32_t tenant, uint32_t policy, char name[USAGE_NAME_SIZE + 1])
{
	struct store_bytes value;
	struct usage_key key;

	name[0] = '\0';
	if (policy == 0)
		return true;
	if (policy >= USAGE_POLICIES_MAX)
		return false;
	key_prefix(&key, KEY_POLICY);
	key_add_u32(&key, tenant);
	key_add_u16(&key, (uint16_t)policy);
	return store_get(txn, key_bytes(&key), &value) && copy_name(txn, value, name);
}

/* --- rows ------------------------------------------------------------------------------------ */

bool usage_next_row(struct store_txn *txn, uint32_t tenant, int *policy, uint32_t window, void *buf,
	struct window_row *row)
{
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t found_tenant;
	uint16_t found_policy;

	if (*policy < -1 || *policy >= USAGE_POLICIES_MAX - 1)
		return false;
	key_row(&from, tenant, (uint16_t)(*policy + 1));
	if (!store_seek(txn, key_bytes(&from), &key, &value) ||
		!key_parse_row(key, &found_tenant, &found_policy) || found_tenant != tenant)
		return false;
	if (found_policy >= USAGE_POLICIES_MAX || value.len != window_row_size(window))
		return corrupt(txn);
	memcpy(buf, value.data, value.len);
	window_row_map(row, buf, window);
	*policy = found_policy;
	return true;
}

/* --- streams --------------------------------------------------------------------------------- */

/* The block that (tenant, hash) belongs to, with its upper bound; NULL: there is none. */
static const struct usage_block *seek_block(
	struct store_txn *txn, uint32_t tenant, uint64_t hash, uint64_t *upper)
{
	const struct usage_block *block;
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t found_tenant;

	key_block(&from, KEY_BLOCK, tenant, hash);
	if (!store_seek(txn, key_bytes(&from), &key, &value) ||
		!key_parse_block(key, KEY_BLOCK, &found_tenant, upper) || found_tenant != tenant)
		return NULL;
	block = block_of(value);
	if (!block)
		corrupt(txn);
	return block;
}

bool usage_find_stream(
	struct store_txn *txn, uint32_t tenant, uint64_t hash, struct usage_stream *stream)
{
	uint64_t upper;
	const struct usage_block *block = seek_block(txn, tenant, hash, &upper);
	unsigned n, i;

	if (!block)
		return false;
	n = block_count(block);
	i = block_search(block, n, hash);
	if (i == n || block->hash[i] != hash)
		return false;
	stream->hash = hash;
	stream->entry = block->entry[i];
	return true;
}

size_t usage_list_streams(struct store_txn *txn, uint32_t tenant, uint64_t from,
	struct usage_stream *streams, size_t cap)
{
	const struct usage_block *block;
	uint64_t upper;
	size_t found = 0;

	while (found < cap && (block = seek_block(txn, tenant, from, &upper))) {
		unsigned n = block_count(block);

		for (unsigned i = block_search(block, n, from); i < n && found < cap; i++) {
			streams[found].hash = block->hash[i];
			streams[found++].entry = block->entry[i];
		}
		if (upper == UINT64_MAX)
			break;
		from = upper + 1;
	}
	return found;
}
