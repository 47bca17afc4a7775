/*
 * top_row.h - rows of tallyctl top: what top_view.c is made of.
 */
#ifndef TALLYCTL_TOP_ROW_H
#define TALLYCTL_TOP_ROW_H

#include "top.h"

#define TOP_COLUMNS_MAX 400 /* beyond it nothing is drawn */

/* Where the next cell goes. */
struct top_row {
	struct top_pen *pen;
	unsigned row, column;
	bool reverse;
};

struct top_row row_at(struct top_pen *pen, unsigned row, bool reverse);
unsigned row_left(const struct top_row *line); /* columns */

/* As wide as it is; what comes next goes on right behind it. */
void row_words(struct top_row *line, enum ctl_style style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Of the columns, for a terminal of so many; 0: left out. */
struct row_widths {
	unsigned number, state, bar, percent, lag, rate, restarts; /* of partitions */
	unsigned used, share, room, word, bytes, whole, policy;	   /* of tenants */
};

struct row_widths row_widths(unsigned columns);

void row_part_head(struct top_row *line, const struct row_widths *w);
void row_part(struct top_row *line, const struct top_data *data, const struct row_widths *w,
	const struct tally_partition *p);
void row_tenant_head(struct top_row *line, const struct row_widths *w);
void row_tenant(struct top_row *line, const struct row_widths *w, const struct top_tenant *t);

#endif
