/*
 * test_grpc_tls.c - the gRPC server with TLS: who is let in, who is not, and new certificates.
 *
 * The certificates are made here, with OpenSSL's library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "grpc_fixture.h"
#include "scratch.h"

#include "tools/queryd/grpc.h"

/* --- certificates ------------------------------------------------------------------------------ */

struct identity {
	EVP_PKEY *key;
	X509 *cert;
};

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	assert_non_null(extension);
	X509_add_ext(cert, extension, -1);
	X509_EXTENSION_free(extension);
}

/* Signed by `ca`, or by itself: then it is a CA. */
static struct identity identity_new(const char *name, const struct identity *ca)
{
	static long serial;
	struct identity id = {EVP_EC_gen("P-256"), X509_new()};
	X509_NAME *subject = X509_get_subject_name(id.cert);

	X509_set_version(id.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(id.cert), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(id.cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(id.cert), 3600);
	X509_set_pubkey(id.cert, id.key);
	X509_NAME_add_entry_by_txt(
		subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(id.cert, ca == NULL ? subject : X509_get_subject_name(ca->cert));
	if (ca == NULL)
		add_extension(id.cert, id.cert, NID_basic_constraints, "critical,CA:TRUE");
	else
		add_extension(id.cert, ca->cert, NID_subject_alt_name, "IP:127.0.0.1");
	assert_true(X509_sign(id.cert, ca == NULL ? id.key : ca->key, EVP_sha256()) > 0);
	return id;
}

static void identity_free(struct identity *id)
{
	EVP_PKEY_free(id->key);
	X509_free(id->cert);
}

static void write_identity(const struct identity *id, const char *cert, const char *key)
{
	FILE *file = fopen(cert, "w");

	assert_int_equal(PEM_write_X509(file, id->cert), 1);
	fclose(file);
	if (key == NULL)
		return;
	file = fopen(key, "w");
	fchmod(fileno(file), 0600);
	assert_int_equal(PEM_write_PrivateKey(file, id->key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
}

/* --- a server with TLS ------------------------------------------------------------------------- */

struct world {
	struct fixture *fixture;
	struct identity ca, server, client, stranger_ca, stranger;
	char cert[128], key[128], client_ca[128];
};

static int world_setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	void *scratch = NULL;

	scratch_setup(&scratch);
	snprintf(world->cert, sizeof(world->cert), "%s/cert", ((struct scratch *)scratch)->path);
	snprintf(world->key, sizeof(world->key), "%s/key", ((struct scratch *)scratch)->path);
	snprintf(world->client_ca, sizeof(world->client_ca), "%s/ca",
		((struct scratch *)scratch)->path);
	world->ca = identity_new("ca", NULL);
	world->server = identity_new("server", &world->ca);
	world->client = identity_new("client", &world->ca);
	world->stranger_ca = identity_new("another ca", NULL);
	world->stranger = identity_new("stranger", &world->stranger_ca);
	write_identity(&world->server, world->cert, world->key);
	write_identity(&world->ca, world->client_ca, NULL);
	world->fixture = fixture_new();
	world->fixture->options.cert_file = world->cert;
	world->fixture->options.key_file = world->key;
	world->fixture->options.patience.greeting = 300;
	*state = world;
	world->fixture->scratch = scratch;
	return 0;
}

static int world_teardown(void **state)
{
	struct world *world = *state;
	void *scratch = world->fixture->scratch;

	fixture_end(&world->fixture);
	identity_free(&world->ca);
	identity_free(&world->server);
	identity_free(&world->client);
	identity_free(&world->stranger_ca);
	identity_free(&world->stranger);
	free(world);
	return scratch_teardown(&scratch);
}

static SSL_CTX *client_of(const struct identity *id, const char *protocols, size_t len)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());

	if (id != NULL) {
		assert_int_equal(SSL_CTX_use_certificate(tls, id->cert), 1);
		assert_int_equal(SSL_CTX_use_PrivateKey(tls, id->key), 1);
	}
	SSL_CTX_set_alpn_protos(tls, (const unsigned char *)protocols, (unsigned)len);
	return tls;
}

static SSL_CTX *usual_client(const struct identity *id)
{
	return client_of(id, "\x02h2", 3);
}

static struct peer *come(struct world *world, SSL_CTX *tls)
{
	struct peer *peer = peer_new(world->fixture, tls);

