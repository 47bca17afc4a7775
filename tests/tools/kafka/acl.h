/* acl.h - kafka-do's acl: one rule, allowed or dropped; words in r->arg, as kafka-do.c says. */
#ifndef TALLY_TESTS_KAFKA_ACL_H
#define TALLY_TESTS_KAFKA_ACL_H

#include "tests/tools/kafka/kafka.h"

void acl_run(struct kafka_run *r);

#endif
