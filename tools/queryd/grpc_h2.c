/*
 * grpc_h2.c - what nghttp2 tells us of one connection, and what a peer may do how often.
 *
 *	HEADERS -> call_new, call_header*, call_headers_end
 *	DATA    -> call_data*
 *	END     -> call_request_end          RST_STREAM -> call_stream_closed
 *
 * nghttp2 (1.52 of Debian, with its security patches) keeps HTTP/2's rules and
 * bounds CONTINUATION and unanswered acknowledgements.  Here is counted what
 * is allowed but not in such numbers:
 *
 *	resets	streams that were given up, by either side (rapid reset)
 *	noise	frames that move nothing (PING, SETTINGS, PRIORITY, WINDOW_UPDATE,
 *		CONTINUATION, empty DATA); forgiven whenever a call is answered,
 *		because clients measure the line with pings then
 *
 * Runs in: queryd, the loop's thread, inside nghttp2: no handler is called.
 */
#include <stdio.h>
#include <string.h>

#include "grpc_private.h"

#define HEADERS_MAX	   (16 * 1024) /* advertised, and answered with words */
#define HEADERS_CUT	   (64 * 1024) /* cut off */
#define STREAM_WINDOW	   (1024 * 1024)
#define CONNECTION_WINDOW  (4 * 1024 * 1024)
#define RESETS_AT_ONCE	   1000
#define NOISE_AT_ONCE	   1000
#define NOISE_PER_S	   100
#define NGHTTP2_RESETS_MAX 100000 /* ours comes first */

static const uint8_t drain_ping[8] = {'d', 'r', 'a', 'i', 'n'};

/* --- allowances -------------------------------------------------------------------------------- */

static bool take(struct allowance *a, double at_once, double per_s, uint64_t now_ns)
{
	a->left += (double)(now_ns - a->at_ns) / 1e9 * per_s;
	a->at_ns = now_ns;
	if (a->left > at_once)
		a->left = at_once;
	if (a->left < 1)
		return false;
	a->left -= 1;
	return true;
}

