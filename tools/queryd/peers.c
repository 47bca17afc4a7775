/*
 * peers.c - the other instances: who they are.
 *
 *	query.peers "a:9095,10.0.0.7:9095" -> names[] -> addresses -> peers
 *	                                       DNS, 30 s ^      '-- our own is left out
 *
 * An address that a name no longer has ends what it has under way and goes; a
 * name that cannot be looked up keeps its addresses.
 *
 * Runs in: queryd, the loop's thread (peers_facts: any).  Blocks in: peers_new and
 * peers_renew, reading certificates and the token.
 */
#include "peers.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "given.h"
#include "peers_private.h"

#include "shm/check.h"
#include "shm/config.h"
#include "shm/log.h"
#include "shm/tokens.h"

/* --- addresses ---------------------------------------------------------------------------------- */

static uint16_t port_of(const struct sockaddr *address)
{
	return ntohs(address->sa_family == AF_INET6
			     ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
			     : ((const struct sockaddr_in *)(const void *)address)->sin_port);
}

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET6)
		return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0 &&
		       a6->sin6_scope_id == b6->sin6_scope_id;
	return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

static bool is_any(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
	return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr == INADDR_ANY;
}

/* An address of this machine is one that can be bound. */
static bool is_of_this_machine(const struct sockaddr *address, socklen_t len)
{
	struct sockaddr_storage copy = {0};
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool bound;

	if (fd < 0)
		return false;
	memcpy(&copy, address, len);
	if (address->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)&copy)->sin6_port = 0;
	else
		((struct sockaddr_in *)(void *)&copy)->sin_port = 0;
	bound = bind(fd, (const struct sockaddr *)&copy, len) == 0;
	close(fd);
	return bound;
}

static bool is_self(const struct peers *peers, const struct sockaddr *address, socklen_t len)
{
	const struct sockaddr *self = (const struct sockaddr *)&peers->self;

	if (!peers->has_self || port_of(address) != port_of(self))
		return false;
	return is_any(self) ? is_of_this_machine(address, len) : same_host(address, self);
}

static struct peer *find(struct peers *peers, const struct sockaddr *address)
{
	struct peer *peer;

	TAILQ_FOREACH(peer, &peers->list, link)
	{
		const struct sockaddr *of = (const struct sockaddr *)&peer->address;

		if (same_host(of, address) && port_of(of) == port_of(address))
			break;
	}
	return peer;
}

static void take_address(struct peers *peers, size_t name, const struct addrinfo *info)
{
	struct peer *peer;

	if ((info->ai_family != AF_INET && info->ai_family != AF_INET6) ||
		is_self(peers, info->ai_addr, info->ai_addrlen))
		return;
	peer = find(peers, info->ai_addr);
	if (peer == NULL && peers->n == PEERS_MAX) {
		if (!peers->many_said)
			log_warn("peers.many",
				"name=%s text=\"more than %u addresses: the others are not asked\"",
				peers->names[name].host, PEERS_MAX);
		peers->many_said = true;
		return;
	}
	if (peer == NULL)
		peer = peer_add(peers, name, info->ai_addr, info->ai_addrlen);
	peer->found = true;
	peer->gone = false;
}

/* All addresses that a name has now. */
static void found(void *arg, size_t name, const struct addrinfo *list)
{
	struct peers *peers = arg;
	struct peer *peer;

	TAILQ_FOREACH(peer, &peers->list, link)
	{
		peer->found = false;
	}
	for (const struct addrinfo *info = list; info != NULL; info = info->ai_next)
		take_address(peers, name, info);
	TAILQ_FOREACH(peer, &peers->list, link)
	{
		if (peer->name == name && !peer->found && !peer->gone)
			peer_go(peer);
	}
}

/* --- the list ----------------------------------------------------------------------------------- */

static struct addrinfo *literal(const char *host, const char *port)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct addrinfo *list = NULL;

	return getaddrinfo(host, port, &hints, &list) == 0 ? list : NULL;
}

static bool take_entry(struct peers *peers, const char *entry, char why[PEERS_WHY_SIZE])
{
	struct peer_name *name = &peers->names[peers->names_n];
	uint16_t port;

	if (peers->names_n == PEERS_MAX) {
		snprintf(why, PEERS_WHY_SIZE,
			"query.peers: more than %u entries; use a name that "
			"has several addresses",
			PEERS_MAX);
		return false;
	}
	if (config_listen_split(entry, name->host, sizeof(name->host), &port) != 0 || port == 0) {
		snprintf(why, PEERS_WHY_SIZE,
			"query.peers: \"%.300s\" is not host:port; write for example "
			"tally-1:9095,[::1]:9095",
			entry);
		return false;
	}
	snprintf(name->port, sizeof(name->port), "%u", port);
	peers->names_n++;
	return true;
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	return text + strspn(text, " \t");
}

static bool take_list(struct peers *peers, const char *list, char why[PEERS_WHY_SIZE])
{
	char *copy = strdup(list), *rest = copy, *entry;
	bool ok = true;

	must_get(copy != NULL);
	while (ok && (entry = strsep(&rest, ",")) != NULL)
		if (rest != NULL || *trim(entry) != '\0') /* a comma at the end is no entry */
			ok = take_entry(peers, trim(entry), why);
	free(copy);
	return ok;
}

