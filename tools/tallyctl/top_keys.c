/*
 * top_keys.c - what is looked at in tallyctl top, and how keys change it.
 *
 *	data --filter, sort--> order of each list --> chosen one --> window
 *
 * The first of a list is followed as "the first" while the list moves; once somebody has gone
 * to another one, that one is followed by its name.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

void top_ui_free(struct top_ui *ui)
{
	for (size_t i = 0; i < TOP_PANES; i++) {
		free(ui->list[i].order);
		ui->list[i] = (struct top_list){0};
	}
}

/* ------------------------------------------------------------------ order */

struct sorting {
	const struct top_ui *ui;
	const struct top_data *data;
};

static int more(double a, double b)
{
	return (a < b) - (a > b);
}

static int compare_parts(const void *a, const void *b, void *arg)
{
	const struct sorting *by = arg;
	const struct tally_partition *x = &by->data->parts[*(const size_t *)a],
				     *y = &by->data->parts[*(const size_t *)b];
	int order = 0;
	if (by->ui->order == TOP_BY_TROUBLE) {
		order = x->ready - y->ready;
		order = order ? order : more((double)x->lag, (double)y->lag);
		order = order ? order : more(x->restarts, y->restarts);
	}
	return order ? order : x->partition < y->partition ? -1 : 1;
}

static int compare_tenants(const void *a, const void *b, void *arg)
{
	const struct sorting *by = arg;
	const struct top_tenant *x = &by->data->tenants[*(const size_t *)a],
				*y = &by->data->tenants[*(const size_t *)b];
	int order = 0;
	if (by->ui->sort == TOP_BY_NEARNESS)
		order = more(x->nearness, y->nearness);
	else if (by->ui->sort == TOP_BY_RATE)
		order = more(x->bytes_per_sec, y->bytes_per_sec);
	if (!order && by->ui->sort != TOP_BY_NAME)
		order = more((double)x->streams, (double)y->streams);
	return order ? order : strcmp(x->name, y->name);
}

/* Found as it is shown, whatever its letters' case. */
static bool found(const struct top_ui *ui, const char *name)
{
	char shown[CTL_NAME_SIZE];
	return !*ui->search || strcasestr(ctl_name(shown, name), ui->search);
}

static void name_of(const struct top_data *data, enum top_pane pane, size_t i, char name[257])
{
	if (pane == TOP_PARTS)
		snprintf(name, 257, "%" PRIu32, data->parts[i].partition);
	else
		memcpy(name, data->tenants[i].name, 257);
}

static void find_chosen(struct top_list *list, const struct top_data *data, enum top_pane pane)
{
	char name[257];
	if (!list->follows)
		list->at = list->first = 0;
	for (size_t i = 0; list->follows && i < list->n; i++) {
		name_of(data, pane, list->order[i], name);
		if (!strcmp(name, list->chosen)) {
			list->at = i;
			return;
		}
	}
	if (list->at >= list->n) /* it has gone: whoever is there now */
		list->at = list->n ? list->n - 1 : 0;
}

static void order_list(struct top_ui *ui, const struct top_data *data, enum top_pane pane)
{
	struct top_list *list = &ui->list[pane];
	struct sorting by = {ui, data};
	size_t all = pane == TOP_PARTS ? data->n_parts : data->n_tenants;
	list->order = reallocarray(list->order, all + 1, sizeof *list->order);
	if (!list->order)
		abort();
	list->n = 0;
	for (size_t i = 0; i < all; i++)
		if (pane == TOP_PARTS || found(ui, data->tenants[i].name))
			list->order[list->n++] = i;
	qsort_r(list->order, list->n, sizeof *list->order,
		pane == TOP_PARTS ? compare_parts : compare_tenants, &by);
	find_chosen(list, data, pane);
}

void top_arrange(struct top_ui *ui, const struct top_data *data)
{
	order_list(ui, data, TOP_PARTS);
	order_list(ui, data, TOP_TENANTS);
}

/* ------------------------------------------------------------------ moving */

static size_t moved(size_t at, size_t last, size_t page, int key)
{
	switch (key) {
	case TOP_UP:
	case 'k':
		return at ? at - 1 : 0;
	case TOP_DOWN:
	case 'j':
		return at < last ? at + 1 : last;
	case TOP_PAGE_UP:
	case 'b' & 0x1f:
		return at > page ? at - page : 0;
	case TOP_PAGE_DOWN:
	case 'f' & 0x1f:
		return at + page < last ? at + page : last;
	case TOP_HOME:
	case 'g':
		return 0;
	case TOP_END:
	case 'G':
		return last;
	default:
		return SIZE_MAX;
	}
}

static bool move(struct top_ui *ui, const struct top_data *data, int key)
{
	struct top_list *list = &ui->list[ui->focus];
	size_t to = moved(list->at, list->n ? list->n - 1 : 0, list->page ? list->page : 1, key);
	if (to == SIZE_MAX)
		return false;
	list->at = to;
	list->follows = to > 0 && list->n > 0;
	if (list->follows)
		name_of(data, ui->focus, list->order[to], list->chosen);
	return true;
}

static bool scroll(struct top_ui *ui, int key)
{
	size_t page = ui->list[0].page + ui->list[1].page + 1;
	size_t to = moved(ui->scroll, ui->scroll_max, page, key);
	if (to == SIZE_MAX && key == ' ')
		to = moved(ui->scroll, ui->scroll_max, page, TOP_PAGE_DOWN);
	if (to == SIZE_MAX)
		return false;
	ui->scroll = to;
	return true;
}

