/*
 * test_grpc.c - the gRPC server as well-behaved clients see it: answers, errors, deadlines, ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "grpc_fixture.h"

#include "shm/host.h"
#include "tools/queryd/descriptors.h"
#include "tools/queryd/grpc.h"

static struct fixture *usual(void)
{
	struct fixture *fixture = fixture_new();

	fixture_start(fixture);
	assert_non_null(fixture->server);
	return fixture;
}

/* --- answers ----------------------------------------------------------------------------------- */

static void a_call_is_answered_with_message_and_trailers(void **state)
{
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
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
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", extra);
	struct reply *reply = peer_wait(peer, stream);

	(void)state;
	assert_int_equal(reply->status, GRPC_UNIMPLEMENTED);
	assert_string_equal(reply->accepts, "identity,gzip");
	fixture_end(&fixture);
}

/* --- deadlines, cancellation ------------------------------------------------------------------- */

static uint32_t call_with_timeout(struct peer *peer, const char *path, const char *timeout)
{
	const char *extra[] = {"grpc-timeout", timeout, NULL};
	uint32_t stream = peer_open(peer, path, extra);

	peer_message(peer, stream, "x", 1, true);
	return stream;
}

static void a_deadline_ends_a_call_and_tells_its_handler(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	uint64_t before = host_boot_ns();
	uint32_t stream = call_with_timeout(peer, "/test.Echo/Never", "50m");

	(void)state;
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_DEADLINE_EXCEEDED);
	assert_true(host_boot_ns() - before >= 50000000);
	assert_int_equal(fixture->handled, 1);
	assert_int_equal(fixture->ended, 1);
	fixture_end(&fixture);
}

static uint64_t stalled_until_ns;

/* Between the loop's look at its clock and what it does then. */
static void stall(struct ev_loop *loop, ev_check *watcher, int events)
{
	(void)events;
	ev_check_stop(loop, watcher);
	stalled_until_ns = host_boot_ns() + 300000000;
	while (host_boot_ns() < stalled_until_ns)
		;
}

static void a_deadline_is_not_early_when_the_loop_was_held_up(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	ev_check watcher;
	uint32_t stream;

	(void)state;
	ev_check_init(&watcher, stall);
	ev_set_priority(&watcher, EV_MAXPRI);
	ev_check_start(fixture->loop, &watcher);
	stream = call_with_timeout(peer, "/test.Echo/Never", "200m");
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_DEADLINE_EXCEEDED);
	assert_true(host_boot_ns() - stalled_until_ns >= 200000000);
	assert_int_equal(fixture->ended, 1);
	fixture_end(&fixture);
}

static void a_handler_can_see_the_deadline(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	uint64_t before = host_boot_ns();

	(void)state;
	call_with_timeout(peer, "/test.Echo/Never", "1H");
	wait_for(fixture, fixture->kept != NULL);
	assert_true(grpc_deadline_ns(fixture->kept) >= before + UINT64_C(3600000000000));
	assert_true(grpc_deadline_ns(fixture->kept) <= host_boot_ns() + UINT64_C(3600000000000));
	call_with_timeout(peer, "/test.Echo/Never", "99999999H");
	wait_for(fixture, fixture->handled == 2);
	assert_int_equal(grpc_deadline_ns(fixture->kept), UINT64_MAX);
	fixture_end(&fixture);
}

static void a_deadline_that_is_over_is_not_handled(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	assert_int_equal(peer_wait(peer, call_with_timeout(peer, "/test.Echo/Echo", "0S"))->status,
		GRPC_DEADLINE_EXCEEDED);
	assert_int_equal(fixture->handled, 0);
	assert_int_equal(peer_wait(peer, call_with_timeout(peer, "/test.Echo/Echo", "20S"))->status,
		GRPC_OK);
	assert_int_equal(
		peer_wait(peer, call_with_timeout(peer, "/test.Echo/Echo", "soon"))->status,
		GRPC_INTERNAL);
	fixture_end(&fixture);
}

