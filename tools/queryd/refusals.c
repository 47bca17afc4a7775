/*
 * refusals.c - how many streams of which tenant were refused, or would have been (dry run).
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

#define PLACES (2 * REFUSALS_TENANTS)

struct refusals {
	pthread_mutex_t lock;
	size_t n; /* list[0] is "all others" */
	struct refusals_of list[REFUSALS_TENANTS + 1];
	uint16_t place[PLACES]; /* of the list; 0 = free */
};

struct refusals *refusals_new(void)
{
	struct refusals *refusals = calloc(1, sizeof(*refusals));
	must_get(refusals);
	pthread_mutex_init(&refusals->lock, NULL);
	refusals->n = 1;
	return refusals;
}

void refusals_free(struct refusals **refusals)
{
	if (!*refusals)
		return;
	pthread_mutex_destroy(&(*refusals)->lock);
	free(*refusals);
	*refusals = NULL;
}

static struct refusals_of *find(struct refusals *refusals, const char *tenant)
{
	size_t at = XXH3_64bits(tenant, strlen(tenant)) % PLACES;
	for (; refusals->place[at]; at = (at + 1) % PLACES)
		if (!strcmp(refusals->list[refusals->place[at]].tenant, tenant))
			return &refusals->list[refusals->place[at]];
	if (refusals->n > REFUSALS_TENANTS)
		return &refusals->list[0];
	struct refusals_of *of = &refusals->list[refusals->n];
	snprintf(of->tenant, sizeof(of->tenant), "%s", tenant);
	refusals->place[at] = (uint16_t)refusals->n++;
	return of;
}

void refusals_add(struct refusals *refusals, const char *tenant, uint64_t refused, uint64_t would)
{
	if (!refused && !would)
		return;
	pthread_mutex_lock(&refusals->lock);
	struct refusals_of *of = find(refusals, tenant);
	of->refused += refused;
	of->would += would;
	pthread_mutex_unlock(&refusals->lock);
}

size_t refusals_list(struct refusals *refusals, struct refusals_of *out, size_t cap)
{
	size_t n = 0;
	pthread_mutex_lock(&refusals->lock);
	for (size_t i = 0; i < refusals->n; i++) {
		const struct refusals_of *of = &refusals->list[i];
		if (!of->refused && !of->would)
			continue;
		if (n++ < cap)
			out[n - 1] = *of;
	}
	pthread_mutex_unlock(&refusals->lock);
	return n;
}
