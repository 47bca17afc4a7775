/*
 * ask_private.h - what ask.c, ask_send.c and asker.c share: a question under way.
 *
 *	ask_work: streams -> parts (one per partition) -> claims (one per bucket) -> messages
 *
 * `open` counts the streams that a claim or a message still has; at 0 the work
 * is put on the asker's list, and ask_settle ends it.  Nothing is ended or freed
 * anywhere else, so callbacks may come at any depth.
 */
#ifndef TALLY_QUERYD_ASK_PRIVATE_H
#define TALLY_QUERYD_ASK_PRIVATE_H

#include <ev.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ask.h"
#include "asker.h"
#include "known.h"
#include "ledger.h"
#include "link.h"
#include "refusals.h"
#include "touch.h"

#include "shm/admit.h"
#include "shm/log.h"
#include "shm/table.h"
#include "shm/tally.h"

#define ASK_WAIT_NS	  UINT64_C(5000000000) /* longest wait for a worker */
#define ASK_SLICE	  5000 /* streams that are looked up in one turn of the loop */
#define ASK_POOL_MAX	  64
#define ASK_POOL_STREAMS  ASK_STREAMS_MAX /* that all which are kept have room for */
#define ASK_POOL_POLICIES 1024

/* The streams of one partition: order[first] .. order[first + n - 1]. */
struct ask_part {
	uint32_t partition;
	uint64_t generation; /* 0: it is not served */
	size_t first, n;
	size_t from, count; /* of the group that is being made (ask_group) */
	uint32_t known;	    /* its number there */
};

/* What is not active and counts in one bucket: candidate[next] .. candidate[end - 1]. */
struct ask_claim {
	struct ledger_claim claim; /* first */
	struct ask_work *work;
	size_t next, end;
	size_t to_refuse; /* the last of them, once it is full: in slices */
	bool queued;
};

/* Of a stream of ASK_EXCEEDS. */
enum ask_state {
	STREAM_OPEN,	 /* not active: needs a budget */
	STREAM_IN_MAP,	 /* active in the map: accepted, to be touched */
	STREAM_TO_RENEW, /* in its last active minute: its worker is asked, for a touch may be late */
	STREAM_TO_CLAIM, /* ... which has found it expired: it needs a budget after all */
	STREAM_SETTLED	 /* claimed, or it has its result */
};

struct ask_message {
	struct link_message link; /* first */
	struct ask_work *work;	  /* NULL: nobody waits for it any more */
	struct ask_message *next, *prev;
	enum ask_purpose { FOR_BUDGET, FOR_RENEWAL, FOR_RATES } purpose;
	struct ledger_bucket *bucket; /* held; NULL unless for a budget */
	uint64_t reserved;
	uint32_t partition, n;
	uint32_t stream[];
};

struct ask_work {
	struct ask_work *next, *prev; /* of all that are under way, or of the pool */
	struct ask_work *ready_next;
	struct ask_work *reading_next, *reading_prev;
	struct asker *asker;
	struct ask *ask;
	ev_timer deadline;
	uint64_t begun_ns;
	int64_t seen_ms;
	uint32_t partitions;
	size_t n, cap;
	size_t open;
	size_t again; /* streams that are claimed when all else is done */
	bool ready, late;
	/* The map: up to where it has been read, in slices, and what was found. */
	bool reading; /* it has its turn */
	bool whole;   /* no partition has left meanwhile */
	size_t read_part, read_at;
	size_t found_new, found_expiring;
	/* Of each stream. */
	uint32_t *part, *policy;
	uint8_t *state; /* enum ask_state */
	/* By partition. */
	uint32_t *order;
	uint64_t *hash;
	uint8_t *active;
	/* By claim. */
	uint32_t *candidate, *claim_of;
	uint32_t *grouped; /* ask_group */
	struct ask_part *parts;
	size_t n_parts, parts_cap;
	const char **policies; /* "" first */
	uint32_t *policy_mark; /* of each policy: whatever is being found out */
	size_t n_policies, policies_cap;
	uint32_t *policy_index;
	size_t policy_index_size;
	struct ask_claim *claims;
	size_t n_claims, claims_cap;
	struct ask_message *messages;
};

