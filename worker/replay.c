/*
 * replay.c - turns one Kafka partition into usage, a batch at a time.
 *
 *	source_next -> record_decode -> usage_add --.
 *	     ^                                      |  one store transaction
 *	     '-- replay_next <- usage_advance <-----'
 *
 * The offset is committed with the counts it accounts for.  A worker killed at
 * any instruction restarts at the first record whose effect is not in the
 * store: nothing lost, nothing twice, no shutdown path to get right.
 *
 * A commit that cannot be made now (no room, no lease) is made later with the
 * same batch; until then nothing is read, so nothing is lost or doubled either.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere (a commit is memory only).
 */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

#include "quit.h"

#include "shm/check.h"
#include "shm/err.h"
#include "shm/host.h"
#include "shm/log.h"
#include "shm/record.h"

#define MS UINT64_C(1000000)

#define LIVE_RECORDS	    10000 /* a commit of so many is short enough for whoever waits for it */
#define REPLAY_RECORDS_MIN  50000
#define REPLAY_FLUSH_MS	    500 /* nobody reads before ready: large batches are what counts */
#define LIVE_SWEEP_BLOCKS   16
#define HELD_MIN_MS	    100
#define HELD_MAX_MS	    2000
#define QUARANTINE_KEY_SIZE 4

struct replay {
	struct replay_options o;
	int64_t next;	  /* offset to be read */
	int64_t advanced; /* as the batch in usage knows it */
	int64_t target, eof;
	bool live;
	struct usage_fingerprint print;
	/* the batch */
	uint64_t records; /* read since the last commit */
	uint64_t limit;	  /* commit at so many */
	uint64_t due_ns;  /* commit it then; 0 = nothing to commit */
	uint64_t committed_ns;
	bool flush_now;
	/* a commit that could not be made */
	int held; /* ERR_FULL, ERR_LEASE, or 0 */
	uint64_t held_since_ns;
	uint32_t held_ms;
	/* sweeping without records */
	uint32_t swept_minute;
	uint64_t sweep_left;
	int64_t last_timestamp_ms;
	uint64_t read_total;
	struct log_limit bad_limit, other_limit;
};

void replay_new(const struct replay_options *options, struct replay **out)
{
	struct replay *replay = calloc(1, sizeof(*replay));
	const struct usage_meta *meta = usage_meta(options->usage);

	must(replay);
	replay->o = *options;
	replay->next = replay->advanced = meta->next_offset;
	replay->print = meta->fingerprint;
	replay->target = INT64_MAX;
	replay->eof = -1;
	replay->last_timestamp_ms = -1;
	facts_mirror(options->facts, meta);
	*out = replay;
}

/* --- committing ---------------------------------------------------------------------------- */

/* Asked right before a commit: the partition must still be ours, in this generation, under a lease.
 */
static bool may_commit(void *arg)
{
	const struct replay *replay = arg;
	const struct handoff *handoff = replay->o.handoff;
	const struct table *table = replay->o.table;
	struct table_entry entry;

	if (atomic_load_explicit(&table->head->retired, memory_order_acquire) ||
		table_read(table, handoff->partition, &entry) != 0 ||
		entry.generation != handoff->generation)
		return false;
	if (entry.state != PART_PENDING && entry.state != PART_REPLAYING &&
		entry.state != PART_READY)
		return false;
	return host_boot_ns() < entry.lease_until;
}

static enum worker_flag flag_of(int held)
{
	return held == ERR_FULL ? FLAG_STORE_FULL : FLAG_LEASE_OVER;
}

static void release(struct replay *replay)
{
	if (!replay->held)
		return;
	facts_flag(replay->o.facts, flag_of(replay->held), false);
	log_info("replay.resumed", "after=%s held_ms=%llu next=%lld", err_word(replay->held),
		(unsigned long long)((host_boot_ns() - replay->held_since_ns) / MS),
		(long long)replay->next);
	replay->held = 0;
}

static void hold(struct replay *replay, int err)
{
	if (replay->held != err) {
		if (replay->held)
			facts_flag(replay->o.facts, flag_of(replay->held), false);
		facts_flag(replay->o.facts, flag_of(err), true);
		log_warn("replay.held", "reason=%s next=%lld kept=%zu action=\"%s\"", err_word(err),
			(long long)replay->next, usage_pending(replay->o.usage),
			err == ERR_FULL ? "trying again; make room in run_dir"
					: "trying again while the lease is over");
		replay->held = err;
		replay->held_since_ns = host_boot_ns();
		replay->held_ms = HELD_MIN_MS;
	} else if (err == ERR_FULL) {
		replay->held_ms *= 2;
		if (replay->held_ms > HELD_MAX_MS)
			replay->held_ms = HELD_MAX_MS;
	}
	replay->due_ns = host_boot_ns() + replay->held_ms * MS;
}

