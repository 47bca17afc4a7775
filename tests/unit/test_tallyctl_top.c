/*
 * test_tallyctl_top.c - tallyctl top without a terminal: what is read of a run directory whose
 * content is known, in what order it is shown, what keys do, and what stands in the cells.
 *
 *	run directory -> top_read -> top_arrange -> top_draw -> a terminal of memory
 */
#include <locale.h>
#include <math.h>
#include <wchar.h>

#include "ctl_run.h"

#include "tools/tallyctl/status.h"
#include "tools/tallyctl/top_row.h"

#include "shm/log.h"

#define ROWS_MAX 60
#define COLS_MAX 220

static struct top_data data;
static struct top_ui ui;

/* A terminal of memory. */
static struct {
	char cell[ROWS_MAX][COLS_MAX][16]; /* UTF-8; "" = the second half of the one before */
	bool reverse[ROWS_MAX][COLS_MAX];
	char row[COLS_MAX * 16];
} grid;

static int setup(void **state)
{
	(void)state;
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	ctl_run_start();
	data = (struct top_data){.ctl = &ctl};
	ui = (struct top_ui){.focus = TOP_TENANTS};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	top_free(&data);
	top_ui_free(&ui);
	ctl_run_end();
	return 0;
}

static void publish_limits(uint64_t a, uint64_t gold, uint64_t others, bool dry_run)
{
	static uint64_t version;
	const struct limits_policy policy = {"gold", gold};
	const struct limits_tenant tenant = {.name = "a",
		.streams = a,
		.has_streams = true,
		.dry_run = dry_run,
		.policies = &policy,
		.n_policies = 1};
	const struct limits_source source = {.version = ++version,
		.default_streams = others,
		.tenants = &tenant,
		.n_tenants = 1};
	assert_int_equal(limits_write(run.dirfd, &source), 0);
	atomic_store(&table_head_mut(&run.table)->limits_version, version);
	atomic_store(&table_head_mut(&run.table)->limits_state, LOAD_OK);
}

static void look(void)
{
	top_read(&data, 1000);
	top_arrange(&ui, &data);
}

/* ------------------------------------------------------------------ a terminal of memory */

static void put(struct top_pen *pen, unsigned row, unsigned column, enum ctl_style style,
	bool reverse, const char *text)
{
	assert_true(row < pen->rows);
	assert_true(style < CTL_STYLES);
	unsigned at = column;
	while (*text) {
		unsigned bytes = log_printable(text);
		wchar_t code = 0;
		mbstate_t start = {0};
		assert_true(bytes > 0); /* nothing that drives it */
		assert_int_equal(mbrtowc(&code, text, bytes, &start), bytes);
		int width = wcwidth(code);
		assert_true(width >= 0);
		assert_true(at + (unsigned)width <= pen->columns);
		if (width) {
			memset(grid.cell[row][at], 0, sizeof grid.cell[row][at]);
			memcpy(grid.cell[row][at], text, bytes);
			grid.reverse[row][at] = reverse;
			if (width == 2)
				grid.cell[row][at + 1][0] = 0;
		}
		at += (unsigned)width;
		text += bytes;
	}
}

static struct top_pen blank(unsigned rows, unsigned columns)
{
	for (unsigned r = 0; r < ROWS_MAX; r++)
		for (unsigned c = 0; c < COLS_MAX; c++) {
			strcpy(grid.cell[r][c], " ");
			grid.reverse[r][c] = false;
		}
	return (struct top_pen){.rows = rows, .columns = columns, .put = put};
}

static void draw(unsigned rows, unsigned columns)
{
	struct top_pen pen = blank(rows, columns);
	top_draw(&data, &ui, &pen);
}

static const char *row_text(unsigned row)
{
	size_t len = 0;
	for (unsigned c = 0; c < COLS_MAX; c++)
		len += (size_t)snprintf(
			grid.row + len, sizeof grid.row - len, "%s", grid.cell[row][c]);
	while (len && grid.row[len - 1] == ' ')
		grid.row[--len] = 0;
	return grid.row;
}

static int row_with(const char *text)
{
	for (unsigned r = 0; r < ROWS_MAX; r++)
		if (strstr(row_text(r), text))
			return (int)r;
	return -1;
}

static void fail_with_screen(const char *text)
{
	for (unsigned r = 0; r < ROWS_MAX; r++)
		print_message("|%s\n", row_text(r));
	fail_msg("'%s'", text);
}

