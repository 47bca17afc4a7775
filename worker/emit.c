/*
 * emit.c - the outbox to Kafka: rows in order of their sequence, by an idempotent producer.
 *
 *	rows above `after` --a round--> producer --> all confirmed? --> the next round
 *	       ^                                        | no
 *	       '--- the lowest row again <-- back-off <-- close
 *
 * Promise: when a row is first seen in the log, all lower ones have been seen there
 * (or have been given up for good).  For others skip a sequence that is not above
 * the highest they know: one that comes late would be lost.  It rests on this:
 *
 *   - A round follows only when the broker has confirmed all of the one before.  So a
 *     request can hold only rows whose predecessors are in the log, or in a request
 *     before it in the same round; and whatever a producer that is closed, or a
 *     worker that was killed, still has under way, is next in the log or a
 *     repetition, whenever it arrives and whatever its successor has sent by then.
 *   - Within a round the broker itself refuses a request whose predecessor failed, by
 *     the producer's own numbers.  It does so only for a producer that it knows: from
 *     one that it never saw, or has forgotten, it takes any number as the first.  So
 *     a producer's first round is one row, and so is the first after a pause.
 *   - What a producer gives up, it does not go on behind (gap-less), and it is closed.
 *
 * What comes twice is skipped by everybody.  A log that was cut after it had
 * confirmed (unclean leader election) is the one thing that this does not cover.
 *
 * A row that Kafka refuses for good does not stop those behind it: BAD_TIME is cured
 * by the present time in place of the row's; of other refusals the row to blame is
 * found by halving the round, and is passed over.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "emit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "producer.h"

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "shm/log.h"
#include "shm/record.h"

#define NS_PER_MS      UINT64_C(1000000)
#define SECOND_NS      UINT64_C(1000000000)
#define ROUND_ROWS     2000 /* some 5 ms to hand over; 100,000 rows a second and more */
#define CHUNK_ROWS     100
#define PROVED_NS      (60 * SECOND_NS)	 /* brokers remember a producer for a day */
#define REPORTS_NS     SECOND_NS	 /* for the other reports of a round that has failed */
#define STUCK_NS       (60 * SECOND_NS)	 /* said then */
#define UNWRITTEN_NS   (5 * SECOND_NS)	 /* shown then, by a flag */
#define HOPELESS_NS    (600 * SECOND_NS) /* another producer may do better */
#define WAIT_MIN_MS    100
#define WAIT_MAX_MS    10000
#define LOG_EVERY_MS   60000
#define VALUE_SIZE     1024 /* zone, tenant and policy have at most 256 bytes each */
#define PASSED_AT_ONCE 10000

struct emit {
	struct emit_options opt;
	int fd;
	struct producer *producer; /* NULL: none */
	/* what was handed over to it */
	uint64_t after; /* up to this sequence */
	bool draining;
	struct usage_unsent_cursor unsent;
	bool at_end;	/* of the unsent streams */
	unsigned round; /* rows in it; 0: none is under way */
	uint64_t round_first;
	uint32_t round_newest_s;
	uint64_t round_ns;
	uint64_t confirmed; /* told so far */
	uint64_t proved_ns; /* a round of this producer was confirmed; 0 = never */
	/* what was learnt */
	unsigned round_max;
	uint64_t passed;    /* rows up to here are not sent any more */
	uint32_t restamp_s; /* rows not seen after this get the present time */
	uint64_t since_ns;  /* nothing was confirmed although there is something to send; 0: no */
	uint64_t retry_ns;  /* when to make the next producer */
	unsigned wait_ms;
	struct log_limit error_limit, stuck_limit, passed_limit;
};

void emit_new(const struct emit_options *options, struct emit **out)
{
	struct emit *emit = calloc(1, sizeof(*emit));

	must_get(emit);
	emit->opt = *options;
	emit->round_max = ROUND_ROWS;
	emit->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	must_get(emit->fd >= 0);
	*out = emit;
}

int emit_fd(const struct emit *emit)
{
	return emit->fd;
}

#define add_to(emit, field, n)                                                                     \
	stats_set((emit)->opt.facts->stats, field, stats_get((emit)->opt.facts->stats, field) + (n))

/* --- when a producer has given up ---------------------------------------------------------- */

static const char *advice(enum producer_error error)
{
	static const char *const text[] = {
		[PRODUCER_DENIED] = "grant WRITE on the topic",
		[PRODUCER_NO_TOPIC] = "the topic, or this partition of it, is not there: create it",
		[PRODUCER_TOO_LARGE] = "raise max.message.bytes of the topic; it goes on with less "
				       "at a time",
		[PRODUCER_BAD_TIME] =
			"check this machine's clock, the brokers' clocks, and "
			"message.timestamp.before.max.ms and message.timestamp.after.max.ms of the "
			"topic",
		[PRODUCER_REFUSED] = "see the broker's log",
		[PRODUCER_FORMAT] = "the broker must be Kafka 0.11 or later, and know "
				    "compression.codec of kafka.properties",
		[PRODUCER_FAILED] = "none; it is tried again",
	};

	return text[error];
}

