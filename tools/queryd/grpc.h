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
 * notices.
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
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_STATUSES = 17
};

struct grpc_call;

/* Called with the whole request message, which is borrowed until it returns. */
typedef void grpc_handler(struct grpc_call *call, const uint8_t *message, size_t len, void *arg);

struct grpc_method {
	const char *path; /* "/proto.IngestLimits/ExceedsLimits" */
	grpc_handler *handle;
	bool streams; /* grpc_send may be called before grpc_fail(GRPC_OK) ends it */
};

struct grpc_options {
	struct ev_loop *loop;		   /* kept, as all of these */
	const struct grpc_method *methods; /* ended by one without a path */
	void *arg;			   /* given to handlers */
	size_t message_max;		   /* bytes of a request message, after gunzip */
	unsigned connections_max, streams_max;
	/* TLS: all NULL = cleartext.  client_ca: clients must have a certificate of it. */
	const char *cert_file, *key_file, *client_ca_file;
};

struct grpc_server;

/* Serves on `fd` (listening; taken).  NULL with one line in `why`: a certificate cannot be used. */
struct grpc_server *grpc_start(const struct grpc_options *options, int fd, char why[512]);

/* Reads certificates again, for connections to come.  false, `why`: the old ones stay in use. */
bool grpc_renew_tls(struct grpc_server *server, char why[512]);

/* GOAWAY to everybody, calls under way may end; `done` is called when no connection is left. */
void grpc_drain(struct grpc_server *server, void (*done)(void *arg), void *arg);

/* Ends all of it at once. */
void grpc_free(struct grpc_server **server);

/* --- a call ----------------------------------------------------------------------------------- */

/* When the client stops waiting, CLOCK_BOOTTIME ns; UINT64_MAX = it did not say. */
uint64_t grpc_deadline_ns(const struct grpc_call *call);

/* Called once if the call ends before it was answered by its handler. */
void grpc_on_end(struct grpc_call *call, void (*ended)(void *arg), void *arg);

/* Whatever the handler wants to find again. */
void grpc_set_data(struct grpc_call *call, void *data);
void *grpc_data(const struct grpc_call *call);

/*
 * The answer: message and status OK; `message` is copied.  The call is over.
 * What can be written at once is written before this returns, so a check that
 * was made right before still holds when the answer leaves.
 */
void grpc_reply(struct grpc_call *call, const uint8_t *message, size_t len);

/* One more message of a stream. */
void grpc_send(struct grpc_call *call, const uint8_t *message, size_t len);

/* Ends the call with a status and one line that says why (NULL for OK). */
void grpc_fail(struct grpc_call *call, enum grpc_status status, const char *why);

/* --- for metrics ------------------------------------------------------------------------------ */

struct grpc_facts {
	uint64_t connections;	    /* open now */
	uint64_t calls;		    /* open now */
	uint64_t accepted, refused; /* connections, ever */
	uint64_t abused;	    /* connections that were ended because of what they did */
	uint64_t answers[GRPC_STATUSES];
	uint64_t bytes_in, bytes_out;
};
void grpc_facts(const struct grpc_server *server, struct grpc_facts *facts);

#endif
