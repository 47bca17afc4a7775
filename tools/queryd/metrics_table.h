/*
 * metrics_table.h - every metric of /metrics in one table: name, type, unit, labels, meaning.
 *
 *	metrics_table --metrics_head--> # HELP, # TYPE of /metrics
 *	              '-metrics_print-> man page tally-metrics(7), which make check compares
 *
 * Whatever is written to /metrics has its head from here, so there can be no metric that
 * the manual does not have; and the head of each one is always written, samples or not,
 * so the manual has none that is not there.
 */
#ifndef TALLY_QUERYD_METRICS_TABLE_H
#define TALLY_QUERYD_METRICS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct metric {
	const char *name;
	const char *type;   /* "gauge", "counter", "histogram"; NULL: the row is a heading */
	const char *unit;   /* "" = none */
	const char *labels; /* "partition,state"; "" = none */
	const char *help;   /* of a heading: what is said below it */
};

const struct metric *metrics_table(size_t *n);

/* NULL: there is none of that name. */
const struct metric *metrics_find(const char *name);

/* Whether it is one of Loki's names, which are there with query.metrics_names: loki. */
bool metrics_is_loki(const struct metric *metric);

/* Its two lines.  It has to be in the table. */
void metrics_head(FILE *out, const char *name);

/* Head and one sample without labels. */
void metrics_single(FILE *out, const char *name, uint64_t value);

/* The man page. */
void metrics_print(FILE *out);

#endif
