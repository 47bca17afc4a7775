/*
 * grpc_peer.c - peers that speak HTTP/2 frame by frame, well or badly: see grpc_fixture.h.
 */
#include "grpc_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_HEAD 9
#define FRAME_MAX  16384
#define WINDOW	   65535

/* --- frames in --------------------------------------------------------------------------------- */

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put32(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 24);
	p[1] = (uint8_t)(value >> 16);
	p[2] = (uint8_t)(value >> 8);
	p[3] = (uint8_t)value;
}

struct reply *peer_reply(struct peer *peer, uint32_t stream)
{
	assert_true(stream / 2 < PEER_STREAMS);
	return &peer->replies[stream / 2];
}

static void take_text(char *to, size_t size, const nghttp2_nv *nv)
{
	snprintf(to, size, "%.*s", (int)nv->valuelen, (const char *)nv->value);
}

static void take_header(struct reply *reply, const nghttp2_nv *nv)
{
	const char *name = (const char *)nv->name;
	char number[16];

	if (strcmp(name, ":status") == 0)
		take_text(reply->http, sizeof(reply->http), nv);
	else if (strcmp(name, "grpc-message") == 0)
		take_text(reply->words, sizeof(reply->words), nv);
	else if (strcmp(name, "content-type") == 0)
		take_text(reply->content, sizeof(reply->content), nv);
	else if (strcmp(name, "grpc-accept-encoding") == 0)
		take_text(reply->accepts, sizeof(reply->accepts), nv);
	else if (strcmp(name, "allow") == 0)
		take_text(reply->allow, sizeof(reply->allow), nv);
	if (strcmp(name, "grpc-status") == 0) {
		take_text(number, sizeof(number), nv);
		reply->status = atoi(number);
	}
}

static void take_block(struct peer *peer, struct reply *reply, const uint8_t *block, size_t len)
{
	int flags = 0;

	reply->blocks++;
	while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
		nghttp2_nv nv;
		ssize_t n = nghttp2_hd_inflate_hd2(peer->inflater, &nv, &flags, block, len, 1);

		assert_true(n >= 0);
		block += n;
		len -= (size_t)n;
		if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
			take_header(reply, &nv);
	}
	nghttp2_hd_inflate_end_headers(peer->inflater);
}

static void take_goaway(struct peer *peer, const uint8_t *payload, size_t len)
{
	peer->goaways++;
	peer->goaway_last = get32(payload);
	peer->goaway_code = get32(payload + 4);
	snprintf(peer->goaway_words, sizeof(peer->goaway_words), "%.*s", (int)(len - 8),
		(const char *)payload + 8);
}

