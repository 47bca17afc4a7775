/*
 * group_conf.h - the Kafka properties of the member.
 */
#ifndef TALLY_SUPERVISOR_GROUP_CONF_H
#define TALLY_SUPERVISOR_GROUP_CONF_H

#include <librdkafka/rdkafka.h>

#include "shm/config.h"

/* Gives a configuration, or NULL with one line in `why`. */
rd_kafka_conf_t *group_conf(const struct config *config, char why[512]);

/*
 * Tries every property on librdkafka, and opens the files of certificates and
 * keys.  ERR_INVALID with the line where the mistake is.
 */
int group_conf_check(const struct config *config, struct config_error *error);

/*
 * Calls `say` for the first sasl.* and the first ssl.* property that
 * security.protocol leaves without any use, with the protocol to take instead.
 */
void group_conf_unused(const struct config *config,
	void (*say)(const char *property, const char *protocol, const char *instead));

#endif
