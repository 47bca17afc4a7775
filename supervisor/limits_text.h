/*
 * limits_text.h - the bytes of limits.yaml.
 */
#ifndef TALLY_SUPERVISOR_LIMITS_TEXT_H
#define TALLY_SUPERVISOR_LIMITS_TEXT_H

#include <stddef.h>

#include "shm/config.h"

/*
 * A regular file of at most LIMITS_FILE_MAX bytes.  Gives *text, to be freed;
 * NULL when it is empty.  ERR_*: one line in *error, and nothing to be freed.
 */
int limits_text_read(const char *path, char **text, size_t *len, struct config_error *error);

#endif
