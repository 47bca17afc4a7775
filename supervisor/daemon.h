/*
 * daemon.h - tallyd at work, from its start to its exit code.
 */
#ifndef TALLY_SUPERVISOR_DAEMON_H
#define TALLY_SUPERVISOR_DAEMON_H

#include "supervisor/setup.h"

#define EXIT_FENCED 3 /* another member has our group.instance.id: do not restart at once */

/*
 * Starts, runs until SIGTERM, SIGINT or the end of the membership, and stops.
 * 0, or EXIT_*; what ended it has been said.  Once in a process, which may be
 * left by _exit when the Kafka client does not end in time.  Borrows the path.
 */
int daemon_run(const char *config_path);

#endif
