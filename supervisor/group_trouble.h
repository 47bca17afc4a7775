/*
 * group_trouble.h - what an error of the Kafka client says of our membership, and the line about it.
 *
 *	error event --trouble_error--> a state to be shown, or none; one line, each cause at its own rate
 *
 * All of them are tried again for ever: brokers can be put right as well as we.
 */
#ifndef TALLY_SUPERVISOR_GROUP_TROUBLE_H
#define TALLY_SUPERVISOR_GROUP_TROUBLE_H

#include <librdkafka/rdkafka.h>

#include "shm/config.h"
#include "shm/log.h"
#include "shm/table.h"

struct trouble {
	const struct config *config;
	enum group_state down; /* what to call it while no broker can be had */
	uint64_t denied_ns;    /* CLOCK_BOOTTIME of the last missing ACL; 0 = none */
	struct log_limit client, error, login, tls, topic_acl, group_acl;
};

/* `config` is kept. */
void trouble_init(struct trouble *trouble, const struct config *config);

/* An error that is not fatal.  GROUP_STATES: nothing to be shown.  `text` is borrowed. */
enum group_state trouble_error(struct trouble *trouble, rd_kafka_resp_err_t err, const char *text);

/* A line of the client's own log. */
void trouble_log(struct trouble *trouble, int level, const char *facility, const char *message);

/* An ACL has been missing within the last `ms`. */
bool trouble_denied(const struct trouble *trouble, uint64_t ms);

#endif
