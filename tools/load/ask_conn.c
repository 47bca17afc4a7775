/*
 * ask_conn.c - one HTTP/2 connection with gRPC calls on it (nghttp2, in the clear).
 *
 *	call --submit_request--> nghttp2 --mem_send--> socket
 *	done <--stream closed--          <--mem_recv--
 *
 * Runs in: load, mode `ask`.  Blocks in: nowhere.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "ask_conn.h"

#define WINDOW	(16 << 20)
#define IO_SIZE 65536
#define HEADERS 8

struct ask_conn {
	struct ask_conn_options options;
	int fd;
	bool connected;
	nghttp2_session *session;
	struct ask_call *calls; /* under way */
	const uint8_t *unsent;	/* nghttp2's, until its next mem_send */
	size_t unsent_len;
};

static void finish(struct ask_conn *conn, struct ask_call *call)
{
	*call->prev = call->next;
	if (call->next)
		call->next->prev = call->prev;
	conn->options.done(call);
}

/* --- what nghttp2 calls ---------------------------------------------------------------------- */

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t len,
	uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct ask_call *call = source->ptr;
	size_t n = call->request_len - call->sent;

	(void)session, (void)stream, (void)arg;
	if (n > len)
		n = len;
	memcpy(buf, call->request + call->sent, n);
	call->sent += n;
	if (call->sent == call->request_len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct ask_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)flags, (void)arg;
	if (!call)
		return 0;
	if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
		call->status = atoi((const char *)value); /* nghttp2 ends it with a NUL */
	else if (name_len == 12 && memcmp(name, "grpc-message", 12) == 0)
		snprintf(call->why, sizeof(call->why), "%.*s", (int)value_len, (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
	size_t len, void *arg)
{
	struct ask_call *call = nghttp2_session_get_stream_user_data(session, stream);

	(void)flags, (void)arg;
	if (!call)
		return 0;
	if (call->reply_len + len > call->reply_size) {
		call->reply_size = 2 * (call->reply_len + len);
		call->reply = realloc(call->reply, call->reply_size);
		if (!call->reply)
			abort();
	}
	memcpy(call->reply + call->reply_len, data, len);
	call->reply_len += len;
	return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
	struct ask_call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (call) {
		if (call->status == ASK_LOST)
			snprintf(call->why, sizeof(call->why), "the stream was closed: %s",
				nghttp2_http2_strerror(code));
		finish(arg, call);
	}
	return 0;
}

/* A request that could not be sent any more: GOAWAY came before it. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int code, void *arg)
{
	struct ask_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (call && frame->hd.type == NGHTTP2_HEADERS) {
		snprintf(call->why, sizeof(call->why), "not sent: %s", nghttp2_strerror(code));
		nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, NULL);
		finish(arg, call);
	}
	return 0;
}

/* --- opening --------------------------------------------------------------------------------- */

struct ask_conn *ask_conn_new(const struct ask_conn_options *options)
{
	struct ask_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		abort();
	conn->options = *options;
	conn->fd = -1;
	return conn;
}

static void start_session(struct ask_conn *conn)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}, {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
	nghttp2_session_callbacks *calls;

	if (nghttp2_session_callbacks_new(&calls) != 0)
		abort();
	nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(calls, on_not_sent);
	if (nghttp2_session_client_new(&conn->session, calls, conn) != 0)
		abort();
	nghttp2_session_callbacks_del(calls);
	nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, 2);
	nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
}

bool ask_conn_open(struct ask_conn *conn)
{
	const struct addrinfo *a = conn->options.address;
	int one = 1;

	conn->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (conn->fd < 0)
		return false;
	setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	conn->connected = connect(conn->fd, a->ai_addr, a->ai_addrlen) == 0;
	if (!conn->connected && errno != EINPROGRESS) {
		close(conn->fd);
		conn->fd = -1;
		return false;
	}
	start_session(conn);
	return true;
}

static void lose(struct ask_conn *conn, const char *why)
{
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
	conn->connected = false;
	conn->unsent_len = 0;
	nghttp2_session_del(conn->session);
	conn->session = NULL;
	while (conn->calls) {
		conn->calls->status = ASK_LOST;
		snprintf(conn->calls->why, sizeof(conn->calls->why), "%s", why);
		finish(conn, conn->calls);
	}
}

void ask_conn_free(struct ask_conn **connp)
{
	lose(*connp, "ended");
	free(*connp);
	*connp = NULL;
}

/* --- calls ----------------------------------------------------------------------------------- */

bool ask_conn_ready(const struct ask_conn *conn)
{
	return conn->connected && nghttp2_session_check_request_allowed(conn->session);
}

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
		strlen(value), NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