static void a_deadline_ends_a_request_that_is_still_coming(void **state)
{
	const char *extra[] = {"grpc-timeout", "50m", NULL};
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", extra);

	(void)state;
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_DEADLINE_EXCEEDED);
	fixture_end(&fixture);
}

static void a_cancelled_call_is_told_to_its_handler_once(void **state)
{
	const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_call(peer, "/test.Echo/Never", "x", 1);

	(void)state;
	wait_for(fixture, fixture->kept != NULL);
	peer_frame(peer, NGHTTP2_RST_STREAM, 0, stream, cancel, 4);
	wait_for(fixture, fixture->ended == 1);
	peer_is_served(peer);
	assert_int_equal(fixture->ended, 1);
	fixture_end(&fixture);
}

static void a_connection_that_goes_ends_its_calls(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < 3; i++)
		peer_call(peer, "/test.Echo/Never", "x", 1);
	wait_for(fixture, fixture->handled == 3);
	peer_free(&peer);
	wait_for(fixture, fixture->ended == 3);
	fixture_end(&fixture);
}

/* --- health ------------------------------------------------------------------------------------ */

static void health_knows_the_services_and_what_they_are_fit_for(void **state)
{
	static const char check[] = "/grpc.health.v1.Health/Check";
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	struct reply *reply = peer_wait(peer, peer_call(peer, check, "", 0));

	(void)state;
	assert_int_equal(reply->status, GRPC_OK);
	assert_memory_equal(reply->data, "\0\0\0\0\2\x08\1", 7);
	reply = peer_wait(peer, peer_call(peer, check, "\x0a\x09test.Echo", 11));
	assert_memory_equal(reply->data, "\0\0\0\0\2\x08\1", 7);
	reply = peer_wait(peer, peer_call(peer, check, "\x0a\x04test", 6));
	assert_int_equal(reply->status, GRPC_NOT_FOUND);
	reply = peer_wait(peer, peer_call(peer, check, "\xff", 1));
	assert_int_equal(reply->status, GRPC_INTERNAL);
	fixture->unfit = true;
	reply = peer_wait(peer, peer_call(peer, check, "", 0));
	assert_memory_equal(reply->data, "\0\0\0\0\2\x08\2", 7);
	fixture_end(&fixture);
}

static void a_watcher_of_health_is_told_of_changes_and_of_the_end(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_call(peer, "/grpc.health.v1.Health/Watch", "", 0);
	struct reply *reply = peer_reply(peer, stream);

	(void)state;
	wait_for(fixture, reply->len == 7);
	assert_memory_equal(reply->data, "\0\0\0\0\2\x08\1", 7);
	fixture->unfit = true;
	wait_for(fixture, reply->len == 14);
	assert_memory_equal(reply->data + 7, "\0\0\0\0\2\x08\2", 7);
	grpc_drain(fixture->server, NULL, NULL);
	fixture->drained = true;
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_UNAVAILABLE);
	wait_for(fixture, peer->shut);
	fixture_end(&fixture);
}

static void reflection_lists_services_and_gives_their_file(void **state)
{
	static const char *const paths[] = {
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};
	struct fixture *fixture = fixture_new();
	struct peer *peer;

	(void)state;
	fixture->options.descriptors = queryd_descriptors(&fixture->options.descriptors_len);
	fixture_start(fixture);
	peer = peer_ready(fixture);
	for (size_t i = 0; i < 2; i++) {
		uint32_t stream = peer_open(peer, paths[i], NULL);
		struct reply *reply = peer_reply(peer, stream);
		size_t len;

		peer_message(peer, stream, "\x3a\0", 2, false); /* list_services */
		wait_for(fixture, reply->len > 0);
		assert_non_null(memmem(reply->data, reply->len, "test.Echo", 9));
		assert_non_null(memmem(reply->data, reply->len, "grpc.health.v1.Health", 21));
		len = reply->len;
		peer_message(peer, stream, "\x22\x12proto.IngestLimits", 20, false);
		wait_for(fixture, reply->len > len + 500);
		assert_non_null(memmem(reply->data, reply->len, "GetAssignedPartitions", 21));
		len = reply->len;
		peer_message(peer, stream, "\x22\x12proto.IngestLimitz", 20, true);
		assert_int_equal(peer_wait(peer, stream)->status, GRPC_OK);
		assert_true(reply->len < len + 100);
		assert_non_null(memmem(reply->data + len, reply->len - len, "not known here", 14));
	}
	fixture_end(&fixture);
}

