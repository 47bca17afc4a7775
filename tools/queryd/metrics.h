/*
 * metrics.h - what /metrics says of this program.
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

/* Of questions and of gRPC; either may be NULL.  metrics_asker.c */
void metrics_asker(FILE *out, struct asker *asker, struct services *services);

#endif