void ask_conn_call(struct ask_conn *conn, struct ask_call *call)
{
	const struct ask_conn_options *o = &conn->options;
	const nghttp2_nv headers[HEADERS] = {header(":method", "POST"), header(":scheme", "http"),
		header(":path", o->path), header(":authority", o->authority),
		header("te", "trailers"), header("content-type", "application/grpc"),
		header("grpc-timeout", o->timeout), header("user-agent", "tally-load")};
	nghttp2_data_provider body = {.source.ptr = call, .read_callback = on_read};

	call->status = ASK_LOST;
	call->reply_len = call->sent = 0;
	call->why[0] = '\0';
	call->next = conn->calls;
	call->prev = &conn->calls;
	if (call->next)
		call->next->prev = &call->next;
	conn->calls = call;
	call->stream = nghttp2_submit_request(conn->session, NULL, headers, HEADERS, &body, call);
	if (call->stream < 0) {
		snprintf(call->why, sizeof(call->why), "%s", nghttp2_strerror(call->stream));
		finish(conn, call);
	}
}

/* --- work ------------------------------------------------------------------------------------ */

int ask_conn_fd(const struct ask_conn *conn)
{
	return conn->fd;
}

short ask_conn_events(const struct ask_conn *conn)
{
	bool out = !conn->connected || conn->unsent_len > 0 ||
		   nghttp2_session_want_write(conn->session);

	return (short)(POLLIN | (out ? POLLOUT : 0));
}

/* 1: all was read; 0: the peer has closed; -1: errno. */
static int receive(struct ask_conn *conn)
{
	static uint8_t buf[IO_SIZE];

	for (;;) {
		ssize_t n = recv(conn->fd, buf, sizeof(buf), 0);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 1 : -1;
		if (n == 0)
			return 0;
		if (nghttp2_session_mem_recv(conn->session, buf, (size_t)n) < 0) {
			errno = EPROTO;
			return -1;
		}
		if ((size_t)n < sizeof(buf))
			return 1;
	}
}

static bool transmit(struct ask_conn *conn)
{
	static uint8_t buf[IO_SIZE];

	for (;;) {
		size_t len = 0;
		ssize_t n;

		/* Small frames go together. */
		while (len < sizeof(buf)) {
			size_t part = sizeof(buf) - len;

			if (conn->unsent_len == 0) {
				n = nghttp2_session_mem_send(conn->session, &conn->unsent);
				if (n <= 0)
					break;
				conn->unsent_len = (size_t)n;
			}
			part = conn->unsent_len < part ? conn->unsent_len : part;
			memcpy(buf + len, conn->unsent, part);
			conn->unsent += part;
			conn->unsent_len -= part;
			len += part;
		}
		if (len == 0)
			return true;
		for (size_t at = 0; at < len; at += (size_t)n) {
			n = send(conn->fd, buf + at, len - at, MSG_NOSIGNAL);
			if (n < 0 && errno == EAGAIN) {
				struct pollfd p = {.fd = conn->fd, .events = POLLOUT};

				poll(&p, 1, 1000);
				n = 0;
			} else if (n < 0) {
				return false;
			}
		}
	}
}

static bool connected(struct ask_conn *conn)
{
	int err = 0;
	socklen_t len = sizeof(err);
	struct pollfd p = {.fd = conn->fd, .events = POLLOUT};

	if (conn->connected || poll(&p, 1, 0) == 0)
		return true;
	getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	conn->connected = err == 0;
	errno = err;
	return conn->connected;
}

static void cancel_late(struct ask_conn *conn, uint64_t now_ns)
{
	for (struct ask_call *call = conn->calls, *next; call; call = next) {
		next = call->next;
		if (now_ns < call->give_up_ns)
			continue;
		nghttp2_session_set_stream_user_data(conn->session, call->stream, NULL);
		nghttp2_submit_rst_stream(
			conn->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
		call->status = ASK_LOST;
		snprintf(call->why, sizeof(call->why), "no answer by the deadline");
		finish(conn, call);
	}
}

bool ask_conn_work(struct ask_conn *conn, short revents, uint64_t now_ns)
{
	int got = 1;

	if (!connected(conn)) {
		lose(conn, strerror(errno));
		return false;
	}
	if (!conn->connected)
		return true;
	if (revents & ~POLLOUT)
		got = receive(conn);
	cancel_late(conn, now_ns);
	if (got == 1 && transmit(conn) &&
		(nghttp2_session_check_request_allowed(conn->session) || conn->calls))
		return true;
	lose(conn, got == 0 ? "the peer closed the connection" : strerror(errno));
	return false;
}
