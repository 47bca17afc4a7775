/*
 * test_grpc_hostile.c - peers that break HTTP/2's and gRPC's rules, or keep them and mean harm.
 *
 * Each of them loses its connection or its call in bounded time and memory,
 * and a well-behaved peer is served meanwhile (in each test) and after
 * (fixture_end, which also sees that nothing was left behind).
 */
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "grpc_fixture.h"

#include "tools/queryd/grpc.h"

#define MIB (1024 * 1024)

/* --- those who do not read --------------------------------------------------------------------- */

static void an_answer_without_a_window_is_given_up_in_time(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_new(fixture, NULL);
	uint32_t streams[100];

	(void)state;
	peer_greet(peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
	for (size_t i = 0; i < 100; i++)
		streams[i] = peer_call(peer, "/test.Echo/Echo", "hello", 5);
	wait_for(fixture, fixture->handled == 100);
	fixture_serves_others(fixture);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(peer_wait(peer, streams[i])->reset, NGHTTP2_CANCEL);
	assert_int_equal(fixture_facts(fixture).calls, 0);
	fixture_end(&fixture);
}

static void a_peer_that_never_reads_is_cut_and_costs_little(void **state)
{
	static uint8_t message[100000];
	uint8_t more[] = {0x3f, 0xff, 0xff, 0xff};
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_new(fixture, NULL);
	uint64_t most = 0;
	bool sent = true;

	(void)state;
	peer_greet(peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x7fffffff);
	peer_frame(peer, NGHTTP2_WINDOW_UPDATE, 0, 0, more, 4);
	peer->deaf = true;
	peer->window = INT32_MAX; /* its lie: it would not hear of more */
	for (size_t i = 0; i < 1000 && sent; i++) {
		uint32_t stream = peer_open(peer, "/test.Echo/Echo", NULL);

		peer_message(peer, stream, message, sizeof(message), true);
		fixture_turn(fixture);
		if (fixture_facts(fixture).memory > most)
			most = fixture_facts(fixture).memory;
		sent = fixture_facts(fixture).abused == 0;
	}
	assert_true(most < 64 * (uint64_t)MIB);
	fixture_serves_others(fixture);
	wait_for(fixture, fixture_facts(fixture).abused == 1);
	fixture_end(&fixture);
}

static void a_stream_that_is_not_read_ends(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_call(peer, "/test.Echo/Endless", "x", 1);

	(void)state;
	wait_for(fixture, fixture->ended == 1);
	assert_true(fixture_facts(fixture).memory < 3 * MIB);
	assert_int_equal(peer_wait(peer, stream)->reset, NGHTTP2_CANCEL);
	fixture_end(&fixture);
}

/* --- those who are slow ------------------------------------------------------------------------ */

static void a_connection_that_never_speaks_is_ended(void **state)
{
	static const char *const words[] = {"", "PRI * HTT", NGHTTP2_CLIENT_MAGIC};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fixture *fixture = fixture_impatient();
		struct peer *peer = peer_new(fixture, NULL);

		peer->mute = true;
		peer_send(peer, words[i], strlen(words[i]));
		peer_is_cut(peer, "it never spoke HTTP/2");
		fixture_end(&fixture);
	}
}

static void a_request_that_comes_byte_by_byte_is_ended_in_time(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", NULL);
	struct reply *reply = peer_reply(peer, stream);

	(void)state;
	peer_data(peer, stream, "\0\0\1\0\0", 5, false);
	while (!reply->ended) {
		peer_data(peer, stream, "x", 1, false);
		fixture_serves_others(fixture);
	}
	assert_int_equal(reply->status, GRPC_DEADLINE_EXCEEDED);
	assert_string_equal(reply->words, "the request took too long to arrive");
	peer_is_served(peer);
	fixture_end(&fixture);
}

static void headers_that_never_end_are_cut_in_time(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	uint8_t block[64];

	(void)state;
	peer_frame(
		peer, NGHTTP2_HEADERS, 0, 1, block, peer_put_header(block, 0, ":method", "POST"));
	peer_is_cut(peer, "the headers of a call never ended");
	fixture_end(&fixture);
}

static void an_idle_connection_is_kept(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	double until = ev_time() + 2.5;

	(void)state;
	wait_for(fixture, ev_time() > until); /* several times what is too long for anything else */
	assert_false(peer->shut);
	peer_is_served(peer);
	fixture_end(&fixture);
}

/* --- lies and garbage -------------------------------------------------------------------------- */

static void a_message_of_4_gib_is_refused_at_once(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", NULL);

	(void)state;
	peer_data(peer, stream, "\0\xff\xff\xff\xff", 5, false);
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_RESOURCE_EXHAUSTED);
	assert_true(fixture_facts(fixture).memory < MIB);
	fixture_end(&fixture);
}

