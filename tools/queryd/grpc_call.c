/*
 * grpc_call.c - one call: from the headers of a stream to the trailers of its answer.
 *
 *	HEADERS -> BODY -> READY -> ASKED -> ANSWERING -> freed
 *	   |         |       |        |          '- stream closed: freed, or GONE: told, freed
 *	   '---------'-------'--------'- fail: an answer without a message (trailers only)
 *
 * Whatever is wrong is answered as soon as it is known, and the rest of the
 * request is not wanted (RST_STREAM NO_ERROR after the answer, grpc_h2.c).
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grpc_message.h"
#include "grpc_private.h"

#include "shm/check.h"

#define CALL_COST	 512 /* what nghttp2 keeps for a stream, about */
#define GRPC_MESSAGE_MAX 1024
#define UNREAD_MAX	 (1024 * 1024) /* of a stream of messages */
#define TIMER_MAX_S	 1e8	       /* three years: no timer for more */

#define NV(name, value)                                                                            \
	{                                                                                          \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1,     \
			sizeof(value) - 1,                                                         \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE               \
	}

static const nghttp2_nv nv_200 = NV(":status", "200");
static const nghttp2_nv nv_grpc = NV("content-type", "application/grpc");
static const nghttp2_nv nv_text = NV("content-type", "text/plain; charset=utf-8");
static const nghttp2_nv nv_accepts = NV("grpc-accept-encoding", "identity,gzip");
static const nghttp2_nv nv_allow = NV("allow", "POST");
static const nghttp2_nv nv_status_ok = NV("grpc-status", "0");

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int revents);

/* --- life -------------------------------------------------------------------------------------- */

struct grpc_call *call_new(struct conn *conn, int32_t stream)
{
	struct grpc_call *call;

	if (!server_charge(conn, sizeof(*call) + CALL_COST, 0))
		return NULL;
	call = calloc(1, sizeof(*call));
	if (call == NULL) {
		server_refund(conn, sizeof(*call) + CALL_COST);
		return NULL;
	}
	call->conn = conn;
	call->stream = stream;
	call->state = CALL_HEADERS;
	call->since_ns = conn->server->now_ns;
	call->deadline_ns = UINT64_MAX;
	ev_timer_init(&call->deadline, on_deadline, -1, 0);
	call->deadline.data = call;
	TAILQ_INSERT_TAIL(&conn->calls[CALL_HEADERS], call, link);
	conn->calls_n++;
	conn->server->facts.calls++;
	return call;
}

void call_move(struct grpc_call *call, enum call_state state)
{
	struct conn *conn = call->conn;

	TAILQ_REMOVE(&conn->calls[call->state], call, link);
	TAILQ_INSERT_TAIL(&conn->calls[state], call, link);
	call->state = state;
	call->since_ns = conn->server->now_ns;
}

static void bytes_free(struct conn *conn, struct bytes *bytes)
{
	server_refund(conn, bytes->size);
	free(bytes->at);
	*bytes = (struct bytes){0};
}

/* nghttp2 forgets it: whatever a handler does now, the stream's end does not reach the call. */
static void detach(struct grpc_call *call)
{
	if (call->conn->session != NULL)
		nghttp2_session_set_stream_user_data(call->conn->session, call->stream, NULL);
}

void call_free(struct grpc_call *call)
{
	struct conn *conn = call->conn;
	struct grpc_server *server = conn->server;

	TAILQ_REMOVE(&conn->calls[call->state], call, link);
	detach(call);
	ev_timer_stop(server->options.loop, &call->deadline);
	bytes_free(conn, &call->in);
	bytes_free(conn, &call->out);
	free(call->why);
	free(call);
	server_refund(conn, sizeof(*call) + CALL_COST);
	server->facts.calls--;
	conn->calls_n--;
	conn->used_ns = server->now_ns;
	if (conn->state != CONN_DOOMED) {
		TAILQ_REMOVE(&server->conns, conn, link);
		TAILQ_INSERT_TAIL(&server->conns, conn, link);
	}
}

void call_drop(struct grpc_call *call)
{
	void (*ended)(void *arg) = call->ended;

	if (!call->finished)
		call->conn->server->facts.answers[GRPC_CANCELLED]++;
	call->finished = true;
	detach(call);
	if (ended != NULL)
		ended(call->ended_arg);
	call_free(call);
}

void call_stream_closed(struct grpc_call *call)
{
	if (call->ended != NULL && !call->finished)
		call_move(call, CALL_GONE);
	else
		call_drop(call);
}

