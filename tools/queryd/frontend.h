/*
 * frontend.h - a question about any stream: what is not served here is asked at the other instances.
 *
 *	frontend_begin --all served here--> ask_begin, as it is
 *	      '--> the others: peers_ask -> then ask_begin for the rest -> done
 *
 * Peers first, our own partitions last: after ask_begin's last check of words and
 * leases nothing may follow but `done`.  Peers get half of the time that there is,
 * so a dead one cannot use up what our own workers need.
 *
 * Same contract as ask_begin, so the front-end service and HTTP use it in its place.
 * Runs in: queryd, the asker's thread.
 */
#ifndef TALLY_QUERYD_FRONTEND_H
#define TALLY_QUERYD_FRONTEND_H

#include "ask.h"
#include "peers.h"

struct frontend;

/* Both are kept. */
struct frontend *frontend_new(struct asker *asker, struct peers *peers);

/*
 * As ask_begin; with all_or_nothing it is ask_begin.  A stream that is FAILED or
 * UNSERVED at the end has reason 1.
 */
int frontend_begin(struct frontend *frontend, struct ask *ask);

/* As ask_cancel. */
void frontend_cancel(struct frontend *frontend, struct ask *ask);

/* Nothing is asked of the peers any more; what is under way goes on as ask_begin would. */
void frontend_free(struct frontend **frontend);

#endif
