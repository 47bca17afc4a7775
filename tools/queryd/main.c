/*
 * main.c - tally-queryd: answers questions over gRPC and HTTP from the shared memory of a running
 * Tally, and asks its workers what needs a write.
 *
 *	tallyd --posix_spawn--> tally-queryd -c tally.yaml --parent PID
 *	                          |- threads: HTTP (http.c)
 *	                          |- thread: asker, gRPC (asker.c, services.c)
 *	                          '- main: waits for a signal; once a second tick()
 *
 * It holds nothing that must survive: it may be killed at any time.  It is
 * started before or after the table exists, and stays over restarts of tallyd
 * when nobody asked it to end with its parent (--parent).
 *
 * Runs in: queryd, main thread.  Blocks in: sigtimedwait.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "answer.h"
#include "asker.h"
#include "http.h"
#include "listen.h"
#include "metrics.h"
#include "services.h"

#include "shm/check.h"
#include "shm/config.h"
#include "shm/host.h"
#include "shm/log.h"

#define STOP_GRACE_MS  1000 /* for answers under way over HTTP, then ... */
#define STOP_GRPC_MS   300  /* ... for those over gRPC, which have had the same time ... */
#define STOP_ASKER_MS  100  /* ... and for what else is asked */
#define STOP_AT_MOST_S 1.8  /* then it ends, whatever its threads do */
#define FILES_MAX      65536

#define EXIT_FAILED 1 /* the world: the supervisor tries again */
#define EXIT_USAGE  2 /* the operator's mistake */

struct options {
	const char *config;
	long parent; /* 0 = none */
};

static const char usage[] =
	"Usage: tally-queryd -c FILE [--parent PID]\n"
	"Answers questions over gRPC and HTTP from the shared memory of a running Tally.\n"
	"\n"
	"  -c, --config FILE   configuration (tally.yaml); run_dir and query.* are used\n"
	"      --parent PID    end with this process: for tallyd, which starts us\n"
	"  -h, --help          this text\n"
	"  -V, --version       version\n"
	"\n"
	"Paths, limits and exit codes: tally-queryd(8).\n";

/* --- options ------------------------------------------------------------------------------------
 */

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

static void read_options(int argc, char **argv, struct options *options)
{
	static const struct option table[] = {
		{"config", required_argument, NULL, 'c'},
		{"parent", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "c:hV", table, NULL)) != -1) {
		switch (c) {
		case 'c':
			options->config = optarg;
			break;
		case 'p':
			options->parent = parent_of(optarg);
			break;
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

/* --- the process --------------------------------------------------------------------------------
 */

static void end_with_parent(long parent)
{
	if (parent == 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != (pid_t)parent) {
		log_error("query.orphan",
			"parent=%ld text=\"the process that started us has gone\"", parent);
		exit(EXIT_FAILED);
	}
}

/* One store is two open files, one connection another. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_cur >= FILES_MAX)
		return;
	limit.rlim_cur = limit.rlim_max < FILES_MAX ? limit.rlim_max : FILES_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Blocks everything, so that the HTTP threads are born deaf; *before gets what was. */
static void block_signals(sigset_t *before, sigset_t *stop)
{
	sigset_t all;

	signal(SIGPIPE, SIG_IGN);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, before);
	sigemptyset(stop);
	sigaddset(stop, SIGTERM);
	sigaddset(stop, SIGINT);
	sigaddset(stop, SIGHUP);
}

/* Main alone hears signals; the ones that stop us it fetches with sigtimedwait. */
static void unblock_signals(const sigset_t *before, const sigset_t *stop)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
	pthread_sigmask(SIG_BLOCK, stop, NULL);
}

static void *alloc_or_stop(size_t size)
{
	void *memory = malloc(size);

	must(memory != NULL); /* a JSON object with a member missing would be a wrong answer */
	return memory;
}

static void tick(struct query *query)
{
	struct seat *seat = seats_take(query->seats);
	struct tally_partition *partitions;
	size_t n;

	if (seat_attach(query->seats, seat) == 0 &&
		answer_list_partitions(seat->table, &partitions, &n) == 0) {
		totals_update(query->totals, partitions, n);
		free(partitions);
	}
	seats_give(query->seats, seat);
	seats_idle(query->seats);
	conns_expire(query->conns, host_boot_ns());
}

/* All that this process serves with. */
struct server {
	const struct config *config;
	struct query *query;
	struct asker *asker;
	struct services *services;
	struct http *http;
	char http_bound[LISTEN_TEXT_SIZE], grpc_bound[LISTEN_TEXT_SIZE];
};

/* What was read at start and may have changed since: certificates. */
static void reload(struct server *server)
{
	char why[GRPC_WHY_SIZE], quoted[2 * GRPC_WHY_SIZE];

	if (services_renew_tls(server->services, why))
		log_info("query.reload", "signal=%d", SIGHUP);
	else
		log_error("query.reload", "signal=%d text=%s", SIGHUP,
			log_quote(quoted, sizeof(quoted), why));
}

static void serve(struct server *server, const sigset_t *stop)
{
	const struct timespec second = {.tv_sec = 1};
	int signal_no;

	do {
		signal_no = sigtimedwait(stop, NULL, &second);
		if (signal_no < 0)
			tick(server->query);
		else if (signal_no == SIGHUP)
			reload(server);
	} while (signal_no < 0 || signal_no == SIGHUP);
	log_info("query.stop", "signal=%d", signal_no);
}

