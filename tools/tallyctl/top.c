/*
 * top.c - tallyctl top: the tenants with most active streams, once or again and again.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

struct how {
	uint64_t n, every; /* seconds; 0 = once */
};

static int parse(int argc, char **argv, struct how *how)
{
	static const struct option options[] = {
		{"number", required_argument, NULL, 'n'},
		{"watch", required_argument, NULL, 'w'},
		{0},
	};
	int option;
	*how = (struct how){.n = 10};
	while ((option = getopt_long(argc, argv, ":n:w:", options, NULL)) != -1) {
		bool ok = true;
		if (option == 'n')
			ok = ctl_number("-n", optarg, 1, 100000, &how->n);
		else if (option == 'w')
			ok = ctl_number("--watch", optarg, 1, 86400, &how->every);
		else
			return ctl_usage("top: option %s: %s", argv[optind - 1],
				option == ':' ? "needs a value" : "unknown");
		if (!ok)
			return CTL_TROUBLE;
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

static int show(struct ctl *ctl, struct tally_usage *list, size_t cap)
{
	struct tally_basis basis;
	size_t n;
	int err = tally_top(ctl->tally, list, cap, &n, &basis);
	if (err)
		return ctl_failed(ctl, "top", err);
	if (ctl->json)
		print_json(ctl, list, n, &basis);
	else
		print_text(ctl, list, n, &basis);
	return basis.complete ? CTL_OK : CTL_INCOMPLETE;
}

int ctl_top(struct ctl *ctl, int argc, char **argv)
{
	struct how how;
	if (parse(argc, argv, &how) || ctl_attach(ctl))
		return CTL_TROUBLE;
	struct tally_usage *list = calloc((size_t)how.n, sizeof *list);
	if (!list)
		abort();
	int code;
	for (;;) {
		if (how.every && !ctl->json && isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		code = show(ctl, list, (size_t)how.n);
		/* Whoever reads the other end of a pipe may have gone. */
		if (!how.every || fflush(stdout))
			break;
		nanosleep(&(struct timespec){.tv_sec = (time_t)how.every}, NULL);
		tally_idle(ctl->tally);
		if (tally_instance(ctl->tally, &ctl->instance))
			ctl->instance.alive = 0;
	}
	free(list);
	return code;
}
