/*
 * test_peers_tls.c - peers over TLS: who is believed, who is shown what, and certificates that are
 * changed meanwhile.
 */
#include "peers_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	assert_false(peers_renew_tls(stage.peers, why));
	assert_memory_equal(why, "query.grpc_tls_client_ca: ", 26);
	run("cd '%s' && cp one.ca mine.ca", "");
	assert_true(peers_renew_tls(stage.peers, why));
	assert_true(until(partitions_are, 16));
	stop();
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
		ENTRY(peers_speaks_no_cleartext_to_tls_and_no_tls_to_cleartext),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
