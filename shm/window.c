/*
 * window.c - the arithmetic of the active window and of rates.
 *
 *	row in the store:  base:4 slots:4 | bytes:8 x slots | count:4 x slots | pad to 8
 *
 *	           now - window              now
 *	                |....................|
 *	  |..................|                        only the overlap is added up
 *	base - window      base
 *
 * A slot belongs to exactly one minute of base - window .. base; moving base
 * forward zeroes what falls out.  Adding and moving forward therefore commute:
 * a minute that is out of range afterwards is lost either way.
 *
 * Runs in: worker, readers.  Blocks in: nowhere.
 */
#include "shm/window.h"

#include <string.h>

struct row_head {
	uint32_t base, slots;
};

/* The oldest minute that the row has a slot for. */
static uint32_t row_oldest(const struct window_row *row)
{
	uint32_t window = row->slots - 1;

	return row->base > window ? row->base - window : 0;
}

bool window_clamp(int64_t timestamp_ms, int64_t now_ms, uint32_t window, uint32_t *seen_s)
{
	int64_t seen_ms = timestamp_ms < now_ms ? timestamp_ms : now_ms;
	int64_t seconds = seen_ms / 1000;

	if (timestamp_ms < 0 || seen_ms < 0)
		return false;
	*seen_s = seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
	return window_active(window_minute_of_ms(now_ms), window_minute_of_s(*seen_s), window);
}

size_t window_row_size(uint32_t window)
{
	size_t slots = (size_t)window + 1;

	return (sizeof(struct row_head) + slots * (sizeof(uint64_t) + sizeof(uint32_t)) + 7) &
	       ~(size_t)7;
}

void window_row_map(struct window_row *row, void *buf, uint32_t window)
{
	struct row_head head;

	memcpy(&head, buf, sizeof(head));
	row->base = head.base;
	row->slots = window + 1;
	row->bytes = (uint64_t *)((char *)buf + sizeof(head));
	row->count = (uint32_t *)(row->bytes + row->slots);
}

void window_row_seal(const struct window_row *row, void *buf)
{
	struct row_head head = {.base = row->base, .slots = row->slots};

	memcpy(buf, &head, sizeof(head));
}

void window_row_advance(struct window_row *row, uint32_t minute)
{
	uint32_t step;

	if (minute <= row->base)
		return;
	step = minute - row->base;
	if (step >= row->slots) {
		memset(row->count, 0, row->slots * sizeof(*row->count));
		memset(row->bytes, 0, row->slots * sizeof(*row->bytes));
	} else {
		for (uint32_t m = row->base + 1; m != minute + 1; m++) {
			row->count[m % row->slots] = 0;
			row->bytes[m % row->slots] = 0;
		}
	}
	row->base = minute;
}

void window_row_add_bytes(struct window_row *row, uint32_t minute, uint64_t bytes)
{
	uint64_t *slot;

	window_row_advance(row, minute);
	if (minute < row_oldest(row))
		return;
	slot = &row->bytes[minute % row->slots];
	if (__builtin_add_overflow(*slot, bytes, slot))
		*slot = UINT64_MAX;
}

void window_row_add_stream(struct window_row *row, uint32_t minute)
{
	uint32_t *slot;

	window_row_advance(row, minute);
	if (minute < row_oldest(row))
		return;
	slot = &row->count[minute % row->slots];
	if (*slot != UINT32_MAX)
		(*slot)++;
}

void window_row_remove_stream(struct window_row *row, uint32_t minute)
{
	uint32_t *slot = &row->count[minute % row->slots];

	if (minute <= row->base && minute >= row_oldest(row) && *slot > 0)
		(*slot)--;
}

/*
 * The minutes from `first` to the row's base, as two runs of slots (the second starts
 * at slot 0): reading rows is most of what readers do, and a division for each minute
 * was most of that.
 */
struct runs {
	uint32_t at, n, rest;
};

static struct runs row_runs(const struct window_row *row, uint32_t first)
{
	struct runs runs = {0};
	uint32_t n;

