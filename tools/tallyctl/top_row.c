/*
 * top_row.c - a row of tallyctl top, cell by cell: of a partition, of a tenant.
 *
 *	   P STATE     REPLAY              LAG  REC/S RESTARTS LAST DEATH, NOTES
 *	   ACTIVE  LIMIT USED                            BYTES/S TENANT
 *
 * Columns that are in the way of names go first when the terminal is narrow.  Names and notes
 * stand at the end of their rows.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "status.h"
#include "top_row.h"

#define ROW_SIZE CTL_CELLS_SIZE(TOP_COLUMNS_MAX)
#define NEAR	 0.8

/* ------------------------------------------------------------------ a row, cell by cell */

unsigned row_left(const struct top_row *line)
{
	unsigned columns = line->pen->columns;
	return line->column < columns ? columns - line->column : 0;
}

/* A cell of a certain width, and a blank. */
static void cell(struct top_row *line, enum ctl_style style, unsigned width, enum ctl_side side,
	const char *text)
{
	char fit[ROW_SIZE];
	width = width < row_left(line) ? width : row_left(line);
	ctl_fit(fit, sizeof fit, text, width, side);
	line->pen->put(line->pen, line->row, line->column, style, line->reverse, fit);
	line->column += width;
	if (line->reverse && row_left(line))
		line->pen->put(line->pen, line->row, line->column, CTL_PLAIN, true, " ");
	line->column++;
}

/* The rest of the row. */
static void rest(struct top_row *line, enum ctl_style style, const char *text)
{
	cell(line, style, row_left(line), CTL_LEFT, text);
}

/* As wide as it is; the next goes on right behind it. */
void row_words(struct top_row *line, enum ctl_style style, const char *fmt, ...)
{
	char text[2048], fit[ROW_SIZE];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	ctl_fit(fit, sizeof fit, text, row_left(line), CTL_ASIS);
	line->pen->put(line->pen, line->row, line->column, style, line->reverse, fit);
	line->column += ctl_width(fit);
}

struct top_row row_at(struct top_pen *pen, unsigned row, bool reverse)
{
	return (struct top_row){.pen = pen, .row = row, .reverse = reverse};
}

/* ------------------------------------------------------------------ partitions */

struct row_widths row_widths(unsigned columns)
{
	bool narrow = columns < 56, wide = columns >= 110;
	unsigned more = columns > 80 ? (columns - 80) / 4 : 0;
	unsigned bar = narrow ? 0 : columns < 72 ? 8 : 12 + (more < 20 ? more : 20);
	return (struct row_widths){
		.number = 4,
		.state = 9,
		.bar = bar,
		.percent = 4,
		.lag = 7,
		.rate = narrow ? 0 : 6,
		.restarts = narrow	   ? 0
			    : columns < 72 ? 4
					   : 8,
		.used = 7,
		.share = 7,
		.room = 5,
		.word = 7,
		.bytes = columns < 66 ? 0 : 9,
		.whole = wide ? 9 : 0,
		.policy = wide ? 16 : 0,
	};
}

static void maybe(struct top_row *line, enum ctl_style style, unsigned width, enum ctl_side side,
	const char *text)
{
	if (width)
		cell(line, style, width, side, text);
}

/* Never on a bar of its own: what is full would look empty. */
static void draw_bar(struct top_row *line, enum ctl_style style, unsigned width, double share)
{
	char bar[ROW_SIZE] = "";
	bool reverse = line->reverse;
	if (share >= 0)
		ctl_bar(bar, sizeof bar, width, share);
	line->reverse = reverse && share < 0;
	maybe(line, style, width, CTL_LEFT, bar);
	line->reverse = reverse;
	if (reverse && width && row_left(line))
		line->pen->put(line->pen, line->row, line->column - 1, CTL_PLAIN, true, " ");
}

void row_part_head(struct top_row *line, const struct row_widths *w)
{
	const enum ctl_style s = CTL_DIM;
	cell(line, s, w->number + 1, CTL_RIGHT, "P");
	cell(line, s, w->state, CTL_LEFT, "STATE");
	maybe(line, s, w->bar, CTL_LEFT, "REPLAY");
	cell(line, s, w->percent, CTL_RIGHT, "");
	cell(line, s, w->lag, CTL_RIGHT, "LAG");
	maybe(line, s, w->rate, CTL_RIGHT, "REC/S");
	maybe(line, s, w->restarts, CTL_RIGHT, w->restarts < 8 ? "RST" : "RESTARTS");
	rest(line, s, "LAST DEATH, NOTES");
}

/* What is to come first, then what was. */
static void notes_of(const struct top_data *data, const struct tally_partition *p,
	char to[STATUS_NOTES_SIZE + 64])
{
	char span[CTL_TEXT_SIZE], notes[STATUS_NOTES_SIZE];
	status_notes(data->ctl, p, notes, sizeof notes);
	*to = 0;
	if (status_replaying(p) && p->eta_ms >= 0)
		snprintf(to, 64, "ETA %s%s", ctl_span(span, p->eta_ms),
			strcmp(notes, "-") != 0 ? "; " : "");
	if (!*to || strcmp(notes, "-") != 0)
		snprintf(to + strlen(to), STATUS_NOTES_SIZE, "%s", notes);
}

