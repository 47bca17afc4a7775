/*
 * client_names.c - adds up what several partitions say of the same names.
 *
 *	row of a store --note--> rows[] --take--> list[name] += streams, bytes
 *	                           '--drop: the partition changed while it was read
 *
 * A partition counts whole or not at all.  A policy that is used in several
 * partitions is one policy: (name, policy) pairs are kept as 64-bit hashes
 * with a seed of this call, so nobody can choose names that collide.
 *
 * Runs in: every reader.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "shm/client_private.h"
#include "shm/err.h"
#include "shm/host.h"

void client_names_init(struct client_names *names)
{
	*names = (struct client_names){.seed = host_random()};
}

void client_names_free(struct client_names *names)
{
	free(names->arena);
	free(names->list);
	free(names->index);
	free(names->policies);
	free(names->rows);
	*names = (struct client_names){0};
}

const char *client_name_text(const struct client_names *names, const struct client_name *name)
{
	return names->arena + name->at;
}

/* Room for `need` more elements of `size` in *array; capacities double. */
static int reserve(void **array, size_t *cap, size_t used, size_t need, size_t size)
{
	size_t want = *cap ? *cap : 16;
	if (used + need <= *cap)
		return 0;
	while (want < used + need)
		want *= 2;
	void *grown = reallocarray(*array, want, size);
	if (!grown)
		return ERR_NOMEM;
	*array = grown;
	*cap = want;
	return 0;
}

/* ------------------------------------------------------------------ names */

/* Where `name` is, or the free place where it goes. */
static size_t index_at(const struct client_names *names, uint64_t hash, const char *name)
{
	size_t at = hash & (names->index_cap - 1);
	for (; names->index[at]; at = (at + 1) & (names->index_cap - 1)) {
		const struct client_name *have = &names->list[names->index[at] - 1];
		if (have->hash == hash && !strcmp(client_name_text(names, have), name))
			break;
	}
	return at;
}

/* At most half full. */
static int index_grow(struct client_names *names)
{
	if (names->index_cap && (size_t)names->n * 2 < names->index_cap)
		return 0;
	size_t cap = names->index_cap ? names->index_cap * 2 : 64;
	uint32_t *bigger = calloc(cap, sizeof *bigger);
	if (!bigger)
		return ERR_NOMEM;
	free(names->index);
	names->index = bigger;
	names->index_cap = cap;
	for (uint32_t i = 0; i < names->n; i++) {
		size_t at = names->list[i].hash & (cap - 1);
		while (bigger[at])
			at = (at + 1) & (cap - 1);
		bigger[at] = i + 1;
	}
	return 0;
}

static int append_name(struct client_names *names, const char *name, size_t len, uint64_t hash)
{
	void *arena = names->arena, *list = names->list;
	size_t cap = names->cap;
	int err = names->n == UINT32_MAX / 2 ? ERR_NOMEM : 0;
	if (!err)
		err = reserve(&arena, &names->arena_cap, names->arena_len, len + 1, 1);
	names->arena = arena;
	if (!err)
		err = reserve(&list, &cap, names->n, 1, sizeof *names->list);
	names->list = list;
	names->cap = (uint32_t)cap;
	if (err)
		return err;
	memcpy(names->arena + names->arena_len, name, len + 1);
	names->list[names->n++] = (struct client_name){.at = names->arena_len, .hash = hash};
	names->arena_len += len + 1;
	return 0;
}

int client_names_intern(struct client_names *names, const char *name, uint32_t *number)
{
	size_t len = strlen(name);
	uint64_t hash = XXH3_64bits_withSeed(name, len, names->seed);
	int err = index_grow(names);
	if (err)
		return err;
	size_t at = index_at(names, hash, name);
	if (!names->index[at]) {
		err = append_name(names, name, len, hash);
		if (err)
			return err;
		names->index[at] = names->n;
	}
	*number = names->index[at] - 1;
	return 0;
}

/* ------------------------------------------------------------------ policies */

static size_t policy_at(const uint64_t *set, size_t cap, uint64_t hash)
{
	size_t at = hash & (cap - 1);
	while (set[at] && set[at] != hash)
		at = (at + 1) & (cap - 1);
	return at;
}

static int policies_grow(struct client_names *names)
{
	if (names->policies_cap && names->policies_n * 2 < names->policies_cap)
		return 0;
	size_t cap = names->policies_cap ? names->policies_cap * 2 : 64;
	uint64_t *bigger = calloc(cap, sizeof *bigger);
	if (!bigger)
		return ERR_NOMEM;
	for (size_t i = 0; i < names->policies_cap; i++)
		if (names->policies[i])
			bigger[policy_at(bigger, cap, names->policies[i])] = names->policies[i];
	free(names->policies);
	names->policies = bigger;
	names->policies_cap = cap;
	return 0;
}

/* *fresh: not seen before in this call. */
static int see_policy(struct client_names *names, uint64_t hash, bool *fresh)
{
	int err = policies_grow(names);
	if (err)
		return err;
	size_t at = policy_at(names->policies, names->policies_cap, hash);
	*fresh = !names->policies[at];
	names->policies[at] = hash;
	names->policies_n += *fresh;
	return 0;
}

/* ------------------------------------------------------------------ rows */

int client_names_note(struct client_names *names, uint32_t number, const char *policy,
	const struct client_sums *sums)
{
	void *rows = names->rows;
	int err = reserve(&rows, &names->rows_cap, names->rows_n, 1, sizeof *names->rows);
	names->rows = rows;
	if (err)
		return err;
	uint64_t hash = XXH3_64bits_withSeed(policy, strlen(policy), names->list[number].hash);
	names->rows[names->rows_n++] = (struct client_row){
		.name = number,
		.policy = hash ? hash : 1,
		.streams = sums->streams,
		.bytes = sums->bytes,
		.rate = sums->rate,
	};
	return 0;
}

void client_names_drop(struct client_names *names)
{
	names->rows_n = 0;
}

int client_names_take(struct client_names *names)
{
	for (size_t i = 0; i < names->rows_n; i++) {
		const struct client_row *row = &names->rows[i];
		struct client_name *name = &names->list[row->name];
		bool fresh;
		int err = see_policy(names, row->policy, &fresh);
		if (err)
			return err;
		name->streams = client_add(name->streams, row->streams);
		name->bytes = client_add(name->bytes, row->bytes);
		name->rate += row->rate;
		name->policies += fresh;
	}
	names->rows_n = 0;
	return 0;
}

/* ------------------------------------------------------------------ order */

static int by_name(const void *a, const void *b, void *arena)
{
	const struct client_name *x = a, *y = b;
	return strcmp((const char *)arena + x->at, (const char *)arena + y->at);
}

static int by_streams(const void *a, const void *b, void *arena)
{
	const struct client_name *x = a, *y = b;
	if (x->streams != y->streams)
		return x->streams > y->streams ? -1 : 1;
	return by_name(a, b, arena);
}

/* The index is not of use any more after this. */
void client_names_sort(struct client_names *names, bool streams_first)
{
	if (names->n)
		qsort_r(names->list, names->n, sizeof *names->list,
			streams_first ? by_streams : by_name, names->arena);
}
