/*
 * lease.h - how long what we were assigned is surely still ours.  Pure.
 *
 *	librdkafka statistics --lease_contact--> last response of the group coordinator
 *	                                              |
 *	lease_until = contact + session timeout - heartbeat interval - longest commit
 *
 * Revocation in Kafka is no fence: a member that was frozen learns of it late,
 * and its workers would go on inserting.  So every worker checks the lease
 * before each commit, every reader before each answer, and the lease is never
 * "now + x": it hangs on the last time that the coordinator has spoken to us.
 *
 * The coordinator counts the session from the last request it *received*.  We
 * know when our last request went out, and count it only when all requests are
 * answered: then it was received, and no earlier than it was sent.  The
 * heartbeat interval is taken off all the same, for what is on its way when the
 * lease is read.
 */
#ifndef TALLY_SUPERVISOR_LEASE_H
#define TALLY_SUPERVISOR_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lease_terms {
	uint32_t session_ms, heartbeat_ms, commit_ms;
};

/*
 * From one statistics document (librdkafka STATISTICS.md): since when the
 * coordinator has surely known us, in ns of CLOCK_MONOTONIC.
 *
 *	contact = ts - max(rxidle, txidle) of brokers.GroupCoordinator,
 *	          while its state is UP and waitresp_cnt is 0
 *
 * While a JoinGroup or SyncGroup is under way (*joining) the coordinator keeps
 * the member and answers late.  Then a connection that is UP counts, but as
 * half a session old: so long it takes at most to notice that the other end
 * has gone silently (group_conf.c sets the keepalive accordingly).
 * false: no contact can be read from it.
 */
bool lease_contact(
	const char *json, size_t len, uint32_t session_ms, uint64_t *monotonic_ns, bool *joining);

/* What was known before a statistics document came; all in ns of CLOCK_BOOTTIME. */
struct lease_past {
	uint64_t document; /* when the last one came; 0: none has */
	uint64_t contact;  /* the last that counted; 0: none has */
	bool assigned;	   /* this member was given partitions, once at least */
};

/*
 * Whether a contact that was read while joining counts.  A join keeps a session
 * that lives; it is no sign of one that may have ended: a member that was frozen
 * for longer than a session comes back with a join under way, while its
 * partitions are another's.  So documents must have come regularly (every
 * `interval_ns`), and the last contact be younger than a session; before the
 * first assignment there is nothing to lose.
 */
bool lease_join_counts(
	const struct lease_past *past, uint64_t now_ns, uint64_t interval_ns, uint64_t session_ns);

/* CLOCK_BOOTTIME ns until which the lease runs after a contact at contact_ns. */
uint64_t lease_until(uint64_t contact_ns, const struct lease_terms *terms);

#endif
