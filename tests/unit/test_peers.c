/*
 * test_peers.c - streams that others serve: who is asked, how often, and what comes of it when they
 * are late, gone, mad or not there at all.
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

#define LATE_MS 300 /* call_ms where a test waits for it */

static char both[256];

static const char *list_of_both(void)
{
	snprintf(both, sizeof(both), "%s, %s", stage.a.address, stage.b.address);
	return both;
}

/* Two instances; a has partitions 0 to 7, b 8 to 15. */
static void two(void)
{
	instance_start(&stage.a, "127.0.0.1", 0);
	instance_start(&stage.b, "127.0.0.1", 0);
	instance_serves(&stage.a, 0, 7, 100);
	instance_serves(&stage.b, 8, 15, 100);
}

static void meet(const char *list, uint64_t partitions)
{
	peers_are(list);
	assert_true(until(partitions_are, partitions));
}

/* --- who is asked ------------------------------------------------------------------------------- */

static void peers_asks_each_the_streams_of_its_partitions(void **state)
{
	const uint64_t hashes[] = {1, 9, 2, 10, 3};
	struct ask_stream *streams;

	(void)state;
	two();
	meet(list_of_both(), 16);
	stage.b.rejects[stage.b.rejects_n++] = 10;
	streams = ask(ASK_EXCEEDS, hashes, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(streams[i].result, i == 3 ? ASK_REJECTED : ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(stage.a.streams, 3);
	assert_int_equal(stage.b.questions, 1);
	assert_int_equal(stage.b.streams, 2);
	assert_int_equal(stage.b.seen[0], 9);
	assert_int_equal(facts_now().streams_asked, 5);
}

static void over(struct peers_ask *ask)
{
	*(bool *)ask->arg = true;
}

static bool is_over(uint64_t flag)
{
	return *(const bool *)(uintptr_t)flag;
}

static void peers_leaves_alone_what_has_a_result(void **state)
{
	struct ask_stream streams[] = {{.hash = 1, .result = ASK_ACCEPTED},
		{.hash = 2, .result = ASK_UNSERVED}, {.hash = 4, .result = ASK_REJECTED}};
	bool ended = false;
	struct peers_ask ask = {.kind = ASK_EXCEEDS,
		.tenant = "fake",
		.streams = streams,
		.n = 3,
		.partitions = PARTITIONS,
		.deadline_ns = UINT64_MAX,
		.done = over,
		.arg = &ended};

	(void)state;
	two();
	meet(list_of_both(), 16);
	peers_ask(stage.peers, &ask);
	assert_true(until(is_over, (uintptr_t)&ended));
	assert_int_equal(stage.a.streams, 1);
	assert_int_equal(stage.a.seen[0], 2);
	assert_int_equal(streams[0].result, ASK_ACCEPTED);
	assert_int_equal(streams[1].result, ASK_ACCEPTED);
	assert_int_equal(streams[2].result, ASK_REJECTED);
}

static void peers_asks_the_one_that_was_assigned_last(void **state)
{
	(void)state;
	two();
	instance_serves(&stage.b, 3, 3, 200);
	meet(list_of_both(), 16);
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 0);
	assert_int_equal(stage.b.questions, 1);
}

static void peers_believes_no_assignment_from_the_future(void **state)
{
	(void)state;
	two();
	instance_serves(&stage.b, 3, 3, INT64_MAX);
	meet(list_of_both(), 16);
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(facts_now().strange, 1);
}

static void peers_says_unserved_where_nobody_serves(void **state)
{
	const uint64_t hashes[] = {1, 12};
	struct ask_stream *streams;

	(void)state;
	two();
	instance_serves(&stage.b, 8, 15, 0);
	meet(list_of_both(), 8);
	streams = ask(ASK_EXCEEDS, hashes, 2);
	assert_int_equal(streams[0].result, ASK_ACCEPTED);
	assert_int_equal(streams[1].result, ASK_UNSERVED);
}

static void peers_asks_for_maps_again_before_it_says_unserved(void **state)
{
	(void)state;
	two();
	instance_serves(&stage.b, 8, 15, 0);
	meet(list_of_both(), 8);
	instance_serves(&stage.b, 8, 15, 300);
	usleep((PEERS_FRESH_MS + 50) * 1000); /* what it knows is old now */
	assert_int_equal(ask_one(12), ASK_ACCEPTED);
	assert_int_equal(stage.b.maps, 2);
}

static void peers_says_unserved_at_once_without_peers(void **state)
{
	(void)state;
	peers_are("");
	assert_int_equal(ask_one(12), ASK_UNSERVED);
}

static void peers_answers_for_rates_in_any_order(void **state)
{
	const uint64_t hashes[] = {7, 1, 9, 1, 3};
	struct ask_stream *streams;

	(void)state;
	two();
	meet(list_of_both(), 16);
	streams = ask(ASK_RATES, hashes, 5);
	assert_int_equal(streams[0].rate, 2 * 10);
	assert_int_equal(streams[2].rate, 2 * 12);
	assert_int_equal(streams[4].rate, 2 * 14);
	assert_true(streams[1].rate + streams[3].rate == 2 * 11 + 2 * 13);
}

static void peers_asks_in_calls_that_are_not_too_large(void **state)
{
	static uint64_t hashes[5000];
	struct ask_stream *streams;

	(void)state;
	two();
	peers_are_as(list_of_both(), (struct peers_options){.message_max = 1000});
	assert_true(until(partitions_are, 16));
	for (uint64_t i = 0; i < 5000; i++)
		hashes[i] = UINT64_MAX - i * 16;
	streams = ask(ASK_EXCEEDS, hashes, 5000);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(streams[i].result, ASK_ACCEPTED);
	assert_int_equal(stage.b.streams, 5000);
	assert_true(stage.b.largest <= 1000 && stage.b.largest > 950);
}

/* --- UNAVAILABLE -------------------------------------------------------------------------------- */

static void peers_asks_another_once_when_one_is_unavailable(void **state)
{
	(void)state;
	two();
	instance_serves(&stage.a, 3, 3, 300);
	instance_serves(&stage.b, 3, 3, 200);
	stage.a.mood = LEAVES;
	meet(list_of_both(), 16);
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(stage.b.questions, 1);
	assert_int_equal(facts_now().streams_retried, 1);
	assert_int_equal(stage.a.maps, 2); /* its map was asked for again, at once */
}

static void peers_finds_the_new_owner_after_unavailable(void **state)
{
	(void)state;
	two();
	meet(list_of_both(), 16);
	instance_serves(&stage.a, 3, 3, 0);
	instance_serves(&stage.b, 3, 3, 500); /* it has moved, and nobody has told us */
	stage.a.mood = REFUSES;
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(stage.b.questions, 1);
}

static void peers_asks_no_instance_twice(void **state)
{
	(void)state;
	two();
	meet(list_of_both(), 16);
	stage.a.mood = REFUSES;
	assert_int_equal(ask_one(3), ASK_UNSERVED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(stage.b.questions, 0);
}

static void peers_asks_two_others_at_most(void **state)
{
	(void)state;
	two();
	instance_serves(&stage.b, 3, 3, 50);
	stage.a.mood = stage.b.mood = REFUSES;
	meet(list_of_both(), 16);
	assert_int_equal(ask_one(3), ASK_UNSERVED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(stage.b.questions, 1);
}

/* Two addresses with the same assigned_at are one instance. */
static void peers_asks_no_instance_twice_at_its_other_address(void **state)
{
	(void)state;
	two();
	instance_serves(&stage.b, 0, 7, 100);
	stage.a.mood = stage.b.mood = REFUSES;
	meet(list_of_both(), 16);
	assert_int_equal(ask_one(3), ASK_UNSERVED);
	assert_int_equal(stage.a.questions + stage.b.questions, 1);
}

/* --- late, dead, mad ---------------------------------------------------------------------------- */

static void peers_fails_what_is_late_and_sends_it_to_nobody_else(void **state)
{
	const uint64_t hashes[] = {3, 9};
	struct ask_stream *streams;
	uint64_t begun;

	(void)state;
	two();
	instance_serves(&stage.b, 3, 3, 50);
	stage.a.mood = SLEEPS;
	meet(list_of_both(), 16);
	begun = host_boot_ns();
	streams = ask_within(ASK_EXCEEDS, hashes, 2, LATE_MS);
	/* The peer may say that it is too late a moment before we do. */
	assert_true(host_boot_ns() - begun >= (LATE_MS - 10) * UINT64_C(1000000));
	assert_int_equal(streams[0].result, ASK_FAILED);
	assert_int_equal(streams[1].result, ASK_ACCEPTED);
	assert_int_equal(stage.b.streams, 1);
}

static void peers_waits_no_longer_than_a_call_may_take(void **state)
{
	(void)state;
	two();
	stage.a.mood = SLEEPS;
	peers_are_as(list_of_both(), (struct peers_options){.call_ms = LATE_MS});
	assert_true(until(partitions_are, 16));
	assert_int_equal(ask_one(3), ASK_FAILED);
}

static void peers_retries_for_one_while_another_sleeps(void **state)
{
	const uint64_t hashes[] = {3, 9};
	struct ask_stream *streams;

	(void)state;
	two();
	instance_serves(&stage.a, 9, 9, 50);
	instance_serves(&stage.b, 9, 9, 200);
	stage.b.mood = LEAVES;
	meet(list_of_both(), 16);
	stage.a.rejects[stage.a.rejects_n++] = 9;
	streams = ask(ASK_EXCEEDS, hashes, 2);
	assert_int_equal(streams[0].result, ASK_ACCEPTED);
	assert_int_equal(streams[1].result, ASK_REJECTED);
}

static void peers_fails_what_a_dying_peer_had(void **state)
{
	const uint64_t hashes[] = {3, 9};
	struct ask_stream *streams;

	(void)state;
	two();
	instance_serves(&stage.b, 3, 3, 50);
	stage.a.mood = DIES;
	meet(list_of_both(), 16);
	streams = ask(ASK_EXCEEDS, hashes, 2);
	assert_int_equal(streams[0].result, ASK_FAILED); /* b has it too, but was not asked */
	assert_int_equal(streams[1].result, ASK_ACCEPTED);
	assert_int_equal(stage.b.streams, 1);
	assert_true(until(connected_are, 1));
	assert_int_equal(facts_now().lost, 1);
	assert_int_equal(ask_one(3), ASK_ACCEPTED); /* now b is */
}

static void peers_fails_what_gets_no_good_answer(void **state)
{
	static const enum mood moods[] = {BABBLES, SPILLS, FAILS};

	(void)state;
	two();
	instance_serves(&stage.b, 3, 3, 50);
	meet(list_of_both(), 16);
	for (unsigned i = 0; i < 3; i++) {
		stage.a.mood = moods[i];
		assert_int_equal(ask_one(3), ASK_FAILED);
		assert_int_equal(ask_one(9), ASK_ACCEPTED);
	}
	assert_int_equal(stage.a.questions, 3);
	assert_int_equal(facts_now().strange, 2);
	assert_true(connected_are(2));
}

static void peers_rejects_for_no_reason_that_it_does_not_know(void **state)
{
	static const uint32_t reasons[] = {0, 1, 3, UINT32_MAX};

	(void)state;
	two();
	meet(list_of_both(), 16);
	stage.a.rejects[stage.a.rejects_n++] = 3;
	for (unsigned i = 0; i < 4; i++) {
		stage.a.reason = reasons[i];
		assert_int_equal(ask_one(3), ASK_FAILED);
	}
	assert_int_equal(facts_now().strange, 3);
}

static void peers_ignores_results_for_what_was_not_asked(void **state)
{
	const uint64_t hashes[] = {3, 4};
	struct ask_stream *streams;

	(void)state;
	two();
	meet(list_of_both(), 16);
	stage.a.extra = 4711;
	stage.a.rejects[stage.a.rejects_n++] = 4;
	streams = ask(ASK_EXCEEDS, hashes, 2);
	assert_int_equal(streams[0].result, ASK_ACCEPTED);
	assert_int_equal(streams[1].result, ASK_REJECTED);
	assert_int_equal(facts_now().strange, 1);
}

static void peers_gives_each_occurrence_of_a_hash_its_own_result(void **state)
{
	const uint64_t hashes[] = {3, 5, 3, 3};
	struct ask_stream *streams;

	(void)state;
	two();
	meet(list_of_both(), 16);
	stage.a.rejects[stage.a.rejects_n++] = 3;
	stage.a.rejects[stage.a.rejects_n++] = 3;
	streams = ask(ASK_EXCEEDS, hashes, 4);
	assert_int_equal(streams[0].result, ASK_REJECTED);
	assert_int_equal(streams[1].result, ASK_ACCEPTED);
	assert_int_equal(streams[2].result, ASK_REJECTED);
	assert_int_equal(streams[3].result, ASK_ACCEPTED);
}

static void peers_calls_nobody_back_who_has_cancelled(void **state)
{
	struct ask_stream stream = {.hash = 3, .result = ASK_UNSERVED};
	struct peers_ask one = {.kind = ASK_EXCEEDS,
		.tenant = "fake",
		.streams = &stream,
		.n = 1,
		.partitions = PARTITIONS,
		.deadline_ns = UINT64_MAX,
		.done = NULL};

	(void)state;
	two();
	stage.a.mood = SLEEPS;
	meet(list_of_both(), 16);
	peers_ask(stage.peers, &one);
	peers_cancel(stage.peers, &one);
	stage.a.mood = ACCEPTS;
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(facts_now().calls, 0);
}

static void peers_may_end_with_questions_under_way(void **state)
{
	struct ask_stream stream = {.hash = 3, .result = ASK_UNSERVED};
	struct peers_ask one = {.kind = ASK_EXCEEDS,
		.tenant = "fake",
		.streams = &stream,
		.n = 1,
		.partitions = PARTITIONS,
		.deadline_ns = UINT64_MAX,
		.done = NULL};

	(void)state;
	two();
	stage.a.mood = SLEEPS;
	meet(list_of_both(), 16);
	peers_ask(stage.peers, &one);
	peers_free(&stage.peers);
}

/* --- connections -------------------------------------------------------------------------------- */

static void peers_comes_back_to_one_that_was_away(void **state)
{
	(void)state;
	two();
	meet(list_of_both(), 16);
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
	two();
	fd = listening("127.0.0.1", &port);
	snprintf(both, sizeof(both), "127.0.0.1:%u,%s", port, stage.b.address);
	meet(both, 8);
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
	two();
	peers_are_as(list_of_both(), (struct peers_options){.call_ms = LATE_MS, .poll_ms = 50});
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
	two();
	peers_are_as(list_of_both(), (struct peers_options){.call_ms = LATE_MS, .poll_ms = 5000});
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
	two();
	peers_are_as(list_of_both(), (struct peers_options){.poll_ms = 20});
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
	two();
	meet(list_of_both(), 16);
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
	snprintf(both, sizeof(both), "127.0.0.1:%u", port);
	peers_are(both);
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
	char list[64];

	(void)state;
	instance_start(&stage.a, "127.0.0.1", 0);
	instance_start(&stage.b, "127.0.0.2", stage.a.port);
	instance_serves(&stage.a, 0, 7, 100);
	instance_serves(&stage.b, 8, 15, 100);
	name_has[0] = "127.0.0.1";
	name_has[1] = "127.0.0.2";
	name_has[2] = NULL;
	snprintf(list, sizeof(list), "name.test:%u", stage.a.port);
	peers_are_as(list, (struct peers_options){.names_ms = 20});
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
	char list[64];

	(void)state;
	two();
	name_has[0] = "127.0.0.1";
	name_has[1] = NULL;
	snprintf(list, sizeof(list), "name.test:%u", stage.a.port);
	peers_are_as(list, (struct peers_options){.names_ms = 5});
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
	two();
	for (unsigned i = 0; i < 2; i++) {
		uint16_t port = 0;
		int fd = listening(hosts[i], &port);

		snprintf(both, sizeof(both), "127.0.0.1:%u,%s", port, stage.b.address);
		peers_are_as(both, (struct peers_options){.listening_fd = fd});
		assert_int_equal(facts_now().known, 1);
		assert_true(until(partitions_are, 8));
		peers_free(&stage.peers);
		close(fd);
	}
}

static void peers_takes_an_address_once(void **state)
{
	char list[256];

	(void)state;
	two();
	snprintf(list, sizeof(list), "%s,%s , %s,", stage.a.address, stage.b.address,
		stage.a.address);
	peers_are(list);
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
		ENTRY(peers_asks_each_the_streams_of_its_partitions),
		ENTRY(peers_leaves_alone_what_has_a_result),
		ENTRY(peers_asks_the_one_that_was_assigned_last),
		ENTRY(peers_believes_no_assignment_from_the_future),
		ENTRY(peers_says_unserved_where_nobody_serves),
		ENTRY(peers_asks_for_maps_again_before_it_says_unserved),
		ENTRY(peers_says_unserved_at_once_without_peers),
		ENTRY(peers_answers_for_rates_in_any_order),
		ENTRY(peers_asks_in_calls_that_are_not_too_large),
		ENTRY(peers_asks_another_once_when_one_is_unavailable),
		ENTRY(peers_finds_the_new_owner_after_unavailable),
		ENTRY(peers_asks_no_instance_twice),
		ENTRY(peers_asks_two_others_at_most),
		ENTRY(peers_asks_no_instance_twice_at_its_other_address),
		ENTRY(peers_fails_what_is_late_and_sends_it_to_nobody_else),
		ENTRY(peers_waits_no_longer_than_a_call_may_take),
		ENTRY(peers_retries_for_one_while_another_sleeps),
		ENTRY(peers_fails_what_a_dying_peer_had),
		ENTRY(peers_fails_what_gets_no_good_answer),
		ENTRY(peers_rejects_for_no_reason_that_it_does_not_know),
		ENTRY(peers_ignores_results_for_what_was_not_asked),
		ENTRY(peers_gives_each_occurrence_of_a_hash_its_own_result),
		ENTRY(peers_calls_nobody_back_who_has_cancelled),
		ENTRY(peers_may_end_with_questions_under_way),
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
