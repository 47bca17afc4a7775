/*
 * start_fixture.h - what start.c stands on, made up: source, locate, log and clock.
 *
 *	answers of locate, events of source --> start.c --> ask, stop, trust, start: a list of calls
 *
 * What start asks of them is kept as text and compared, so that its order counts too.  The log
 * holds one record at every offset; its key, value and timestamp follow from the offset.
 */
#ifndef TALLY_TESTS_START_FIXTURE_H
#define TALLY_TESTS_START_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shm/host.h"
#include "shm/log.h"
#include "shm/usage.h"
#include "worker/start.h"

#define NOW_MS	   INT64_C(1700000000000)
#define MS	   UINT64_C(1000000)
#define TIMEOUT_MS 30000 /* of offsets */
#define STALL_MS   20000
#define LOG_START  100
#define LOG_END	   100000
#define STORED	   500
#define NEVER	   -1
#define TROUBLES   4
#define TIMES	   8

static struct {
	struct start start;
	struct handoff handoff;
	char calls[256]; /* since they were last looked at */
	uint64_t now_ns;
	unsigned question;
	int64_t since_ms;
	char warned[32], told[32]; /* event of the last warning, and of what is less */
	enum log_level level;
} bench;

/* Each of them: the log cannot be read here, or may be another one. */
static const enum source_kind troubles[TROUBLES] = {
	SOURCE_OUT_OF_RANGE, SOURCE_UNKNOWN, SOURCE_DENIED, SOURCE_DOUBT};

/* How long it waits before it asks again, time after time. */
static const uint64_t backoff_ms[TIMES] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};

/* --- what start.c stands on ------------------------------------------------------------------ */

static inline void note(const char *call, int64_t offset)
{
	size_t len = strlen(bench.calls);
	char *at = bench.calls + len;

	if (offset < 0)
		snprintf(at, sizeof(bench.calls) - len, "%s%s", len ? " " : "", call);
	else
		snprintf(at, sizeof(bench.calls) - len, "%s%s:%lld", len ? " " : "", call,
			(long long)offset);
}

void source_start(struct source *source, int64_t offset)
{
	(void)source;
	note("start", offset);
}

void source_stop(struct source *source)
{
	(void)source;
	note("stop", -1);
}

void source_trust(struct source *source)
{
	(void)source;
	note("trust", -1);
}

unsigned locate_ask(struct locate *locate, int64_t since_ms)
{
	(void)locate;
	note("ask", -1);
	bench.since_ms = since_ms;
	return ++bench.question;
}

uint64_t host_boot_ns(void)
{
	return bench.now_ns;
}

int64_t host_wall_ms(void)
{
	return NOW_MS;
}

uint64_t host_random(void)
{
	return 1;
}

void log_line(enum log_level level, const char *event, const char *fmt, ...)
{
	bool warning = level <= LOG_LEVEL_WARN;

	(void)fmt;
	bench.level = level;
	snprintf(warning ? bench.warned : bench.told, sizeof(bench.told), "%s", event);
}

bool log_limit_pass(struct log_limit *limit, unsigned every_ms, unsigned *suppressed)
{
	(void)limit;
	(void)every_ms;
	*suppressed = 0;
	return true;
}

const char *log_quote(char *buf, unsigned size, const char *value)
{
	snprintf(buf, size, "%s", value);
	return buf;
}

/* --- what happens, and what must follow ------------------------------------------------------ */

#define assert_calls(expected)                                                                     \
	do {                                                                                       \
		assert_string_equal(bench.calls, expected);                                        \
		bench.calls[0] = '\0';                                                             \
	} while (0)
#define assert_state(expected) assert_int_equal(bench.start.state, expected)

static inline int each_setup(void **state)
{
	(void)state;
	memset(&bench, 0, sizeof(bench));
	bench.now_ns = 1000000 * MS;
	bench.handoff = (struct handoff){.topic = (char[]){"t"},
		.window_minutes = 120,
		.replay_margin_s = 60,
		.offsets_timeout_ms = TIMEOUT_MS,
		.stall_timeout_ms = STALL_MS};
	start_init(&bench.start, &bench.handoff, NULL, NULL);
	return 0;
}

/* The record at `offset`.  Its key and value are kept in `text`. */
static inline struct source_event record_at(int64_t offset, char text[32])
{
	snprintf(text, 32, "tenant-value-%lld", (long long)offset);
	return (struct source_event){.kind = SOURCE_RECORD,
		.offset = offset,
		.key = text,
		.key_len = 6,
		.value = text + 7,
		.value_len = strlen(text + 7),
		.timestamp_ms = NOW_MS - LOG_END + offset};
}

static inline struct usage_fingerprint print_at(int64_t offset)
{
	char text[32];
	struct source_event event = record_at(offset, text);

	if (offset < 0)
		return (struct usage_fingerprint){.offset = -1};
	return (struct usage_fingerprint){.offset = offset,
		.timestamp_ms = event.timestamp_ms,
		.hash = usage_hash_record(event.key, event.key_len, event.value, event.value_len)};
}

static inline void begin(int64_t next, int64_t print, int64_t anchor)
{
	struct start_store store = {
		.next_offset = next, .print = print_at(print), .anchor = print_at(anchor)};

	start_begin(&bench.start, &store, NOW_MS);
}

static inline void answer(int64_t end, enum plan_time time, int64_t time_offset)
{
	struct locate_answer answer = {.id = bench.question,
		.end = end,
		.start = end < 0 ? -1 : LOG_START,
		.time = time,
		.time_offset = time_offset};

	if (end < 0)
		snprintf(answer.error, sizeof(answer.error), "no broker");
	assert_true(start_answer(&bench.start, &answer));
}

static inline void event(enum source_kind kind, int64_t offset)
{
	struct source_event event = {.kind = kind, .offset = offset, .error = "trouble"};

	start_event(&bench.start, &event);
}

static inline void record_aged(int64_t offset, int64_t timestamp_ms)
{
	char text[32];
	struct source_event event = record_at(offset, text);

	event.timestamp_ms = timestamp_ms;
	start_event(&bench.start, &event);
}

static inline void record(int64_t offset)
{
	char text[32];
	struct source_event event = record_at(offset, text);

	start_event(&bench.start, &event);
}

static inline void pass(uint64_t ms)
{
	bench.now_ns += ms * MS;
	start_timer(&bench.start);
}

/* It waits for so long, neither shorter nor longer, and asks. */
static inline void assert_asks_after(uint64_t ms)
{
	assert_state(START_WAITING);
	assert_calls("");
	pass(ms - 1);
	assert_calls("");
	pass(1);
	assert_calls("ask");
	assert_state(START_ASKING);
	assert_int_equal(bench.start.due_ns, 0);
}

static inline void assert_found(int64_t from, int64_t target)
{
	assert_state(START_FOUND);
	assert_int_equal(bench.start.plan.from, from);
	assert_int_equal(bench.start.plan.target, target);
	assert_int_equal(bench.start.due_ns, 0);
	assert_string_equal(bench.told, "start.found");
}

#endif