static void assert_shows(const char *text)
{
	if (row_with(text) < 0)
		fail_with_screen(text);
}

static void assert_hides(const char *text)
{
	if (row_with(text) >= 0)
		fail_with_screen(text);
}

static void keys(const char *text)
{
	for (; *text; text++)
		top_key(&ui, &data, (unsigned char)*text);
}

static const char *tenant_at(size_t i)
{
	assert_true(i < ui.list[TOP_TENANTS].n);
	return data.tenants[ui.list[TOP_TENANTS].order[i]].name;
}

static const struct top_tenant *tenant_of(const char *name)
{
	for (size_t i = 0; i < data.n_tenants; i++)
		if (!strcmp(data.tenants[i].name, name))
			return &data.tenants[i];
	return NULL;
}

/* ------------------------------------------------------------------ reading */

static void tenants_have_the_bucket_that_is_nearest_to_its_share(void **state)
{
	(void)state;
	publish_limits(8, 2, 12, false); /* two of four partitions: shares 4, 1, 6 */
	look();
	assert_int_equal(data.n_parts, 2);
	assert_int_equal(data.n_tenants, 3);
	assert_int_equal(data.unread, 0);
	const struct top_tenant *a = tenant_of("a");
	assert_string_equal(a->policy, "gold");
	assert_int_equal(a->share, 1);
	assert_int_equal(a->limit, 2);
	assert_int_equal(a->used, 1);
	assert_int_equal(a->streams, 2);
	assert_true(a->full);
	assert_true(fabs(tenant_of("t")->nearness - 0.5) < 1e-9);
	publish_limits(1, 100, LIMIT_NONE, true);
	look();
	a = tenant_of("a");
	assert_string_equal(a->policy, "");
	assert_true(a->full && a->dry_run);
	assert_true(tenant_of("t")->share == TALLY_UNLIMITED);
	assert_true(tenant_of("t")->nearness == 0);
}

static void limits_that_there_was_no_time_for_are_read_later(void **state)
{
	(void)state;
	struct put puts[50];
	char names[50][8];
	for (size_t i = 0; i < 50; i++) {
		snprintf(names[i], sizeof names[i], "t%zu", i);
		puts[i] = (struct put){names[i], "", i * RUN_PARTITIONS + 2, 1, 0};
	}
	run_write(&run, 2, 12, puts, 50);
	run_publish(&run, 2, PART_READY, 12);
	publish_limits(8, 2, 12, false);
	top_read(&data, 0);
	assert_int_equal(data.n_tenants, 53);
	size_t unread = data.unread;
	assert_true(unread > 10 && unread < 50);
	top_arrange(&ui, &data);
	keys("G");
	char text[64];
	snprintf(text, sizeof text, "; limits of %zu not read yet, nearest", unread);
	draw(24, 80);
	assert_shows(text);
	assert_shows(">      1       ?                  -");
	top_read(&data, 0);
	assert_int_equal(data.unread, 0);
	/* Those without an entry share one look-up: the same as if each had been asked about. */
	for (size_t i = 0; i < data.n_tenants; i++) {
		const struct top_tenant *t = &data.tenants[i];
		struct tally_tenant_limits limits;
		struct tally_bucket bucket[2];
		size_t n;
		assert_int_equal(tally_buckets(ctl.tally, t->name, -1, &limits, bucket, 2, &n), 0);
		assert_int_equal(t->listed, limits.listed);
		if (t->listed)
			continue;
		assert_int_equal(t->used, bucket[0].streams);
		assert_int_equal(t->share, bucket[0].share);
		assert_int_equal(t->limit, bucket[0].limit);
		assert_int_equal(t->full, !bucket[0].headroom);
	}
}

static void limits_that_change_are_seen_at_once(void **state)
{
	(void)state;
	publish_limits(8, 2, 12, false);
	look();
	assert_int_equal(tenant_of("t")->share, 6);
	assert_false(tenant_of("t")->listed);
	publish_limits(8, 2, 4, true);
	look();
	assert_int_equal(tenant_of("t")->share, 2);
	assert_true(tenant_of("t")->full);
	assert_true(tenant_of("a")->dry_run && !tenant_of("t")->dry_run);
}

