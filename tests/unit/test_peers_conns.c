/*
 * test_peers_conns.c - connections to other instances, and the addresses that they are made to.
 */
#include "peers_fixture.h"

#include <dlfcn.h>
#include <netdb.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/queryd/peers.h"

#include "shm/host.h"

static char whom[256]; /* a list of addresses */

/* --- connections -------------------------------------------------------------------------------- */

static void peers_comes_back_to_one_that_was_away(void **state)
{
	(void)state;
	two_instances();
	peers_meet(peers_both(), 16);
	instance_stop(&stage.a);
	assert_true(until(partitions_are, 8));
	assert_int_equal(ask_one(3), ASK_UNSERVED);
	instance_start(&stage.a, "127.0.0.1", stage.a.port);
	assert_true(until(partitions_are, 16));
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(facts_now().connects, 3);
}

/* Its kernel accepts connections; the process never says a word. */
static void peers_does_not_wait_for_a_frozen_one(void **state)
{
	const uint64_t hashes[] = {3, 9};
	struct ask_stream *streams;
	uint16_t port = 0;
	int fd;
	uint64_t begun;

	(void)state;
	two_instances();
	fd = listening("127.0.0.1", &port);
	snprintf(whom, sizeof(whom), "127.0.0.1:%u,%s", port, stage.b.address);
	peers_meet(whom, 8);
	begun = host_boot_ns();
	streams = ask(ASK_EXCEEDS, hashes, 2);
	assert_int_equal(streams[0].result, ASK_UNSERVED);
	assert_int_equal(streams[1].result, ASK_ACCEPTED);
	assert_true(host_boot_ns() - begun < UINT64_C(1000000) * PEERS_CALL_MS);
	close(fd);
}

static void peers_gives_a_silent_one_up(void **state)
{
	(void)state;
	two_instances();
	peers_are_as(peers_both(), (struct peers_options){.call_ms = LATE_MS, .poll_ms = 50});
	assert_true(until(partitions_are, 16));
	stage.a.map_sleeps = true;
	assert_true(until(connected_are, 1));
	assert_int_equal(facts_now().partitions, 8);
	stage.a.map_sleeps = false;
	assert_true(until(partitions_are, 16));
}

static bool polled_since(uint64_t want)
{
	return stage.a.maps >= want;
}

/* It does answer questions: it is slow, not dead. */
static void peers_keeps_one_that_is_slow_with_its_map(void **state)
{
	unsigned maps;

	(void)state;
	two_instances();
	peers_are_as(peers_both(), (struct peers_options){.call_ms = LATE_MS, .poll_ms = 5000});
	assert_true(until(partitions_are, 16));
	stage.a.map_sleeps = true;
	maps = stage.a.maps;
	peers_refresh(stage.peers, host_boot_ns());
	assert_true(until(polled_since, maps + 1));
	for (int i = 0; i < 10; i++) {
		assert_int_equal(ask_one(3), ASK_ACCEPTED);
		usleep(LATE_MS * 100);
	}
	while (TAILQ_FIRST(&stage.peers->list)->polling)
		assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(facts_now().lost, 0);
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
}

static void peers_asks_nothing_of_one_that_has_no_map(void **state)
{
	(void)state;
	two_instances();
	peers_are_as(peers_both(), (struct peers_options){.poll_ms = 20});
	assert_true(until(partitions_are, 16));
	stage.a.map_fails = true;
	assert_true(until(partitions_are, 8));
	assert_int_equal(ask_one(3), ASK_UNSERVED);
	assert_int_equal(stage.a.questions, 0);
	stage.a.map_fails = false;
	assert_true(until(partitions_are, 16));
}

static void drained(void *arg)
{
	*(bool *)arg = true;
}

static void peers_leaves_one_that_says_goodbye_and_comes_back(void **state)
{
	bool gone = false;

	(void)state;
	two_instances();
	peers_meet(peers_both(), 16);
	grpc_drain(stage.a.grpc, drained, &gone);
	assert_true(until(partitions_are, 8));
	assert_int_equal(ask_one(3), ASK_UNSERVED);
	instance_stop(&stage.a);
	instance_start(&stage.a, "127.0.0.1", stage.a.port);
	assert_true(until(partitions_are, 16));
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
}

