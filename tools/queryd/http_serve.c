/*
 * http_serve.c - the HTTP server, by libmicrohttpd with its own threads.
 *
 *	http_start --> now --http_renew_tls--> retired[] --its connections have ended--> server_end
 *
 * A daemon of the library keeps the certificate that it was started with: for a
 * new one a second daemon takes over the listening socket, and the first ends
 * when its connections have.
 *
 * Runs in: queryd, main; connection_changed and library_says in threads of the library.  Blocks in:
 * http_stop; http_tick and http_renew_tls, when a daemon ends, until its threads have.
 */
#include "http_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/host.h"
#include "shm/log.h"

/* --- what the library calls ---------------------------------------------------------------------
 */

static void connection_changed(void *arg, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct server *server = arg;
	struct http *http = server->http;
	const union MHD_ConnectionInfo *info;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		conns_remove(http->query->conns, *context);
		*context = NULL;
		return;
	}
	http_tls_begin(server->tls, connection);
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	*context = info == NULL ? NULL
				: conns_add(http->query->conns, info->connect_fd, host_boot_ns());
}

static void library_says(void *arg, const char *fmt, va_list args)
{
	char text[400], quoted[800];

	(void)arg;
	vsnprintf(text, sizeof(text), fmt, args);
	text[strcspn(text, "\n")] = '\0';
	log_debug("http.library", "text=%s", log_quote(quoted, sizeof(quoted), text));
}

/* --- start and stop -----------------------------------------------------------------------------
 */

/* Takes fd and tls, also when it fails. */
static struct server *server_start(
	struct http *http, int fd, struct http_tls *tls, char why[HTTP_WHY_SIZE])
{
	struct server *server = calloc(1, sizeof(*server));
	struct MHD_OptionItem items[HTTP_TLS_ITEMS_MAX];
	/* Not epoll: libmicrohttpd 0.9.75 aborts when MHD_quiesce_daemon and a thread both take the
	 * listening socket out of its set.  There are at most HTTP_CONNECTIONS_MAX to look at. */
	unsigned flags =
		MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

	must_get(server != NULL);
	*server = (struct server){.http = http, .tls = tls, .fd = fd};
	http_tls_options(tls, items);
	server->daemon = MHD_start_daemon(tls == NULL ? flags : flags | MHD_USE_TLS, 0, NULL, NULL,
		http_handle, server, MHD_OPTION_EXTERNAL_LOGGER, library_says, NULL,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE, http->query->threads,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
		MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_PEER,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_SILENT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY_MAX,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, http_begin_request,
		NULL, MHD_OPTION_NOTIFY_COMPLETED, http_completed, http,
		MHD_OPTION_NOTIFY_CONNECTION, connection_changed, server, MHD_OPTION_ARRAY, items,
		MHD_OPTION_END);
	if (server->daemon != NULL)
		return server;
	snprintf(why, HTTP_WHY_SIZE,
		tls == NULL ? "the HTTP library cannot start; more files or threads than allowed?"
			    : "the HTTP library cannot start with the files of query.http_tls_*; "
			      "more files or threads than allowed?");
	close(fd);
	http_tls_free(&server->tls);
	free(server);
	return NULL;
}

/* Who sleeps wakes, and nobody lies down any more: the library takes no end of a daemon otherwise. */
static void server_wake(struct server *server)
{
	if (server == NULL)
		return;
	atomic_store(&server->ending, true);
	ranking_wake_all(server->http->query->ranking);
}

static void server_end(struct server **handle)
{
	struct server *server = *handle;

	*handle = NULL;
	if (server == NULL)
		return;
	server_wake(server);
	MHD_stop_daemon(server->daemon);
	if (server->retired_ns != 0)
		close(server->fd);
	http_tls_free(&server->tls);
	free(server);
}

struct http *http_start(struct query *query, int fd, const struct http_tls_files *files,
	struct http_tls *tls, char why[HTTP_WHY_SIZE])
{
	struct http *http = calloc(1, sizeof(*http));

	must_get(http != NULL);
	http->query = query;
	if (files != NULL)
		http->files = *files;
	http->now = server_start(http, fd, tls, why);
	if (http->now != NULL)
		return http;
	free(http);
	return NULL;
}

const char *http_pin(const struct http *http)
{
	return http->now->tls == NULL ? NULL : http_tls_pin(http->now->tls);
}

/* Its connections may go on; the place of the one that has been retired for longest is taken. */
static void retire(struct http *http, struct server *server)
{
	struct server **place = &http->retired[0];

	for (unsigned i = 0; i < RETIRED_MAX && *place != NULL; i++)
		if (http->retired[i] == NULL || http->retired[i]->retired_ns < (*place)->retired_ns)
			place = &http->retired[i];
	server_end(place);
	server->retired_ns = host_boot_ns();
	server->fd = MHD_quiesce_daemon(server->daemon);
	*place = server;
}

bool http_renew_tls(struct http *http, char why[HTTP_WHY_SIZE])
{
	struct http_tls *tls;
	struct server *fresh;
	int fd;

	if (http->now->tls == NULL)
		return true;
	tls = http_tls_load(&http->files, why);
	if (tls == NULL)
		return false;
	if (http_tls_same(tls, http->now->tls)) {
		http_tls_free(&tls);
		return true;
	}
	fd = fcntl(http->now->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) {
		snprintf(why, HTTP_WHY_SIZE, "query.http_tls_*: %s", strerror(errno));
		http_tls_free(&tls);
		return false;
	}
	fresh = server_start(http, fd, tls, why);
	if (fresh == NULL)
		return false;
	retire(http, http->now);
	http->now = fresh;
	return true;
}

void http_tick(struct http *http)
{
	uint64_t now_ns = host_boot_ns();

	for (unsigned i = 0; i < RETIRED_MAX; i++) {
		struct server *server = http->retired[i];
		const union MHD_DaemonInfo *info =
			server == NULL ? NULL
				       : MHD_get_daemon_info(server->daemon,
						 MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

		if (server != NULL && ((info != NULL && info->num_connections == 0) ||
					      now_ns - server->retired_ns >
						      HTTP_RETIRED_S * UINT64_C(1000000000)))
			server_end(&http->retired[i]);
	}
}

void http_stop(struct http **handle, bool shared, unsigned grace_ms)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	struct http *http = *handle;
	struct conns_facts conns;

	if (http == NULL)
		return;
	*handle = NULL;
	http->now->fd = MHD_quiesce_daemon(http->now->daemon);
	http->now->retired_ns = host_boot_ns();
	/* Who comes from now on is refused at once, not when the threads have ended. */
	if (!shared)
		shutdown(http->now->fd, SHUT_RD);
	server_wake(http->now);
	for (unsigned i = 0; i < RETIRED_MAX; i++)
		server_wake(http->retired[i]);
	conns_facts(http->query->conns, &conns);
	for (unsigned ms = 0; ms < grace_ms && conns.asking > 0; ms += 10) {
		nanosleep(&pause, NULL);
		conns_facts(http->query->conns, &conns);
	}
	for (unsigned i = 0; i < RETIRED_MAX; i++)
		server_end(&http->retired[i]);
	server_end(&http->now);
	free(http);
}