static void committed(struct replay *replay, uint64_t began_ns, int64_t now)
{
	struct stats *stats = replay->o.facts->stats;

	replay->committed_ns = host_boot_ns();
	facts_mirror(replay->o.facts, usage_meta(replay->o.usage));
	facts_committed(replay->o.facts, began_ns, replay->committed_ns);
	stats_set(stats, in_hand, 0);
	if (replay->last_timestamp_ms >= 0)
		stats_set(stats, record_lag_ms,
			now > replay->last_timestamp_ms ? now - replay->last_timestamp_ms : 0);
	log_debug("replay.commit", "records=%llu next=%lld us=%llu",
		(unsigned long long)replay->records, (long long)replay->next,
		(unsigned long long)((replay->committed_ns - began_ns) / 1000));
	replay->records = 0;
	replay->due_ns = 0;
	replay->flush_now = false;
	release(replay);
}

/* 0, ERR_FULL or ERR_LEASE; whatever else goes wrong is not healed by trying again here. */
static int commit(struct replay *replay, unsigned sweep_blocks)
{
	uint64_t began_ns = host_boot_ns();
	struct usage_commit how = {
		.now_ms = now_ms(replay->o.now),
		.sweep_blocks = sweep_blocks,
		.may_commit = may_commit,
		.arg = replay,
	};
	int err = usage_commit(replay->o.usage, &how);

	if (err == ERR_CORRUPT)
		quit_rebuild(
			replay->o.facts->stats, REBUILD_CORRUPT, "the store contradicts itself");
	if (err && err != ERR_FULL && err != ERR_LEASE)
		quit_internal("commit", err);
	if (!err)
		committed(replay, began_ns, how.now_ms);
	return err;
}

/* The batch accounts for every record that was read, whatever happened in between. */
static void settle(struct replay *replay)
{
	if (replay->next > replay->advanced)
		usage_advance(replay->o.usage, replay->next, NULL);
	replay->advanced = replay->next;
}

bool replay_flush(struct replay *replay)
{
	unsigned sweep = replay->live ? LIVE_SWEEP_BLOCKS : 0;
	int err;

	settle(replay);
	if (!usage_dirty(replay->o.usage)) {
		replay->due_ns = 0;
		replay->flush_now = false;
		return true;
	}
	replay->sweep_left -= replay->sweep_left < sweep ? replay->sweep_left : sweep;
	err = commit(replay, sweep);
	if (err)
		hold(replay, err);
	return err == 0;
}

/* So many records make a batch. */
static uint64_t batch_limit(const struct replay *replay)
{
	const struct handoff *handoff = replay->o.handoff;
	uint64_t limit = usage_meta(replay->o.usage)->streams / 4;

	if (handoff->batch_max)
		return handoff->batch_max;
	if (replay->live)
		return LIVE_RECORDS;
	if (limit < REPLAY_RECORDS_MIN)
		limit = REPLAY_RECORDS_MIN;
	return limit < handoff->batch_records ? limit : handoff->batch_records;
}

/*
 * A lone record is committed at once, a stream of them at most once every flush_ms.
 */
static void set_due(struct replay *replay)
{
	if (replay->due_ns || replay->held)
		return;
	if (replay->live)
		replay->due_ns = replay->committed_ns + replay->o.handoff->flush_ms * MS;
	else
		replay->due_ns = host_boot_ns() + REPLAY_FLUSH_MS * MS;
}

/* --- reading ------------------------------------------------------------------------------- */

static bool is_quarantined(const struct handoff *handoff, int64_t offset)
{
	for (uint32_t i = 0; i < handoff->n_quarantine; i++)
		if (handoff->quarantine[i] == offset)
			return true;
	return false;
}

