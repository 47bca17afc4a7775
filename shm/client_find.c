/*
 * client_find.c - a tenant's number; streams of one partition, looked up some at a time.
 *
 *	client_find_add: i, hash --SOME of them--> usage_find_streams --> tell(i, last seen)
 *
 * Runs in: every reader.  Blocks in: nowhere.
 */
#include <string.h>

#include "shm/client_private.h"

/*
 * Numbers of tenants are for the life of a generation; so the one of the tenant that is asked for
 * again and again is remembered with each store.  That one is not there is looked up each time.
 */
bool client_find_tenant(struct client_visit *visit, const char *name, uint32_t *tenant)
{
	struct tally *tally = visit->tally;
	struct client_part *part = &tally->parts[visit->partition];
	size_t len = strlen(name);
	if (len == 0 || len > USAGE_NAME_SIZE)
		return false;
	if (strcmp(tally->tenant, name) != 0) {
		memcpy(tally->tenant, name, len + 1);
		tally->asked++;
	}
	if (part->asked != tally->asked) {
		if (!usage_find_tenant(visit->txn, name, len, &part->tenant))
			return false;
		part->asked = tally->asked;
	}
	*tenant = part->tenant;
	return true;
}

bool client_seen_active(const struct client_visit *visit, int64_t last_seen_s)
{
	return last_seen_s >= 0 &&
	       window_active(visit->now_minute, window_minute_of_s((uint32_t)last_seen_s),
		       visit->tally->window);
}

void client_find_start(struct client_find *find, struct client_visit *visit, const char *tenant,
	void (*tell)(const struct client_find *find, size_t i, int64_t last_seen_s), void *arg)
{
	find->visit = visit;
	find->tell = tell;
	find->arg = arg;
	find->n = 0;
	find->known = client_find_tenant(visit, tenant, &find->tenant);
}

void client_find_add(struct client_find *find, size_t i, uint64_t hash)
{
	if (!find->known) {
		find->tell(find, i, -1);
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
		find->tell(find, find->i[k], last_seen_s[k]);
}