static void what_is_not_there_is_told_and_comes_back(void **state)
{
	(void)state;
	look();
	assert_int_equal(data.n_parts, 2);
	assert_int_equal(renameat(run.dirfd, "table", run.dirfd, "away"), 0);
	look();
	draw(24, 80);
	assert_shows(": tallyd has stopped, and its run directory is gone;");
	assert_shows("start tallyd");
	assert_hides("Partitions");
	assert_int_equal(data.n_tenants, 0);
	assert_int_equal(renameat(run.dirfd, "away", run.dirfd, "table"), 0);
	look();
	draw(24, 80);
	assert_shows("2 of 2 partitions ready");
	assert_int_equal(data.n_tenants, 3);
}

static void a_tallyd_that_has_stopped_is_told(void **state)
{
	struct table_head *head = table_head_mut(&run.table);
	(void)state;
	atomic_store(&head->heartbeat, host_boot_ns() - UINT64_C(8500000000));
	atomic_store(&head->stopped, 1);
	look();
	draw(24, 80);
	assert_shows("tallyd is not running: it was stopped, last heartbeat 8.");
	assert_shows("last state"); /* in the next row */
	assert_hides("partitions ready");
}

/* ------------------------------------------------------------------ order */

static struct top_tenant made[6];

/* Tenants and partitions that no store has. */
static void make_tenants(void)
{
	static const struct {
		const char *name;
		uint64_t streams;
		double rate, nearness;
	} are[] = {{"alpha", 10, 5, 0.2}, {"beta", 50, 1, 0.9}, {"gamma", 50, 9, 0.1},
		{"delta", 1, 0, 7}, {"Epsilon", 2, 0, 0}, {"zeta\n", 2, 0, 0}};
	look();
	free(data.tenants);
	memset(made, 0, sizeof made);
	for (size_t i = 0; i < 6; i++) {
		strcpy(made[i].name, are[i].name);
		made[i].streams = made[i].used = are[i].streams;
		made[i].bytes_per_sec = are[i].rate;
		made[i].nearness = are[i].nearness;
		made[i].share = are[i].nearness > 0 ? 10 : TALLY_UNLIMITED;
		made[i].round = 1;
	}
	data.tenants = malloc(sizeof made);
	memcpy(data.tenants, made, sizeof made);
	data.n_tenants = 6;
	top_arrange(&ui, &data);
}

static void assert_order(const char *const *names)
{
	for (size_t i = 0; i < 6; i++)
		assert_string_equal(tenant_at(i), names[i]);
}

static void tenants_are_sorted_as_the_key_says(void **state)
{
	(void)state;
	make_tenants();
	assert_order((const char *const[]){"delta", "beta", "alpha", "gamma", "Epsilon", "zeta\n"});
	keys("s");
	assert_order((const char *const[]){"beta", "gamma", "alpha", "Epsilon", "zeta\n", "delta"});
	keys("s");
	assert_order((const char *const[]){"gamma", "alpha", "beta", "Epsilon", "zeta\n", "delta"});
	keys("s");
	assert_order((const char *const[]){"Epsilon", "alpha", "beta", "delta", "gamma", "zeta\n"});
	keys("s");
	assert_string_equal(tenant_at(0), "delta");
}

static void partitions_in_trouble_come_first_when_asked(void **state)
{
	(void)state;
	run_publish(&run, 3, PART_FAILED, 0);
	look();
	keys("\ts");
	assert_int_equal(data.parts[ui.list[TOP_PARTS].order[0]].partition, 3);
	assert_int_equal(data.parts[ui.list[TOP_PARTS].order[1]].partition, 0);
	keys("s");
	assert_int_equal(data.parts[ui.list[TOP_PARTS].order[0]].partition, 0);
}

/* ------------------------------------------------------------------ keys */

static void the_chosen_one_is_followed_by_its_name(void **state)
{
	struct top_list *list = &ui.list[TOP_TENANTS];
	(void)state;
	make_tenants();
	keys("jj");
	assert_string_equal(tenant_at(list->at), "alpha");
	for (size_t i = 0; i < 6; i++)
		if (!strcmp(data.tenants[i].name, "alpha"))
			data.tenants[i].nearness = 5;
	top_arrange(&ui, &data);
	assert_int_equal(list->at, 1);
	assert_string_equal(tenant_at(list->at), "alpha");
	/* The first is whoever is the first. */
	keys("g");
	for (size_t i = 0; i < 6; i++)
		if (!strcmp(data.tenants[i].name, "gamma"))
			data.tenants[i].nearness = 1000;
	top_arrange(&ui, &data);
	assert_string_equal(tenant_at(list->at), "gamma");
	keys("G");
	assert_int_equal(list->at, 5);
	top_key(&ui, &data, TOP_DOWN);
	assert_int_equal(list->at, 5);
	/* Gone: somebody else is there. */
	data.n_tenants = 3;
	top_arrange(&ui, &data);
	assert_true(list->at < 3);
	data.n_tenants = 0;
	top_arrange(&ui, &data);
	assert_int_equal(list->at, 0);
	keys("\n"); /* nobody to tell about */
	assert_false(ui.detail);
}

