/*
 * stats.h - a worker's counters, mapped, written by that worker alone.
 *
 *	worker --stats_create--> p7.1234/stats --stats_copy--> libtally, queryd, tallyctl
 *	                                      '--stats_pread--> supervisor
 *
 * Every field is an independent atomic, stored relaxed.  Counters of what was
 * counted (seen, skipped, ...) mirror the store's meta row and are set after
 * each commit.  The other counters are added to where they are.  So all of them
 * survive the worker, and start at 0 with a new generation.
 *
 * The supervisor reads the file with pread(2), never through a map: a worker
 * could cut its own file short, and that must not be able to hurt it.
 *
 * The worker holds a flock on the file for life.
 */
#ifndef TALLY_SHM_STATS_H
#define TALLY_SHM_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "shm/record.h"
#include "shm/segment.h"

#define STATS_NAME    "stats"
#define STATS_VERSION 3

enum worker_phase {
	PHASE_STARTING,	 /* has its handoff */
	PHASE_OPENING,	 /* opening the store: a death here gives a new generation */
	PHASE_LOCATING,	 /* asking the broker where to start and where replay ends */
	PHASE_REPLAYING, /* below its target */
	PHASE_LIVE,	 /* at or beyond its target */
	PHASE_DRAINING,	 /* hands over its outbox, then waits to be killed */
	PHASE_STOPPING,	 /* orderly stop */
	PHASE_COUNT
};
const char *worker_phase_word(enum worker_phase phase);

/* What is wrong but healing; bits of stats.flags. */
enum worker_flag {
	FLAG_DEGRADED = 1,    /* offsets cannot be had: retried for ever */
	FLAG_STORE_FULL = 2,  /* no room: the batch is kept and tried again */
	FLAG_STALLED = 4,     /* the log has more, but nothing arrives */
	FLAG_CLOCK_OFF = 8,   /* wall time has stepped */
	FLAG_LEASE_OVER = 16, /* no commits */
	FLAG_BAD_BATCH = 32,  /* the broker's data cannot be read at the current offset */
	FLAG_UNWRITTEN = 64,  /* what was admitted cannot be written to Kafka: kept, tried again */
	FLAG_OLD_READER = 128 /* a reader keeps old pages from being used again: see reader_pid */
};

/* clang-format off */
/* X(name): every value of a worker, each _Atomic uint64_t (offsets: int64_t cast). */
#define STATS_FIELDS(X) \
	X(pid) \
	X(generation) \
	X(phase)	    /* enum worker_phase */ \
	X(flags)	    /* enum worker_flag bits */ \
	X(heartbeat)	    /* CLOCK_BOOTTIME ns, at least once a second */ \
	X(in_hand)	    /* offset + 1 being worked on since the last commit; 0 = none */ \
	X(next_offset)	    /* committed: next to read, as offset + 1; 0 = nothing committed */ \
	X(start_offset)	    /* where this run started */ \
	X(target_offset)    /* replay ends here */ \
	X(log_start)	    /* last known */ \
	X(log_end)	    /* last known */ \
	X(records)	    /* seen since the generation began, whatever became of them */ \
	X(applied) \
	X(bytes)	    /* of applied records, cumulative */ \
	X(commits) \
	X(commit_ns_last) \
	X(commit_ns_max) \
	X(last_commit_at)   /* CLOCK_BOOTTIME ns */ \
	X(records_per_sec)  /* over the last seconds */ \
	X(record_lag_ms)    /* now - timestamp of the last record applied */ \
	X(replay_started_at) /* Unix ms */ \
	X(ready_at)	    /* Unix ms; 0 = not yet */ \
	X(replayed)	    /* records read by this process before it was ready */ \
	X(gaps)		    /* jumps in offsets beyond what was expected to be there */ \
	X(gap_offsets)	    /* offsets in them */ \
	X(streams)	    /* entries in the store, expired ones included */ \
	X(swept)	    /* expired entries removed */ \
	X(policy_overflow)  /* records put under the default policy: too many policies */ \
	X(quarantined)	    /* records passed over as poison */ \
	X(outbox)	    /* rows */ \
	X(store_bytes)	    /* used: pages x page size */ \
	X(map_bytes)	    /* size of the map */ \
	X(reader_lag)	    /* transactions that the oldest reader is behind */ \
	X(readers) \
	X(lookup_errors)    /* failed offset look-ups */ \
	X(rebuild_reason)   /* enum rebuild_reason, set before it asks for a new generation */ \
	/* What was asked on admit.sock, in streams, and what was written to Kafka. */ \
	X(asked_known)	    /* asked, and active already */ \
	X(asked_new)	    /* asked, and let in */ \
	X(asked_rejected) \
	X(asked_failed)	    /* outbox or store full, or not ready */ \
	X(touched)	    /* accepted from the map by a query process */ \
	X(rated)	    /* keys of UpdateRates */ \
	X(sent)		    /* records handed to the producer */ \
	X(confirmed)	    /* by the broker */ \
	X(send_errors)	    /* producers given up */ \
	X(reader_pid)	    /* the oldest reader's; 0 = nobody reads an older transaction */ \
	X(in_store)	    /* 1: it died by a signal inside of a transaction of its store */