static int abused(struct conn *conn, const char *what)
{
	conn->abuse = what;
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int count_reset(struct conn *conn)
{
	/* As many as there may be calls, each second: all of them may have timed out. */
	double per_s = conn->server->options.streams_max;

	return take(&conn->resets, RESETS_AT_ONCE, per_s, conn->server->now_ns)
		       ? 0
		       : abused(conn, "too many streams were reset");
}

static int count_noise(struct conn *conn)
{
	return take(&conn->noise, NOISE_AT_ONCE, NOISE_PER_S, conn->server->now_ns)
		       ? 0
		       : abused(conn, "too_many_pings"); /* the words gRPC clients know */
}

/* --- input ------------------------------------------------------------------------------------- */

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream)
{
	return nghttp2_session_get_stream_user_data(session, stream);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	(void)session;
	switch (hd->type) {
	case NGHTTP2_HEADERS:
	case NGHTTP2_RST_STREAM:
	case NGHTTP2_GOAWAY:
		return 0;
	case NGHTTP2_DATA:
		return hd->length == 0 && (hd->flags & NGHTTP2_FLAG_END_STREAM) == 0
			       ? count_noise(arg)
			       : 0;
	default:
		return count_noise(arg);
	}
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	int32_t stream = frame->hd.stream_id;
	struct conn *conn = arg;
	struct grpc_call *call;

	conn->header_bytes = 0;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = call_new(conn, stream);
	if (call == NULL)
		nghttp2_submit_rst_stream(
			session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_REFUSED_STREAM);
	else
		nghttp2_session_set_stream_user_data(session, stream, call);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
	nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	struct grpc_call *call = call_of(session, frame->hd.stream_id);
	nghttp2_vec n = nghttp2_rcbuf_get_buf(name), v = nghttp2_rcbuf_get_buf(value);
	struct conn *conn = arg;

	(void)flags;
	conn->header_bytes += n.len + v.len + 32;
	if (conn->header_bytes > HEADERS_CUT)
		return abused(conn, "headers without end");
	if (call == NULL || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (conn->header_bytes > HEADERS_MAX)
		call->headers_large = true;
	call_header(call, (const char *)n.base, n.len, (const char *)v.base, v.len);
	return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t stream,
	const uint8_t *data, size_t len, void *arg)
{
	struct grpc_call *call = call_of(session, stream);

	(void)flags, (void)arg;
	if (call != NULL)
		call_data(call, data, len);
	return 0;
}

static void on_stream_frame(nghttp2_session *session, const nghttp2_frame *frame)
{
	struct grpc_call *call = call_of(session, frame->hd.stream_id);

	if (call == NULL)
		return;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		call_headers_end(call);
	if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
		call_request_end(call);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	bool ack = (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
	struct conn *conn = arg;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		on_stream_frame(session, frame);
		return 0;
	case NGHTTP2_RST_STREAM:
		return count_reset(conn);
	case NGHTTP2_SETTINGS:
		if (!ack && conn->state == CONN_GREETING)
			conn->state = CONN_OPEN;
		return 0;
	case NGHTTP2_PING:
		if (ack && memcmp(frame->ping.opaque_data, drain_ping, sizeof(drain_ping)) == 0 &&
			conn->server->draining)
			conn_say_last(conn);
		return 0;
	default:
		return 0;
	}
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
	struct grpc_call *call = call_of(session, stream);

	(void)code, (void)arg;
	if (call != NULL)
		call_stream_closed(call);
	return 0;
}

/* --- output ------------------------------------------------------------------------------------ */

/* nghttp2 ends the connection for a broken rule of HTTP/2. */
static void blame_goaway(struct conn *conn, const nghttp2_goaway *frame)
{
	char words[128];

	if (frame->error_code == NGHTTP2_NO_ERROR)
		return;
	snprintf(words, sizeof(words), "%s: %.*s", nghttp2_http2_strerror(frame->error_code),
		(int)frame->opaque_data_len, (const char *)frame->opaque_data);
	conn_blame(conn, "grpc.http2", words);
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	int32_t stream = frame->hd.stream_id;
	struct conn *conn = arg;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
			return 0;
		conn->noise.left = NOISE_AT_ONCE;
		if (nghttp2_session_get_stream_remote_close(session, stream) == 0)
			nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream,
				NGHTTP2_NO_ERROR); /* answered: the rest is not wanted */
		return 0;
	case NGHTTP2_RST_STREAM:
		/* Also when it was made to be sent by a frame that is not allowed. */
		return frame->rst_stream.error_code == NGHTTP2_NO_ERROR ? 0 : count_reset(conn);
	case NGHTTP2_GOAWAY:
		blame_goaway(conn, &frame->goaway);
		return 0;
	default:
		return 0;
	}
}

/* --- sessions ---------------------------------------------------------------------------------- */

bool h2_prepare(struct grpc_server *server)
{
	nghttp2_session_callbacks *c;

	if (nghttp2_session_callbacks_new(&server->callbacks) != 0 ||
		nghttp2_option_new(&server->h2_options) != 0)
		return false;
	c = server->callbacks;
	nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(c, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data_chunk);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_sent);
	nghttp2_option_set_no_closed_streams(server->h2_options, 1);
	nghttp2_option_set_stream_reset_rate_limit(
		server->h2_options, NGHTTP2_RESETS_MAX, NGHTTP2_RESETS_MAX);
	return true;
}

bool h2_open(struct conn *conn)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, conn->server->options.streams_max},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
		{NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
	};
	const struct grpc_server *server = conn->server;

	conn->resets = (struct allowance){RESETS_AT_ONCE, server->now_ns};
	conn->noise = (struct allowance){NOISE_AT_ONCE, server->now_ns};
	return nghttp2_session_server_new2(
		       &conn->session, server->callbacks, conn, server->h2_options) == 0 &&
	       nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
		       sizeof(settings) / sizeof(settings[0])) == 0 &&
	       nghttp2_session_set_local_window_size(
		       conn->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0;
}

void h2_say_drain(struct conn *conn)
{
	nghttp2_submit_shutdown_notice(conn->session);
	nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, drain_ping);
}
