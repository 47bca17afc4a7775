/*
 * spoil.h - rules for the batches in a broker's Fetch responses, and spoiling by them.
 *
 *	words --> spoil_add --> rules --.
 *	Fetch response -----------------+--> spoil_response --> shorter, or other bytes
 *
 * Pure, but for the line on stderr about each batch that was spoiled.
 */
#ifndef TALLY_TESTS_KAFKA_SPOIL_H
#define TALLY_TESTS_KAFKA_SPOIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of Fetch; 12 is the first with tagged fields. */
#define SPOIL_VERSION_MIN 4
#define SPOIL_VERSION_MAX 11

#define SPOIL_RULES_MAX 32

struct spoil {
	int kind; /* spoil.c */
	char topic[250];
	int32_t partition;
	int64_t at;   /* the batch with this offset; -1: the first */
	int64_t bit;  /* flip: which of the records' bits, modulo their number; -1: the middle */
	int64_t left; /* responses; -1: all */
};

/* One a partition. */
struct spoil_rules {
	struct spoil rule[SPOIL_RULES_MAX];
	int n;
};

/* KIND TOPIC PARTITION [COUNT] [at=OFFSET] [bit=N].  Returns what is wrong with it, or NULL. */
const char *spoil_add(struct spoil_rules *rules, char **word, int n);

/* A whole frame, from its own length on, of one of those versions.  Returns its new length. */
size_t spoil_response(uint8_t *frame, size_t len, int version, struct spoil_rules *rules);

/* A number as Kafka writes it: big endian. */
uint64_t spoil_get(const uint8_t *p, int bytes);

#endif
