/*
 * history.h - the last changes of each partition's published state, for people.
 *
 *	supervisor --history_add--> [ ring | ring | ... ], one a partition --history_read--> readers
 *
 * Nothing is decided by it.  It outlives the supervisor: after a crash it says
 * what was before.  One writer; an entry that is being written is passed over
 * by readers, so that one who was killed in the middle costs that entry.
 */
#ifndef TALLY_SHM_HISTORY_H
#define TALLY_SHM_HISTORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/segment.h"
#include "shm/table.h"

#define HISTORY_NAME	 "history"
#define HISTORY_VERSION	 1
#define HISTORY_LENGTH	 32 /* changes that are kept of a partition */
#define HISTORY_WHY_SIZE 16

struct history_entry {
	_Atomic uint64_t number; /* of the change, from 1; 0 = being written, or never was */
	_Atomic uint64_t at_ms;	 /* Unix */
	_Atomic uint64_t generation;
	_Atomic uint32_t states; /* from, to, and how the worker died: a byte each */
	_Atomic int32_t death_code;
	_Atomic uint64_t why[HISTORY_WHY_SIZE / 8]; /* NUL-padded */
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct history_entry) == 64, "file format");

struct history_ring {
	_Atomic uint64_t count; /* of changes, ever */
	uint64_t reserved[7];
	struct history_entry entries[HISTORY_LENGTH];
};
_Static_assert(sizeof(struct history_ring) == 64 * (1 + HISTORY_LENGTH), "file format");

struct history_file {
	struct segment_head segment;
	uint8_t reserved[40];
	struct history_ring rings[TABLE_CAPACITY];
};
_Static_assert(offsetof(struct history_file, rings) == 64, "file format");

struct history {
	struct segment segment; /* no map: nothing is written or found */
};

struct history_change {
	uint64_t at_ms; /* Unix */
	uint64_t generation;
	enum part_state from, to;
	enum part_death death; /* how the worker ended, when that was the reason */
	int32_t death_code;
	char why[HISTORY_WHY_SIZE]; /* a word: the event of the supervisor's lifecycle */
};

/* --- writer: the supervisor ------------------------------------------------------------------ */

/*
 * Goes on with the file that lies in `dirfd`, or makes a new one where there is
 * none that can be read.  Mode 0440.  On error (ERR_FULL, ERR_IO, ...) there is
 * no map, and history_add does nothing.
 */
int history_open(int dirfd, struct history *history);

void history_add(struct history *history, uint32_t partition, const struct history_change *change);

/* --- readers --------------------------------------------------------------------------------- */

/* ERR_NOT_FOUND: none here; ERR_FORMAT: of another version. */
int history_attach(int dirfd, struct history *history);

/* The last ones, oldest first; at most `cap`.  Returns how many. */
size_t history_read(
	const struct history *history, uint32_t partition, struct history_change *out, size_t cap);

/* Also ends a writer's. */
void history_close(struct history *history);

#endif
