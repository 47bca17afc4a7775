/*
 * options.h - what tally-load was asked to do.
 */
#ifndef TALLY_LOAD_OPTIONS_H
#define TALLY_LOAD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/record.h"

/* What can be wrong with a record.  KIND_OK: nothing. */
enum kind {
	KIND_OK,
	KIND_UNDECODABLE, /* bytes that are no message: cut short, wrong types, no UTF-8 */
	KIND_NO_METADATA, /* field 3 is left out */
	KIND_NO_TENANT,	  /* field 2 is left out */
	KIND_MISROUTED,	  /* in a partition that is not hash % partitions */
	KIND_TOO_OLD,	  /* 30 days */
	KIND_FUTURE,	  /* one hour ahead: to be counted as now */
	KIND_DUPLICATE,	  /* the last good record again, same sequence number */
	KIND_NULL,	  /* no value at all */
	KIND_HUGE,	  /* a policy of 900,000 bytes */
	KIND_OLD_FORMAT,  /* metadata of before 2025: field 3 is a varint */
	KINDS
};
/* "ok", "undecodable", ... */
const char *kind_word(enum kind kind);

enum popularity { POPULARITY_UNIFORM, POPULARITY_EACH, POPULARITY_ZIPF };

/* Numbers are 64 bits wide: rows.h. */
struct options {
	const char *brokers, *topic, *acks, *compression;
	const char *tenant_prefix, *zone;
	const char *out, *dump; /* NULL = none */
	uint64_t partitions;	/* 0 = ask */
	uint64_t partition;	/* only streams of this one; PARTITION_ANY = of all */
	uint64_t tenants, streams, policies;
	enum popularity popularity;
	double zipf;
	uint64_t rate, records, seconds; /* 0 = no limit */
	uint64_t size_min, size_max;	 /* in this order: row_range */
	uint64_t spread_ms;
	uint64_t seed, linger_ms;
	bool has_source;
	uint8_t incarnation[INCARNATION_SIZE];
	uint64_t sequence;
	uint64_t broken[KINDS];
};

#define PARTITION_ANY	  UINT64_MAX
#define TENANT_PREFIX_MAX 200

/* Defaults, then argv.  A mistake ends the program: one line, exit 2. */
void options_parse(struct options *options, int argc, char **argv);

/* What can be checked only when the number of partitions is known.  Ends the program likewise. */
void options_check_partitions(const struct options *options);

#endif