/* ------------------------------------------------------------------ typing */

static void add_character(struct top_ui *ui, int key)
{
	size_t len = strlen(ui->search);
	char utf8[5] = "";
	unsigned code = (unsigned)key;
	if (code < 0x80)
		utf8[0] = (char)code;
	else if (code < 0x800)
		snprintf(utf8, sizeof utf8, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 0x3f));
	else if (code < 0x10000)
		snprintf(utf8, sizeof utf8, "%c%c%c", 0xe0 | code >> 12, 0x80 | (code >> 6 & 0x3f),
			0x80 | (code & 0x3f));
	else
		snprintf(utf8, sizeof utf8, "%c%c%c%c", 0xf0 | code >> 18,
			0x80 | (code >> 12 & 0x3f), 0x80 | (code >> 6 & 0x3f),
			0x80 | (code & 0x3f));
	if (len + strlen(utf8) < sizeof ui->search)
		memcpy(ui->search + len, utf8, strlen(utf8) + 1);
}

static void drop_character(struct top_ui *ui)
{
	size_t len = strlen(ui->search);
	while (len && ((unsigned char)ui->search[len - 1] & 0xc0) == 0x80)
		len--;
	if (len)
		ui->search[len - 1] = 0;
}

/* The list follows each letter.  Enter: keep it; Esc: as it was before. */
static void type(struct top_ui *ui, const struct top_data *data, int key)
{
	switch (key) {
	case '\r':
	case '\n':
		ui->typing = false;
		break;
	case 033:
		ui->typing = false;
		snprintf(ui->search, sizeof ui->search, "%s", ui->before);
		break;
	case TOP_BACKSPACE:
	case 0x7f:
	case 'h' & 0x1f:
		drop_character(ui);
		break;
	case 'u' & 0x1f:
		*ui->search = 0;
		break;
	case TOP_UP:
	case TOP_DOWN:
	case TOP_PAGE_UP:
	case TOP_PAGE_DOWN:
		move(ui, data, key);
		return;
	default:
		if (key >= 0x20 && key < TOP_NONE)
			add_character(ui, key);
	}
	ui->list[TOP_TENANTS].follows = false;
	top_arrange(ui, data);
}

static void start_typing(struct top_ui *ui)
{
	ui->typing = true;
	ui->focus = TOP_TENANTS;
	memcpy(ui->before, ui->search, sizeof ui->before);
}

/* ------------------------------------------------------------------ keys */

static void open_detail(struct top_ui *ui, const struct top_data *data)
{
	struct top_list *list = &ui->list[ui->focus];
	if (list->at >= list->n)
		return;
	size_t i = list->order[list->at];
	ui->detail = ui->again = true;
	ui->scroll = 0;
	ui->of_pane = ui->focus;
	name_of(data, ui->focus, i, ui->of);
	if (ui->focus == TOP_PARTS)
		ui->of_partition = data->parts[i].partition;
}

static void next_sort(struct top_ui *ui, const struct top_data *data)
{
	if (ui->focus == TOP_PARTS)
		ui->order = (ui->order + 1) % TOP_PART_ORDERS;
	else
		ui->sort = (ui->sort + 1) % TOP_SORTS;
	top_arrange(ui, data);
}

/* Esc: one step back, to the plain view. */
static void back(struct top_ui *ui, const struct top_data *data)
{
	if (*ui->search) {
		*ui->search = 0;
		top_arrange(ui, data);
	} else {
		ui->zoomed = false;
	}
}

static void plain_key(struct top_ui *ui, const struct top_data *data, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		ui->quit = true;
		break;
	case '\t':
		ui->focus = ui->focus == TOP_PARTS ? TOP_TENANTS : TOP_PARTS;
		break;
	case '\r':
	case '\n':
		open_detail(ui, data);
		break;
	case 033:
		back(ui, data);
		break;
	case '/':
		start_typing(ui);
		break;
	case 's':
		next_sort(ui, data);
		break;
	case 'z':
		ui->zoomed = !ui->zoomed;
		break;
	default:
		move(ui, data, key);
	}
}

/* Help and details lie above the lists; what does not scroll them closes them. */
static void cover_key(struct top_ui *ui, int key)
{
	if (scroll(ui, key) || key == TOP_RESIZED)
		return;
	if (ui->help)
		ui->help = false;
	else if (key == 'q' || key == 'Q' || key == 033 || key == '\r' || key == '\n')
		ui->detail = false;
	ui->scroll = 0;
}

void top_key(struct top_ui *ui, const struct top_data *data, int key)
{
	if (key == TOP_NONE)
		return;
	if (key == TOP_QUIT || key == ('c' & 0x1f)) {
		ui->quit = true;
	} else if (ui->typing) {
		type(ui, data, key);
	} else if (!ui->help && (key == '?' || key == 'h' || key == TOP_HELP)) {
		ui->help = true;
		ui->scroll = 0;
	} else if (key == 'p') {
		ui->paused = !ui->paused;
	} else if (key == 'r') {
		ui->again = true;
	} else if (ui->help || ui->detail) {
		cover_key(ui, key);
	} else {
		plain_key(ui, data, key);
	}
}
