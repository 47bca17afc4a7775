/*
 * tally.h - read a running Tally from its shared memory.  The public API (libtally).
 *
 *	struct tally *t;
 *	struct tally_usage usage;
 *	if (tally_open("/run/tally", 0, &t) == 0 &&
 *	    tally_tenant(t, "tenant-a", &usage) == 0)
 *		printf("%" PRIu64 " active streams\n", usage.streams);
 *	tally_close(&t);
 *
 * No server is asked: every call reads the partitions' stores by memory map,
 * in one short read transaction per partition, copies out and checks again
 * that the partition was ready all the time.  What left ready meanwhile is
 * thrown away and asked again.
 *
 * Who may: members of the run directory's group.  They need write access to
 * the stores' lock files (LMDB readers register there) and are trusted for
 * availability, not for data, which they cannot write.  A reader must run in
 * the PID namespace and on the boot of its tallyd: others are refused.
 *
 * Threads: a handle belongs to one thread at a time; several handles may be
 * used by several threads (they share one map per store).  Do not load two
 * copies of this library into one process.  After fork(), a child must not
 * use or close handles of its parent.  A handle that is not used keeps maps
 * of stores that may be gone: call tally_idle now and then, or close it.
 *
 * All functions return 0 or a negative TALLY_E*.  Text is NUL-terminated UTF-8.
 * Times are Unix ms unless said otherwise.
 */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

#define TALLY_QUERY_MAX 64 /* most query processes */

#define TALLY_VERSION_MAJOR 0
#define TALLY_VERSION_MINOR 2

#define TALLY_ENOMEM	 (-1)
#define TALLY_EIO	 (-2)
#define TALLY_ECORRUPT	 (-4)
#define TALLY_EFORMAT	 (-5)  /* written by another version of Tally */
#define TALLY_EACCESS	 (-6)  /* not in the readers' group, or the directory is not safe */
#define TALLY_ENOTFOUND	 (-7)  /* no Tally has run here; or no such tenant or stream */
#define TALLY_EBUSY	 (-8)  /* all reader slots of a store are taken */
#define TALLY_ESTALE	 (-9)  /* tallyd has stopped or is gone (see TALLY_STALE_OK) */
#define TALLY_ENOTREADY	 (-10) /* the partition that could answer is not ready */
#define TALLY_EINVALID	 (-11) /* an argument out of its range */
#define TALLY_ENAMESPACE (-12) /* tallyd runs in another PID namespace */

/*
 * Calls that add up partitions answer (0) when at least one could be read, and
 * say in `basis` how much is missing.  When none could: the reason why (EBUSY,
 * EACCES, ...), else TALLY_ESTALE when tallyd is gone, else TALLY_ENOTREADY.
 * TALLY_ENOTREADY also when partitions kept changing under three tries.
 */

/* The sentence for a code.  Never NULL. */
const char *tally_error(int err);

struct tally;

/*
 * tally_open flags.  STALE_OK: also answer from stores of partitions that are
 * stopped, or whose supervisor is gone; answers then say so in `stale`.
 * PARTIAL_OK: also from those that are replaying, as far as they have come:
 * `partial` says so.  What is found there holds; what is not may be yet to come,
 * so single streams that are not found are TALLY_ENOTREADY, and sums too low.
 */
#define TALLY_STALE_OK	 1u
#define TALLY_PARTIAL_OK 2u

/*
 * Attaches to a run directory.  `*out` is ended by tally_close, which nulls it.
 * A tallyd that has stopped or died is no error here: the calls say so.  A
 * restarted tallyd is found again by the next call, without a new handle.
 */
int tally_open(const char *run_dir, unsigned flags, struct tally **out);
void tally_close(struct tally **tally);

/* Lets go of maps that are no longer published.  Call it about once a second from a timer. */
void tally_idle(struct tally *tally);

/*
 * True (1) while everything that the last call on this handle answered is
 * still published in the same state, and leased: ask right before sending the
 * answer to somebody else.  0: throw it away and call again.
 */
int tally_still_valid(struct tally *tally);

/* "Now" as this instance counts, Unix ms: wall time plus its clock offset. */
int64_t tally_now_ms(struct tally *tally);

/* --- the instance ---------------------------------------------------------------------------- */

