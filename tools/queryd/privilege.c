/*
 * privilege.c - what the query process may still do once its addresses are open.
 *
 *	reads	run_dir, system files, the files that section query names, also after a renewal
 *	writes	what is there in run_dir: a reader of a store writes into its lock file
 *	TCP	to the ports of the peers, and to those of name servers
 *
 * It makes, cuts and removes no file: the files that tell its addresses are made
 * before this, and taken away by tallyd.
 *
 * Runs in: queryd, before any thread.
 */
#include "privilege.h"

#include <string.h>

#include "shm/confine.h"
#include "shm/log.h"

#define DNS_PORT 53

static void allow_file(void *confine, const char *path)
{
	confine_allow_file(confine, path);
}

static void allow_peers(struct confine *confine, const char *peers)
{
	char entry[CONFIG_TEXT_SIZE], host[CONFIG_TEXT_SIZE];
	uint16_t port;

	for (size_t len; *peers; peers += len + (peers[len] == ',')) {
		peers += strspn(peers, " ");
		len = strcspn(peers, ",");
		if (len >= sizeof(entry))
			continue;
		memcpy(entry, peers, len);
		entry[len] = '\0';
		entry[strcspn(entry, " ")] = '\0';
		if (config_listen_split(entry, host, sizeof(host), &port) == 0)
			confine_connect(confine, port);
	}
}

void privilege_drop(const struct config *config)
{
	struct confine confine;

	if (!config->confine) {
		log_info("confine.off", "why=\"supervisor.confine is false\"");
		return;
	}
	confine_begin(&confine, CONFINE_QUERY);
	confine_allow(&confine, config->run_dir, CONFINE_WRITE);
	config_each_path(config, "query", allow_file, &confine); /* certificates, keys */
	allow_peers(&confine, config->peers);
	confine_connect(&confine, DNS_PORT);
	confine_enter(&confine);
}