/* Addresses at once, names in their thread. */
static bool look_up(struct peers *peers, unsigned names_ms, char why[PEERS_WHY_SIZE])
{
	bool names = false;

	for (size_t i = 0; i < peers->names_n; i++) {
		struct peer_name *name = &peers->names[i];
		struct addrinfo *list = literal(name->host, name->port);

		name->literal = list != NULL;
		names = names || !name->literal;
		if (list == NULL)
			continue;
		found(peers, i, list);
		freeaddrinfo(list);
	}
	if (!names)
		return true;
	peers->dns =
		peer_dns_new(peers->loop, peers->names, peers->names_n, names_ms, found, peers);
	if (peers->dns == NULL)
		snprintf(why, PEERS_WHY_SIZE, "query.peers: no thread to look names up in");
	return peers->dns != NULL;
}

static void take_self(struct peers *peers, int fd)
{
	socklen_t len = sizeof(peers->self);

	if (fd < 0)
		return;
	must_get(getsockname(fd, (struct sockaddr *)&peers->self, &len) == 0);
	peers->has_self = peers->self.ss_family == AF_INET || peers->self.ss_family == AF_INET6;
}

/* --- all of it ---------------------------------------------------------------------------------- */

static char *copy_of(const char *file)
{
	char *copy;

	if (!is_given(file))
		return NULL;
	copy = strdup(file);
	must_get(copy != NULL);
	return copy;
}

static bool renew_tls(struct peers *peers, char why[PEERS_WHY_SIZE])
{
	SSL_CTX *tls;

	if (peers->cert_file == NULL)
		return true;
	tls = peer_tls_context(peers->cert_file, peers->key_file, peers->ca_file, why);
	if (tls == NULL)
		return false;
	SSL_CTX_free(peers->tls);
	peers->tls = tls;
	return true;
}

static bool renew_token(struct peers *peers, char why[PEERS_WHY_SIZE])
{
	char *fresh;

	if (peers->token_file == NULL)
		return true;
	fresh = peer_token_read(peers->token_file, why);
	if (fresh == NULL)
		return false;
	tokens_wipe(&peers->authorization);
	peers->authorization = fresh;
	return true;
}

bool peers_renew(struct peers *peers, char why[PEERS_WHY_SIZE])
{
	return renew_tls(peers, why) && renew_token(peers, why);
}

struct peers *peers_new(const struct peers_options *options, char why[PEERS_WHY_SIZE])
{
	struct peers *peers = calloc(1, sizeof(*peers));

	must_get(peers != NULL && peer_calls_prepare(peers));
	peers->loop = options->loop;
	peers->message_max = options->message_max;
	peers->poll_ms = or_usual(options->poll_ms, PEERS_POLL_MS);
	peers->call_ms = or_usual(options->call_ms, PEERS_CALL_MS);
	peers->back_off_ms = or_usual(options->back_off_ms, PEERS_BACK_OFF_MS);
	peers->back_off_max_ms = or_usual(options->back_off_max_ms, PEERS_BACK_OFF_MAX_MS);
	peers->cert_file = copy_of(options->cert_file);
	peers->key_file = copy_of(options->key_file);
	peers->ca_file = copy_of(options->ca_file);
	peers->token_file = copy_of(options->token_file);
	TAILQ_INIT(&peers->list);
	TAILQ_INIT(&peers->asks);
	TAILQ_INIT(&peers->woken);
	take_self(peers, options->listening_fd);
	ev_now_update(peers->loop);
	if (!take_list(peers, options->list, why) ||
		(peers->names_n > 0 && !peers_renew(peers, why)) ||
		!look_up(peers, or_usual(options->names_ms, PEERS_NAMES_MS), why))
		peers_free(&peers);
	return peers;
}

void peers_free(struct peers **handle)
{
	struct peers *peers = *handle;

	if (peers == NULL)
		return;
	*handle = NULL;
	peers_ask_cancel_all(peers);
	peer_dns_free(&peers->dns);
	while (!TAILQ_EMPTY(&peers->list))
		peer_remove(TAILQ_FIRST(&peers->list));
	SSL_CTX_free(peers->tls);
	nghttp2_session_callbacks_del(peers->callbacks);
	free(peers->cert_file);
	free(peers->key_file);
	free(peers->ca_file);
	free(peers->token_file);
	tokens_wipe(&peers->authorization);
	free(peers);
}

#define COPY(field) facts->field = atomic_load_explicit(&peers->facts.field, memory_order_relaxed)

void peers_facts(struct peers *peers, struct peers_facts *facts)
{
	COPY(known);
	COPY(connected);
	COPY(partitions);
	COPY(calls);
	COPY(answered);
	COPY(unavailable);
	COPY(forbidden);
	COPY(failed);
	COPY(full);
	COPY(strange);
	COPY(connects);
	COPY(lost);
	COPY(streams_asked);
	COPY(streams_retried);
}
