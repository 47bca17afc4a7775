/*
 * table.h - the partition table: one word and one slot per partition.
 *
 *	supervisor --table_publish--> [ word: state + generation ] <--table_read-- readers, workers
 *	                                     slot | slot | ...
 *
 * Written by the supervisor only (libtally, workers and the query process map
 * it read-only).  The word is published with release and read with acquire:
 * what was written to the slot before the word is visible after it.
 *
 * Ready means: the word says PART_READY *and* CLOCK_BOOTTIME < lease_until
 * *and* the table is not retired.  A frozen supervisor must not leave its
 * readers answering.
 *
 * The number of partitions is the routing's: a stream belongs to hash % it.  It
 * changes only while no word is ready; the ready words that follow name stores
 * that were made for the new number.  A reader takes the number first, then
 * words, reads a store only when that says the same number, and looks at the
 * head's once more in the end.  What the topic has is another field: more, or
 * fewer, when kafka.partitions is set or the table too small.
 *
 * The file is replaced, never resized; the old one is marked retired and all
 * its words PART_FREE before the new one is renamed into place.
 */
#ifndef TALLY_SHM_TABLE_H
#define TALLY_SHM_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/host.h"
#include "shm/log.h"
#include "shm/segment.h"

#define TABLE_NAME	 "table"
#define TABLE_VERSION	 3
#define TABLE_CAPACITY	 1024 /* most partitions that one instance can serve */
#define TABLE_TOPIC_SIZE 256
#define TABLE_NAME_SIZE	 64
#define TABLE_TEXT_SIZE	 512
#define TABLE_QUERY_MAX	 64 /* most query processes */

enum part_state {
	PART_FREE,	/* not ours */
	PART_PENDING,	/* ours; no worker yet, or it has not found out where to start */
	PART_REPLAYING, /* its worker is catching up */
	PART_READY,	/* caught up: readers may answer from it */
	PART_DRAINING,	/* being revoked: nobody answers from it, its worker is ending */
	PART_PARKED,	/* lost: store kept, nobody answers from it */
	PART_FAILED,	/* ours, but cannot be served: see its death; or no part of the routing */
	PART_STOPPED,	/* the supervisor has stopped in order; store kept */
	PART_STATES
};

/* "free", "pending", ...; "unknown" for what is none. */
const char *part_state_word(enum part_state state);

/* How a worker ended last. */
enum part_death {
	DEATH_NONE,
	DEATH_EXIT,    /* it exited by itself; `death_code` is the exit code */
	DEATH_SIGNAL,  /* `death_code` is the signal */
	DEATH_HANG,    /* no heartbeat: we sent SIGABRT, then SIGKILL */
	DEATH_SPAWN,   /* it could not be started; `death_code` is errno */
	DEATH_REBUILD, /* it asked for a new generation; `death_code` is an enum rebuild_reason */
	DEATH_KINDS
};
const char *part_death_word(enum part_death death);

/* What the group membership is doing, for people. */
enum group_state {
	GROUP_STARTING,
	GROUP_NO_BROKER, /* waiting for a broker */
	GROUP_NO_TOPIC,	 /* waiting for the topic to exist */
	GROUP_JOINING,
	GROUP_MEMBER,
	GROUP_LOST,
	GROUP_FENCED,
	GROUP_STOPPED,
	GROUP_LOGIN_REFUSED, /* brokers answer, and do not let us in: password, mechanism */
	GROUP_TLS_FAILED,    /* no TLS connection: certificates, or security.protocol */
	GROUP_NOT_ALLOWED,   /* an ACL is missing, for the topic or the group */
	GROUP_STATES
};
const char *group_state_word(enum group_state state);

/* What came of the last attempt to load the limits of tenants. */
enum load_state {
	LOAD_NONE,    /* no file is configured: the defaults hold */
	LOAD_OK,      /* what the file says holds */
	LOAD_REFUSED, /* what held before holds on; limits_error says why */
	LOAD_STATES
};
const char *load_state_word(enum load_state state);

/* A word: 4 bits of state, 60 bits of generation. */
#define TABLE_GENERATION_MAX ((UINT64_C(1) << 60) - 1)

static inline uint64_t table_word(enum part_state state, uint64_t generation)
{
	return (uint64_t)state << 60 | generation;
}
static inline enum part_state table_word_state(uint64_t word)
{
	return (enum part_state)(word >> 60);
}
static inline uint64_t table_word_generation(uint64_t word)
{
	return word & TABLE_GENERATION_MAX;
}

