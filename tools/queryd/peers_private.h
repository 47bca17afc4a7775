/*
 * peers_private.h - what the files of peers share: the set, a peer, a call.
 *
 *	peers.c		the set: list, addresses, certificates, facts
 *	  peer_dns.c	names -> addresses, in a thread of its own
 *	  peer_conn.c	a peer's connection: states, bytes in and out, back-off
 *	    peer_call.c	what nghttp2 tells us; calls and what became of them
 *	  peer_map.c	GetAssignedPartitions: who serves what, and how old that is
 *	  peer_message.c	bytes of requests and answers
 *	peers_ask.c	an ask: streams -> calls -> results, at most two tries
 *
 * Nobody is called back from inside a function that he called: what ends waits
 * in peer->over until the loop is back in peer_conn.c (peer_settle).
 */
#ifndef TALLY_QUERYD_PEERS_PRIVATE_H
#define TALLY_QUERYD_PEERS_PRIVATE_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include <nghttp2/nghttp2.h>

#include "peers.h"
#include "tls.h"

#include "shm/table.h"

#define PEERS_POLL_MS	      5000 /* GetAssignedPartitions: also what notices a dead peer */
#define PEERS_CALL_MS	      2000 /* longest call */
#define PEERS_BACK_OFF_MS     100  /* first wait after a connection was lost */
#define PEERS_BACK_OFF_MAX_MS 5000
#define PEERS_NAMES_MS	      30000 /* names are looked up again */
#define PEERS_FRESH_MS	      1000 /* a stream that nobody serves: maps older than that are asked again */
#define PEERS_WAIT_MS	      250 /* longest wait for maps */

#define PEER_IO_SIZE	 (64 * 1024)
#define PEER_CALLS_MAX	 256 /* under way to one peer ... */
#define PEER_BYTES_MAX	 (64 * 1024 * 1024)
#define PEER_HOST_SIZE	 256
#define PEER_TEXT_SIZE	 300		       /* "[host]:port" */
#define PEER_MAP_MESSAGE (32 * TABLE_CAPACITY) /* bytes of a map, at most */
#define PEER_RESULT_SIZE 32		       /* bytes of one result, at most */

struct peer;
struct peer_call;

/* --- calls -------------------------------------------------------------------------------------- */

enum peer_outcome {
	PEER_ANSWERED, /* status OK and a whole message */
	PEER_REFUSED,  /* UNAVAILABLE, or the request never left: nothing was done */
	PEER_UNKNOWN   /* anything else: it may have been done */
};

/* Embedded in whatever its owner needs; the owner may free it from `done` on. */
struct peer_call {
	/* Set by the owner. */
	const char *path, *tenant; /* tenant: for the header of Loki; NULL = none.  Borrowed */
	uint8_t *request;	   /* framed; taken, also when the start fails */
	size_t request_len;
	size_t answer_max;    /* bytes of the message; more is garbage */
	uint64_t deadline_ns; /* told to the peer; who calls keeps the time himself */
	void (*done)(struct peer_call *call, enum peer_outcome outcome, const uint8_t *message,
		size_t len); /* the message is borrowed until it returns */
	void *arg;
	/* Of peer_call.c. */
	TAILQ_ENTRY(peer_call) link;
	struct peer *peer; /* NULL = not under way */
	int32_t stream;
	bool over, whole; /* whole: all of the request has left */
	bool garbage;
	size_t sent;
	uint64_t since_ns;
	int http_status, grpc_status; /* -1 = not said */
	uint32_t error;		      /* of HTTP/2 */
	size_t header_bytes;
	uint8_t *answer;
	size_t answer_len, answer_size;
};
TAILQ_HEAD(peer_calls, peer_call);

/* Takes call->request.  false: the peer is not open, or too much is under way to it. */
bool peer_call_start(struct peer *peer, struct peer_call *call);

/* `done` will not be called. */
void peer_call_cancel(struct peer_call *call);

/* The connection has gone: each call gets its outcome and waits in peer->over. */
void peer_calls_lost(struct peer *peer);

