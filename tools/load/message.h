/*
 * message.h - a Kafka message made of a pick, good or broken.
 */
#ifndef TALLY_LOAD_MESSAGE_H
#define TALLY_LOAD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"
#include "options.h"
#include "shm/record.h"

/* What --out tells of a record, in a form that can wait for the delivery report. */
struct note {
	int64_t timestamp_ms;
	uint64_t tenant, hash, size, sequence;
	unsigned policy;
	enum kind kind;
	bool has_source;
};

struct message {
	int32_t partition;
	int64_t timestamp_ms;
	const char *key;
	size_t key_len;
	const void *value; /* NULL = a null value */
	size_t value_len;
	bool has_header;
	uint8_t header[RECORD_HEADER_SIZE];
	struct note note;
};

struct maker;

/* `options` is kept.  NULL: out of memory. */
struct maker *maker_new(const struct options *options);
void maker_free(struct maker **maker);

/* The message is valid until the next call. */
const struct message *maker_make(
	struct maker *maker, const struct pick *pick, int64_t timestamp_ms, enum kind kind);

/* A duplicate can be made: there was a good record. */
bool maker_can_repeat(const struct maker *maker);

#endif
