/*
 * ledger_private.h - what ledger.c and ledger_read.c share: accounts and their buckets.
 *
 *	account (tenant [, partition]) -- one reading of the map: all its buckets
 *	   '- bucket: share, active, added, reserved; claims in order
 */
#ifndef TALLY_QUERYD_LEDGER_PRIVATE_H
#define TALLY_QUERYD_LEDGER_PRIVATE_H

#include "ledger.h"

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
	struct ledger_bucket *shares_next; /* shares_of */
	uint32_t note;			   /* of whoever claims */
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
	uint32_t *index; /* by policy: bucket + 1 */
	size_t index_size;
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

/* --- ledger_read.c ---------------------------------------------------------------------------- */

void ledger_init_accounts(struct ledger *ledger);
void ledger_free_accounts(struct ledger *ledger);

/* Counts all of an account's buckets in the map.  A TALLY_E*: as before, but not read. */
int ledger_read(struct ledger *ledger, struct account *account);

bool ledger_limits_changed(const struct ledger *ledger, uint64_t version);

#endif
