/*
 * group.h - membership of the Kafka consumer group, on a libev loop.
 *
 *	librdkafka's queue --eventfd--> group --> assigned / revoked / contact / ...
 *	                                  ^------ group_ack
 *
 * The member fetches nothing: every rebalance is acknowledged with an empty
 * list, which keeps the membership and starts no fetcher (seen on librdkafka
 * 2.0.2 to 2.15; a test pins it).  What we own is in our own list.
 *
 * Each rebalance event is answered exactly once: an assignment at once, a
 * revocation when group_ack is called.  Nothing here blocks; look-ups of the
 * topic run in a thread of their own.
 */
#ifndef TALLY_SUPERVISOR_GROUP_H
#define TALLY_SUPERVISOR_GROUP_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/config.h"
#include "shm/table.h"

struct group;

/*
 * How often librdkafka tells its statistics: often enough not to eat into the
 * lease, which begins with the first of them, and out of step with the heartbeat:
 * in step, each might come while the answer to a heartbeat is on its way, and none
 * would be a sign of contact.
 */
#define GROUP_STATS_MS(c)                                                                          \
	((c)->heartbeat_interval_ms < 750 ? (c)->heartbeat_interval_ms * 2 / 3 : 500)

enum group_loss {
	GROUP_REVOKED, /* in order: evict, then group_ack */
	GROUP_EAGER,   /* everything is given up before a rejoin: park, then group_ack */
	GROUP_LOSS     /* the session is over: somebody else may own them already */
};

/* Called from the loop.  Lists are borrowed. */
struct group_events {
	void *arg;
	/* The topic has so many partitions; called first, and again when that changes. */
	void (*partitions)(void *arg, uint32_t partitions);
	/* `full`: the list is everything we own (eager), not an addition. */
	void (*assigned)(void *arg, const uint32_t *list, size_t n, bool full);
	/* Must lead to exactly one group_ack. */
	void (*revoked)(void *arg, const uint32_t *list, size_t n, enum group_loss loss);
	/* The coordinator has spoken to us at this CLOCK_BOOTTIME. */
	void (*contact)(void *arg, uint64_t boot_ns);
	void (*state)(void *arg, enum group_state state);
	/* An error that ends this member for good, one line; fenced: another one has our
	 * group.instance.id. */
	void (*fatal)(void *arg, const char *why, bool fenced);
	void (*closed)(void *arg);
};

/* Starts looking for the topic, then joins.  `events` and `config` are kept. */
int group_start(const struct config *config, struct ev_loop *loop,
	const struct group_events *events, struct group **out, char why[512]);

/* The topic's count may have changed: asks at once, and calls `partitions` if it has. */
void group_ask_topic(struct group *group);

/* Secrets were read anew: the next login of this member uses them (SASL PLAIN and SCRAM). */
void group_renew_credentials(struct group *group);

/* Answers the revocation that is pending; nothing when none is. */
void group_ack(struct group *group);

/*
 * Leaves (a static member does not); `closed` is called when done, or at once
 * when closing is not possible.  The revocation that closing delivers is
 * answered here: it is not one.
 */
void group_close(struct group *group);

/* CLOCK_BOOTTIME ns of the last time the queue was drained: the watchdog's question. */
uint64_t group_polled_at(const struct group *group);

/*
 * `clean` false: do not try to leave the group (after a fatal error, or at a
 * deadline).  False: the client could not be freed without aborting; its threads
 * live on and use the configuration, so end with _exit.
 */
bool group_free(struct group **group, bool clean);

/* The Kafka properties a worker gets, beside its own: calls `add` for each. */
void group_worker_properties(const struct config *config,
	void (*add)(void *arg, const char *name, const char *value), void *arg);

#endif