static void requests_of_our_own_methods_are_small(void **state)
{
	static const char *const paths[] = {"/grpc.health.v1.Health/Check",
		"/grpc.health.v1.Health/Watch",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"};
	struct fixture *fixture = fixture_new();
	char request[4097];
	struct peer *peer;

	(void)state;
	memset(request, 'x', sizeof(request)); /* field 1: a service's name; or a host */
	memcpy(request, "\x0a\xfe\x1f", 3);
	fixture->options.descriptors = queryd_descriptors(&fixture->options.descriptors_len);
	fixture_start(fixture);
	peer = peer_ready(fixture);
	for (size_t i = 0; i < 3; i++) {
		struct reply *reply = peer_wait(peer, peer_call(peer, paths[i], request, 4097));

		assert_int_equal(reply->status, GRPC_RESOURCE_EXHAUSTED);
		assert_string_equal(reply->words, "a message of 4097 bytes is too large: the most "
						  "that this method takes is 4096");
	}
	peer_is_served(peer);
	fixture_end(&fixture);
}

/* The second message comes with the first, so nobody looks at it before. */
static void a_later_message_of_a_chat_is_not_larger_than_allowed(void **state)
{
	static const char path[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
	struct fixture *fixture = fixture_new();
	char both[7 + 5 + 5000] = "\0\0\0\0\2\x3a\0" /* list_services */
				  "\0\0\0\x13\x88";
	struct reply *reply;
	struct peer *peer;
	uint32_t stream;

	(void)state;
	fixture->options.descriptors = queryd_descriptors(&fixture->options.descriptors_len);
	fixture_start(fixture);
	peer = peer_ready(fixture);
	stream = peer_open(peer, path, NULL);
	peer_data(peer, stream, both, sizeof(both), false);
	reply = peer_wait(peer, stream);
	assert_int_equal(reply->status, GRPC_RESOURCE_EXHAUSTED);
	assert_non_null(memmem(reply->data, reply->len, "test.Echo", 9));
	fixture_end(&fixture);
}

/* --- the end ----------------------------------------------------------------------------------- */

static void on_drained(void *arg)
{
	struct fixture *fixture = arg;

	fixture->drained = true;
}

static void drain_says_goaway_twice_and_lets_calls_end(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_call(peer, "/test.Echo/Never", "x", 1), late;

	(void)state;
	wait_for(fixture, fixture->kept != NULL);
	grpc_drain(fixture->server, on_drained, fixture);
	late = peer_call(peer, "/test.Echo/Echo", "late", 4); /* sent before GOAWAY has come */
	wait_for(fixture, peer->goaways == 2);
	assert_int_equal(peer_wait(peer, late)->status, GRPC_OK);
	assert_int_equal(peer->goaway_last, late);
	assert_int_equal(peer->goaway_code, NGHTTP2_NO_ERROR);
	assert_false(fixture->drained);
	grpc_reply(fixture->kept, (const uint8_t *)"done", 4);
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_OK);
	wait_for(fixture, peer->shut && !fixture->drained);
	peer_free(&peer);
	wait_for(fixture, fixture->drained);
	fixture_end(&fixture);
}

static void drain_of_nobody_is_done_at_once(void **state)
{
	struct fixture *fixture = usual();

	(void)state;
	grpc_drain(fixture->server, on_drained, fixture);
	assert_true(fixture->drained);
	fixture_end(&fixture);
}

static void free_ends_calls_that_are_open(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	peer_call(peer, "/test.Echo/Never", "x", 1);
	wait_for(fixture, fixture->kept != NULL);
	grpc_free(&fixture->server);
	assert_int_equal(fixture->ended, 1);
	fixture_end(&fixture);
}

/* --- connections ------------------------------------------------------------------------------- */

static void pings_without_calls_are_welcome(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < 200; i++) {
		peer->ping_ack = false;
		peer_frame(peer, NGHTTP2_PING, 0, 0, "12345678", 8);
		wait_for(fixture, peer->ping_ack);
	}
	assert_int_equal(peer->goaways, 0);
	fixture_end(&fixture);
}