static void search_finds_what_is_shown(void **state)
{
	struct top_list *list = &ui.list[TOP_TENANTS];
	(void)state;
	make_tenants();
	keys("/EPS");
	assert_true(ui.typing);
	assert_int_equal(list->n, 1);
	assert_string_equal(tenant_at(0), "Epsilon");
	draw(24, 80);
	assert_shows("/EPS   Enter keeps");
	assert_shows("Tenants 1 with 'EPS'");
	top_key(&ui, &data, TOP_BACKSPACE);
	keys("\x15\\x0a"); /* as it is shown */
	assert_int_equal(list->n, 1);
	keys("q"); /* a letter like any other here */
	assert_false(ui.quit);
	assert_int_equal(list->n, 0);
	draw(24, 80);
	assert_shows("no tenant has '\\x0aq' in its name; Esc shows all");
	keys("\033");
	assert_int_equal(list->n, 6);
	keys("/ta\n");
	assert_false(ui.typing);
	assert_int_equal(list->n, 3);
	keys("/");
	keys("x\033"); /* back to the one that was kept */
	assert_string_equal(ui.search, "ta");
	keys("\033");
	assert_int_equal(list->n, 6);
	/* More than there is room for, and letters of several bytes. */
	keys("/");
	for (int i = 0; i < 1000; i++)
		top_key(&ui, &data, i % 2 ? 0x1f980 : 0x65e5);
	assert_true(strlen(ui.search) < sizeof ui.search);
	draw(24, 80);
	for (int i = 0; i < 1000; i++)
		top_key(&ui, &data, TOP_BACKSPACE);
	assert_string_equal(ui.search, "");
}

static void help_and_details_lie_above_and_go_away(void **state)
{
	(void)state;
	make_tenants();
	keys("?");
	draw(24, 80);
	assert_shows("Keys, and what the words mean");
	assert_hides("Tenants 6");
	assert_true(ui.scroll_max > 0);
	keys("jj");
	assert_int_equal(ui.scroll, 2);
	keys("G");
	draw(24, 80);
	assert_shows("All of it, and more: man tallyctl");
	keys("q"); /* leaves the help, not the program */
	assert_false(ui.help || ui.quit);
	keys("j\n");
	assert_true(ui.detail && ui.again);
	assert_string_equal(ui.of, "beta");
	/* A line that fits is not broken, whatever follows it. */
	data.detail =
		strdup("some words that fit\n"
		       "one-word-that-is-nearly-as-long-as-this-terminal-is-wide--------------\n");
	draw(24, 80);
	assert_shows("some words that fit");
	assert_shows("Tenant beta");
	assert_shows("one-word-that-is");
	keys("\033");
	assert_false(ui.detail);
	keys("p");
	draw(24, 80);
	assert_shows("PAUSED ");
	keys("q");
	assert_true(ui.quit);
}

/* ------------------------------------------------------------------ what it looks like */

static void the_plain_view_fits_80_by_24(void **state)
{
	(void)state;
	publish_limits(8, 2, 12, false);
	look();
	draw(24, 80);
	assert_shows("tally-a: topic usage, group tally (member), zone zone-a, window 120 …  ");
	assert_shows("2 of 2 partitions ready (of 4); tallyd ");
	assert_shows("limits of 0 tenants, 12 for others, loaded ");
	assert_shows("── Partitions 2, by number; lag 1000, 200 records/s ─");
	assert_shows("    P STATE     REPLAY                LAG  REC/S RESTARTS LAST DEATH, NOTES");
	assert_shows("    0 ready                           500    100        0 degraded stalled");
	assert_shows("── Tenants 3, nearest to their limit first ─");
	assert_shows("  ACTIVE   LIMIT USED                         BYTES/S TENANT");
	assert_shows(">      1       1 ████████████  100% FULL          1 B a (gold)");
	assert_shows("       3       6 ██████░░░░░░   50%               0 B t");
	assert_shows("       1       6 ██░░░░░░░░░░   16%               0 B b\\x1b[31m\\xc2\\x9b");
	assert_shows("? help  q quit  Tab switch");
	/* All of the row that is chosen stands out. */
	int row = row_with("a (gold)");
	assert_true(row > 0 && grid.reverse[row][0] && grid.reverse[row][79]);
	draw(24, 120);
	assert_shows("  ACTIVE   SHARE  OF LIMIT USED");
	assert_shows(" gold             a");
}

