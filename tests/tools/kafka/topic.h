/* topic.h - kafka-do's create, delete, grow and config; words in r->arg, as kafka-do.c says. */
#ifndef TALLY_TESTS_KAFKA_TOPIC_H
#define TALLY_TESTS_KAFKA_TOPIC_H

#include "tests/tools/kafka/kafka.h"

void topic_create(struct kafka_run *r);
void topic_delete(struct kafka_run *r);
void topic_grow(struct kafka_run *r);
void topic_config(struct kafka_run *r);

#endif
