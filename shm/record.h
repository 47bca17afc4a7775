/*
 * record.h - Kafka message bytes <-> struct record, or why not.
 *
 * Wire format (Grafana Loki's ingest-limits topic; see the README, "Records"):
 *
 *	StreamMetadataRecord { string zone = 1; string tenant = 2; StreamMetadata metadata = 3; }
 *	StreamMetadata { uint64 streamHash = 1; uint64 totalSize = 2; string ingestionPolicy = 3; }
 *
 * proto3 rules: unknown fields are skipped, the last value of a field wins,
 * repeated `metadata` is merged.  Strings must be UTF-8 without NUL (proto3
 * says so; Tally prints them): else the record is undecodable.
 *
 * The header `tally` = 16 bytes incarnation of the producing store + big-endian
 * 64-bit sequence number.  A `tally` header of another length is ignored.
 */
#ifndef TALLY_SHM_RECORD_H
#define TALLY_SHM_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_TENANT_MAX  256 /* bytes; a longer tenant or policy is undecodable */
#define RECORD_POLICY_MAX  256
#define INCARNATION_SIZE   16
#define RECORD_HEADER	   "tally"
#define RECORD_HEADER_SIZE (INCARNATION_SIZE + 8)

/* Why a record was not applied.  One per record: the first that holds, in this order. */
enum skip_reason {
	SKIP_NONE,	  /* it was applied */
	SKIP_UNDECODABLE, /* not a StreamMetadataRecord */
	SKIP_NO_METADATA, /* field 3 is absent */
	SKIP_NO_TENANT,	  /* field 2 is absent or empty */
	SKIP_MISROUTED,	  /* hash % partitions is not this partition */
	SKIP_OWN,	  /* our own record read back: only clears the outbox */
	SKIP_DUPLICATE,	  /* a sequence number of a foreign store that was applied before */
	SKIP_TOO_OLD,	  /* outside the active window */
	SKIP_STORE_FULL,  /* a new stream for which there was no room */
	SKIP_QUARANTINED, /* a poison record, passed over by order of the supervisor */
	SKIP_REASONS
};
/* "applied", "undecodable", ... as in metrics. */
const char *skip_reason_word(enum skip_reason reason);

struct record {
	/* Point into the message that was decoded; not NUL-terminated. */
	const char *zone, *tenant, *policy;
	size_t zone_len, tenant_len, policy_len;
	uint64_t hash;
	uint64_t size; /* bytes */
	/* From the message, not from the payload: set by the caller. */
	int64_t timestamp_ms; /* -1: the message has none */
	int64_t offset;
	bool has_source;
	uint8_t incarnation[INCARNATION_SIZE];
	uint64_t sequence;
};

/*
 * Decodes a message value.  Fills all payload fields of *record (absent
 * strings: length 0) and leaves the others alone.  SKIP_NONE, SKIP_UNDECODABLE,
 * SKIP_NO_METADATA or SKIP_NO_TENANT.  `value` may be NULL when len is 0.
 */
enum skip_reason record_decode(const void *value, size_t len, struct record *record);

/* Sets has_source, incarnation, sequence from a `tally` header's value, or clears has_source. */
void record_source(const void *value, size_t len, struct record *record);

/*
 * Encodes the payload into buf; returns its length, or 0 when `size` is too
 * small.  Fields with proto3 default values are left out; metadata is always there.
 */
size_t record_encode(const struct record *record, void *buf, size_t size);

/* The header's value. */
void record_encode_source(const struct record *record, uint8_t out[RECORD_HEADER_SIZE]);

/* UTF-8 (no surrogates, no overlongs, <= U+10FFFF) without NUL. */
bool record_text_ok(const void *text, size_t len);

#endif
