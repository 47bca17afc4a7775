/*
 * grpc_private.h - what the files of the gRPC server share: server, connection, call.
 *
 *	grpc.c		server: accept, the second's walk, drain
 *	  grpc_conn.c	connection: bytes in and out, states
 *	  grpc_cut.c	... cut off, and why
 *	    grpc_h2.c	what nghttp2 tells us: headers, data, floods
 *	      grpc_call.c	call: headers, deadline, message
 *	        grpc_answer.c	its answer
 *	grpc_health.c grpc_reflect.c	methods of our own
 *
 * No user code (handlers, grpc_on_end) runs inside nghttp2: calls that are
 * whole or over wait in a list until it has returned (conn_settle).  No
 * connection is freed where it broke: it waits for server_reap, so every
 * pointer to a connection is good until the loop's next round.
 */
#ifndef TALLY_QUERYD_GRPC_PRIVATE_H
#define TALLY_QUERYD_GRPC_PRIVATE_H

#include <netinet/in.h>
#include <sys/queue.h>

#include <nghttp2/nghttp2.h>

#include "grpc.h"
#include "tls.h"

#define GRPC_IO_SIZE	 (64 * 1024) /* read and written at a time, one connection's turn */
#define GRPC_OWN_MESSAGE 4096	     /* bytes of a request of health or reflection, at most */

/* --- calls ------------------------------------------------------------------------------------- */

/* Each call is in the list of its connection for its state; the oldest first. */
enum call_state {
	CALL_HEADERS,	/* headers are coming */
	CALL_BODY,	/* its message is coming */
	CALL_READY,	/* to be given to its handler */
	CALL_ASKED,	/* its handler has it */
	CALL_ANSWERING, /* bytes of the answer wait for the peer */
	CALL_GONE,	/* the stream is closed, the handler must be told */
	CALL_STATES
};

struct bytes {
	uint8_t *at;
	size_t len, size;
};

enum call_encoding { ENCODING_IDENTITY, ENCODING_GZIP, ENCODING_OTHER };

struct grpc_call {
	struct conn *conn;
	TAILQ_ENTRY(grpc_call) link;
	const struct grpc_method *method; /* NULL = unknown path */
	enum call_state state;
	int32_t stream;
	uint64_t since_ns; /* in this state */
	/* the request */
	enum call_encoding encoding;
	bool post, content_ok, timeout_bad;
	size_t message_max;   /* of its method */
	bool all_here;	      /* the peer has said its last word */
	bool headers_large;   /* more than we take */
	enum grpc_status may; /* options.may has said; asked when `authorized` */
	const char *may_why;
	unsigned authorized; /* so many headers "authorization" */
	uint64_t deadline_ns;
	ev_timer deadline;
	struct bytes in; /* framed, as it came */
	size_t in_at;	 /* GRPC_BIDI: handled up to here */
	/* the answer */
	struct bytes out; /* framed, not sent up to out_at */
	size_t out_at;
	bool begun;    /* response headers were submitted */
	bool finished; /* ... and nothing is to be added */
	bool bare;     /* out is not gRPC: no trailers */
	enum grpc_status status;
	char *why;
	/* the handler's */
	void (*ended)(void *arg);
	void *ended_arg;
	void *data;
};

TAILQ_HEAD(call_list, grpc_call);

/* NULL: no memory, or over the budget. */
struct grpc_call *call_new(struct conn *conn, int32_t stream);
void call_free(struct grpc_call *call);
void call_move(struct grpc_call *call, enum call_state state);

/* From grpc_h2.c. */
/* call_headers_end: all headers are there. */
void call_header(struct grpc_call *call, const char *name, size_t name_len, const char *value,
	size_t value_len);
void call_headers_end(struct grpc_call *call);
void call_data(struct grpc_call *call, const uint8_t *data, size_t len);
void call_request_end(struct grpc_call *call);
void call_stream_closed(struct grpc_call *call);

/* Gives it to its handler.  The call may be gone when this returns. */
void call_handle(struct grpc_call *call);

/* As grpc_fail, but nothing is written yet.  The call may be gone when something was written. */
void call_fail(struct grpc_call *call, enum grpc_status status, const char *why);

/* ... and its handler, if it has it, is told to forget it; maybe by answering others. */
void call_fail_and_tell(struct grpc_call *call, enum grpc_status status, const char *why);

/* Not gRPC: an HTTP answer with a line of text. */
void call_answer_http(struct grpc_call *call, const char *status, bool say_allow, const char *text);

/*
 * Room for `more` bytes, and for `most` in all if that is known.  It grows in
 * steps that depend on what has come, never on what was promised.
 */
bool call_reserve(struct grpc_call *call, struct bytes *bytes, size_t more, size_t most);
void call_append(struct bytes *bytes, const void *data, size_t len);
void call_bytes_free(struct conn *conn, struct bytes *bytes);

/* It will never be answered: the handler is told, the call freed. */
void call_drop(struct grpc_call *call);

/* --- connections ------------------------------------------------------------------------------- */

