/*
 * tenants.c - tallyctl tenants: by name, a page at a time.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"

struct page {
	const char *after;
	uint64_t limit;
};

static int parse(int argc, char **argv, struct page *page)
{
	static const struct option options[] = {
		{"after", required_argument, NULL, 'a'},
		{"limit", required_argument, NULL, 'l'},
		{0},
	};
	int option;
	*page = (struct page){.limit = 1000};
	while ((option = getopt_long(argc, argv, ":a:l:", options, NULL)) != -1) {
		if (option == 'a')
			page->after = optarg;
		else if (option != 'l')
			return ctl_bad_option("tenants", options, argv, option);
		else if (!ctl_number("--limit", optarg, 1, 10000000, &page->limit))
			return CTL_TROUBLE;
	}
	if (optind < argc)
		return ctl_usage("tenants: '%s' is one word too many; for one tenant say "
				 "'tallyctl tenant %s'",
			argv[optind], argv[optind]);
	return CTL_OK;
}

static void print_json(const struct ctl *ctl, const struct tally_usage *list, size_t n, bool more,
	const struct tally_basis *basis)
{
	json_t *to = ctl_json(ctl), *array = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, ctl_json_usage(&list[i]));
	json_object_set_new(to, "tenants", array);
	if (more)
		ctl_json_text(to, "next_after", list[n - 1].tenant);
	else
		json_object_set_new(to, "next_after", json_null());
	ctl_json_basis(to, basis);
	ctl_json_print(to);
}

static void print_text(const struct ctl *ctl, const struct tally_usage *list, size_t n, bool more,
	const struct tally_basis *basis)
{
	static const char *const headings[] = {
		">STREAMS", ">BYTES", ">RATE/S", ">POLICIES", "TENANT"};
	char streams[CTL_TEXT_SIZE], bytes[CTL_TEXT_SIZE], rate[CTL_TEXT_SIZE],
		policies[CTL_TEXT_SIZE], name[CTL_NAME_SIZE];
	struct ctl_table table;
	ctl_print_stale(ctl);
	ctl_table_start(&table, 5, headings);
	for (size_t i = 0; i < n; i++) {
		ctl_table_row(&table, (const char *[]){ctl_count(streams, list[i].streams),
					      ctl_bytes(bytes, (double)list[i].bytes),
					      ctl_bytes(rate, list[i].bytes_per_sec),
					      ctl_count(policies, list[i].policies),
					      ctl_name(name, list[i].tenant)});
	}
	ctl_table_end(&table);
	if (more)
		printf("%zu tenant%s, and more: --after '%s'\n", n, n == 1 ? "" : "s",
			ctl_name(name, list[n - 1].tenant));
	else
		printf("%zu tenant%s\n", n, n == 1 ? "" : "s");
	ctl_print_basis(basis);
}

int ctl_tenants(struct ctl *ctl, int argc, char **argv)
{
	struct page page;
	struct tally_basis basis;
	size_t n = 0;
	if (parse(argc, argv, &page) || ctl_attach(ctl))
		return CTL_TROUBLE;
	/* One more than is shown tells whether there are more. */
	struct tally_usage *list = calloc((size_t)page.limit + 1, sizeof *list);
	if (!list)
		return ctl_usage("--limit %" PRIu64 ": more than fits into memory", page.limit);
	int err = tally_tenants(ctl->tally, page.after, list, (size_t)page.limit + 1, &n, &basis);
	bool more = n > page.limit;
	n -= more;
	if (err) {
		free(list);
		return ctl_failed(ctl, "tenants", err);
	}
	if (ctl->json)
		print_json(ctl, list, n, more, &basis);
	else
		print_text(ctl, list, n, more, &basis);
	free(list);
	return !basis.complete ? CTL_INCOMPLETE : CTL_OK;
}