/* What all sessions share; and one of them.  false: no memory. */
bool peer_calls_prepare(struct peers *peers);
bool peer_session_open(struct peer *peer);

/* --- a peer ------------------------------------------------------------------------------------- */

enum peer_state {
	PEER_WAITING,	 /* until it is time to connect (again) */
	PEER_CONNECTING, /* TCP */
	PEER_SHAKING,	 /* TLS */
	PEER_GREETING,	 /* for its first SETTINGS */
	PEER_OPEN,
	PEER_LEAVING /* it has said GOAWAY: calls may end, none is begun */
};

struct peer {
	struct peers *peers;
	TAILQ_ENTRY(peer) link;
	uint64_t id; /* never used again */
	struct sockaddr_storage address;
	socklen_t address_len;
	char host[PEER_HOST_SIZE];	/* as in the list: TLS wants it */
	char authority[PEER_TEXT_SIZE]; /* host:port */
	char text[PEER_TEXT_SIZE];	/* address:port in numbers: for the log */
	size_t name;			/* of which entry of the list */
	bool found, gone;		/* gone: no longer among the addresses of its name */
	/* Connection. */
	enum peer_state state;
	bool down_said; /* the log knows that it is away */
	struct wire wire;
	ev_io io;
	ev_timer timer; /* back-off; or the patience of a state */
	ev_timer round; /* a turn in the loop's next round */
	unsigned back_off_ms;
	nghttp2_session *session;
	const char *broken; /* why the connection has to go: done when the loop is back */
	uint8_t *out;	    /* PEER_IO_SIZE and a frame */
	size_t out_at, out_len;
	bool inside;	       /* nghttp2 is at work */
	bool greeted, goodbye; /* what it said while nghttp2 was at work */
	uint64_t heard_ns;
	/* Calls. */
	struct peer_calls calls, over;
	unsigned calls_n;
	size_t bytes; /* of their requests */
	/* Map. */
	struct peer_call poll;
	bool polling, again; /* again: the poll under way is too old for somebody */
	bool slow;	     /* it is not waited for */
	uint64_t poll_ns;    /* begin of the poll under way */
	uint64_t map_ns;     /* begin of the last poll that ended, however it did */
	uint64_t good_ns;    /* ... that ended well */
	ev_timer poll_timer; /* polling: its end; else: the next one */
	uint8_t slot;	     /* of peers_ask.c, while streams are dealt out */
	int64_t *assigned; /* by partition, TABLE_CAPACITY of them; 0 = not served; NULL = no map */
};
TAILQ_HEAD(peer_list, peer);

/* Connects as soon as the loop runs. */
struct peer *peer_add(
	struct peers *peers, size_t name, const struct sockaddr *address, socklen_t len);

/* Its name does not have this address any more: it may end what is under way. */
void peer_go(struct peer *peer);

/* At once.  From the loop only, and when all ends. */
void peer_remove(struct peer *peer);

/* Writes what there is, as far as that goes without waiting. */
void peer_flush(struct peer *peer);

/* The connection has to go, as soon as the loop is back. */
void peer_break(struct peer *peer, const char *why);

/* From the loop only: as peer_break, now. */
void peer_lose(struct peer *peer, const char *why);

/* From the loop only: calls back for all that is over. */
void peer_settle(struct peer *peer);

/* --- maps --------------------------------------------------------------------------------------- */

void peer_map_prepare(struct peer *peer);
void peer_map_start(struct peer *peer); /* it is open */
void peer_map_stop(struct peer *peer);	/* it is not any more */

/* It was silent when it should have answered: is it alive? */
void peer_map_suspect(struct peer *peer);

/* When it was assigned to this peer, Unix ns; 0 = it does not serve it. */
static inline int64_t peer_assigned(const struct peer *peer, uint32_t partition)
{
	return peer->assigned == NULL ? 0 : peer->assigned[partition];
}

/* Asks for maps that were asked for before since_ns.  true: some are under way, to be waited for. */
bool peers_refresh(struct peers *peers, uint64_t since_ns);

/* Whoever is not there by now is not waited for the next time. */
void peers_not_waited_for(struct peers *peers, uint64_t since_ns);