	SSL_CTX_free(tls);
	return peer;
}

static void is_let_in(struct peer *peer)
{
	assert_non_null(peer->ssl);
	peer_greet(peer, 0, 0);
	peer_is_served(peer);
}

/* With TLS 1.3 a client believes that it is in before the server has seen its certificate. */
static void is_kept_out(struct peer *peer)
{
	struct fixture *fixture = peer->fixture;

	if (peer->ssl != NULL) {
		peer_send(peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
		wait_for(fixture, peer->shut);
	}
	assert_false(peer->settings);
	assert_int_equal(fixture_facts(fixture).abused, 1);
}

static void start(struct world *world)
{
	fixture_start(world->fixture);
	assert_non_null(world->fixture->server);
}

/* --- who is let in ----------------------------------------------------------------------------- */

static void calls_are_answered_over_tls(void **state)
{
	static uint8_t big[300000];
	struct world *world = *state;
	struct peer *peer;
	uint8_t more[] = {0x3f, 0xff, 0xff, 0xff};
	struct reply *reply;

	start(world);
	peer = come(world, usual_client(NULL));
	assert_int_equal(SSL_version(peer->ssl), TLS1_3_VERSION);
	peer_greet(peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x7fffffff);
	peer_frame(peer, NGHTTP2_WINDOW_UPDATE, 0, 0, more, 4);
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i >> 3);
	reply = peer_wait(peer, peer_call(peer, "/test.Echo/Echo", big, sizeof(big)));
	assert_int_equal(reply->status, GRPC_OK);
	assert_int_equal(reply->len, sizeof(big) + 5);
	assert_memory_equal(reply->data + 5, big, sizeof(big));
}

static void tls_1_2_is_taken_and_tls_1_1_is_not(void **state)
{
	struct world *world = *state;
	SSL_CTX *tls = usual_client(NULL);

	start(world);
	SSL_CTX_set_max_proto_version(tls, TLS1_2_VERSION);
	is_let_in(come(world, tls));
	tls = usual_client(NULL);
	SSL_CTX_set_security_level(tls, 0);
	SSL_CTX_set_min_proto_version(tls, TLS1_1_VERSION);
	SSL_CTX_set_max_proto_version(tls, TLS1_1_VERSION);
	is_kept_out(come(world, tls));
}

static void a_client_without_alpn_h2_is_kept_out(void **state)
{
	struct world *world = *state;

	start(world);
	is_kept_out(come(world, client_of(NULL, "\x08http/1.1", 9)));
}

static void a_client_without_alpn_is_kept_out(void **state)
{
	struct world *world = *state;

	start(world);
	is_kept_out(come(world, client_of(NULL, "", 0)));
}

static void with_a_client_ca_only_its_clients_are_let_in(void **state)
{
	struct world *world = *state;

	world->fixture->options.client_ca_file = world->client_ca;
	start(world);
	is_let_in(come(world, usual_client(&world->client)));
	is_kept_out(come(world, usual_client(NULL)));
}

static void with_a_client_ca_strangers_are_kept_out(void **state)
{
	struct world *world = *state;

	world->fixture->options.client_ca_file = world->client_ca;
	start(world);
	is_kept_out(come(world, usual_client(&world->stranger)));
}

/* --- those who mean harm ----------------------------------------------------------------------- */

static void a_handshake_that_never_ends_is_ended(void **state)
{
	static const char *const words[] = {"", "\x16\x03\x01\x02"};
	struct world *world = *state;
	struct fixture *fixture = world->fixture;

	start(world);
	for (size_t i = 0; i < 2; i++) {
		struct peer *peer = come(world, NULL);

		peer_send(peer, words[i], strlen(words[i]));
		wait_for(fixture, peer->shut);
		assert_int_equal(fixture_facts(fixture).abused, i + 1);
	}
	is_let_in(come(world, usual_client(NULL)));
}

static void cleartext_on_the_port_is_kept_out(void **state)
{
	struct world *world = *state;
	struct fixture *fixture = world->fixture;
	struct peer *peer;

	start(world);
	peer = come(world, NULL);
	peer_send(peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
	wait_for(fixture, peer->shut);
	assert_int_equal(fixture_facts(fixture).abused, 1);
}

static void renegotiation_is_refused(void **state)
{
	struct world *world = *state;
	struct fixture *fixture = world->fixture;
	SSL_CTX *tls = usual_client(NULL);
	struct peer *peer;
	int n;

	start(world);
	SSL_CTX_set_max_proto_version(tls, TLS1_2_VERSION);
	peer = come(world, tls);
	is_let_in(peer);
	assert_int_equal(SSL_renegotiate(peer->ssl), 1);
	wait_for(fixture, (n = SSL_do_handshake(peer->ssl)) <= 0 &&
				  SSL_get_error(peer->ssl, n) == SSL_ERROR_SSL);
	assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
	ERR_clear_error();
	is_let_in(come(world, usual_client(NULL)));
}

static void a_peer_that_never_reads_is_cut_over_tls_too(void **state)
{
	static uint8_t message[100000];
	uint8_t more[] = {0x3f, 0xff, 0xff, 0xff};
	struct world *world = *state;
	struct fixture *fixture = world->fixture;
	struct peer *peer;

	fixture->options.patience.answer = 300;
	start(world);
	peer = come(world, usual_client(NULL));
	peer_greet(peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x7fffffff);
	peer_frame(peer, NGHTTP2_WINDOW_UPDATE, 0, 0, more, 4);
	peer->window = INT32_MAX;
	for (size_t i = 0; i < 1000 && fixture_facts(fixture).abused == 0; i++) {
		if (i == 1)
			peer->deaf = true;
		peer_message(peer, peer_open(peer, "/test.Echo/Echo", NULL), message,
			sizeof(message), true);
		fixture_turn(fixture);
	}
	wait_for(fixture, fixture_facts(fixture).abused == 1);
	is_let_in(come(world, usual_client(NULL)));
}

/* --- files ------------------------------------------------------------------------------------- */

static void what_cannot_be_used_is_named_with_its_reason(void **state)
{
	struct world *world = *state;
	struct fixture *fixture = world->fixture;
	FILE *file;

	fixture->options.key_file = NULL;
	fixture_start(fixture);
	assert_null(fixture->server);
	assert_string_equal(fixture->why, "query.grpc_tls_cert and query.grpc_tls_key belong "
					  "together: set both, or neither");
	fixture->options.key_file = "/does/not/exist";
	fixture_start(fixture);
	assert_null(fixture->server);
	assert_string_equal(
		fixture->why, "query.grpc_tls_key: /does/not/exist: No such file or directory");
	fixture->options.key_file = world->key;
	write_identity(&world->client, world->client_ca, world->key);
	fixture_start(fixture);
	assert_null(fixture->server);
	assert_non_null(strstr(fixture->why, "query.grpc_tls_key: "));
	assert_non_null(strstr(fixture->why, ": it is not the key of the certificate"));
	file = fopen(world->cert, "w");
	fputs("no certificate\n", file);
	fclose(file);
	fixture_start(fixture);
	assert_null(fixture->server);
	assert_non_null(strstr(fixture->why, "query.grpc_tls_cert: "));
	assert_non_null(strstr(fixture->why, world->cert));
}

static void a_key_with_a_passphrase_is_refused_and_nobody_is_asked(void **state)
{
	struct world *world = *state;
	FILE *file = fopen(world->key, "w");

	PEM_write_PrivateKey(file, world->server.key, EVP_aes_128_cbc(), NULL, 0, NULL, "secret");
	fclose(file);
	fixture_start(world->fixture);
	assert_null(world->fixture->server);
	assert_non_null(strstr(world->fixture->why, "the key has a passphrase"));
}

static void new_certificates_are_for_new_connections(void **state)
{
	struct world *world = *state;
	struct fixture *fixture = world->fixture;
	struct identity second = identity_new("second", &world->ca);
	struct peer *old, *new;
	X509 *seen;

	start(world);
	old = come(world, usual_client(NULL));
	is_let_in(old);
	write_identity(&second, world->cert, world->key);
	assert_true(grpc_renew_tls(fixture->server, fixture->why));
	new = come(world, usual_client(NULL));
	is_let_in(new);
	peer_is_served(old);
	seen = SSL_get1_peer_certificate(new->ssl);
	assert_int_equal(X509_cmp(seen, second.cert), 0);
	X509_free(seen);
	seen = SSL_get1_peer_certificate(old->ssl);
	assert_int_equal(X509_cmp(seen, world->server.cert), 0);
	X509_free(seen);
	identity_free(&second);
}

static void a_renewal_that_fails_leaves_the_old_certificates_in_use(void **state)
{
	struct world *world = *state;
	struct fixture *fixture = world->fixture;

	start(world);
	assert_int_equal(unlink(world->cert), 0);
	assert_false(grpc_renew_tls(fixture->server, fixture->why));
	assert_non_null(strstr(fixture->why, world->cert));
	assert_non_null(strstr(fixture->why, "No such file or directory"));
	is_let_in(come(world, usual_client(NULL)));
}

#define tls_test(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		tls_test(calls_are_answered_over_tls),
		tls_test(tls_1_2_is_taken_and_tls_1_1_is_not),
		tls_test(a_client_without_alpn_h2_is_kept_out),
		tls_test(a_client_without_alpn_is_kept_out),
		tls_test(with_a_client_ca_only_its_clients_are_let_in),
		tls_test(with_a_client_ca_strangers_are_kept_out),
		tls_test(a_handshake_that_never_ends_is_ended),
		tls_test(cleartext_on_the_port_is_kept_out),
		tls_test(renegotiation_is_refused),
		tls_test(a_peer_that_never_reads_is_cut_over_tls_too),
		tls_test(what_cannot_be_used_is_named_with_its_reason),
		tls_test(a_key_with_a_passphrase_is_refused_and_nobody_is_asked),
		tls_test(new_certificates_are_for_new_connections),
		tls_test(a_renewal_that_fails_leaves_the_old_certificates_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
