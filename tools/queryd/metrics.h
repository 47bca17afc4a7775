/*
 * metrics.h - what /metrics says of this program, in pieces.
 */
#ifndef TALLY_QUERYD_METRICS_H
#define TALLY_QUERYD_METRICS_H

#include <stdio.h>

#include "shm/tally.h"

#define QUERYD_TEXT_OF(x) #x
#define QUERYD_TEXT(x)	  QUERYD_TEXT_OF(x)
#define QUERYD_VERSION	  QUERYD_TEXT(TALLY_VERSION_MAJOR) "." QUERYD_TEXT(TALLY_VERSION_MINOR)

struct asker;
struct services;
struct question;

/* One answer that is being written: what it is made from. */
struct scrape {
	FILE *out;
	struct question *question;
	struct tally_instance instance;
	struct tally_partition *partitions;
	size_t n;
};

/*
 * Of questions and of gRPC; either may be NULL.  `loki_zone`: those that Loki has a name
 * for, by it, in that zone; NULL: all, by ours.  metrics_asker.c
 */
void metrics_asker(
	FILE *out, struct asker *asker, struct services *services, const char *loki_zone);

/* Memory and processor time of tallyd, its workers and its query processes. */
void metrics_processes(struct scrape *scrape);

/* The largest tenants, and those nearest to a limit; Loki's names of them are written, too. */
void metrics_tenants(struct scrape *scrape);

/* Loki's names of what the table has. */
void metrics_loki(struct scrape *scrape);

/* A number as text, for a label. */
const char *metrics_number(char text[16], uint32_t value);

#endif
