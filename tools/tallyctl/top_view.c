/*
 * top_view.c - how tallyctl top looks.
 *
 *	head      instance, group; health; limits          12:04:05Z
 *	-- partitions 1-8 of 8, by number ----------------------------
 *	   P STATE     REPLAY              LAG  REC/S RESTARTS LAST DEATH, NOTES
 *	-- tenants 1-9 of 345, nearest to their limit first ----------
 *	  ACTIVE  LIMIT USED                            BYTES/S TENANT
 *	keys
 *
 * Columns that are in the way of names go first when the terminal is narrow.  Names and notes
 * stand at the end of their rows.  No fact is told by colour alone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "top_row.h"

#define ROWS_MIN    10
#define COLUMNS_MIN 40

/* ------------------------------------------------------------------ head */

static const char *clock_of(char to[CTL_TEXT_SIZE], int64_t unix_ms)
{
	ctl_clock(to, unix_ms);
	const char *blank = strchr(to, ' ');
	return blank ? blank + 1 : to;
}

/* Gives how wide it is. */
static unsigned draw_clock(
	struct top_pen *pen, const struct top_data *data, const struct top_ui *ui)
{
	char clock[CTL_TEXT_SIZE], text[64];
	snprintf(text, sizeof text, "  %s%s", ui->paused ? "PAUSED " : "",
		clock_of(clock, data->now_ms));
	unsigned width = (unsigned)strlen(text);
	pen->put(pen, 0, pen->columns - width, ui->paused ? CTL_WARN : CTL_DIM, false, text);
	return width;
}

static void draw_who(struct top_pen *pen, const struct top_data *data)
{
	const struct tally_instance *in = &data->ctl->instance;
	struct top_row line = row_at(pen, 0, false);
	char name[CTL_NAME_SIZE];
	bool member = !strcmp(in->group_state, "member");
	if (*data->trouble) {
		row_words(&line, CTL_BOLD, "tallyctl top");
		return;
	}
	row_words(&line, CTL_BOLD, "%s", ctl_name(name, *in->instance ? in->instance : "tally"));
	row_words(&line, CTL_PLAIN, ": topic %s", ctl_name(name, in->topic));
	row_words(&line, CTL_PLAIN, ", group %s (", ctl_name(name, in->group));
	row_words(&line, member ? CTL_PLAIN : CTL_WARN, "%s", in->group_state);
	row_words(&line, CTL_PLAIN, ")");
	if (*in->zone)
		row_words(&line, CTL_PLAIN, ", zone %s", ctl_name(name, in->zone));
	row_words(&line, CTL_PLAIN, ", window %" PRIu32 " min", in->window_minutes);
}

/* Words that may need more than a row.  Gives how many. */
static unsigned draw_wrapped(
	struct top_pen *pen, unsigned row, unsigned rows, enum ctl_style style, const char *text)
{
	unsigned used = 0;
	do {
		struct top_row line = row_at(pen, row + used, false);
		size_t n = used + 1 < rows ? ctl_wrap(text, pen->columns) : strlen(text);
		row_words(&line, style, "%.*s", (int)n, text);
		text += n + (text[n] == ' ');
		used++;
	} while (*text && used < rows);
	return used;
}

static void draw_queryd(struct top_row *line, const struct top_data *data)
{
	const struct tally_instance *in = &data->ctl->instance;
	if (ctl_queryd_died(in))
		row_words(line, CTL_BAD, "QUERYD HAS DIED %" PRIu32 " times (%s)",
			in->query_restarts, in->query_death);
	else if (!in->query_processes)
		row_words(line, CTL_PLAIN, "no queryd (query.enabled)");
	else if (!in->query_alive)
		row_words(line, CTL_WARN, "queryd is starting");
	else
		row_words(line, CTL_PLAIN, "queryd %" PRIu32 "%s%s", in->query_pid,
			*data->http ? "; HTTP " : "", data->http);
}

/* Gives how many rows it took. */
static unsigned draw_health(struct top_pen *pen, const struct top_data *data)
{
	const struct tally_instance *in = &data->ctl->instance;
	struct top_row line = row_at(pen, 1, false);
	char stale[256], span[CTL_TEXT_SIZE];
	size_t ready = 0;
	ctl_stale_text(data->ctl, stale, sizeof stale);
	if (*stale)
		return draw_wrapped(pen, 1, 3, CTL_BAD, stale);
	for (size_t i = 0; i < data->n_parts; i++)
		ready += data->parts[i].ready != 0;
	if (data->n_parts)
		row_words(&line, ready == data->n_parts ? CTL_GOOD : CTL_WARN,
			"%zu of %zu partition%s ready", ready, data->n_parts, ctl_s(data->n_parts));
	else
		row_words(&line, CTL_WARN, "no partition");
	if (data->n_parts < in->partitions)
		row_words(&line, CTL_PLAIN, " (of %" PRIu32 ")", in->partitions);
	row_words(&line, CTL_PLAIN, "; tallyd %" PRIu32 " up %s; ", in->supervisor_pid,
		ctl_span(span, ctl_minus(data->now_ms, in->started_at_ms)));
	draw_queryd(&line, data);
	return 1;
}