static void take_settings(struct peer *peer, const uint8_t *payload, size_t len)
{
	peer->settings = true;
	for (size_t at = 0; at + 6 <= len; at += 6)
		if (payload[at + 1] == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
			peer->initial_window = get32(payload + at + 2);
	for (size_t i = 0; i < PEER_STREAMS; i++)
		peer->replies[i].window = peer->initial_window;
	if (!peer->mute)
		peer_frame(peer, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
}

static void take_data(struct peer *peer, struct reply *reply, const uint8_t *payload, size_t len)
{
	uint8_t more[4];

	reply->data = realloc(reply->data, reply->len + len + 1);
	if (len > 0)
		memcpy(reply->data + reply->len, payload, len);
	reply->len += len;
	if (len == 0 || peer->deaf)
		return;
	put32(more, (uint32_t)len);
	peer_frame(peer, NGHTTP2_WINDOW_UPDATE, 0, 0, more, 4);
}

static void take_frame(struct peer *peer, uint8_t type, uint8_t flags, uint32_t stream,
	const uint8_t *payload, size_t len)
{
	struct reply *reply = peer_reply(peer, stream);

	switch (type) {
	case NGHTTP2_HEADERS:
		take_block(peer, reply, payload, len);
		reply->ended |= (flags & NGHTTP2_FLAG_END_STREAM) != 0;
		break;
	case NGHTTP2_DATA:
		take_data(peer, reply, payload, len);
		reply->ended |= (flags & NGHTTP2_FLAG_END_STREAM) != 0;
		break;
	case NGHTTP2_RST_STREAM:
		reply->reset = get32(payload);
		reply->ended = true;
		break;
	case NGHTTP2_SETTINGS:
		if ((flags & NGHTTP2_FLAG_ACK) == 0)
			take_settings(peer, payload, len);
		break;
	case NGHTTP2_PING:
		if ((flags & NGHTTP2_FLAG_ACK) != 0)
			peer->ping_ack = true;
		else
			peer_frame(peer, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, payload, len);
		break;
	case NGHTTP2_GOAWAY:
		take_goaway(peer, payload, len);
		break;
	case NGHTTP2_WINDOW_UPDATE:
		*(stream == 0 ? &peer->window : &reply->window) += get32(payload);
		break;
	default:
		fail_msg("a frame of type %d", type);
	}
}

/* Whole frames from what has come; what is not HTTP/2 stays in peer->in. */
static void take_frames(struct peer *peer)
{
	size_t at = 0;

	while (peer->in_len - at >= FRAME_HEAD && memcmp(peer->in + at, "HTTP", 4) != 0) {
		const uint8_t *head = peer->in + at;
		size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];

		if (peer->in_len - at < FRAME_HEAD + len)
			break;
		take_frame(peer, head[3], head[4], get32(head + 5) & 0x7fffffff, head + FRAME_HEAD,
			len);
		at += FRAME_HEAD + len;
	}
	memmove(peer->in, peer->in + at, peer->in_len - at);
	peer->in_len -= at;
}

static ssize_t get_bytes(struct peer *peer, void *to, size_t size)
{
	int n;

	if (peer->ssl == NULL)
		return recv(peer->fd, to, size, 0);
	n = SSL_read(peer->ssl, to, (int)size);
	if (n > 0)
		return n;
	errno = SSL_get_error(peer->ssl, n) == SSL_ERROR_WANT_READ ? EAGAIN : ECONNRESET;
	return -1;
}

static bool peer_read(struct peer *peer)
{
	ssize_t n;

	if (peer->shut || peer->deaf)
		return false;
	peer->in = realloc(peer->in, peer->in_len + 65536);
	n = get_bytes(peer, peer->in + peer->in_len, 65536);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
		peer->shut = true;
	if (n <= 0)
		return false;
	peer->in_len += (size_t)n;
	take_frames(peer);
	return true;
}

void fixture_turn(struct fixture *fixture)
{
	const struct timespec moment = {.tv_nsec = 100000};
	bool moved = false;

	if (fixture->server != NULL)
		ev_run(fixture->loop, EVRUN_NOWAIT);
	for (size_t i = 0; i < fixture->n_peers; i++)
		moved |= peer_read(fixture->peers[i]);
	if (!moved)
		nanosleep(&moment, NULL);
}

/* --- peers ------------------------------------------------------------------------------------- */

static void shake(struct peer *peer, SSL_CTX *tls)
{
	SSL *ssl = SSL_new(tls);
	struct fixture *fixture = peer->fixture;
	int n = 0, error = SSL_ERROR_NONE;

	assert_int_equal(SSL_set_fd(ssl, peer->fd), 1);
	SSL_set_connect_state(ssl);
	wait_for(fixture, (n = SSL_do_handshake(ssl)) == 1 ||
				  ((error = SSL_get_error(ssl, n)) != SSL_ERROR_WANT_READ &&
					  error != SSL_ERROR_WANT_WRITE));
	if (n == 1) {
		peer->ssl = ssl;
		return;
	}
	peer->shut = true;
	SSL_free(ssl);
}

const char *peer_from;

static void bind_to(int fd, const char *from)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	assert_int_equal(inet_pton(AF_INET, from, &address.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

struct peer *peer_new(struct fixture *fixture, SSL_CTX *tls)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct peer *peer = calloc(1, sizeof(*peer));
	const int on = 1;

	address.sin_port = htons((uint16_t)fixture->port);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	peer->fixture = fixture;
	peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (peer_from != NULL)
		bind_to(peer->fd, peer_from);
	peer->window = WINDOW;
	peer->initial_window = WINDOW;
	peer->next = 1;
	assert_int_equal(nghttp2_hd_inflate_new(&peer->inflater), 0);
	for (size_t i = 0; i < PEER_STREAMS; i++)
		peer->replies[i] = (struct reply){.status = -1, .reset = -1, .window = WINDOW};
	assert_int_equal(connect(peer->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	fcntl(peer->fd, F_SETFL, O_NONBLOCK);
	setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (tls != NULL)
		shake(peer, tls);
	assert_true(fixture->n_peers < sizeof(fixture->peers) / sizeof(fixture->peers[0]));
	fixture->peers[fixture->n_peers++] = peer;
	return peer;
}

void peer_greet(struct peer *peer, uint16_t setting, uint32_t value)
{
	struct fixture *fixture = peer->fixture;
	uint8_t entry[6] = {(uint8_t)(setting >> 8), (uint8_t)setting};

	put32(entry + 2, value);
	assert_true(peer_send(peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN));
	assert_true(
		peer_frame(peer, NGHTTP2_SETTINGS, 0, 0, entry, setting == 0 ? 0 : sizeof(entry)));
	wait_for(fixture, peer->settings);
}

struct peer *peer_ready(struct fixture *fixture)
{
	struct peer *peer = peer_new(fixture, NULL);

	peer_greet(peer, 0, 0);
	return peer;
}

void peer_free(struct peer **pointer)
{
	struct peer *peer = *pointer;
	struct fixture *fixture = peer->fixture;

	for (size_t i = 0; i < fixture->n_peers; i++)
		if (fixture->peers[i] == peer)
			fixture->peers[i] = fixture->peers[--fixture->n_peers];
	SSL_free(peer->ssl);
	close(peer->fd);
	nghttp2_hd_inflate_del(peer->inflater);
	for (size_t i = 0; i < PEER_STREAMS; i++)
		free(peer->replies[i].data);
	free(peer->in);
	free(peer);
	*pointer = NULL;
}

static ssize_t put_bytes(struct peer *peer, const void *bytes, size_t len)
{
	int n;

	if (peer->ssl == NULL)
		return send(peer->fd, bytes, len, MSG_NOSIGNAL);
	n = SSL_write(peer->ssl, bytes, (int)len);
	if (n > 0)
		return n;
	errno = SSL_get_error(peer->ssl, n) == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
	return -1;
}

bool peer_send(struct peer *peer, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	double start = ev_time();

	while (len > 0) {
		ssize_t n = put_bytes(peer, at, len);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
			continue;
		}
		if (errno != EAGAIN)
			return false;
		if (peer->deaf && ev_time() > start + 0.2)
			return true; /* it is full: that was the aim */
		assert_true(ev_time() < start + FIXTURE_WAIT_S);
		ev_run(peer->fixture->loop, EVRUN_NOWAIT);
	}
	return true;
}

bool peer_frame(struct peer *peer, uint8_t type, uint8_t flags, uint32_t stream,
	const void *payload, size_t len)
{
	uint8_t *frame = malloc(FRAME_HEAD + len);
	bool sent;

	frame[0] = (uint8_t)(len >> 16);
	frame[1] = (uint8_t)(len >> 8);
	frame[2] = (uint8_t)len;
	frame[3] = type;
	frame[4] = flags;
	put32(frame + 5, stream);
	if (len > 0)
		memcpy(frame + FRAME_HEAD, payload, len);
	sent = peer_send(peer, frame, FRAME_HEAD + len);
	free(frame);
	return sent;
}

/* --- calls ------------------------------------------------------------------------------------- */

static size_t put_text(uint8_t *to, size_t at, const char *text)
{
	size_t len = strlen(text), left = len;

	if (len < 127) {
		to[at++] = (uint8_t)len;
	} else {
		to[at++] = 127;
		for (left = len - 127; left >= 128; left /= 128)
			to[at++] = (uint8_t)(left % 128 + 128);
		to[at++] = (uint8_t)left;
	}
	memcpy(to + at, text, len);
	return at + len;
}

size_t peer_put_header(uint8_t *to, size_t at, const char *name, const char *value)
{
	to[at++] = 0;
	at = put_text(to, at, name);
	return put_text(to, at, value);
}

static bool has(const char *const *list, const char *name)
{
	for (; list != NULL && *list != NULL; list += 2)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

uint32_t peer_open(struct peer *peer, const char *path, const char *const *extra)
{
	static const char *const usual[] = {":method", "POST", ":scheme", "http", ":path", "",
		":authority", "test", "content-type", "application/grpc", "te", "trailers", NULL};
	uint8_t block[FRAME_MAX];
	uint32_t stream = peer->next;
	size_t len = 0;

	peer->next += 2;
	for (const char *const *h = extra; h != NULL && *h != NULL; h += 2)
		if (h[0][0] == ':')
			len = peer_put_header(block, len, h[0], h[1]);
	for (const char *const *h = usual; *h != NULL; h += 2)
		if (!has(extra, h[0]))
			len = peer_put_header(
				block, len, h[0], strcmp(h[0], ":path") == 0 ? path : h[1]);
	for (const char *const *h = extra; h != NULL && *h != NULL; h += 2)
		if (h[0][0] != ':')
			len = peer_put_header(block, len, h[0], h[1]);
	peer_frame(peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream, block, len);
	return stream;
}

void peer_data(struct peer *peer, uint32_t stream, const void *bytes, size_t len, bool last)
{
	struct reply *reply = peer_reply(peer, stream);
	struct fixture *fixture = peer->fixture;
	const uint8_t *at = bytes;

	do {
		size_t n = len < FRAME_MAX ? len : FRAME_MAX;

		wait_for(fixture, (peer->window >= (int64_t)n && reply->window >= (int64_t)n) ||
					  reply->ended || peer->shut);
		if (reply->ended || peer->shut)
			return;
		peer_frame(peer, NGHTTP2_DATA, last && n == len ? NGHTTP2_FLAG_END_STREAM : 0,
			stream, at, n);
		peer->window -= (int64_t)n;
		reply->window -= (int64_t)n;
		len -= n;
		if (len > 0) /* of nothing, `at` is NULL */
			at += n;
	} while (len > 0);
}

void peer_message(struct peer *peer, uint32_t stream, const void *message, size_t len, bool last)
{
	uint8_t *framed = malloc(len + 5);

	framed[0] = 0;
	put32(framed + 1, (uint32_t)len);
	if (len > 0)
		memcpy(framed + 5, message, len);
	peer_data(peer, stream, framed, len + 5, last);
	free(framed);
}

uint32_t peer_call(struct peer *peer, const char *path, const void *message, size_t len)
{
	uint32_t stream = peer_open(peer, path, NULL);

	peer_message(peer, stream, message, len, true);
	return stream;
}

struct reply *peer_wait(struct peer *peer, uint32_t stream)
{
	struct reply *reply = peer_reply(peer, stream);
	struct fixture *fixture = peer->fixture;

	wait_for(fixture, reply->ended);
	return reply;
}

void peer_is_served(struct peer *peer)
{
	struct reply *reply = peer_wait(peer, peer_call(peer, "/test.Echo/Echo", "hello", 5));

	assert_int_equal(reply->status, GRPC_OK);
	assert_int_equal(reply->len, 10);
	assert_memory_equal(reply->data, "\0\0\0\0\5hello", 10);
}

void peer_is_cut(struct peer *peer, const char *words)
{
	struct fixture *fixture = peer->fixture;

	fixture_serves_others(fixture);
	wait_for(fixture, peer->shut);
	assert_int_equal(fixture_facts(fixture).abused, 1);
	if (words == NULL)
		return;
	assert_int_equal(peer->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
	assert_string_equal(peer->goaway_words, words);
}
