/*
 * peer_call.c - calls to a peer: request out, answer in, and what became of it.
 *
 *	peer_call_start -> peer->calls -> nghttp2: headers, data, closed -> peer->over -> done
 *
 * What a peer says is bounded: headers, message, reasons.  Whether nothing was
 * done is known in four cases only: UNAVAILABLE, a token that is not taken,
 * REFUSED_STREAM (also by GOAWAY), and when the last byte of the request has not
 * left: a unary call cannot begin before that.
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grpc.h"
#include "grpc_message.h"
#include "metrics.h"
#include "peers_private.h"

#include "shm/check.h"
#include "shm/host.h"

#define HEADERS_MAX  (16 * 1024) /* bytes, of one call */
#define ANSWER_FIRST 512
#define WINDOW	     (1024 * 1024)

/* --- what became of it -------------------------------------------------------------------------- */

static bool has_answer(const struct peer_call *call)
{
	size_t len;

	return call->grpc_status == GRPC_OK && call->http_status == 200 &&
	       call->error == NGHTTP2_NO_ERROR && !call->garbage &&
	       grpc_front(call->answer, call->answer_len, call->answer_max, &len) == FRONT_WHOLE &&
	       call->answer[0] == 0 && len + GRPC_PREFIX_SIZE == call->answer_len;
}

/* Our token: said before anything was done. */
static bool is_forbidden(const struct peer_call *call)
{
	return call->grpc_status == GRPC_UNAUTHENTICATED ||
	       call->grpc_status == GRPC_PERMISSION_DENIED;
}

static enum peer_outcome outcome_of(const struct peer_call *call)
{
	if (has_answer(call))
		return PEER_ANSWERED;
	if (call->grpc_status == GRPC_UNAVAILABLE || is_forbidden(call))
		return PEER_REFUSED;
	if (call->grpc_status < 0 && (!call->whole || call->error == NGHTTP2_REFUSED_STREAM))
		return PEER_REFUSED;
	return PEER_UNKNOWN;
}

static void end(struct peer_call *call)
{
	struct peer *peer = call->peer;

	must(!call->over);
	call->over = true;
	TAILQ_REMOVE(&peer->calls, call, link);
	TAILQ_INSERT_TAIL(&peer->over, call, link);
	peer->calls_n--;
	peer->bytes -= call->request_len;
	peers_count(&peer->peers->facts.calls, UINT64_MAX);
}

static void free_buffers(struct peer_call *call)
{
	free(call->request);
	free(call->answer);
	call->request = call->answer = NULL;
}

static void count_outcome(struct peers *peers, const struct peer_call *call, enum peer_outcome is)
{
	peers_count(is == PEER_ANSWERED	 ? &peers->facts.answered
		    : is_forbidden(call) ? &peers->facts.forbidden
		    : is == PEER_REFUSED ? &peers->facts.unavailable
					 : &peers->facts.failed,
		1);
	if (call->garbage || (is == PEER_UNKNOWN && call->grpc_status == GRPC_OK))
		peers_count(&peers->facts.strange, 1);
}

void peer_settle(struct peer *peer)
{
	struct peer_call *call;

	while ((call = TAILQ_FIRST(&peer->over)) != NULL) {
		enum peer_outcome outcome = outcome_of(call);
		uint8_t *answer = call->answer;
		size_t len = call->answer_len;

		TAILQ_REMOVE(&peer->over, call, link);
		count_outcome(peer->peers, call, outcome);
		if (is_forbidden(call))
			peer_token_refused(peer, call->grpc_status);
		call->peer = NULL;
		call->answer = NULL;
		free_buffers(call);
		if (outcome == PEER_ANSWERED)
			call->done(
				call, outcome, answer + GRPC_PREFIX_SIZE, len - GRPC_PREFIX_SIZE);
		else
			call->done(call, outcome, NULL, 0);
		free(answer);
	}
}

