/*
 * ledger_read.c - accounts of tenants, and what the map says about them.
 *
 * Runs in: queryd, asker thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "ledger_private.h"

#include "shm/check.h"
#include "shm/client_stand.h"
#include "shm/host.h"

#define TABLE_FIRST  256
#define BUCKETS_MAX  65536 /* of a tenant */
#define IDLE_NS	     UINT64_C(10000000000)
#define READ_AT_ONCE 8 /* buckets there is room for at first */

/* ------------------------------------------------------------------ accounts */

void ledger_init_accounts(struct ledger *ledger)
{
	ledger->size = TABLE_FIRST;
	ledger->table = calloc(ledger->size, sizeof(*ledger->table));
	ledger->scratch_cap = READ_AT_ONCE;
	ledger->scratch = calloc(ledger->scratch_cap, sizeof(*ledger->scratch));
	must_get(ledger->table && ledger->scratch);
}

static void free_account(struct account *account)
{
	for (size_t i = 0; i < account->n; i++) {
		free(account->buckets[i]->policy);
		free(account->buckets[i]);
	}
	free(account->buckets);
	free(account->index);
	free(account->tenant);
	free(account);
}

void ledger_free_accounts(struct ledger *ledger)
{
	for (size_t i = 0; i < ledger->size; i++)
		while (ledger->table[i]) {
			struct account *account = ledger->table[i];
			ledger->table[i] = account->next;
			free_account(account);
		}
	free(ledger->table);
	free(ledger->scratch);
}

static void grow_table(struct ledger *ledger)
{
	size_t size = ledger->size * 2;
	struct account **table = calloc(size, sizeof(*table));
	must_get(table);
	for (size_t i = 0; i < ledger->size; i++)
		while (ledger->table[i]) {
			struct account *account = ledger->table[i];
			ledger->table[i] = account->next;
			account->next = table[account->hash & (size - 1)];
			table[account->hash & (size - 1)] = account;
		}
	free(ledger->table);
	ledger->table = table;
	ledger->size = size;
}

static struct account *account_of(struct ledger *ledger, const char *tenant, int32_t partition)
{
	uint64_t hash = XXH3_64bits_withSeed(tenant, strlen(tenant), (uint32_t)partition);
	struct account *account = ledger->table[hash & (ledger->size - 1)];
	while (account && (account->hash != hash || account->partition != partition ||
				  strcmp(account->tenant, tenant) != 0))
		account = account->next;
	if (account)
		return account;
	if (ledger->facts.accounts >= ledger->size)
		grow_table(ledger);
	account = calloc(1, sizeof(*account));
	must_get(account);
	account->tenant = strdup(tenant);
	must_get(account->tenant);
	account->hash = hash;
	account->partition = partition;
	account->next = ledger->table[hash & (ledger->size - 1)];
	ledger->table[hash & (ledger->size - 1)] = account;
	ledger->facts.accounts++;
	return account;
}

void ledger_idle(struct ledger *ledger)
{
	uint64_t now = host_boot_ns();
	for (size_t i = 0; i < ledger->size; i++)
		for (struct account **at = &ledger->table[i]; *at;) {
			struct account *account = *at;
			if (account->held || now - account->used_ns < IDLE_NS) {
				at = &account->next;
				continue;
			}
			*at = account->next;
			free_account(account);
			ledger->facts.accounts--;
		}
}

/* ------------------------------------------------------------------ reading the map */

/* Where the bucket is, or the free place where it goes. */
static uint32_t *place_of(const struct account *account, const char *policy)
{
	size_t at = XXH3_64bits(policy, strlen(policy)) & (account->index_size - 1);
	while (account->index[at] &&
		strcmp(account->buckets[account->index[at] - 1]->policy, policy) != 0)
		at = (at + 1) & (account->index_size - 1);
	return &account->index[at];
}

static void grow_account(struct account *account)
{
	account->cap = account->cap ? account->cap * 2 : 4;
	account->buckets = reallocarray(account->buckets, account->cap, sizeof(*account->buckets));
	free(account->index);
	account->index_size = account->cap * 2;
	account->index = calloc(account->index_size, sizeof(*account->index));
	must_get(account->buckets && account->index);
	for (size_t i = 0; i < account->n; i++)
		*place_of(account, account->buckets[i]->policy) = (uint32_t)i + 1;
}

/* Buckets come in the same order as last time, unless the limits have changed. */
static struct ledger_bucket *bucket_named(struct account *account, size_t hint, const char *policy)
{
	if (hint < account->n && !strcmp(account->buckets[hint]->policy, policy))
		return account->buckets[hint];
	if (account->n == account->cap)
		grow_account(account);
	uint32_t *place = place_of(account, policy);
	if (*place)
		return account->buckets[*place - 1];
	struct ledger_bucket *bucket = calloc(1, sizeof(*bucket));
	must_get(bucket);
	bucket->account = account;
	bucket->policy = strdup(policy);
	must_get(bucket->policy);
	account->buckets[account->n++] = bucket;
	*place = (uint32_t)account->n;
	return bucket;
}