static void draw_limits(struct top_pen *pen, unsigned row, const struct top_data *data)
{
	struct top_row line = row_at(pen, row, false);
	const struct tally_instance *in = &data->ctl->instance;
	char text[CTL_LIMITS_SIZE];
	bool refused = !strcmp(in->limits_state, "refused");
	ctl_limits_text(data->ctl, text, sizeof text);
	row_words(&line,
		refused		     ? CTL_BAD
		: in->limits_dry_run ? CTL_WARN
				     : CTL_PLAIN,
		"%s", *text ? text : "limits: none have been published");
}

/* Gives how many rows it took. */
static unsigned draw_head(struct top_pen *pen, const struct top_data *data, const struct top_ui *ui)
{
	unsigned columns = pen->columns;
	pen->columns -= draw_clock(pen, data, ui);
	draw_who(pen, data);
	pen->columns = columns;
	if (*data->trouble)
		return 1 + draw_wrapped(pen, 1, pen->rows - 4, CTL_BAD, data->trouble);
	unsigned used = 1 + draw_health(pen, data);
	if (pen->rows < 14)
		return used;
	draw_limits(pen, used, data);
	return used + 1;
}

/* ------------------------------------------------------------------ titles */

static void draw_rule(struct top_row *line, enum ctl_style style)
{
	const char *dash = ctl_utf8() ? "─" : "-";
	row_words(line, CTL_DIM, " ");
	while (row_left(line))
		row_words(line, style, "%s", dash);
}

static void title_range(
	struct top_row *line, const struct top_list *list, const char *what, enum ctl_style style)
{
	size_t last = list->first + list->page;
	last = last < list->n ? last : list->n;
	const char *dash = ctl_utf8() ? "──" : "--";
	row_words(line, CTL_DIM, "%s ", dash);
	row_words(line, style, "%s", what);
	if (list->n > list->page)
		row_words(line, CTL_PLAIN, " %zu-%zu of %zu", list->first + 1, last, list->n);
	else
		row_words(line, CTL_PLAIN, " %zu", list->n);
}

static void title_parts(struct top_row *line, const struct top_data *data, const struct top_ui *ui)
{
	static const char *const orders[] = {"by number", "trouble first"};
	char lag_text[CTL_TEXT_SIZE], rate_text[CTL_TEXT_SIZE];
	uint64_t lag = 0, rate = 0;
	for (size_t i = 0; i < data->n_parts; i++) {
		lag += data->parts[i].lag > 0 ? (uint64_t)data->parts[i].lag : 0;
		rate += data->parts[i].records_per_sec;
	}
	title_range(line, &ui->list[TOP_PARTS], "Partitions",
		ui->focus == TOP_PARTS ? CTL_BOLD : CTL_PLAIN);
	row_words(line, CTL_DIM, ", %s; lag %s, %s records/s", orders[ui->order],
		ctl_count(lag_text, lag), ctl_count(rate_text, rate));
}

static void title_tenants(
	struct top_row *line, const struct top_data *data, const struct top_ui *ui)
{
	static const char *const sorts[] = {
		"nearest to their limit first", "by active streams", "by rate", "by name"};
	title_range(line, &ui->list[TOP_TENANTS], "Tenants",
		ui->focus == TOP_TENANTS ? CTL_BOLD : CTL_PLAIN);
	if (*ui->search) {
		char shown[CTL_NAME_SIZE];
		row_words(line, CTL_PLAIN, " with '%s'", ctl_name(shown, ui->search));
	}
	if (data->n_parts && !data->basis.complete)
		row_words(line, CTL_WARN, "; %" PRIu32 " of %" PRIu32 " partitions answer%s",
			data->basis.answered, data->basis.owned,
			data->basis.partial ? ", others as far as counted" : "");
	else if (data->basis.stale)
		row_words(line, CTL_WARN, "; not all of it is of now");
	if (data->more_tenants)
		row_words(line, CTL_WARN, "; there are more, with fewer streams");
	if (data->unread)
		row_words(line, CTL_WARN, "; limits of %zu not read yet", data->unread);
	row_words(line, CTL_DIM, ", %s", sorts[ui->sort]);
}

/* ------------------------------------------------------------------ lists */

