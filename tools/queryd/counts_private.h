/*
 * counts_private.h - what counts.c and counts_sum.c share: the file, and what a word of it is.
 */
#ifndef TALLY_QUERYD_COUNTS_PRIVATE_H
#define TALLY_QUERYD_COUNTS_PRIVATE_H

#include "counts.h"

#include <pthread.h>

#include "shm/segment.h"

#define COUNTS_MAGIC "TALLYCNT"
#define COUNTS_WORDS (sizeof(struct counted) / sizeof(uint64_t))

/* What every reader of a slot reads. */
struct counts_head {
	struct segment_head segment;
	uint64_t schema; /* of the words: another one is another format */
	uint64_t reserved[4];
	_Atomic uint64_t words[(COUNTS_WORDS + 7) / 8 * 8]; /* struct counted */
};
_Static_assert(offsetof(struct counts_head, words) == 64, "file format");
_Static_assert(sizeof(struct counts_head) % 64 == 0, "file format");

struct counts_file {
	struct counts_head head;
	struct refusals_rows rows[2]; /* by enum counts_rows */
};

struct counts {
	int dir, fd;   /* run_dir; of the slot, for its lock; -1: none */
	unsigned slot; /* COUNTS_SLOTS: none, `file` is memory of our own */
	struct counts_file *file;
	uint64_t schema;
	pthread_mutex_t publishing;
	uint64_t before[COUNTS_WORDS]; /* what the slot had when we took it */
};

enum counts_how {
	EVER,	       /* a counter: the sum of all */
	EVER_IN_PLACE, /* the same, added to where it lies */
	EVER_SAME,     /* a counter that all of them count alike: the largest */
	NOW_SUM,       /* gauges of those that live: their sum, ... */
	NOW_SUM_IN_PLACE,
	NOW_MOST,
	NOW_LEAST
};

enum counts_how counts_how(size_t word);

static inline bool counts_is_gauge(enum counts_how how)
{
	return how >= NOW_SUM;
}

static inline bool counts_is_in_place(enum counts_how how)
{
	return how == EVER_IN_PLACE || how == NOW_SUM_IN_PLACE;
}

/* Of a slot's name in run_dir. */
#define COUNTS_NAME_SIZE 32
void counts_name(unsigned slot, char name[COUNTS_NAME_SIZE]);

/* What a whole file of this version says of itself. */
extern const struct segment_spec counts_spec;

static inline uint64_t counts_get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

#endif
