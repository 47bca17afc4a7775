/*
 * fleet.h - the partitions that are ours, and their workers.
 *
 *	group --assigned, revoked, contact--> fleet --spawn, signal--> workers
 *	                                        |  <--control socket, pidfd--
 *	                                        '--> table (what others are told)
 *
 * Decides by lifecycle_step alone; one function applies an action and logs it.
 */
#ifndef TALLY_SUPERVISOR_FLEET_H
#define TALLY_SUPERVISOR_FLEET_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/config.h"
#include "shm/history.h"
#include "shm/table.h"
#include "supervisor/group.h"
#include "supervisor/rundir.h"

struct fleet;

struct fleet_options {
	const struct config *config; /* kept, as all of these */
	struct ev_loop *loop;
	struct rundir *rundir;
	struct table *table;
	struct history *history; /* or NULL */
	const char *worker_program;
	void *arg;
	void (*released)(void *arg);  /* what was revoked is gone: acknowledge one revocation */
	void (*stopped)(void *arg);   /* after fleet_stop: no worker is left */
	void (*ask_topic)(void *arg); /* its count may have changed: fleet_partitions; or NULL */
};

void fleet_new(const struct fleet_options *options, struct fleet **out);
void fleet_free(struct fleet **fleet);

/*
 * How many partitions the topic has, at first and whenever that changes.  A
 * stream belongs to partition hash % N.  With kafka.partitions N is what it
 * says, from the start, and partitions from N on are refused (PART_FAILED); so
 * are those below N that the topic has no more, until it has them again.
 * Without, N goes with the topic, up to TABLE_CAPACITY: no store of the old N
 * is published any more, then the table's head gets the new one, then every
 * partition a new generation.
 */
void fleet_partitions(struct fleet *fleet, uint32_t partitions);

/* One that the topic did not have when we last asked stays pending until fleet_partitions. */
void fleet_assigned(struct fleet *fleet, const uint32_t *list, size_t n, bool full);

/* Leads to one `released`, at once or at the deadline at the latest. */
void fleet_revoked(struct fleet *fleet, const uint32_t *list, size_t n, enum group_loss loss);

/* The coordinator's last sign: renews the leases. */
void fleet_contact(struct fleet *fleet, uint64_t boot_ns);

/* Once a second: heartbeats, progress. */
void fleet_tick(struct fleet *fleet);

/* Orderly stop: stores stay. */
void fleet_stop(struct fleet *fleet);

/* Kills what is left and drops it (after a fatal error, before exit).  Stores stay. */
void fleet_kill(struct fleet *fleet);

struct fleet_status {
	unsigned owned, ready, replaying, pending, failed, parked;
	/* Records of all replays together, and how long the longest will take. */
	uint64_t to_read, left_to_read;
	uint64_t left_ms; /* 0: not known */
};
void fleet_status(const struct fleet *fleet, struct fleet_status *status);

#endif
