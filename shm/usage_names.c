/*
 * usage_names.c - tenant and policy names <-> ids, for the writer.
 *
 *	names[]   committed ones | pending ones     in the order they were given ids
 *	table[]   hash of (scope, text) -> index + 1
 *	scope     0: tenants; t + 1: policies of tenant t
 *
 * All names of the store are in memory: ids are given out while records are
 * added, before there is a transaction, and become durable with the batch that
 * needed them first.  Policy 0 is the empty name and is not kept here.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "shm/check.h"
#include "shm/err.h"

#define TABLE_MIN 1024

static uint64_t name_hash(const struct names *names, uint32_t scope, const char *text, size_t len)
{
	return XXH3_64bits_withSeed(text, len, names->seed + scope * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t id_hash(const struct names *names, uint32_t scope, uint32_t id)
{
	uint64_t key = (uint64_t)scope << 32 | id;

	return XXH3_64bits_withSeed(&key, sizeof(key), names->seed);
}

static void table_insert(struct names *names, uint32_t index)
{
	const struct name *name = &names->names[index];
	size_t mask = names->table_size - 1;
	size_t at = name_hash(names, name->scope, names->texts + name->text, name->len) & mask;

	while (names->table[at])
		at = (at + 1) & mask;
	names->table[at] = index + 1;
	at = id_hash(names, name->scope, name->id) & mask;
	while (names->by_id[at])
		at = (at + 1) & mask;
	names->by_id[at] = index + 1;
}

/* At most half full. */
static void table_rebuild(struct names *names)
{
	size_t size = names->table_size ? names->table_size : TABLE_MIN;

	while (size < 2 * (names->n + 1))
		size *= 2;
	free(names->table);
	free(names->by_id);
	names->table = calloc(size, sizeof(*names->table));
	names->by_id = calloc(size, sizeof(*names->by_id));
	must_get(names->table != NULL && names->by_id != NULL);
	names->table_size = size;
	for (size_t i = 0; i < names->n; i++)
		table_insert(names, (uint32_t)i);
}

static const struct name *names_find(
	const struct names *names, uint32_t scope, const char *text, size_t len)
{
	size_t mask = names->table_size - 1;
	size_t at = name_hash(names, scope, text, len) & mask;

	for (; names->table[at]; at = (at + 1) & mask) {
		const struct name *name = &names->names[names->table[at] - 1];

		if (name->scope == scope && name->len == len &&
			memcmp(names->texts + name->text, text, len) == 0)
			return name;
	}
	return NULL;
}

const struct name *names_by_id(const struct names *names, uint32_t scope, uint32_t id)
{
	size_t mask = names->table_size - 1;
	size_t at = id_hash(names, scope, id) & mask;

	for (; names->by_id[at]; at = (at + 1) & mask) {
		const struct name *name = &names->names[names->by_id[at] - 1];

		if (name->scope == scope && name->id == id)
			return name;
	}
	return NULL;
}

static void names_append(
	struct names *names, uint32_t scope, uint32_t id, const char *text, size_t len)
{
	names->names = array_grow(names->names, &names->cap, names->n + 1, sizeof(*names->names));
	names->texts = array_grow(names->texts, &names->texts_cap, names->texts_len + len + 1, 1);
	names->names[names->n] =
		(struct name){.scope = scope, .id = id, .text = names->texts_len, .len = len};
	memcpy(names->texts + names->texts_len, text, len);
	names->texts_len += len;
	names->n++;
	if (2 * (names->n + 1) > names->table_size)
		table_rebuild(names);
	else
		table_insert(names, (uint32_t)(names->n - 1));
}

static uint32_t append_tenant(struct names *names, const char *text, size_t len)
{
	uint32_t id = names->tenants;

	must(id < UINT32_MAX - 1);
	names->policies = array_grow(
		names->policies, &names->tenants_cap, (size_t)id + 1, sizeof(*names->policies));
	names->policies[id] = 1;
	names->tenants++;
	names_append(names, 0, id, text, len);
	return id;
}

