/*
 * kafka_version.h - the librdkafka that we run with, and what it lacks for Tally.
 */
#ifndef TALLY_SUPERVISOR_KAFKA_VERSION_H
#define TALLY_SUPERVISOR_KAFKA_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shm/config.h"

struct kafka_gap {
	uint32_t from, until;	 /* versions as 0xMMmmrr: lacking at from <= version < until */
	const char *word;	 /* for the log */
	const char *lacks;	 /* in words */
	const char *consequence; /* what Tally does about it, or what to reckon with */
};

/* All rows, and whether one holds for a version as rd_kafka_version() gives it. */
const struct kafka_gap *kafka_gaps(size_t *n);
bool kafka_gap_holds(const struct kafka_gap *gap, int version);

/* The row for which sasl.mechanism would be refused with this version; NULL when there is none. */
const struct kafka_gap *kafka_gap_of_mechanism(const struct config *config, int version);

/* A warning in the log when there is one for the version that we run with. */
void kafka_version_warn(const struct config *config);

/* For --version: library, features, and a line for everything that is lacking. */
void kafka_version_print(FILE *out);

/* The same as one line of the log. */
void kafka_version_log(void);

#endif
