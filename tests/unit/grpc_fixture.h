/*
 * grpc_fixture.h - a gRPC server, and peers that speak HTTP/2 frame by frame, well or badly.
 *
 *	fixture: loop, server with the methods of /test.Echo/ (below)
 *	peer:    socket, TLS? -> frames out as the test says -> frames in, sorted into replies
 *
 * grpc_fixture.c is the server's part, grpc_peer.c the peers'.  One thread: whoever waits turns the server's loop meanwhile (fixture_turn).
 */
#ifndef TALLY_TESTS_GRPC_FIXTURE_H
#define TALLY_TESTS_GRPC_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include "tools/queryd/grpc.h"

#define FIXTURE_WAIT_S	     20
#define FIXTURE_IMPATIENT_MS 300
#define FIXTURE_MESSAGE_MAX  (4 * 1024 * 1024)
#define PEER_STREAMS	     4096

/*
 *	Echo	the message		Never	no answer; fixture.kept is the call
 *	Thrice	a stream: it three times	Chat	bidi: each message, "." at their end
 *	Busy	as Echo, after 3 ms of work
 *	Endless	a stream that goes on as long as the client takes it (fixture.sent)
 */
struct peer;

struct fixture {
	struct ev_loop *loop;
	struct grpc_server *server;
	struct grpc_options options;
	int port;
	struct grpc_call *kept; /* the last of Never; NULL once it has ended */
	unsigned handled, ended;
	bool unfit; /* what options.serving says */
	bool drained;
	char why[GRPC_WHY_SIZE];
	void *scratch; /* a test's own */
	struct peer *peers[64];
	size_t n_peers;
};

/* Usual options; change them between the two. */
struct fixture *fixture_new(void);
void fixture_start(struct fixture *fixture);
void fixture_turn(struct fixture *fixture);

/* Started: with the usual options; with little patience, FIXTURE_IMPATIENT_MS for everything. */
struct fixture *fixture_usual(void);
struct fixture *fixture_impatient(void);

/* A well-behaved peer is served; nothing is left of the others; the end. */
void fixture_end(struct fixture **fixture);

struct grpc_facts fixture_facts(struct fixture *fixture);

/* A new peer that behaves is served. */
void fixture_serves_others(struct fixture *fixture);

#define wait_for(fixture, condition)                                                               \
	do {                                                                                       \
		double until_ = ev_time() + FIXTURE_WAIT_S;                                        \
		while (!(condition)) {                                                             \
			if (ev_time() > until_)                                                    \
				fail_msg("waited in vain for: %s", #condition);                    \
			fixture_turn(fixture);                                                     \
		}                                                                                  \
	} while (0)

struct reply {
	char http[4];	 /* ":status" */
	int status;	 /* grpc-status; -1 = none */
	char words[512]; /* grpc-message */
	char content[64], accepts[64], allow[16];
	unsigned blocks; /* of headers: 1 = trailers only */
	uint8_t *data;
	size_t len;
	bool ended;	/* END_STREAM or RST_STREAM */
	int64_t reset;	/* its code; -1 = none */
	int64_t window; /* we may send so much */
};

struct peer {
	struct fixture *fixture;
	int fd;
	SSL *ssl;
	bool shut;     /* the server has ended the connection */
	bool deaf;     /* reads nothing */
	bool mute;     /* acknowledges no SETTINGS */
	bool settings; /* the server's have come */
	bool ping_ack;
	unsigned goaways;
	uint32_t goaway_last, goaway_code;
	char goaway_words[128];
	int64_t window, initial_window;
	uint32_t next; /* stream */
	nghttp2_hd_inflater *inflater;
	uint8_t *in;
	size_t in_len;
	struct reply replies[PEER_STREAMS];
};

/* The address that peers connect from; NULL = any.  Reset by fixture_new. */
extern const char *peer_from;

/* Connected; nothing was sent.  `tls`: and its handshake is over, well (peer->ssl) or not. */
struct peer *peer_new(struct fixture *fixture, SSL_CTX *tls);
/* Preface and SETTINGS of one entry (id 0: none) are sent, the server's have come. */
void peer_greet(struct peer *peer, uint16_t setting, uint32_t value);
struct peer *peer_ready(struct fixture *fixture);
void peer_free(struct peer **peer);

/* As much as the server takes; false when it has ended the connection. */
bool peer_send(struct peer *peer, const void *bytes, size_t len);
bool peer_frame(struct peer *peer, uint8_t type, uint8_t flags, uint32_t stream,
	const void *payload, size_t len);

/* Appends one header, not indexed, not Huffman coded; returns the new length. */
size_t peer_put_header(uint8_t *to, size_t at, const char *name, const char *value);
/* The usual ones of a call, then `extra`: name, value, ..., NULL.  Returns the stream. */
uint32_t peer_open(struct peer *peer, const char *path, const char *const *extra);
/* The bytes of a message with their prefix, within the windows. */
void peer_message(struct peer *peer, uint32_t stream, const void *message, size_t len, bool last);
void peer_data(struct peer *peer, uint32_t stream, const void *bytes, size_t len, bool last);
/* All of a call. */
uint32_t peer_call(struct peer *peer, const char *path, const void *message, size_t len);

struct reply *peer_reply(struct peer *peer, uint32_t stream);
/* Waits for its end. */
struct reply *peer_wait(struct peer *peer, uint32_t stream);
/* A call is answered as it should be. */
void peer_is_served(struct peer *peer);
/* Others are served, and it is cut off, as the only one; told to be calm in these words, if any. */
void peer_is_cut(struct peer *peer, const char *words);

#endif
