/*
 * notify.h - what the service manager is told (sd_notify).
 *
 * READY once the table is published and the group is being polled, not when
 * all is replayed: readiness of partitions is in the table.  Nothing happens
 * when there is no NOTIFY_SOCKET.
 */
#ifndef TALLY_SUPERVISOR_NOTIFY_H
#define TALLY_SUPERVISOR_NOTIFY_H

#include "shm/table.h"
#include "supervisor/fleet.h"

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);

/* One line for `systemctl status`; `trouble` is put at its end, "" when there is none. */
void notify_status(const struct fleet_status *status, enum group_state group, const char *trouble);

/* Call once a second: pings the watchdog, if there is one, while `well`. */
void notify_watchdog(int well);

#endif
