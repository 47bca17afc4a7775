/*
 * kafka-spoil.h - finds a batch in a Fetch response and spoils it; bytes in, bytes out.
 *
 *	frame --walk topics, partitions--> rule? --> records --> batch --> spoiled
 *	   '------ lengths made consistent when it has become shorter <------'
 *
 * Of each response the first whole batch, or the one that holds offset `at`.  Layouts are those of
 * Kafka's FetchResponse.json, versions 4 to 11, and of its record batch, magic 2:
 *
 *	 0 base offset  8 length  12 epoch  16 magic  17 crc  21 attributes  23 last offset delta
 *	27 base and max timestamp  43 producer id, epoch, sequence  57 count  61 records
 *
 * The crc is CRC-32C over all from the attributes on.
 */
#ifndef TALLY_TESTS_KAFKA_SPOIL_H
#define TALLY_TESTS_KAFKA_SPOIL_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SPOIL_VERSION_MIN 4
#define SPOIL_VERSION_MAX 11 /* 12 is the first with tagged fields */

enum spoil_kind {
	SPOIL_FLIP,   /* one bit of the records: the crc does not fit any more */
	SPOIL_CRC,    /* the crc field itself */
	SPOIL_MAGIC,  /* a layout that does not exist; the crc does not cover it */
	SPOIL_CODEC,  /* a codec that does not exist, right crc */
	SPOIL_CUT,    /* ends in the middle of its records */
	SPOIL_GARBLE, /* 2^31 - 1 records, the first of them as long, right crc */
};

struct spoil {
	enum spoil_kind kind;
	char topic[250];
	int32_t partition;
	int64_t at;   /* the batch with this offset; -1: the first */
	int64_t bit;  /* flip: which of the records' bits, modulo their number; -1: the middle */
	int64_t left; /* responses; -1: all */
};

enum {
	BATCH_LENGTH = 8,
	BATCH_MAGIC = 16,
	BATCH_CRC = 17,
	BATCH_ATTRIBUTES = 21,
	BATCH_LAST_DELTA = 23,
	BATCH_COUNT = 57,
	BATCH_RECORDS = 61
};

/* --- numbers --------------------------------------------------------------------------------- */

static inline uint64_t spoil_get(const uint8_t *p, int bytes)
{
	uint64_t n = 0;

	for (int i = 0; i < bytes; i++)
		n = n << 8 | p[i];
	return n;
}

static inline void spoil_set32(uint8_t *p, uint32_t n)
{
	for (int i = 3; i >= 0; i--, n >>= 8)
		p[i] = (uint8_t)n;
}

static inline uint32_t spoil_crc32c(const uint8_t *p, size_t len)
{
	static uint32_t table[256];
	uint32_t crc = UINT32_MAX;

	for (uint32_t i = 0; i < 256 && table[255] == 0; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78 : 0);
	}
	while (len-- > 0)
		crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
	return ~crc;
}

/* --- one batch ------------------------------------------------------------------------------- */

/* Returns the batch, whole, or NULL. */
static inline uint8_t *spoil_find(uint8_t *records, size_t size, int64_t at, size_t *len)
{
	while (size > BATCH_RECORDS) {
		int64_t base = (int64_t)spoil_get(records, 8);

		*len = 12 + (size_t)spoil_get(records + BATCH_LENGTH, 4);
		if (*len > size || *len <= BATCH_RECORDS || records[BATCH_MAGIC] != 2)
			return NULL;
		if (at < 0 || (base <= at && at <= base + (int64_t)spoil_get(
								  records + BATCH_LAST_DELTA, 4)))
			return records;
		records += *len;
		size -= *len;
	}
	return NULL;
}

static inline void spoil_garble(uint8_t *batch, size_t len)
{
	static const uint8_t longest[] = {0xfe, 0xff, 0xff, 0xff, 0x0f}; /* zigzag 2^31 - 1 */

	spoil_set32(batch + BATCH_COUNT, INT32_MAX);
	batch[BATCH_ATTRIBUTES + 1] &= (uint8_t)~7; /* or only the decompressor would see it */
	if (len >= BATCH_RECORDS + sizeof(longest))
		memcpy(batch + BATCH_RECORDS, longest, sizeof(longest));
}

