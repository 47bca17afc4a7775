/*
 * group_private.h - a membership from inside; shared by group.c and group_rebalance.c.
 */
#ifndef TALLY_SUPERVISOR_GROUP_PRIVATE_H
#define TALLY_SUPERVISOR_GROUP_PRIVATE_H

#include <librdkafka/rdkafka.h>

#include "supervisor/group.h"
#include "supervisor/group_trouble.h"

struct group {
	const struct config *config;
	struct group_events on;
	struct ev_loop *loop;
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue;
	struct topic *topic;
	ev_io wake, topic_wake;
	ev_timer drain_timer, more;
	int fd;
	unsigned unanswered; /* revocations handed out and not yet acknowledged */
	bool subscribed, member, closing, closed, fatal;
	bool assigned; /* an assignment has come, once at least */
	uint64_t polled_at;
	uint64_t contact;	/* CLOCK_BOOTTIME of the latest one that was told */
	uint64_t boot_ahead_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC when we last looked */
	uint64_t stats_at;	/* CLOCK_BOOTTIME ns of the last statistics */
	enum group_state shown;
	struct trouble trouble;
};

/* Tells the state.  group.c */
void group_show(struct group *group, enum group_state state);

/* What the member cannot do without has failed: the client would wait for it for ever.  group.c */
void group_give_up(struct group *group, const char *what, const char *error);

/* An event of the kind REBALANCE: answers it, or hands it out to be answered by group_ack. */
void group_rebalance(struct group *group, rd_kafka_event_t *event);

#endif
