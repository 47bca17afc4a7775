/*
 * privilege.h - what the query process may still do once its addresses are open.
 */
#ifndef TALLY_QUERYD_PRIVILEGE_H
#define TALLY_QUERYD_PRIVILEGE_H

#include "shm/config.h"

/* Before any thread. */
void privilege_drop(const struct config *config);

#endif
