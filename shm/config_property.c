/*
 * config_property.c - which librdkafka properties are not the operator's to set, and which are
 * secret.
 *
 * Everything else passes; librdkafka itself says what it does not know.
 *
 * Runs in: supervisor, query process, tests.
 */
#include "shm/config_table.h"

#include <string.h>
#include <strings.h>

struct refusal {
	const char *name, *why;
};

#define USE(option) "is set by Tally; use the option " option
#define STORE	    "is decided by Tally: a store keeps its offset together with its counts"
#define STRATEGY    "is decided by Tally: the supervisor must see every change of the group"
#define ORDER	    "is decided by Tally: its records are sent in order and counted once"
#define BOUND	    "is set by Tally: it bounds the memory of workers"
#define INSIDE	    "is decided by Tally: it is part of how its processes work together"

/* clang-format off */
static const struct refusal refusals[] = {
	{ "bootstrap.servers",             USE("kafka.brokers") },
	{ "metadata.broker.list",          USE("kafka.brokers") },
	{ "group.id",                      USE("kafka.group") },
	{ "group.instance.id",             USE("kafka.group_instance_id") },
	{ "partition.assignment.strategy", USE("kafka.assignor") },
	{ "session.timeout.ms",            USE("kafka.session_timeout") },
	{ "heartbeat.interval.ms",         USE("kafka.heartbeat_interval") },
	{ "max.poll.interval.ms",          USE("kafka.max_poll_interval") },
	{ "isolation.level",               USE("kafka.isolation") },
	{ "queued.min.messages",           USE("replay.queue") },
	{ "log_level",                     USE("log_level") },
	{ "queued.max.messages.kbytes",    "is set by Tally: it bounds the memory of workers; see the option replay.queue" },
	{ "queue.buffering.max.messages",  BOUND },
	{ "queue.buffering.max.kbytes",    BOUND },
	{ "enable.auto.commit",            STORE },
	{ "auto.commit.enable",            STORE },
	{ "auto.commit.interval.ms",       STORE },
	{ "enable.auto.offset.store",      STORE },
	{ "auto.offset.reset",             STORE },
	{ "offset.store.method",           STORE },
	{ "offset.store.path",             STORE },
	{ "offset.store.sync.interval.ms", STORE },
	{ "group.protocol",                STRATEGY },
	{ "group.protocol.type",           STRATEGY },
	{ "group.remote.assignor",         STRATEGY },
	{ "enabled_events",                STRATEGY },
	{ "enable.idempotence",            ORDER },
	{ "enable.gapless.guarantee",      ORDER },
	{ "transactional.id",              ORDER },
	{ "acks",                          ORDER },
	{ "request.required.acks",         ORDER },
	{ "partitioner",                   ORDER },
	{ "delivery.report.only.error",    ORDER },
	{ "message.timeout.ms",            ORDER },
	{ "delivery.timeout.ms",           ORDER },
	{ "message.send.max.retries",      ORDER },
	{ "retries",                       ORDER },
	{ "queuing.strategy",              ORDER },
	{ "queue.buffering.backpressure.threshold", ORDER },
	{ "transaction.timeout.ms",        ORDER },
	{ "enable.partition.eof",          INSIDE },
	{ "statistics.interval.ms",        INSIDE },
	{ "log.queue",                     INSIDE },
	{ "check.crcs",                    "is always on in Tally: a damaged record must not be counted" },
	{ "allow.auto.create.topics",      "is always off in Tally: it must not create topics; create the topic first" },
	{ "plugin.library.paths",          "would load code into every process of Tally; this is not supported" },
};
/* clang-format on */

const char *config_property_refused(const char *name)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (strcmp(name, refusals[i].name) == 0)
			return refusals[i].why;
	}
	return NULL;
}

bool config_property_secret(const char *name)
{
	static const char *const marks[] = {"password", "passwd", "secret", "key.pem", "token",
		"credential", "jaas", "oauthbearer.config", "assertion", "kinit.cmd", "private"};

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (strcasestr(name, marks[i]))
			return true;
	}
	return false;
}
