/*
 * grpc.c - the gRPC server: accepts, walks over its connections once a second, drains.
 *
 *	listening socket --accept--> conns (least recently used first)
 *	                               |  full: the one longest without a call makes room
 *	                               '--> doomed --reap--> freed
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include "grpc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "given.h"
#include "grpc_private.h"

#include "shm/check.h"
#include "shm/host.h"
#include "shm/log.h"

#define ACCEPTS_PER_TURN 64
#define TICK_S		 1.0
#define LOG_EVERY_MS	 10000

/* How long the peer's TCP may be silent. */
#define DEAD_AFTER_MS	 30000
#define PROBE_IDLE_S	 30
#define PROBE_INTERVAL_S 10
#define PROBES		 3

#define GREETING_MS 10000
#define REQUEST_MS  30000
#define ANSWER_MS   30000
#define IDLE_MS	    10000

#define MEMORY_MESSAGES 16 /* largest messages in memory, unless it was said otherwise ... */
#define MEMORY_MIN	(256 * 1024 * 1024)
#define LARGE		(64 * 1024) /* a buffer from here on leaves a quarter to small ones */

/* --- what others ask --------------------------------------------------------------------------- */

uint64_t server_turn(struct grpc_server *server)
{
	server->now_ns = host_boot_ns();
	return server->now_ns;
}

static const struct grpc_method *find(const struct grpc_method *table, const char *path, size_t len)
{
	for (; table->path != NULL; table++)
		if (strncmp(table->path, path, len) == 0 && table->path[len] == '\0')
			return table;
	return NULL;
}

const struct grpc_method *server_method(
	const struct grpc_server *server, const char *path, size_t len, size_t *message_max)
{
	const struct grpc_method *method = find(server->options.methods, path, len);

	*message_max = server->options.message_max;
	if (method != NULL)
		return method;
	if (*message_max > GRPC_OWN_MESSAGE)
		*message_max = GRPC_OWN_MESSAGE;
	method = find(grpc_health_table(), path, len);
	if (method == NULL && server->options.descriptors != NULL)
		method = find(grpc_reflect_table(), path, len);
	return method;
}

bool server_is_open(const struct grpc_method *method)
{
	const struct grpc_method *of = grpc_health_table();

	while (of->path != NULL && of != method)
		of++;
	return of->path != NULL;
}

bool server_charge(struct conn *conn, size_t bytes, size_t have)
{
	struct grpc_server *server = conn->server;
	size_t all = server->options.memory_max;

	if (have + bytes >= LARGE)
		all -= all / 4;
	if (bytes > all / 2 || server->memory > all - bytes || conn->memory > all / 2 - bytes)
		return false;
	server->memory += bytes;
	conn->memory += bytes;
	return true;
}

void server_refund(struct conn *conn, size_t bytes)
{
	conn->server->memory -= bytes;
	conn->memory -= bytes;
}

/* --- connections ------------------------------------------------------------------------------- */

