/*
 * oracle.h - what a store must contain, computed the slow, obvious way.
 *
 *	records, one by one --> oracle_add --> lists of streams, bytes, sources
 *	store ------------------------------> oracle_compare --> the first difference, in words
 *
 * Shares no code with shm/usage but the types: streams are found by looking at
 * all of them, sums are made by adding up all records.
 */
#ifndef TALLY_TESTS_ORACLE_H
#define TALLY_TESTS_ORACLE_H

#include "shm/record.h"
#include "shm/usage.h"

struct oracle_stream {
	char *tenant, *policy;
	uint64_t hash;
	uint32_t last_seen_s;
};

/* One record that counts. */
struct oracle_bytes {
	char *tenant, *policy;
	uint64_t hash;
	uint32_t minute;
	uint64_t bytes;
};

struct oracle_source {
	uint8_t incarnation[INCARNATION_SIZE];
	uint64_t sequence;
};

struct oracle {
	uint32_t partition, partitions, window;
	uint8_t incarnation[INCARNATION_SIZE];
	struct oracle_stream *streams;
	struct oracle_bytes *bytes;
	struct oracle_source *sources;
	size_t n_streams, n_bytes, n_sources;
	char **names; /* every text once; compared by pointer after oracle_text */
	size_t n_names;
	struct {
		char *tenant, *policy;
	} * policies; /* known pairs, for the limit of policies */
	size_t n_policies;
	uint64_t records, applied, sum, skipped[SKIP_REASONS], policy_overflow;
};

/* `incarnation`: of the store that is to be compared. */
struct oracle *oracle_new(uint32_t partition, uint32_t partitions, uint32_t window,
	const uint8_t incarnation[INCARNATION_SIZE]);
void oracle_free(struct oracle **oracle);

enum skip_reason oracle_add(struct oracle *oracle, const struct record *record, int64_t now_ms);

/* Active streams and bytes of the window at now; policy NULL: of all policies. */
uint64_t oracle_count(
	const struct oracle *oracle, const char *tenant, const char *policy, int64_t now_ms);
uint64_t oracle_sum(
	const struct oracle *oracle, const char *tenant, const char *policy, int64_t now_ms);

/*
 * Compares meta's counters, every stream, and every row minute by minute, as of
 * now_ms, which is not before the last record's.  A stream that the store has
 * no more must have expired.  0, or -1 with the first difference in `why`.
 */
int oracle_compare(struct oracle *oracle, struct store_txn *txn, int64_t now_ms, char why[256]);

#endif
