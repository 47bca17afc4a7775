/*
 * usage_read.c - readers: one short transaction, everything copied out.
 *
 * A value whose check is not right, or that has not the shape it must have, sets the
 * transaction's error to ERR_CORRUPT and reads as absent; no length, count or id from
 * the store is used before it was checked.  What is said to be absent is:
 *
 *	stream	the one that follows says so, or the block's head, or the tenant has no block
 *	name	the name before it names another one as the next
 *	row	their tenant has as many as were seen
 *	tenant	ids are dense, up to meta's number
 *
 * Runs in: readers, and the worker when it opens its store.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <string.h>

#include "shm/err.h"

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
	if (!seal_open(txn, key_bytes(&key), &value) || value.len != sizeof(*meta))
		return ERR_CORRUPT;
	memcpy(meta, value.data, sizeof(*meta));
	seal_set_seed(txn, meta);
	if (meta->identity.partitions == 0 || meta->identity.window_minutes == 0 ||
		meta->identity.window_minutes > WINDOW_MINUTES_MAX ||
		meta->identity.cluster[sizeof(meta->identity.cluster) - 1] != '\0' ||
		meta->identity.topic[sizeof(meta->identity.topic) - 1] != '\0')
		return ERR_CORRUPT;
	return 0;
}

/* --- names ----------------------------------------------------------------------------------- */

static bool name_is_absent(struct store_txn *txn, const struct usage_key *key)
{
	struct store_bytes found, value;
	struct usage_key before;
	struct name_row row;
	uint64_t next = 0;

	if (!name_before(txn, key, &before, &row))
		return false;
	if (store_seek(txn, key_bytes(key), &found, &value) &&
		*(const char *)found.data == KEY_TENANT)
		next = name_mark((const char *)found.data + 1, found.len - 1);
	return row.next == next || usage_corrupt(txn);
}

bool usage_find_tenant(struct store_txn *txn, const char *name, size_t len, uint32_t *tenant)
{
	struct store_bytes value;
	struct usage_key key;
	struct name_row row;

	if (len == 0 || len > USAGE_NAME_SIZE)
		return false;
	key_name(&key, name, len);
	if (!store_get(txn, key_bytes(&key), &value)) {
		if (!txn->err)
			(void)name_is_absent(txn, &key);
		return false;
	}
	if (!seal_open(txn, key_bytes(&key), &value) || value.len != sizeof(row))
		return usage_corrupt(txn);
	memcpy(&row, value.data, sizeof(row));
	*tenant = row.id;
	return true;
}

/* `tenant` would be the next one, but is not there: then meta says that there are no more. */
static bool all_tenants(struct store_txn *txn, uint32_t tenant)
{
	struct usage_meta meta;

	if (txn->err)
		return false;
	return (usage_read_meta(txn, &meta) == 0 && meta.tenants == tenant) || usage_corrupt(txn);
}

bool usage_next_tenant(struct store_txn *txn, uint32_t *tenant, char name[USAGE_NAME_SIZE + 1])
{
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t next = *tenant + 1, id;
	struct tenant_row row;
	size_t len;

	key_prefix(&from, KEY_TENANT_NAME);
	key_add_u32(&from, next);
	if (!store_seek(txn, key_bytes(&from), &key, &value) || !key_parse_tenant(key, &id)) {
		(void)all_tenants(txn, next);
		return false;
	}
	/* The highest one is never given out; it would start anew. */
	if (id != next || id == UINT32_MAX || !tenant_open(txn, key, value, &row, &len))
		return usage_corrupt(txn);
	*tenant = id;
	memcpy(name, row.name, len);
	name[len] = '\0';
	return true;
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
	if (!seal_get(txn, &key, &value))
		return false;
	if (value.len == 0 || value.len > USAGE_NAME_SIZE)
		return usage_corrupt(txn);
	memcpy(name, value.data, value.len);
	name[value.len] = '\0';
	return true;
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
	if (found_policy >= USAGE_POLICIES_MAX || !seal_open(txn, key, &value) ||
		value.len != window_row_size(window))
		return usage_corrupt(txn);
	memcpy(buf, value.data, value.len);
	window_row_map(row, buf, window);
	*policy = found_policy;
	return true;
}

void usage_check_rows(struct store_txn *txn, uint32_t tenant, uint32_t seen)
{
	struct tenant_row row;
	size_t len;

	if (!txn->err && tenant_get(txn, tenant, &row, &len) && row.rows != seen)
		usage_corrupt(txn);
}

/* --- streams --------------------------------------------------------------------------------- */

bool block_seek(struct store_txn *txn, uint32_t tenant, uint64_t hash, struct found_block *found)
{
	struct store_bytes key, value;
	struct tenant_row row;
	struct usage_key from;
	uint32_t found_tenant;
	size_t len;

	key_block(&from, KEY_BLOCK, tenant, hash);
	if (!store_seek(txn, key_bytes(&from), &key, &value) ||
		!key_parse_block(key, KEY_BLOCK, &found_tenant, &found->upper) ||
		found_tenant != tenant) {
		if (!txn->err && tenant_get(txn, tenant, &row, &len) && row.has_blocks)
			usage_corrupt(txn);
		return false;
	}
	found->block = block_shape(value);
	return found->block || usage_corrupt(txn);
}

bool block_enter(struct store_txn *txn, uint32_t tenant, uint64_t hash, struct found_block *found)
{
	if (!block_sane(found->block) || found->block->from > hash)
		return usage_corrupt(txn);
	found->n = block_count(found->block);
	found->seed = block_seed(seal_seed(txn), KEY_BLOCK, tenant);
	return !txn->err;
}

/* One of the n. */
static bool copy_stream(const struct found_block *in, unsigned i, struct usage_stream *stream)
{
	uint64_t sum;

	stream->hash = in->block->hash[i];
	stream->entry = in->block->entry[i];
	stream->entry.check = 0;
	return block_entry_ok(in->block, i, in->seed, &sum);
}

bool block_copy(struct store_txn *txn, const struct found_block *in, unsigned i,
	struct usage_stream *stream)
{
	if (i < in->n)
		return copy_stream(in, i, stream) || usage_corrupt(txn);
	if (!block_head_ok(in->block, in->n, in->seed, in->upper))
		usage_corrupt(txn);
	return false;
}

bool usage_find_stream(
	struct store_txn *txn, uint32_t tenant, uint64_t hash, struct usage_stream *stream)
{
	struct found_block in;

	return block_seek(txn, tenant, hash, &in) && block_enter(txn, tenant, hash, &in) &&
	       block_copy(txn, &in, block_search(in.block, in.n, hash), stream) &&
	       stream->hash == hash;
}

size_t usage_list_streams(struct store_txn *txn, uint32_t tenant, uint64_t from,
	struct usage_stream *streams, size_t cap)
{
	struct found_block in;
	size_t found = 0;

	while (found < cap && block_seek(txn, tenant, from, &in) &&
		block_enter(txn, tenant, from, &in)) {
		if (!block_head_ok(in.block, in.n, in.seed, in.upper))
			usage_corrupt(txn);
		for (unsigned i = block_search(in.block, in.n, from); i < in.n && found < cap; i++)
			if (!copy_stream(&in, i, &streams[found++]))
				usage_corrupt(txn);
		if (in.upper == UINT64_MAX || txn->err)
			break;
		from = in.upper + 1;
	}
	return found;
}
