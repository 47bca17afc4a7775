/*
 * client_find.c - streams of one partition, looked up some at a time.
 *
 *	client_find_add: i, hash --SOME of them--> usage_find_streams --> tell(i, last seen)
 *
 * Runs in: every reader.  Blocks in: nowhere.
 */
#include <string.h>

#include "shm/client_private.h"

void client_find_start(struct client_find *find, const char *tenant)
{
	find->n = 0;
	find->known = usage_find_tenant(find->visit->txn, tenant, strlen(tenant), &find->tenant);
}

void client_find_add(struct client_find *find, size_t i, uint64_t hash)
{
	if (!find->known) {
		find->tell(find->arg, i, -1);
		return;
	}
	find->i[find->n] = i;
	find->hash[find->n] = hash;
	if (++find->n == CLIENT_FIND_SOME)
		client_find_end(find);
}

void client_find_end(struct client_find *find)
{
	int64_t last_seen_s[CLIENT_FIND_SOME];
	size_t n = find->n;
	find->n = 0;
	if (n)
		usage_find_streams(find->visit->txn, find->tenant, find->hash, n, last_seen_s);
	for (size_t k = 0; k < n; k++)
		find->tell(find->arg, find->i[k], last_seen_s[k]);
}