/* A promise of 4 MiB costs nothing before the bytes are there. */
static void promises_cost_no_memory(void **state)
{
	static const uint8_t message[300];
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < 256; i++) {
		uint32_t stream = peer_open(peer, "/test.Echo/Echo", NULL);

		peer_data(peer, stream, "\0\0\x40\0\0", 5, false);
		peer_data(peer, stream, message, sizeof(message), false);
	}
	wait_for(fixture, fixture_facts(fixture).calls == 256);
	assert_true(fixture_facts(fixture).memory < MIB);
	fixture_end(&fixture);
}

static void requests_beyond_the_budget_are_refused_and_small_ones_served(void **state)
{
	static uint8_t half[2 * MIB];
	struct fixture *fixture = fixture_new();
	struct peer *peers[4];
	unsigned refused = 0;

	(void)state;
	fixture->options.memory_max = 16 * MIB;
	fixture_start(fixture);
	memcpy(half, "\0\0\x3f\xff\xff", 5);
	for (size_t p = 0; p < 4; p++) {
		peers[p] = peer_ready(fixture);
		for (size_t i = 0; i < 5; i++) {
			uint32_t stream = peer_open(peers[p], "/test.Echo/Echo", NULL);

			peer_data(peers[p], stream, half, sizeof(half), false);
			assert_true(fixture_facts(fixture).memory <= 16 * MIB);
		}
	}
	for (size_t p = 0; p < 4; p++) {
		peer_is_served(peers[p]);
		for (uint32_t stream = 1; stream < 10; stream += 2)
			refused += peer_reply(peers[p], stream)->status == GRPC_RESOURCE_EXHAUSTED;
	}
	assert_true(refused >= 10);
	fixture_serves_others(fixture);
	fixture_end(&fixture);
}

static void http1_is_answered_in_its_own_words(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_new(fixture, NULL);

	(void)state;
	peer_send(peer, request, strlen(request));
	wait_for(fixture, peer->shut);
	assert_memory_equal(peer->in, "HTTP/1.1 400 Bad Request\r\n", 26);
	peer->in[peer->in_len - 1] = '\0';
	assert_non_null(strstr((char *)peer->in, "\r\nContent-Length: 91\r\n"));
	assert_int_equal(strlen(strstr((char *)peer->in, "\r\n\r\n") + 4), 90);
	assert_non_null(strstr((char *)peer->in, "query.http_listen"));
	fixture_end(&fixture);
}

static void garbage_ends_the_connection(void **state)
{
	static const char *const garbage[] = {"\x16\x03\x01\x02\x00\x01", "\x7f\x45LF",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", "pri * http/2.0"};

	(void)state;
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		struct fixture *fixture = fixture_impatient();
		struct peer *peer = peer_new(fixture, NULL);

		peer_send(peer, garbage[i], strlen(garbage[i]));
		wait_for(fixture, peer->shut);
		fixture_end(&fixture);
	}
}

static uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* Frames of known types with wild flags, streams and payloads, some good calls between them. */
static void wild_frames_harm_nobody(void **state)
{
	struct fixture *fixture = fixture_impatient();
	uint32_t seed = 4;
	uint8_t bytes[300];

	(void)state;
	for (size_t round = 0; round < 150; round++) {
		struct peer *peer = peer_ready(fixture);
		bool sent = true;

		for (size_t i = 0; i < 40 && sent && !peer->shut; i++) {
			uint32_t r = next_random(&seed);
			size_t len = next_random(&seed) % (i % 2 == 0 ? 12 : sizeof(bytes));

			for (size_t b = 0; b < len; b++)
				bytes[b] = (uint8_t)(next_random(&seed) >> 7);
			if (r % 4 == 0 && peer->settings)
				peer_call(peer, "/test.Echo/Never", "x", 1);
			sent = peer_frame(peer, (uint8_t)(r >> 8) % 10, (uint8_t)(r >> 16),
				(r >> 24) % 2 == 0 ? 0 : peer->next - 2 + 2 * (r >> 28), bytes,
				len);
			fixture_turn(fixture);
		}
		peer_free(&peer);
	}
	fixture_end(&fixture);
}

