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
struct counted;
struct counts;
struct query;
struct question;
struct services;

/* One answer that is being written: what it is made from. */
struct scrape {
	FILE *out;
	struct question *question;
	const struct counted *counted;
	struct tally_instance instance;
	struct tally_partition *partitions;
	size_t n;
};

/* What both (either may be NULL) have counted since they started: query.gather. */
void metrics_gather_asked(struct asker *asker, struct services *services, struct counted *own);

/* Puts what this process has counted where the others see it.  Once a second. */
void metrics_publish(struct query *query);

/* The same, and what all of them have counted. */
void metrics_count(struct query *query, struct counted *sum);

/*
 * Of questions, gRPC and peers.  Tenants are those of `counts`; NULL: of `asker`.  `loki_zone`:
 * those that Loki has a name for, by it, in that zone; NULL: all, by ours.  metrics_asker.c
 */
void metrics_asker(FILE *out, const struct counted *counted, const struct counts *counts,
	struct asker *asker, const char *loki_zone);

/* Memory and processor time of tallyd, its workers and its query processes. */
void metrics_processes(struct scrape *scrape);

/* The largest tenants, and those nearest to a limit; Loki's names of them are written, too. */
void metrics_tenants(struct scrape *scrape);

/* Loki's names of what the table has. */
void metrics_loki(struct scrape *scrape);

/* A number as text, for a label. */
const char *metrics_number(char text[16], uint32_t value);

#endif