static void say_passed_over(struct emit *emit, uint64_t sequence, const char *why)
{
	unsigned more;

	if (log_limit_pass(&emit->passed_limit, LOG_EVERY_MS, &more))
		log_error("emit.passed_over",
			"sequence=%llu why=\"%s; other zones will not count it\" suppressed=%u",
			(unsigned long long)sequence, why, more);
}

/* So that the next attempt is another one. */
static void learn(struct emit *emit, enum producer_error error)
{
	if (error == PRODUCER_BAD_TIME) {
		if (emit->round_newest_s > emit->restamp_s) {
			emit->restamp_s = emit->round_newest_s;
			emit->wait_ms = 0;
		}
		return;
	}
	if (error != PRODUCER_TOO_LARGE && error != PRODUCER_REFUSED)
		return;
	emit->wait_ms = 0;
	if (emit->round > 1) {
		emit->round_max = emit->round / 2;
	} else {
		emit->passed = emit->round_first;
		emit->round_max = ROUND_ROWS;
		say_passed_over(emit, emit->passed, "Kafka does not take it");
	}
}

/* From the lowest row again. */
static void rewind_rows(struct emit *emit)
{
	emit->after = emit->passed;
	emit->unsent = (struct usage_unsent_cursor){0};
	emit->at_end = false;
	emit->round = 0;
	emit->round_newest_s = 0;
	emit->confirmed = 0;
	emit->proved_ns = 0;
}

static void back_off(struct emit *emit)
{
	emit->wait_ms = emit->wait_ms * 2;
	if (emit->wait_ms < WAIT_MIN_MS)
		emit->wait_ms = WAIT_MIN_MS;
	if (emit->wait_ms > WAIT_MAX_MS)
		emit->wait_ms = WAIT_MAX_MS;
	emit->retry_ns = host_boot_ns() + emit->wait_ms * NS_PER_MS;
}

static void give_up(struct emit *emit, enum producer_error error, const char *words)
{
	char quoted[600];
	unsigned more;

	add_to(emit, send_errors, 1);
	if (log_limit_pass(&emit->error_limit, LOG_EVERY_MS, &more))
		log_warn("emit.failed", "topic=%s rows=%u error=%s action=\"%s\" suppressed=%u",
			emit->opt.handoff->topic, emit->round,
			log_quote(quoted, sizeof(quoted), words), advice(error), more);
	learn(emit, error);
	producer_close(&emit->producer);
	rewind_rows(emit);
	back_off(emit);
}

/* --- what the producer says ---------------------------------------------------------------- */

static void end_round(struct emit *emit)
{
	emit->proved_ns = host_boot_ns();
	FAULT("emit.confirmed");
	emit->since_ns = 0;
	emit->wait_ms = 0;
	emit->round = 0;
	emit->round_newest_s = 0;
}

static void say_stuck(struct emit *emit, const char *words, uint64_t waited_ns)
{
	char quoted[600];
	unsigned more;

	if (log_limit_pass(&emit->stuck_limit, LOG_EVERY_MS, &more))
		log_warn("emit.waiting",
			"topic=%s rows=%u for_s=%llu last=%s action=\"see the brokers; what is to "
			"be written is kept\"",
			emit->opt.handoff->topic, emit->round,
			(unsigned long long)(waited_ns / SECOND_NS),
			log_quote(quoted, sizeof(quoted), words));
}

static void hear(struct emit *emit)
{
	struct producer_state state;
	uint64_t now;

	producer_poll(emit->producer);
	producer_state(emit->producer, &state);
	now = host_boot_ns();
	add_to(emit, confirmed, state.confirmed - emit->confirmed);
	emit->confirmed = state.confirmed;
	if (state.error) {
		if (state.in_flight == 0 || now - state.error_ns >= REPORTS_NS)
			give_up(emit, state.error, state.words);
	} else if (emit->round && state.in_flight == 0) {
		end_round(emit);
	} else if (emit->round && now - emit->round_ns >= HOPELESS_NS) {
		give_up(emit, PRODUCER_FAILED, "not confirmed in ten minutes");
	} else if (emit->round && now - emit->round_ns >= STUCK_NS) {
		say_stuck(emit, state.words, now - emit->round_ns);
	}
}

/* --- a round ------------------------------------------------------------------------------- */

/* With the present time a stream that has expired meanwhile would be active again. */
static bool has_expired(
	const struct emit *emit, const struct usage_outgoing *row, int64_t present_ms)
{
	int64_t window_s = (int64_t)(emit->opt.handoff->window_minutes + 1) * 60;

	return row->seen_s <= emit->restamp_s && present_ms / 1000 - row->seen_s > window_s;
}

