/*
 * peer_conn.c - the connection to a peer: kept open, and made again when it is lost.
 *
 *	WAITING -time-> CONNECTING -> SHAKING (TLS) -> GREETING -SETTINGS-> OPEN -GOAWAY-> LEAVING
 *	   ^  100 ms .. 5 s, doubled each time, some chance in it            |               |
 *	   '--------- refused, broken, too slow, silent, all calls done -----'---------------'
 *
 *	a turn:  write what waited -> read 64 KiB -> nghttp2 -> done of all that is over -> write
 *
 * A frozen process still accepts connections, its kernel does that: a peer counts
 * from its first SETTINGS on, not from connect.
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peers_private.h"

#include "shm/check.h"
#include "shm/host.h"
#include "shm/log.h"

#define FRAME_MAX   (16384 + 64)
#define SAY_TLS_MAX 256

/* --- start and end ------------------------------------------------------------------------------ */

static double seconds(unsigned ms)
{
	return ms / 1000.0;
}

static void set_timer(struct peer *peer, unsigned ms)
{
	ev_timer_stop(peer->peers->loop, &peer->timer);
	ev_timer_set(&peer->timer, seconds(ms), 0.);
	ev_timer_start(peer->peers->loop, &peer->timer);
}

static void listen_for(struct peer *peer, int events)
{
	if (ev_is_active(&peer->io) && (peer->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(peer->peers->loop, &peer->io);
	ev_io_set(&peer->io, peer->wire.fd, events);
	ev_io_start(peer->peers->loop, &peer->io);
}

/* What the state of the connection makes us wait for. */
static void listen_on(struct peer *peer)
{
	const struct wire *wire = &peer->wire;
	bool writes = peer->out_at < peer->out_len && !wire->write_waits_for_read;

	listen_for(peer, EV_READ | (writes || wire->read_waits_for_write ? EV_WRITE : 0));
}

/* Some chance, so that those who lost a peer together do not come back together. */
static unsigned next_back_off(struct peer *peer)
{
	struct peers *peers = peer->peers;
	unsigned ms = peer->back_off_ms;

	peer->back_off_ms = ms * 2 > peers->back_off_max_ms ? peers->back_off_max_ms : ms * 2;
	return ms - ms / 4 + (unsigned)(host_random() % (ms / 2 + 1));
}

static void say_down(struct peer *peer, const char *why)
{
	char quoted[2 * SAY_TLS_MAX];

	log_quote(quoted, sizeof(quoted), why);
	if (peer->down_said)
		log_debug("peer.down", "peer=%s text=%s", peer->text, quoted);
	else if (peer->gone || peer->state == PEER_LEAVING)
		log_info("peer.down", "peer=%s text=%s", peer->text, quoted);
	else
		log_warn("peer.down",
			"peer=%s text=%s advice=\"streams of its partitions are answered with "
			"reason 1 (failed) until it is back\"",
			peer->text, quoted);
	peer->down_said = true;
}

/* A turn in the loop's next round: an event that is fed would come in this one, before all others. */
static void again(struct peer *peer)
{
	ev_timer_start(peer->peers->loop, &peer->round);
}

static void close_connection(struct peer *peer)
{
	ev_timer_stop(peer->peers->loop, &peer->round);
	ev_io_stop(peer->peers->loop, &peer->io);
	ev_clear_pending(peer->peers->loop, &peer->io);
	ev_timer_stop(peer->peers->loop, &peer->timer);
	peer_map_stop(peer);
	peer_calls_lost(peer);
	nghttp2_session_del(peer->session);
	peer->session = NULL;
	wire_close(&peer->wire);
	peer->out_at = peer->out_len = 0;
	peer->broken = NULL;
	peer->greeted = peer->goodbye = false;
}

void peer_lose(struct peer *peer, const char *why)
{
	struct peers *peers = peer->peers;
	bool was_open = peer->state == PEER_OPEN || peer->state == PEER_LEAVING;
	char text[SAY_TLS_MAX];

	snprintf(text, sizeof(text), "%s", why);
	if (was_open) {
		peers_count(&peers->facts.lost, 1);
		peers_count(&peers->facts.connected, UINT64_MAX);
	}
	say_down(peer, text);
	close_connection(peer);
	peer->state = PEER_WAITING;
	set_timer(peer, peer->gone ? 0 : next_back_off(peer));
	peer_dns_hurry(peers->dns);
	peer_settle(peer);
	peers_ask_wake(peers);
}

void peer_break(struct peer *peer, const char *why)
{
	if (peer->broken == NULL)
		peer->broken = why;
	ev_feed_event(peer->peers->loop, &peer->io, EV_READ);
}

/* --- connecting --------------------------------------------------------------------------------- */

/* On the loopback interface a socket may, by chance, connect to itself. */
static bool is_itself(int fd)
{
	struct sockaddr_storage here = {0}, there = {0};
	socklen_t here_len = sizeof(here), there_len = sizeof(there);

	return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
	       getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 &&
	       here_len == there_len && memcmp(&here, &there, here_len) == 0;
}

static void greet(struct peer *peer)
{
	peer->state = PEER_GREETING;
	if (!peer_session_open(peer))
		peer_break(peer, "no memory");
	peer_flush(peer);
}

static void shake(struct peer *peer)
{
	char why[TLS_WHY_SIZE] = "";
	int n = wire_shake(&peer->wire, why);

	if (n == WIRE_BROKEN)
		peer_lose(peer, peer_tls_reason(&peer->wire, why));
	else if (n == WIRE_AGAIN)
		listen_for(peer, peer->wire.read_waits_for_write ? EV_WRITE : EV_READ);
	else
		greet(peer);
}

static void connected(struct peer *peer)
{
	const int on = 1;
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(peer->wire.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error == EINPROGRESS || error == EALREADY)
		return;
	if (error != 0) {
		peer_lose(peer, strerror(error));
		return;
	}
	if (is_itself(peer->wire.fd)) {
		peer_lose(peer, "nobody listens there");
		return;
	}
	setsockopt(peer->wire.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	peer->state = PEER_SHAKING;
	shake(peer);
}

static bool open_wire(struct peer *peer, int fd)
{
	SSL_CTX *tls = peer->peers->tls;

	return wire_open(&peer->wire, fd, tls) &&
	       (tls == NULL || peer_tls_call(&peer->wire, peer->host));
}

static void connect_now(struct peer *peer)
{
	int fd = socket(
		peer->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);

	peer->state = PEER_CONNECTING;
	set_timer(peer, peer->peers->call_ms);
	if (fd < 0) {
		peer_lose(peer, strerror(errno));
	} else if (!open_wire(peer, fd)) {
		peer_lose(peer, "no memory");
	} else if (connect(fd, (const struct sockaddr *)&peer->address, peer->address_len) != 0 &&
		   errno != EINPROGRESS) {
		peer_lose(peer, strerror(errno));
	} else {
		listen_for(peer, EV_WRITE);
	}
}

static void opened(struct peer *peer)
{
	peer->state = PEER_OPEN;
	ev_timer_stop(peer->peers->loop, &peer->timer);
	peers_count(&peer->peers->facts.connects, 1);
	peers_count(&peer->peers->facts.connected, 1);
	log_info("peer.up", "peer=%s", peer->text);
	peer->down_said = false;
	peer_map_start(peer);
}

static void leave(struct peer *peer)
{
	peer->state = PEER_LEAVING;
	peer_map_stop(peer);
	set_timer(peer, peer->peers->call_ms);
}

/* --- output ------------------------------------------------------------------------------------- */

/* false: it is stuck or broken. */
static bool write_out(struct peer *peer)
{
	while (peer->out_at < peer->out_len) {
		ssize_t n = wire_write(
			&peer->wire, peer->out + peer->out_at, peer->out_len - peer->out_at);

		if (n == WIRE_AGAIN)
			return false;
		if (n <= 0) {
			peer_break(peer, "the connection broke");
			return false;
		}
		peer->out_at += (size_t)n;
	}
	peer->out_at = peer->out_len = 0;
	return true;
}

/* Fills the buffer with frames.  false: there are none. */
static bool gather(struct peer *peer)
{
	const uint8_t *frame;
	ssize_t n = 0;

	must(!peer->inside);
	peer->inside = true;
	while (peer->out_len < PEER_IO_SIZE &&
		(n = nghttp2_session_mem_send(peer->session, &frame)) > 0) {
		must(peer->out_len + (size_t)n <= PEER_IO_SIZE + FRAME_MAX);
		memcpy(peer->out + peer->out_len, frame, (size_t)n);
		peer->out_len += (size_t)n;
	}
	peer->inside = false;
	if (n < 0)
		peer_break(peer, nghttp2_strerror((int)n));
	return peer->out_len > 0 && n >= 0;
}

void peer_flush(struct peer *peer)
{
	if (peer->session == NULL || peer->broken != NULL || peer->inside)
		return;
	while (write_out(peer) && gather(peer))
		;
	if (peer->broken == NULL)
		listen_on(peer);
	if (!TAILQ_EMPTY(&peer->over)) /* a call that had no chance */
		again(peer);
}

/* --- input -------------------------------------------------------------------------------------- */

static void take_in(struct peer *peer, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	peer->heard_ns = host_boot_ns();
	peer->inside = true;
	n = nghttp2_session_mem_recv(peer->session, bytes, len);
	peer->inside = false;
	if (n < 0)
		peer_break(peer, nghttp2_strerror((int)n));
}

/* One buffer at most, and the rest in the next round: the others want to be heard as well. */
static void read_some(struct peer *peer)
{
	uint8_t *buf = peer->peers->in;
	size_t len = 0;
	ssize_t n;

	do {
		n = wire_read(&peer->wire, buf + len, PEER_IO_SIZE - len);
		if (n > 0)
			len += (size_t)n;
	} while (n > 0 && len < PEER_IO_SIZE && wire_has_more(&peer->wire));
	if (len > 0)
		take_in(peer, buf, len);
	if (wire_has_more(&peer->wire))
		again(peer);
	if (n == WIRE_END || n == WIRE_BROKEN)
		peer_break(
			peer, n == WIRE_END ? "it closed the connection" : "the connection broke");
}

static bool is_over(const struct peer *peer)
{
	return (peer->state == PEER_LEAVING && peer->calls_n == 0) ||
	       (nghttp2_session_want_read(peer->session) == 0 &&
		       nghttp2_session_want_write(peer->session) == 0 &&
		       peer->out_at == peer->out_len);
}

static void turn(struct peer *peer)
{
	write_out(peer);
	if (peer->broken == NULL)
		read_some(peer);
	if (peer->greeted && peer->state == PEER_GREETING && peer->broken == NULL)
		opened(peer);
	if (peer->goodbye && peer->state == PEER_OPEN)
		leave(peer);
	peer_settle(peer);
	peer_flush(peer);
	if (peer->broken == NULL && is_over(peer))
		peer_break(peer, peer->goodbye ? "it said goodbye" : "it does not speak gRPC");
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	struct peer *peer = io->data;

	(void)loop, (void)events;
	if (peer->broken != NULL)
		peer_lose(peer, peer->broken);
	else if (peer->state == PEER_CONNECTING)
		connected(peer);
	else if (peer->state == PEER_SHAKING)
		shake(peer);
	else if (peer->session != NULL)
		turn(peer);
}

static void on_round(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct peer *peer = timer->data;

	on_io(loop, &peer->io, events);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct peer *peer = timer->data;

	(void)loop, (void)events;
	if (peer->gone && peer->state == PEER_WAITING)
		peer_remove(peer);
	else if (peer->state == PEER_WAITING)
		connect_now(peer);
	else if (peer->state == PEER_LEAVING)
		peer_lose(peer, "it said goodbye");
	else
		peer_lose(peer, peer->state == PEER_CONNECTING ? "it does not answer"
				: peer->state == PEER_SHAKING  ? "the TLS handshake never ended"
							       : "it never spoke HTTP/2");
}

/* --- a peer ------------------------------------------------------------------------------------- */

static void write_text(struct peer *peer)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo((const struct sockaddr *)&peer->address, peer->address_len, host,
		    sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(peer->text, sizeof(peer->text), "?");
	else
		snprintf(peer->text, sizeof(peer->text),
			peer->address.ss_family == AF_INET6 ? "[%.250s]:%.8s" : "%.250s:%.8s", host,
			port);
}

struct peer *peer_add(
	struct peers *peers, size_t name, const struct sockaddr *address, socklen_t len)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	const struct peer_name *of = &peers->names[name];

	must_get(peer != NULL && len <= sizeof(peer->address));
	peer->peers = peers;
	peer->name = name;
	peer->id = ++peers->next_id;
	memcpy(&peer->address, address, len);
	peer->address_len = len;
	snprintf(peer->host, sizeof(peer->host), "%s", of->host);
	snprintf(peer->authority, sizeof(peer->authority),
		strchr(of->host, ':') == NULL ? "%s:%s" : "[%s]:%s", of->host, of->port);
	write_text(peer);
	peer->out = malloc(PEER_IO_SIZE + FRAME_MAX);
	must_get(peer->out != NULL);
	peer->wire.fd = -1;
	peer->back_off_ms = peers->back_off_ms;
	TAILQ_INIT(&peer->calls);
	TAILQ_INIT(&peer->over);
	ev_init(&peer->io, on_io);
	ev_init(&peer->timer, on_timer);
	ev_timer_init(&peer->round, on_round, 0., 0.);
	peer->io.data = peer->timer.data = peer->round.data = peer;
	peer_map_prepare(peer);
	TAILQ_INSERT_TAIL(&peers->list, peer, link);
	peers->n++;
	peers_count(&peers->facts.known, 1);
	set_timer(peer, 0);
	return peer;
}

void peer_go(struct peer *peer)
{
	peer->gone = true;
	if (peer->state == PEER_OPEN) {
		leave(peer);
		if (peer->calls_n == 0)
			peer_break(peer, "its name no longer has this address");
	} else if (peer->state == PEER_WAITING) {
		set_timer(peer, 0);
	} else if (peer->state != PEER_LEAVING) {
		peer_break(peer, "its name no longer has this address");
	}
}

void peer_remove(struct peer *peer)
{
	struct peers *peers = peer->peers;

	if (peer->state == PEER_OPEN || peer->state == PEER_LEAVING)
		peers_count(&peers->facts.connected, UINT64_MAX);
	close_connection(peer);
	peer->state = PEER_WAITING;
	peer_settle(peer);
	must(peer->calls_n == 0 && peer->bytes == 0);
	TAILQ_REMOVE(&peers->list, peer, link);
	peers->n--;
	peers_count(&peers->facts.known, UINT64_MAX);
	free(peer->assigned);
	free(peer->out);
	free(peer);
}
