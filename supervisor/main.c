/*
 * main.c - tallyd: the command line.
 *
 *	-c FILE --> daemon_run         -t --> setup_load, limits.yaml --> ok, or one line
 *
 * Runs in: supervisor.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "shm/config.h"
#include "supervisor/daemon.h"
#include "supervisor/kafka_version.h"
#include "supervisor/limits_load.h"
#include "supervisor/setup.h"

static int usage(FILE *out, int code)
{
	fputs("usage: tallyd -c FILE [-t]\n"
	      "       tallyd --print-config | --version | --help\n"
	      "\n"
	      "  -c, --config FILE   configuration (see tally.yaml)\n"
	      "  -t, --test          check the configuration and the limits, and exit: 0 good, 2 "
	      "bad\n"
	      "      --print-config  print every option with default, unit and prose\n",
		out);
	return code;
}

static int test_config(const char *path)
{
	static struct setup setup; /* large */
	struct limits_load *limits = NULL;
	struct config_error error;
	int code = setup_load(path, &setup);
	if (!code && limits_load_new(&setup.config, &limits, &error))
		code = setup_fail("", error.line);
	limits_load_free(&limits);
	if (!code)
		printf("%s: ok\n", path);
	config_free(&setup.config);
	return code;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"config", required_argument, NULL, 'c'},
		{"test", no_argument, NULL, 't'}, {"print-config", no_argument, NULL, 'p'},
		{"version", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}};
	const char *path = NULL;
	bool test = false;
	int c;
	while ((c = getopt_long(argc, argv, "c:th", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			path = optarg;
			break;
		case 't':
			test = true;
			break;
		case 'p':
			config_print(stdout);
			return 0;
		case 'v':
			kafka_version_print(stdout);
			return 0;
		case 'h':
			return usage(stdout, 0);
		default:
			return usage(stderr, EXIT_OPERATOR);
		}
	}
	if (optind < argc && !path)
		return setup_fail(argv[optind], "name the configuration with -c FILE");
	if (optind < argc)
		return setup_fail(argv[optind], "one -c FILE is all that can be named");
	if (!path)
		return setup_fail("", "-c FILE is missing, like -c /etc/tally/tally.yaml");
	return test ? test_config(path) : daemon_run(path);
}