static bool put(struct emit *emit, const struct usage_outgoing *row, int64_t present_ms)
{
	const char *zone = emit->opt.handoff->zone;
	struct record record = {
		.zone = zone,
		.zone_len = strlen(zone),
		.tenant = row->tenant,
		.tenant_len = row->tenant_len,
		.policy = row->policy,
		.policy_len = row->policy_len,
		.hash = row->hash,
		.size = row->bytes,
		.sequence = row->sequence,
	};
	char value[VALUE_SIZE];
	struct producer_record out = {
		.key = row->tenant,
		.key_len = row->tenant_len,
		.value = value,
		.value_len = record_encode(&record, value, sizeof(value)),
		.timestamp_ms =
			row->seen_s <= emit->restamp_s ? present_ms : (int64_t)row->seen_s * 1000,
	};

	must(out.value_len > 0);
	memcpy(record.incarnation, usage_meta(emit->opt.usage)->incarnation, INCARNATION_SIZE);
	record_encode_source(&record, out.header);
	if (!emit->round++) {
		emit->round_first = row->sequence;
		emit->round_ns = host_boot_ns();
	}
	if (row->seen_s > emit->round_newest_s)
		emit->round_newest_s = row->seen_s;
	FAULT("emit.put");
	if (!producer_put(emit->producer, &out))
		return false;
	add_to(emit, sent, 1);
	return true;
}

/* The next rows in order, at most cap; 0: there are none. */
static int next_rows(struct emit *emit, struct usage_outgoing *rows, size_t cap)
{
	int n = usage_outbox_list(emit->opt.usage, emit->after, rows, cap);

	if (n == 0 && emit->draining && !emit->at_end) {
		n = usage_unsent_list(emit->opt.usage, &emit->unsent, rows, cap);
		emit->at_end = n == 0;
	}
	return n;
}

/* How many rows the next round may have: one, when the broker may not know the producer. */
static unsigned room(const struct emit *emit)
{
	bool proved = emit->proved_ns && host_boot_ns() - emit->proved_ns < PROVED_NS;

	return proved ? emit->round_max : 1;
}

static bool may_send(const struct emit *emit)
{
	return emit->draining || emit->opt.may_send(emit->opt.arg);
}

static bool has_producer(struct emit *emit)
{
	int err;

	if (emit->producer)
		return true;
	err = producer_open(emit->opt.handoff, emit->fd, &emit->producer);
	if (!err)
		return true;
	add_to(emit, send_errors, 1);
	rewind_rows(emit);
	back_off(emit);
	return false;
}

/* False: the producer has an error.  *passed grows by the rows that were passed over. */
static bool put_all(
	struct emit *emit, const struct usage_outgoing *rows, unsigned n, unsigned *passed)
{
	int64_t present_ms = now_ms(emit->opt.now);

	for (unsigned i = 0; i < n; i++) {
		bool expired = has_expired(emit, &rows[i], present_ms);

		emit->after = rows[i].sequence;
		if (expired)
			say_passed_over(emit, rows[i].sequence, "it is too old by now");
		if (expired || rows[i].sequence <= emit->passed)
			(*passed)++;
		else if (!put(emit, &rows[i], present_ms))
			return false;
	}
	return true;
}

static void list_failed(struct emit *emit, int err)
{
	unsigned more;

	if (log_limit_pass(&emit->error_limit, LOG_EVERY_MS, &more))
		log_error("emit.unreadable", "error=%s suppressed=%u", err_word(err), more);
}

static void begin_round(struct emit *emit)
{
	struct usage_outgoing rows[CHUNK_ROWS];
	unsigned most = room(emit), passed = 0;

	while (emit->round < most && passed < PASSED_AT_ONCE && may_send(emit)) {
		unsigned left = most - emit->round;
		int n = next_rows(emit, rows, left < CHUNK_ROWS ? left : CHUNK_ROWS);

		if (n < 0)
			list_failed(emit, n);
		if (n == 0 && emit->round == 0)
			emit->since_ns = 0;
		else if (!emit->since_ns)
			emit->since_ns = host_boot_ns();
		if (n <= 0 || !has_producer(emit) || !put_all(emit, rows, (unsigned)n, &passed))
			return;
	}
	if (emit->round == 0 && passed >= PASSED_AT_ONCE)
		(void)eventfd_write(emit->fd, 1);
}

void emit_pump(struct emit *emit)
{
	eventfd_t count;

	(void)eventfd_read(emit->fd, &count);
	if (emit->producer)
		hear(emit);
	if (emit->round == 0 && host_boot_ns() >= emit->retry_ns)
		begin_round(emit);
	facts_flag(emit->opt.facts, FLAG_UNWRITTEN,
		emit->since_ns && host_boot_ns() - emit->since_ns >= UNWRITTEN_NS);
}

unsigned emit_in_flight(const struct emit *emit)
{
	struct producer_state state;

	if (!emit->producer)
		return 0;
	producer_state(emit->producer, &state);
	return state.in_flight;
}

bool emit_is_done(const struct emit *emit)
{
	struct usage_outgoing row;

	if (emit->round > 0 || (emit->draining && !emit->at_end))
		return false;
	return usage_outbox_list(emit->opt.usage, emit->after, &row, 1) == 0;
}

void emit_drain(struct emit *emit)
{
	emit->draining = true;
	FAULT("emit.drain");
	emit->wait_ms = 0;
	emit->retry_ns = 0;
	emit_pump(emit);
}

void emit_free(struct emit **emit)
{
	if ((*emit)->producer)
		producer_close(&(*emit)->producer);
	close((*emit)->fd);
	free(*emit);
	*emit = NULL;
}