struct tally_instance {
	char topic[256], group[256], zone[64], instance[64];
	char group_state
		[24]; /* "member", "joining", "no_broker", "no_topic", "lost", "stopped", ... */
	uint32_t partitions;	   /* a stream belongs to hash % partitions; 0 = not known yet */
	uint32_t topic_partitions; /* that the topic has; others when kafka.partitions says so */
	uint32_t owned;		   /* slots that are not free */
	uint32_t ready;		   /* of those, ready right now */
	uint32_t window_minutes, rate_minutes;
	uint32_t supervisor_pid, query_pid, query_restarts;
	uint64_t rebalances, lost_events; /* assignments received; losses of membership */
	int64_t started_at_ms;
	int64_t heartbeat_age_ms; /* of the supervisor */
	int64_t clock_offset_ms;
	int alive;   /* the supervisor is running and its heartbeat is fresh */
	int stopped; /* it has stopped in order */
	/* Limits of tenants, and what came of the last attempt to load them: "none" (no file is
	 * configured, the defaults hold), "ok", or "refused" (what held before holds on). */
	char limits_state[16];
	char limits_error[512];	     /* why it was refused; "" when it was not */
	uint64_t limits_version;     /* grows with each load that is taken; 0 = none yet */
	int64_t limits_at_ms;	     /* of the last attempt; 0 = none yet */
	int64_t limits_loaded_at_ms; /* of the last one that was taken */
	uint32_t limits_refused;     /* attempts that were refused, since tallyd started */
	uint32_t limits_tenants;     /* with an entry of their own */
	int64_t limits_default;	     /* of a tenant without one; 0 = no limit, -1 = not known */
	int limits_dry_run;	     /* nothing is rejected, unless a tenant's entry says so */
	/* Query processes. */
	uint32_t query_processes; /* that should run; 0: query.enabled is false */
	uint32_t query_alive;	  /* of those, with a pid below */
	uint32_t query_pids
		[TALLY_QUERY_MAX]; /* of those that live, then 0; query_pid: of the first */
	char query_death[48]; /* of the one that died last: "exit 1", "SIGKILL"; "" = none has */
	int64_t query_died_at_ms; /* 0 = none has */
};
int tally_instance(struct tally *tally, struct tally_instance *out);

/* --- partitions ------------------------------------------------------------------------------ */

#define TALLY_SKIP_REASONS 10
/* "applied", "undecodable", "no_metadata", "no_tenant", "misrouted", "own", "duplicate",
 * "too_old", "store_full", "quarantined"; NULL out of range. */
const char *tally_skip_reason(unsigned reason);

struct tally_partition {
	uint32_t partition;
	char state
		[16]; /* "free", "pending", "replaying", "ready", "draining", "parked", "failed", "stopped" */
	int ready; /* state is ready and the lease is running */
	uint64_t generation;
	int64_t lease_ms; /* left; <= 0: over */
	int64_t assigned_at_ns, changed_at_ms;
	uint32_t pid, restarts, quarantine_listed, retry_in_ms;
	char death
		[16]; /* of the last worker: "none", "exit", "signal", "hang", "spawn", "rebuild" */
	char death_detail[48]; /* "SIGSEGV", "exit code 70", "fingerprint"; "" = none */
	int64_t death_at_ms;
	/* From the worker's stats; has_stats 0: all zero. */
	int has_stats;
	char phase[16]; /* "starting", "opening", "locating", "replaying", "live", ... */
	char problems
		[96]; /* words, blank-separated: "degraded store_full stalled ..."; "" = none */
	int64_t heartbeat_age_ms;
	int64_t next_offset, start_offset, target_offset, log_start, log_end; /* -1 = not known */
	int64_t lag;	 /* log_end - next_offset, >= 0; -1 = not known */
	double progress; /* of the replay, 0..1; 1 when done */
	int64_t eta_ms;	 /* to the end of the replay at the present rate; -1 = not known */
	uint64_t records_per_sec;
	int64_t record_lag_ms; /* age of the last record applied when it was applied */
	int64_t replay_started_at_ms, ready_at_ms;
	uint64_t records, applied, bytes, commits, replayed;
	uint64_t skipped[TALLY_SKIP_REASONS];
	uint64_t gaps, gap_offsets, streams_stored, swept, policy_overflow, quarantined, outbox;
	uint64_t commit_ns_last, commit_ns_max;
	uint64_t store_bytes, map_bytes, readers, reader_lag, lookup_errors;
	uint64_t reader_pid; /* of the oldest reader, when reader_lag is not 0 */
	/* Streams that were asked about, by what became of them, ... */
	uint64_t asked_known, asked_new, asked_rejected, asked_failed;
	uint64_t touched; /* accepted from the map by a query process */
	uint64_t rated;	  /* keys of UpdateRates */
	/* ... and records to Kafka: handed over, confirmed, producers given up.  `outbox`
	 * above: records that are not back yet. */
	uint64_t sent, confirmed, send_errors;
};

/* Partitions that are not free, in order, at most cap; *n = how many there are. */
int tally_partitions(struct tally *tally, struct tally_partition *out, size_t cap, size_t *n);

