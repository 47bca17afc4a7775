/*
 * refusals.c - how many streams of which tenant were refused, or would have been (dry run).
 *
 *	tenant --hash--> place --> row: tenant, refused, would
 *
 * Runs in: queryd, any thread.  Blocks in: its own mutex, held for a few lines.
 */
#include "refusals.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "shm/check.h"

#define PLACES	   (2 * REFUSALS_TENANTS)
#define ROWS_MAX   (1 + REFUSALS_TENANTS)
#define TENANT_MAX 256 /* bytes of a tenant */

struct refusals {
	pthread_mutex_t lock;
	struct refusals_rows *own, *rows; /* rows: in use; own: to be freed, or NULL */
	uint16_t place[PLACES];		  /* of a row; 0 = free */
};

static uint64_t get(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

/* By one thread at a time: the lock's. */
static void add(_Atomic uint64_t *value, uint64_t n)
{
	atomic_store_explicit(value, get(value) + n, memory_order_relaxed);
}

struct refusals *refusals_new(void)
{
	struct refusals *refusals = calloc(1, sizeof(*refusals));
	must_get(refusals);
	refusals->own = refusals->rows = calloc(1, sizeof(*refusals->rows));
	must_get(refusals->own);
	pthread_mutex_init(&refusals->lock, NULL);
	atomic_store(&refusals->rows->n, 1);
	return refusals;
}

void refusals_free(struct refusals **refusals)
{
	if (!*refusals)
		return;
	pthread_mutex_destroy(&(*refusals)->lock);
	free((*refusals)->own);
	free(*refusals);
	*refusals = NULL;
}

/* Where the tenant's number is, or would be. */
static uint16_t *place_of(struct refusals *refusals, const char *tenant)
{
	size_t at = XXH3_64bits(tenant, strlen(tenant)) % PLACES;
	for (; refusals->place[at]; at = (at + 1) % PLACES)
		if (!strcmp(refusals->rows->row[refusals->place[at]].tenant, tenant))
			break;
	return &refusals->place[at];
}

static bool make_sense(const struct refusals_rows *rows, uint64_t n)
{
	if (n > ROWS_MAX || rows->row[0].tenant[0])
		return false;
	for (uint64_t i = 1; i < n; i++) {
		size_t len = strnlen(rows->row[i].tenant, TENANT_MAX + 1);
		if (!len || len > TENANT_MAX)
			return false;
	}
	return true;
}

bool refusals_keep_in(struct refusals *refusals, struct refusals_rows *rows)
{
	uint64_t n = atomic_load_explicit(&rows->n, memory_order_acquire);
	if (!make_sense(rows, n))
		return false;
	pthread_mutex_lock(&refusals->lock);
	free(refusals->own);
	refusals->own = NULL;
	refusals->rows = rows;
	memset(refusals->place, 0, sizeof(refusals->place));
	for (uint64_t i = 1; i < n; i++)
		*place_of(refusals, rows->row[i].tenant) = (uint16_t)i;
	if (n == 0)
		atomic_store_explicit(&rows->n, 1, memory_order_release);
	pthread_mutex_unlock(&refusals->lock);
	return true;
}

static struct refusals_row *find(struct refusals *refusals, const char *tenant)
{
	struct refusals_rows *rows = refusals->rows;
	uint16_t *place = place_of(refusals, tenant);
	uint64_t n = get(&rows->n);
	if (*place)
		return &rows->row[*place];
	if (n >= ROWS_MAX)
		return &rows->row[0];
	struct refusals_row *row = &rows->row[n];
	snprintf(row->tenant, TENANT_MAX + 1, "%s", tenant);
	*place = (uint16_t)n;
	atomic_store_explicit(&rows->n, n + 1, memory_order_release);
	return row;
}

void refusals_add(struct refusals *refusals, const char *tenant, uint64_t refused, uint64_t would)
{
	if (!refused && !would)
		return;
	pthread_mutex_lock(&refusals->lock);
	struct refusals_row *row = find(refusals, tenant);
	add(&row->refused, refused);
	add(&row->would, would);
	pthread_mutex_unlock(&refusals->lock);
}

size_t refusals_list_rows(const struct refusals_rows *rows, struct refusals_of *out, size_t cap)
{
	uint64_t there = atomic_load_explicit(&rows->n, memory_order_acquire);
	size_t n = 0;
	for (uint64_t i = 0; i < there && i < ROWS_MAX; i++) {
		const struct refusals_row *row = &rows->row[i];
		struct refusals_of of = {.refused = get(&row->refused), .would = get(&row->would)};
		if (!of.refused && !of.would)
			continue;
		memcpy(of.tenant, row->tenant, TENANT_MAX);
		if (n++ < cap)
			out[n - 1] = of;
	}
	return n;
}

size_t refusals_list(struct refusals *refusals, struct refusals_of *out, size_t cap)
{
	pthread_mutex_lock(&refusals->lock);
	size_t n = refusals_list_rows(refusals->rows, out, cap);
	pthread_mutex_unlock(&refusals->lock);
	return n;
}