struct asker {
	struct ev_loop *loop;
	const char *run_dir;
	uint64_t seed;	     /* of hashes of names that clients choose */
	struct tally *tally; /* NULL: there is no run directory yet */
	uint64_t next_open_ns;
	struct links *links;
	struct ledger *ledger;
	struct touches *touches;
	struct known *known;
	struct refusals *refusals;
	struct refusals *accepted; /* by the same means: bytes */
	struct ask_work *pool, *works, *ready, *ready_last;
	struct ask_work *reading, *reading_last; /* a slice of the first one each turn */
	ev_check turn;
	ev_idle awake; /* while there are any */
	unsigned n_pool;
	size_t pool_streams; /* they have room for so many */
	size_t under_way;    /* streams of all questions, here and with peers */
	bool settling;
	struct log_limit unreadable;
	struct ask_work *finishing;	  /* whose `done` is being called */
	uint32_t part_of[TABLE_CAPACITY]; /* while a question is taken apart: number + 1 */
	/* A message that is being made. */
	struct admit_question question;
	struct admit_stream streams[ADMIT_STREAMS_MAX];
	uint8_t packed[ADMIT_MESSAGE_MAX];
	struct ask_counts *count; /* written by its thread alone; asker_count_in */
	struct ask_counts own_count;
	struct asker_thread *thread; /* asker.c */
};

static inline void ask_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
		memory_order_relaxed);
}

/* For the streams of a question.  false: there are too many. */
static inline bool ask_reserve(struct asker *asker, size_t n)
{
	if (n > ASK_UNDER_WAY_MAX - asker->under_way)
		return false;
	asker->under_way += n;
	return true;
}

static inline void ask_unreserve(struct asker *asker, size_t n)
{
	asker->under_way -= n;
}

/* --- ask_work.c ------------------------------------------------------------------------------- */

struct ask_work *ask_take_work(struct asker *asker, struct ask *ask);
void ask_give_work(struct ask_work *work);
void ask_free_pool(struct asker *asker);

bool ask_name_ok(const char *name, size_t max);

/* false: one of its policies is no name. */
bool ask_number_policies(struct ask_work *work);

/* --- ask_map.c -------------------------------------------------------------------------------- */

int ask_open_table(struct asker *asker, uint32_t *partitions);

/* Sorts the streams by partition, and looks at their words.  false: some are not served. */
bool ask_take_apart(struct ask_work *work);

/* Sorts streams by partition into work->grouped; parts with count > 0 say where. */
void ask_group(struct ask_work *work, const uint32_t *streams, size_t n);

void ask_set_part(struct ask_work *work, const struct ask_part *part, enum ask_result result);
void ask_set_all(struct ask_work *work, enum ask_result result);

/* Looks streams (of one part) up: active[i] for streams[i].  false: they have got their results. */
bool ask_look_up(struct ask_work *work, const struct ask_part *part, const uint32_t *streams,
	size_t n, uint64_t *hashes, uint8_t *active);

/* Looks up at most `max` streams more.  true: that was all. */
bool ask_read_map(struct ask_work *work, size_t max);

/* --- ask.c ------------------------------------------------------------------------------------ */

/* n of its streams have got their result. */
void ask_closed(struct ask_work *work, size_t n);

/* Ends what can be ended.  The last thing that whoever was called by the loop does. */
void ask_settle(void *asker);

/* Once, with the loop there. */
void ask_init_turns(struct asker *asker);

/* ask_refuse_some is called in turns to come. */
void ask_refuse_later(struct ask_work *work);

/* All that are under way are answered now, with what is known. */
void ask_end_all(struct asker *asker);

/* --- ask_send.c ------------------------------------------------------------------------------- */

/* Claims budgets for all streams that are open. */
void ask_claim_all(struct ask_work *work);

/* Those in their last minute. */
void ask_renew(struct ask_work *work);

/* RATE for all streams. */
void ask_send_rates(struct ask_work *work);

/* At most `max` streams of claims that are full are refused.  true: those were all. */
bool ask_refuse_some(struct ask_work *work, size_t max);

/* Nobody waits for its claims and messages any more. */
void ask_abandon(struct ask_work *work);

/* links_options.done */
void ask_answered(struct link_message *message, const struct admit_answer *answer, void *asker);

#endif