static void states_are_words_with_their_reasons(void **state)
{
	struct table_slot *slot = table_slot_mut(&run.table, 1);
	(void)state;
	run_publish(&run, 0, PART_REPLAYING, 10);
	atomic_store(&slot->death, DEATH_SIGNAL);
	atomic_store(&slot->death_code, 11);
	atomic_store(&slot->death_at, (uint64_t)host_wall_ms() * 1000000);
	atomic_store(&slot->retry_in_ms, 12000);
	atomic_store(&slot->restarts, 5);
	run_publish(&run, 1, PART_FAILED, 11);
	look();
	draw(24, 100);
	assert_shows("0 of 2 partitions ready");
	assert_shows("    0 replaying ████████▌░░░░░░░░  50%     500    100        0 ETA 4.0 s; ");
	assert_shows("    1 failed                               500    100        5 SIGSEGV 0.");
	assert_shows("; 1 of 2 partitions answer, others as far as counted, nearest");
	draw(15, 60);
	assert_shows("    0 replaying ████░░░░  50%     500    100    0 ETA 4.0 s…");
	run_publish(&run, 0, PART_FREE, 0);
	run_publish(&run, 1, PART_FREE, 0);
	look();
	draw(24, 80);
	assert_shows("no partition is assigned here (group: member)");
}

static void it_fits_whatever_the_size_and_the_names(void **state)
{
	(void)state;
	make_tenants();
	strcpy(data.tenants[0].name, "日本語日本語日本語日本語日本語日本語日本語");
	memset(data.tenants[1].name, '\033', 256);
	strcpy(data.tenants[1].policy, "\xff\xfe\xe2\x80\xae");
	strcpy(data.tenants[2].name, "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81");
	data.tenants[3].nearness = INFINITY;
	data.tenants[3].used = UINT64_MAX;
	data.tenants[3].share = UINT64_MAX - 1;
	data.tenants[4].bytes_per_sec = 1e300;
	for (unsigned rows = 1; rows <= ROWS_MAX; rows += 1 + rows / 12)
		for (unsigned columns = 1; columns <= COLS_MAX; columns += 1 + columns / 8) {
			for (unsigned how = 0; how < 12; how++) {
				ui.zoomed = how & 1;
				ui.focus = how & 2 ? TOP_PARTS : TOP_TENANTS;
				ui.typing = how == 4;
				ui.help = how >= 8;
				strcpy(ui.search, how == 4 ? "\xe6\x97\xa5" : "");
				top_arrange(&ui, &data);
				draw(rows, columns);
			}
		}
	data.n_tenants = data.n_parts = 0;
	memset(data.trouble, 'x', sizeof data.trouble - 1);
	for (unsigned rows = 1; rows <= 30; rows++)
		for (unsigned columns = 1; columns <= COLS_MAX; columns += 7)
			draw(rows, columns);
}

/* A row of a tenant without limit, with columns as narrow as can be. */
static const char *narrow_row(unsigned columns, const char *name)
{
	static const struct row_widths widths = {.used = 3, .share = 3, .room = 1, .word = 1};
	struct top_tenant tenant = {.streams = 123456,
		.used = 123456,
		.share = TALLY_UNLIMITED,
		.limit = TALLY_UNLIMITED,
		.round = 1};
	struct top_pen pen = blank(1, columns);
	struct top_row line = row_at(&pen, 0, true);
	snprintf(tenant.name, sizeof tenant.name, "%s", name);
	row_tenant(&line, &widths, &tenant);
	return row_text(0);
}