/* --- asks --------------------------------------------------------------------------------------- */

/* Maps have come (or will not): whoever waits looks again. */
void peers_ask_wake(struct peers *peers);
void peers_ask_cancel_all(struct peers *peers);

/* --- bytes -------------------------------------------------------------------------------------- */

/* Bytes of a request without streams, and of one stream in it. */
size_t peer_message_base(const char *tenant);
size_t peer_message_stream(const struct ask_stream *stream);

/* Write to `to`, which has room; give its end. */
uint8_t *peer_message_put_tenant(uint8_t *to, const char *tenant);
uint8_t *peer_message_put_stream(uint8_t *to, const struct ask_stream *stream);

/*
 * All answers have one shape: field 1, repeated, of messages with two numbers.
 * Calls `each` for all; false: garbage, maybe after some calls.
 */
bool peer_message_pairs(const uint8_t *message, size_t len,
	void (*each)(void *arg, uint64_t first, uint64_t second), void *arg);

/* --- names -------------------------------------------------------------------------------------- */

struct addrinfo;
struct peer_dns;
struct peer_name {
	char host[PEER_HOST_SIZE], port[8];
	bool literal; /* an address, no name */
};

/* Looks `names` (copied) up, again every so often; `found` runs in the loop.  NULL: no thread. */
struct peer_dns *peer_dns_new(struct ev_loop *loop, const struct peer_name *names, size_t n,
	unsigned every_ms, void (*found)(void *arg, size_t name, const struct addrinfo *list),
	void *arg);

/* As soon as possible, but at most once a second. */
void peer_dns_hurry(struct peer_dns *dns);

/* Does not wait for a look-up that is under way. */
void peer_dns_free(struct peer_dns **dns);

/* --- certificates ------------------------------------------------------------------------------- */

/* For connections to others: who we are, and whom we believe.  NULL with one line in `why`. */
SSL_CTX *peer_tls_context(
	const char *cert, const char *key, const char *ca, char why[PEERS_WHY_SIZE]);

/* Makes of a wire one that calls `host`, which its certificate has to name.  false: no memory. */
bool peer_tls_call(struct wire *wire, const char *host);

/* Why a handshake failed; `why` is what wire_shake has said. */
const char *peer_tls_reason(const struct wire *wire, const char *why);

/* --- tokens --- */

/* "Bearer ..." of the file with a token; NULL with one line in `why`. */
char *peer_token_read(const char *file, char why[PEERS_WHY_SIZE]);

/* A peer did not take our token, or wants one: said now and then. */
void peer_token_refused(const struct peer *peer, int grpc_status);

/* --- the set ------------------------------------------------------------------------------------ */

struct asking;
TAILQ_HEAD(asking_list, asking);

struct peers {
	struct ev_loop *loop;
	unsigned poll_ms, call_ms, back_off_ms, back_off_max_ms;
	size_t message_max;
	char *cert_file, *key_file, *ca_file, *token_file;
	SSL_CTX *tls;	     /* NULL = cleartext */
	char *authorization; /* "Bearer ..." for calls; NULL = none; wiped */
	struct peer_name names[PEERS_MAX];
	size_t names_n;
	struct peer_dns *dns; /* NULL = no names */
	struct sockaddr_storage self;
	bool has_self;
	struct peer_list list;
	unsigned n;
	uint64_t next_id;
	bool many_said;
	nghttp2_session_callbacks *callbacks;
	struct peer *owner[TABLE_CAPACITY];
	struct asking_list asks, woken;
	struct {
		_Atomic uint64_t known, connected, partitions, calls;
		_Atomic uint64_t answered, unavailable, forbidden, failed, full, strange;
		_Atomic uint64_t connects, lost;
		_Atomic uint64_t streams_asked, streams_retried;
	} facts;
	uint8_t in[PEER_IO_SIZE];
};

/* One thread writes. */
static inline void peers_count(_Atomic uint64_t *fact, uint64_t n)
{
	atomic_store_explicit(
		fact, atomic_load_explicit(fact, memory_order_relaxed) + n, memory_order_relaxed);
}

#endif
