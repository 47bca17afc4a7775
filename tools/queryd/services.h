/*
 * services.h - proto.IngestLimits and proto.IngestLimitsFrontend over gRPC.
 *
 *	IngestLimits          any stream not served here: UNAVAILABLE, the client asks another zone
 *	IngestLimitsFrontend  such streams get reason 1 (failed: the client lets them pass)
 *
 * Reasons are 1 (failed) and 2 (max streams), never 0; only streams that were
 * asked for are named, and accepted ones are not.  What a client writes wrong is
 * INVALID_ARGUMENT with one line that says what.
 */
#ifndef TALLY_QUERYD_SERVICES_H
#define TALLY_QUERYD_SERVICES_H

#include <stdbool.h>

#include "access.h"
#include "asker.h"
#include "grpc.h"
#include "peers.h"

#include "shm/config.h"

struct services;

/*
 * Serves on `fd` (listening, non-blocking; taken) in the asker's loop; before
 * asker_start.  config and access (NULL: everybody may ask) are kept.  NULL with one line in `why`.
 */
struct services *services_start(struct asker *asker, const struct config *config,
	struct access *access, int fd, char why[GRPC_WHY_SIZE]);

/* The rest from any other thread, while the asker runs. */

/* Reads certificates and the token for peers again.  false: with one line in `why`, old ones stay. */
bool services_renew_tls(struct services *services, char why[GRPC_WHY_SIZE]);

/* No more connections; calls under way may end. */
void services_drain(struct services *services);

/* Waits until they have ended, at most so long; then ends all and frees. */
void services_stop(struct services **services, unsigned grace_ms);

void services_facts(struct services *services, struct grpc_facts *facts);
void services_peers_facts(struct services *services, struct peers_facts *facts);

#endif