static struct in6_addr address_of(const struct sockaddr_storage *address)
{
	struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	if (address->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
	if (address->ss_family == AF_INET)
		memcpy(mapped.s6_addr + 12,
			&((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
	return mapped;
}

static bool is_of(const struct conn *conn, const struct in6_addr *from)
{
	return from == NULL || memcmp(&conn->from, from, sizeof(*from)) == 0;
}

/* Makes room: whoever (of this address) has been without a call for longest, if that is long. */
static bool end_an_idle_one(struct grpc_server *server, const struct in6_addr *from)
{
	uint64_t idle_ns = (uint64_t)server->options.patience.idle * 1000000;
	struct conn *conn;

	TAILQ_FOREACH(conn, &server->conns, link)
	{
		if (server->now_ns - conn->used_ns < idle_ns)
			return false;
		/* Who only watches can come back at any time. */
		if (conn->calls_n == conn->watches_n && is_of(conn, from)) {
			conn_doom(conn);
			return true;
		}
	}
	return false;
}

/* One address may have three quarters of all connections. */
static bool has_its_part(const struct grpc_server *server, const struct in6_addr *from)
{
	unsigned most = server->options.connections_max - server->options.connections_max / 4;
	const struct conn *conn;
	unsigned n = 0;

	if (server->facts.connections < most)
		return false;
	TAILQ_FOREACH(conn, &server->conns, link)
	{
		n += is_of(conn, from);
	}
	return n >= most;
}

static void refuse(struct grpc_server *server, int fd, const char *whose)
{
	static struct log_limit limit;
	unsigned suppressed;

	close(fd);
	server->facts.refused++;
	if (log_limit_pass(&limit, LOG_EVERY_MS, &suppressed))
		log_warn("grpc.full",
			"connections=%u suppressed=%u text=\"refused a connection: %s of "
			"query.grpc_connections are in use\"",
			server->options.connections_max, suppressed, whose);
}

static void admit(struct grpc_server *server, int fd, const struct in6_addr *from)
{
	bool part = has_its_part(server, from);
	bool full = server->facts.connections >= server->options.connections_max;

	if ((part || full) && !end_an_idle_one(server, part ? from : NULL))
		refuse(server, fd, part ? "three quarters (the part of one address)" : "all");
	else
		conn_new(server, fd, from);
}

static void on_accept(struct ev_loop *loop, ev_io *io, int revents)
{
	struct grpc_server *server = io->data;

	(void)revents;
	server_turn(server);
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage address = {0};
		socklen_t len = sizeof(address);
		int fd = accept4(server->fd, (struct sockaddr *)&address, &len,
			SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct in6_addr from = address_of(&address);

		if (fd >= 0) {
			admit(server, fd, &from);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			   errno == ENOMEM) {
			log_warn("grpc.accept", "text=\"%s: accepting again in a second\"",
				strerror(errno));
			ev_io_stop(loop, io);
			server->accept_paused = true;
			return;
		} else if (errno != ECONNABORTED && errno != EINTR) {
			return;
		}
	}
}

static void stop_accepting(struct grpc_server *server)
{
	ev_io_stop(server->options.loop, &server->accept);
	if (server->fd >= 0)
		close(server->fd);
	server->fd = -1;
	server->accept_paused = false;
}

static void report_drained(struct grpc_server *server)
{
	void (*drained)(void *arg) = server->drained;

	if (!server->draining || server->facts.connections > 0)
		return;
	server->drained = NULL;
	if (drained != NULL)
		drained(server->drained_arg);
}

static void on_reap(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct grpc_server *server = timer->data;
	struct conn *conn;

	(void)loop, (void)revents;
	server_turn(server);
	while ((conn = TAILQ_FIRST(&server->doomed)) != NULL) {
		TAILQ_REMOVE(&server->doomed, conn, link);
		conn_free(conn);
	}
	report_drained(server);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct grpc_server *server = timer->data;
	struct conn *conn, *next, *last = TAILQ_LAST(&server->conns, conn_list);

	(void)revents;
	server_turn(server);
	grpc_health_tick(server);
	/* A call that ends moves its connection to the end of the list: up to who is last now. */
	for (conn = TAILQ_FIRST(&server->conns); conn != NULL; conn = next) {
		next = conn == last ? NULL : TAILQ_NEXT(conn, link);
		conn_tick(conn);
	}
	if (server->accept_paused) {
		server->accept_paused = false;
		ev_io_start(loop, &server->accept);
	}
}

/* --- start and end ----------------------------------------------------------------------------- */

/* Accepted sockets inherit all of these. */
static void set_socket(int fd)
{
	const int on = 1, idle = PROBE_IDLE_S, interval = PROBE_INTERVAL_S, probes = PROBES;
	const unsigned dead_ms = DEAD_AFTER_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
}

static void fill_in(struct grpc_options *options)
{
	struct grpc_patience *patience = &options->patience;

	patience->greeting = or_usual(patience->greeting, GREETING_MS);
	patience->request = or_usual(patience->request, REQUEST_MS);
	patience->answer = or_usual(patience->answer, ANSWER_MS);
	patience->idle = or_usual(patience->idle, IDLE_MS);
	if (options->memory_max == 0) {
		options->memory_max = options->message_max * MEMORY_MESSAGES;
		if (options->memory_max < MEMORY_MIN)
			options->memory_max = MEMORY_MIN;
	}
}

static bool wants_tls(const struct grpc_options *options)
{
	return is_given(options->cert_file) || is_given(options->key_file) ||
	       is_given(options->client_ca_file);
}

struct grpc_server *grpc_start(const struct grpc_options *options, int fd, char why[GRPC_WHY_SIZE])
{
	struct grpc_server *server = calloc(1, sizeof(*server));

	must_get(server != NULL);
	server->options = *options;
	server->fd = fd;
	fill_in(&server->options);
	TAILQ_INIT(&server->conns);
	TAILQ_INIT(&server->doomed);
	TAILQ_INIT(&server->watches);
	ev_io_init(&server->accept, on_accept, fd, EV_READ);
	ev_timer_init(&server->tick, on_tick, TICK_S, TICK_S);
	ev_timer_init(&server->reap, on_reap, 0, 0);
	server->accept.data = server->tick.data = server->reap.data = server;
	must_get(h2_prepare(server));
	if (wants_tls(options) && !grpc_renew_tls(server, why)) {
		grpc_free(&server);
		return NULL;
	}
	set_socket(fd);
	ev_io_start(options->loop, &server->accept);
	ev_timer_start(options->loop, &server->tick);
	return server;
}

bool grpc_renew_tls(struct grpc_server *server, char why[GRPC_WHY_SIZE])
{
	const struct grpc_options *options = &server->options;
	SSL_CTX *tls;

	if (!wants_tls(options))
		return true;
	tls = tls_context(
		"grpc", options->cert_file, options->key_file, options->client_ca_file, why);
	if (tls == NULL)
		return false;
	SSL_CTX_free(server->tls);
	server->tls = tls;
	return true;
}

void grpc_drain(struct grpc_server *server, void (*done)(void *arg), void *arg)
{
	struct conn *conn, *next, *last;

	server_turn(server);
	stop_accepting(server);
	server->draining = true;
	server->drained = done;
	server->drained_arg = arg;
	grpc_health_end(server);
	last = TAILQ_LAST(&server->conns, conn_list);
	for (conn = TAILQ_FIRST(&server->conns); conn != NULL; conn = next) {
		next = conn == last ? NULL : TAILQ_NEXT(conn, link);
		conn_drain(conn);
	}
	report_drained(server);
}

void grpc_free(struct grpc_server **pointer)
{
	struct grpc_server *server = *pointer;
	struct conn *conn;

	*pointer = NULL;
	if (server == NULL)
		return;
	server->drained = NULL;
	server_turn(server);
	stop_accepting(server);
	while ((conn = TAILQ_FIRST(&server->conns)) != NULL)
		conn_doom(conn);
	on_reap(server->options.loop, &server->reap, 0);
	ev_timer_stop(server->options.loop, &server->tick);
	ev_timer_stop(server->options.loop, &server->reap);
	nghttp2_session_callbacks_del(server->callbacks);
	nghttp2_option_del(server->h2_options);
	SSL_CTX_free(server->tls);
	free(server);
}

void grpc_facts(const struct grpc_server *server, struct grpc_facts *facts)
{
	*facts = server->facts;
	facts->memory = server->memory;
}
