/*
 * start.c - finds out where to start reading, without ever waiting.
 *
 * Two things have to be read from the log itself.  The tail, when the broker
 * knows of no record young enough to count, which may not be true.  And the
 * record of the fingerprint, the last one that our store has counted: if the log
 * holds another one in its place, or none, then it is another log (deleted and
 * made again, or cut and regrown) and what was counted is not in it.  A record
 * that compaction has taken away looks the same, and is treated the same: the
 * replay that this costs is always right, a mixture of two logs never is.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "start.h"

#include "shm/fault.h"
#include "shm/host.h"

#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 5000
#define SOON_MS	       750 /* longer than librdkafka puts off a fetch after an error */

static uint64_t ms_since(uint64_t then_ns)
{
	return (host_boot_ns() - then_ns) / 1000000;
}

static void due_in(struct start *start, uint64_t ms)
{
	start->due_ns = host_boot_ns() + ms * 1000000;
}

static void ask(struct start *start)
{
	start->state = START_ASKING;
	start->due_ns = 0;
	start->question = locate_ask(start->locate, start->since_ms);
	FAULT("place.asked");
}

static void wait_and_ask(struct start *start)
{
	start->state = START_WAITING;
	due_in(start, start->backoff_ms);
	start->backoff_ms *= 2;
	if (start->backoff_ms > BACKOFF_MAX_MS)
		start->backoff_ms = BACKOFF_MAX_MS;
}

static void read_tail(struct start *start)
{
	start->state = START_TAIL;
	FAULT("place.tail");
	start->seen = 0;
	if (start->round == 0)
		due_in(start, start->handoff->offsets_timeout_ms);
	source_start(
		start->source, plan_tail_from(start->facts.start, start->facts.end, start->round));
}

static void found(struct start *start)
{
	const struct plan *plan = &start->plan;

	FAULT("place.found");
	start->state = START_FOUND;
	start->found_ns = host_boot_ns();
	start->due_ns = 0;
	log_line(start->again ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "start.found",
		"from=%lld target=%lld log_start=%lld gap=%lld checked=%s", (long long)plan->from,
		(long long)plan->target, (long long)start->facts.start, (long long)plan->gap,
		plan->check >= 0 ? "yes" : "no");
}

static void check(struct start *start, const struct usage_fingerprint *print)
{
	start->checking = print;
	due_in(start, start->handoff->stall_timeout_ms);
	source_start(start->source, print->offset);
	FAULT("place.checking");
}

/* Carries out what the facts demand now. */
static void proceed(struct start *start)
{
	start->facts.waited_ms = ms_since(start->began_ns);
	start->facts.beyond_ms = start->beyond_ns ? ms_since(start->beyond_ns) : 0;
	plan_next(&start->facts, &start->plan);
	switch (start->plan.action) {
	case PLAN_ASK:
		wait_and_ask(start);
		break;
	case PLAN_TAIL:
		start->round = 0;
		source_trust(start->source);
		read_tail(start);
		break;
	case PLAN_REBUILD:
		if (start->plan.gap > 0)
			log_warn("start.gap",
				"offsets=%lld next=%lld log_start=%lld action=\"a new store\"",
				(long long)start->plan.gap, (long long)start->facts.stored,
				(long long)start->facts.start);
		start->state = START_REBUILD;
		break;
	case PLAN_READ:
		source_trust(start->source);
		if (start->plan.check >= 0) {
			start->state = START_CHECK;
			check(start, start->plan.anchor >= 0 ? &start->anchor : &start->print);
		} else {
			source_start(start->source, start->plan.from);
			found(start);
		}
		break;
	}
}

void start_init(struct start *start, const struct handoff *handoff, struct source *source,
	struct locate *locate)
{
	*start = (struct start){.handoff = handoff, .source = source, .locate = locate};
}

void start_begin(struct start *start, const struct start_store *store, int64_t now_ms)
{
	const struct handoff *handoff = start->handoff;
	bool soon;

	source_stop(start->source);
	start->facts = (struct plan_facts){
		.end = -1,
		.start = -1,
		.stored = store->next_offset,
		.print_offset = store->print.offset,
		.anchor_offset = store->anchor.offset,
		.never_ready = store->never_ready,
		.offsets_timeout_ms = handoff->offsets_timeout_ms,
		.ready_on_failure = handoff->on_lookup_failure == ON_FAILURE_READY,
	};
	start->plan = (struct plan){.check = -1, .anchor = -1};
	start->print = store->print;
	start->anchor = store->anchor;
	start->since_ms = plan_since_ms(now_ms, handoff->window_minutes, handoff->replay_margin_s);
	start->beyond_ns = 0;
	/* So soon after it was found, and nothing read since: what was found did not hold.  Slower
	 * each time. */
	soon = start->found_ns && ms_since(start->found_ns) < SOON_MS &&
	       store->next_offset == start->began_at;
	start->began_ns = host_boot_ns();
	start->began_at = store->next_offset;
	start->again = store->again;
	if (soon) {
		wait_and_ask(start);
		return;
	}
	start->backoff_ms = BACKOFF_MIN_MS;
	ask(start);
}

static void note_failure(struct start *start, const char *error)
{
	char quoted[256];
	unsigned swallowed;

	start->facts.failures++;
	if (log_limit_pass(&start->limit, 10000, &swallowed))
		log_warn("start.no_offsets",
			"topic=%s error=%s failures=%u suppressed=%u action=\"asking again\"",
			start->handoff->topic, log_quote(quoted, sizeof(quoted), error),
			start->facts.failures, swallowed);
}