/* Returns how much of the batch is left. */
static inline size_t spoil_batch(const struct spoil *rule, uint8_t *batch, size_t len)
{
	uint64_t bits = (len - BATCH_RECORDS) * 8;
	uint64_t bit = rule->bit < 0 ? bits / 2 : (uint64_t)rule->bit % bits;

	switch (rule->kind) {
	case SPOIL_FLIP:
		batch[BATCH_RECORDS + bit / 8] ^= (uint8_t)(1u << bit % 8);
		return len;
	case SPOIL_CRC:
		batch[BATCH_CRC] ^= 0xff;
		return len;
	case SPOIL_MAGIC:
		batch[BATCH_MAGIC] = 3;
		return len;
	case SPOIL_CUT:
		return BATCH_RECORDS + (len - BATCH_RECORDS) / 2;
	case SPOIL_CODEC:
		batch[BATCH_ATTRIBUTES + 1] |= 7;
		break;
	case SPOIL_GARBLE:
		spoil_garble(batch, len);
		break;
	}
	spoil_set32(
		batch + BATCH_CRC, spoil_crc32c(batch + BATCH_ATTRIBUTES, len - BATCH_ATTRIBUTES));
	return len;
}

/* --- a response ------------------------------------------------------------------------------ */

struct spoil_cursor {
	uint8_t *p;
	size_t left; /* of the frame */
	bool bad;    /* it has ended too early: nothing that we know */
};

static inline uint64_t spoil_read(struct spoil_cursor *c, int bytes)
{
	uint64_t n;

	if (c->bad || c->left < (size_t)bytes) {
		c->bad = true;
		return 0;
	}
	n = spoil_get(c->p, bytes);
	c->p += bytes;
	c->left -= (size_t)bytes;
	return n;
}

static inline uint8_t *spoil_skip(struct spoil_cursor *c, size_t n)
{
	uint8_t *p = c->p;

	if (c->bad || c->left < n) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	c->left -= n;
	return p;
}

struct spoil_rules {
	struct spoil *rule;
	int n;
	void (*done)(const struct spoil *rule, int64_t base_offset);
};

static inline struct spoil *spoil_rule(
	const struct spoil_rules *rules, const uint8_t *topic, size_t len, int32_t partition)
{
	for (int i = 0; i < rules->n; i++) {
		struct spoil *rule = &rules->rule[i];

		if (rule->left != 0 && rule->partition == partition && strlen(rule->topic) == len &&
			memcmp(rule->topic, topic, len) == 0)
			return rule;
	}
	return NULL;
}

/* The records of a partition, `c` behind their length; returns by how much they are shorter now. */
static inline size_t spoil_records(
	struct spoil_cursor *c, const struct spoil_rules *rules, struct spoil *rule, size_t size)
{
	uint8_t *records = spoil_skip(c, size), *batch;
	size_t len, kept, gone;

	if (records == NULL || rule == NULL)
		return 0;
	batch = spoil_find(records, size, rule->at, &len);
	if (batch == NULL)
		return 0;
	rules->done(rule, (int64_t)spoil_get(batch, 8));
	rule->left -= rule->left > 0;
	kept = spoil_batch(rule, batch, len);
	if (kept == len)
		return 0;
	/* Cut: nothing of this partition follows. */
	gone = size - (size_t)(batch - records) - kept;
	memmove(batch + kept, c->p, c->left);
	c->p = batch + kept;
	spoil_set32(records - 4, (uint32_t)(size - gone));
	return gone;
}

static inline size_t spoil_partition(struct spoil_cursor *c, int version,
	const struct spoil_rules *rules, const uint8_t *topic, size_t topic_len)
{
	int32_t partition = (int32_t)spoil_read(c, 4), aborted, size;

	spoil_skip(c, 2 + 8 + 8 + (version >= 5 ? 8 : 0)); /* error, high, stable, start */
	aborted = (int32_t)spoil_read(c, 4);
	spoil_skip(c, aborted > 0 ? (size_t)aborted * 16 : 0);
	spoil_skip(c, version >= 11 ? 4 : 0); /* preferred replica */
	size = (int32_t)spoil_read(c, 4);
	if (c->bad || size <= 0)
		return 0;
	return spoil_records(
		c, rules, spoil_rule(rules, topic, topic_len, partition), (size_t)size);
}

/*
 * A whole frame, its own length at its start.  Returns its new length; rules->done is called for
 * each batch that was spoiled.
 */
static inline size_t spoil_response(
	uint8_t *frame, size_t len, int version, const struct spoil_rules *rules)
{
	struct spoil_cursor c = {.p = frame, .left = len};
	size_t gone = 0;

	spoil_skip(&c, 4 + 4 + 4 + (version >= 7 ? 2 + 4 : 0)); /* throttle, error, session */
	for (uint64_t topics = spoil_read(&c, 4); topics > 0 && !c.bad; topics--) {
		size_t name_len = (size_t)spoil_read(&c, 2);
		const uint8_t *name = spoil_skip(&c, name_len);

		for (uint64_t n = spoil_read(&c, 4); n > 0 && !c.bad; n--)
			gone += spoil_partition(&c, version, rules, name, name_len);
	}
	spoil_set32(frame, (uint32_t)(len - gone - 4));
	return len - gone;
}

#endif
