/*
 * prom.h - the Prometheus text format 0.0.4, written to a stream.
 *
 * A metric's samples follow its head without another metric in between; the
 * format asks for that, and the callers' loops are shaped by it.
 */
#ifndef TALLY_QUERYD_PROM_H
#define TALLY_QUERYD_PROM_H

#include <stdint.h>
#include <stdio.h>

#define PROM_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The lines # HELP and # TYPE. */
void prom_head(FILE *out, const char *name, const char *type, const char *help);

/*
 * One sample.  `labels`: pairs of name and value, ended by NULL; NULL = none.
 * Values of labels are escaped, control characters and what is no UTF-8 as \xNN;
 * `value` is written as it is.
 */
void prom_sample(FILE *out, const char *name, const char *const *labels, const char *value);

/* The same with a number. */
void prom_count(FILE *out, const char *name, const char *const *labels, uint64_t value);

#define PROM_LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
