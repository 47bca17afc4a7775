/*
 * ledger.c - who may let how many new streams in: budgets, so that limits are exact.
 *
 *	account (tenant [, partition]) -- one reading of the map: all its buckets
 *	   '- bucket: share, active, added, reserved; claims in order
 *
 * Runs in: queryd, asker thread.  Blocks in: nowhere.
 */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "shm/check.h"
#include "shm/client_stand.h"
#include "shm/host.h"

#define TABLE_FIRST  256
#define BUCKETS_MAX  65536 /* of a tenant */
#define IDLE_NS	     UINT64_C(10000000000)
#define READ_AT_ONCE 8 /* buckets there is room for at first */

struct ledger_bucket {
	struct account *account;
	char *policy;
	bool live;   /* in the last reading */
	bool unsure; /* no room, but only because some partitions are still being counted */
	uint64_t share, active;
	uint64_t added, reserved;
	struct ledger_claim *first, *last;
	struct ledger_bucket *dirty_next;
	bool dirty;
};

struct account {
	struct account *next; /* of the same place in the table */
	uint64_t hash;
	char *tenant;
	int32_t partition;
	uint64_t held; /* claims, messages, callers */
	uint64_t read_ns, used_ns;
	int64_t minute;	  /* of the reading */
	uint64_t version; /* of the limits */
	bool dry_run;
	struct ledger_bucket **buckets; /* the default one first */
	size_t n, cap;
};

struct ledger {
	struct tally **tally;
	struct account **table;
	size_t size;
	struct ledger_bucket *dirty, *dirty_last;
	struct tally_bucket *scratch;
	size_t scratch_cap;
	bool scope_known, by_partition;
	uint64_t scope_version;
	struct ledger_facts facts;
};

struct ledger *ledger_new(struct tally **tally)
{
	struct ledger *ledger = calloc(1, sizeof *ledger);
	must(ledger);
	ledger->tally = tally;
	ledger->size = TABLE_FIRST;
	ledger->table = calloc(ledger->size, sizeof *ledger->table);
	ledger->scratch_cap = READ_AT_ONCE;
	ledger->scratch = calloc(ledger->scratch_cap, sizeof *ledger->scratch);
	must(ledger->table && ledger->scratch);
	return ledger;
}

static void free_account(struct account *account)
{
	for (size_t i = 0; i < account->n; i++) {
		free(account->buckets[i]->policy);
		free(account->buckets[i]);
	}
	free(account->buckets);
	free(account->tenant);
	free(account);
}

void ledger_free(struct ledger **ledger)
{
	if (!*ledger)
		return;
	for (size_t i = 0; i < (*ledger)->size; i++)
		while ((*ledger)->table[i]) {
			struct account *account = (*ledger)->table[i];
			(*ledger)->table[i] = account->next;
			free_account(account);
		}
	free((*ledger)->table);
	free((*ledger)->scratch);
	free(*ledger);
	*ledger = NULL;
}

const struct ledger_facts *ledger_facts(const struct ledger *ledger)
{
	return &ledger->facts;
}

/* ------------------------------------------------------------------ accounts */