/* Clients of gRPC measure the line with a ping after every answer. */
static void a_ping_with_every_call_is_welcome_for_ever(void **state)
{
	struct fixture *fixture = usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < 400; i++) {
		for (size_t j = 0; j < 10; j++)
			peer_frame(peer, NGHTTP2_PING, 0, 0, "12345678", 8);
		peer_is_served(peer);
	}
	assert_int_equal(peer->goaways, 0);
	fixture_end(&fixture);
}

static void connections_above_the_limit_are_refused_while_all_are_young(void **state)
{
	struct fixture *fixture = fixture_new();
	struct peer *peers[4];

	(void)state;
	fixture->options.connections_max = 3;
	fixture_start(fixture);
	for (size_t i = 0; i < 3; i++)
		peers[i] = peer_ready(fixture);
	peers[3] = peer_new(fixture, NULL);
	wait_for(fixture, peers[3]->shut);
	assert_int_equal(fixture_facts(fixture).refused, 1);
	for (size_t i = 0; i < 3; i++)
		peer_is_served(peers[i]);
	fixture_end(&fixture);
}

static void a_new_connection_takes_the_place_of_the_one_idle_for_longest(void **state)
{
	struct fixture *fixture = fixture_new();
	struct peer *peers[4];
	double until;

	(void)state;
	fixture->options.connections_max = 3;
	fixture->options.patience.idle = 100;
	fixture_start(fixture);
	for (size_t i = 0; i < 3; i++)
		peers[i] = peer_ready(fixture);
	peer_call(peers[0], "/test.Echo/Never", "x", 1); /* the oldest, but it waits for us */
	peer_is_served(peers[1]);			 /* so 2 is idle for longest */
	until = ev_time() + 0.2;
	wait_for(fixture, ev_time() > until);
	peers[3] = peer_ready(fixture);
	wait_for(fixture, peers[2]->shut);
	peer_is_served(peers[0]);
	peer_is_served(peers[1]);
	peer_is_served(peers[3]);
	assert_int_equal(fixture_facts(fixture).refused, 0);
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
		cmocka_unit_test(a_deadline_ends_a_call_and_tells_its_handler),
		cmocka_unit_test(a_deadline_is_not_early_when_the_loop_was_held_up),
		cmocka_unit_test(a_handler_can_see_the_deadline),
		cmocka_unit_test(a_deadline_that_is_over_is_not_handled),
		cmocka_unit_test(a_deadline_ends_a_request_that_is_still_coming),
		cmocka_unit_test(a_cancelled_call_is_told_to_its_handler_once),
		cmocka_unit_test(a_connection_that_goes_ends_its_calls),
		cmocka_unit_test(health_knows_the_services_and_what_they_are_fit_for),
		cmocka_unit_test(a_watcher_of_health_is_told_of_changes_and_of_the_end),
		cmocka_unit_test(reflection_lists_services_and_gives_their_file),
		cmocka_unit_test(requests_of_our_own_methods_are_small),
		cmocka_unit_test(a_later_message_of_a_chat_is_not_larger_than_allowed),
		cmocka_unit_test(drain_says_goaway_twice_and_lets_calls_end),
		cmocka_unit_test(drain_of_nobody_is_done_at_once),
		cmocka_unit_test(free_ends_calls_that_are_open),
		cmocka_unit_test(pings_without_calls_are_welcome),
		cmocka_unit_test(a_ping_with_every_call_is_welcome_for_ever),
		cmocka_unit_test(connections_above_the_limit_are_refused_while_all_are_young),
		cmocka_unit_test(a_new_connection_takes_the_place_of_the_one_idle_for_longest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