/*
 * Room for `more` bytes, and for `most` in all if that is known.  It grows in
 * steps that depend on what has come, never on what was promised.
 */
static bool reserve(struct grpc_call *call, struct bytes *bytes, size_t more, size_t most)
{
	size_t size = bytes->size == 0 ? 256 : bytes->size;
	uint8_t *grown;

	if (bytes->size - bytes->len >= more)
		return true;
	while (size - bytes->len < more)
		size *= 2;
	if (size > most && most - bytes->len >= more)
		size = most;
	if (!server_charge(call->conn, size - bytes->size, bytes->size))
		return false;
	grown = realloc(bytes->at, size);
	if (grown == NULL) {
		server_refund(call->conn, size - bytes->size);
		return false;
	}
	bytes->at = grown;
	bytes->size = size;
	return true;
}

static void append(struct bytes *bytes, const void *data, size_t len)
{
	if (len > 0)
		memcpy(bytes->at + bytes->len, data, len);
	bytes->len += len;
}

/* --- answer ------------------------------------------------------------------------------------ */

static nghttp2_nv nv(const char *name, const char *value, size_t len)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
		len, NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* grpc-status and grpc-message; the texts must live until they are submitted. */
static size_t put_status(
	const struct grpc_call *call, nghttp2_nv *to, char digits[4], char words[GRPC_MESSAGE_MAX])
{
	size_t n = 0;

	if (call->status == GRPC_OK) {
		to[n++] = nv_status_ok;
	} else {
		int len = snprintf(digits, 4, "%d", call->status);

		to[n++] = nv("grpc-status", digits, (size_t)len);
	}
	if (call->why != NULL)
		to[n++] =
			nv("grpc-message", words, grpc_percent(words, GRPC_MESSAGE_MAX, call->why));
	return n;
}

static void submit_trailers(struct grpc_call *call)
{
	char digits[4], words[GRPC_MESSAGE_MAX];
	nghttp2_nv list[2];
	size_t n = put_status(call, list, digits, words);

	nghttp2_submit_trailer(call->conn->session, call->stream, list, n);
}

/* nghttp2 wants more of an answer. */
static ssize_t read_answer(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t size,
	uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);
	size_t n;

	(void)source, (void)arg;
	if (call == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* dropped: the stream is reset */
	n = call->out.len - call->out_at;
	if (n == 0 && !call->finished) {
		call->out.len = call->out_at = 0;
		if (call->state == CALL_ANSWERING)
			call_move(call, CALL_ASKED);
		return NGHTTP2_ERR_DEFERRED;
	}
	if (n > size)
		n = size;
	if (n > 0)
		memcpy(buf, call->out.at + call->out_at, n);
	call->out_at += n;
	if (call->finished && call->out_at == call->out.len) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (!call->bare) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			submit_trailers(call);
		}
	}
	return (ssize_t)n;
}

static const nghttp2_data_provider answer = {.read_callback = read_answer};

/* The response headers, or that there is more after them. */
static void go_on(struct grpc_call *call)
{
	const nghttp2_nv headers[] = {nv_200, nv_grpc};

	if (!call->begun)
		nghttp2_submit_response(call->conn->session, call->stream, headers, 2, &answer);
	else
		nghttp2_session_resume_data(call->conn->session, call->stream);
	call->begun = true;
	if (call->state == CALL_ASKED || call->finished)
		call_move(call, CALL_ANSWERING);
}

static void trailers_only(struct grpc_call *call)
{
	char digits[4], words[GRPC_MESSAGE_MAX];
	nghttp2_nv list[5] = {nv_200, nv_grpc};
	size_t n = 2;

	n += put_status(call, list + n, digits, words);
	if (call->encoding == ENCODING_OTHER)
		list[n++] = nv_accepts;
	nghttp2_submit_response(call->conn->session, call->stream, list, n, NULL);
	call->begun = true;
	call_move(call, CALL_ANSWERING);
}

static void finish(struct grpc_call *call, enum grpc_status status, const char *why)
{
	call->finished = true;
	call->status = status;
	call->why = why == NULL ? NULL : strdup(why);
	call->conn->server->facts.answers[status]++;
	ev_timer_stop(call->conn->server->options.loop, &call->deadline);
}

void call_fail(struct grpc_call *call, enum grpc_status status, const char *why)
{
	if (call->finished)
		return;
	bytes_free(call->conn, &call->in);
	finish(call, status, why);
	if (call->begun)
		go_on(call);
	else
		trailers_only(call);
}

