/*
 * table.c - columns for people.
 *
 *	P  STATE  NOTES                  as wide as their content, where there is room, and in a pipe
 *	0  ready  SIGKILL 3 s ago;
 *	          restarts in 12 s       on a terminal that is too narrow
 *
 * On a terminal a row never runs into the next one: first columns that can be spared are left out,
 * then the widest go on below themselves.  In a pipe nothing is ever left out.
 *
 * Widths are those of fit.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define GAP	   2  /* between columns */
#define NARROW_MIN 12 /* of a column that goes on below itself */

void ctl_table_start(struct ctl_table *table, unsigned columns, const char *const *headings)
{
	*table = (struct ctl_table){.columns = columns, .screen = ctl_columns()};
	memcpy(table->heading, headings, columns * sizeof *headings);
}

void ctl_table_row(struct ctl_table *table, const char *const *cells)
{
	size_t at = (size_t)table->rows * table->columns, n = at + table->columns;
	table->cells = reallocarray(table->cells, n, sizeof *table->cells);
	table->styles = realloc(table->styles, n);
	if (!table->cells || !table->styles)
		abort();
	memset(table->styles + at, CTL_PLAIN, table->columns);
	for (unsigned i = 0; i < table->columns; i++)
		if (!(table->cells[at + i] = strdup(cells[i])))
			abort();
	table->rows++;
}

void ctl_table_style(struct ctl_table *table, unsigned column, enum ctl_style style)
{
	table->styles[(size_t)(table->rows - 1) * table->columns + column] = (unsigned char)style;
}

void ctl_table_drop(struct ctl_table *table)
{
	for (size_t i = 0; i < (size_t)table->rows * table->columns; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table->styles);
	*table = (struct ctl_table){0};
}

/* ------------------------------------------------------------------ widths */

static bool is_right(const struct ctl_table *table, unsigned column)
{
	return *table->heading[column] == '>';
}

/* Row 0: the headings. */
static const char *text_at(const struct ctl_table *table, unsigned row, unsigned column)
{
	if (!row)
		return table->heading[column] + is_right(table, column);
	return table->cells[(size_t)(row - 1) * table->columns + column];
}

/* Of a row; a column without width is left out. */
static unsigned sum(const struct ctl_table *table, const unsigned *width)
{
	unsigned cells = 0;
	for (unsigned i = 0; i < table->columns; i++)
		cells += width[i] ? width[i] + GAP : 0;
	return cells ? cells - GAP : 0;
}

/* The widest one of text.  Numbers stay in one piece. */
static unsigned widest(const struct ctl_table *table, const unsigned *width)
{
	unsigned best = table->columns;
	for (unsigned i = 0; i < table->columns; i++)
		if (!is_right(table, i) && (best == table->columns || width[i] >= width[best]))
			best = i;
	return best;
}

/* As narrow as the widest column may become, and no narrower than there is need for. */
static void narrow(const struct ctl_table *table, unsigned *width)
{
	unsigned i;
	while (sum(table, width) > table->screen && (i = widest(table, width)) < table->columns &&
		width[i] > NARROW_MIN)
		width[i]--;
}

/* What remains when all that can be narrow is so. */
static unsigned least(const struct ctl_table *table, const unsigned *width)
{
	unsigned least[CTL_COLUMNS_MAX];
	memcpy(least, width, sizeof least);
	for (unsigned i = 0; i < table->columns; i++)
		if (!is_right(table, i) && least[i] > 2 * NARROW_MIN)
			least[i] = 2 * NARROW_MIN;
	return sum(table, least);
}

static void measure(const struct ctl_table *table, unsigned *width)
{
	for (unsigned i = 0; i < table->columns; i++) {
		width[i] = 0;
		for (unsigned r = 0; r <= table->rows; r++) {
			unsigned cells = ctl_width(text_at(table, r, i));
			width[i] = cells > width[i] ? cells : width[i];
		}
	}
	if (!table->screen || table->width)
		return;
	for (size_t i = 0; table->spare[i] && least(table, width) > table->screen; i++)
		width[table->spare[i]] = 0;
	narrow(table, width);
}

/* ------------------------------------------------------------------ rows */

static void print_cell(const char *text, unsigned pad, bool right, enum ctl_style style)
{
	const char *on = style ? ctl_sgr(style) : "", *off = style ? ctl_sgr(CTL_PLAIN) : "";
	printf("%*s%s%s%s%*s", right ? (int)pad : 0, "", on, text, off, right ? 0 : (int)pad, "");
}

/* As much of each text as its column holds.  False: nothing is left of this row. */
static bool print_line(const struct ctl_table *table, unsigned r, const char **rest,
	const unsigned *width, unsigned last)
{
	bool more = false;
	for (unsigned i = 0; i <= last; i++) {
		size_t n = ctl_wrap(rest[i], width[i]), at = (size_t)(r - 1) * table->columns + i;
		bool right = is_right(table, i);
		if (!width[i])
			continue;
		char *part = strndup(rest[i], n);
		if (!part)
			abort();
		unsigned used = ctl_width(part), pad = width[i] > used ? width[i] - used : 0;
		print_cell(part, i == last && !right ? 0 : pad, right,
			r ? table->styles[at] : CTL_PLAIN);
		fputs(i == last ? "\n" : "  ", stdout);
		free(part);
		rest[i] += n + (rest[i][n] == ' ');
		more = more || *rest[i];
	}
	return more;
}

static void print_row(const struct ctl_table *table, unsigned r, const unsigned *width)
{
	const char *rest[CTL_COLUMNS_MAX];
	unsigned last = table->columns - 1, before = 0;
	while (last && !width[last])
		last--;
	for (unsigned i = 0; i < table->columns; i++)
		rest[i] = text_at(table, r, i);
	for (unsigned i = 0; i < last; i++)
		before += width[i] ? width[i] + GAP : 0;
	if (!table->width) {
		while (print_line(table, r, rest, width, last))
			;
		return;
	}
	unsigned left = table->width > before ? table->width - before : 0;
	char *cut = malloc(CTL_CELLS_SIZE(left));
	if (!cut)
		abort();
	rest[last] = ctl_fit(cut, CTL_CELLS_SIZE(left), rest[last], left, CTL_ASIS);
	print_line(table, r, rest, width, last);
	free(cut);
}

void ctl_table_end(struct ctl_table *table)
{
	unsigned width[CTL_COLUMNS_MAX];
	measure(table, width);
	for (unsigned r = 0; r <= table->rows; r++)
		print_row(table, r, width);
	ctl_table_drop(table);
}
