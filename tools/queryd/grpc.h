/*
 * grpc.h - a gRPC server for unary calls (and one kind of server stream), on nghttp2 and libev.
 *
 *	socket -> TLS? -> HTTP/2 session -> call: path, deadline, message (gunzipped)
 *	                                      |  handler, at once or later
 *	                    frames <- grpc_reply | grpc_fail
 *
 * One thread, one loop, no locks.  Everything that a peer can make large is
 * bounded: connections, streams, headers, messages, bytes waiting to be read,
 * time.  A peer that breaks the rules loses its connection, and nobody else
 * notices.  When all connections are taken, or three quarters of them by one
 * address, a new one ends the one (of that address) that has been without a call
 * for longest (patience.idle at least; a Watch is no call here).  Handlers of one
 * connection get 2 ms of a round of the loop; its other calls wait.
 *
 * Answered here: grpc.health.v1.Health, and grpc.reflection (v1, v1alpha).
 *
 * A call lives until it has been answered (grpc_reply, grpc_fail, or by this
 * file: deadline, reset, connection gone).  A handler that keeps a call for
 * later must set grpc_on_end and forget the call when that is called.
 */
#ifndef TALLY_QUERYD_GRPC_H
#define TALLY_QUERYD_GRPC_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The codes of gRPC (statuscodes.md) that we give. */
enum grpc_status {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2, /* only counted: what was not gRPC at all */
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_UNAUTHENTICATED = 16,
	GRPC_STATUSES = 17
};

struct grpc_call;

/* Called with the whole request message, which is borrowed until it returns. */
typedef void grpc_handler(struct grpc_call *call, const uint8_t *message, size_t len, void *arg);

enum grpc_kind {
	GRPC_UNARY,	    /* one message, one grpc_reply or grpc_fail */
	GRPC_SERVER_STREAM, /* one message, grpc_send any number of times, grpc_fail(GRPC_OK) */
	GRPC_BIDI	    /* the handler is called for each message, and with NULL at their end */
};

struct grpc_method {
	const char *path; /* "/proto.IngestLimits/ExceedsLimits" */
	grpc_handler *handle;
	enum grpc_kind kind;
};

/* How long a peer may take, ms.  0 = the usual. */
struct grpc_patience {
	unsigned greeting; /* TLS handshake and first SETTINGS: 10 s */
	unsigned request;  /* from the first byte of a call to its last: 30 s */
	unsigned answer;   /* until an answer has been taken: 30 s */
	unsigned idle;	   /* ... without a call: may be ended for a new connection: 10 s */
};

struct grpc_options {
	struct ev_loop *loop;		   /* kept, as all of these */
	const struct grpc_method *methods; /* ended by one without a path */
	void *arg;			   /* given to handlers */
	/*
	 * grpc.health.v1.Health: is this service ("proto.IngestLimits", "" = all of us) fit to
	 * be asked?  Called often, also once a second for watchers.  NULL: always.
	 */
	bool (*serving)(const char *service, void *arg);
	/*
	 * May this be called, with this "authorization" (NULL: none), from the
	 * other side of `fd`?  GRPC_OK, or a status and one line in *why that stays.  Health may
	 * always; who sends two may not.  NULL: everything may.
	 */
	enum grpc_status (*may)(
		const char *authorization, size_t len, int fd, const char **why, void *arg);
	const uint8_t *descriptors; /* a FileDescriptorSet; NULL: no reflection */
	size_t descriptors_len;
	size_t message_max; /* bytes of a request message, after gunzip; of our own methods 4 KiB */
	size_t memory_max;  /* bytes of all requests and answers under way; 0 = the usual */
	unsigned connections_max, streams_max;
	struct grpc_patience patience;
	/*
	 * Answers that handlers give before they return leave together, when all calls that came
	 * in one read have been handled: twice the calls of a client that has many under way, but
	 * what grpc_reply promises is then true only of answers that are given later.
	 */
	bool gather;
	/* TLS: all NULL or "" = cleartext.  client_ca: clients must have a certificate of it. */
	const char *cert_file, *key_file, *client_ca_file;
};

#define GRPC_WHY_SIZE 512

struct grpc_server;

/*
 * Serves on `fd` (listening, non-blocking; taken).  NULL with one line in `why`: a certificate
 * cannot be used (fd is closed then).  The process must ignore SIGPIPE.
 */
struct grpc_server *grpc_start(const struct grpc_options *options, int fd, char why[GRPC_WHY_SIZE]);

/* Reads certificates again, for connections to come.  false, `why`: the old ones stay in use. */
bool grpc_renew_tls(struct grpc_server *server, char why[GRPC_WHY_SIZE]);

/*
 * Accepts no more, GOAWAY to everybody, calls under way may end, watchers of health are told;
 * `done` is called when no connection is left, maybe before this returns.  A call that is
 * never answered holds it up: whoever stops has a time limit and calls grpc_free.
 */
void grpc_drain(struct grpc_server *server, void (*done)(void *arg), void *arg);

/* Ends all of it at once. */
void grpc_free(struct grpc_server **server);

/* --- a call ----------------------------------------------------------------------------------- */

/* When the client stops waiting, CLOCK_BOOTTIME ns; UINT64_MAX = it did not say. */
uint64_t grpc_deadline_ns(const struct grpc_call *call);

/*
 * Called once if the call ends before it was answered by its handler.  It may
 * answer other calls, but must not use this one.
 */
void grpc_on_end(struct grpc_call *call, void (*ended)(void *arg), void *arg);

/* Whatever the handler wants to find again. */
void grpc_set_data(struct grpc_call *call, void *data);
void *grpc_data(const struct grpc_call *call);

/*
 * The answer: message and status OK; `message` is copied.  The call is over.
 * What can be written at once is written before this returns, so a check that
 * was made right before still holds when the answer leaves.  What does not fit
 * into the client's window (64 KiB unless it gives more) or waits behind other
 * output leaves later, unchecked.
 */
void grpc_reply(struct grpc_call *call, const uint8_t *message, size_t len);

/* One more message of a stream.  Ends the call (grpc_on_end) when the client does not read. */
void grpc_send(struct grpc_call *call, const uint8_t *message, size_t len);

/* Ends the call with a status and one line that says why (NULL for OK). */
void grpc_fail(struct grpc_call *call, enum grpc_status status, const char *why);

/* --- for metrics ------------------------------------------------------------------------------ */

struct grpc_facts {
	uint64_t connections;	    /* open now */
	uint64_t calls;		    /* open now */
	uint64_t memory;	    /* bytes of requests and answers under way */
	uint64_t accepted, refused; /* connections, ever */
	uint64_t abused;	    /* connections that were ended because of what they did */
	uint64_t answers[GRPC_STATUSES];
	uint64_t bytes_in, bytes_out;
};
void grpc_facts(const struct grpc_server *server, struct grpc_facts *facts);

#endif
