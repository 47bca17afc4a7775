/*
 * client_private.h - what the files of libtally share, and nobody else sees.
 *
 *	client_call( body )		   attach if needed, run, check all again, at most 3 times
 *	  '- client_scan( read, take )	   every partition that is ours
 *	       '- client_visit( read )	   one partition: word -> store -> one transaction -> word
 *	            '- client_env_acquire  one map per store and process
 *
 * `read` copies out of the store into scratch memory of its own and may be
 * called again after a change; only `take` adds up.
 */
#ifndef TALLY_SHM_CLIENT_PRIVATE_H
#define TALLY_SHM_CLIENT_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/clock.h"
#include "shm/limits.h"
#include "shm/store.h"
#include "shm/table.h"
#include "shm/tally.h"
#include "shm/usage.h"
#include "shm/window.h"

#define CLIENT_TRIES 3

/* --- client_env.c: the process's registry of maps ----------------------------------------------
 */

struct client_env;

/*
 * The map of the store in `name` ("p7.1234") below the run directory: shared
 * when this process has it already (same device and inode of lock.mdb, found
 * by stat, never by opening it again: that would drop LMDB's locks).  Thread
 * safe.  ERR_NOT_FOUND, ERR_FORMAT (not plain files), errors of
 * store_open_reader.
 */
int client_env_acquire(int dirfd, const char *run_dir, const char *name, struct client_env **env);
void client_env_release(struct client_env **env);
struct store *client_env_store(const struct client_env *env);

/* getpid, without a system call each time. */
pid_t client_pid(void);

/* Maps this process holds: for tests. */
unsigned client_env_count(void);

/* --- client.c: the handle and the reader protocol ----------------------------------------------
 */

struct client_part {
	struct client_env *env;
	uint64_t generation;
	uint32_t partitions;	 /* the routing it was checked against */
	uint64_t unopened;	 /* generation that could not be opened before it was ready ... */
	uint64_t unopened_at_ns; /* ... and when: CLOCK_BOOTTIME */
	uint64_t asked;		 /* tally->asked that `tenant` was found for in this generation */
	uint32_t tenant;
};

/* What an answer stands on: this word of this partition. */
struct client_stand {
	uint64_t word;
	uint32_t partition;
	bool ready;	       /* false: only because of TALLY_STALE_OK or TALLY_PARTIAL_OK */
	bool partial;	       /* it is replaying, or has never come to the end of that */
	int64_t counted_to_ms; /* if partial, once it was read: time of the last record; 0 = none */
};

struct tally {
	char *run_dir; /* absolute */
	int dirfd;     /* -1 = none */
	unsigned flags;
	pid_t pid;
	bool attached, attached_once;
	struct table table;
	uint64_t boot_ns;      /* when this call began: CLOCK_BOOTTIME */
	uint64_t looked_at_ns; /* at the table's path: CLOCK_BOOTTIME */
	/* Copied from the table's head once they have been checked. */
	uint32_t slots, window, rate;
	uint32_t partitions;  /* the routing of this call: a stream belongs to hash % partitions */
	void *row;	      /* window_row_size(window) bytes */
	int64_t now_ms;	      /* of this call; never falls, unless wall time has for good */
	struct clock clock;   /* not started: boot_ns is 0 */
	struct limits limits; /* the last that could be used; no map = none */
	uint64_t limits_at;   /* the head's version when they were looked for */
	int limits_err;
	bool limits_tried;
	/* The tenant that was asked for last, and the how-many-th it was, from 1: client_find.c. */
	uint64_t asked;
	char tenant[USAGE_NAME_SIZE + 1];
	uint64_t *counts; /* of buckets: client_limits.c */
	size_t counts_cap;
	uint32_t n_stands;
	struct client_stand stands[TABLE_CAPACITY];
	struct client_part parts[TABLE_CAPACITY];
};

struct client_visit {
	struct tally *tally;
	struct store_txn *txn;
	uint64_t generation;
	uint32_t partition;
	uint32_t now_minute;
	uint32_t rows; /* of the tenant, seen by client_next_row */
};

typedef int client_body_fn(struct tally *tally, void *arg);
typedef int client_read_fn(struct client_visit *visit, void *arg);