static void peers_gives_up_what_does_not_speak_grpc(void **state)
{
	static const char web[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
	uint16_t port = 0;
	int fd, connection;

	(void)state;
	fd = listening("127.0.0.1", &port);
	snprintf(whom, sizeof(whom), "127.0.0.1:%u", port);
	peers_are(whom);
	while ((connection = accept(fd, NULL, NULL)) < 0)
		ev_run(stage.loop, EVRUN_ONCE);
	assert_int_equal(write(connection, web, sizeof(web) - 1), sizeof(web) - 1);
	while (accept(fd, NULL, NULL) < 0) /* it has ended that one, and tries again */
		ev_run(stage.loop, EVRUN_ONCE);
	assert_int_equal(facts_now().connects, 0);
	close(connection);
	close(fd);
}

/* --- addresses ---------------------------------------------------------------------------------- */

static const char *name_has[8]; /* addresses of name.test; the first NULL ends */
static bool name_fails;

static struct addrinfo *made(const char *address, const char *port)
{
	struct addrinfo *info = calloc(1, sizeof(*info) + sizeof(struct sockaddr_in));
	struct sockaddr_in *to = (struct sockaddr_in *)(void *)(info + 1);

	to->sin_family = AF_INET;
	to->sin_port = htons((uint16_t)atoi(port));
	inet_pton(AF_INET, address, &to->sin_addr);
	*info = (struct addrinfo){.ai_family = AF_INET,
		.ai_socktype = SOCK_STREAM,
		.ai_addrlen = sizeof(*to),
		.ai_addr = (struct sockaddr *)to};
	return info;
}

/* In place of libc's: name.test is what the test says; freeaddrinfo frees such a list too. */
int getaddrinfo(const char *restrict name, const char *restrict service,
	const struct addrinfo *restrict hints, struct addrinfo **restrict list)
{
	struct addrinfo **at = list;
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (strcmp(name, "name.test") != 0) {
		*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
		return real(name, service, hints, list);
	}
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	if (name_fails)
		return EAI_AGAIN;
	for (int i = 0; name_has[i] != NULL; i++) {
		*at = made(name_has[i], service);
		at = &(*at)->ai_next;
	}
	return 0;
}

static void peers_takes_all_addresses_of_a_name(void **state)
{

	(void)state;
	instance_start(&stage.a, "127.0.0.1", 0);
	instance_start(&stage.b, "127.0.0.2", stage.a.port);
	instance_serves(&stage.a, 0, 7, 100);
	instance_serves(&stage.b, 8, 15, 100);
	name_has[0] = "127.0.0.1";
	name_has[1] = "127.0.0.2";
	name_has[2] = NULL;
	snprintf(whom, sizeof(whom), "name.test:%u", stage.a.port);
	peers_are_as(whom, (struct peers_options){.names_ms = 20});
	assert_true(until(partitions_are, 16));
	name_has[1] = NULL;
	assert_true(until(known_are, 1)); /* one has left ... */
	assert_int_equal(facts_now().partitions, 8);
	assert_int_equal(ask_one(9), ASK_UNSERVED);
	name_has[1] = "127.0.0.2";
	assert_true(until(partitions_are, 16)); /* ... and is back */
	assert_int_equal(ask_one(9), ASK_ACCEPTED);
}

static void peers_keeps_the_addresses_of_a_name_that_is_not_found(void **state)
{

	(void)state;
	two_instances();
	name_has[0] = "127.0.0.1";
	name_has[1] = NULL;
	snprintf(whom, sizeof(whom), "name.test:%u", stage.a.port);
	peers_are_as(whom, (struct peers_options){.names_ms = 5});
	assert_true(until(partitions_are, 8));
	name_fails = true;
	for (int i = 0; i < 20; i++)
		ev_run(stage.loop, EVRUN_ONCE);
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	name_fails = false;
}

static void peers_leaves_its_own_address_out(void **state)
{
	static const char *const hosts[] = {"127.0.0.1", "0.0.0.0"};

	(void)state;
	two_instances();
	for (unsigned i = 0; i < 2; i++) {
		uint16_t port = 0;
		int fd = listening(hosts[i], &port);

		snprintf(whom, sizeof(whom), "127.0.0.1:%u,%s", port, stage.b.address);
		peers_are_as(whom, (struct peers_options){.listening_fd = fd});
		assert_int_equal(facts_now().known, 1);
		assert_true(until(partitions_are, 8));
		peers_free(&stage.peers);
		close(fd);
	}
}

static void peers_takes_an_address_once(void **state)
{

	(void)state;
	two_instances();
	snprintf(whom, sizeof(whom), "%s,%s , %s,", stage.a.address, stage.b.address,
		stage.a.address);
	peers_are(whom);
	assert_int_equal(facts_now().known, 2);
}

static void peers_says_what_is_wrong_with_a_list(void **state)
{
	static const char *const lists[] = {"tally-1", "tally-1:9095,,tally-2:9095", ":9095",
		"tally-1:0", "tally-1:9095 tally-2:9095", "tally-1:99999", "[::1:9095"};

	(void)state;
	for (unsigned i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		struct peers_options options = {
			.loop = stage.loop, .list = lists[i], .listening_fd = -1};
		char why[PEERS_WHY_SIZE] = "";

		if (peers_new(&options, why) != NULL)
			fail_msg("accepted: %s", lists[i]);
		assert_memory_equal(why, "query.peers: ", 13);
		assert_null(strchr(why, '\n'));
	}
}

int main(void)
{
#define ENTRY(test) cmocka_unit_test_setup_teardown(test, peers_setup, peers_teardown)
	const struct CMUnitTest tests[] = {
		ENTRY(peers_comes_back_to_one_that_was_away),
		ENTRY(peers_does_not_wait_for_a_frozen_one),
		ENTRY(peers_gives_a_silent_one_up),
		ENTRY(peers_keeps_one_that_is_slow_with_its_map),
		ENTRY(peers_asks_nothing_of_one_that_has_no_map),
		ENTRY(peers_leaves_one_that_says_goodbye_and_comes_back),
		ENTRY(peers_gives_up_what_does_not_speak_grpc),
		ENTRY(peers_takes_all_addresses_of_a_name),
		ENTRY(peers_keeps_the_addresses_of_a_name_that_is_not_found),
		ENTRY(peers_leaves_its_own_address_out),
		ENTRY(peers_takes_an_address_once),
		ENTRY(peers_says_what_is_wrong_with_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
