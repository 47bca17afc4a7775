/*
 * peer_tls.c - TLS towards other instances: who we are, and whom we believe.
 *
 *	certificate and key of the server --> shown to peers that want one
 *	CA of our clients, or the system's --> who may have signed the peer's
 *	the host of query.peers            --> what the peer's certificate has to name
 *
 * Runs in: queryd.  Blocks in: reading the files.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "peers_private.h"

static const unsigned char alpn_h2[] = {2, 'h', '2'};

static bool set_rules(SSL_CTX *context)
{
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_alpn_protos(context, alpn_h2, sizeof(alpn_h2)) == 0;
}

/* A file that the operator has named, or what the system has. */
static bool load_authorities(SSL_CTX *context, const char *ca, char why[PEERS_WHY_SIZE])
{
	if (ca != NULL)
		return tls_load_ca(context, "grpc", ca, why);
	if (SSL_CTX_set_default_verify_paths(context) == 1)
		return true;
	ERR_clear_error();
	snprintf(why, PEERS_WHY_SIZE, "query.peers: the system's authorities cannot be read");
	return false;
}

SSL_CTX *peer_tls_context(
	const char *cert, const char *key, const char *ca, char why[PEERS_WHY_SIZE])
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());

	if (context == NULL || !set_rules(context)) {
		ERR_clear_error();
		snprintf(why, PEERS_WHY_SIZE, "query.peers: OpenSSL cannot start");
		SSL_CTX_free(context);
		return NULL;
	}
	if (tls_load_pair(context, "grpc", cert, key, why) && load_authorities(context, ca, why))
		return context;
	SSL_CTX_free(context);
	return NULL;
}
_Static_assert(PEERS_WHY_SIZE >= TLS_WHY_SIZE, "tls_load_pair writes into it");

bool peer_tls_call(struct wire *wire, const char *host)
{
	X509_VERIFY_PARAM *wanted = SSL_get0_param(wire->ssl);
	uint8_t address[sizeof(struct in6_addr)];
	bool literal =
		inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;

	SSL_set_connect_state(wire->ssl);
	if (literal)
		return X509_VERIFY_PARAM_set1_ip_asc(wanted, host) == 1;
	return X509_VERIFY_PARAM_set1_host(wanted, host, 0) == 1 &&
	       SSL_set_tlsext_host_name(wire->ssl, host) == 1;
}

const char *peer_tls_reason(const struct wire *wire, const char *why)
{
	long verdict = SSL_get_verify_result(wire->ssl);
	const unsigned char *protocol;
	unsigned len;

	if (verdict != X509_V_OK)
		return X509_verify_cert_error_string(verdict);
	SSL_get0_alpn_selected(wire->ssl, &protocol, &len);
	if (SSL_is_init_finished(wire->ssl) && len == 0)
		return "it does not speak HTTP/2 over TLS (ALPN h2)";
	return strcmp(why, "the client went away") == 0 ? "it closed the connection" : why;
}
