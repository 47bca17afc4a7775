/*
 * handoff.h - all that a worker is told at exec, packed and unpacked by the same file.
 *
 *	supervisor: handoff_pack -> sealed memfd -> worker's descriptor HANDOFF_FD
 *
 * Nothing of it is in argv or the environment: it may hold passwords.  The
 * memfd is sealed (no write, no resize), so the worker reads it once and
 * closes it.  A worker has no other configuration.
 */
#ifndef TALLY_SHM_HANDOFF_H
#define TALLY_SHM_HANDOFF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/log.h"

/* Descriptors a worker is born with, beside 0, 1 and 2; there are no others. */
#define HANDOFF_FD	   3
#define HANDOFF_CONTROL_FD 4 /* SOCK_SEQPACKET to the supervisor: struct control_message */

#define HANDOFF_PROPERTIES_MAX 128
#define HANDOFF_QUARANTINE_MAX 64

/* Which of a worker's clients a property is for: librdkafka grumbles at those of the other kind. */
enum handoff_client { FOR_ALL_CLIENTS, FOR_CONSUMERS, FOR_PRODUCERS };

struct handoff_property {
	char *name, *value; /* librdkafka's */
	enum handoff_client client;
};

enum handoff_on_failure { ON_FAILURE_RETRY, ON_FAILURE_READY };

struct handoff {
	uint32_t partition, partitions;
	uint64_t generation;
	uint64_t table_nonce; /* the table must still be this supervisor's */
	pid_t supervisor_pid;
	int cpu;	    /* to be pinned to while replaying; -1 = none */
	bool adopt;	    /* the store exists and may be resumed; false: the directory is new */
	uint32_t batch_max; /* 1 after repeated deaths; else 0 = as `batch_records` says */
	/* options */
	enum log_level log_level;
	enum log_format log_format;
	uint32_t window_minutes;
	uint32_t replay_margin_s;
	uint32_t offsets_timeout_ms;
	uint32_t batch_records; /* at most so many records in a transaction while replaying */
	uint32_t flush_ms;
	uint32_t stall_timeout_ms;
	uint32_t queue_records; /* queued.min.messages */
	uint32_t readers_max;
	uint64_t map_bytes;
	enum handoff_on_failure on_lookup_failure;
	bool produce; /* what is admitted here is written to the topic */
	uint32_t produce_every_s;
	uint64_t outbox_max; /* rows */
	bool confine;	     /* see shm/confine.h */
	char *run_dir;	     /* absolute */
	char *topic;
	char *zone;
	/* librdkafka properties for this topic's consumer and producer, secrets included */
	struct handoff_property properties[HANDOFF_PROPERTIES_MAX];
	uint32_t n_properties;
	int64_t quarantine[HANDOFF_QUARANTINE_MAX]; /* offsets to pass over */
	uint32_t n_quarantine;
};

/* Gives a sealed, close-on-exec memfd. */
int handoff_pack(const struct handoff *handoff, int *fd);

/* Reads and checks it.  Strings are allocated; handoff_free ends them. */
int handoff_unpack(int fd, struct handoff *handoff);
void handoff_free(struct handoff *handoff);

/* --- the control socket -------------------------------------------------------------------- */

enum control_kind {
	/* worker -> supervisor */
	CONTROL_REPLAYING = 1, /* has its target */
	CONTROL_READY,	       /* has reached it */
	CONTROL_DRAINED,       /* outbox handed over; may be killed */
	/* supervisor -> worker */
	CONTROL_DRAIN = 16, /* revoked: apply nothing more, hand over, answer DRAINED */
	CONTROL_STOP	    /* orderly stop: commit, hand over, exit 0 */
};

struct control_message {
	uint32_t magic; /* CONTROL_MAGIC */
	uint32_t kind;
	uint64_t generation;
};
#define CONTROL_MAGIC 0x54414c59

/* --- a query process's last words ------------------------------------------------------------ */

/* On the pipe that --last-words names: the store that it was reading when a signal killed it, ... */
struct handoff_blame {
	uint64_t generation;
	uint32_t partition;
	uint32_t signal; /* 0: it lives, but that store contradicts itself */
};

/* Exit codes of a worker. */
#define EXIT_REBUILD 64 /* needs a new generation; the reason is in its stats */
#define EXIT_HANDOFF 65 /* the handoff cannot be read: a bug, or a worker of another version */
#define EXIT_ORPHAN  66 /* the supervisor was gone before we started */
#define EXIT_CONFIG  67 /* librdkafka or the store refuses an option; logged */
#define EXIT_LIBRARY                                                                               \
	68 /* librdkafka has failed in a thread of its own: no record of ours is to blame */
#define EXIT_INTERNAL 70 /* an error that is not healed by trying again here; logged */

#endif
