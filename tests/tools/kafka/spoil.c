/*
 * spoil.c - finds a batch in a Fetch response and spoils it; bytes in, bytes out.
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
#include "tests/tools/kafka/spoil.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum spoil_kind {
	SPOIL_FLIP,   /* one bit of the records: the crc does not fit any more */
	SPOIL_CRC,    /* the crc field itself */
	SPOIL_MAGIC,  /* a layout that does not exist; the crc does not cover it */
	SPOIL_CODEC,  /* a codec that does not exist, right crc */
	SPOIL_CUT,    /* ends in the middle of its records */
	SPOIL_GARBLE, /* 2^31 - 1 records, the first of them as long, right crc */
	KINDS
};

static const char *const kinds[] = {
	[SPOIL_FLIP] = "flip",
	[SPOIL_CRC] = "crc",
	[SPOIL_MAGIC] = "magic",
	[SPOIL_CODEC] = "codec",
	[SPOIL_CUT] = "cut",
	[SPOIL_GARBLE] = "garble",
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

/* --- the rules ------------------------------------------------------------------------------- */

static bool is_number(const char *text, int64_t *n)
{
	char *end;

	*n = strtoll(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == '\0';
}

/* COUNT, at=OFFSET or bit=N. */
static bool take_word(struct spoil *rule, const char *word)
{
	if (strncmp(word, "at=", 3) == 0)
		return is_number(word + 3, &rule->at);
	if (strncmp(word, "bit=", 4) == 0)
		return is_number(word + 4, &rule->bit);
	return is_number(word, &rule->left);
}

const char *spoil_add(struct spoil_rules *rules, char **word, int n)
{
	struct spoil rule = {.at = -1, .bit = -1, .left = -1};
	int64_t partition;
	int i = 0;

	while (rule.kind < KINDS && strcmp(kinds[rule.kind], word[0]) != 0)
		rule.kind++;
	if (rule.kind == KINDS)
		return "no such command";
	if (n < 3 || strlen(word[1]) >= sizeof(rule.topic) || !is_number(word[2], &partition))
		return "expected TOPIC PARTITION [COUNT] [at=OFFSET] [bit=N]";
	strcpy(rule.topic, word[1]);
	rule.partition = (int32_t)partition;
	for (int w = 3; w < n; w++)
		if (!take_word(&rule, word[w]))
			return "expected COUNT, at=OFFSET or bit=N";
	while (i < rules->n && (rules->rule[i].partition != rule.partition ||
				       strcmp(rules->rule[i].topic, rule.topic) != 0))
		i++;
	if (i == SPOIL_RULES_MAX)
		return "too many rules";
	rules->rule[i] = rule;
	rules->n += i == rules->n;
	return NULL;
}

/* --- numbers --------------------------------------------------------------------------------- */

uint64_t spoil_get(const uint8_t *p, int bytes)
{
	uint64_t n = 0;

	for (int i = 0; i < bytes; i++)
		n = n << 8 | p[i];
	return n;
}

static void spoil_set32(uint8_t *p, uint32_t n)
{
	for (int i = 3; i >= 0; i--, n >>= 8)
		p[i] = (uint8_t)n;
}

static uint32_t spoil_crc32c(const uint8_t *p, size_t len)
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
static uint8_t *spoil_find(uint8_t *records, size_t size, int64_t at, size_t *len)
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

static void spoil_garble(uint8_t *batch, size_t len)
{
	static const uint8_t longest[] = {0xfe, 0xff, 0xff, 0xff, 0x0f}; /* zigzag 2^31 - 1 */

	spoil_set32(batch + BATCH_COUNT, INT32_MAX);
	batch[BATCH_ATTRIBUTES + 1] &= (uint8_t)~7; /* or only the decompressor would see it */
	if (len >= BATCH_RECORDS + sizeof(longest))
		memcpy(batch + BATCH_RECORDS, longest, sizeof(longest));
}

/* Returns how much of the batch is left. */
static size_t spoil_batch(const struct spoil *rule, uint8_t *batch, size_t len)
{
	uint64_t bits = (len - BATCH_RECORDS) * 8;
	uint64_t bit = rule->bit < 0 ? bits / 2 : (uint64_t)rule->bit % bits;

	switch ((enum spoil_kind)rule->kind) {
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
	case KINDS:
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

static uint64_t spoil_read(struct spoil_cursor *c, int bytes)
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

static uint8_t *spoil_skip(struct spoil_cursor *c, size_t n)
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

static struct spoil *spoil_rule(
	struct spoil_rules *rules, const uint8_t *topic, size_t len, int32_t partition)
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
static size_t spoil_records(struct spoil_cursor *c, struct spoil *rule, size_t size)
{
	uint8_t *records = spoil_skip(c, size), *batch;
	size_t len, kept, gone;

	if (records == NULL || rule == NULL)
		return 0;
	batch = spoil_find(records, size, rule->at, &len);
	if (batch == NULL)
		return 0;
	fprintf(stderr, "kafka-proxy: %s topic=%s partition=%d offset=%" PRId64 "\n",
		kinds[rule->kind], rule->topic, rule->partition, (int64_t)spoil_get(batch, 8));
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

static size_t spoil_partition(struct spoil_cursor *c, int version, struct spoil_rules *rules,
	const uint8_t *topic, size_t topic_len)
{
	int32_t partition = (int32_t)spoil_read(c, 4), aborted, size;

	spoil_skip(c, 2 + 8 + 8 + (version >= 5 ? 8 : 0)); /* error, high, stable, start */
	aborted = (int32_t)spoil_read(c, 4);
	spoil_skip(c, aborted > 0 ? (size_t)aborted * 16 : 0);
	spoil_skip(c, version >= 11 ? 4 : 0); /* preferred replica */
	size = (int32_t)spoil_read(c, 4);
	if (c->bad || size <= 0)
		return 0;
	return spoil_records(c, spoil_rule(rules, topic, topic_len, partition), (size_t)size);
}

size_t spoil_response(uint8_t *frame, size_t len, int version, struct spoil_rules *rules)
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
