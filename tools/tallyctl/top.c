/*
 * top.c - tallyctl top: all of it on the whole terminal, or the tenants with most active
 * streams as text.
 *
 *	terminal, and nobody asks for text (--once, -n, --json) --> live.c
 *	else --> a table, once or (--watch) again and again
 *
 * Scripts that read the text get the same as ever.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "screen.h"

struct how {
	uint64_t n, every; /* seconds; 0 = once */
	bool text;	   /* is what was asked for */
	struct tally_usage *list;
};

static int parse(int argc, char **argv, struct how *how)
{
	static const struct option options[] = {
		{"number", required_argument, NULL, 'n'},
		{"watch", optional_argument, NULL, 'w'},
		{"once", no_argument, NULL, '1'},
		{0},
	};
	int option;
	*how = (struct how){.n = 10};
	while ((option = getopt_long(argc, argv, ":n:w::1", options, NULL)) != -1) {
		bool ok = true;
		if (option == 'n')
			ok = ctl_number("-n", optarg, 1, 100000, &how->n);
		else if (option == 'w')
			ok = ctl_watch_seconds("--watch", argv, &how->every);
		else if (option != '1')
			return ctl_bad_option("top", options, argv, option);
		if (!ok)
			return CTL_TROUBLE;
		how->text = how->text || option != 'w';
	}
	if (optind < argc)
		return ctl_usage("top: '%s' is one word too many", argv[optind]);
	return CTL_OK;
}

static void print_json(const struct ctl *ctl, const struct tally_usage *list, size_t n,
	const struct tally_basis *basis)
{
	json_t *to = ctl_json(ctl), *array = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, ctl_json_usage(&list[i]));
	json_object_set_new(to, "tenants", array);
	ctl_json_basis(to, basis);
	ctl_json_print(to);
}

static void print_text(const struct ctl *ctl, const struct tally_usage *list, size_t n,
	const struct tally_basis *basis)
{
	static const char *const headings[] = {
		">#", ">STREAMS", ">BYTES", ">RATE/S", ">POLICIES", "TENANT"};
	char number[CTL_TEXT_SIZE], streams[CTL_TEXT_SIZE], bytes[CTL_TEXT_SIZE],
		rate[CTL_TEXT_SIZE], policies[CTL_TEXT_SIZE], name[CTL_NAME_SIZE];
	struct ctl_table table;
	ctl_print_stale(ctl);
	ctl_table_start(&table, 6, headings);
	table.width = ctl->columns;
	for (size_t i = 0; i < n; i++)
		ctl_table_row(&table, (const char *[]){ctl_count(number, i + 1),
					      ctl_count(streams, list[i].streams),
					      ctl_bytes(bytes, (double)list[i].bytes),
					      ctl_bytes(rate, list[i].bytes_per_sec),
					      ctl_count(policies, list[i].policies),
					      ctl_name(name, list[i].tenant)});
	ctl_table_end(&table);
	ctl_print_basis(basis);
}

static int show(struct ctl *ctl, void *arg)
{
	const struct how *how = arg;
	struct tally_basis basis;
	size_t n;
	int err = tally_top(ctl->tally, how->list, (size_t)how->n, &n, &basis);
	if (err)
		return ctl_failed(ctl, "top", err);
	if (ctl->json)
		print_json(ctl, how->list, n, &basis);
	else
		print_text(ctl, how->list, n, &basis);
	return basis.complete ? CTL_OK : CTL_INCOMPLETE;
}

static int print(struct ctl *ctl, struct how *how)
{
	how->list = calloc((size_t)how->n, sizeof *how->list);
	if (!how->list)
		abort();
	int code = how->every ? ctl_watch(ctl, how->every, show, how) : show(ctl, how);
	free(how->list);
	return code;
}

int ctl_top(struct ctl *ctl, int argc, char **argv)
{
	struct how how;
	if (parse(argc, argv, &how))
		return CTL_TROUBLE;
	bool text = ctl->json || how.text;
	const char *refusal = text ? NULL : screen_refusal();
	if (!text && !refusal)
		return ctl_attach_or_wait(ctl) ? CTL_TROUBLE
					       : top_live(ctl, how.every ? how.every : 1);
	if (!how.every && ctl_attach(ctl))
		return CTL_TROUBLE;
	int code = print(ctl, &how);
	if (text)
		return code;
	/* Behind the answer, where it is seen; scripts say --once. */
	ctl_usage("top: no full screen here: %s; 'top --once' prints without this line, "
		  "'top --watch=2' again and again%s",
		refusal, isatty(STDOUT_FILENO) ? "" : ", and with ssh it needs 'ssh -t'");
	return code;
}