/* The window of a list follows what is chosen. */
static void show_chosen(struct top_list *list, unsigned rows)
{
	list->page = rows;
	if (list->first + rows > list->n)
		list->first = list->n > rows ? list->n - rows : 0;
	if (list->at < list->first)
		list->first = list->at;
	if (rows && list->at >= list->first + rows)
		list->first = list->at - rows + 1;
}

static void draw_empty(struct top_pen *pen, unsigned row, const struct top_data *data,
	const struct top_ui *ui, enum top_pane pane)
{
	struct top_row line = row_at(pen, row, false);
	char shown[CTL_NAME_SIZE];
	int err = data->tenants_err;
	if (pane == TOP_PARTS)
		row_words(&line, CTL_DIM, "  no partition is assigned here (group: %s)",
			data->ctl->instance.group_state);
	else if (err == TALLY_ENOTREADY || err == TALLY_ESTALE)
		row_words(&line, CTL_DIM, "  no partition can be read yet");
	else if (err)
		row_words(&line, CTL_BAD, "  cannot be read: %s", tally_error(err));
	else if (*ui->search)
		row_words(&line, CTL_DIM, "  no tenant has '%s' in its name; Esc shows all",
			ctl_name(shown, ui->search));
	else
		row_words(&line, CTL_DIM, "  no tenant has active streams, as far as can be read");
}

/* `rows` of them, from `row` on: title, headings, and the rest for the list. */
static void draw_list(struct top_pen *pen, unsigned row, unsigned rows, const struct top_data *data,
	struct top_ui *ui, enum top_pane pane)
{
	struct top_list *list = &ui->list[pane];
	struct row_widths w = row_widths(pen->columns);
	struct top_row line = row_at(pen, row, false);
	show_chosen(list, rows - 2);
	(pane == TOP_PARTS ? title_parts : title_tenants)(&line, data, ui);
	draw_rule(&line, CTL_DIM);
	line = row_at(pen, row + 1, false);
	(pane == TOP_PARTS ? row_part_head : row_tenant_head)(&line, &w);
	if (!list->n && rows > 2)
		draw_empty(pen, row + 2, data, ui, pane);
	for (size_t i = list->first; i < list->n && i < list->first + list->page; i++) {
		bool chosen = ui->focus == pane && i == list->at;
		line = row_at(pen, row + 2 + (unsigned)(i - list->first), chosen);
		pen->put(pen, line.row, line.column++, CTL_BOLD, chosen, chosen ? ">" : " ");
		if (pane == TOP_PARTS)
			row_part(&line, data, &w, &data->parts[list->order[i]]);
		else
			row_tenant(&line, &w, &data->tenants[list->order[i]]);
	}
}

/* Each list has what it needs; when that is too much, a half, or what the other leaves. */
static void draw_lists(struct top_pen *pen, unsigned row, unsigned rows,
	const struct top_data *data, struct top_ui *ui)
{
	if (ui->zoomed) {
		draw_list(pen, row, rows, data, ui, ui->focus);
		return;
	}
	unsigned room = rows - 4, half = room / 2;
	size_t parts = ui->list[TOP_PARTS].n, tenants = ui->list[TOP_TENANTS].n;
	tenants = tenants ? tenants : 1; /* a line that says so */
	size_t spare = *ui->search || tenants >= room ? half : room - tenants;
	unsigned mine = (unsigned)(parts < half ? parts : parts < spare ? parts : spare);
	mine = mine < half && parts > mine ? half : mine;
	mine = mine ? mine : 1;
	draw_list(pen, row, mine + 2, data, ui, TOP_PARTS);
	draw_list(pen, row + mine + 2, rows - mine - 2, data, ui, TOP_TENANTS);
}

/* ------------------------------------------------------------------ what lies above the lists */

static const char help_text[] =
	"Up Down j k       another row            PgUp PgDn ^B ^F   a page\n"
	"Home End g G      first, last            Tab               the other list\n"
	"Enter             all about this one     Esc               back\n"
	"/                 search tenants (Enter keeps it, Esc drops it)\n"
	"s                 sort: tenants nearest to their limit, by streams, rate, name;\n"
	"                  partitions by number, or those in trouble first\n"
	"z                 this list on the whole screen, or both\n"
	"p                 pause                  r   read at once\n"
	"?                 this                   q   quit\n"
	"\n"
	"Partitions\n"
	"  pending     its worker starts, waits for its turn, or asks where to begin\n"
	"  replaying   catches up: how far, and how long still (ETA)\n"
	"  ready       caught up, and answers (\"lease is over\": it does not)\n"
	"  draining    is being given up\n"
	"  parked      kept until it is known whose it is\n"
	"  failed      its worker died again and again, or the topic does not have it\n"
	"  stopped     tallyd was stopped in order; the store is kept\n"
	"  Restarts and deaths count since the partition was assigned.\n"
	"\n"
	"Tenants\n"
	"  ACTIVE      streams in the bucket that is nearest to its limit\n"
	"  LIMIT       this instance's share of that limit; Enter says how it comes about\n"
	"  near        80% and more\n"
	"  FULL        new streams are rejected, known ones are not\n"
	"  dry run     full, but nothing is rejected\n"
	"  (POLICY)    that bucket is this policy's own\n"
	"\n"
	"All of it, and more: man tallyctl\n";