/* Into ledger->scratch, all of them. */
static int read_buckets(struct ledger *ledger, const char *tenant, int32_t partition,
	struct tally_tenant_limits *limits, size_t *n)
{
	int err;
	if (!*ledger->tally)
		return TALLY_ENOTREADY;
	for (;;) {
		*n = 0;
		err = tally_buckets(*ledger->tally, tenant, partition, limits, ledger->scratch,
			ledger->scratch_cap, n);
		if (err || *n <= ledger->scratch_cap)
			break;
		if (*n > BUCKETS_MAX)
			return TALLY_EINVALID;
		ledger->scratch_cap = *n;
		free(ledger->scratch);
		ledger->scratch = calloc(ledger->scratch_cap, sizeof(*ledger->scratch));
		must_get(ledger->scratch);
	}
	ledger->facts.readings++;
	if (!err && !*n)
		err = TALLY_ENOTREADY;
	if (!err) {
		ledger->scope_known = true;
		ledger->by_partition = limits->by_partition;
		ledger->scope_version = limits->version;
	}
	return err;
}

/* A bucket that no limit names any more has streams of the default one, and its share. */
static void follow_default(struct account *account)
{
	struct ledger_bucket *last = account->buckets[0];
	for (size_t i = 0; i < account->n; i++)
		account->buckets[i]->shares_next = NULL;
	for (size_t i = 1; i < account->n; i++) {
		struct ledger_bucket *bucket = account->buckets[i];
		if (bucket->live)
			continue;
		bucket->unsure = account->buckets[0]->unsure;
		bucket->share = account->buckets[0]->share;
		bucket->active = account->buckets[0]->active;
		bucket->added = 0;
		last = last->shares_next = bucket;
	}
}

int ledger_read(struct ledger *ledger, struct account *account)
{
	struct tally_tenant_limits limits = {0};
	size_t n;
	account->read_ns = 0;
	uint64_t now = host_boot_ns(); /* before: it must not look younger than it is */
	int err = read_buckets(ledger, account->tenant, account->partition, &limits, &n);
	if (err)
		return err;
	for (size_t i = 0; i < account->n; i++)
		account->buckets[i]->live = false;
	for (size_t i = 0; i < n; i++) {
		const struct tally_bucket *from = &ledger->scratch[i];
		struct ledger_bucket *bucket = bucket_named(account, i, from->policy);
		bucket->live = true;
		bucket->share = from->share;
		/* More than is counted where partitions are still being counted. */
		bucket->active = from->share == TALLY_UNLIMITED || from->headroom == 0
					 ? from->streams
					 : from->share - from->headroom;
		bucket->unsure = from->headroom == 0 && from->streams < from->share;
		if (bucket->unsure)
			bucket->active = from->share;
		bucket->added = 0;
	}
	follow_default(account);
	account->read_ns = now;
	account->minute = tally_now_ms(*ledger->tally) / 60000;
	account->version = limits.version;
	account->dry_run = limits.dry_run;
	return 0;
}

bool ledger_limits_changed(const struct ledger *ledger, uint64_t version)
{
	return *ledger->tally && client_stand_limits(*ledger->tally) != version;
}

int ledger_by_partition(struct ledger *ledger, const char *tenant, bool *by_partition)
{
	struct tally_tenant_limits limits = {0};
	size_t n;
	int err = 0;
	if (!ledger->scope_known || ledger_limits_changed(ledger, ledger->scope_version))
		err = read_buckets(ledger, tenant, -1, &limits, &n);
	*by_partition = ledger->by_partition;
	return err;
}

int ledger_bucket(struct ledger *ledger, const char *tenant, int32_t partition, const char *policy,
	struct ledger_bucket **bucket)
{
	struct account *account = account_of(ledger, tenant, partition);
	account->used_ns = host_boot_ns();
	bool read = account->read_ns && !ledger_limits_changed(ledger, account->version);
	int err = read ? 0 : ledger_read(ledger, account);
	if (err)
		return err;
	uint32_t own = *policy ? *place_of(account, policy) : 0;
	own = own && account->buckets[own - 1]->live ? own : 1;
	*bucket = account->buckets[own - 1];
	ledger_hold(*bucket);
	return 0;
}

uint32_t *ledger_note(struct ledger_bucket *bucket)
{
	return &bucket->note;
}

void ledger_hold(struct ledger_bucket *bucket)
{
	bucket->account->held++;
}

void ledger_release(struct ledger_bucket *bucket)
{
	must(bucket->account->held > 0);
	bucket->account->held--;
}