/* Kept as { big-endian length of the key : 4, key, value }. */
static void quarantine(struct replay *replay, const struct source_event *event)
{
	size_t len = QUARANTINE_KEY_SIZE + event->key_len + event->value_len;
	uint8_t *raw = malloc(len);
	size_t at = QUARANTINE_KEY_SIZE;

	must(raw);
	for (int i = 0; i < QUARANTINE_KEY_SIZE; i++)
		raw[i] = (uint8_t)(event->key_len >> (24 - 8 * i));
	if (event->key_len)
		memcpy(raw + at, event->key, event->key_len);
	if (event->value_len)
		memcpy(raw + at + event->key_len, event->value, event->value_len);
	usage_quarantine(replay->o.usage, event->offset, (struct store_bytes){raw, len});
	free(raw);
	log_warn("replay.quarantined", "offset=%lld bytes=%zu", (long long)event->offset, len);
}

static void apply(struct replay *replay, const struct source_event *event, int64_t now)
{
	struct record record;
	enum skip_reason reason;

	if (is_quarantined(replay->o.handoff, event->offset)) {
		quarantine(replay, event);
		return;
	}
	reason = record_decode(event->value, event->value_len, &record);
	if (reason != SKIP_NONE) {
		usage_skip(replay->o.usage, reason);
		return;
	}
#ifdef TALLY_TEST_POISON
	/* The one trap for tests of the quarantine; only in builds with VARIANT=poison. */
	if (record.tenant_len == 6 && memcmp(record.tenant, "poison", 6) == 0)
		abort();
#endif
	record.timestamp_ms = event->timestamp_ms;
	record.offset = event->offset;
	record_source(event->header, event->header_len, &record);
	if (usage_add(replay->o.usage, &record, now) == SKIP_NONE)
		replay->last_timestamp_ms = event->timestamp_ms;
}

static void take_record(struct replay *replay, const struct source_event *event, int64_t now)
{
	if (event->offset < replay->next)
		return; /* delivered before */
	/* Published before the record is touched: should it kill us, the supervisor knows which. */
	stats_set(replay->o.facts->stats, in_hand, event->offset + 1);
	if (event->offset > replay->next)
		usage_gap(replay->o.usage, (uint64_t)(event->offset - replay->next));
	apply(replay, event, now);
	replay->next = event->offset + 1;
	replay->records++;
	replay->read_total++;
}

/* Tells usage how far the batch goes, with the fingerprint of its last record while we have it. */
static void advance(struct replay *replay, const struct source_event *event)
{
	if (replay->next <= replay->advanced || event->offset != replay->next - 1)
		return;
	replay->print = (struct usage_fingerprint){
		.offset = event->offset,
		.timestamp_ms = event->timestamp_ms,
		.hash = usage_hash_record(
			event->key, event->key_len, event->value, event->value_len),
	};
	usage_advance(replay->o.usage, replay->next, &replay->print);
	replay->advanced = replay->next;
	facts_flag(replay->o.facts, FLAG_BAD_BATCH, false);
	facts_flag(replay->o.facts, FLAG_STALLED, false);
	if (replay->next >= replay->target && !replay->live)
		replay->flush_now = true;
	set_due(replay);
}

/* Moves over offsets that hold no record for us, without a fingerprint. */
static void skip_to(struct replay *replay, int64_t offset)
{
	if (offset <= replay->next)
		return;
	replay->next = offset;
	settle(replay);
	set_due(replay);
}

static void log_trouble(struct replay *replay, const struct source_event *event)
{
	bool bad = event->kind == SOURCE_BAD;
	char quoted[300];
	unsigned swallowed;

	if (bad)
		facts_flag(replay->o.facts, FLAG_BAD_BATCH, true);
	if (!log_limit_pass(bad ? &replay->bad_limit : &replay->other_limit, 10000, &swallowed))
		return;
	log_warn(bad ? "replay.bad_batch" : "replay.fetch_error",
		"next=%lld error=%s suppressed=%u action=\"trying again\"", (long long)replay->next,
		log_quote(quoted, sizeof(quoted), event->error), swallowed);
}

static enum replay_result take(struct replay *replay, const struct source_event *event, int64_t now)
{
	switch (event->kind) {
	case SOURCE_RECORD:
		take_record(replay, event, now);
		if (replay->records >= replay->limit || source_last(replay->o.source))
			advance(replay, event);
		break;
	case SOURCE_END:
		skip_to(replay, event->offset);
		replay->eof = event->offset;
		if (!replay->live)
			replay->flush_now = true;
		break;
	case SOURCE_OUT_OF_RANGE:
		log_trouble(replay, event);
		return REPLAY_LOST_PLACE;
	case SOURCE_UNKNOWN:
		log_trouble(replay, event);
		return REPLAY_NO_TOPIC;
	case SOURCE_BAD:
	case SOURCE_ERROR:
		log_trouble(replay, event);
		break;
	}
	return REPLAY_MORE;
}

