/*
 * metrics.h - what /metrics says of this program.
 */
#ifndef TALLY_QUERYD_METRICS_H
#define TALLY_QUERYD_METRICS_H

#include "shm/tally.h"

#define QUERYD_TEXT_OF(x) #x
#define QUERYD_TEXT(x)	  QUERYD_TEXT_OF(x)
#define QUERYD_VERSION	  QUERYD_TEXT(TALLY_VERSION_MAJOR) "." QUERYD_TEXT(TALLY_VERSION_MINOR)

#endif
