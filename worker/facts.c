/*
 * facts.c - what a worker tells the world about itself: its stats file.
 *
 *	store's meta row --facts_mirror--> stats --map, pread--> everybody else
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "facts.h"

#include "shm/host.h"
#include "shm/log.h"

#define OLD_READER_NS UINT64_C(5000000000) /* a call takes milliseconds */

/* What is of this run alone.  Counters go on from where a predecessor left them. */
void facts_start(struct facts *facts, struct stats *stats)
{
	*facts = (struct facts){.stats = stats};
	stats_set(stats, flags, 0);
	stats_set(stats, in_hand, 0);
	stats_set(stats, rebuild_reason, REBUILD_NONE);
	stats_set(stats, in_store, 0);
	stats_set(stats, commit_ns_last, 0);
	stats_set(stats, commit_ns_max, 0);
	stats_set(stats, records_per_sec, 0);
	stats_set(stats, replayed, 0);
}

void facts_phase(struct facts *facts, enum worker_phase phase)
{
	stats_set(facts->stats, phase, phase);
	stats_set(facts->stats, heartbeat, host_boot_ns());
}

bool facts_flag(struct facts *facts, enum worker_flag flag, bool on)
{
	uint64_t flags = stats_get(facts->stats, flags);
	uint64_t changed = on ? flags | flag : flags & ~(uint64_t)flag;

	if (changed == flags)
		return false;
	stats_set(facts->stats, flags, changed);
	return true;
}

void facts_add_lookup_error(struct facts *facts)
{
	stats_set(facts->stats, lookup_errors, stats_get(facts->stats, lookup_errors) + 1);
}

void facts_mirror(struct facts *facts, const struct usage_meta *meta)
{
	struct stats *stats = facts->stats;

	stats_set(stats, next_offset, meta->next_offset + 1);
	stats_set(stats, records, meta->records);
	stats_set(stats, applied, meta->applied);
	stats_set(stats, bytes, meta->bytes);
	stats_set(stats, gaps, meta->gaps);
	stats_set(stats, gap_offsets, meta->gap_offsets);
	stats_set(stats, streams, meta->streams);
	stats_set(stats, swept, meta->swept);
	stats_set(stats, policy_overflow, meta->policy_overflow);
	stats_set(stats, quarantined, meta->skipped[SKIP_QUARANTINED]);
	stats_set(stats, outbox, meta->outbox);
	for (int i = 0; i < SKIP_REASONS; i++)
		stats_set(stats, skipped[i], meta->skipped[i]);
}

void facts_committed(struct facts *facts, uint64_t began_ns, uint64_t ended_ns)
{
	struct stats *stats = facts->stats;
	uint64_t took = ended_ns - began_ns;

	stats_set(stats, commits, stats_get(stats, commits) + 1);
	stats_set(stats, commit_ns_last, took);
	if (took > stats_get(stats, commit_ns_max))
		stats_set(stats, commit_ns_max, took);
	stats_set(stats, last_commit_at, ended_ns);
	stats_set(stats, heartbeat, ended_ns);
}

static void second_rate(struct facts *facts, uint64_t now_ns)
{
	unsigned oldest = facts->rate_next, slot = facts->rate_next;
	uint64_t records = stats_get(facts->stats, records), span_ns;

	/* The ring's next slot holds the oldest sample, once the ring has been filled. */
	if (facts->rate[oldest].at_ns == 0)
		oldest = 0;
	span_ns = now_ns - facts->rate[oldest].at_ns;
	if (facts->rate[oldest].at_ns != 0 && span_ns > 0)
		stats_set(facts->stats, records_per_sec,
			(double)(records - facts->rate[oldest].records) * 1e9 / (double)span_ns);
	facts->rate[slot].at_ns = now_ns;
	facts->rate[slot].records = records;
	facts->rate_next = (slot + 1) % FACTS_RATE_SLOTS;
}

/*
 * A call takes milliseconds.  One that is stopped in the middle of one keeps all pages that
 * were freed since: the store grows until it is full, and nobody but its owner can end it.
 */
static void mind_old_reader(struct facts *facts, const struct store_facts *store, uint64_t now_ns)
{
	if (!store->oldest_pid || store->oldest_pid != facts->reader_pid ||
		store->oldest_reader != facts->reader_txn)
		facts->reader_since_ns = now_ns;
	facts->reader_pid = store->oldest_pid;
	facts->reader_txn = store->oldest_reader;
	bool old = now_ns - facts->reader_since_ns >= OLD_READER_NS;
	if (!facts_flag(facts, FLAG_OLD_READER, old))
		return;
	if (old)
		log_warn("store.old_reader",
			"pid=%u transactions=%llu action=\"end that process, or let it go on: the "
			"store "
			"grows until then\"",
			store->oldest_pid,
			(unsigned long long)(store->last_txn - store->oldest_reader));
	else
		log_info("store.old_reader_gone", "used=%llu free=%llu",
			(unsigned long long)store->used_bytes,
			(unsigned long long)(store->free_pages * store->page_size));
}

void facts_second(struct facts *facts, struct usage *usage, uint64_t now_ns)
{
	struct stats *stats = facts->stats;
	struct store_facts store;

	second_rate(facts, now_ns);
	usage_store_facts(usage, &store);
	stats_set(stats, store_bytes, store.used_bytes);
	stats_set(stats, map_bytes, store.map_bytes);
	stats_set(stats, readers, store.readers);
	stats_set(stats, reader_lag, store.last_txn - store.oldest_reader);
	stats_set(stats, reader_pid, store.oldest_pid);
	mind_old_reader(facts, &store, now_ns);
}
