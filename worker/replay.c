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
 * Where there is no room, expired streams are swept before each new try.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere (a commit is memory only).
 */
#include "replay.h"

#include <stdlib.h>

#include "apply.h"
#include "commit.h"

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "shm/log.h"

#define MS UINT64_C(1000000)

#define LIVE_RECORDS	  10000	 /* a commit of so many is short enough for whoever waits for it */
#define REPLAY_RECORDS	  250000 /* a replay's batch, at least */
#define REPLAY_PER_ROW	  50	 /* for each row that it may have to put ... */
#define STREAMS_PER_ITEM  4	 /* ... and one for so many streams: some ten in a block */
#define REPLAY_FLUSH_MS	  500	 /* nobody reads before ready: large batches are what counts */
#define LIVE_SWEEP_BLOCKS 16
#define FULL_SWEEP_BLOCKS 256 /* before a batch is tried again that had no room */

struct replay {
	struct replay_options o;
	struct commit commit;
	int64_t next;	  /* offset to be read */
	int64_t advanced; /* as the batch in usage knows it */
	int64_t target, eof;
	bool live;
	struct usage_fingerprint print, anchor;
	bool placed; /* where it has started is shown */
	bool denied; /* and nothing has come since */
	/* the batch */
	uint64_t records; /* read since the last commit */
	uint64_t limit;	  /* commit at so many */
	uint64_t due_ns;  /* commit it then; 0 = nothing to commit */
	bool flush_now;
	/* sweeping */
	uint32_t swept_minute;
	uint64_t sweep_left;
	int64_t last_timestamp_ms; /* of a record that was applied */
	uint64_t read_total;
	struct log_limit bad_limit, other_limit;
};

void replay_new(const struct replay_options *options, struct replay **out)
{
	struct replay *replay = calloc(1, sizeof(*replay));
	const struct usage_meta *meta = usage_meta(options->usage);

	must_get(replay);
	replay->o = *options;
	replay->commit = (struct commit){.handoff = options->handoff,
		.table = options->table,
		.usage = options->usage,
		.facts = options->facts,
		.now = options->now};
	replay->next = replay->advanced = meta->next_offset;
	replay->print = meta->fingerprint;
	replay->anchor = meta->anchor;
	replay->target = INT64_MAX;
	replay->eof = -1;
	replay->last_timestamp_ms = -1;
	facts_mirror(options->facts, meta);
	*out = replay;
}

/* --- committing ---------------------------------------------------------------------------- */

/* 0, ERR_FULL or ERR_LEASE. */
static int commit_batch(struct replay *replay, unsigned sweep_blocks)
{
	struct stats *stats = replay->o.facts->stats;
	int64_t now, lag_ms;
	int err = commit_try(&replay->commit, sweep_blocks, &now);

	if (err)
		return err;
	stats_set(stats, in_hand, 0);
	lag_ms = now - replay->last_timestamp_ms;
	if (replay->last_timestamp_ms >= 0)
		stats_set(stats, record_lag_ms, lag_ms > 0 ? lag_ms : 0);
	log_debug("replay.commit", "records=%llu next=%lld us=%llu",
		(unsigned long long)replay->records, (long long)replay->next,
		(unsigned long long)(stats_get(stats, commit_ns_last) / 1000));
	replay->records = 0;
	replay->due_ns = 0;
	replay->flush_now = false;
	return 0;
}

/* The batch accounts for every record that was read, whatever happened in between. */
static void settle(struct replay *replay)
{
	if (replay->next > replay->advanced)
		usage_advance(replay->o.usage, replay->next, NULL);
	replay->advanced = replay->next;
}

/*
 * Expired streams count for nothing by themselves; the sweep only reclaims their
 * space.  Streams can expire once a minute, so one pass over all blocks each minute
 * is enough, spread over its seconds.  Returns how many steps are due now.
 */
static unsigned sweep_share(struct replay *replay, unsigned least)
{
	uint32_t minute = window_minute_of_ms(now_ms(replay->o.now));
	uint64_t steps = usage_sweep_steps(replay->o.usage);
	uint64_t share = steps / 50 + least;

	if (minute != replay->swept_minute) {
		replay->swept_minute = minute;
		replay->sweep_left = steps;
	}
	return (unsigned)(share < replay->sweep_left ? share : replay->sweep_left);
}

/* A sweep by itself: one inside the commit that finds no room would never be committed. */
static void make_room(struct replay *replay)
{
	unsigned share = sweep_share(replay, FULL_SWEEP_BLOCKS), steps;

	if (share > 0 && commit_sweep(&replay->commit, share, &steps) == 0)
		replay->sweep_left -= steps;
}