/* Not gRPC: an HTTP answer with a line of text. */
static void answer_http(
	struct grpc_call *call, const char *status, const nghttp2_nv *extra, const char *text)
{
	nghttp2_nv list[3] = {nv(":status", status, strlen(status)), nv_text};
	size_t n = 2, len = strlen(text);

	if (extra != NULL)
		list[n++] = *extra;
	finish(call, GRPC_UNKNOWN, NULL);
	call->bare = true;
	call->begun = true;
	if (reserve(call, &call->out, len, len))
		append(&call->out, text, len);
	nghttp2_submit_response(call->conn->session, call->stream, list, n, &answer);
	call_move(call, CALL_ANSWERING);
}

/* --- request: headers -------------------------------------------------------------------------- */

static bool is(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(text, word, len) == 0;
}

/* application/grpc, +proto or ;charset: but not application/grpc-web. */
static bool content_is_grpc(const char *value, size_t len)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof(type) - 1;

	return len >= n && memcmp(value, type, n) == 0 &&
	       (len == n || value[n] == '+' || value[n] == ';' || value[n] == ' ');
}

static void take_timeout(struct grpc_call *call, const char *value, size_t len)
{
	uint64_t now_ns = call->conn->server->now_ns, ns;

	if (!grpc_parse_timeout(value, len, &ns)) {
		call->timeout_bad = true;
		return;
	}
	if (ns > UINT64_MAX - now_ns)
		return;
	call->deadline_ns = now_ns + ns;
	if ((double)ns / 1e9 < TIMER_MAX_S)
		ev_timer_set(&call->deadline, (double)ns / 1e9, 0);
}

void call_header(
	struct grpc_call *call, const char *name, size_t name_len, const char *value, size_t len)
{
	if (is(name, name_len, ":path"))
		call->method = server_method(call->conn->server, value, len);
	else if (is(name, name_len, ":method"))
		call->post = is(value, len, "POST");
	else if (is(name, name_len, "content-type"))
		call->content_ok = content_is_grpc(value, len);
	else if (is(name, name_len, "grpc-timeout"))
		take_timeout(call, value, len);
	else if (is(name, name_len, "grpc-encoding"))
		call->encoding = is(value, len, "identity") ? ENCODING_IDENTITY
				 : is(value, len, "gzip")   ? ENCODING_GZIP
							    : ENCODING_OTHER;
}

void call_headers_end(struct grpc_call *call)
{
	call_move(call, CALL_BODY);
	if (call->deadline.at > 0)
		ev_timer_start(call->conn->server->options.loop, &call->deadline);
	if (!call->post)
		answer_http(call, "405", &nv_allow, "This is a gRPC service: POST only.\n");
	else if (!call->content_ok)
		answer_http(call, "415", NULL,
			"This is a gRPC service: content-type must be application/grpc.\n");
	else if (call->headers_large)
		call_fail(call, GRPC_RESOURCE_EXHAUSTED, "the headers are too large");
	else if (call->timeout_bad)
		call_fail(call, GRPC_INTERNAL, "grpc-timeout is malformed");
	else if (call->method == NULL)
		call_fail(call, GRPC_UNIMPLEMENTED, "no such method");
	else if (call->encoding == ENCODING_OTHER)
		call_fail(call, GRPC_UNIMPLEMENTED,
			"grpc-encoding: only identity and gzip are known");
	else if (call->method->kind == GRPC_BIDI)
		call_move(call, CALL_ASKED);
}

/* --- request: message -------------------------------------------------------------------------- */

static void fail_too_long(struct grpc_call *call, size_t length)
{
	char why[160];

	snprintf(why, sizeof(why),
		"a message of %zu bytes is too large: query.grpc_max_message is %zu", length,
		call->conn->server->options.message_max);
	call_fail(call, GRPC_RESOURCE_EXHAUSTED, why);
}

/* What has come so far: is it wrong already, is it whole?  A front of a stream is handed on. */
static void look(struct grpc_call *call)
{
	size_t length = 0;

	switch (grpc_front(
		call->in.at, call->in.len, call->conn->server->options.message_max, &length)) {
	case FRONT_SHORT:
		break;
	case FRONT_TOO_LONG:
		fail_too_long(call, length);
		break;
	case FRONT_BROKEN:
		call_fail(call, GRPC_INTERNAL, "a message begins with a byte that is not 0 or 1");
		break;
	case FRONT_WHOLE:
		if (call->method->kind == GRPC_BIDI)
			call_move(call, CALL_READY);
		else if (call->in.len > GRPC_PREFIX_SIZE + length)
			call_fail(call, GRPC_UNIMPLEMENTED,
				"more than one message, but the method takes one");
		break;
	}
}

