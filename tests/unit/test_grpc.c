/*
 * test_grpc.c - the gRPC server as well-behaved clients see it: answers, errors, gzip.
 */
#include <stdlib.h>

#include <zlib.h>

#include "grpc_fixture.h"

#include "tools/queryd/grpc.h"

/* --- answers ----------------------------------------------------------------------------------- */

static void a_call_is_answered_with_message_and_trailers(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	struct reply *reply = peer_wait(peer, peer_call(peer, "/test.Echo/Echo", "hello", 5));

	(void)state;
	assert_string_equal(reply->http, "200");
	assert_string_equal(reply->content, "application/grpc");
	assert_int_equal(reply->status, GRPC_OK);
	assert_int_equal(reply->blocks, 2);
	assert_int_equal(reply->reset, -1);
	assert_int_equal(reply->len, 10);
	assert_memory_equal(reply->data, "\0\0\0\0\5hello", 10);
	fixture_end(&fixture);
}

static void a_message_of_4_mib_goes_there_and_back(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_new(fixture, NULL);
	uint8_t *big = calloc(1, FIXTURE_MESSAGE_MAX), more[] = {0x3f, 0xff, 0xff, 0xff};
	struct reply *reply;

	(void)state;
	for (size_t i = 0; i < FIXTURE_MESSAGE_MAX; i++)
		big[i] = (uint8_t)(i * 7 >> 5);
	peer_greet(peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x7fffffff);
	peer_frame(peer, NGHTTP2_WINDOW_UPDATE, 0, 0, more, 4);
	reply = peer_wait(peer, peer_call(peer, "/test.Echo/Echo", big, FIXTURE_MESSAGE_MAX));
	assert_int_equal(reply->status, GRPC_OK);
	assert_int_equal(reply->len, FIXTURE_MESSAGE_MAX + 5);
	assert_memory_equal(reply->data + 5, big, FIXTURE_MESSAGE_MAX);
	free(big);
	fixture_end(&fixture);
}

static void two_hundred_calls_are_open_at_the_same_time(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t streams[200];

	(void)state;
	for (size_t i = 0; i < 200; i++)
		streams[i] = peer_open(peer, "/test.Echo/Echo", NULL);
	wait_for(fixture, fixture_facts(fixture).calls == 200);
	for (size_t i = 200; i-- > 0;)
		peer_message(peer, streams[i], &i, sizeof(i), true);
	for (size_t i = 0; i < 200; i++) {
		struct reply *reply = peer_wait(peer, streams[i]);

		assert_int_equal(reply->status, GRPC_OK);
		assert_memory_equal(reply->data + 5, &i, sizeof(i));
	}
	fixture_end(&fixture);
}

