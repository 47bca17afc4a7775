/*
 * grpc_conn.c - one connection of the gRPC server: bytes in, bytes out, and when it has to end.
 *
 *	SHAKING -TLS-> GREETING -SETTINGS-> OPEN -last word-> LINGERING -its end-> DOOMED -> freed
 *	   '-------------'---- too slow, broken, cut off ---------'------------------^
 *
 *	conn_turn:  read 64 KiB -> nghttp2 -> calls that ended, calls that are whole -> write
 *
 * One turn reads one buffer and lets handlers work for 0.1 ms; what is left is for
 * the loop's next round (a timer of no time: libev runs an event that is fed in
 * the same round, before all others), so no peer can keep the loop.  While whole
 * calls wait, or the socket takes no more of what we have to say, nothing is
 * read: what waits to be written is at most one buffer, and not for longer than
 * patience.answer.
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grpc_private.h"

#include "shm/check.h"
#include "shm/host.h"

#define LINGER_MS 2000
#define TURN_NS	  UINT64_C(100000) /* of handlers, before others have their turn */

static void on_io(struct ev_loop *loop, ev_io *io, int revents);
static void on_again(struct ev_loop *loop, ev_timer *timer, int revents);

/* --- start and end ----------------------------------------------------------------------------- */

void conn_enter(struct conn *conn, enum conn_state state)
{
	conn->state = state;
	conn->since_ns = conn->server->now_ns;
}

/* TLS is done, or there is none: our SETTINGS go out, the peer's have to come. */
static void begin(struct conn *conn)
{
	conn_enter(conn, CONN_GREETING);
	if (h2_open(conn))
		conn_flush(conn);
	else
		conn_doom(conn);
}

void conn_new(struct grpc_server *server, int fd, const struct in6_addr *from)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (conn == NULL || !wire_open(&conn->wire, fd, server->tls)) {
		if (conn == NULL)
			close(fd);
		free(conn);
		server->facts.refused++;
		return;
	}
	conn->server = server;
	conn->from = *from;
	conn->used_ns = server->now_ns;
	for (size_t i = 0; i < CALL_STATES; i++)
		TAILQ_INIT(&conn->calls[i]);
	ev_io_init(&conn->io, on_io, fd, EV_READ);
	ev_timer_init(&conn->again, on_again, 0., 0.);
	conn->io.data = conn->again.data = conn;
	TAILQ_INSERT_TAIL(&server->conns, conn, link);
	server->facts.accepted++;
	server->facts.connections++;
	ev_io_start(server->options.loop, &conn->io);
	conn_enter(conn, CONN_SHAKING);
	if (conn->wire.ssl == NULL)
		begin(conn);
}

void conn_doom(struct conn *conn)
{
	struct grpc_server *server = conn->server;

	if (conn->state == CONN_DOOMED)
		return;
	conn_enter(conn, CONN_DOOMED);
	ev_io_stop(server->options.loop, &conn->io);
	ev_clear_pending(server->options.loop, &conn->io);
	ev_timer_stop(server->options.loop, &conn->again);
	TAILQ_REMOVE(&server->conns, conn, link);
	TAILQ_INSERT_TAIL(&server->doomed, conn, link);
	ev_timer_start(server->options.loop, &server->reap);
}

void conn_end_session(struct conn *conn)
{
	struct grpc_call *call;

	nghttp2_session_del(conn->session);
	conn->session = NULL;
	for (size_t i = 0; i < CALL_STATES; i++)
		while ((call = TAILQ_FIRST(&conn->calls[i])) != NULL)
			call_drop(call);
}

void conn_free(struct conn *conn)
{
	conn_end_session(conn);
	wire_close(&conn->wire);
	server_refund(conn, conn->out_len);
	free(conn->out);
	must(conn->memory == 0 && conn->calls_n == 0 && conn->watches_n == 0);
	conn->server->facts.connections--;
	free(conn);
}

/* --- output ------------------------------------------------------------------------------------ */