/* Bytes in all of the message whose beginning is there. */
static size_t expected(const struct grpc_call *call)
{
	size_t length;

	if (call->in.len < GRPC_PREFIX_SIZE || call->method->kind == GRPC_BIDI)
		return SIZE_MAX;
	grpc_front(call->in.at, call->in.len, SIZE_MAX, &length);
	return GRPC_PREFIX_SIZE + length;
}

void call_data(struct grpc_call *call, const uint8_t *data, size_t len)
{
	if (call->finished)
		return;
	if (!reserve(call, &call->in, len, expected(call))) {
		call_fail(call, GRPC_RESOURCE_EXHAUSTED,
			"too many large requests at the same time: try again");
		return;
	}
	append(&call->in, data, len);
	look(call);
}

void call_request_end(struct grpc_call *call)
{
	size_t length;

	call->all_here = true;
	if (call->finished)
		return;
	if (call->method->kind == GRPC_BIDI)
		call_move(call, CALL_READY);
	else if (call->in.len == 0)
		call_fail(call, GRPC_UNIMPLEMENTED, "no message, but the method takes one");
	else if (grpc_front(call->in.at, call->in.len, SIZE_MAX, &length) != FRONT_WHOLE)
		call_fail(call, GRPC_INTERNAL, "the request ends in the middle of a message");
	else
		call_move(call, CALL_READY);
}

/* --- handing over ------------------------------------------------------------------------------ */

static void gunzip_failed(struct grpc_call *call, enum grpc_gunzip result)
{
	if (result == GUNZIP_TOO_LONG)
		call_fail(call, GRPC_RESOURCE_EXHAUSTED,
			"the message, unpacked, is larger than query.grpc_max_message");
	else if (result == GUNZIP_NO_MEMORY)
		call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		call_fail(call, GRPC_INTERNAL, "the message is not what gzip makes");
}

static void hand_over(struct grpc_call *call, const uint8_t *message, size_t len)
{
	call->method->handle(call, message, len, call->conn->server->options.arg);
}

static void hand_over_gzip(struct grpc_call *call, const uint8_t *packed, size_t len)
{
	enum grpc_gunzip result;
	size_t unpacked_len;
	uint8_t *unpacked;

	if (call->encoding != ENCODING_GZIP) {
		call_fail(call, GRPC_INTERNAL,
			"the message is marked as packed, but there is no grpc-encoding");
		return;
	}
	result = grpc_gunzip(
		packed, len, call->conn->server->options.message_max, &unpacked, &unpacked_len);
	if (result != GUNZIP_DONE) {
		gunzip_failed(call, result);
		return;
	}
	hand_over(call, unpacked, unpacked_len);
	free(unpacked);
}

static void hand_over_front(struct grpc_call *call, const uint8_t *frame, size_t length)
{
	if (frame[0] == 1)
		hand_over_gzip(call, frame + GRPC_PREFIX_SIZE, length);
	else
		hand_over(call, frame + GRPC_PREFIX_SIZE, length);
}

/* What has been handled makes room; done when the rest is not a message, so once a read. */
static enum grpc_front next_front(struct grpc_call *call, size_t *length)
{
	struct bytes *in = &call->in;
	enum grpc_front front =
		grpc_front(in->at + call->in_at, in->len - call->in_at, SIZE_MAX, length);

	if (front != FRONT_WHOLE && call->in_at > 0) {
		memmove(in->at, in->at + call->in_at, in->len - call->in_at);
		in->len -= call->in_at;
		call->in_at = 0;
	}
	return front;
}

