/*
 * test_peers_tls.c - peers over TLS: who is believed, who is shown what, and certificates that are
 * changed meanwhile.
 */
#include "peers_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scratch.h"

#include "tools/queryd/peers.h"

static struct scratch *scratch;
static char files[8][128];
static unsigned files_n;

/* A file of the test's directory; good until eight more were asked for. */
static const char *file(const char *name)
{
	char *path = files[files_n++ % 8];

	snprintf(path, sizeof(files[0]), "%s/%s", scratch->path, name);
	return path;
}

static void run(const char *format, const char *name)
{
	char command[1024];

	snprintf(command, sizeof(command), format, scratch->path, name, name, name, name);
	assert_int_equal(system(command), 0);
}

/* NAME.ca and NAME.crt, NAME.key signed by it, for 127.0.0.1. */
static void make_certificates(const char *name)
{
	run("cd '%s' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "
	    "1 "
	    "-subj /CN=ca -keyout %s.cakey -out %s.ca >log 2>&1",
		name);
	run("cd '%s' && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	    "-subj /CN=tally -keyout %s.key -out %s.csr >log 2>&1",
		name);
	run("cd '%s' && printf 'subjectAltName=IP:127.0.0.1\\n' >ext && openssl x509 -req -days 1 "
	    "-in %s.csr -CA %s.ca -CAkey %s.cakey -CAcreateserial -extfile ext -out %s.crt >log "
	    "2>&1",
		name);
}

static int setup(void **state)
{
	scratch_setup(state);
	scratch = *state;
	make_certificates("one");
	return peers_setup(NULL);
}

static int teardown(void **state)
{
	peers_teardown(NULL);
	return scratch_teardown(state);
}

static void serve(bool clients_too)
{
	stage.a.options.cert_file = strdup(file("one.crt"));
	stage.a.options.key_file = strdup(file("one.key"));
	stage.a.options.client_ca_file = clients_too ? strdup(file("one.ca")) : NULL;
	instance_start(&stage.a, "127.0.0.1", stage.a.port);
	instance_serves(&stage.a, 0, 15, 100);
}

static void stop(void)
{
	instance_stop(&stage.a);
	free((char *)(uintptr_t)stage.a.options.cert_file);
	free((char *)(uintptr_t)stage.a.options.key_file);
	free((char *)(uintptr_t)stage.a.options.client_ca_file);
}

static void meet(const char *list, const char *name, const char *ca)
{
	char cert[64], key[64];

	snprintf(cert, sizeof(cert), "%s.crt", name);
	snprintf(key, sizeof(key), "%s.key", name);
	peers_are_as(
		list, (struct peers_options){
			      .cert_file = file(cert), .key_file = file(key), .ca_file = file(ca)});
}

static void peers_shows_its_certificate_over_tls(void **state)
{
	(void)state;
	serve(true);
	meet(stage.a.address, "one", "one.ca");
	assert_true(until(partitions_are, 16));
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	stop();
}

/* It tries again and again: refused so often, it will be refused for ever. */
static bool tried(uint64_t want)
{
	struct grpc_facts facts;

	grpc_facts(stage.a.grpc, &facts);
	return facts.abused >= want;
}

static void peers_believes_no_other_authority(void **state)
{
	(void)state;
	make_certificates("two");
	serve(false);
	meet(stage.a.address, "one", "two.ca");
	assert_true(until(tried, 3));
	assert_int_equal(facts_now().connects, 0);
	stop();
}

static void peers_believes_no_certificate_for_another_host(void **state)
{
	char list[64];

	(void)state;
	serve(false);
	instance_stop(&stage.a);
	instance_start(&stage.a, "127.0.0.2", 0); /* its certificate is for 127.0.0.1 */
	snprintf(list, sizeof(list), "127.0.0.2:%u", stage.a.port);
	meet(list, "one", "one.ca");
	assert_true(until(tried, 3));
	assert_int_equal(facts_now().connects, 0);
	stop();
}

static void peers_uses_new_certificates_when_told(void **state)
{
	char why[PEERS_WHY_SIZE] = "";

	(void)state;
	make_certificates("two");
	run("cd '%s' && cp one.crt mine.crt && cp one.key mine.key && cp two.ca mine.ca", "");
	serve(true);
	meet(stage.a.address, "mine", "mine.ca");
	assert_true(until(tried, 2));
	run("cd '%s' && echo nonsense >mine.ca", "");
	assert_false(peers_renew(stage.peers, why));
	assert_memory_equal(why, "query.grpc_tls_client_ca: ", 26);
	run("cd '%s' && cp one.ca mine.ca", "");
	assert_true(peers_renew(stage.peers, why));
	assert_true(until(partitions_are, 16));
	stop();
}

static void peers_asks_nobody_for_a_passphrase(void **state)
{
	struct peers_options options = {.loop = stage.loop,
		.list = "127.0.0.1:1",
		.listening_fd = -1,
		.message_max = 4096,
		.cert_file = file("one.crt"),
		.key_file = file("locked.key"),
		.ca_file = file("one.ca")};
	char why[PEERS_WHY_SIZE] = "";

	(void)state;
	run("cd '%s' && openssl ec -in one.key -aes128 -passout pass:secret -out locked.key >log "
	    "2>&1",
		"");
	assert_null(peers_new(&options, why));
	assert_memory_equal(why, "query.grpc_tls_key: ", 20);
	assert_non_null(strstr(why, "the key has a passphrase"));
	options.key_file = file("nobody.key");
	assert_null(peers_new(&options, why));
	assert_non_null(strstr(why, "No such file"));
}

