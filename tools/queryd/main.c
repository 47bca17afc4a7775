/*
 * main.c - tally-queryd: answers questions over gRPC and HTTP from the shared memory of a running
 * Tally, and asks its workers what needs a write.
 *
 *	tallyd --posix_spawn--> tally-queryd -c tally.yaml --parent PID
 *	                          |- threads: HTTP (http_serve.c, http.c)
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
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
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
#include "counts.h"
#include "http.h"
#include "last_words.h"
#include "listen.h"
#include "metrics.h"
#include "options.h"
#include "privilege.h"
#include "services.h"

#include "shm/check.h"
#include "shm/client_stand.h"
#include "shm/config.h"
#include "shm/host.h"
#include "shm/log.h"

#define STOP_GRACE_MS  1000 /* for answers under way over HTTP, then ... */
#define STOP_GRPC_MS   300  /* ... for those over gRPC, which have had the same time ... */
#define STOP_ASKER_MS  100  /* ... and for what else is asked */
#define STOP_AT_MOST_S 1.8  /* then it ends, whatever its threads do */
#define FILES_MAX      65536

#define EXIT_FAILED 1 /* the world: the supervisor tries again */

/* --- the process --------------------------------------------------------------------------------
 */

static void end_with_parent(long parent)
{
	if (parent == 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != (pid_t)parent) {
		log_info("query.orphan", "parent=%ld text=\"the process that started us has gone\"",
			parent);
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
	last_words_keep(&all);
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

	must_get(memory != NULL); /* a JSON object with a member missing would be a wrong answer */
	return memory;
}

static void tick(struct query *query)
{
	struct seat *seat = seats_take(query->seats);
	struct tally_partition *partitions;
	struct tally_instance instance;
	bool attached;
	size_t n;

	attached =
		seat_attach(query->seats, seat) == 0 && tally_instance(seat->table, &instance) == 0;
	if (attached)
		log_set_level(client_stand_log_level(seat->table));
	if (attached && answer_list_partitions(seat->table, &partitions, &n) == 0) {
		totals_update(query->totals, &instance, partitions, n);
		free(partitions);
	}
	seats_give(query->seats, seat);
	seats_idle(query->seats);
	ranking_idle(query->ranking);
	conns_expire(query->conns, host_boot_ns());
	metrics_publish(query);
}

/* All that this process serves with. */
struct server {
	const struct config *config;
	struct counts *counts;
	struct query *query;
	struct asker *asker;
	struct access *access; /* NULL: everybody may ask everything */
	struct services *services;
	struct http *http;
	struct http_tls *tls; /* until HTTP has it; NULL: cleartext */
	int http_fd, grpc_fd;
	bool http_shared; /* it is not ours alone: others listen on */
	int announced_fd; /* the file of HTTP; -1: it will not change */
	char http_bound[LISTEN_TEXT_SIZE], grpc_bound[LISTEN_TEXT_SIZE];
};

/* The address, and when there is TLS how to know our key again (tallyctl does). */
static void http_lines(const struct server *server, const char *pin, char lines[LISTEN_LINES_SIZE])
{
	snprintf(lines, LISTEN_LINES_SIZE, pin == NULL ? "%s" : "%s\ntls %s", server->http_bound,
		pin);
}

/* A new key, written in place: we may make no file any more, and a pin is as long as any other. */
static bool announce_again(struct server *server, char why[LISTEN_WHY_SIZE])
{
	char lines[LISTEN_LINES_SIZE];
	size_t len;

	http_lines(server, http_pin(server->http), lines);
	len = strlen(lines);
	if (pwrite(server->announced_fd, lines, len, 0) == (ssize_t)len)
		return true;
	snprintf(why, LISTEN_WHY_SIZE, "cannot write %s/" LISTEN_HTTP_NAME ": %s",
		server->config->run_dir, strerror(errno));
	return false;
}

static void say_reloaded(bool ok, const char *what, const char *why)
{
	char quoted[2 * LISTEN_WHY_SIZE];

	if (ok)
		log_info("query.reload", "signal=%d what=%s", SIGHUP, what);
	else
		log_error("query.reload",
			"signal=%d what=%s text=%s action=\"what was read before stays\"", SIGHUP,
			what, log_quote(quoted, sizeof(quoted), why));
}

/* What was read at start and may have changed since.  What cannot be used leaves the rest alone. */
static void reload(struct server *server)
{
	char why[LISTEN_WHY_SIZE] = "";

	say_reloaded(services_renew_tls(server->services, why), "grpc", why);
	if (http_pin(server->http) != NULL)
		say_reloaded(http_renew_tls(server->http, why) && announce_again(server, why),
			"http", why);
	if (server->access != NULL)
		say_reloaded(access_renew(server->access, why), "tokens", why);
}
_Static_assert(LISTEN_WHY_SIZE >= GRPC_WHY_SIZE && LISTEN_WHY_SIZE >= HTTP_WHY_SIZE &&
		       LISTEN_WHY_SIZE >= ACCESS_WHY_SIZE,
	"one line for all of them");

static void serve(struct server *server, const sigset_t *stop)
{
	const struct timespec second = {.tv_sec = 1};
	int signal_no;

	do {
		signal_no = sigtimedwait(stop, NULL, &second);
		if (signal_no < 0) {
			tick(server->query);
			http_tick(server->http);
		} else if (signal_no == SIGHUP)
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

	must_get(query != NULL);
	query->run_dir = config->run_dir;
	query->threads = config->http_threads;
	query->metrics_tenants = config->metrics_tenants;
	query->metrics_loki = config->metrics_names == METRICS_LOKI;
	query->origins = (struct origin_rules){.names = config->http_hosts,
		.guarded = config->http_tls_cert[0] != '\0' || config->tokens_file[0] != '\0'};
	if (gethostname(query->origins.own, sizeof(query->origins.own) - 1) != 0)
		query->origins.own[0] = '\0';
	query->started_at_ms = host_wall_ms();
	query->seats = seats_new(config->run_dir, config->http_threads);
	query->conns = conns_new(&limits);
	query->totals = totals_new(query->started_at_ms);
	query->ranking = ranking_new(config->run_dir);
	query->asker = asker;
	query->ask = asker_submit;
	query->gather = metrics_gather_asked;
	must_get(query->seats != NULL && query->conns != NULL && query->totals != NULL &&
		 query->ranking != NULL);
	json_set_alloc_funcs(alloc_or_stop, free);
	return query;
}

static void query_free(struct query *query)
{
	seats_free(&query->seats);
	conns_free(&query->conns);
	totals_free(&query->totals);
	ranking_free(&query->ranking);
	free(query);
}

/* Errors of the world, each logged once; then nothing is left behind. */
static bool cannot(const char *event, const char *why)
{
	char quoted[2 * LISTEN_WHY_SIZE];

	log_error(event, "text=%s", log_quote(quoted, sizeof(quoted), why));
	return false;
}

static struct http_tls_files http_files(const struct config *config)
{
	return (struct http_tls_files){
		config->http_tls_cert, config->http_tls_key, config->http_tls_client_ca};
}

/* Who may ask, and what HTTP shows: wrong files are said before anything listens. */
static bool read_files(struct server *server)
{
	const struct config *config = server->config;
	const struct http_tls_files files = http_files(config);
	char why[LISTEN_WHY_SIZE];

	if (config->tokens_file[0] != '\0') {
		server->access = access_new(config->tokens_file, why);
		if (server->access == NULL)
			return cannot("access.start", why);
	}
	if (config->http_tls_cert[0] == '\0')
		return true;
	server->tls = http_tls_load(&files, why);
	return server->tls != NULL || cannot("http.start", why);
}

/* What was handed over, else a socket of our own. */
static int open_address(int inherited, const char *text, const char *option, bool shared,
	char bound[LISTEN_TEXT_SIZE], char why[LISTEN_WHY_SIZE])
{
	return inherited >= 0 ? listen_inherit(inherited, option, bound, why)
			      : listen_open(text, option, shared, bound, why);
}

static bool open_addresses(struct server *server, const struct options *options)
{
	const struct config *config = server->config;
	bool shared = config->query_processes > 1;
	char why[LISTEN_WHY_SIZE];

	server->grpc_fd = open_address(options->grpc_socket, config->grpc_listen,
		"query.grpc_listen", shared, server->grpc_bound, why);
	if (server->grpc_fd < 0)
		return cannot("grpc.listen", why);
	server->http_fd = open_address(options->http_socket, config->http_listen,
		"query.http_listen", shared, server->http_bound, why);
	return server->http_fd >= 0 || cannot("http.listen", why);
}

static bool start_grpc(struct server *server)
{
	const struct config *config = server->config;
	char why[LISTEN_WHY_SIZE];

	server->services =
		services_start(server->asker, config, server->access, server->grpc_fd, why);
	if (server->services == NULL)
		return cannot("grpc.start", why);
	server->query->services = server->services;
	return asker_start(server->asker) ||
	       cannot("asker.start", "there can be no more threads; more than allowed?");
}

static bool start_http(struct server *server)
{
	const struct http_tls_files files = http_files(server->config);
	char why[HTTP_WHY_SIZE];

	server->http = http_start(server->query, server->http_fd, &files, server->tls, why);
	server->tls = NULL;
	return server->http != NULL || cannot("http.start", why);
}

/*
 * An address that others can reach, and who they are is not asked, or their tokens can be
 * read on the way.  One line, whatever there is to say.
 */
static void warn_open(const struct server *server)
{
	const struct config *config = server->config;
	const struct {
		const char *name, *bound;
		bool tls, clients;
	} of[] = {
		{"query.http_listen", server->http_bound, config->http_tls_cert[0],
			config->http_tls_client_ca[0]},
		{"query.grpc_listen", server->grpc_bound, config->grpc_tls_cert[0],
			config->grpc_tls_client_ca[0]},
	};
	bool tokens = server->access != NULL, anybody = false;
	char list[2 * LISTEN_TEXT_SIZE] = "";

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		size_t len = strlen(list);

		if (listen_is_local(of[i].bound) || (of[i].tls && (tokens || of[i].clients)))
			continue;
		anybody = anybody || (!tokens && !of[i].clients);
		snprintf(list + len, sizeof(list) - len, "%s%s=%s", len > 0 ? " " : "", of[i].name,
			of[i].bound);
	}
	if (list[0] != '\0')
		log_warn("query.open", "%s text=\"%s\"", list,
			anybody ? "whoever reaches this may ask everything: set query.tokens_file "
				  "or a client_ca, and TLS, or listen on 127.0.0.1"
				: "tokens can be read on the way: set TLS (the _tls_ options), or "
				  "listen on 127.0.0.1");
}

/*
 * The file of gRPC first: who finds the one of HTTP finds both.  Who comes too early waits in the
 * queue of the socket; later we may not make a file any more.
 */
static bool announce(struct server *server)
{
	const char *run_dir = server->config->run_dir;
	char why[LISTEN_WHY_SIZE], lines[LISTEN_LINES_SIZE], path[PATH_MAX];

	if (!listen_announce(run_dir, LISTEN_GRPC_NAME, server->grpc_bound, why))
		return cannot("grpc.announce", why);
	http_lines(server, server->tls == NULL ? NULL : http_tls_pin(server->tls), lines);
	if (!listen_announce(run_dir, LISTEN_HTTP_NAME, lines, why))
		return cannot("http.announce", why);
	if (server->tls != NULL) {
		snprintf(path, sizeof(path), "%s/" LISTEN_HTTP_NAME, run_dir);
		server->announced_fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	}
	return true;
}

static void say_addresses(const struct server *server)
{
	log_info("grpc.listen", "address=%s tls=%s", server->grpc_bound,
		server->config->grpc_tls_cert[0] ? "yes" : "no");
	log_info("http.listen", "address=%s tls=%s tokens=%s threads=%u", server->http_bound,
		server->config->http_tls_cert[0] ? "yes" : "no", server->access ? "yes" : "no",
		server->query->threads);
	warn_open(server);
}

static void stop(struct server *server)
{
	const struct config *config = server->config;

	limit_stop();
	if (config->query_processes <= 1 && !config->confine) { /* else tallyd does */
		listen_withdraw(config->run_dir, LISTEN_HTTP_NAME, server->http_bound);
		listen_withdraw(config->run_dir, LISTEN_GRPC_NAME, server->grpc_bound);
	}
	services_drain(server->services);
	http_stop(&server->http, server->http_shared, STOP_GRACE_MS);
	metrics_publish(server->query);
	server->query->services = NULL;
	services_stop(&server->services, STOP_GRPC_MS);
	asker_stop(server->asker, STOP_ASKER_MS);
	asker_free(&server->asker);
	query_free(server->query);
	access_free(&server->access);
	counts_free(&server->counts);
}

/* From here on what is counted lies where the other query processes see it. */
static void count_together(struct server *server)
{
	struct counts *counts = server->counts;
	struct counted before;

	asker_count_in(server->asker, counts_of_asks(counts), counts_of_refusals(counts),
		counts_of_accepted(counts));
	counts_sum(counts, &before);
	totals_go_on(server->query->totals, &before.totals);
	server->query->counts = counts;
	server->query->counted = counts_of_answers(counts);
}

/* The exit code. */
static int run(const struct config *config, const struct options *options)
{
	struct server server = {
		.config = config, .announced_fd = -1, .http_shared = options->http_socket >= 0};
	sigset_t before, signals;
	bool started;

	if (!read_files(&server) || !open_addresses(&server, options) || !announce(&server))
		return EXIT_FAILED;
	server.counts = counts_open(config->run_dir);
	privilege_drop(config);
	server.asker = asker_new(config->run_dir);
	server.query = query_new(config, server.asker);
	server.query->access = server.access;
	count_together(&server);
	block_signals(&before, &signals);
	started = start_grpc(&server) && start_http(&server);
	unblock_signals(&before, &signals);
	if (!started)
		return EXIT_FAILED; /* it holds nothing that an exit does not end */
	say_addresses(&server);
	serve(&server, &signals);
	stop(&server);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options;
	struct config_error error;
	struct config config;

	options_read(argc, argv, &options);
	if (config_load(options.config, &config, &error) != 0) {
		fprintf(stderr, "tally-queryd: %s\n", error.line);
		return EXIT_USAGE;
	}
	config_free(&config); /* Kafka's properties: some are secrets, and not for us */
	log_init("queryd", -1, (enum log_level)config.log_level);
	log_set_format((enum log_format)config.log_format);
	end_with_parent(options.parent);
	if (options.last_words >= 0)
		last_words_to(options.last_words);
	raise_file_limit();
	return run(&config, &options);
}
