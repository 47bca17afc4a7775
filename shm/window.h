/*
 * window.h - the arithmetic of the active window and of rates.  Pure.
 *
 * A stream is active when minute(now) - minute(last seen) <= window minutes
 * (both edge minutes count, so a window of W minutes spans W + 1 slots).  This
 * one rule is used for counting, reading, expiry and "too old" alike, so all
 * of them agree to the minute and nothing has to be swept to be exact.
 *
 * A row is the histogram of one (tenant, policy):
 *
 *	base                 newest minute the row has been advanced to
 *	count[m % slots]     streams whose last-seen minute is m
 *	bytes[m % slots]     bytes of records and touches of minute m
 *
 * for every m in base - window .. base.  Readers add up the slots that are
 * still in *their* window, so a row that nobody advances expires by itself.
 */
#ifndef TALLY_SHM_WINDOW_H
#define TALLY_SHM_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOW_MINUTES_MAX 10080 /* a week */
#define RATE_MINUTES	   5	 /* rate buckets of one minute in an entry */

/* Unix minute of a time. */
static inline uint32_t window_minute_of_s(uint32_t seconds)
{
	return seconds / 60;
}
static inline uint32_t window_minute_of_ms(int64_t ms)
{
	return ms <= 0 ? 0 : (uint32_t)(ms / 60000);
}

/* The rule.  A minute in the future is active (callers clamp record times to now). */
static inline bool window_active(uint32_t now_minute, uint32_t seen_minute, uint32_t window)
{
	return seen_minute >= now_minute || now_minute - seen_minute <= window;
}

/*
 * The second to count a record at: clamped to now; false when it has no
 * timestamp (< 0) or is outside the window: too old.
 */
bool window_clamp(int64_t timestamp_ms, int64_t now_ms, uint32_t window, uint32_t *seen_s);

struct window_row {
	uint32_t base;	/* minute; 0 = nothing yet */
	uint32_t slots; /* window + 1 */
	uint32_t *count;
	uint64_t *bytes;
};

/* Bytes that a row of `window` minutes needs, in memory and in the store. */
size_t window_row_size(uint32_t window);

/* Lays a row over `buf` (8-aligned, window_row_size bytes); content as it is there. */
void window_row_map(struct window_row *row, void *buf, uint32_t window);

/* Stores base back into the buffer (arrays are there already). */
void window_row_seal(const struct window_row *row, void *buf);

/* Moves base forward to `minute`, zeroing what falls out; a minute <= base changes nothing. */
void window_row_advance(struct window_row *row, uint32_t minute);

/* Adds to the slot of `minute`; ignored when it is below base - window.  Advances when above base.
 */
void window_row_add_bytes(struct window_row *row, uint32_t minute, uint64_t bytes);
void window_row_add_stream(struct window_row *row, uint32_t minute);

/* Takes one stream away; ignored when below base - window.  Never goes below 0. */
void window_row_remove_stream(struct window_row *row, uint32_t minute);

/* Sums over the window ending at now_minute.  Saturate. */
uint64_t window_row_streams(const struct window_row *row, uint32_t now_minute);
uint64_t window_row_bytes(const struct window_row *row, uint32_t now_minute);

/*
 * Rate buckets: bucket[minute % RATE_MINUTES], relative to the minute of
 * last_seen; each saturates at 2^32 - 1 bytes.  Adds at `minute`, which may be
 * up to RATE_MINUTES - 1 below last_minute (older: ignored).  When `minute` is
 * above last_minute the slots in between are zeroed.
 */
void window_rate_add(
	uint32_t bucket[RATE_MINUTES], uint32_t last_minute, uint32_t minute, uint64_t bytes);

/*
 * Bytes per second over the last `rate_minutes` (1..5) minutes: the sum of the
 * buckets in (now_minute - rate_minutes, now_minute], divided by the time they
 * span up to now_ms: (rate_minutes - 1) * 60 s + what has passed of the current
 * minute, at least 1 s.
 */
double window_rate(const uint32_t bucket[RATE_MINUTES], uint32_t last_minute, int64_t now_ms,
	uint32_t rate_minutes);

/*
 * The same over the bytes of a row.  Of a window shorter than the rate's time, what is
 * left of it counts.
 */
double window_row_rate(const struct window_row *row, int64_t now_ms, uint32_t rate_minutes);

#endif
