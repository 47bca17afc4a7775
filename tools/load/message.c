/*
 * message.c - a Kafka message made of a pick, good or broken.
 *
 *	pick + kind --> struct record --record_encode--> value, some damage done
 *	                     '--> sequence number of --source, key, partition, note
 *
 * Only good records, and broken ones that a store would apply or compare
 * (future, duplicate), carry a header: a number is used up by nothing else.
 *
 * Runs in: load.
 */
#include <stdlib.h>
#include <string.h>

#include "message.h"

#define HUGE_POLICY 900000
#define VALUE_SIZE  (HUGE_POLICY + 1024)
#define DAY_MS	    86400000

struct maker {
	const struct options *options;
	uint64_t sequence;    /* next */
	unsigned undecodable; /* how many there were: they take turns */
	bool has_last;
	struct pick last; /* good record, for duplicates */
	int64_t last_timestamp_ms;
	uint64_t last_sequence;
	struct message message;
	char tenant[MODEL_NAME_SIZE], policy[MODEL_NAME_SIZE];
	uint8_t value[VALUE_SIZE];
	char huge[HUGE_POLICY];
};

struct maker *maker_new(const struct options *options)
{
	struct maker *maker = calloc(1, sizeof(*maker));

	if (!maker)
		return NULL;
	maker->options = options;
	maker->sequence = options->sequence;
	memset(maker->huge, 'p', sizeof(maker->huge));
	return maker;
}

void maker_free(struct maker **maker)
{
	free(*maker);
	*maker = NULL;
}

bool maker_can_repeat(const struct maker *maker)
{
	return maker->has_last;
}

/* Four ways to be no message. */
static size_t damage(struct maker *maker, size_t len)
{
	switch (maker->undecodable++ % 4) {
	case 0: /* cut short */
		return len - 1;
	case 1: /* a wire type that does not exist */
		maker->value[0] = 0x0f;
		return len;
	case 2: /* tenant as a number */
		memcpy(maker->value, "\x10\x01", 2);
		return 2;
	default: /* tenant that is not UTF-8 */
		memcpy(maker->value, "\x12\x02\xc3\x28\x1a\x00", 6);
		return 6;
	}
}

/* Hash and size below 128, and the varint that was once field 3 of the metadata. */
static size_t old_format(struct maker *maker, const struct record *record)
{
	struct record outer = {.zone = record->zone,
		.zone_len = record->zone_len,
		.tenant = record->tenant,
		.tenant_len = record->tenant_len};
	size_t len = record_encode(&outer, maker->value, sizeof(maker->value)) - 1;

	memcpy(maker->value + len, "\x06\x08\x07\x10\x05\x18\x09", 7); /* over the length 0 */
	return len + 7;
}

static size_t encode(struct maker *maker, struct record *record, enum kind kind)
{
	size_t len;

	switch (kind) {
	case KIND_OLD_FORMAT:
		return old_format(maker, record);
	case KIND_NO_TENANT:
		record->tenant_len = 0;
		break;
	case KIND_NO_METADATA: /* encoded empty and last: two bytes to be left out */
		record->hash = record->size = record->policy_len = 0;
		break;
	case KIND_HUGE:
		record->policy = maker->huge;
		record->policy_len = sizeof(maker->huge);
		break;
	default:
		break;
	}
	len = record_encode(record, maker->value, sizeof(maker->value));
	if (kind == KIND_UNDECODABLE)
		return damage(maker, len);
	return kind == KIND_NO_METADATA ? len - 2 : len;
}

static void number(struct maker *maker, struct record *record, enum kind kind)
{
	struct message *m = &maker->message;

	m->has_header = maker->options->has_source &&
			(kind == KIND_OK || kind == KIND_FUTURE || kind == KIND_DUPLICATE);
	if (!m->has_header)
		return;
	memcpy(record->incarnation, maker->options->incarnation, INCARNATION_SIZE);
	record->sequence = kind == KIND_DUPLICATE ? maker->last_sequence : maker->sequence++;
	record_encode_source(record, m->header);
}

static void remember(
	struct maker *maker, const struct pick *pick, int64_t timestamp_ms, uint64_t sequence)
{
	maker->has_last = true;
	maker->last = *pick;
	maker->last_timestamp_ms = timestamp_ms;
	maker->last_sequence = sequence;
}

const struct message *maker_make(
	struct maker *maker, const struct pick *pick, int64_t timestamp_ms, enum kind kind)
{
	const struct options *o = maker->options;
	struct message *m = &maker->message;
	struct record r = {.zone = o->zone, .zone_len = strlen(o->zone)};

	if (kind == KIND_DUPLICATE) {
		pick = &maker->last;
		timestamp_ms = maker->last_timestamp_ms;
	} else if (kind == KIND_TOO_OLD) {
		timestamp_ms -= INT64_C(30) * DAY_MS;
	} else if (kind == KIND_FUTURE) {
		timestamp_ms += DAY_MS / 24;
	}
	model_tenant_name(o, pick->tenant, maker->tenant);
	model_policy_name(pick->policy, maker->policy);
	r.tenant = maker->tenant;
	r.tenant_len = strlen(r.tenant);
	r.policy = maker->policy;
	r.policy_len = strlen(r.policy);
	r.hash = pick->hash;
	if (kind == KIND_MISROUTED) /* a neighbour, which belongs to another partition */
		r.hash += r.hash == UINT64_MAX ? (uint64_t)-1 : 1;
	r.size = pick->size;
	number(maker, &r, kind);
	if (kind == KIND_OK)
		remember(maker, pick, timestamp_ms, r.sequence);

	m->partition = (int32_t)(pick->hash % o->partitions);
	m->timestamp_ms = timestamp_ms;
	m->key = maker->tenant;
	m->key_len = strlen(maker->tenant);
	m->note = (struct note){timestamp_ms, pick->tenant, r.hash, r.size, r.sequence,
		pick->policy, kind, m->has_header};
	m->value = maker->value;
	m->value_len = encode(maker, &r, kind);
	if (kind == KIND_NULL) {
		m->value = NULL;
		m->value_len = 0;
	}
	return m;
}
