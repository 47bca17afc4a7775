/*
 * peers.h - the other instances: streams that are not served here are asked there.
 *
 *	query.peers -> names -DNS-> addresses -> peers, a connection each, kept open
 *	                                           |  every few seconds: GetAssignedPartitions
 *	                                           v
 *	peers_ask: stream -> partition -> the peer with the highest assigned_at -> one call per peer
 *	           a peer that says UNAVAILABLE -> maps again, at once -> another peer, once
 *
 * Asks proto.IngestLimits of the peers, never their front-end service: no loops.
 * What was sent and has no answer is never sent again, and never twice to one
 * instance.  A peer that is dead, slow or mad costs its own answers only.
 *
 * One thread: the loop's, for all but peers_facts.  Names are looked up in a
 * thread of their own.  Nothing here blocks.
 */
#ifndef TALLY_QUERYD_PEERS_H
#define TALLY_QUERYD_PEERS_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ask.h"

#define PEERS_MAX      64 /* addresses; more are left out, with one line in the log */
#define PEERS_WHY_SIZE 512

struct peers_options {
	struct ev_loop *loop; /* kept */
	const char *list;     /* query.peers; "" = nobody */
	int listening_fd;   /* where our own gRPC listens: that address is left out; -1 = nowhere */
	size_t message_max; /* bytes of a request; what is larger goes in several calls */
	const char *cert_file, *key_file; /* NULL or "" = cleartext, else shown to the peers */
	const char *ca_file; /* peers must have a certificate of it; NULL or "" = of the system's */
	const char *token_file; /* has the token that is shown to them; NULL or "" = none */
	/* ms; 0 = the usual (peers_private.h).  For tests. */
	unsigned poll_ms, call_ms, back_off_ms, back_off_max_ms, names_ms;
};

struct peers;

/* NULL with one line in `why` that says what is wrong: the list, a certificate or the token. */
struct peers *peers_new(const struct peers_options *options, char why[PEERS_WHY_SIZE]);

/*
 * Reads certificates again, for connections to come, and the token, for calls to come.  false,
 * `why`: the old ones stay in use.
 */
bool peers_renew(struct peers *peers, char why[PEERS_WHY_SIZE]);

/* Of the streams those with result ASK_UNSERVED are asked; the others are left as they are. */
struct peers_ask {
	enum ask_kind kind;
	const char *tenant; /* borrowed until done */
	struct ask_stream *streams;
	size_t n;
	uint32_t partitions;  /* of the topic: hash % partitions is asked */
	uint64_t deadline_ns; /* CLOCK_BOOTTIME; never later than call_ms (2 s) from now */
	/*
	 * Each stream is ACCEPTED, REJECTED or FAILED then, or still UNSERVED: no peer
	 * serves it, or the one that did has said that it does not.
	 */
	void (*done)(struct peers_ask *ask);
	void *arg;
	void *private; /* of peers_ask.c */
};

/* `done` is called exactly once, maybe before this returns, unless peers_cancel comes first. */
void peers_ask(struct peers *peers, struct peers_ask *ask);

/* `done` will not be called.  What was sent is done by the peers all the same. */
void peers_cancel(struct peers *peers, struct peers_ask *ask);

/* For metrics; from any thread. */
struct peers_facts {
	uint64_t known, connected; /* addresses now, without our own */
	uint64_t partitions;	   /* served by any of them, as far as known */
	uint64_t calls;		   /* open now */
	uint64_t answered;	   /* calls, ever */
	uint64_t unavailable;	   /* ... answered with UNAVAILABLE, or refused unseen */
	uint64_t forbidden;	   /* ... refused since the peer does not take our token */
	uint64_t failed;	   /* ... outcome unknown: late, broken off, another error */
	uint64_t full;		   /* not sent: too much was under way to that peer */
	uint64_t strange;	   /* results for what was not asked, unknown reasons, garbage */
	uint64_t connects, lost;   /* connections, ever */
	uint64_t streams_asked, streams_retried;
};
void peers_facts(struct peers *peers, struct peers_facts *facts);

/* Ends all of it at once: asks under way are cancelled. */
void peers_free(struct peers **peers);

#endif
