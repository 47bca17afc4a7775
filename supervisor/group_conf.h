/*
 * group_conf.h - the Kafka properties of the member.
 */
#ifndef TALLY_SUPERVISOR_GROUP_CONF_H
#define TALLY_SUPERVISOR_GROUP_CONF_H

#include <librdkafka/rdkafka.h>

#include "shm/config.h"
#include "shm/handoff.h"

/* Gives a configuration, or NULL with one line in `why`. */
rd_kafka_conf_t *group_conf(const struct config *config, char why[512]);

/*
 * Tries every property on librdkafka, as a consumer and as the producer of a worker,
 * and opens the files of certificates and keys.  ERR_INVALID with the line where the
 * mistake is.
 */
int group_conf_check(const struct config *config, struct config_error *error);

/* Which clients a property is for, as librdkafka's own table says; one it does not know: for all. */
enum handoff_client group_conf_client(const char *name);

/*
 * Calls `say` for the first sasl.* and the first ssl.* property that
 * security.protocol leaves without any use, with the protocol to take instead.
 */
void group_conf_unused(const struct config *config,
	void (*say)(const char *property, const char *protocol, const char *instead));

#endif