static void note_unread(struct start *start, int64_t offset, const char *error)
{
	char quoted[256];
	unsigned swallowed;

	if (log_limit_pass(&start->unread_limit, 10000, &swallowed))
		log_warn("start.unread",
			"offset=%lld error=%s suppressed=%u action=\"asking again\"",
			(long long)offset, log_quote(quoted, sizeof(quoted), error), swallowed);
}

bool start_answer(struct start *start, const struct locate_answer *answer)
{
	if (start->state != START_ASKING || answer->id != start->question)
		return false;
	if (answer->error[0])
		note_failure(start, answer->error);
	FAULT("place.answered");
	start->facts.end = answer->end;
	start->facts.start = answer->start;
	start->facts.time = answer->time;
	start->facts.time_offset = answer->time_offset;
	start->facts.tail = TAIL_UNREAD;
	if (answer->end >= 0 && answer->end < start->facts.stored) {
		if (!start->beyond_ns)
			start->beyond_ns = host_boot_ns();
	} else if (answer->end >= 0) {
		start->beyond_ns = 0;
	}
	proceed(start);
	return true;
}

/* The log is not what it was thought to be, or not for us now. */
static void look_again(struct start *start)
{
	source_stop(start->source);
	wait_and_ask(start);
}

/* --- reading the tail ---------------------------------------------------------------------- */

static void tail_is(struct start *start, enum plan_tail tail)
{
	source_stop(start->source);
	start->facts.tail = tail;
	proceed(start);
}

static void tail_ended(struct start *start)
{
	const struct plan_facts *facts = &start->facts;

	if (start->seen > 0 ||
		plan_tail_from(facts->start, facts->end, start->round) == facts->start) {
		tail_is(start, TAIL_OLD);
		return;
	}
	start->round++;
	read_tail(start);
}

static void tail_event(struct start *start, const struct source_event *event)
{
	switch (event->kind) {
	case SOURCE_RECORD:
		if (event->offset < start->facts.end)
			start->seen++;
		if (event->offset < start->facts.end && event->timestamp_ms >= start->since_ms)
			tail_is(start, TAIL_YOUNG);
		else if (event->offset >= start->facts.end - 1)
			tail_ended(start);
		break;
	case SOURCE_END:
		if (event->offset >= start->facts.end)
			tail_ended(start);
		break;
	case SOURCE_BAD:
		note_unread(start, start->facts.end - 1, event->error);
		tail_is(start, TAIL_FAILED);
		break;
	case SOURCE_OUT_OF_RANGE:
	case SOURCE_UNKNOWN:
	case SOURCE_DENIED:
	case SOURCE_DOUBT:
		look_again(start);
		break;
	case SOURCE_ERROR:
		break;
	}
}

/* --- checking the fingerprint -------------------------------------------------------------- */

static bool same_record(const struct usage_fingerprint *print, const struct source_event *event)
{
	return event->offset == print->offset && event->timestamp_ms == print->timestamp_ms &&
	       usage_hash_record(event->key, event->key_len, event->value, event->value_len) ==
		       print->hash;
}

static void check_failed(struct start *start)
{
	source_stop(start->source);
	start->plan.action = PLAN_REBUILD;
	start->plan.reason = REBUILD_FINGERPRINT;
	start->state = START_REBUILD;
}

static void check_event(struct start *start, const struct source_event *event)
{
	switch (event->kind) {
	case SOURCE_RECORD:
		if (!same_record(start->checking, event)) {
			check_failed(start);
			break;
		}
		if (start->checking == &start->anchor) {
			check(start, &start->print);
			break;
		}
		/* What follows is read on, unless time allows to skip some of it. */
		if (start->plan.from > start->facts.stored)
			source_start(start->source, start->plan.from);
		found(start);
		break;
	case SOURCE_END:
		if (event->offset > start->checking->offset)
			check_failed(start);
		break;
	case SOURCE_OUT_OF_RANGE:
	case SOURCE_UNKNOWN:
	case SOURCE_DENIED:
	case SOURCE_DOUBT:
		look_again(start);
		break;
	case SOURCE_BAD:
		note_unread(start, start->checking->offset, event->error);
		look_again(start);
		break;
	case SOURCE_ERROR:
		break; /* the library tries again, and we after the stall timeout */
	}
}

void start_event(struct start *start, const struct source_event *event)
{
	if (start->state == START_TAIL)
		tail_event(start, event);
	else if (start->state == START_CHECK)
		check_event(start, event);
}

void start_timer(struct start *start)
{
	if (start->due_ns == 0 || host_boot_ns() < start->due_ns)
		return;
	switch (start->state) {
	case START_WAITING:
		ask(start);
		break;
	case START_TAIL: /* only a shortcut */
		log_warn("start.tail_unread",
			"offset=%lld action=\"replaying from the log's start\"",
			(long long)start->facts.end);
		tail_is(start, TAIL_FAILED);
		break;
	case START_CHECK:
		note_unread(start, start->checking->offset, "nothing arrives");
		source_stop(start->source);
		ask(start);
		break;
	case START_ASKING:
	case START_FOUND:
	case START_REBUILD:
		start->due_ns = 0;
		break;
	}
}
