/*
 * part.h - one partition as the supervisor sees it; shared by fleet*.c and part*.c.
 *
 * part.c applies what lifecycle decides: directory, word, lease.  part_worker.c
 * starts and hears its worker.  fleet.c looks at all partitions: events,
 * rounds, tokens, timers; fleet_routing.c at how many there are.
 */
#ifndef TALLY_SUPERVISOR_PART_H
#define TALLY_SUPERVISOR_PART_H

#include <ev.h>

#include "shm/handoff.h"
#include "shm/stats.h"
#include "supervisor/crash.h"
#include "supervisor/fleet.h"
#include "supervisor/lifecycle.h"
#include "supervisor/spawn.h"

struct part {
	struct fleet *fleet;
	uint32_t number;
	enum life life;
	enum life_event event; /* the last one: why what is published changes */
	uint64_t generation;   /* 0 = its directory is still to be made */
	bool adopt;	       /* the directory holds a store that may be resumed */
	bool ready;	       /* its worker said so */
	bool hung;	       /* SIGABRT sent */
	bool died;	       /* so the last event came about; told with it, then false again */
	bool waits;	       /* its stats say that it cannot go on: it needs no start token */
	uint64_t to_read, left_to_read, read_per_sec; /* of its replay, as its stats say */
	uint64_t not_before;			      /* CLOCK_BOOTTIME ns: back-off */
	uint64_t spawned_at;			      /* the same clock */
	uint64_t assigned_at;			      /* Unix ns, strictly growing */
	uint32_t restarts;
	struct child child;
	int control; /* -1 = none */
	ev_io child_watch, control_watch;
	ev_timer timer; /* drain or stop time, or from SIGABRT to SIGKILL */
	struct crash crash;
	uint64_t blamed; /* generation that query processes have died of */
	unsigned blames; /* so often */
	int64_t quarantine[HANDOFF_QUARANTINE_MAX];
	uint32_t n_quarantine;
	struct log_limit log_limit;
};

/* A worker that did not die in time; nothing names its store any more. */
struct abandoned {
	struct abandoned *next;
	struct fleet *fleet;
	struct child child;
	ev_io watch;
};

struct fleet {
	struct fleet_options opt;
	struct part parts[TABLE_CAPACITY];
	uint32_t partitions;	   /* of the routing: a stream belongs to hash % partitions */
	uint32_t topic_partitions; /* that the topic has */
	unsigned unacknowledged;   /* revocations */
	unsigned busy;		   /* in the middle of a list: nothing is finished yet */
	bool stopping, stopped_told;
	unsigned asks;	   /* left, about partitions that are held: see fleet_routing.c */
	bool grace_wanted; /* something was lost, or leftovers wait: at the next assignment */
	uint64_t lease;	   /* CLOCK_BOOTTIME ns, for all that is ours */
	uint64_t contact, ignore_contacts_before;
	uint64_t spoke_again; /* the first contact after the lease was over; 0 = none */
	uint64_t judge_from;  /* no heartbeat is judged before */
	uint64_t last_tick;
	ev_timer pump, deadline, grace;
	struct abandoned *abandoned;
};

static inline const struct config *part_config(const struct part *part)
{
	return part->fleet->opt.config;
}

static inline struct table_slot *part_slot(struct part *part)
{
	return table_slot_mut(part->fleet->opt.table, part->number);
}

/* No part of the routing: it gets no worker before the topic's count says so. */
static inline bool part_is_beyond(const struct part *part)
{
	return part->number >= part->fleet->partitions;
}

/* The routing goes with the topic, as far as the table can. */
static inline bool fleet_follows(const struct fleet *fleet)
{
	return !fleet->opt.config->partitions && fleet->topic_partitions <= TABLE_CAPACITY;
}

/* Part of a routing that is fixed, but the topic does not have it: there is no log to read. */
static inline bool part_is_missing(const struct part *part)
{
	return !part_is_beyond(part) && !fleet_follows(part->fleet) &&
	       part->number >= part->fleet->topic_partitions;
}

/* Ours, and waits for routing and topic to have it, or is refused because they do not. */
static inline bool part_is_held(const struct part *part)
{
	return part->life == LIFE_QUEUED && (part_is_beyond(part) || part_is_missing(part));
}

/* Raises an event: steps the lifecycle, logs, applies the action. */
void part_event(struct part *part, enum life_event event);

/* Applies an action.  part.c */
void part_apply(struct part *part, enum life_action action);

void part_init(struct part *part, struct fleet *fleet, uint32_t number);

/* Writes the lease that fleet has, when the partition is ours and wanted. */
void part_renew(struct part *part);

/* Publishes what a partition that waits for a start is: pending, or failed. */
void part_show_waiting(struct part *part);

/* Publishes a state, and logs it: the one place where that happens. */
void part_show(struct part *part, enum part_state state);

/* What it passed over were offsets of a log that it may not have any more. */
void part_forget_quarantine(struct part *part);

/* Makes the generation if need be, and spawns; else raises ON_UNSTARTED.  part_worker.c */
void part_start(struct part *part);

/* The next start not before so many ms. */
void part_back_off(struct part *part, uint32_t wait_ms);

/* ON_TIMER after so many seconds, unless the life changes before. */
void part_arm(struct part *part, double seconds);

/* Tells the worker, if there is one. */
void part_tell(struct part *part, enum control_kind kind);

/* Takes note of its worker's end, if it has ended. */
void part_reap(struct part *part);

/* Says that its store kills those who use it, and is given up for that. */
void part_store_is_deadly(struct part *part, const char *whom);

/* Ends the watchers and the control socket; the child must be gone or handed on. */
void part_detach(struct part *part);

/* Something has changed: start what can be started, acknowledge what is gone.  fleet.c */
void fleet_changed(struct fleet *fleet);

/* Others may know more of the topic than we: asks how many partitions it has.  fleet_routing.c */
void fleet_ask_topic(struct fleet *fleet);

/* The same, and again at every tick while partitions are held, for a while. */
void fleet_ask_anew(struct fleet *fleet);
void fleet_ask_while_held(struct fleet *fleet);

#endif
