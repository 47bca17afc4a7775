/*
 * peers_fixture.h - instances that answer as a test wants them to, all in one loop with those who ask.
 */
#ifndef TALLY_TESTS_PEERS_FIXTURE_H
#define TALLY_TESTS_PEERS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/queryd/grpc.h"
#include "tools/queryd/peers.h"
#include "tools/queryd/peers_private.h"

#define PARTITIONS 16
#define SEEN_MAX   64
#define LATE_MS	   300 /* call_ms where a test waits for it */

/* What an instance does with a question. */
enum mood {
	ACCEPTS, /* all but the hashes in `rejects`, which get `reason` */
	REFUSES, /* UNAVAILABLE */
	LEAVES,	 /* UNAVAILABLE, and its map is empty from now on */
	SLEEPS,	 /* never answers */
	DIES,	 /* closes all connections */
	BABBLES, /* an answer that is no message */
	SPILLS,	 /* an answer that is far too large */
	FAILS,	 /* INTERNAL */
};

struct instance {
	struct grpc_server *grpc;
	char address[64]; /* "127.0.0.1:40001" */
	uint16_t port;
	int64_t assigned[PARTITIONS]; /* 0 = not served */
	enum mood mood;
	bool map_sleeps, map_fails; /* ... when asked for its map */
	uint64_t rejects[8];
	unsigned rejects_n;
	uint32_t reason;
	uint64_t extra; /* a hash that was not asked for: rejected as well */
	/* What it has seen. */
	unsigned questions, maps;
	size_t streams, largest;
	uint64_t seen[SEEN_MAX];
	char policy[32];
	bool dies;
	struct grpc_options options;
};

struct stage {
	struct ev_loop *loop;
	struct peers *peers;
	struct instance a, b;
	bool done;
	unsigned dones;
};
extern struct stage stage;

/* Starts to listen on host:port (0 = any). */
void instance_start(struct instance *instance, const char *host, uint16_t port);
void instance_stop(struct instance *instance);

/* Serves these from `first` to `last`, since `at`. */
void instance_serves(struct instance *instance, unsigned first, unsigned last, int64_t at);

/* Both of the stage; a has partitions 0 to 7, b 8 to 15. */
void two_instances(void);
/* Their addresses, as a list; valid until the next one. */
const char *peers_both(void);

/* On a loop of the caller's; peers_setup makes one. */
void stage_open(struct ev_loop *loop);
void stage_close(void);
int peers_setup(void **state);
int peers_teardown(void **state);

/* Whom to ask: "a", "a,b" and so on are written out by the test. */
void peers_are(const char *list);
void peers_are_as(const char *list, struct peers_options options);

/* Turns the loop until `condition` holds; false: 20 s were not enough. */
bool until(bool (*condition)(uint64_t want), uint64_t want);
bool partitions_are(uint64_t want);
bool connected_are(uint64_t want);
bool known_are(uint64_t want);

/* Asks about streams whose hash is in `hashes`, waits for the results.  Returns them. */
struct ask_stream *ask(enum ask_kind kind, const uint64_t *hashes, size_t n);
struct ask_stream *ask_within(
	enum ask_kind kind, const uint64_t *hashes, size_t n, unsigned deadline_ms);

/* Whom to ask, and so many partitions are known. */
void peers_meet(const char *list, uint64_t partitions);

struct peers_facts facts_now(void);

/* A listening socket on host:port (0 = any, *port gets it). */
int listening(const char *host, uint16_t *port);

#define ask_one(hash) (ask(ASK_EXCEEDS, (const uint64_t[]){hash}, 1)->result)

#endif
