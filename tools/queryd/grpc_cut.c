/*
 * grpc_cut.c - the ends of connections that were not wanted so: who is blamed, and our last words.
 *
 *	abuse, impatience --> GOAWAY with the reason --.
 *	HTTP/1            --> an answer in HTTP/1 -----+--> LINGERING: read and forget --> DOOMED
 *	all was said (grpc_conn.c) --------------------'
 *	garbage, or it does not read --------------------------------------------------> DOOMED
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "grpc_private.h"

#include "shm/log.h"

#define LINGER_BYTES	 (1024 * 1024)
#define LOG_EVERY_MS	 1000
#define GOAWAY_SIZE	 17
#define GOAWAY_WORDS_MAX 64

static const char http1_answer[] = "HTTP/1.1 400 Bad Request\r\n"
				   "Content-Type: text/plain; charset=utf-8\r\n"
				   "Content-Length: 91\r\n"
				   "Connection: close\r\n\r\n"
				   "This port speaks gRPC (HTTP/2 without upgrade). HTTP/1 is on "
				   "the port of query.http_listen\n";

/* --- blame ------------------------------------------------------------------------------------- */

static const char *peer_text(const struct conn *conn, char *text, size_t size)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getpeername(conn->wire.fd, (struct sockaddr *)&address, &len) != 0 ||
		getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(text, size, "?");
	else
		snprintf(text, size, "%s:%s", host, port);
	return text;
}

static void log_peer(struct conn *conn, const char *event, const char *what)
{
	static struct log_limit limit;
	char peer[NI_MAXHOST + NI_MAXSERV], quoted[2 * TLS_WHY_SIZE];
	unsigned suppressed;

	if (log_limit_pass(&limit, LOG_EVERY_MS, &suppressed))
		log_warn(event, "peer=%s text=%s suppressed=%u",
			peer_text(conn, peer, sizeof(peer)),
			log_quote(quoted, sizeof(quoted), what), suppressed);
}

void conn_blame(struct conn *conn, const char *event, const char *what)
{
	conn->server->facts.abused++;
	log_peer(conn, event, what);
}

/* --- last words -------------------------------------------------------------------------------- */

void conn_linger(struct conn *conn)
{
	if (conn->out != NULL) {
		conn_doom(conn);
		return;
	}
	wire_say_end(&conn->wire);
	conn_enter(conn, CONN_LINGERING);
	ev_io_stop(conn->server->options.loop, &conn->io);
	ev_io_set(&conn->io, conn->wire.fd, EV_READ);
	ev_io_start(conn->server->options.loop, &conn->io);
	conn_end_session(conn);
}

void conn_forget_input(struct conn *conn)
{
	struct wire plain = {.fd = conn->wire.fd};
	ssize_t n = wire_read(&plain, conn->server->in, GRPC_IO_SIZE);

	if (n > 0)
		conn->lingered += (size_t)n;
	if (n == WIRE_END || n == WIRE_BROKEN || conn->lingered > LINGER_BYTES)
		conn_doom(conn);
}

void conn_cut(struct conn *conn, const char *what)
{
	size_t words = strlen(what);
	uint8_t goaway[GOAWAY_SIZE + GOAWAY_WORDS_MAX] = {0, 0, 0, NGHTTP2_GOAWAY};
	uint32_t last;

	conn_blame(conn, "grpc.cut", what);
	if (conn->out != NULL || conn->session == NULL) {
		conn_doom(conn);
		return;
	}
	/* By hand: nghttp2 may have broken off in the middle of a frame. */
	if (words > GOAWAY_WORDS_MAX)
		words = GOAWAY_WORDS_MAX;
	last = htonl((uint32_t)nghttp2_session_get_last_proc_stream_id(conn->session));
	goaway[2] = (uint8_t)(8 + words);
	memcpy(goaway + 9, &last, sizeof(last));
	goaway[16] = NGHTTP2_ENHANCE_YOUR_CALM;
	memcpy(goaway + GOAWAY_SIZE, what, words);
	conn_write(conn, goaway, GOAWAY_SIZE + words);
	conn_linger(conn);
}

static void answer_http1(struct conn *conn)
{
	log_peer(conn, "grpc.http1", "an HTTP/1 request on the gRPC port");
	conn_write(conn, (const uint8_t *)http1_answer, sizeof(http1_answer) - 1);
	conn_linger(conn);
}

void conn_broken(struct conn *conn, ssize_t error)
{
	if (conn->abuse != NULL)
		conn_cut(conn, conn->abuse);
	else if (error != NGHTTP2_ERR_BAD_CLIENT_MAGIC)
		conn_cut(conn, nghttp2_strerror((int)error));
	else if (conn->first >= 'A' && conn->first <= 'Z')
		answer_http1(conn);
	else {
		conn_blame(conn, "grpc.garbage",
			conn->first == 0x16 ? "TLS on a cleartext port" : "this is not HTTP/2");
		conn_doom(conn);
	}
}