/* Commits what is due.  False: held. */
static bool flush_if_due(struct replay *replay)
{
	if (replay->flush_now || (replay->due_ns && host_boot_ns() >= replay->due_ns))
		return replay_flush(replay);
	return true;
}

enum replay_result replay_turn(struct replay *replay)
{
	int64_t now = now_ms(replay->o.now);
	struct source_event event;
	bool empty = true;

	if (replay->held)
		return REPLAY_HELD;
	replay->limit = batch_limit(replay);
	for (int fetches = 0; fetches < 2; fetches++) {
		while (source_next(replay->o.source, &event)) {
			enum replay_result result = take(replay, &event, now);

			empty = false;
			if (result != REPLAY_MORE)
				return result;
			if (replay->records >= replay->limit && !replay_flush(replay))
				return REPLAY_HELD;
		}
		if (fetches == 0 && source_fetch(replay->o.source, SOURCE_BATCH) == 0)
			break;
	}
	if (!replay->live)
		stats_set(replay->o.facts->stats, replayed, replay->read_total);
	if (!flush_if_due(replay))
		return REPLAY_HELD;
	return empty ? REPLAY_IDLE : REPLAY_MORE;
}

/* --- around it ----------------------------------------------------------------------------- */

void replay_begin(struct replay *replay, const struct plan *plan)
{
	struct stats *stats = replay->o.facts->stats;

	replay->target = plan->target;
	replay->eof = -1;
	if (plan->gap > 0) {
		usage_gap(replay->o.usage, (uint64_t)plan->gap);
		log_warn("replay.gap", "offsets=%lld next=%lld log_start=%lld",
			(long long)plan->gap, (long long)replay->next,
			(long long)(replay->next + plan->gap));
	}
	skip_to(replay, plan->from);
	stats_set(stats, start_offset, plan->from);
	stats_set(stats, target_offset, plan->target);
	(void)replay_flush(replay);
}

uint64_t replay_due_ns(const struct replay *replay)
{
	return replay->due_ns;
}

enum replay_result replay_timer(struct replay *replay)
{
	if (replay->due_ns == 0 || host_boot_ns() < replay->due_ns)
		return REPLAY_IDLE;
	return replay_flush(replay) ? REPLAY_MORE : REPLAY_HELD;
}

bool replay_reached(const struct replay *replay)
{
	return !usage_dirty(replay->o.usage) &&
	       plan_done(replay->target, replay->next, replay->eof, replay->next - 1);
}

void replay_go_live(struct replay *replay)
{
	replay->live = true;
}

bool replay_is_live(const struct replay *replay)
{
	return replay->live;
}

/*
 * Expired streams count for nothing by themselves; this only reclaims their
 * space.  Streams can expire once a minute, so one pass over all blocks each
 * minute is enough, spread over its seconds.
 */
void replay_idle_second(struct replay *replay)
{
	const struct usage_meta *meta = usage_meta(replay->o.usage);
	uint32_t minute = window_minute_of_ms(now_ms(replay->o.now));
	uint64_t blocks;

	if (!replay->live || replay->held || meta->streams == 0 || usage_dirty(replay->o.usage))
		return;
	if (minute != replay->swept_minute) {
		replay->swept_minute = minute;
		replay->sweep_left = meta->blocks;
	}
	blocks = meta->blocks / 50 + LIVE_SWEEP_BLOCKS;
	if (replay->sweep_left == 0 || host_boot_ns() - replay->committed_ns < 900 * MS)
		return;
	if (blocks > replay->sweep_left)
		blocks = replay->sweep_left;
	replay->sweep_left -= blocks;
	(void)commit(replay, (unsigned)blocks); /* not now: then later */
}

void replay_check_lease(struct replay *replay)
{
	if (!replay->held)
		facts_flag(replay->o.facts, FLAG_LEASE_OVER, !may_commit(replay));
}

int64_t replay_next(const struct replay *replay)
{
	return replay->next;
}

const struct usage_fingerprint *replay_fingerprint(const struct replay *replay)
{
	return &replay->print;
}

bool replay_held(const struct replay *replay)
{
	return replay->held != 0;
}
