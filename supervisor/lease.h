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
 * The coordinator counts the session from the last request it *received*; we
 * count from the last response we received, which is later by at most one
 * heartbeat interval's worth of silence: that is what the interval is taken
 * off for.
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
 * From one statistics document (librdkafka STATISTICS.md): the time of the
 * last sign of the coordinator, in ns of CLOCK_MONOTONIC.
 *
 *	contact = ts - brokers.GroupCoordinator.rxidle, while its state is UP
 *
 * While a JoinGroup or SyncGroup is under way the coordinator keeps the member
 * and answers late: then an UP connection counts as contact at ts.
 * false: no contact can be read from it.
 */
bool lease_contact(const char *json, size_t len, uint64_t *monotonic_ns);

/* CLOCK_BOOTTIME ns until which the lease runs after a contact at contact_ns. */
uint64_t lease_until(uint64_t contact_ns, const struct lease_terms *terms);

#endif