struct table_slot {
	_Atomic uint64_t word;
	_Atomic uint64_t lease_until; /* CLOCK_BOOTTIME ns; 0 = none */
	_Atomic uint64_t assigned_at; /* Unix ns of the assignment */
	_Atomic uint64_t changed_at;  /* Unix ns of the last change of state */
	_Atomic uint32_t pid;	      /* the worker's, 0 = none; for people, never for kill() */
	_Atomic uint32_t restarts;    /* of the worker, since the assignment */
	_Atomic uint32_t death;	      /* enum part_death */
	_Atomic int32_t death_code;
	_Atomic uint64_t death_at;    /* Unix ns */
	_Atomic uint32_t quarantined; /* offsets that the worker passes over */
	_Atomic uint32_t retry_in_ms; /* back-off before the next start; 0 = none */
	_Atomic uint64_t
		whole; /* generation that was ready once: nothing is missing in its store */
	uint8_t reserved[56];
};
_Static_assert(sizeof(struct table_slot) == 128, "file format");

struct table_head {
	struct segment_head segment;
	/* Written once, before the table is published. */
	uint64_t nonce; /* of this run of the supervisor */
	uint8_t boot_id[HOST_BOOT_ID_SIZE];
	uint64_t pid_namespace;
	uint64_t started_at; /* Unix ns */
	uint32_t supervisor_pid;
	uint32_t capacity;	    /* slots in this file */
	uint32_t window_minutes;    /* active window */
	uint32_t rate_minutes;	    /* rate window, at most 5 */
	uint32_t lost_timeout_ms;   /* a heartbeat older than this: the supervisor is gone */
	_Atomic uint32_t log_level; /* enum log_level, of all processes */
	char topic[TABLE_TOPIC_SIZE];
	char group[TABLE_TOPIC_SIZE];
	char zone[TABLE_NAME_SIZE];
	char instance[TABLE_NAME_SIZE];
	/* Written all the time, on a cache line of their own. */
	_Alignas(64) _Atomic uint64_t heartbeat; /* CLOCK_BOOTTIME ns, once a second */
	_Atomic int64_t
		clock_offset_ms;     /* added to wall time by every process: for tests and drills */
	_Atomic uint32_t partitions; /* a stream belongs to hash % partitions; 0 = not known yet */
	_Atomic uint32_t retired;    /* 1: another table has taken this one's place */
	_Atomic uint32_t group_state; /* enum group_state */
	_Atomic uint32_t stopped;     /* 1: the supervisor has stopped in order */
	_Atomic uint32_t query_pid;   /* of the first one, 0 = none; all of them: query_pids */
	_Atomic uint32_t query_restarts;
	_Atomic uint64_t limits_version; /* of the file `limits`, set after its rename; 0 = none */
	_Atomic uint64_t rebalances;	 /* assignments received */
	_Atomic uint64_t lost_events;
	_Atomic uint32_t topic_partitions; /* that the topic has, served or not; 0 = not known */
	/* Limits of tenants: what came of loading them. */
	_Atomic uint32_t limits_state;	   /* enum load_state */
	_Atomic uint64_t limits_at;	   /* Unix ms of the last attempt */
	_Atomic uint64_t limits_loaded_at; /* Unix ms of the last that was taken */
	_Atomic uint32_t limits_refused;   /* attempts that were not */
	_Atomic uint32_t limits_tenants;   /* with limits of their own */
	_Atomic uint32_t limits_change;	   /* odd while limits_error is being written */
	uint32_t reserved1;
	_Atomic uint64_t limits_error[TABLE_TEXT_SIZE / 8]; /* of the last one refused */
	/* Query processes: how many there should be, and how the one that died last ended. */
	_Atomic uint32_t query_processes; /* 0 = query.enabled is false */
	_Atomic uint32_t query_death;	  /* enum part_death */
	_Atomic int32_t query_death_code;
	uint32_t reserved2;
	_Atomic uint64_t query_died_at; /* Unix ns; 0 = never */
	_Atomic uint32_t query_pids[TABLE_QUERY_MAX];
};
_Static_assert(offsetof(struct table_head, partitions) == 784, "file format");
_Static_assert(offsetof(struct table_head, topic_partitions) == 832, "file format");
_Static_assert(offsetof(struct table_head, limits_at) == 840, "file format");
_Static_assert(offsetof(struct table_head, limits_error) == 872, "file format");
_Static_assert(offsetof(struct table_head, query_processes) == 1384, "file format");
_Static_assert(offsetof(struct table_head, query_pids) == 1408, "file format");
_Static_assert(sizeof(struct table_head) == 1664, "file format");