static void a_cell_is_cut_to_its_width(void **state)
{
	(void)state;
	assert_string_equal(narrow_row(17, "acme"), "12… no… -   acme");
	assert_string_equal(narrow_row(17, "acmes"), "12… no… -   acmes");
	assert_string_equal(narrow_row(17, "acmes-"), "12… no… -   acme…");
	assert_string_equal(narrow_row(17, "日本語"), "12… no… -   日本…"); /* 2 cells each */
	assert_string_equal(narrow_row(16, "日本語"), "12… no… -   日…");
	assert_string_equal(narrow_row(17, "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301"),
		"12… no… -   eeee…"); /* marks have none, and put() keeps none */
	assert_string_equal(narrow_row(17, "a\u200bb"), "12… no… -   a…"); /* escaped: 12 cells */
	assert_string_equal(narrow_row(25, "a\u200bb"), "12… no… -   a\\xe2\\x80…");
}

/* put() fails where something is put beyond the end. */
static void a_cell_ends_where_the_terminal_does(void **state)
{
	static const char *const names[] = {"acme", "日本語のテナント",
		"e\u0301e\u0301e\u0301e\u0301", "\u200b\u200b", "\033[2J\033]0;x\a", ""};
	(void)state;
	assert_string_equal(narrow_row(6, "acme"), "12… n…");
	assert_string_equal(narrow_row(2, "acme"), "1…");
	assert_string_equal(narrow_row(1, "acme"), "…");
	look();
	for (unsigned columns = 1; columns < 130; columns++)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			struct row_widths widths = row_widths(200);
			narrow_row(columns, names[i]);
			struct top_pen pen = blank(4, columns);
			struct top_row line = row_at(&pen, 0, false);
			row_tenant_head(&line, &widths);
			line = row_at(&pen, 1, true);
			row_tenant(&line, &widths, &data.tenants[0]);
			line = row_at(&pen, 2, false);
			row_part_head(&line, &widths);
			line = row_at(&pen, 3, true);
			row_part(&line, &data, &widths, &data.parts[0]);
			for (unsigned c = 0; c < columns; c++)
				assert_true(grid.reverse[3][c]); /* one unbroken bar */
		}
}

static void many_partitions_scroll(void **state)
{
	(void)state;
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		run_publish(&run, p, PART_READY, 20 + p);
	look();
	keys("\t");
	draw(10, 80); /* three rows for both */
	assert_shows("Partitions 1-2 of 4, by number");
	assert_hides("    3 ready");
	keys("G");
	draw(10, 80);
	assert_shows(">   3 ready");
	assert_hides("    0 ready");
	keys("z");
	draw(10, 80);
	assert_shows("    0 ready");
	assert_hides("Tenants");
}

static void as_many_partitions_as_there_can_be_are_shown(void **state)
{
	struct table_head facts = run_facts();
	(void)state;
	facts.capacity = 1024;
	run_install(&run, &facts);
	atomic_store(&table_head_mut(&run.table)->partitions, 1024);
	for (uint32_t p = 0; p < 1024; p++)
		run_publish(&run, p, p == 1000 ? PART_FAILED : PART_READY, 20 + p);
	look();
	keys("\tz");
	draw(24, 80);
	assert_shows("1023 of 1024 partitions ready");
	assert_shows("Partitions 1-18 of 1024, by number");
	keys("G");
	draw(24, 80);
	assert_shows(">1023 ready");
	keys("sg"); /* those in trouble first */
	draw(24, 80);
	assert_shows(">1000 failed");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(tenants_have_the_bucket_that_is_nearest_to_its_share),
		TEST(limits_that_there_was_no_time_for_are_read_later),
		TEST(limits_that_change_are_seen_at_once),
		TEST(what_is_not_there_is_told_and_comes_back),
		TEST(a_tallyd_that_has_stopped_is_told),
		TEST(tenants_are_sorted_as_the_key_says),
		TEST(partitions_in_trouble_come_first_when_asked),
		TEST(the_chosen_one_is_followed_by_its_name),
		TEST(search_finds_what_is_shown),
		TEST(help_and_details_lie_above_and_go_away),
		TEST(the_plain_view_fits_80_by_24),
		TEST(states_are_words_with_their_reasons),
		TEST(it_fits_whatever_the_size_and_the_names),
		TEST(a_cell_is_cut_to_its_width),
		TEST(a_cell_ends_where_the_terminal_does),
		TEST(many_partitions_scroll),
		TEST(as_many_partitions_as_there_can_be_are_shown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
