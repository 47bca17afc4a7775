/*
 * grpc_call.c - one call: from the headers of a stream to its handler; grpc_answer.c is the way back.
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

#define CALL_COST   512 /* what nghttp2 keeps for a stream, about */
#define TIMER_MAX_S 1e8 /* three years: no timer for more */

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

void call_bytes_free(struct conn *conn, struct bytes *bytes)
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
	call_bytes_free(conn, &call->in);
	call_bytes_free(conn, &call->out);
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

bool call_reserve(struct grpc_call *call, struct bytes *bytes, size_t more, size_t most)
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

void call_append(struct bytes *bytes, const void *data, size_t len)
{
	if (len > 0)
		memcpy(bytes->at + bytes->len, data, len);
	bytes->len += len;
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

static void take_authorization(struct grpc_call *call, const char *value, size_t len)
{
	const struct grpc_server *server = call->conn->server;

	if (server->options.may == NULL)
		return;
	if (call->authorized++ == 0) {
		call->may = server->options.may(
			value, len, call->conn->wire.fd, &call->may_why, server->options.arg);
	} else if (call->may == GRPC_OK) { /* which of them counts?  neither */
		call->may = GRPC_UNAUTHENTICATED;
		call->may_why = "more than one authorization";
	}
}

void call_header(
	struct grpc_call *call, const char *name, size_t name_len, const char *value, size_t len)
{
	if (is(name, name_len, ":path"))
		call->method = server_method(call->conn->server, value, len, &call->message_max);
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
	else if (is(name, name_len, "authorization"))
		take_authorization(call, value, len);
}

/* Whoever has no token is told so first: he learns nothing else. */
static bool may(struct grpc_call *call)
{
	if (call->conn->server->options.may == NULL || server_is_open(call->method))
		return true;
	if (call->authorized == 0)
		take_authorization(call, NULL, 0);
	return call->may == GRPC_OK;
}

void call_headers_end(struct grpc_call *call)
{
	call_move(call, CALL_BODY);
	if (call->deadline.at > 0)
		ev_timer_start(call->conn->server->options.loop, &call->deadline);
	if (!call->post)
		call_answer_http(call, "405", true, "This is a gRPC service: POST only.\n");
	else if (!call->content_ok)
		call_answer_http(call, "415", false,
			"This is a gRPC service: content-type must be application/grpc.\n");
	else if (call->headers_large)
		call_fail(call, GRPC_RESOURCE_EXHAUSTED, "the headers are too large");
	else if (!may(call))
		call_fail(call, call->may, call->may_why);
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
	bool own = call->message_max < call->conn->server->options.message_max;
	char why[160];

	snprintf(why, sizeof(why), "a message of %zu bytes is too large: %s is %zu", length,
		own ? "the most that this method takes" : "query.grpc_max_message",
		call->message_max);
	call_fail(call, GRPC_RESOURCE_EXHAUSTED, why);
}

/* What has come so far: is it wrong already, is it whole?  A front of a stream is handed on. */
static void look(struct grpc_call *call)
{
	size_t length = 0;

	switch (grpc_front(call->in.at, call->in.len, call->message_max, &length)) {
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
	if (!call_reserve(call, &call->in, len, expected(call))) {
		call_fail(call, GRPC_RESOURCE_EXHAUSTED,
			"too many large requests at the same time: try again");
		return;
	}
	call_append(&call->in, data, len);
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
			call->message_max < call->conn->server->options.message_max
				? "the message, unpacked, is larger than this method takes"
				: "the message, unpacked, is larger than "
				  "query.grpc_max_message");
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
	result = grpc_gunzip(packed, len, call->message_max, &unpacked, &unpacked_len);
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
	const uint8_t *at = in->at == NULL ? NULL : in->at + call->in_at;
	enum grpc_front front = grpc_front(at, in->len - call->in_at, call->message_max, length);

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
	enum grpc_front front = next_front(call, &length);
	uint8_t *frame;

	if (front == FRONT_TOO_LONG) {
		fail_too_long(call, length);
		return;
	}
	if (front != FRONT_WHOLE) {
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
	front = next_front(call, &next);
	if (front == FRONT_WHOLE || front == FRONT_TOO_LONG || call->all_here)
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
	call_bytes_free(conn, &in);
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

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct grpc_call *call = timer->data;
	struct conn *conn = call->conn;

	(void)revents;
	/* The loop's clock was behind when it was set. */
	if (server_turn(conn->server) < call->deadline_ns) {
		ev_timer_set(timer, (double)(call->deadline_ns - conn->server->now_ns) / 1e9, 0);
		ev_timer_start(loop, timer);
		return;
	}
	if (call->state == CALL_GONE || conn->state != CONN_OPEN)
		return;
	call_fail_and_tell(call, GRPC_DEADLINE_EXCEEDED, "the time that the client gave is over");
	conn_flush(conn);
}
