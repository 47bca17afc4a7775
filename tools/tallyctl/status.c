/*
 * status.c - tallyctl status: the instance, its partitions, and one last line
 * that says whether all is well; once, or again and again.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

#define BAR_CELLS 20 /* where there is room */
#define OTHERS	  12 /* rows of what stands around the table */

struct how {
	uint64_t only;	/* partition; UINT64_MAX: all */
	uint64_t every; /* seconds; 0 = once */
};

static struct tally_partition *partitions_of(struct ctl *ctl, size_t *n)
{
	size_t cap = ctl->instance.partitions + 1;
	struct tally_partition *list = calloc(cap, sizeof *list);
	if (!list)
		abort();
	int err = tally_partitions(ctl->tally, list, cap, n);
	if (err) {
		ctl_cannot_attach(ctl, err);
		free(list);
		return NULL;
	}
	*n = *n < cap ? *n : cap;
	return list;
}

/* ------------------------------------------------------------------ text */

static void print_partition(
	const struct ctl *ctl, struct ctl_table *table, const struct tally_partition *p)
{
	char number[CTL_TEXT_SIZE], pid[CTL_TEXT_SIZE], generation[CTL_TEXT_SIZE],
		offset[CTL_TEXT_SIZE], target[CTL_TEXT_SIZE], lag[CTL_TEXT_SIZE],
		rate[CTL_TEXT_SIZE], restarts[CTL_TEXT_SIZE], replay[64], notes[256];
	bool stats = p->has_stats;
	snprintf(number, sizeof number, "%" PRIu32, p->partition);
	ctl_offset(pid, p->pid ? (int64_t)p->pid : -1);
	snprintf(generation, sizeof generation, "%" PRIu64, p->generation);
	snprintf(restarts, sizeof restarts, "%" PRIu32, p->restarts);
	ctl_count(rate, p->records_per_sec);
	status_replay(p, replay, sizeof replay);
	status_notes(ctl, p, notes, sizeof notes);
	ctl_table_row(table, (const char *[]){number, p->state, pid, generation,
				     ctl_offset(offset, stats ? p->next_offset : -1),
				     ctl_offset(target, stats ? p->target_offset : -1),
				     ctl_offset(lag, stats ? p->lag : -1), stats ? rate : "-",
				     *replay ? replay : "-", restarts, notes});
}

static void print_table(const struct ctl *ctl, const struct tally_partition *list, size_t n)
{
	static const char *const headings[] = {">P", "STATE", ">PID", ">GENERATION", ">OFFSET",
		">TARGET", ">LAG", ">REC/S", "REPLAY", ">RESTARTS", "NOTES"};
	struct ctl_table table;
	ctl_table_start(&table, sizeof headings / sizeof *headings, headings);
	memcpy(table.spare, (const unsigned char[]){3, 5, 2}, 3); /* --partition tells them all */
	for (size_t i = 0; i < n; i++) {
		print_partition(ctl, &table, &list[i]);
		ctl_table_style(&table, 1, ctl_state_style(&list[i]));
	}
	ctl_table_end(&table);
}

static unsigned bar_cells(const struct ctl *ctl)
{
	if (!ctl->columns || ctl->columns >= 95)
		return BAR_CELLS;
	return ctl->columns < 71 ? 6 : 12;
}

/* Of a partition that is watched: what moves. */
static void print_moving(
	const struct ctl *ctl, struct ctl_table *table, const struct tally_partition *p)
{
	char number[CTL_TEXT_SIZE], lag[CTL_TEXT_SIZE], rate[CTL_TEXT_SIZE], eta[CTL_TEXT_SIZE],
		restarts[CTL_TEXT_SIZE], notes[STATUS_NOTES_SIZE], bar[BAR_CELLS * 3 + 8];
	bool replaying = status_replaying(p);
	snprintf(number, sizeof number, "%" PRIu32, p->partition);
	snprintf(restarts, sizeof restarts, "%" PRIu32, p->restarts);
	ctl_bar(bar, sizeof bar, bar_cells(ctl), p->progress);
	snprintf(bar + strlen(bar), sizeof bar - strlen(bar), " %3d%%", (int)(p->progress * 100));
	status_notes(ctl, p, notes, sizeof notes);
	ctl_table_row(table,
		(const char *[]){number, p->state, replaying ? bar : "-",
			replaying && p->eta_ms >= 0 ? ctl_span(eta, p->eta_ms) : "-",
			p->has_stats && p->lag >= 0 ? ctl_count(lag, (uint64_t)p->lag) : "-",
			p->has_stats ? ctl_count(rate, p->records_per_sec) : "-", restarts, notes});
	ctl_table_style(table, 1, ctl_state_style(p));
}