uint32_t names_tenant(struct names *names, const char *text, size_t len)
{
	const struct name *name;

	must(len > 0 && len <= USAGE_NAME_SIZE);
	name = names_find(names, 0, text, len);
	return name ? name->id : append_tenant(names, text, len);
}

uint16_t names_policy(
	struct names *names, uint32_t tenant, const char *text, size_t len, bool *overflow)
{
	const struct name *name;
	uint16_t id;

	*overflow = false;
	if (len == 0)
		return 0;
	must(len <= USAGE_NAME_SIZE);
	name = names_find(names, tenant + 1, text, len);
	if (name)
		return (uint16_t)name->id;
	if (names->policies[tenant] >= USAGE_POLICIES_MAX) {
		*overflow = true;
		return 0;
	}
	id = names->policies[tenant]++;
	names_append(names, tenant + 1, id, text, len);
	return id;
}

/* --- the store ------------------------------------------------------------------------------- */

static bool text_fits(struct store_bytes text)
{
	return text.len > 0 && text.len <= USAGE_NAME_SIZE;
}

uint64_t name_mark(const void *name, size_t len)
{
	uint64_t mark = XXH3_64bits(name, len);

	return mark ? mark : 1;
}

void key_name(struct usage_key *key, const void *name, size_t len)
{
	key_prefix(key, KEY_TENANT);
	key_add_text(key, name, len);
}

bool name_before(struct store_txn *txn, const struct usage_key *key, struct usage_key *before,
	struct name_row *row)
{
	struct store_bytes found, value;

	if (!store_before(txn, key_bytes(key), &found, &value) ||
		*(const char *)found.data != KEY_TENANT || found.len > sizeof(before->bytes) ||
		!seal_open(txn, found, &value) || value.len != sizeof(*row))
		return usage_corrupt(txn);
	memcpy(row, value.data, sizeof(*row));
	memcpy(before->bytes, found.data, found.len);
	before->len = found.len;
	return true;
}

void names_create(struct store_txn *txn)
{
	struct name_row row = {.id = UINT32_MAX};
	struct usage_key key;

	key_name(&key, "", 0);
	seal_put(txn, &key, &row, sizeof(row));
}

static void put_name(struct store_txn *txn, uint32_t id, const char *text, size_t len)
{
	struct name_row row = {.id = id}, previous;
	struct usage_key key, before;

	key_name(&key, text, len);
	if (!name_before(txn, &key, &before, &previous))
		return;
	row.next = previous.next;
	previous.next = name_mark(text, len);
	seal_put(txn, &before, &previous, sizeof(previous));
	seal_put(txn, &key, &row, sizeof(row));
}

/* --- what a tenant has ----------------------------------------------------------------------- */

static void key_tenant(struct usage_key *key, uint32_t tenant)
{
	key_prefix(key, KEY_TENANT_NAME);
	key_add_u32(key, tenant);
}

bool tenant_open(struct store_txn *txn, struct store_bytes key, struct store_bytes value,
	struct tenant_row *row, size_t *len)
{
	size_t head = offsetof(struct tenant_row, name);

	if (!seal_open(txn, key, &value) || value.len <= head || value.len > sizeof(*row))
		return usage_corrupt(txn);
	memcpy(row, value.data, value.len);
	*len = value.len - head;
	return true;
}

bool tenant_get(struct store_txn *txn, uint32_t tenant, struct tenant_row *row, size_t *len)
{
	struct store_bytes value;
	struct usage_key key;

	key_tenant(&key, tenant);
	return store_get(txn, key_bytes(&key), &value)
		       ? tenant_open(txn, key_bytes(&key), value, row, len)
		       : usage_corrupt(txn);
}

static void tenant_put(
	struct store_txn *txn, uint32_t tenant, const struct tenant_row *row, size_t len)
{
	struct usage_key key;

	key_tenant(&key, tenant);
	seal_put(txn, &key, row, offsetof(struct tenant_row, name) + len);
}

void tenant_add_rows(struct store_txn *txn, uint32_t tenant, int rows)
{
	struct tenant_row row;
	size_t len;

	if (!tenant_get(txn, tenant, &row, &len))
		return;
	row.rows = (uint16_t)(row.rows + rows);
	tenant_put(txn, tenant, &row, len);
}

