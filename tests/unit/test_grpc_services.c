/*
 * test_grpc_services.c - health, reflection, and what methods say of the size of their messages.
 */
#include <string.h>

#include "grpc_fixture.h"

#include "tools/queryd/descriptors.h"
#include "tools/queryd/grpc.h"

/* --- health ------------------------------------------------------------------------------------ */

static void health_knows_the_services_and_what_they_are_fit_for(void **state)
{
	static const char check[] = "/grpc.health.v1.Health/Check";
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(health_knows_the_services_and_what_they_are_fit_for),
		cmocka_unit_test(a_watcher_of_health_is_told_of_changes_and_of_the_end),
		cmocka_unit_test(reflection_lists_services_and_gives_their_file),
		cmocka_unit_test(requests_of_our_own_methods_are_small),
		cmocka_unit_test(a_later_message_of_a_chat_is_not_larger_than_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