static void calls_above_the_limit_are_refused_while_the_client_cannot_know(void **state)
{
	struct fixture *fixture = fixture_new();
	struct peer *peer;
	uint32_t last = 0;

	(void)state;
	fixture->options.streams_max = 4;
	fixture_start(fixture);
	peer = peer_new(fixture, NULL);
	peer_send(peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
	peer_frame(peer, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
	for (size_t i = 0; i < 5; i++)
		last = peer_open(peer, "/test.Echo/Echo", NULL);
	assert_int_equal(peer_wait(peer, last)->reset, NGHTTP2_REFUSED_STREAM);
	assert_int_equal(fixture_facts(fixture).calls, 4);
	/* Now it knows. */
	wait_for(fixture, peer->settings);
	peer_frame(peer, NGHTTP2_PING, 0, 0, "12345678", 8);
	wait_for(fixture, peer->ping_ack);
	peer_open(peer, "/test.Echo/Echo", NULL);
	wait_for(fixture, peer->shut);
	assert_int_equal(peer->goaway_code, NGHTTP2_PROTOCOL_ERROR);
	fixture_end(&fixture);
}

static void a_stream_of_answers_ends_with_trailers(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	struct reply *reply = peer_wait(peer, peer_call(peer, "/test.Echo/Thrice", "x", 1));

	(void)state;
	assert_int_equal(reply->status, GRPC_OK);
	assert_int_equal(reply->len, 18);
	assert_memory_equal(reply->data, "\0\0\0\0\1x\0\0\0\0\1x\0\0\0\0\1x", 18);
	fixture_end(&fixture);
}

static void messages_of_a_chat_are_answered_one_by_one(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Chat", NULL);
	struct reply *reply = peer_reply(peer, stream);

	(void)state;
	peer_message(peer, stream, "a", 1, false);
	wait_for(fixture, reply->len == 6);
	peer_data(peer, stream, "\0\0\0\0\1b\0\0\0\0\1c\0\0\0", 15, false); /* two, and a piece */
	wait_for(fixture, reply->len == 18);
	peer_data(peer, stream, "\0\1d", 3, true);
	peer_wait(peer, stream);
	assert_int_equal(reply->status, GRPC_OK);
	assert_int_equal(reply->len, 30);
	assert_int_equal(reply->data[23], 'd');
	assert_int_equal(reply->data[29], '.');
	fixture_end(&fixture);
}

static void a_message_in_many_frames_is_put_together(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", NULL);
	const char *framed = "\0\0\0\0\5hello";
	struct reply *reply;

	(void)state;
	for (size_t i = 0; i < 10; i++)
		peer_data(peer, stream, framed + i, 1, false);
	peer_data(peer, stream, NULL, 0, true);
	reply = peer_wait(peer, stream);
	assert_int_equal(reply->status, GRPC_OK);
	assert_memory_equal(reply->data, framed, 10);
	fixture_end(&fixture);
}

static void thousands_of_messages_in_one_read_are_answered_one_by_one(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Chat", NULL);
	uint8_t bytes[60000] = {0};
	struct reply *reply;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i += 6) {
		bytes[i + 4] = 1;
		bytes[i + 5] = (uint8_t)(i / 6);
	}
	peer_data(peer, stream, bytes, sizeof(bytes), true);
	peer_frame(peer, NGHTTP2_WINDOW_UPDATE, 0, stream, "\0\1\0\0", 4);
	reply = peer_wait(peer, stream);
	assert_int_equal(reply->status, GRPC_OK);
	assert_int_equal(reply->len, sizeof(bytes) + 6);
	assert_memory_equal(reply->data, bytes, sizeof(bytes));
	fixture_end(&fixture);
}

/* --- errors ------------------------------------------------------------------------------------ */

static void content_types_are_taken_as_grpc_says(void **state)
{
	static const struct {
		const char *type, *http;
	} cases[] = {
		{"application/grpc", "200"},
		{"application/grpc+proto", "200"},
		{"application/grpc;charset=x", "200"},
		{"application/grpc-web", "415"},
		{"application/json", "415"},
		{"", "415"},
	};
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *extra[] = {"content-type", cases[i].type, NULL};
		uint32_t stream = peer_open(peer, "/test.Echo/Echo", extra);

		peer_message(peer, stream, "x", 1, true);
		assert_string_equal(peer_wait(peer, stream)->http, cases[i].http);
	}
	fixture_end(&fixture);
}

static void another_verb_than_post_is_405(void **state)
{
	const char *extra[] = {":method", "GET", NULL};
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	struct reply *reply = peer_wait(peer, peer_open(peer, "/test.Echo/Echo", extra));

	(void)state;
	assert_string_equal(reply->http, "405");
	assert_string_equal(reply->allow, "POST");
	assert_true(reply->len > 10);
	fixture_end(&fixture);
}

static void an_unknown_method_is_unimplemented_in_trailers_only(void **state)
{
	static const char *const paths[] = {"/test.Echo/Ech", "/test.Echo/Echoo", "/", "/x.Y/Z"};
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct reply *reply = peer_wait(peer, peer_call(peer, paths[i], "x", 1));

		assert_string_equal(reply->http, "200");
		assert_int_equal(reply->status, GRPC_UNIMPLEMENTED);
		assert_string_equal(reply->words, "no such method");
		assert_int_equal(reply->blocks, 1);
		assert_int_equal(reply->len, 0);
	}
	fixture_end(&fixture);
}

static void an_error_before_the_end_of_a_request_stops_it_without_harm(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/no.Such/Method", NULL);
	struct reply *reply = peer_reply(peer, stream);

	(void)state;
	wait_for(fixture, reply->reset != -1);
	assert_int_equal(reply->status, GRPC_UNIMPLEMENTED);
	assert_int_equal(reply->reset, NGHTTP2_NO_ERROR);
	peer_is_served(peer);
	fixture_end(&fixture);
}

static void a_message_too_large_is_resource_exhausted_before_it_has_come(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", NULL);
	struct reply *reply;

	(void)state;
	peer_data(peer, stream, "\0\0\x40\0\1", 5, false); /* 4 MiB and one byte */
	reply = peer_wait(peer, stream);
	assert_int_equal(reply->status, GRPC_RESOURCE_EXHAUSTED);
	assert_string_equal(reply->words, "a message of 4194305 bytes is too large: "
					  "query.grpc_max_message is 4194304");
	fixture_end(&fixture);
}