void tenant_set_blocks(struct store_txn *txn, uint32_t tenant, bool has_blocks)
{
	struct tenant_row row;
	size_t len;

	if (!tenant_get(txn, tenant, &row, &len))
		return;
	row.has_blocks = has_blocks;
	tenant_put(txn, tenant, &row, len);
}

/* --- all of them ----------------------------------------------------------------------------- */

/* Ids are dense and come in key order. */
static int load_tenants(struct names *names, struct store_txn *txn)
{
	struct store_bytes key, value;
	struct tenant_row row;
	struct usage_key from;
	uint32_t tenant;
	size_t len;
	bool more;

	key_prefix(&from, KEY_TENANT_NAME);
	for (more = store_seek(txn, key_bytes(&from), &key, &value);
		more && key_parse_tenant(key, &tenant); more = store_next(txn, &key, &value)) {
		if (tenant != names->tenants || !tenant_open(txn, key, value, &row, &len))
			return ERR_CORRUPT;
		append_tenant(names, row.name, len);
	}
	return txn->err;
}

static int load_policies(struct names *names, struct store_txn *txn)
{
	struct store_bytes key, value;
	struct usage_key from;
	uint32_t tenant;
	uint16_t policy;
	bool more;

	key_prefix(&from, KEY_POLICY);
	for (more = store_seek(txn, key_bytes(&from), &key, &value);
		more && key_parse_policy(key, &tenant, &policy);
		more = store_next(txn, &key, &value)) {
		if (tenant >= names->tenants || policy != names->policies[tenant] ||
			policy >= USAGE_POLICIES_MAX || !seal_open(txn, key, &value) ||
			!text_fits(value))
			return ERR_CORRUPT;
		names->policies[tenant]++;
		names_append(names, tenant + 1, policy, value.data, value.len);
	}
	return txn->err;
}

int names_load(struct names *names, struct store_txn *txn)
{
	int err;

	names->seed = host_random();
	table_rebuild(names);
	err = load_tenants(names, txn);
	if (!err)
		err = load_policies(names, txn);
	names->n_committed = names->n;
	return err;
}

void names_free(struct names *names)
{
	free(names->names);
	free(names->texts);
	free(names->table);
	free(names->by_id);
	free(names->policies);
	memset(names, 0, sizeof(*names));
}

size_t names_pending(const struct names *names)
{
	return names->n - names->n_committed;
}

uint32_t names_policies(const struct names *names)
{
	return (uint32_t)names->n - names->tenants;
}

bool name_is_linked(struct store_txn *txn, const void *name, size_t len)
{
	struct usage_key key, before;
	struct name_row row;

	key_name(&key, name, len);
	return name_before(txn, &key, &before, &row) &&
	       (row.next == name_mark(name, len) || usage_corrupt(txn));
}

void names_write(const struct names *names, struct store_txn *txn)
{
	for (size_t i = names->n_committed; i < names->n; i++) {
		const struct name *name = &names->names[i];
		const char *text = names->texts + name->text;
		struct tenant_row row = {0};
		struct usage_key key;

		if (name->scope != 0) {
			key_prefix(&key, KEY_POLICY);
			key_add_u32(&key, name->scope - 1);
			key_add_u16(&key, (uint16_t)name->id);
			seal_put(txn, &key, text, name->len);
			continue;
		}
		memcpy(row.name, text, name->len);
		tenant_put(txn, name->id, &row, name->len);
		put_name(txn, name->id, text, name->len);
	}
}

void names_commit(struct names *names)
{
	names->n_committed = names->n;
}

void names_cut(struct names *names, size_t n)
{
	if (names->n <= n)
		return;
	while (names->n > n) {
		const struct name *name = &names->names[--names->n];

		names->texts_len = name->text;
		if (name->scope == 0)
			names->tenants--;
		else
			names->policies[name->scope - 1]--;
	}
	table_rebuild(names);
}

void names_reset(struct names *names)
{
	names_cut(names, names->n_committed);
}
