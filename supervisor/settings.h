/*
 * settings.h - the options as they hold, for people: <run_dir>/settings, JSON.
 *
 *	{"file": "/etc/tally/tally.yaml", "read_at_ms": N, "options": [
 *		{"name": "kafka.group", "value": "tally", "default": "tally", "line": 12, "waiting": "other"}]}
 *
 * line: where the file has it; not there when it does not.  waiting: what the
 * file says by now, and needs a restart.  Values of secrets are "(hidden)".
 */
#ifndef TALLY_SUPERVISOR_SETTINGS_H
#define TALLY_SUPERVISOR_SETTINGS_H

#include "shm/config.h"

#define SETTINGS_NAME "settings"

/*
 * Writes the file, by rename, mode 0440.  `fresh` is what the configuration file
 * says now, NULL: the same.  Trouble is a line in the log: nothing depends on it.
 */
void settings_publish(
	int dirfd, const char *path, const struct config *config, const struct config *fresh);

/* Logs each option that differs: reload.changed. */
void settings_log_changes(const struct config *before, const struct config *now);

#endif
