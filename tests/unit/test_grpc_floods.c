/*
 * test_grpc_floods.c - peers that send more than anybody needs: frames, headers, pings, resets.
 *
 * Each of them loses its connection in bounded time and memory, and a well-behaved
 * peer is served meanwhile (in each test) and after (fixture_end).
 */
#include <string.h>

#include "grpc_fixture.h"

#include "tools/queryd/grpc.h"

#define FLOOD 20000 /* frames; each kind is cut long before */
#define MIB   (1024 * 1024)

/* --- floods ------------------------------------------------------------------------------------ */

static void rapid_reset_is_cut(void **state)
{
	const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	bool sent = true;

	(void)state;
	for (size_t i = 0; i < 3000 && sent && !peer->shut; i++) {
		uint32_t stream = peer_call(peer, "/test.Echo/Never", "x", 1);

		sent = peer_frame(peer, NGHTTP2_RST_STREAM, 0, stream, cancel, 4);
	}
	peer_is_cut(peer, "too many streams were reset");
	assert_true(fixture->handled <= 1500);
	fixture_end(&fixture);
}

/* "MadeYouReset": the peer breaks a rule of the stream, and the server resets it. */
static void resets_that_the_server_is_made_to_send_are_cut(void **state)
{
	const char *extra[] = {"content-length", "1", NULL};
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < 3000 && !peer->shut; i++) {
		peer_message(peer, peer_open(peer, "/test.Echo/Never", extra), "xx", 2, true);
		if (i % 50 == 0)
			fixture_turn(fixture);
	}
	peer_is_cut(peer, NULL);
	fixture_end(&fixture);
}

static void clients_whose_calls_all_time_out_are_not_cut(void **state)
{
	const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < 900; i++) {
		uint32_t stream = peer_call(peer, "/test.Echo/Never", "x", 1);

		peer_frame(peer, NGHTTP2_RST_STREAM, 0, stream, cancel, 4);
	}
	peer_is_served(peer);
	assert_int_equal(peer->goaways, 0);
	fixture_end(&fixture);
}

struct flood {
	uint8_t type, flags;
	bool on_stream; /* of an open call, or on the connection */
	const char *payload;
	size_t len;
};

static void a_flood_is_cut(const struct flood *flood)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = flood->on_stream ? peer_open(peer, "/test.Echo/Echo", NULL) : 0;
	bool sent = true;

	for (size_t i = 0; i < FLOOD && sent && !peer->shut; i++)
		sent = peer_frame(
			peer, flood->type, flood->flags, stream, flood->payload, flood->len);
	peer_is_cut(peer, "too_many_pings");
	fixture_end(&fixture);
}

static void floods_of_frames_that_move_nothing_are_cut(void **state)
{
	static const struct flood floods[] = {
		{NGHTTP2_PING, 0, false, "12345678", 8},
		{NGHTTP2_PING, NGHTTP2_FLAG_ACK, false, "12345678", 8},
		{NGHTTP2_SETTINGS, 0, false, "", 0},
		{NGHTTP2_SETTINGS, 0, false, "\0\4\0\0\xff\xff", 6},
		{NGHTTP2_PRIORITY, 0, true, "\0\0\0\0\7", 5},
		{NGHTTP2_WINDOW_UPDATE, 0, false, "\0\0\0\1", 4},
		{NGHTTP2_WINDOW_UPDATE, 0, true, "\0\0\0\1", 4},
		{NGHTTP2_DATA, 0, true, "", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++)
		a_flood_is_cut(&floods[i]);
}

/* Acknowledgements that nobody reads are what a ping flood is about. */
static void pings_of_a_peer_that_does_not_read_cost_no_memory(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	peer->deaf = true;
	for (size_t i = 0; i < FLOOD; i++)
		if (!peer_frame(peer, NGHTTP2_PING, 0, 0, "12345678", 8))
			break;
	assert_true(fixture_facts(fixture).memory < MIB);
	fixture_serves_others(fixture);
	wait_for(fixture, fixture_facts(fixture).abused == 1);
	fixture_end(&fixture);
}

static void headers_without_end_are_cut(void **state)
{
	static const size_t pieces[] = {0, 1000};
	uint8_t block[2000];
	size_t len = 0;

	(void)state;
	while (len < 1000)
		len = peer_put_header(block, len, "x-more", "and more");
	for (size_t p = 0; p < 2; p++) {
		struct fixture *fixture = fixture_impatient();
		struct peer *peer = peer_ready(fixture);
		bool sent = peer_frame(peer, NGHTTP2_HEADERS, 0, 1, block, len);

		for (size_t i = 0; i < FLOOD && sent && !peer->shut; i++)
			sent = peer_frame(
				peer, NGHTTP2_CONTINUATION, 0, 1, block, pieces[p] == 0 ? 0 : len);
		peer_is_cut(peer, NULL);
		fixture_end(&fixture);
	}
}

/* One header of 4000 bytes in the table, then a byte for each time it is meant. */
static void a_header_bomb_is_cut(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	uint8_t block[16384];
	char big[3900];
	size_t len;

	(void)state;
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	len = peer_put_header(block, 0, "x-bomb", big);
	block[0] = 0x40; /* to be indexed */
	memset(block + len, 0xbe, sizeof(block) - len);
	peer_frame(peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
		block, sizeof(block));
	peer_is_cut(peer, "headers without end");
	fixture_end(&fixture);
}

static void headers_that_are_only_too_large_are_answered_so(void **state)
{
	struct fixture *fixture = fixture_impatient();
	struct peer *peer = peer_ready(fixture);
	uint8_t block[16384];
	size_t len = 0;
	char big[8000];

	(void)state;
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	len = peer_put_header(block, len, ":method", "POST");
	len = peer_put_header(block, len, ":scheme", "http");
	len = peer_put_header(block, len, ":path", "/test.Echo/Echo");
	len = peer_put_header(block, len, ":authority", "test");
	len = peer_put_header(block, len, "content-type", "application/grpc");
	len = peer_put_header(block, len, "x-a", big);
	block[len] = 0;
	peer_frame(peer, NGHTTP2_HEADERS, 0, 1, block, len);
	len = peer_put_header(block, 0, "x-b", big);
	len = peer_put_header(block, len, "x-c", "more");
	peer_frame(peer, NGHTTP2_CONTINUATION, 0, 1, block, len);
	len = peer_put_header(block, 0, "x-d", "and a few more");
	while (len < 1000)
		len = peer_put_header(block, len, "x-e", "z");
	peer_frame(peer, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, block, len);
	assert_int_equal(peer_wait(peer, 1)->status, GRPC_RESOURCE_EXHAUSTED);
	peer->next = 3;
	peer_is_served(peer);
	fixture_end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rapid_reset_is_cut),
		cmocka_unit_test(resets_that_the_server_is_made_to_send_are_cut),
		cmocka_unit_test(clients_whose_calls_all_time_out_are_not_cut),
		cmocka_unit_test(floods_of_frames_that_move_nothing_are_cut),
		cmocka_unit_test(pings_of_a_peer_that_does_not_read_cost_no_memory),
		cmocka_unit_test(headers_without_end_are_cut),
		cmocka_unit_test(a_header_bomb_is_cut),
		cmocka_unit_test(headers_that_are_only_too_large_are_answered_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