/* Which of reading and writing the socket may wake us for. */
static void listen_for(struct conn *conn)
{
	int events;

	if (conn->state == CONN_DOOMED)
		return;
	if (conn->state == CONN_LINGERING)
		events = EV_READ;
	else if (conn->out != NULL)
		events = conn->wire.write_waits_for_read ? EV_READ : EV_WRITE;
	else
		events = conn->wire.read_waits_for_write ? EV_WRITE : EV_READ;
	if ((conn->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(conn->server->options.loop, &conn->io);
	ev_io_set(&conn->io, conn->wire.fd, events);
	ev_io_start(conn->server->options.loop, &conn->io);
}

/* Keeps what the socket did not take. */
static bool keep_out(struct conn *conn, const uint8_t *bytes, size_t len)
{
	if (!server_charge(conn, len, 0))
		return false;
	conn->out = malloc(len);
	if (conn->out == NULL) {
		server_refund(conn, len);
		return false;
	}
	memcpy(conn->out, bytes, len);
	conn->out_len = len;
	conn->out_at = 0;
	conn->out_since_ns = conn->server->now_ns;
	return true;
}

ssize_t conn_write(struct conn *conn, const uint8_t *bytes, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = wire_write(&conn->wire, bytes + done, len - done);

		if (n == WIRE_AGAIN)
			break;
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	conn->server->facts.bytes_out += done;
	return (ssize_t)done;
}

static void write_kept(struct conn *conn)
{
	ssize_t n = conn_write(conn, conn->out + conn->out_at, conn->out_len - conn->out_at);

	if (n < 0) {
		conn_doom(conn);
		return;
	}
	conn->out_at += (size_t)n;
	if (conn->out_at < conn->out_len)
		return;
	server_refund(conn, conn->out_len);
	free(conn->out);
	conn->out = NULL;
	conn->out_len = 0;
}

/* A buffer full of frames out of nghttp2; its length, or -1. */
static ssize_t gather(struct conn *conn, uint8_t *to)
{
	const uint8_t *frame;
	size_t len = 0;
	ssize_t n;

	must(!conn->inside);
	conn->inside = true;
	while (len < GRPC_IO_SIZE && (n = nghttp2_session_mem_send(conn->session, &frame)) > 0) {
		must(len + (size_t)n <= sizeof(conn->server->out));
		memcpy(to + len, frame, (size_t)n);
		len += (size_t)n;
	}
	conn->inside = false;
	return n < 0 ? -1 : (ssize_t)len;
}

static bool is_over(const struct conn *conn)
{
	return (conn->state == CONN_GREETING || conn->state == CONN_OPEN) && conn->out == NULL &&
	       nghttp2_session_want_read(conn->session) == 0 &&
	       nghttp2_session_want_write(conn->session) == 0;
}

void conn_flush(struct conn *conn)
{
	uint8_t *buf = conn->server->out;

	if ((conn->state != CONN_GREETING && conn->state != CONN_OPEN) || conn->held)
		return;
	if (conn->out != NULL)
		write_kept(conn);
	while (conn->out == NULL && conn->state != CONN_DOOMED) {
		ssize_t len = gather(conn, buf), n;

		if (len == 0)
			break;
		if (len < 0 && conn->abuse != NULL)
			conn_blame(conn, "grpc.cut", conn->abuse);
		n = len < 0 ? -1 : conn_write(conn, buf, (size_t)len);
		if (n < 0 || (n < len && !keep_out(conn, buf + n, (size_t)(len - n))))
			conn_doom(conn);
	}
	listen_for(conn);
	if (is_over(conn))
		ev_feed_event(conn->server->options.loop, &conn->io, EV_READ);
}

/* --- input ------------------------------------------------------------------------------------- */

static void take_in(struct conn *conn, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	if (conn->first == 0)
		conn->first = bytes[0];
	conn->server->facts.bytes_in += len;
	conn->inside = true;
	n = nghttp2_session_mem_recv(conn->session, bytes, len);
	conn->inside = false;
	if (n < 0)
		conn_broken(conn, n);
}

/* One buffer at most: conn->more says that there may be another. */
static void read_some(struct conn *conn)
{
	uint8_t *buf = conn->server->in;
	size_t len = 0;
	ssize_t n;

	do {
		n = wire_read(&conn->wire, buf + len, GRPC_IO_SIZE - len);
		if (n > 0)
			len += (size_t)n;
	} while (n > 0 && len < GRPC_IO_SIZE && wire_has_more(&conn->wire));
	if (len > 0)
		take_in(conn, buf, len);
	conn->more = len == GRPC_IO_SIZE && wire_has_more(&conn->wire);
	if (n == WIRE_END || n == WIRE_BROKEN)
		conn_doom(conn);
}

/* After nghttp2 has returned: tells handlers what ended, gives them what is whole. */
static void settle(struct conn *conn)
{
	struct grpc_call *call;
	uint64_t until;

	while ((call = TAILQ_FIRST(&conn->calls[CALL_GONE])) != NULL)
		call_drop(call);
	conn->held = conn->server->options.gather;
	until = host_boot_ns() + TURN_NS;
	while (conn->state == CONN_OPEN && host_boot_ns() < until &&
		(call = TAILQ_FIRST(&conn->calls[CALL_READY])) != NULL)
		call_handle(call);
	conn->held = false;
}

static void finish_turn(struct conn *conn)
{
	settle(conn);
	conn_flush(conn);
	if (!TAILQ_EMPTY(&conn->calls[CALL_GONE]))
		settle(conn);
	if (is_over(conn))
		conn_linger(conn);
	if (conn->state != CONN_DOOMED &&
		((conn->more && conn->out == NULL) || !TAILQ_EMPTY(&conn->calls[CALL_READY])))
		ev_timer_start(conn->server->options.loop, &conn->again);
}

static void shake(struct conn *conn)
{
	char why[TLS_WHY_SIZE];
	int n = wire_shake(&conn->wire, why);

	if (n == WIRE_BROKEN) {
		conn_blame(conn, "grpc.tls", why);
		conn_doom(conn);
	} else if (n != WIRE_AGAIN) {
		begin(conn);
	}
	listen_for(conn);
}

static void turn(struct conn *conn)
{
	server_turn(conn->server);
	conn->more = false;
	if (conn->state == CONN_SHAKING)
		shake(conn);
	if (conn->state == CONN_LINGERING) {
		conn_forget_input(conn);
		return;
	}
	if (conn->state != CONN_GREETING && conn->state != CONN_OPEN)
		return;
	if (conn->out != NULL)
		write_kept(conn);
	if (conn->out == NULL && conn->state != CONN_DOOMED &&
		TAILQ_EMPTY(&conn->calls[CALL_READY]))
		read_some(conn);
	finish_turn(conn);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct conn *conn = io->data;

	(void)loop, (void)revents;
	if (!ev_is_active(&conn->again)) /* it has had its turn in this round */
		turn(conn);
}

static void on_again(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop, (void)revents;
	turn(timer->data);
}

/* --- time -------------------------------------------------------------------------------------- */

static bool older(const struct conn *conn, uint64_t since_ns, unsigned ms)
{
	return conn->server->now_ns - since_ns > (uint64_t)ms * 1000000;
}

static void tick_calls(struct conn *conn)
{
	const struct grpc_patience *patience = &conn->server->options.patience;
	struct grpc_call *call = TAILQ_FIRST(&conn->calls[CALL_HEADERS]);

	if (call != NULL && older(conn, call->since_ns, patience->request)) {
		conn_cut(conn, "the headers of a call never ended");
		return;
	}
	while ((call = TAILQ_FIRST(&conn->calls[CALL_BODY])) != NULL &&
		older(conn, call->since_ns, patience->request))
		call_fail(call, GRPC_DEADLINE_EXCEEDED, "the request took too long to arrive");
	while ((call = TAILQ_FIRST(&conn->calls[CALL_ANSWERING])) != NULL &&
		older(conn, call->since_ns, patience->answer)) {
		nghttp2_submit_rst_stream(
			conn->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
		nghttp2_session_set_stream_user_data(conn->session, call->stream, NULL);
		call_drop(call);
	}
	finish_turn(conn);
}

void conn_tick(struct conn *conn)
{
	const struct grpc_patience *patience = &conn->server->options.patience;

	if (conn->state == CONN_LINGERING && older(conn, conn->since_ns, LINGER_MS)) {
		conn_doom(conn);
	} else if (conn->state == CONN_SHAKING && older(conn, conn->since_ns, patience->greeting)) {
		conn_blame(conn, "grpc.tls", "the TLS handshake never ended");
		conn_doom(conn);
	} else if (conn->state == CONN_GREETING &&
		   older(conn, conn->since_ns, patience->greeting)) {
		conn_cut(conn, "it never spoke HTTP/2");
	} else if (conn->out != NULL && older(conn, conn->out_since_ns, patience->answer)) {
		conn_cut(conn, "it does not read");
	} else if (conn->state == CONN_OPEN) {
		if (conn->server->draining && !conn->said_last)
			conn_say_last(conn);
		else
			tick_calls(conn);
	}
}

void conn_drain(struct conn *conn)
{
	if (conn->state == CONN_SHAKING || conn->state == CONN_GREETING) {
		conn_doom(conn);
	} else if (conn->state == CONN_OPEN) {
		h2_say_drain(conn);
		finish_turn(conn);
	}
}

void conn_say_last(struct conn *conn)
{
	if (conn->said_last)
		return;
	conn->said_last = true;
	nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
		nghttp2_session_get_last_proc_stream_id(conn->session), NGHTTP2_NO_ERROR, NULL, 0);
	if (!conn->inside)
		finish_turn(conn);
}
