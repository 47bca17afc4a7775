/*
 * setup.h - what tallyd needs before it can start: the configuration, checked, and its programs.
 */
#ifndef TALLY_SUPERVISOR_SETUP_H
#define TALLY_SUPERVISOR_SETUP_H

#include "shm/config.h"

#define EXIT_FATAL    1 /* the world's: start again */
#define EXIT_OPERATOR 2 /* a mistake of the operator's: one line says which */

struct setup {
	struct config config; /* config_free ends it */
	char worker_program[CONFIG_TEXT_SIZE + 32], query_program[CONFIG_TEXT_SIZE + 32];
};

/* 0, or an exit code with the line written.  Secrets that others can read are a line in the log. */
int setup_load(const char *path, struct setup *setup);

/*
 * Reads kafka.secret_files again.  All of them or none are taken; the log says
 * which.  Workers that start afterwards get them, the member keeps what it has.
 */
void setup_renew_secrets(const char *path, struct setup *setup);

/* Writes "tallyd: WHAT: WHY" and gives EXIT_OPERATOR. */
int setup_fail(const char *what, const char *why);

/*
 * The same for what ended with `err`: EXIT_FATAL when a person has nothing to
 * correct (memory, descriptors, a full or failing disk), so that the service
 * manager tries again.
 */
int setup_fail_err(int err, const char *what, const char *why);

#endif