	if (row->base == 0 || first > row->base)
		return runs;
	n = row->base - first + 1;
	runs.at = first % row->slots;
	runs.n = n < row->slots - runs.at ? n : row->slots - runs.at;
	runs.rest = n - runs.n;
	return runs;
}

/*
 * The minutes that are both in the row and in the window ending at now_minute.
 * Minutes after now_minute are active (window_active), so the row's base is the end.
 */
static uint32_t overlap_first(const struct window_row *row, uint32_t now_minute)
{
	uint32_t window = row->slots - 1;
	uint32_t first = now_minute > window ? now_minute - window : 0;

	return first > row_oldest(row) ? first : row_oldest(row);
}

static uint64_t sum_counts(const uint32_t *count, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += count[i];
	return sum;
}

static uint64_t sum_bytes(uint64_t sum, const uint64_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (__builtin_add_overflow(sum, bytes[i], &sum))
			return UINT64_MAX;
	return sum;
}

uint64_t window_row_streams(const struct window_row *row, uint32_t now_minute)
{
	struct runs runs = row_runs(row, overlap_first(row, now_minute));

	return sum_counts(row->count + runs.at, runs.n) + sum_counts(row->count, runs.rest);
}

uint64_t window_row_bytes(const struct window_row *row, uint32_t now_minute)
{
	struct runs runs = row_runs(row, overlap_first(row, now_minute));

	return sum_bytes(sum_bytes(0, row->bytes + runs.at, runs.n), row->bytes, runs.rest);
}

/* (minutes - 1) whole ones and what has passed of the present one, at least 1 s. */
static double rate_span(int64_t now_ms, uint32_t minutes)
{
	int64_t passed_ms = now_ms > 0 ? now_ms % 60000 : 0;

	if (passed_ms < 1000)
		passed_ms = 1000;
	return (double)(minutes - 1) * 60 + (double)passed_ms / 1000;
}

static uint32_t rate_minutes_of(uint32_t minutes)
{
	return minutes < 1 ? 1 : minutes > RATE_MINUTES ? RATE_MINUTES : minutes;
}

double window_row_rate(const struct window_row *row, int64_t now_ms, uint32_t rate_minutes)
{
	uint32_t now_minute = window_minute_of_ms(now_ms), minutes = rate_minutes_of(rate_minutes);
	uint32_t first = now_minute >= minutes ? now_minute - minutes + 1 : 0;
	uint32_t last = row->base < now_minute ? row->base : now_minute;
	uint64_t sum = 0;

	if (first < row_oldest(row))
		first = row_oldest(row);
	for (uint64_t m = first; row->base != 0 && m <= last; m++)
		sum = sum_bytes(sum, &row->bytes[m % row->slots], 1);
	return (double)sum / rate_span(now_ms, minutes);
}

void window_rate_add(
	uint32_t bucket[RATE_MINUTES], uint32_t last_minute, uint32_t minute, uint64_t bytes)
{
	uint64_t sum;

	if (minute < last_minute && last_minute - minute >= RATE_MINUTES)
		return;
	if (minute > last_minute && minute - last_minute >= RATE_MINUTES)
		memset(bucket, 0, RATE_MINUTES * sizeof(*bucket));
	else
		for (uint64_t m = (uint64_t)last_minute + 1; m <= minute; m++)
			bucket[m % RATE_MINUTES] = 0;
	sum = bytes > UINT32_MAX ? UINT32_MAX : bytes + bucket[minute % RATE_MINUTES];
	bucket[minute % RATE_MINUTES] = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
}

double window_rate(const uint32_t bucket[RATE_MINUTES], uint32_t last_minute, int64_t now_ms,
	uint32_t rate_minutes)
{
	int64_t now_minute = window_minute_of_ms(now_ms);
	uint64_t sum = 0;

	rate_minutes = rate_minutes_of(rate_minutes);
	for (int64_t m = now_minute - rate_minutes + 1; m <= now_minute; m++)
		if (m >= 0 && m <= last_minute && m > (int64_t)last_minute - RATE_MINUTES)
			sum += bucket[m % RATE_MINUTES];
	return (double)sum / rate_span(now_ms, rate_minutes);
}
