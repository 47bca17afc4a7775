/*
 * ledger.c - who may let how many new streams in: budgets, so that limits are exact.
 *
 *	claim -> bucket's queue -> dirty -> ledger_pump: decide -> granted | full | failed | it waits
 *
 * Runs in: queryd, asker thread.  Blocks in: nowhere.
 */
#include "ledger.h"

#include <stdlib.h>

#include "ledger_private.h"

#include "shm/check.h"
#include "shm/host.h"

struct ledger *ledger_new(struct tally **tally)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));
	must_get(ledger);
	ledger->tally = tally;
	ledger_init_accounts(ledger);
	return ledger;
}

void ledger_free(struct ledger **ledger)
{
	if (!*ledger)
		return;
	ledger_free_accounts(*ledger);
	free(*ledger);
	*ledger = NULL;
}

const struct ledger_facts *ledger_facts(const struct ledger *ledger)
{
	return &ledger->facts;
}

/* ------------------------------------------------------------------ claims */

/* The first of all that share its share: the default bucket, or itself alone. */
static struct ledger_bucket *shares_of(struct ledger_bucket *bucket)
{
	return bucket->live ? bucket : bucket->account->buckets[0];
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
	for (bucket = shares_of(bucket); bucket; bucket = bucket->shares_next)
		make_dirty(ledger, bucket);
}

/* What is under way, and what has come back since the reading. */
static uint64_t under_way(struct ledger_bucket *bucket, uint64_t *reserved)
{
	uint64_t sum = 0;
	*reserved = 0;
	for (bucket = shares_of(bucket); bucket; bucket = bucket->shares_next) {
		*reserved += bucket->reserved;
		if (__builtin_add_overflow(sum, bucket->added, &sum) ||
			__builtin_add_overflow(sum, bucket->reserved, &sum))
			return UINT64_MAX;
	}
	return sum;
}

static uint64_t headroom(struct ledger_bucket *bucket)
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

/* Nobody is told "too many" while it is not known how many there are. */
static enum decision no_room(const struct ledger_bucket *bucket)
{
	return bucket->unsure ? FAIL : FULL;
}

/* Without room: full, when it is certain; else it waits for what is under way. */
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
	if (ledger_read(ledger, account))
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
	bool changed = !account->read_ns || ledger_limits_changed(ledger, account->version);
	bool old = bucket->share != TALLY_UNLIMITED && now - account->read_ns > LEDGER_STALE_NS;
	if (!*ledger->tally || ((changed || old) && ledger_read(ledger, account)))
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