/* When there are not rows enough for all, those that are ready wait behind. */
static void print_watched(const struct ctl *ctl, const struct tally_partition *list, size_t n)
{
	static const char *const headings[] = {
		">P", "STATE", "REPLAY", "ETA", ">LAG", ">REC/S", ">RESTARTS", "NOTES"};
	struct ctl_table table;
	size_t room = !ctl->rows ? n : ctl->rows > OTHERS + 1 ? ctl->rows - OTHERS : 1, shown = 0;
	ctl_table_start(&table, sizeof headings / sizeof *headings, headings);
	table.width = ctl->columns;
	for (size_t i = 0; i < 2 * n && shown < n && shown < room; i++) {
		const struct tally_partition *p = &list[i % n];
		if (n > room && (i < n) == (p->ready != 0))
			continue;
		print_moving(ctl, &table, p);
		shown++;
	}
	ctl_table_end(&table);
	if (shown < n)
		printf("... and %zu partition%s more; 'tallyctl top' has room for them\n",
			n - shown, ctl_s(n - shown));
}

static void print_sums(const struct tally_partition *list, size_t n)
{
	uint64_t held = 0, skipped = 0;
	for (size_t i = 0; i < n; i++) {
		held += status_quarantined(&list[i]);
		skipped += status_unusable(&list[i]);
	}
	if (skipped)
		printf("%" PRIu64
		       " record%s could not be used; by reason: tallyctl --json status\n",
			skipped, ctl_s(skipped));
	if (held)
		printf("%" PRIu64 " record%s in quarantine\n", held, ctl_s(held));
}

static int print_summary(struct ctl *ctl, void *arg)
{
	(void)ctl;
	puts(arg);
	return CTL_OK;
}

static void print_status(struct ctl *ctl, const struct how *how, const struct tally_partition *list,
	size_t n, const char *summary, bool all)
{
	char text[STATUS_SUMMARY_SIZE + 32];
	ctl_print_instance(ctl);
	if (n) {
		putchar('\n');
		if (how->every)
			print_watched(ctl, list, n);
		else
			print_table(ctl, list, n);
	}
	if (how->only != UINT64_MAX) {
		printf("\npartition %" PRIu32 "\n", list->partition);
		ctl_print_partition(ctl, list);
	}
	putchar('\n');
	print_sums(list, n);
	snprintf(text, sizeof text, "%s%s%s", ctl_sgr(all ? CTL_GOOD : CTL_BAD), summary,
		ctl_sgr(CTL_PLAIN));
	ctl_wrapped(ctl, print_summary, text);
}

/* ------------------------------------------------------------------ the command */

static int parse(int argc, char **argv, struct how *how)
{
	static const struct option options[] = {
		{"partition", required_argument, NULL, 'p'},
		{"watch", optional_argument, NULL, 'w'},
		{0},
	};
	int option;
	*how = (struct how){.only = UINT64_MAX};
	while ((option = getopt_long(argc, argv, ":p:w::", options, NULL)) != -1) {
		bool ok;
		if (option == 'p')
			ok = ctl_number("--partition", optarg, 0, UINT32_MAX, &how->only);
		else if (option == 'w')
			ok = ctl_watch_seconds("--watch", argv, &how->every);
		else
			return ctl_bad_option("status", options, argv, option);
		if (!ok)
			return CTL_TROUBLE;
	}
	if (optind < argc)
		return ctl_usage("status: '%s' is one word too many; for one partition say "
				 "'tallyctl status --partition N'",
			argv[optind]);
	return CTL_OK;
}

static struct tally_partition *one_of(struct ctl *ctl, uint64_t partition, size_t *n)
{
	struct tally_partition *one = calloc(1, sizeof *one);
	if (!one)
		abort();
	int err = tally_partition(ctl->tally, (uint32_t)partition, one);
	*n = 1;
	if (!err)
		return one;
	free(one);
	if (err == TALLY_EINVALID)
		ctl_usage("status: there is no partition %" PRIu64
			  "; streams are routed over %" PRIu32,
			partition, ctl->instance.partitions);
	else
		ctl_cannot_attach(ctl, err);
	return NULL;
}

static int show(struct ctl *ctl, void *arg)
{
	const struct how *how = arg;
	char summary[STATUS_SUMMARY_SIZE];
	size_t n = 0;
	struct tally_partition *list =
		how->only == UINT64_MAX ? partitions_of(ctl, &n) : one_of(ctl, how->only, &n);
	if (!list)
		return CTL_TROUBLE;
	status_summary(ctl, list, n, summary, sizeof summary);
	bool all = n > 0 && ctl->instance.alive && !ctl_queryd_died(&ctl->instance);
	for (size_t i = 0; i < n; i++)
		all = all && list[i].ready;
	if (ctl->json)
		status_json(ctl, list, n, summary);
	else
		print_status(ctl, how, list, n, summary, all);
	free(list);
	return all ? CTL_OK : CTL_INCOMPLETE;
}

int ctl_status(struct ctl *ctl, int argc, char **argv)
{
	struct how how;
	if (parse(argc, argv, &how))
		return CTL_TROUBLE;
	if (how.every)
		return ctl_watch(ctl, how.every, show, &how);
	return ctl_attach(ctl) ? CTL_TROUBLE : show(ctl, &how);
}
