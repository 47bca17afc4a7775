/*
 * ranking.h - tenants by how near they are to their limit, and by other things: for people.
 *
 * To rank them takes a pass over all tenants of all partitions, so what one pass found
 * is kept for a while and shared by whoever asks: for ten times as long as the pass took,
 * a second at least.  However many pages are open, that is a tenth of one processor.
 *
 * What is kept stands on the partitions that it was read from: ranking_still_valid.
 *
 * A pass is made by a thread of its own, so that none that answers stands still meanwhile:
 *
 *	while (!ranking_begin(...)) sleep, and be woken (ranking_wake)
 *	ranking_read
 *
 * Thread safe.
 */
#ifndef TALLY_QUERYD_RANKING_H
#define TALLY_QUERYD_RANKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/tally.h"

#define RANKING_TENANTS_MAX 100000 /* those with most streams; others are not looked at */
#define RANKING_BUCKETS_MAX 500	   /* tenants whose policies have limits of their own */
#define RANKING_ROWS_MAX    1000   /* of one answer */
#define RANKING_LEFT	    1

struct ranking;

enum ranking_sort { RANK_HEADROOM, RANK_STREAMS, RANK_RATE, RANK_BYTES, RANK_NAME, RANK_SORTS };
const char *ranking_sort_word(enum ranking_sort sort); /* "headroom"; NULL out of range */

struct ranked {
	struct tally_usage usage;
	/* Of the bucket that is nearest to its share: the default one, or that of `policy`. */
	char policy[257];
	uint64_t limit, share, counted; /* TALLY_UNLIMITED = none; active streams in the bucket */
	double used;			/* counted / share; -1 = no limit */
	bool dry_run;
	bool known; /* false: the limits could not be read, or policies of too many have one */
};

struct ranking_ask {
	const char *query; /* in the name, whatever its case (of ASCII); NULL = all */
	enum ranking_sort sort;
	size_t rows; /* at most RANKING_ROWS_MAX */
};

struct ranking_facts {
	uint64_t id; /* for ranking_still_valid */
	struct tally_basis basis;
	size_t tenants; /* that there are; RANKING_TENANTS_MAX: perhaps more */
	size_t matched; /* by the query */
	int64_t as_of_ms;
};

/* `run_dir` is kept. */
struct ranking *ranking_new(const char *run_dir);
void ranking_free(struct ranking **ranking);

/* About once a second: lets go of what nobody has asked for in a while. */
void ranking_idle(struct ranking *ranking);

/*
 * Whether there is something to be read: what is kept, or the pass that *pass_no waits for (0: for
 * none yet).  false: one is being made, and *pass_no is its number.
 */
bool ranking_begin(struct ranking *ranking, uint64_t *pass_no);

/* Who sleeps until the pass under way is over; `wake` may ask for nothing here. */
struct ranking_waiter {
	struct ranking_waiter *next;
	void (*wake)(void *arg);
	void *arg;
};
void ranking_wake(struct ranking *ranking, struct ranking_waiter *waiter); /* now, when none is */
void ranking_wake_all(struct ranking *ranking);

/* Sleeps here. */
void ranking_wait(struct ranking *ranking);

/*
 * Rows, best first; *n of them.  A TALLY_E* as tally_top; RANKING_LEFT: a partition of it has left
 * meanwhile, begin again.
 */
int ranking_read(struct ranking *ranking, const struct ranking_ask *ask, struct ranked *out,
	size_t *n, struct ranking_facts *facts);

/* Whether what ranking_read gave with this id is still published and ready. */
bool ranking_still_valid(struct ranking *ranking, uint64_t id);

#endif