bool replay_flush(struct replay *replay)
{
	bool full = replay->commit.held == ERR_FULL;
	unsigned sweep = replay->live && !full ? LIVE_SWEEP_BLOCKS : 0;
	int err;

	settle(replay);
	if (full)
		make_room(replay);
	if (!usage_dirty(replay->o.usage)) {
		commit_release(&replay->commit);
		replay->due_ns = 0;
		replay->flush_now = false;
		return true;
	}
	replay->sweep_left -= replay->sweep_left < sweep ? replay->sweep_left : sweep;
	err = commit_batch(replay, sweep);
	if (!err)
		return true;
	commit_hold(&replay->commit, err);
	replay->due_ns = replay->commit.retry_ns;
	return false;
}

/* --- what was asked ------------------------------------------------------------------------ */

int replay_ask(struct replay *replay)
{
	unsigned sweep = replay->sweep_left > LIVE_SWEEP_BLOCKS ? LIVE_SWEEP_BLOCKS : 0;
	int err;

	if (replay->commit.held)
		return replay->commit.held;
	settle(replay);
	err = commit_batch(replay, sweep);
	if (!err)
		replay->sweep_left -= sweep;
	return err;
}

void replay_asked(struct replay *replay, int err)
{
	if (!err || replay->commit.held)
		return;
	if (usage_dirty(replay->o.usage)) {
		commit_hold(&replay->commit, err);
		replay->due_ns = replay->commit.retry_ns;
	} else if (err == ERR_FULL) {
		make_room(replay);
	}
}

int replay_holds(const struct replay *replay)
{
	return replay->commit.held;
}

