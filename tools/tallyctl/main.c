/*
 * main.c - tallyctl: look into a Tally, whatever state it is in.
 *
 *	tallyctl [-d RUN_DIR] [--json] COMMAND ...
 *	            run directory --libtally, stale_ok--> text | JSON
 *
 * It asks nobody: it reads the same memory as everybody else, so it answers
 * while tallyd is stopped, crashed or stuck, and says so first.
 *
 * One thing it asks tally-queryd for: to let streams in (check --admit).
 *
 * Exit: 0 answered, 1 not found or not complete, 2 wrong usage or cannot attach;
 * of check: tallyctl(1).
 */
#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

struct command {
	const char *name, *words, *help;
	int (*run)(struct ctl *ctl, int argc, char **argv);
};

/* clang-format off */
static const struct command commands[] = {
	{ "status",  "[--partition N]",               "the instance and its partitions",        ctl_status },
	{ "status",  "--watch[=SECONDS]",             "... again and again, with progress bars", ctl_status },
	{ "tenants", "[--after NAME] [--limit N]",    "tenants by name",                        ctl_tenants },
	{ "tenant",  "NAME",                          "one tenant: policies, the last minutes", ctl_tenant },
	{ "streams", "NAME [--limit N]",              "active streams of a tenant",             ctl_streams },
	{ "stream",  "NAME HASH",                     "one stream; HASH decimal or 0x...",      ctl_stream },
	{ "top",     "[--watch[=SECONDS]]",           "all of it, live, on the whole terminal", ctl_top },
	{ "top",     "--once [-n N]",                 "... tenants with most active streams",   ctl_top },
	{ "explain", "NAME",                          "a tenant's limits, and what is left",    ctl_explain },
	{ "check",   "NAME HASH... [--policy P]",     "may these streams come in?",             ctl_check },
	{ "check",   "--admit [--bytes N] ...",       "... ask tally-queryd to let them in",    ctl_check },
	{ "check",   "  [--token-file F] ...",        "... which wants a token",                ctl_check },
	{ "config",  "[--changed] [OPTION]...",       "the options as they hold, and from where", ctl_config },
};
/* clang-format on */
#define N_COMMANDS (sizeof commands / sizeof *commands)

static int help(void)
{
	printf("usage: tallyctl [-d RUN_DIR] [--json] COMMAND\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		printf("  %-8s %-27s %s\n", commands[i].name, commands[i].words, commands[i].help);
	printf("  %-8s %-27s %s\n\n", "help", "", "this");
	printf("RUN_DIR is $TALLY_RUN_DIR or /run/tally when it is not given.\n"
	       "Exit: 0 answered, 1 not found or not complete, 2 wrong usage or cannot attach.\n"
	       "check: 0 all come in, 1 some are rejected, 3 some could not be decided, 2 as "
	       "above.\n");
	return CTL_OK;
}

static int version(void)
{
	printf("tallyctl %d.%d\n", TALLY_VERSION_MAJOR, TALLY_VERSION_MINOR);
	return CTL_OK;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static bool wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help"))
			return true;
	return false;
}

static int run(struct ctl *ctl, const struct command *command, int argc, char **argv)
{
	if (wants_help(argc, argv))
		return help();
	optind = 0; /* getopt starts anew */
	int code = command->run(ctl, argc, argv);
	tally_close(&ctl->tally);
	if (fflush(stdout) || ferror(stdout))
		return ctl_usage("cannot write the answer to stdout");
	return code;
}

/* `tallyctl status --json` is what everybody types: the option counts wherever it stands. */
static bool take_json(int *argc, char **argv)
{
	int kept = 1;
	for (int i = 1; i < *argc; i++)
		if (strcmp(argv[i], "--json"))
			argv[kept++] = argv[i];
	bool found = kept < *argc;
	argv[kept] = NULL;
	*argc = kept;
	return found;
}

static int unknown_command(const char *word)
{
	const char *names[N_COMMANDS + 1] = {"help"};
	for (size_t i = 0; i < N_COMMANDS; i++)
		names[i + 1] = commands[i].name;
	const char *near = ctl_nearest(word, names, N_COMMANDS + 1);
	if (near)
		return ctl_usage("unknown command '%s'; did you mean '%s'?", word, near);
	return ctl_usage("unknown command '%s'; try 'tallyctl help'", word);
}

static void name_run_dir(struct ctl *ctl)
{
	if (ctl->run_dir && *ctl->run_dir) {
		ctl->run_dir_from = "-d";
		return;
	}
	ctl->run_dir = getenv("TALLY_RUN_DIR");
	ctl->run_dir_from = "TALLY_RUN_DIR";
	if (ctl->run_dir && *ctl->run_dir)
		return;
	ctl->run_dir = "/run/tally";
	ctl->run_dir_from = "default";
}

/* -1: go on; else an exit code. */
static int parse(struct ctl *ctl, int argc, char **argv)
{
	static const struct option options[] = {
		{"run-dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"version", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+:d:jh", options, NULL)) != -1) {
		if (option == 'd')
			ctl->run_dir = optarg;
		else if (option == 'j')
			ctl->json = true;
		else if (option == 'h')
			return help();
		else if (option == 'v')
			return version();
		else
			return ctl_bad_option("", options, argv, option);
	}
	return -1;
}

/*
 * Started with a closed stdin, stdout or stderr: the next file that is opened would be it, and an
 * answer written into a store.  What stands in fails as the closed one would.
 */
static void fill_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			abort();
}

int main(int argc, char **argv)
{
	struct ctl ctl = {0};
	fill_standard_fds();
	setlocale(LC_CTYPE, "");
	ctl.json = take_json(&argc, argv);
	int code = parse(&ctl, argc, argv);
	if (code >= 0)
		return code;
	name_run_dir(&ctl);
	if (optind == argc)
		return ctl_usage("no command; try 'tallyctl help'");
	if (!strcmp(argv[optind], "help"))
		return help();
	const struct command *command = find_command(argv[optind]);
	if (!command)
		return unknown_command(argv[optind]);
	return run(&ctl, command, argc - optind, argv + optind);
}