static void connections_that_come_and_go_leave_nothing(void **state)
{
	struct fixture *fixture = fixture_impatient();

	(void)state;
	for (size_t i = 0; i < 300; i++) {
		struct peer *peer = peer_new(fixture, NULL);

		if (i % 3 == 1)
			peer_send(peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
		fixture_turn(fixture);
		peer_free(&peer);
	}
	wait_for(fixture, fixture_facts(fixture).accepted + fixture_facts(fixture).refused == 300);
	fixture_end(&fixture);
}

/* --- turns ------------------------------------------------------------------------------------- */

/* Whole calls that came in one read wait for their turns, unread ones in the socket. */
static void a_burst_of_heavy_calls_holds_up_nobody_else(void **state)
{
	enum { CALLS = 28 };
	struct fixture *fixture = fixture_new();
	struct peer *bad, *good;
	const int on = 1, off = 0;
	uint32_t last = 0, later, health;
	char much[2000] = "";
	uint64_t came;

	(void)state;
	fixture_start(fixture);
	bad = peer_ready(fixture);
	good = peer_ready(fixture);
	setsockopt(bad->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
	for (int i = 0; i < CALLS; i++)
		last = peer_call(bad, "/test.Echo/Busy", "hello", 5);
	setsockopt(bad->fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off));
	wait_for(fixture, fixture->handled > 0);
	came = fixture_facts(fixture).bytes_in;
	later = peer_call(bad, "/test.Echo/Echo", much, sizeof(much));
	health = peer_call(good, "/grpc.health.v1.Health/Check", "", 0);
	assert_int_equal(peer_wait(good, health)->status, GRPC_OK);
	assert_in_range(fixture->handled, 1, CALLS / 2);
	assert_in_range(fixture_facts(fixture).bytes_in - came, 1, sizeof(much) / 2);
	assert_int_equal(peer_wait(bad, last)->status, GRPC_OK);
	assert_int_equal(peer_wait(bad, later)->status, GRPC_OK);
	fixture_end(&fixture);
}

/* --- connections ------------------------------------------------------------------------------- */

static void age(struct fixture *fixture, double s)
{
	double until = ev_time() + s;

	wait_for(fixture, ev_time() > until);
}

static void one_address_gets_three_quarters_of_all_connections(void **state)
{
	struct fixture *fixture = fixture_new();
	struct peer *other, *peers[4];

	(void)state;
	fixture->options.connections_max = 4;
	fixture->options.patience.idle = 1000;
	fixture_start(fixture);
	for (size_t i = 0; i < 3; i++)
		peers[i] = peer_ready(fixture);
	peers[3] = peer_new(fixture, NULL);
	wait_for(fixture, peers[3]->shut);
	assert_int_equal(fixture_facts(fixture).refused, 1);
	peer_from = "127.0.0.2";
	other = peer_ready(fixture);
	peer_from = NULL;
	for (size_t i = 0; i < 3; i++)
		peer_is_served(peers[i]); /* so `other` is idle for longest ... */
	age(fixture, 1.2);
	peers[3] = peer_ready(fixture); /* ... but one of its own address makes room */
	wait_for(fixture, peers[0]->shut);
	peer_is_served(peers[3]);
	peer_is_served(other);
	assert_int_equal(fixture_facts(fixture).refused, 1);
	fixture_end(&fixture);
}

static void who_only_watches_makes_room_for_others(void **state)
{
	struct fixture *fixture = fixture_new();
	struct peer *watchers[4];

	(void)state;
	fixture->options.connections_max = 4;
	fixture->options.patience.idle = 100;
	fixture_start(fixture);
	for (size_t i = 0; i < 4; i++) {
		uint32_t stream;

		peer_from = i < 3 ? NULL : "127.0.0.2";
		watchers[i] = peer_ready(fixture);
		stream = peer_call(watchers[i], "/grpc.health.v1.Health/Watch", "", 0);
		wait_for(fixture, peer_reply(watchers[i], stream)->len == 7);
	}
	age(fixture, 0.2);
	peer_from = "127.0.0.3";
	peer_is_served(peer_ready(fixture));
	wait_for(fixture, watchers[0]->shut);
	assert_false(watchers[1]->shut);
	assert_int_equal(fixture_facts(fixture).refused, 0);
	peer_from = NULL;
	fixture_end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_without_a_window_is_given_up_in_time),
		cmocka_unit_test(a_peer_that_never_reads_is_cut_and_costs_little),
		cmocka_unit_test(a_stream_that_is_not_read_ends),
		cmocka_unit_test(a_connection_that_never_speaks_is_ended),
		cmocka_unit_test(a_request_that_comes_byte_by_byte_is_ended_in_time),
		cmocka_unit_test(headers_that_never_end_are_cut_in_time),
		cmocka_unit_test(an_idle_connection_is_kept),
		cmocka_unit_test(a_message_of_4_gib_is_refused_at_once),
		cmocka_unit_test(promises_cost_no_memory),
		cmocka_unit_test(requests_beyond_the_budget_are_refused_and_small_ones_served),
		cmocka_unit_test(http1_is_answered_in_its_own_words),
		cmocka_unit_test(garbage_ends_the_connection),
		cmocka_unit_test(wild_frames_harm_nobody),
		cmocka_unit_test(connections_that_come_and_go_leave_nothing),
		cmocka_unit_test(a_burst_of_heavy_calls_holds_up_nobody_else),
		cmocka_unit_test(one_address_gets_three_quarters_of_all_connections),
		cmocka_unit_test(who_only_watches_makes_room_for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
