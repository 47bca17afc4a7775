/*
 * ask_conn.h - one HTTP/2 connection with gRPC calls on it (nghttp2, in the clear).
 *
 *	ask_conn_open -> ask_conn_call ... -> ask_conn_work -> done(call) for each
 *
 * Nothing blocks.  A connection that is lost ends its calls with ASK_LOST, and can
 * be opened again.
 */
#ifndef TALLY_LOAD_ASK_CONN_H
#define TALLY_LOAD_ASK_CONN_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASK_LOST (-1)

struct ask_call {
	/* Of the caller. */
	const uint8_t *request; /* whole message, valid until done */
	size_t request_len;
	uint64_t give_up_ns; /* CLOCK_MONOTONIC: cancelled then, with ASK_LOST */
	void *arg;
	/* Filled. */
	int status; /* of gRPC, or ASK_LOST */
	uint8_t *reply;
	size_t reply_len;
	char why[128];
	/* Private. */
	size_t sent, reply_size;
	int32_t stream;
	struct ask_call *next, **prev;
};

struct ask_conn;

/* All kept.  `timeout`: value of grpc-timeout. */
struct ask_conn_options {
	const struct addrinfo *address;
	const char *authority, *path, *timeout;
	void (*done)(struct ask_call *call);
};
struct ask_conn *ask_conn_new(const struct ask_conn_options *options);
void ask_conn_free(struct ask_conn **conn);

/* Begins to connect.  false: refused at once, errno says why. */
bool ask_conn_open(struct ask_conn *conn);

/* Takes calls now: connected, and not told to go away. */
bool ask_conn_ready(const struct ask_conn *conn);

/* The call is over when done was called for it. */
void ask_conn_call(struct ask_conn *conn, struct ask_call *call);

/* For poll(): the descriptor, -1 when it is not open; the events. */
int ask_conn_fd(const struct ask_conn *conn);
short ask_conn_events(const struct ask_conn *conn);

/*
 * Reads what is there, as poll() gives it, and writes what can be; cancels what is late.
 * false: it is lost, all its calls are done.
 */
bool ask_conn_work(struct ask_conn *conn, short revents, uint64_t now_ns);

#endif