static void framing_that_lies_is_an_error(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int status;
	} cases[] = {
		{"", 0, GRPC_UNIMPLEMENTED},			    /* no message */
		{"\0\0\0\0\1x\0\0\0\0\1y", 12, GRPC_UNIMPLEMENTED}, /* two */
		{"\0\0\0", 3, GRPC_INTERNAL},			    /* half a prefix */
		{"\0\0\0\0\7abc", 8, GRPC_INTERNAL},		    /* half a message */
		{"\2\0\0\0\1x", 6, GRPC_INTERNAL},		    /* an unknown flag */
		{"\1\0\0\0\1x", 6, GRPC_INTERNAL},		    /* packed, but how? */
	};
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t stream = peer_open(peer, "/test.Echo/Echo", NULL);

		peer_data(peer, stream, cases[i].bytes, cases[i].len, true);
		assert_int_equal(peer_wait(peer, stream)->status, cases[i].status);
	}
	assert_int_equal(fixture->handled, 0);
	fixture_end(&fixture);
}

/* --- gzip -------------------------------------------------------------------------------------- */

static const char *const gzip[] = {"grpc-encoding", "gzip", NULL};

/* A packed message with its prefix. */
static size_t pack(const void *bytes, size_t len, uint8_t *out, size_t size)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
		.avail_in = (uInt)len,
		.next_out = out + 5,
		.avail_out = (uInt)size - 5};

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	len = size - 5 - z.avail_out;
	out[0] = 1;
	out[1] = 0;
	out[2] = (uint8_t)(len >> 16);
	out[3] = (uint8_t)(len >> 8);
	out[4] = (uint8_t)len;
	return len + 5;
}

static void a_packed_message_is_unpacked_before_it_is_handled(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", gzip);
	uint8_t packed[256];
	struct reply *reply;

	(void)state;
	peer_data(peer, stream, packed, pack("hello hello", 11, packed, sizeof(packed)), true);
	reply = peer_wait(peer, stream);
	assert_int_equal(reply->status, GRPC_OK);
	assert_memory_equal(reply->data, "\0\0\0\0\13hello hello", 16);
	stream = peer_open(peer, "/test.Echo/Echo", gzip); /* may also not be packed */
	peer_message(peer, stream, "x", 1, true);
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_OK);
	fixture_end(&fixture);
}

static void a_gzip_bomb_is_resource_exhausted(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", gzip);
	uint8_t *zeros = calloc(1, 30000000), *packed = malloc(100000);

	(void)state;
	peer_data(peer, stream, packed, pack(zeros, 30000000, packed, 100000), true);
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_RESOURCE_EXHAUSTED);
	assert_int_equal(fixture->handled, 0);
	free(zeros);
	free(packed);
	fixture_end(&fixture);
}

static void what_is_not_gzip_is_internal(void **state)
{
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", gzip);

	(void)state;
	peer_data(peer, stream, "\1\0\0\0\5hello", 10, true);
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_INTERNAL);
	fixture_end(&fixture);
}

static void an_unknown_packing_is_unimplemented_and_says_what_is_known(void **state)
{
	const char *extra[] = {"grpc-encoding", "snappy", NULL};
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", extra);
	struct reply *reply = peer_wait(peer, stream);

	(void)state;
	assert_int_equal(reply->status, GRPC_UNIMPLEMENTED);
	assert_string_equal(reply->accepts, "identity,gzip");
	fixture_end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_is_answered_with_message_and_trailers),
		cmocka_unit_test(a_message_of_4_mib_goes_there_and_back),
		cmocka_unit_test(two_hundred_calls_are_open_at_the_same_time),
		cmocka_unit_test(calls_above_the_limit_are_refused_while_the_client_cannot_know),
		cmocka_unit_test(a_stream_of_answers_ends_with_trailers),
		cmocka_unit_test(messages_of_a_chat_are_answered_one_by_one),
		cmocka_unit_test(thousands_of_messages_in_one_read_are_answered_one_by_one),
		cmocka_unit_test(a_message_in_many_frames_is_put_together),
		cmocka_unit_test(content_types_are_taken_as_grpc_says),
		cmocka_unit_test(another_verb_than_post_is_405),
		cmocka_unit_test(an_unknown_method_is_unimplemented_in_trailers_only),
		cmocka_unit_test(an_error_before_the_end_of_a_request_stops_it_without_harm),
		cmocka_unit_test(a_message_too_large_is_resource_exhausted_before_it_has_come),
		cmocka_unit_test(framing_that_lies_is_an_error),
		cmocka_unit_test(a_packed_message_is_unpacked_before_it_is_handled),
		cmocka_unit_test(a_gzip_bomb_is_resource_exhausted),
		cmocka_unit_test(what_is_not_gzip_is_internal),
		cmocka_unit_test(an_unknown_packing_is_unimplemented_and_says_what_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