/* Slots start on their own page, after the head. */
#define TABLE_SLOTS_AT	  4096
#define TABLE_SIZE(slots) (TABLE_SLOTS_AT + (size_t)(slots) * sizeof(struct table_slot))
_Static_assert(sizeof(struct table_head) <= TABLE_SLOTS_AT, "file format");

struct table {
	struct segment segment;
	const struct table_head *head;
};

/* What a reader needs of one slot, copied while the word stood still. */
struct table_entry {
	enum part_state state;
	uint64_t generation;
	uint64_t word;
	uint64_t lease_until;
	uint64_t assigned_at, changed_at, death_at;
	uint32_t pid, restarts, quarantined, retry_in_ms;
	enum part_death death;
	int32_t death_code;
};

/* --- writer: the supervisor ------------------------------------------------------------- */

/*
 * Builds a table under its temporary name, all slots free.  `facts` gives the
 * write-once fields of the head (its segment part is ignored).  Mode 0440.
 */
int table_create(int dirfd, const struct table_head *facts, struct table *table);

/* Marks whatever table lies in `dirfd` retired, all its words free; then puts ours in place. */
int table_install(int dirfd, struct table *table);

struct table_head *table_head_mut(struct table *table);
struct table_slot *table_slot_mut(struct table *table, uint32_t partition);

/* Publishes state and generation, and sets changed_at. */
void table_publish(
	struct table *table, uint32_t partition, enum part_state state, uint64_t generation);

/* Says why limits were refused; "" when they were taken.  Cut to fit. */
void table_set_limits_error(struct table *table, const char *text);

/* --- reader: everybody ------------------------------------------------------------------- */

/*
 * Maps the table read-only.  ERR_NOT_FOUND: no supervisor has run here;
 * ERR_FORMAT: another version; ERR_NAMESPACE: written in another PID namespace
 * or another boot (then it is just a leftover: ERR_STALE).
 */
int table_attach(int dirfd, struct table *table);
void table_detach(struct table *table);

/* The path names another file by now, or this one is retired. */
bool table_replaced(int dirfd, const struct table *table);

/* ERR_INVALID when the partition is out of range. */
int table_read(const struct table *table, uint32_t partition, struct table_entry *entry);

/* The word alone: one acquire load.  0 (free) when out of range. */
uint64_t table_word_of(const struct table *table, uint32_t partition);

/* The generation that `word` names has been ready: nothing that counts is missing in its store. */
bool table_is_whole(const struct table *table, uint32_t partition, uint64_t word);

/* The text of table_set_limits_error, whole; "" also when it never stands still. */
void table_limits_error(const struct table *table, char text[TABLE_TEXT_SIZE]);

/* Ready as defined above, for the generation that `word` names. */
bool table_is_ready(const struct table *table, uint32_t partition, uint64_t word, uint64_t boot_ns);

/* The same for one that is replaying: ours, under a running lease, and behind. */
bool table_is_replaying(
	const struct table *table, uint32_t partition, uint64_t word, uint64_t boot_ns);

/* How many of the first `partitions` are ready; *owned: how many are not free. */
uint32_t table_count(
	const struct table *table, uint32_t partitions, uint64_t boot_ns, uint32_t *owned);

/* What all processes log. */
enum log_level table_log_level(const struct table *table);

/* The supervisor's heartbeat is younger than lost_timeout_ms and it has not stopped. */
bool table_is_alive(const struct table *table, uint64_t boot_ns);

/* --- names in the run directory ---------------------------------------------------------- */

#define TABLE_DIR_NAME_SIZE 48

/* "p<partition>.<generation>", NUL-terminated. */
void table_dir_name(char name[TABLE_DIR_NAME_SIZE], uint32_t partition, uint64_t generation);

/* The reverse; false when it is not exactly such a name. */
bool table_dir_parse(const char *name, uint32_t *partition, uint64_t *generation);

#endif