/* One partition, free ones too.  TALLY_EINVALID: the topic has no such partition. */
int tally_partition(struct tally *tally, uint32_t partition, struct tally_partition *out);

/* A change of a partition's state, as it was published. */
struct tally_change {
	int64_t at_ms; /* Unix */
	uint64_t generation;
	char from[16], to[16]; /* as tally_partition.state */
	char why[16];	       /* "assigned", "revoked", "lost", "exited", "ready", ... */
	char death[16];	       /* as tally_partition.death; "none": the reason was another */
	char death_detail[48];
};

/*
 * The last changes (32 are kept, also over restarts of tallyd), oldest first; at
 * most cap, *n = how many were written.  TALLY_EINVALID: the topic has no such
 * partition.
 */
int tally_history(
	struct tally *tally, uint32_t partition, struct tally_change *out, size_t cap, size_t *n);

/* --- tenants --------------------------------------------------------------------------------- */

/* Which partitions an answer stands on. */
struct tally_basis {
	uint32_t partitions; /* a stream belongs to hash % partitions */
	uint32_t owned;
	uint32_t answered; /* partitions that were ready (or, with STALE_OK, had been) */
	int complete;	   /* answered == owned, and owned > 0 */
	int stale;	   /* some of those are not published as ready any more: it may be old */
	/* Others that were read while they are replaying (PARTIAL_OK), or have never come to the
	 * end of that (STALE_OK); and the time of the last record that the one least far has
	 * counted, 0 = none.  Of a listing, a page each: it is whole if all pages are. */
	uint32_t partial;
	int64_t counted_to_ms;
};

struct tally_usage {
	char tenant[257];
	uint64_t streams;     /* active now */
	uint64_t bytes;	      /* over the window */
	uint32_t policies;    /* with at least one active stream or byte */
	double bytes_per_sec; /* over the rate window */
	struct tally_basis basis;
};

/* TALLY_ENOTFOUND: no partition has heard of it; *out is zeros then, with its basis. */
int tally_tenant(struct tally *tally, const char *tenant, struct tally_usage *out);

struct tally_policy {
	char policy[257]; /* "" = default */
	uint64_t streams, bytes;
};
/* By name; at most cap, *n = how many there are. */
int tally_policies(struct tally *tally, const char *tenant, struct tally_policy *out, size_t cap,
	size_t *n, struct tally_basis *basis);

/*
 * The minute histogram over the window, oldest first: streams by last-seen
 * minute and bytes by minute.  out has window_minutes + 1 elements.
 */
struct tally_minute {
	int64_t minute; /* Unix minute */
	uint64_t streams, bytes;
};
int tally_histogram(struct tally *tally, const char *tenant, struct tally_minute *out, size_t cap,
	size_t *n, struct tally_basis *basis);

/*
 * Tenants with an active stream or bytes in the window, by name, those after
 * `after` (NULL = from the first); at most cap, *n = how many were written.
 * Each call is one pass over all partitions.
 */
int tally_tenants(struct tally *tally, const char *after, struct tally_usage *out, size_t cap,
	size_t *n, struct tally_basis *basis);

/* The k tenants with most active streams, largest first (ties by name). */
int tally_top(struct tally *tally, struct tally_usage *out, size_t cap, size_t *n,
	struct tally_basis *basis);

/* --- streams --------------------------------------------------------------------------------- */

struct tally_stream {
	uint64_t hash;
	uint32_t partition;
	int active;
	int64_t last_seen_ms;	  /* to the second */
	int64_t last_produced_ms; /* 0 = never */
	uint64_t unsent_bytes;
	double bytes_per_sec; /* over the rate window */
	char policy[257];
};

/* TALLY_ENOTFOUND: not in the store; TALLY_ENOTREADY: its partition cannot answer. */
int tally_stream(struct tally *tally, const char *tenant, uint64_t hash, struct tally_stream *out);

/*
 * Active streams of a tenant in the order (partition, hash), those after the
 * cursor; at most cap, *n = how many were written.  Start with a zeroed
 * cursor; at the end cursor.done is 1.  A partition that cannot answer is
 * passed over: see basis.  TALLY_ENOTFOUND: a whole listing in one call, and no
 * partition has heard of the tenant.  Streams seen for the first time while it
 * goes on may be missed; none that is there all the time is, and none comes twice
 * (unless a partition gets a new generation meanwhile, as all do when the topic
 * gets another number of partitions).
 */
struct tally_cursor {
	uint32_t partition;
	uint64_t from;
	int done;
};
int tally_streams(struct tally *tally, const char *tenant, struct tally_cursor *cursor,
	struct tally_stream *out, size_t cap, size_t *n, struct tally_basis *basis);

