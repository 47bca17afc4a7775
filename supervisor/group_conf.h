/*
 * group_conf.h - the Kafka properties of the member.
 */
#ifndef TALLY_SUPERVISOR_GROUP_CONF_H
#define TALLY_SUPERVISOR_GROUP_CONF_H

#include <librdkafka/rdkafka.h>

#include "shm/config.h"

/* Gives a configuration, or NULL with one line in `why`. */
rd_kafka_conf_t *group_conf(const struct config *config, char why[512]);

#endif
