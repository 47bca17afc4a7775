/*
 * grpc_answer.c - the way back of a call: headers, messages, trailers; and what handlers may do.
 *
 *	grpc_reply: out = message, finished --.
 *	grpc_send:  out += message            +--> nghttp2 asks read_answer --> frames
 *	call_fail:  finished -----------------'      '- all read: trailers, or wait for more
 *	      '- nothing was sent before: trailers only
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grpc_message.h"
#include "grpc_private.h"

#include "shm/check.h"

#define GRPC_MESSAGE_MAX 1024
#define UNREAD_MAX	 (1024 * 1024) /* of a stream of messages */

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
	call_bytes_free(call->conn, &call->in);
	finish(call, status, why);
	if (call->begun)
		go_on(call);
	else
		trailers_only(call);
}

void call_answer_http(struct grpc_call *call, const char *status, bool say_allow, const char *text)
{
	nghttp2_nv list[3] = {nv(":status", status, strlen(status)), nv_text};
	size_t n = 2, len = strlen(text);

	if (say_allow)
		list[n++] = nv_allow;
	finish(call, GRPC_UNKNOWN, NULL);
	call->bare = true;
	call->begun = true;
	if (call_reserve(call, &call->out, len, len))
		call_append(&call->out, text, len);
	nghttp2_submit_response(call->conn->session, call->stream, list, n, &answer);
	call_move(call, CALL_ANSWERING);
}

/* Its handler, if it has it, is told to forget it; maybe by answering others. */
void call_fail_and_tell(struct grpc_call *call, enum grpc_status status, const char *why)
{
	void (*ended)(void *arg) = call->ended;
	void *arg = call->ended_arg;

	call->ended = NULL;
	call_fail(call, status, why);
	if (ended != NULL)
		ended(arg);
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
	if (len > UINT32_MAX || !call_reserve(call, &call->out, len + sizeof(prefix),
					call->out.len + len + sizeof(prefix)))
		return false;
	grpc_put_prefix(prefix, len);
	call_append(&call->out, prefix, sizeof(prefix));
	call_append(&call->out, message, len);
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
		call_fail_and_tell(
			call, GRPC_RESOURCE_EXHAUSTED, "what was sent is not being read");
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
