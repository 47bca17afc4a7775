/*
 * out.h - the --out file: one line per delivered record, for a test's oracle.
 *
 *	partition offset timestamp_ms tenant hash size policy kind source sequence
 *
 * Separated by tabs; numbers decimal, source 32 hex digits; - for what the
 * record has not.  Within a partition the lines are in the order of offsets.
 */
#ifndef TALLY_LOAD_OUT_H
#define TALLY_LOAD_OUT_H

#include <stdint.h>

#include "message.h"

struct out;

/* NULL after one line on stderr.  `options` is kept. */
struct out *out_open(const struct options *options);
void out_write(struct out *out, int32_t partition, int64_t offset, const struct note *note);

/* 0, or -1 after one line on stderr: something could not be written. */
int out_close(struct out **out);

#endif