/* Start of every call: attached to the table that is in place now; "now" taken; stands on nothing.
 */
int client_enter(struct tally *tally);

/*
 * A whole call: enter, body, and at the end everything it stands on must
 * still hold, else all again.  Gives a public code.
 */
int client_call(struct tally *tally, client_body_fn *body, void *arg);

/*
 * The reader protocol for one partition: 0 or ERR_NOT_FOUND is what `read`
 * found in a store that was published all the time; else ERR_NOT_READY,
 * ERR_BUSY, ERR_CORRUPT, ...  Whether its lease still runs by then is the end
 * of client_call's to see, or the caller's.
 */
int client_visit(struct tally *tally, uint32_t partition, client_read_fn *read, void *arg);

/*
 * The same for one that is not ready: 0 when its store could be read.  Nothing
 * stands on it, so it is for counting only.
 */
int client_peek(struct tally *tally, uint32_t partition, client_read_fn *read, void *arg);

/* Whether a partition could be read, and how far it has come.  Nothing stands on it. */
int client_look(struct tally *tally, uint32_t partition, struct client_stand *stand);

/* "SIGSEGV", "exit code 70", "fingerprint", ...; "" for none. */
void client_describe_death(enum part_death death, int32_t code, char *to, size_t size);

/* The store that this thread is in.  Safe in a handler of signals. */
bool client_reading(uint32_t *partition, uint64_t *generation);

/* Called with every published store that contradicts itself; one for the process. */
void client_on_corrupt(void (*hear)(uint32_t partition, uint64_t generation));

struct client_scan {
	client_read_fn *read;
	int (*take)(void *arg); /* what was read counts; 0 or ERR_NOMEM */
	void *arg;
};
/* All partitions that are ours.  0 when at least one answered. */
int client_scan(struct tally *tally, const struct client_scan *scan, struct tally_basis *basis);

/*
 * Next row of a tenant, in the handle's row buffer.  Numbers of policies must
 * rise: a store that says otherwise ends here.  Start with -1, go on to the end: there
 * it is seen whether some are missing.
 */
bool client_next_row(
	struct client_visit *visit, uint32_t tenant, int *policy, struct window_row *row);

/* Partitions of the routing that this table can name: the same all through a call. */
uint32_t client_partitions(const struct tally *tally);

/* Ready by the rule of table.h, or readable because of the handle's flags. */
bool client_usable(const struct tally *tally, struct client_stand *stand, uint64_t boot_ns);

/* Adds a partition that was read, or could be, to those an answer stands on; and the end of that. */
void client_basis_add(struct tally_basis *basis, const struct client_stand *stand);
void client_basis_end(struct tally_basis *basis);

/* What client_visit has read last. */
const struct client_stand *client_last(const struct tally *tally);

/* An internal error as one of tally.h's. */
int client_public(int err);

/* Why no partition has answered. */
int client_unanswered(const struct tally *tally);

/* A name that can be in a store: 1..256 bytes. */
bool client_name_ok(const char *name);

/* Bounded copy; what is not UTF-8 becomes '?'.  `max` bytes may be read, NUL or not. */
void client_text(char *to, size_t size, const char *from, size_t max);

static inline uint64_t client_add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* --- client_names.c: adding up by name ---------------------------------------------------------
 */

struct client_name {
	size_t at; /* in the arena */
	uint64_t hash, streams, bytes;
	double rate; /* bytes per second */
	uint32_t policies;
};

/* One row of one store, read but not yet added. */
struct client_row {
	uint64_t policy; /* hash of (name, policy) */
	uint64_t streams, bytes;
	double rate;
	uint32_t name; /* index */
};

/* What a row says of the window and of the rate window. */
struct client_sums {
	uint64_t streams, bytes;
	double rate;
};

struct client_names {
	uint64_t seed;
	char *arena;
	size_t arena_len, arena_cap;
	struct client_name *list;
	uint32_t n, cap;
	uint32_t *index; /* name + 1; 0 = free */
	size_t index_cap;
	uint64_t *policies; /* a set; 0 = free */
	size_t policies_n, policies_cap;
	struct client_row *rows;
	size_t rows_n, rows_cap;
};