/* One (partition, tenant, policy) usage, for tests and tools that compare partitions. */
struct tally_part_usage {
	uint64_t generation;
	int64_t next_offset;
	int64_t as_of_ms; /* "now" of the answer */
	uint64_t streams, bytes;
};
/* TALLY_ENOTFOUND: unknown tenant; the first three fields are filled all the same.
 * TALLY_ENOTREADY: also when it is partial. */
int tally_partition_usage(
	struct tally *tally, uint32_t partition, const char *tenant, struct tally_part_usage *out);

/*
 * Looks up many streams of one tenant, one transaction per partition: for
 * those who ask about every push.  hash is given, the rest is filled.  0 also
 * when some (or all) could not be answered: see `result` of each.
 */
struct tally_lookup {
	uint64_t hash;
	uint64_t generation; /* of the partition; 0 = not answered */
	uint32_t partition;
	int result; /* 0, TALLY_ENOTFOUND, TALLY_ENOTREADY, or why its store cannot be read */
	int active;
	int64_t last_seen_ms; /* to the second */
};
int tally_lookup(struct tally *tally, const char *tenant, struct tally_lookup *streams, size_t n);

/* --- limits ---------------------------------------------------------------------------------- */

#define TALLY_UNLIMITED UINT64_MAX

/*
 * A bucket: what one limit of a tenant counts.  The default one (policy "") has all
 * streams but those of policies with a limit of their own.
 *
 * share: what this instance may admit.  limit_scope instance: ceil(limit x owned /
 * partitions), against the sum over its partitions.  limit_scope partition:
 * ceil(limit / partitions) in each of them, added up here.
 * streams: active ones.  Those of partitions that are owned but not ready right now
 * count, too, as far as their store can be read (a pending one only when this handle
 * has read it before): the share is made for all that is owned.
 * headroom: how many more could come in: share - streams, not below 0; with
 * limit_scope partition that of each partition, added up.  With limit_scope instance,
 * while some partitions are being counted anew: what the others may have of the share,
 * less four standard deviations of what those may hold (hashes do not fall evenly).
 */
struct tally_bucket {
	char policy[257];
	uint64_t limit; /* TALLY_UNLIMITED = none */
	uint64_t share; /* TALLY_UNLIMITED = none */
	uint64_t streams;
	uint64_t headroom; /* TALLY_UNLIMITED = no limit */
};

struct tally_tenant_limits {
	int listed;	  /* limits.yaml has an entry for it */
	int is_default;	  /* the limit of its default bucket is the default limit */
	int dry_run;	  /* nothing is rejected, would-be rejections are counted */
	int by_partition; /* limit_scope is partition */
	uint64_t version; /* of the limits; 0 = none have been published: nothing is limited */
	struct tally_basis basis;
};

/*
 * The default bucket first, then policies with an own limit, by name; at most cap,
 * *n = how many there are.  partition < 0: over all that are owned; else that one alone
 * with its part of the limit, ceil(limit / partitions): what limit_scope partition judges
 * by.  `limits` may be NULL.  A tenant that nobody has heard of has buckets, too.
 *
 * 0 also when none of the owned partitions is ready: see basis.  TALLY_ENOTREADY: none is
 * owned, or not the one that was asked for; TALLY_ESTALE: tallyd is gone, and nothing is
 * ready any more; TALLY_EFORMAT, TALLY_ECORRUPT: the limits cannot be read (when new ones
 * cannot, the ones before them stay in use).
 *
 * tally_still_valid speaks of the partitions that were ready: what others hold is counted
 * as it was seen.
 */
int tally_buckets(struct tally *tally, const char *tenant, int32_t partition,
	struct tally_tenant_limits *limits, struct tally_bucket *out, size_t cap, size_t *n);

/*
 * May these streams come in?  From the map alone: nothing is asked, changed or
 * reserved, so of a few new streams that each have room, not all need to have it
 * together; tally-queryd decides for good.
 */
enum tally_verdict {
	TALLY_KNOWN = 0, /* active: will be accepted */
	TALLY_NEW,	 /* not active, and there is room */
	TALLY_FULL /* not active, and its bucket has no room: will be rejected (but see dry_run) */
};
struct tally_check {
	uint64_t hash;
	const char *policy;  /* NULL = "" */
	uint64_t generation; /* of the partition; 0 = not answered */
	uint32_t partition;
	int result; /* 0, or TALLY_ENOTREADY (also when it can be read: PARTIAL_OK), or why it cannot */
	enum tally_verdict verdict; /* when result is 0 */
};
/*
 * hash and policy are given, the rest is filled.  0 also when some (or all) could not be
 * answered: see `result` of each.  `limits` may be NULL.  Other errors as tally_buckets.
 */
int tally_check(struct tally *tally, const char *tenant, struct tally_check *streams, size_t n,
	struct tally_tenant_limits *limits);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