static void grow_table(struct ledger *ledger)
{
	size_t size = ledger->size * 2;
	struct account **table = calloc(size, sizeof *table);
	must(table);
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
	account = calloc(1, sizeof *account);
	must(account);
	account->tenant = strdup(tenant);
	must(account->tenant);
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

/* Buckets come in the same order as last time, unless the limits have changed. */
static struct ledger_bucket *bucket_named(struct account *account, size_t hint, const char *policy)
{
	if (hint < account->n && !strcmp(account->buckets[hint]->policy, policy))
		return account->buckets[hint];
	for (size_t i = 0; i < account->n; i++)
		if (!strcmp(account->buckets[i]->policy, policy))
			return account->buckets[i];
	if (account->n == account->cap) {
		account->cap = account->cap ? account->cap * 2 : 4;
		account->buckets =
			reallocarray(account->buckets, account->cap, sizeof *account->buckets);
		must(account->buckets);
	}
	struct ledger_bucket *bucket = calloc(1, sizeof *bucket);
	must(bucket);
	bucket->account = account;
	bucket->policy = strdup(policy);
	must(bucket->policy);
	return account->buckets[account->n++] = bucket;
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
		ledger->scratch = calloc(ledger->scratch_cap, sizeof *ledger->scratch);
		must(ledger->scratch);
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

/* A bucket that no limit names any more has streams of the default one. */
static void follow_default(struct account *account)
{
	for (size_t i = 1; i < account->n; i++) {
		struct ledger_bucket *bucket = account->buckets[i];
		if (bucket->live)
			continue;
		bucket->unsure = account->buckets[0]->unsure;
		bucket->share = account->buckets[0]->share;
		bucket->active = account->buckets[0]->active;
		bucket->added = 0;
	}
}

static int read_account(struct ledger *ledger, struct account *account)
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

static bool limits_changed(const struct ledger *ledger, uint64_t version)
{
	return *ledger->tally && client_stand_limits(*ledger->tally) != version;
}

int ledger_by_partition(struct ledger *ledger, const char *tenant, bool *by_partition)
{
	struct tally_tenant_limits limits = {0};
	size_t n;
	int err = 0;
	if (!ledger->scope_known || limits_changed(ledger, ledger->scope_version))
		err = read_buckets(ledger, tenant, -1, &limits, &n);
	*by_partition = ledger->by_partition;
	return err;
}

int ledger_bucket(struct ledger *ledger, const char *tenant, int32_t partition, const char *policy,
	struct ledger_bucket **bucket)
{
	struct account *account = account_of(ledger, tenant, partition);
	account->used_ns = host_boot_ns();
	if (!account->read_ns || limits_changed(ledger, account->version)) {
		int err = read_account(ledger, account);
		if (err)
			return err;
	}
	*bucket = account->buckets[0];
	for (size_t i = 1; *policy && i < account->n; i++)
		if (account->buckets[i]->live && !strcmp(account->buckets[i]->policy, policy))
			*bucket = account->buckets[i];
	ledger_hold(*bucket);
	return 0;
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

/* ------------------------------------------------------------------ claims */

/* The default bucket, and those that no limit names any more, share one share. */
static bool is_shared(const struct ledger_bucket *bucket)
{
	return !bucket->live || bucket == bucket->account->buckets[0];
}

static void make_dirty(struct ledger *ledger, struct ledger_bucket *bucket)
{
	if (bucket->dirty || !bucket->first)
		return;
	bucket->dirty = true;
	bucket->dirty_next = NULL;
	*(ledger->dirty_last ? &ledger->dirty_last->dirty_next : &ledger->dirty) = bucket;
	ledger->dirty_last = bucket;
	ledger_hold(bucket);
}

void ledger_claim(struct ledger *ledger, struct ledger_claim *claim)
{
	struct ledger_bucket *bucket = claim->bucket;
	must(claim->want > 0);
	claim->next = NULL;
	claim->prev = bucket->last;
	*(bucket->last ? &bucket->last->next : &bucket->first) = claim;
	bucket->last = claim;
	ledger->facts.waiting++;
	make_dirty(ledger, bucket);
}

void ledger_withdraw(struct ledger *ledger, struct ledger_claim *claim)
{
	struct ledger_bucket *bucket = claim->bucket;
	*(claim->prev ? &claim->prev->next : &bucket->first) = claim->next;
	*(claim->next ? &claim->next->prev : &bucket->last) = claim->prev;
	ledger->facts.waiting--;
	if (!claim->prev)
		make_dirty(ledger, bucket);
}

void ledger_return(
	struct ledger *ledger, struct ledger_bucket *bucket, uint64_t reserved, uint64_t used)
{
	must(reserved <= bucket->reserved && used <= reserved);
	bucket->reserved -= reserved;
	bucket->added += used;
	ledger->facts.reserved -= reserved;
	for (size_t i = 0; i < bucket->account->n; i++) {
		struct ledger_bucket *other = bucket->account->buckets[i];
		if (other == bucket || (is_shared(bucket) && is_shared(other)))
			make_dirty(ledger, other);
	}
}

/* What is under way, and what has come back since the reading. */
static uint64_t under_way(const struct ledger_bucket *bucket, uint64_t *reserved)
{
	const struct account *account = bucket->account;
	uint64_t sum = 0;
	*reserved = 0;
	for (size_t i = 0; i < account->n; i++) {
		const struct ledger_bucket *other = account->buckets[i];
		if (other != bucket && !(is_shared(bucket) && is_shared(other)))
			continue;
		*reserved += other->reserved;
		if (__builtin_add_overflow(sum, other->added, &sum) ||
			__builtin_add_overflow(sum, other->reserved, &sum))
			return UINT64_MAX;
	}
	return sum;
}

static uint64_t headroom(const struct ledger_bucket *bucket)
{
	uint64_t taken, reserved;
	if (__builtin_add_overflow(bucket->active, under_way(bucket, &reserved), &taken))
		return 0;
	return taken < bucket->share ? bucket->share - taken : 0;
}

static bool read_lately(struct ledger *ledger, const struct account *account, uint64_t now_ns)
{
	return account->read_ns && now_ns - account->read_ns <= LEDGER_FULL_NS &&
	       tally_now_ms(*ledger->tally) / 60000 == account->minute;
}

enum decision { GRANT, GRANT_ALL, WAIT, FULL, FAIL };

/* Without room: full, when it is certain; else it waits for what is under way. */
/* Nobody is told "too many" while it is not known how many there are. */
static enum decision no_room(const struct ledger_bucket *bucket)
{
	return bucket->unsure ? FAIL : FULL;
}

static enum decision decide_without_room(
	struct ledger *ledger, struct ledger_bucket *bucket, uint64_t now_ns)
{
	struct account *account = bucket->account;
	bool fresh = read_lately(ledger, account, now_ns);
	if (fresh && bucket->active >= bucket->share)
		return no_room(bucket);
	uint64_t reserved;
	under_way(bucket, &reserved);
	if (fresh && reserved)
		return WAIT;
	if (read_account(ledger, account))
		return FAIL;
	if (bucket->share == TALLY_UNLIMITED || account->dry_run)
		return GRANT_ALL;
	if (headroom(bucket))
		return GRANT;
	return bucket->active >= bucket->share ? no_room(bucket) : WAIT;
}

static enum decision decide(struct ledger *ledger, struct ledger_bucket *bucket)
{
	struct account *account = bucket->account;
	uint64_t now = host_boot_ns();
	bool changed = !account->read_ns || limits_changed(ledger, account->version);
	bool old = bucket->share != TALLY_UNLIMITED && now - account->read_ns > LEDGER_STALE_NS;
	if (!*ledger->tally || ((changed || old) && read_account(ledger, account)))
		return FAIL;
	if (bucket->share == TALLY_UNLIMITED || account->dry_run)
		return GRANT_ALL;
	return headroom(bucket) ? GRANT : decide_without_room(ledger, bucket, now);
}

static void give(struct ledger *ledger, struct ledger_claim *claim)
{
	struct ledger_bucket *bucket = claim->bucket;
	uint64_t room = headroom(bucket);
	uint64_t granted = claim->want < room ? claim->want : room;
	bucket->reserved += granted;
	ledger->facts.reserved += granted;
	claim->want -= granted;
	if (!claim->want)
		ledger_withdraw(ledger, claim);
	claim->decided(claim, LEDGER_GRANTED, granted, 0);
}

/* In a dry run what is admitted counts as far as it is known, so that `beyond` is about right. */
static void give_all(struct ledger *ledger, struct ledger_claim *claim)
{
	struct ledger_bucket *bucket = claim->bucket;
	uint64_t want = claim->want, room = headroom(bucket);
	uint64_t beyond = bucket->share != TALLY_UNLIMITED && want > room ? want - room : 0;
	if (bucket->share != TALLY_UNLIMITED)
		bucket->added += want;
	claim->want = 0;
	ledger_withdraw(ledger, claim);
	claim->decided(claim, LEDGER_UNLIMITED, want, beyond);
}

static void refuse(struct ledger *ledger, struct ledger_claim *claim, enum ledger_verdict verdict)
{
	ledger_withdraw(ledger, claim);
	claim->decided(claim, verdict, 0, 0);
}

/* false: its first claim waits, or there is none. */
static bool serve_first(struct ledger *ledger, struct ledger_bucket *bucket)
{
	struct ledger_claim *claim = bucket->first;
	if (!claim)
		return false;
	switch (decide(ledger, bucket)) {
	case GRANT:
		give(ledger, claim);
		return true;
	case GRANT_ALL:
		give_all(ledger, claim);
		return true;
	case FULL:
		refuse(ledger, claim, LEDGER_FULL);
		return true;
	case FAIL:
		refuse(ledger, claim, LEDGER_FAILED);
		return true;
	case WAIT:
		break;
	}
	return false;
}

void ledger_pump(struct ledger *ledger)
{
	while (ledger->dirty) {
		struct ledger_bucket *bucket = ledger->dirty;
		ledger->dirty = bucket->dirty_next;
		if (!ledger->dirty)
			ledger->dirty_last = NULL;
		while (serve_first(ledger, bucket))
			;
		bucket->dirty = false;
		ledger_release(bucket);
	}
}