void client_names_init(struct client_names *names);
void client_names_free(struct client_names *names);
const char *client_name_text(const struct client_names *names, const struct client_name *name);

/* Number of a name, made on first sight. */
int client_names_intern(struct client_names *names, const char *name, uint32_t *number);

/* Notes a row of (number, policy): counts nothing yet. */
int client_names_note(struct client_names *names, uint32_t number, const char *policy,
	const struct client_sums *sums);

/* Forgets, or adds up, the rows noted since. */
void client_names_drop(struct client_names *names);
int client_names_take(struct client_names *names);

/* Sorts the list, the last thing done with it: by name, or most streams first (then by name). */
void client_names_sort(struct client_names *names, bool streams_first);

/* --- client_limits.c: limits, and what they count -----------------------------------------------
 */

struct client_buckets {
	struct tally *tally;
	const char *tenant;
	struct limits_entry entry;
	uint64_t version;
	bool by_partition;
	int32_t only; /* partition; -1 = all that are owned */
	/* By bucket: 0 is the default one, 1 + i the policy i of the entry. */
	uint32_t n;
	uint64_t *read;	    /* of the partition being read */
	uint64_t *streams;  /* over all that could be read */
	uint64_t *sure;	    /* over those that are whole: ready, or have been ready */
	uint32_t whole;	    /* so many */
	uint64_t *headroom; /* with limit_scope partition: over all that could be read */
	struct tally_basis basis;
};

/* The limits that have been published, or why they cannot be used. */
int client_limits_use(struct tally *tally);

/* Finds the tenant's limits; all counts are 0.  Valid until the next call on the handle. */
int client_buckets_start(struct client_buckets *buckets, struct tally *tally, const char *tenant);

/* Which bucket a policy's streams count in. */
uint32_t client_bucket_of(const struct client_buckets *buckets, const char *policy);

/* Counts one partition into `read`: for how->read. */
int client_buckets_read(struct client_visit *visit, struct client_buckets *buckets);

/*
 * Reads what is owned with how->read, which calls client_buckets_read, and adds
 * it up.  judge(how->arg, partition, err) is called after each, `read` still
 * being of it.  (how->take is not called.)
 */
int client_buckets_scan(struct client_buckets *buckets, const struct client_scan *how,
	void (*judge)(void *arg, uint32_t partition, int err));

/* Room in the partition just read (limit_scope partition); in all of the instance after the scan. */
uint64_t client_bucket_room(const struct client_buckets *buckets, uint32_t bucket);
uint64_t client_bucket_headroom(const struct client_buckets *buckets, uint32_t bucket);

void client_bucket_fill(
	const struct client_buckets *buckets, uint32_t bucket, struct tally_bucket *out);
void client_limits_fill(const struct client_buckets *buckets, struct tally_tenant_limits *out);

void client_limits_drop(struct tally *tally);

/* --- client_find.c: a tenant's number; its streams of one partition, some at a time ------------ */

/* Whether a stream that was last seen then is active; -1, of one that is not there: no. */
bool client_seen_active(const struct client_visit *visit, int64_t last_seen_s);

/* As usage_find_tenant. */
bool client_find_tenant(struct client_visit *visit, const char *name, uint32_t *tenant);

#define CLIENT_FIND_SOME 64

struct client_find {
	struct client_visit *visit;
	/* Stream `i` was last seen then, Unix seconds; -1: it is not there. */
	void (*tell)(const struct client_find *find, size_t i, int64_t last_seen_s);
	void *arg;
	/* client_find.c's own. */
	uint32_t tenant;
	bool known;
	size_t n, i[CLIENT_FIND_SOME];
	uint64_t hash[CLIENT_FIND_SOME];
};

/* Borrows all of it until the end, by which what was added has been told. */
void client_find_start(struct client_find *find, struct client_visit *visit, const char *tenant,
	void (*tell)(const struct client_find *find, size_t i, int64_t last_seen_s), void *arg);
void client_find_add(struct client_find *find, size_t i, uint64_t hash);
void client_find_end(struct client_find *find);

#endif
