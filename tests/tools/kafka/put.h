/* put.h - kafka-do's put: lines from stdin (put.c says which) to records; options in r->arg. */
#ifndef TALLY_TESTS_KAFKA_PUT_H
#define TALLY_TESTS_KAFKA_PUT_H

#include "tests/tools/kafka/kafka.h"

/* Needs no admin handle. */
void put_run(struct kafka_run *r);

#endif
