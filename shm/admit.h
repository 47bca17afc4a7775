/*
 * admit.h - the messages on admit.sock: questions that need a write.
 *
 *	queryd --TOUCH | ADMIT | RATE--> p<partition>.<generation>/admit.sock --> worker
 *	       <------- ANSWER -----------
 *
 * SOCK_SEQPACKET, one message a packet, each at most ADMIT_MESSAGE_MAX bytes and
 * complete in itself: one tenant, its buckets, its policies, its streams.  A
 * question that is larger is several messages.  Numbers are the machine's: both
 * ends are the same version on the same machine, and say so in `version`.
 *
 *	TOUCH  these streams were accepted from the map: never judged, no answer
 *	ADMIT  these were unknown: each one that is new takes one of its bucket's budget,
 *	       in the order of their hashes; verdicts come back, one per stream
 *	RATE   bytes of keys that are no streams; rates come back
 *
 * The worker commits before it answers.  An answer with a status other than
 * ADMIT_DONE says that nothing of the question was done.
 *
 * The socket has mode 0600; the worker takes peers of its own user, and root.
 */
#ifndef TALLY_SHM_ADMIT_H
#define TALLY_SHM_ADMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADMIT_NAME	   "admit.sock"
#define ADMIT_VERSION	   1
#define ADMIT_MESSAGE_MAX  65536
#define ADMIT_STREAMS_MAX  2048 /* of one message */
#define ADMIT_POLICIES_MAX 60	/* of one message; so many of the longest names fit */
#define ADMIT_BUCKETS_MAX  60
#define ADMIT_NO_LIMIT	   UINT64_MAX /* a budget */

enum admit_kind { ADMIT_TOUCH = 1, ADMIT_ADMIT, ADMIT_RATE, ADMIT_ANSWER = 16 };

enum admit_status {
	ADMIT_DONE,	 /* committed */
	ADMIT_NOT_READY, /* replaying, draining, or the lease is over */
	ADMIT_NO_ROOM	 /* store full */
};

/* Of one stream of an ADMIT. */
enum admit_verdict {
	ADMIT_KNOWN,	/* was active already */
	ADMIT_NEW,	/* came in, and took one of the budget */
	ADMIT_REJECTED, /* new, and no budget was left */
	ADMIT_FAILED	/* new, and could not be recorded for Kafka: the outbox is full */
};

struct admit_text {
	const char *text;
	uint16_t len;
};

struct admit_policy {
	struct admit_text name; /* "" = the default one */
	uint16_t bucket;	/* whose budget a new stream of it takes */
};

struct admit_stream {
	uint64_t hash;
	uint64_t bytes;
	uint16_t policy; /* index into policies */
};

/* A question as it is packed, and as it was unpacked: texts point into the message then. */
struct admit_question {
	enum admit_kind kind;
	uint64_t id; /* comes back with the answer */
	uint64_t generation;
	int64_t seen_ms; /* Unix ms: when the streams were seen */
	struct admit_text tenant;
	uint16_t n_buckets;  /* 0 for TOUCH and RATE */
	uint16_t n_policies; /* at least 1, but for RATE */
	uint32_t n_streams;  /* at least 1 */
	uint64_t budget[ADMIT_BUCKETS_MAX];
	struct admit_policy policy[ADMIT_POLICIES_MAX];
	/* pack: the streams.  unpack: NULL; admit_stream_at gives them one by one. */
	const struct admit_stream *streams;
	const uint8_t *packed; /* unpack only */
};

/* The length, or 0 when it breaks a bound above or does not fit. */
size_t admit_pack(const struct admit_question *question, uint8_t out[ADMIT_MESSAGE_MAX]);

/*
 * Checks all of it: bounds, indices, lengths, UTF-8 of names, 1 to 256 bytes of
 * tenant.  false: not one of ours.
 */
bool admit_unpack(const void *bytes, size_t len, struct admit_question *question);

/* Stream i of an unpacked question. */
struct admit_stream admit_stream_at(const struct admit_question *question, uint32_t i);

struct admit_answer {
	uint64_t id;
	uint64_t generation;
	enum admit_status status;
	enum admit_kind asked;	 /* ADMIT_ADMIT or ADMIT_RATE */
	uint32_t n;		 /* streams; 0 unless done */
	const uint8_t *verdicts; /* enum admit_verdict, of ADMIT */
	const uint8_t *rates;	 /* 8 bytes each: bytes per second, of RATE: admit_rate_at */
};

/* `verdicts` or `rates` (n x uint64_t) as `asked` says.  The length. */
size_t admit_pack_answer(const struct admit_answer *answer, uint8_t out[ADMIT_MESSAGE_MAX]);
bool admit_unpack_answer(const void *bytes, size_t len, struct admit_answer *answer);
uint64_t admit_rate_at(const struct admit_answer *answer, uint32_t i);

#endif