/* Whatever an HTTP thread is doing (a scan of very many tenants): it has nothing to lose. */
static void *end_anyway(void *arg)
{
	const struct timespec wait = {
		.tv_sec = (time_t)STOP_AT_MOST_S,
		.tv_nsec = (long)((STOP_AT_MOST_S - (time_t)STOP_AT_MOST_S) * 1e9),
	};

	(void)arg;
	nanosleep(&wait, NULL);
	_exit(0);
}

static void limit_stop(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_anyway, NULL) == 0)
		pthread_detach(thread);
}

static struct query *query_new(const struct config *config, struct asker *asker)
{
	static const struct conns_limits limits = {
		.many = HTTP_CONNECTIONS_MANY,
		.waiting_ns = HTTP_WAITING_S * UINT64_C(1000000000),
		.asking_ns = HTTP_ASKING_S * UINT64_C(1000000000),
	};
	struct query *query = calloc(1, sizeof(*query));

	must(query != NULL);
	query->run_dir = config->run_dir;
	query->threads = config->http_threads;
	query->metrics_tenants = config->metrics_tenants;
	query->started_at_ms = host_wall_ms();
	query->seats = seats_new(config->run_dir, config->http_threads);
	query->conns = conns_new(&limits);
	query->totals = totals_new();
	query->asker = asker;
	query->ask = asker_submit;
	query->ask_metrics = metrics_asker;
	must(query->seats != NULL && query->conns != NULL && query->totals != NULL);
	json_set_alloc_funcs(alloc_or_stop, free);
	return query;
}

static void query_free(struct query *query)
{
	seats_free(&query->seats);
	conns_free(&query->conns);
	totals_free(&query->totals);
	free(query);
}

/* Errors of the world, each logged once; then nothing is left behind. */
static bool cannot(const char *event, const char *why)
{
	char quoted[2 * LISTEN_WHY_SIZE];

	log_error(event, "text=%s", log_quote(quoted, sizeof(quoted), why));
	return false;
}

static bool start_grpc(struct server *server)
{
	const struct config *config = server->config;
	char why[LISTEN_WHY_SIZE];
	int fd = listen_open(config->grpc_listen, "query.grpc_listen", config->query_processes > 1,
		server->grpc_bound, why);

	if (fd < 0)
		return cannot("grpc.listen", why);
	server->services = services_start(server->asker, config, fd, why);
	if (server->services == NULL)
		return cannot("grpc.start", why);
	server->query->services = server->services;
	return asker_start(server->asker) ||
	       cannot("asker.start", "there can be no more threads; more than allowed?");
}

static bool start_http(struct server *server)
{
	const struct config *config = server->config;
	char why[LISTEN_WHY_SIZE];
	int fd = listen_open(config->http_listen, "query.http_listen", config->query_processes > 1,
		server->http_bound, why);

	if (fd < 0)
		return cannot("http.listen", why);
	server->http = http_start(server->query, fd);
	if (server->http == NULL)
		log_error("http.start",
			"address=%s text=\"the HTTP library cannot start; more files or threads "
			"than allowed?\"",
			server->http_bound);
	return server->http != NULL;
}

/* The file of gRPC first: who finds the one of HTTP finds both. */
static bool announce(struct server *server)
{
	const char *run_dir = server->config->run_dir;
	char why[LISTEN_WHY_SIZE];

	if (!listen_announce(run_dir, LISTEN_GRPC_NAME, server->grpc_bound, why))
		return cannot("grpc.announce", why);
	if (!listen_announce(run_dir, LISTEN_HTTP_NAME, server->http_bound, why))
		return cannot("http.announce", why);
	log_info("grpc.listen", "address=%s tls=%s", server->grpc_bound,
		server->config->grpc_tls_cert[0] ? "yes" : "no");
	log_info(
		"http.listen", "address=%s threads=%u", server->http_bound, server->query->threads);
	return true;
}

static void stop(struct server *server)
{
	const struct config *config = server->config;

	limit_stop();
	if (config->query_processes <= 1) {
		listen_withdraw(config->run_dir, LISTEN_HTTP_NAME, server->http_bound);
		listen_withdraw(config->run_dir, LISTEN_GRPC_NAME, server->grpc_bound);
	}
	services_drain(server->services);
	http_stop(&server->http, STOP_GRACE_MS);
	services_stop(&server->services, STOP_GRPC_MS);
	asker_stop(server->asker, STOP_ASKER_MS);
	asker_free(&server->asker);
	query_free(server->query);
}

/* The exit code. */
static int run(const struct config *config)
{
	struct server server = {.config = config};
	sigset_t before, signals;
	bool started;

	server.asker = asker_new(config->run_dir);
	server.query = query_new(config, server.asker);
	block_signals(&before, &signals);
	started = start_grpc(&server) && start_http(&server);
	unblock_signals(&before, &signals);
	if (!started || !announce(&server))
		return EXIT_FAILED; /* it holds nothing that an exit does not end */
	serve(&server, &signals);
	stop(&server);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	struct config_error error;
	struct config config;

	read_options(argc, argv, &options);
	if (config_load(options.config, &config, &error) != 0) {
		fprintf(stderr, "tally-queryd: %s\n", error.line);
		return EXIT_USAGE;
	}
	config_free(&config); /* Kafka's properties: some are secrets, and not for us */
	log_init("queryd", -1, (enum log_level)config.log_level);
	end_with_parent(options.parent);
	raise_file_limit();
	return run(&config);
}