enum conn_state {
	CONN_SHAKING,	/* TLS */
	CONN_GREETING,	/* waiting for the first SETTINGS */
	CONN_OPEN,	/* ... which have come */
	CONN_LINGERING, /* we have said our last word: read and forget until the peer ends */
	CONN_DOOMED	/* waits for server_reap */
};

/* So many at once, and so many a second. */
struct allowance {
	double left;
	uint64_t at_ns;
};

struct conn {
	struct grpc_server *server;
	TAILQ_ENTRY(conn) link;
	enum conn_state state;
	uint64_t since_ns;    /* in this state */
	uint64_t used_ns;     /* last end of a call, or start */
	struct in6_addr from; /* whose it is; IPv4 mapped */
	struct wire wire;
	ev_io io;
	ev_timer again;
	nghttp2_session *session;
	uint8_t *out; /* what the socket did not take; NULL = nothing */
	size_t out_at, out_len;
	uint64_t out_since_ns;
	struct call_list calls[CALL_STATES];
	unsigned calls_n, watches_n; /* watches_n: those that only watch our health */
	size_t memory;		     /* part of server->memory */
	struct allowance resets, noise;
	const char *abuse;   /* what it did; set inside nghttp2, acted upon after */
	size_t lingered;     /* bytes read and forgotten */
	bool inside;	     /* nghttp2 is at work */
	bool held;	     /* nothing is written: options.gather */
	bool more;	     /* read again without being told */
	bool said_last;	     /* the final GOAWAY */
	size_t header_bytes; /* of the headers that are coming */
	uint8_t first;	     /* byte that came */
};

TAILQ_HEAD(conn_list, conn);

void conn_new(struct grpc_server *server, int fd, const struct in6_addr *from);
void conn_free(struct conn *conn);

/* Writes what there is to write, as far as that goes without waiting. */
void conn_flush(struct conn *conn);

/* The end, at once.  Freed later. */
void conn_doom(struct conn *conn);

void conn_enter(struct conn *conn, enum conn_state state);

/* As much as the socket takes; what was taken, or -1. */
ssize_t conn_write(struct conn *conn, const uint8_t *bytes, size_t len);

/* Its calls are over, and their handlers are told. */
void conn_end_session(struct conn *conn);

/* What the second brings: impatience. */
void conn_tick(struct conn *conn);

/* GOAWAY in two steps: "no more, please", and after a ping "nothing after this was seen". */
void conn_drain(struct conn *conn);
void conn_say_last(struct conn *conn);

/* --- cutting off ------------------------------------------------------------------------------- */

/* A broken rule: counted and logged ... */
void conn_blame(struct conn *conn, const char *event, const char *what);

/* ... and GOAWAY, the end. */
void conn_cut(struct conn *conn, const char *what);

/* nghttp2 does not understand it. */
void conn_broken(struct conn *conn, ssize_t error);

/* Our side ends; what the peer still sends is forgotten, so that it can read our last words. */
void conn_linger(struct conn *conn);
void conn_forget_input(struct conn *conn);

/* --- nghttp2 ----------------------------------------------------------------------------------- */

/* What all sessions share.  false: no memory. */
bool h2_prepare(struct grpc_server *server);

/* Makes conn->session, with our SETTINGS to be sent first. */
bool h2_open(struct conn *conn);

/* GOAWAY with the highest id, and the ping whose answer calls conn_say_last. */
void h2_say_drain(struct conn *conn);

/* --- server ------------------------------------------------------------------------------------ */

struct watch;
TAILQ_HEAD(watch_list, watch);

struct grpc_server {
	struct grpc_options options;
	SSL_CTX *tls; /* NULL = cleartext */
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *h2_options;
	int fd; /* listening; -1 = no more */
	ev_io accept;
	ev_timer tick, reap;
	struct conn_list conns;	 /* least recently used first */
	struct conn_list doomed; /* wait for reap */
	uint64_t now_ns;	 /* of this turn */
	size_t memory;
	struct grpc_facts facts;
	struct watch_list watches; /* of grpc_health.c */
	bool accept_paused, draining;
	void (*drained)(void *arg);
	void *drained_arg;
	uint8_t in[GRPC_IO_SIZE];
	uint8_t out[GRPC_IO_SIZE + 16384 + 64]; /* one frame more */
};

uint64_t server_turn(struct grpc_server *server);
/* *message_max: what one message of it may have. */
const struct grpc_method *server_method(
	const struct grpc_server *server, const char *path, size_t len, size_t *message_max);

/* Nobody needs a token for it: grpc.health.v1. */
bool server_is_open(const struct grpc_method *method);

/* Of the budget, for a call of this connection; large ones leave something for small ones. */
bool server_charge(struct conn *conn, size_t bytes, size_t have);
void server_refund(struct conn *conn, size_t bytes);

/* --- methods of our own ------------------------------------------------------------------------ */

const struct grpc_method *grpc_health_table(void);
const struct grpc_method *grpc_reflect_table(void);
void grpc_health_tick(struct grpc_server *server);
void grpc_health_end(struct grpc_server *server);

#endif
