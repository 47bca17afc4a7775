/*
 * race.h - what the tests in this folder share: one writer, some readers, until all have seen enough.
 *
 *	race_run(writer, reader) -- writer: rounds, then until every reader has seen enough
 *	                        '-- readers: until race_over()
 *
 * A reader's broken promise is a must(): cmocka's assertions belong to its own thread.
 */
#ifndef TALLY_TESTS_RACE_H
#define TALLY_TESTS_RACE_H

#include <stdbool.h>
#include <stdint.h>

#define RACE_READERS 3

struct race_reader {
	unsigned number;
	uint64_t seen;	/* answers that said something */
	uint64_t state; /* of race_chance */
};

/* Rounds for the writer: RACE_ROUNDS, or `usual` of them. */
unsigned race_rounds(unsigned usual);

/*
 * Runs `write` here with the round's number, and RACE_READERS threads of `read`.  Writing goes on
 * after its rounds until each reader has seen `enough`.
 */
void race_run(void (*write)(unsigned round), void (*read)(struct race_reader *reader),
	unsigned rounds, uint64_t enough);

/* For readers: the writer is done. */
bool race_over(void);

/* They have seen something. */
void race_saw(struct race_reader *reader);

/* 0 .. n-1; the seed is SEED or the time, and is printed. */
uint32_t race_chance(uint64_t *state, uint32_t n);
uint64_t race_seed(void);

#endif
