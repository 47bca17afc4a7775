/*
 * ranking.h - tenants by how near they are to their limit, and by other things: for people.
 *
 * To rank them takes a pass over all tenants of all partitions, so what one pass found
 * is kept for a while and shared by whoever asks: for ten times as long as the pass took,
 * a second at least.  However many pages are open, that is a tenth of one processor.
 *
 * What is kept stands on the partitions that it was read from: ranking_still_valid.
 *
 * Thread safe; whoever asks while a pass is under way waits for it.
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

/* Rows, best first; *n of them.  A TALLY_E* as tally_top. */
int ranking_read(struct ranking *ranking, const struct ranking_ask *ask, struct ranked *out,
	size_t *n, struct ranking_facts *facts);

/* Whether what ranking_read gave with this id is still published and ready. */
bool ranking_still_valid(struct ranking *ranking, uint64_t id);

#endif
