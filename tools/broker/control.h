/*
 * control.h - one command a line: what a test does to the cluster.
 *
 *	down [BROKER]              connections are cut, new ones refused
 *	up [BROKER]
 *	rtt MS [BROKER]            every answer comes so much later
 *	leader TOPIC PART BROKER   -1 = none; TOPIC is one that was made here
 *	errors API CODE...         the next requests of this kind get these errors, one each;
 *	                           "errors API clear" takes back what has not been used
 *	topic NAME PARTITIONS      makes a topic
 *	quit
 *
 * Without BROKER: all.  API is a number or a name (Produce, Heartbeat), CODE a
 * number or a name (NOT_COORDINATOR, _TRANSPORT = the connection is cut).
 */
#ifndef TALLY_BROKER_CONTROL_H
#define TALLY_BROKER_CONTROL_H

#include <stdbool.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#define CONTROL_TOPICS_MAX 64

struct control_topic {
	char name[250]; /* as long as Kafka allows, and a NUL */
	int partitions;
};

struct control {
	rd_kafka_mock_cluster_t *cluster;
	int brokers;
	struct control_topic topic[CONTROL_TOPICS_MAX]; /* those that were made here */
	int n_topics;
	bool quit; /* set by the command */
};

/* Makes a topic with partition p led by broker p % brokers + 1.  NULL, or what is wrong. */
const char *control_topic(struct control *control, const char *name, int partitions);

/* Carries out a line (which is cut up) and answers it on stdout: "ok" or "error ...". */
void control_line(struct control *control, char *line);

/* A whole decimal number from low to high; false when `text` is something else. */
bool control_number(const char *text, long low, long high, long *number);

#endif
