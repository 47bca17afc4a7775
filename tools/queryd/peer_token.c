/*
 * peer_token.c - the token that is shown to other instances, and what it is when they do not take it.
 *
 *	query.peers_token_file --> "Bearer ..." --> each call (peer_call.c)
 *
 * Runs in: queryd, the loop's thread.  Blocks in: reading the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "grpc.h"
#include "peers_private.h"

#include "shm/check.h"
#include "shm/log.h"
#include "shm/tokens.h"

#define LOG_EVERY_MS 30000

char *peer_token_read(const char *file, char why[PEERS_WHY_SIZE])
{
	char reason[TOKENS_WHY_SIZE], quoted[600], *header;
	unsigned mode;
	char *token = tokens_read_one(file, &mode, reason);

	if (token == NULL) {
		snprintf(why, PEERS_WHY_SIZE, "query.peers_token_file: %.480s", reason);
		return NULL;
	}
	if ((mode & S_IRWXO) != 0)
		log_warn("peers.token_mode",
			"file=%s mode=%04o hint=\"every user can read it; chmod o-rwx it\"",
			log_quote(quoted, sizeof(quoted), file), mode);
	header = malloc(strlen(token) + sizeof("Bearer "));
	must_get(header != NULL);
	sprintf(header, "Bearer %s", token);
	tokens_wipe(&token);
	return header;
}

void peer_token_refused(const struct peer *peer, int grpc_status)
{
	static struct log_limit limit;
	unsigned suppressed;

	if (!log_limit_pass(&limit, LOG_EVERY_MS, &suppressed))
		return;
	log_error("peers.forbidden", "peer=%s text=\"%s\" suppressed=%u", peer->text,
		grpc_status == GRPC_PERMISSION_DENIED
			? "its tokens_file does not give our token the scope ask"
		: peer->peers->authorization == NULL
			? "it wants a token: name a file with one in query.peers_token_file"
			: "its tokens_file does not have the token of query.peers_token_file",
		suppressed);
}
