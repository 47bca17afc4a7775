/*
 * options.c - the command line of tally-queryd.
 *
 * Runs in: queryd, main thread, before any other.  Blocks in: nowhere.
 */
#include "options.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics.h"
#include "metrics_table.h"
#include "request.h"

static const char usage[] =
	"Usage: tally-queryd -c FILE [--parent PID]\n"
	"Answers questions over gRPC and HTTP from the shared memory of a running Tally.\n"
	"\n"
	"  -c, --config FILE   configuration (tally.yaml); run_dir and query.* are used\n"
	"      --parent PID    end with this process: for tallyd, which starts us\n"
	"      --last-words FD say there which store killed us: for tallyd\n"
	"      --http-socket FD, --grpc-socket FD\n"
	"                      listen there: for tallyd, which has them from systemd\n"
	"      --print-metrics print what there is at /metrics, as a manual page: "
	"tally-metrics(7)\n"
	"  -h, --help          this text\n"
	"  -V, --version       version\n"
	"\n"
	"Paths, limits and exit codes: tally-queryd(8).\n";

static _Noreturn void misused(const char *what)
{
	fprintf(stderr, "tally-queryd: %s; see tally-queryd --help\n", what);
	exit(EXIT_USAGE);
}

static long parent_of(const char *text)
{
	uint64_t pid;

	if (!request_number(text, 1, INT32_MAX, &pid))
		misused("--parent takes a process id");
	return (long)pid;
}

static int descriptor_of(const char *text)
{
	uint64_t fd;

	if (!request_number(text, 3, INT32_MAX, &fd) || fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
		misused("--last-words, --http-socket and --grpc-socket take an open file "
			"descriptor");
	return (int)fd;
}

void options_read(int argc, char **argv, struct options *options)
{
	static const struct option table[] = {
		{"config", required_argument, NULL, 'c'},
		{"parent", required_argument, NULL, 'p'},
		{"last-words", required_argument, NULL, 'l'},
		{"http-socket", required_argument, NULL, 'H'},
		{"grpc-socket", required_argument, NULL, 'G'},
		{"print-metrics", no_argument, NULL, 'm'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	int c;

	*options = (struct options){.last_words = -1, .http_socket = -1, .grpc_socket = -1};
	while ((c = getopt_long(argc, argv, "c:hV", table, NULL)) != -1) {
		switch (c) {
		case 'c':
			options->config = optarg;
			break;
		case 'p':
			options->parent = parent_of(optarg);
			break;
		case 'l':
			options->last_words = descriptor_of(optarg);
			break;
		case 'H':
			options->http_socket = descriptor_of(optarg);
			break;
		case 'G':
			options->grpc_socket = descriptor_of(optarg);
			break;
		case 'm':
			metrics_print(stdout);
			exit(0);
		case 'h':
			fputs(usage, stdout);
			exit(0);
		case 'V':
			puts("tally-queryd " QUERYD_VERSION);
			exit(0);
		default:
			exit(EXIT_USAGE); /* getopt has said what is wrong */
		}
	}
	if (optind < argc)
		misused("it takes no arguments beside options");
	if (options->config == NULL)
		misused("name the configuration: -c /etc/tally/tally.yaml");
}