/* --- a peer that never stops ------------------------------------------------------------------- */

#define FLOOD	   (256 * 1024)
#define READ_AHEAD 100000 /* more than is read in a round */

struct flooder {
	int fd;
	SSL_CTX *tls;
	_Atomic bool go, end;
};

static int take_h2(SSL *ssl, const unsigned char **out, unsigned char *len, const unsigned char *in,
	unsigned in_len, void *arg)
{
	(void)ssl, (void)in_len, (void)arg;
	*out = in + 1; /* it is the only one that peers offer */
	*len = in[0];
	return SSL_TLSEXT_ERR_OK;
}

/* Frames of a type that nobody knows, which are to be ignored. */
static void *flood(void *arg)
{
	static const uint8_t settings[9] = {0, 0, 0, 4};
	static uint8_t frames[FLOOD];
	struct flooder *flooder = arg;
	int fd = accept(flooder->fd, NULL, NULL);
	SSL *ssl = SSL_new(flooder->tls);

	for (size_t at = 0; at < FLOOD; at += 1024) {
		const size_t len = 1024 - 9;
		const uint8_t head[] = {0, (uint8_t)(len >> 8), (uint8_t)len, 0xfa};

		memcpy(frames + at, head, sizeof(head));
	}
	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) == 1 && SSL_write(ssl, settings, sizeof(settings)) > 0) {
		while (!flooder->go)
			usleep(1000);
		SSL_write(ssl, frames, sizeof(frames));
	}
	while (!flooder->end)
		usleep(1000);
	SSL_free(ssl);
	close(fd);
	return NULL;
}

static bool has_read_all(uint64_t want)
{
	const struct peer *peer = TAILQ_FIRST(&stage.peers->list);

	return BIO_number_read(SSL_get_rbio(peer->wire.ssl)) > want &&
	       SSL_has_pending(peer->wire.ssl) == 0;
}

/* What lies in TLS's own buffer is read one piece in each round of the loop. */
static void peers_reads_one_buffer_in_a_round(void **state)
{
	struct flooder flooder = {.tls = SSL_CTX_new(TLS_server_method())};
	const int room = 2 * FLOOD;
	struct peer *peer;
	pthread_t thread;
	uint16_t port = 0;
	char list[64];
	int ready = 0;

	(void)state;
	SSL_CTX_use_certificate_chain_file(flooder.tls, file("one.crt"));
	SSL_CTX_use_PrivateKey_file(flooder.tls, file("one.key"), SSL_FILETYPE_PEM);
	SSL_CTX_set_alpn_select_cb(flooder.tls, take_h2, NULL);
	flooder.fd = listening("127.0.0.1", &port);
	fcntl(flooder.fd, F_SETFL, 0);
	assert_int_equal(pthread_create(&thread, NULL, flood, &flooder), 0);
	snprintf(list, sizeof(list), "127.0.0.1:%u", port);
	meet(list, "one", "one.ca");
	assert_true(until(connected_are, 1));
	peer = TAILQ_FIRST(&stage.peers->list);
	setsockopt(peer->wire.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	SSL_set_read_ahead(peer->wire.ssl, 1);
	SSL_set_default_read_buffer_len(peer->wire.ssl, 2 * FLOOD);
	flooder.go = true;
	for (int ms = 0; ms < 20000 && ready < READ_AHEAD; ms++) {
		usleep(1000);
		ioctl(peer->wire.fd, FIONREAD, &ready);
	}
	assert_true(ready >= READ_AHEAD);
	ev_run(stage.loop, EVRUN_NOWAIT);
	assert_int_equal(SSL_has_pending(peer->wire.ssl), 1);
	assert_true(until(has_read_all, FLOOD));
	assert_int_equal(facts_now().connected, 1);
	flooder.end = true;
	pthread_join(thread, NULL);
	close(flooder.fd);
	SSL_CTX_free(flooder.tls);
}

static void peers_speaks_no_cleartext_to_tls_and_no_tls_to_cleartext(void **state)
{
	(void)state;
	serve(false);
	peers_are(stage.a.address);
	assert_true(until(tried, 3));
	assert_int_equal(facts_now().connects, 0);
	peers_free(&stage.peers);
	stop();
	stage.a.options.cert_file = stage.a.options.key_file = NULL;
	stage.a.options.client_ca_file = NULL;
	instance_start(&stage.a, "127.0.0.1", stage.a.port);
	meet(stage.a.address, "one", "one.ca");
	assert_true(until(tried, 3));
	assert_int_equal(facts_now().connects, 0);
}

int main(void)
{
#define ENTRY(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		ENTRY(peers_shows_its_certificate_over_tls),
		ENTRY(peers_believes_no_other_authority),
		ENTRY(peers_believes_no_certificate_for_another_host),
		ENTRY(peers_uses_new_certificates_when_told),
		ENTRY(peers_asks_nobody_for_a_passphrase),
		ENTRY(peers_reads_one_buffer_in_a_round),
		ENTRY(peers_speaks_no_cleartext_to_tls_and_no_tls_to_cleartext),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