void row_part(struct top_row *line, const struct top_data *data, const struct row_widths *w,
	const struct tally_partition *p)
{
	char number[CTL_TEXT_SIZE], percent[CTL_TEXT_SIZE] = "", lag[CTL_TEXT_SIZE] = "-",
				    rate[CTL_TEXT_SIZE] = "-", restarts[CTL_TEXT_SIZE],
				    notes[STATUS_NOTES_SIZE + 64];
	enum ctl_style style = ctl_state_style(p);
	snprintf(number, sizeof number, "%" PRIu32, p->partition);
	snprintf(restarts, sizeof restarts, "%" PRIu32, p->restarts);
	if (status_replaying(p))
		snprintf(percent, sizeof percent, "%d%%", (int)(p->progress * 100));
	if (p->has_stats && p->lag >= 0)
		ctl_count(lag, (uint64_t)p->lag);
	if (p->has_stats)
		ctl_count(rate, p->records_per_sec);
	notes_of(data, p, notes);
	cell(line, CTL_PLAIN, w->number, CTL_RIGHT, number);
	cell(line, style, w->state, CTL_LEFT, p->state);
	draw_bar(line, style, w->bar, status_replaying(p) ? p->progress : -1);
	cell(line, CTL_PLAIN, w->percent, CTL_RIGHT, percent);
	cell(line, CTL_PLAIN, w->lag, CTL_RIGHT, lag);
	maybe(line, CTL_PLAIN, w->rate, CTL_RIGHT, rate);
	maybe(line, p->restarts ? CTL_WARN : CTL_PLAIN, w->restarts, CTL_RIGHT, restarts);
	rest(line, *p->problems || !p->ready ? CTL_WARN : CTL_PLAIN, notes);
}

/* ------------------------------------------------------------------ tenants */

void row_tenant_head(struct top_row *line, const struct row_widths *w)
{
	const enum ctl_style s = CTL_DIM;
	cell(line, s, w->used + 1, CTL_RIGHT, "ACTIVE");
	cell(line, s, w->share, CTL_RIGHT, w->whole ? "SHARE" : "LIMIT");
	maybe(line, s, w->whole, CTL_RIGHT, "OF LIMIT");
	maybe(line, s, w->bar, CTL_LEFT, "USED");
	cell(line, s, w->room, CTL_RIGHT, "");
	cell(line, s, w->word, CTL_LEFT, "");
	maybe(line, s, w->bytes, CTL_RIGHT, "BYTES/S");
	maybe(line, s, w->policy, CTL_LEFT, "BUCKET");
	rest(line, s, "TENANT");
}

static const char *limit_text(char to[CTL_TEXT_SIZE], bool known, uint64_t limit)
{
	if (!known)
		return "?";
	return limit == TALLY_UNLIMITED ? "none" : ctl_count(to, limit);
}

static const char *room_text(char to[CTL_TEXT_SIZE], const struct top_tenant *t)
{
	if (!t->round || t->share == TALLY_UNLIMITED)
		return "-";
	if (!(t->nearness < 9.995))
		return ">999%";
	snprintf(to, CTL_TEXT_SIZE, "%d%%", (int)(t->nearness * 100));
	return to;
}

void row_tenant(struct top_row *line, const struct row_widths *w, const struct top_tenant *t)
{
	char used[CTL_TEXT_SIZE], share[CTL_TEXT_SIZE], limit[CTL_TEXT_SIZE], room[CTL_TEXT_SIZE],
		bytes[CTL_TEXT_SIZE];
	bool known = t->round > 0, near = t->nearness >= NEAR;
	enum ctl_style style = t->full ? t->dry_run ? CTL_WARN : CTL_BAD
			       : near  ? CTL_WARN
				       : CTL_GOOD;
	bool limited = known && t->share != TALLY_UNLIMITED;
	style = limited ? style : CTL_PLAIN;
	cell(line, CTL_PLAIN, w->used, CTL_RIGHT, ctl_count(used, known ? t->used : t->streams));
	cell(line, CTL_PLAIN, w->share, CTL_RIGHT, limit_text(share, known, t->share));
	maybe(line, CTL_PLAIN, w->whole, CTL_RIGHT, limit_text(limit, known, t->limit));
	draw_bar(line, style, w->bar, limited ? t->nearness : -1);
	cell(line, style, w->room, CTL_RIGHT, room_text(room, t));
	cell(line, style, w->word, CTL_LEFT,
		!known	  ? ""
		: t->full ? (t->dry_run ? "dry run" : "FULL")
		: near	  ? "near"
			  : "");
	maybe(line, CTL_PLAIN, w->bytes, CTL_RIGHT, ctl_bytes(bytes, t->bytes_per_sec));
	maybe(line, CTL_PLAIN, w->policy, CTL_LEFT, *t->policy ? t->policy : "-");
	if (!*t->policy || w->policy) {
		rest(line, CTL_PLAIN, t->name);
		return;
	}
	char name[CTL_NAME_SIZE], policy[CTL_NAME_SIZE];
	row_words(line, CTL_PLAIN, "%s", ctl_name(name, t->name));
	row_words(line, CTL_DIM, " (%s)", ctl_name(policy, t->policy));
	if (row_left(line))
		rest(line, CTL_PLAIN, "");
}
