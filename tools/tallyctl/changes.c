/*
 * changes.c - the last changes of a partition's state: what tallyctl status --partition N ends with.
 */
#include <stdio.h>
#include <string.h>

#include "ctl.h"

#define CHANGES_MAX 32 /* tallyd keeps no more */

static size_t changes_of(
	const struct ctl *ctl, uint32_t partition, struct tally_change changes[CHANGES_MAX])
{
	size_t n = 0;
	return tally_history(ctl->tally, partition, changes, CHANGES_MAX, &n) ? 0 : n;
}

/* "exited: SIGKILL" */
static void describe_why(const struct tally_change *change, char *to, size_t size)
{
	const char *detail = *change->death_detail ? change->death_detail : change->death;
	if (!strcmp(change->death, "none"))
		snprintf(to, size, "%s", change->why);
	else
		snprintf(to, size, "%s: %s", change->why, detail);
}

void ctl_print_changes(const struct ctl *ctl, uint32_t partition)
{
	static const char *const headings[] = {"WHEN", "FROM", "TO", ">GENERATION", "WHY"};
	struct tally_change changes[CHANGES_MAX];
	size_t n = changes_of(ctl, partition, changes);
	struct ctl_table table;
	if (!n)
		return;
	putchar('\n');
	ctl_table_start(&table, sizeof headings / sizeof *headings, headings);
	table.spare[0] = 3; /* above, unless there were several */
	for (size_t i = 0; i < n; i++) {
		char when[CTL_TEXT_SIZE], generation[24], why[80];
		snprintf(generation, sizeof generation, "%llu",
			(unsigned long long)changes[i].generation);
		describe_why(&changes[i], why, sizeof why);
		ctl_table_row(&table,
			(const char *[]){ctl_clock(when, changes[i].at_ms), changes[i].from,
				changes[i].to, changes[i].generation ? generation : "-", why});
	}
	ctl_table_end(&table);
}

json_t *ctl_json_changes(const struct ctl *ctl, uint32_t partition)
{
	struct tally_change changes[CHANGES_MAX];
	size_t n = changes_of(ctl, partition, changes);
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		json_t *one = json_object();
		char generation[24];
		snprintf(generation, sizeof generation, "%llu",
			(unsigned long long)changes[i].generation);
		ctl_json_int(one, "at_ms", changes[i].at_ms);
		ctl_json_text(one, "from", changes[i].from);
		ctl_json_text(one, "to", changes[i].to);
		ctl_json_text(one, "why", changes[i].why);
		ctl_json_text(one, "generation", generation);
		ctl_json_text(one, "death", changes[i].death);
		ctl_json_text(one, "death_detail", changes[i].death_detail);
		json_array_append_new(list, one);
	}
	return list;
}