bool replay_may_send(void *arg)
{
	const struct replay *replay = arg;

	return commit_allowed(&replay->commit);
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * A commit costs by the blocks and rows that it touches: 100,000 streams of 1000 tenants in batches
 * of 50,000 and 250,000: 200 and 95 ns a record; 3,000,000 streams in batches of 250,000 and
 * 750,000: 510 and 260 ns; 10,000 tenants in batches of 250,000 and 1,000,000: 325 and 180 ns.
 */
uint64_t replay_batch(const struct handoff *handoff, const struct usage_meta *meta, bool live)
{
	uint64_t rows = (uint64_t)meta->tenants + meta->policies;
	uint64_t records = max_u64(meta->streams / STREAMS_PER_ITEM, rows * REPLAY_PER_ROW);

	if (handoff->batch_max)
		return handoff->batch_max;
	if (live)
		return LIVE_RECORDS;
	records = max_u64(records, REPLAY_RECORDS);
	return records < handoff->batch_records ? records : handoff->batch_records;
}

static uint64_t batch_limit(const struct replay *replay)
{
	return replay_batch(replay->o.handoff, usage_meta(replay->o.usage), replay->live);
}

/*
 * A lone record is committed at once, a stream of them at most once every flush_ms.
 */
static void set_due(struct replay *replay)
{
	if (replay->due_ns)
		return;
	if (replay->live)
		replay->due_ns = replay->commit.committed_ns + replay->o.handoff->flush_ms * MS;
	else
		replay->due_ns = host_boot_ns() + REPLAY_FLUSH_MS * MS;
}

void replay_touched(struct replay *replay)
{
	set_due(replay);
}

/* --- reading ------------------------------------------------------------------------------- */

/* Only to where nothing was delivered yet: it is looked through again. */
static void go_back_to(struct replay *replay, int64_t offset)
{
	if (offset >= replay->next)
		return;
	usage_rewind(replay->o.usage, offset);
	replay->next = replay->advanced = offset;
}

/* Offsets in between hold markers of transactions, aborted records, or were compacted away: no gap. */
static void take_record(struct replay *replay, const struct source_event *event, int64_t now)
{
	if (event->offset < replay->next) {
		if (event->offset <= replay->print.offset || replay->next > replay->advanced)
			return; /* delivered before */
		/* Between our last record and our offset there was none when we passed them: what
		 * is there now came after the log was cut, which took nothing that was counted. */
		go_back_to(replay, event->offset);
	}
	/* Published before the record is touched: should it kill us, the supervisor knows which. */
	stats_set(replay->o.facts->stats, in_hand, event->offset + 1);
	FAULT("record.in_hand");
	if (apply_record(replay->o.usage, replay->o.handoff, event, now) == SKIP_NONE)
		replay->last_timestamp_ms = event->timestamp_ms;
	FAULT("record.applied");
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
	if (replay->anchor.offset < 0)
		replay->anchor = replay->print;
	usage_advance(replay->o.usage, replay->next, &replay->print);
	replay->advanced = replay->next;
	FAULT("batch.advanced");
	facts_flag(replay->o.facts, FLAG_BAD_BATCH, false);
	facts_flag(replay->o.facts, FLAG_STALLED, false);
	replay->denied = false;
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
	bool lost = event->kind == SOURCE_OUT_OF_RANGE || event->kind == SOURCE_UNKNOWN;
	bool denied = replay->denied = event->kind == SOURCE_DENIED;
	char quoted[300];
	unsigned swallowed;

	if (bad)
		facts_flag(replay->o.facts, FLAG_BAD_BATCH, true);
	if (!log_limit_pass(bad ? &replay->bad_limit : &replay->other_limit, denied ? 60000 : 10000,
		    &swallowed))
		return;
	log_warn(bad	  ? "replay.bad_batch"
		 : denied ? "replay.denied"
		 : lost	  ? "replay.lost_place"
			  : "replay.fetch_error",
		"next=%lld error=%s suppressed=%u action=\"%s\"", (long long)replay->next,
		log_quote(quoted, sizeof(quoted), event->error), swallowed,
		denied ? "grant READ on that topic; trying again"
		: lost ? "asking the broker where to go on"
		       : "trying again");
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
		facts_flag(replay->o.facts, FLAG_BAD_BATCH, false);
		replay->denied = false;
		if (!replay->live)
			replay->flush_now = true;
		break;
	case SOURCE_OUT_OF_RANGE:
		log_trouble(replay, event);
		return REPLAY_LOST_PLACE;
	case SOURCE_UNKNOWN:
	case SOURCE_DENIED:
		log_trouble(replay, event);
		return REPLAY_NO_TOPIC;
	case SOURCE_DOUBT:
		return REPLAY_DOUBT;
	case SOURCE_BAD:
		log_trouble(replay, event);
		return REPLAY_BAD;
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

	if (replay->commit.held)
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
	if (replay->next > replay->advanced) { /* a batch that ends with repeated records */
		settle(replay);
		set_due(replay);
	}
	if (!flush_if_due(replay))
		return REPLAY_HELD;
	return empty ? REPLAY_IDLE : REPLAY_MORE;
}

/* --- around it ----------------------------------------------------------------------------- */

void replay_begin(struct replay *replay, const struct plan *plan)
{
	struct stats *stats = replay->o.facts->stats;

	/* What has come since replay began does not move its end, however often it begins again. */
	if (plan->target < replay->target)
		replay->target = plan->target;
	replay->eof = -1;
	if (plan->check >= 0) { /* it has been compared */
		replay->anchor = replay->print;
		usage_anchor(replay->o.usage, &replay->anchor);
	}
	FAULT("replay.begin");
	go_back_to(replay, plan->from);
	if (plan->gap > 0) {
		usage_gap(replay->o.usage, (uint64_t)plan->gap);
		log_warn("replay.gap", "offsets=%lld next=%lld log_start=%lld",
			(long long)plan->gap, (long long)replay->next,
			(long long)(replay->next + plan->gap));
	}
	skip_to(replay, plan->from);
	if (!replay->placed || plan->gap > 0)
		stats_set(stats, start_offset, plan->from);
	replay->placed = true;
	stats_set(stats, target_offset, replay->target);
	FAULT("replay.placed");
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
	FAULT("replay.live");
}

bool replay_is_live(const struct replay *replay)
{
	return replay->live;
}

void replay_idle_second(struct replay *replay)
{
	unsigned share = sweep_share(replay, LIVE_SWEEP_BLOCKS);

	if (!replay->live || replay->due_ns || share == 0 ||
		host_boot_ns() - replay->commit.committed_ns < 900 * MS)
		return;
	replay->sweep_left -= share;
	if (commit_batch(replay, share) == ERR_FULL)
		(void)commit_sweep(&replay->commit, share, &share); /* not now: then later */
}

void replay_check_lease(struct replay *replay)
{
	if (!replay->commit.held)
		facts_flag(replay->o.facts, FLAG_LEASE_OVER, !commit_allowed(&replay->commit));
}

int64_t replay_next(const struct replay *replay)
{
	return replay->next;
}

const struct usage_fingerprint *replay_fingerprint(const struct replay *replay)
{
	return &replay->print;
}

const struct usage_fingerprint *replay_anchor(const struct replay *replay)
{
	return &replay->anchor;
}

bool replay_denied(const struct replay *replay)
{
	return replay->denied;
}

bool replay_held(const struct replay *replay)
{
	return replay->commit.held != 0;
}