/* One message of a stream; while there are more the call stays in the list. */
static void handle_bidi(struct grpc_call *call)
{
	size_t length = 0, next;
	uint8_t *frame;

	if (next_front(call, &length) != FRONT_WHOLE) {
		if (call->in.len > 0)
			call_fail(
				call, GRPC_INTERNAL, "the request ends in the middle of a message");
		else
			hand_over(call, NULL, 0);
		return;
	}
	frame = malloc(GRPC_PREFIX_SIZE + length);
	if (frame == NULL) {
		call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	memcpy(frame, call->in.at + call->in_at, GRPC_PREFIX_SIZE + length);
	call->in_at += GRPC_PREFIX_SIZE + length;
	if (next_front(call, &next) == FRONT_WHOLE || call->all_here)
		call_move(call, CALL_READY);
	hand_over_front(call, frame, length);
	free(frame);
}

static void handle_unary(struct grpc_call *call)
{
	struct conn *conn = call->conn;
	struct bytes in = call->in;

	call->in = (struct bytes){0}; /* the call may be gone before its message */
	hand_over_front(call, in.at, in.len - GRPC_PREFIX_SIZE);
	bytes_free(conn, &in);
}

void call_handle(struct grpc_call *call)
{
	call_move(call, call->out.len > call->out_at ? CALL_ANSWERING : CALL_ASKED);
	if (call->deadline_ns <= call->conn->server->now_ns)
		call_fail(call, GRPC_DEADLINE_EXCEEDED, "the time that the client gave is over");
	else if (call->method->kind == GRPC_BIDI)
		handle_bidi(call);
	else
		handle_unary(call);
}

/* Its handler, if it has it, is told to forget it; maybe by answering others. */
static void fail_and_tell(struct grpc_call *call, enum grpc_status status, const char *why)
{
	void (*ended)(void *arg) = call->ended;
	void *arg = call->ended_arg;

	call->ended = NULL;
	call_fail(call, status, why);
	if (ended != NULL)
		ended(arg);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct grpc_call *call = timer->data;
	struct conn *conn = call->conn;

	(void)loop, (void)revents;
	server_turn(conn->server);
	if (call->state == CALL_GONE || conn->state != CONN_OPEN)
		return;
	fail_and_tell(call, GRPC_DEADLINE_EXCEEDED, "the time that the client gave is over");
	conn_flush(conn);
}

/* --- for handlers ------------------------------------------------------------------------------ */

uint64_t grpc_deadline_ns(const struct grpc_call *call)
{
	return call->deadline_ns;
}

void grpc_on_end(struct grpc_call *call, void (*ended)(void *arg), void *arg)
{
	call->ended = ended;
	call->ended_arg = arg;
}

void grpc_set_data(struct grpc_call *call, void *data)
{
	call->data = data;
}

void *grpc_data(const struct grpc_call *call)
{
	return call->data;
}

/* The connection has gone, the call just did not know yet. */
static bool answered_nobody(struct grpc_call *call, bool last)
{
	bool nobody = call->state == CALL_GONE || call->conn->state != CONN_OPEN;

	must(!call->finished);
	if (last)
		call->ended = NULL;
	if (nobody && last) {
		call->conn->server->facts.answers[GRPC_CANCELLED]++;
		call_free(call);
	}
	return nobody;
}

static bool put_message(struct grpc_call *call, const uint8_t *message, size_t len)
{
	uint8_t prefix[GRPC_PREFIX_SIZE];

	if (call->out_at > 0) {
		memmove(call->out.at, call->out.at + call->out_at, call->out.len - call->out_at);
		call->out.len -= call->out_at;
		call->out_at = 0;
	}
	if (len > UINT32_MAX || !reserve(call, &call->out, len + sizeof(prefix),
					call->out.len + len + sizeof(prefix)))
		return false;
	grpc_put_prefix(prefix, len);
	append(&call->out, prefix, sizeof(prefix));
	append(&call->out, message, len);
	return true;
}

void grpc_reply(struct grpc_call *call, const uint8_t *message, size_t len)
{
	struct conn *conn = call->conn;

	if (answered_nobody(call, true))
		return;
	if (put_message(call, message, len)) {
		finish(call, GRPC_OK, NULL);
		go_on(call);
	} else {
		call_fail(call, GRPC_RESOURCE_EXHAUSTED,
			"too many answers wait to be read: try again");
	}
	conn_flush(conn);
}

void grpc_send(struct grpc_call *call, const uint8_t *message, size_t len)
{
	struct conn *conn = call->conn;

	must(call->method->kind != GRPC_UNARY);
	if (answered_nobody(call, false))
		return;
	if (call->out.len - call->out_at < UNREAD_MAX && put_message(call, message, len))
		go_on(call);
	else
		fail_and_tell(call, GRPC_RESOURCE_EXHAUSTED, "what was sent is not being read");
	conn_flush(conn);
}

void grpc_fail(struct grpc_call *call, enum grpc_status status, const char *why)
{
	struct conn *conn = call->conn;

	if (answered_nobody(call, true))
		return;
	call_fail(call, status, why);
	conn_flush(conn);
}