/* clang-format on */

struct stats {
	struct segment_head head;
	uint64_t partition; /* written once */
#define X(name) _Atomic uint64_t name;
	STATS_FIELDS(X)
#undef X
	_Atomic uint64_t skipped[SKIP_REASONS]; /* by enum skip_reason */
	uint64_t reserved[7];
};
_Static_assert(sizeof(struct stats) % 8 == 0, "file format");

/* The same values as plain numbers. */
struct stats_copy {
	uint64_t partition;
#define X(name) uint64_t name;
	STATS_FIELDS(X)
#undef X
	uint64_t skipped[SKIP_REASONS];
};

/* Why a worker asked for a new generation (exit code EXIT_REBUILD). */
enum rebuild_reason {
	REBUILD_NONE,
	REBUILD_LOCKED,	     /* an orphan still holds the old one */
	REBUILD_IDENTITY,    /* other cluster, topic, partition, layout or window */
	REBUILD_BOOT,	     /* the machine was rebooted since */
	REBUILD_CORRUPT,     /* the store contradicts itself */
	REBUILD_FINGERPRINT, /* the log holds another record where ours was */
	REBUILD_BEYOND_END,  /* the log ends before our offset */
	REBUILD_GAP,	     /* records we had not read are gone, and were young enough to count */
	REBUILD_CLOCK,	     /* wall time has gone back for good */
	REBUILD_DEADLY,	     /* who reads or writes it dies of it */
	REBUILD_REASONS
};
const char *rebuild_reason_word(enum rebuild_reason reason);

/*
 * Creates the file in the generation's directory (mode 0640), or takes over
 * the one of a predecessor, and locks it: waits up to `wait_ms`, then ERR_BUSY.
 * In a predecessor's file only pid, phase and heartbeat are new: counters go on.
 * *fd keeps the lock; it must stay open for life.
 */
int stats_create(int dirfd, uint32_t partition, uint64_t generation, unsigned wait_ms,
	struct stats **stats, int *fd);

#define stats_set(stats, field, value)                                                             \
	atomic_store_explicit(&(stats)->field, (uint64_t)(value), memory_order_relaxed)
#define stats_get(stats, field) atomic_load_explicit(&(stats)->field, memory_order_relaxed)

/* Reader side: a map, checked.  Same errors as segment_attach. */
int stats_attach(int dirfd, struct segment *seg);
void stats_copy(const struct segment *seg, struct stats_copy *copy);

/* By read(2): opens `name`'s stats in `dirfd` ("p7.1234").  ERR_NOT_FOUND, ERR_FORMAT. */
int stats_pread(int dirfd, const char *name, struct stats_copy *copy);

#endif