static void draw_text(
	struct top_pen *pen, unsigned row, unsigned rows, struct top_ui *ui, const char *text)
{
	size_t n = 0;
	while (*text) {
		size_t end = strcspn(text, "\n"), len = ctl_wrap(text, pen->columns);
		len = len < end ? len : end;
		if (n >= ui->scroll && n < ui->scroll + rows) {
			struct top_row line = row_at(pen, row + (unsigned)(n - ui->scroll), false);
			row_words(&line, CTL_PLAIN, "%.*s", (int)len, text);
		}
		n++;
		text += len;
		text += *text == '\n' || *text == ' ';
	}
	ui->scroll_max = n > rows ? n - rows : 0;
}

static void draw_cover(struct top_pen *pen, unsigned row, unsigned rows,
	const struct top_data *data, struct top_ui *ui)
{
	struct top_row line = row_at(pen, row, false);
	char shown[CTL_NAME_SIZE];
	const char *dash = ctl_utf8() ? "──" : "--";
	row_words(&line, CTL_DIM, "%s ", dash);
	if (ui->help)
		row_words(&line, CTL_BOLD, "Keys, and what the words mean");
	else
		row_words(&line, CTL_BOLD, "%s %s",
			ui->of_pane == TOP_PARTS ? "Partition" : "Tenant", ctl_name(shown, ui->of));
	draw_rule(&line, CTL_DIM);
	draw_text(pen, row + 1, rows - 1, ui,
		ui->help       ? help_text
		: data->detail ? data->detail
			       : "reading ...\n");
	/* It can have become shorter under a reader who is at its end. */
	if (ui->scroll > ui->scroll_max)
		ui->scroll = ui->scroll_max;
}

/* ------------------------------------------------------------------ foot */

static void draw_key(struct top_row *line, const char *key, const char *what)
{
	row_words(line, CTL_BOLD, "%s", key);
	row_words(line, CTL_DIM, " %s  ", what);
}

static void draw_foot(struct top_pen *pen, const struct top_ui *ui)
{
	struct top_row line = row_at(pen, pen->rows - 1, false);
	if (ui->typing) {
		row_words(&line, CTL_BOLD, "/");
		row_words(&line, CTL_PLAIN, "%s", ui->search);
		pen->cursor_row = (int)line.row;
		pen->cursor_column = (int)line.column;
		row_words(&line, CTL_DIM, "   Enter keeps the search, Esc drops it");
		return;
	}
	if (ui->help) {
		draw_key(&line, "any key", "back");
		return;
	}
	if (ui->detail) {
		draw_key(&line, "Esc", "back");
		draw_key(&line, "Up Down PgUp PgDn", "scroll");
		draw_key(&line, "p", "pause");
		draw_key(&line, "?", "help");
		return;
	}
	draw_key(&line, "?", "help");
	draw_key(&line, "q", "quit");
	draw_key(&line, "Tab", "switch");
	draw_key(&line, "Enter", "details");
	draw_key(&line, "/", "search");
	draw_key(&line, "s", "sort");
	draw_key(&line, "z", "zoom");
	draw_key(&line, "p", "pause");
}

/* ------------------------------------------------------------------ all */

static void draw_too_small(struct top_pen *pen)
{
	struct top_row line = row_at(pen, 0, false);
	row_words(&line, CTL_PLAIN, "%ux%u: too small", pen->columns, pen->rows);
	line = row_at(pen, 1, false);
	if (pen->rows > 1)
		row_words(&line, CTL_PLAIN, "%dx%d is enough", COLUMNS_MIN, ROWS_MIN);
}

void top_draw(const struct top_data *data, struct top_ui *ui, struct top_pen *pen)
{
	pen->cursor_row = -1;
	if (pen->columns > TOP_COLUMNS_MAX)
		pen->columns = TOP_COLUMNS_MAX;
	if (pen->rows < ROWS_MIN || pen->columns < COLUMNS_MIN) {
		draw_too_small(pen);
		return;
	}
	unsigned head = draw_head(pen, data, ui);
	if (ui->help || (ui->detail && !*data->trouble))
		draw_cover(pen, head, pen->rows - head - 1, data, ui);
	else if (!*data->trouble)
		draw_lists(pen, head, pen->rows - head - 1, data, ui);
	draw_foot(pen, ui);
}