void peer_calls_lost(struct peer *peer)
{
	struct peer_call *call;

	while ((call = TAILQ_FIRST(&peer->calls)) != NULL) {
		call->error = NGHTTP2_INTERNAL_ERROR;
		end(call);
	}
}

void peer_call_cancel(struct peer_call *call)
{
	struct peer *peer = call->peer;

	if (peer == NULL)
		return;
	if (!call->over) {
		nghttp2_session_set_stream_user_data(peer->session, call->stream, NULL);
		nghttp2_submit_rst_stream(
			peer->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
		end(call);
	}
	TAILQ_REMOVE(&peer->over, call, link);
	peers_count(&peer->peers->facts.failed, 1);
	call->peer = NULL;
	free_buffers(call);
}

/* --- start -------------------------------------------------------------------------------------- */

static ssize_t read_request(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room,
	uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct peer_call *call = nghttp2_session_get_stream_user_data(session, stream);
	size_t n;

	(void)source, (void)arg;
	if (call == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it was cancelled */
	n = call->request_len - call->sent;
	if (n > room)
		n = room;
	memcpy(to, call->request + call->sent, n);
	call->sent += n;
	if (call->sent == call->request_len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.namelen = strlen(name),
		.value = (uint8_t *)(uintptr_t)value,
		.valuelen = strlen(value),
	};
}

/* A name that cannot be a header value would cost the stream, or the connection. */
static bool fits_header(const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return len > 0;
}

static int32_t submit(struct peer *peer, struct peer_call *call)
{
	uint64_t now = host_boot_ns(), left_ms = 1;
	char timeout[24];
	nghttp2_data_provider provider = {.read_callback = read_request};
	nghttp2_nv headers[10];
	size_t n = 0;

	if (call->deadline_ns > now + 1000000)
		left_ms = (call->deadline_ns - now) / 1000000;
	if (left_ms > 99999999) /* at most 8 digits */
		left_ms = 99999999;
	snprintf(timeout, sizeof(timeout), "%" PRIu64 "m", left_ms);
	headers[n++] = header(":method", "POST");
	headers[n++] = header(":scheme", peer->wire.ssl == NULL ? "http" : "https");
	headers[n++] = header(":path", call->path);
	headers[n++] = header(":authority", peer->authority);
	headers[n++] = header("te", "trailers");
	headers[n++] = header("content-type", "application/grpc");
	headers[n++] = header("user-agent", "tally-queryd/" QUERYD_VERSION);
	headers[n++] = header("grpc-timeout", timeout);
	if (fits_header(call->tenant))
		headers[n++] = header("x-scope-orgid", call->tenant);
	if (peer->peers->authorization != NULL) {
		headers[n] = header("authorization", peer->peers->authorization);
		headers[n++].flags = NGHTTP2_NV_FLAG_NO_INDEX; /* kept in no table of HPACK */
	}
	return nghttp2_submit_request(peer->session, NULL, headers, n, &provider, call);
}

bool peer_call_start(struct peer *peer, struct peer_call *call)
{
	bool room =
		peer->calls_n < PEER_CALLS_MAX && call->request_len <= PEER_BYTES_MAX - peer->bytes;

	call->peer = NULL;
	call->over = call->whole = call->garbage = false;
	call->sent = call->header_bytes = call->answer_len = call->answer_size = 0;
	call->answer = NULL;
	call->http_status = call->grpc_status = -1;
	call->error = NGHTTP2_NO_ERROR;
	call->since_ns = host_boot_ns();
	if (peer->state == PEER_OPEN && !room)
		peers_count(&peer->peers->facts.full, 1);
	call->stream =
		peer->state == PEER_OPEN && room && peer->broken == NULL ? submit(peer, call) : -1;
	if (call->stream < 0) {
		free_buffers(call);
		return false;
	}
	call->peer = peer;
	TAILQ_INSERT_TAIL(&peer->calls, call, link);
	peer->calls_n++;
	peer->bytes += call->request_len;
	peers_count(&peer->peers->facts.calls, 1);
	return true;
}

/* --- what nghttp2 tells ------------------------------------------------------------------------- */

static int number_of(const uint8_t *value, size_t len)
{
	int number = 0;

	if (len == 0 || len > 4)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (value[i] < '0' || value[i] > '9')
			return -1;
		number = number * 10 + (value[i] - '0');
	}
	return number;
}

static bool is(const uint8_t *name, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(name, word, len) == 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct peer_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)flags;
	if (call == NULL)
		return 0;
	call->header_bytes += name_len + value_len + 32;
	if (call->header_bytes > HEADERS_MAX) {
		peer_break(arg, "more headers than an answer has");
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (is(name, name_len, ":status"))
		call->http_status = number_of(value, value_len);
	else if (is(name, name_len, "grpc-status"))
		call->grpc_status = number_of(value, value_len);
	return 0;
}

static bool make_room(struct peer_call *call, size_t len)
{
	size_t size = call->answer_size == 0 ? ANSWER_FIRST : call->answer_size;
	uint8_t *larger;

	while (size < call->answer_len + len)
		size *= 2;
	if (size == call->answer_size)
		return true;
	larger = realloc(call->answer, size);
	if (larger == NULL)
		return false;
	call->answer = larger;
	call->answer_size = size;
	return true;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
	size_t len, void *arg)
{
	struct peer_call *call = nghttp2_session_get_stream_user_data(session, stream);

	(void)flags, (void)arg;
	if (call == NULL || call->garbage)
		return 0;
	if (call->answer_len + len > call->answer_max + GRPC_PREFIX_SIZE || !make_room(call, len)) {
		call->garbage = true;
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
		return 0;
	}
	memcpy(call->answer + call->answer_len, data, len);
	call->answer_len += len;
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
	struct peer_call *call = nghttp2_session_get_stream_user_data(session, stream);

	(void)arg;
	if (call == NULL)
		return 0;
	nghttp2_session_set_stream_user_data(session, stream, NULL);
	call->error = error;
	end(call);
	return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct peer_call *call;

	(void)arg;
	if (frame->hd.type != NGHTTP2_DATA || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
		return 0;
	call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (call != NULL)
		call->whole = true;
	return 0;
}

/* A call that waited for its turn, and can have none any more (GOAWAY). */
static int on_frame_not_send(
	nghttp2_session *session, const nghttp2_frame *frame, int error, void *arg)
{
	struct peer *peer = arg;
	struct peer_call *call;

	(void)error;
	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	TAILQ_FOREACH(call, &peer->calls, link)
	{
		if (call->stream == frame->hd.stream_id)
			break;
	}
	if (call == NULL)
		return 0;
	nghttp2_session_set_stream_user_data(session, call->stream, NULL);
	call->error = NGHTTP2_REFUSED_STREAM;
	end(call);
	return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct peer *peer = arg;

	(void)session;
	if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
		peer->greeted = true;
	else if (frame->hd.type == NGHTTP2_GOAWAY)
		peer->goodbye = true;
	return 0;
}

bool peer_calls_prepare(struct peers *peers)
{
	nghttp2_session_callbacks *callbacks;

	if (nghttp2_session_callbacks_new(&peers->callbacks) != 0)
		return false;
	callbacks = peers->callbacks;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	return true;
}

bool peer_session_open(struct peer *peer)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
	};

	return nghttp2_session_client_new(&peer->session, peer->peers->callbacks, peer) == 0 &&
	       nghttp2_submit_settings(peer->session, NGHTTP2_FLAG_NONE, settings,
		       sizeof(settings) / sizeof(settings[0])) == 0 &&
	       nghttp2_session_set_local_window_size(
		       peer->session, NGHTTP2_FLAG_NONE, 0, 4 * WINDOW) == 0;
}
