/*
 * test_grpc_ends.c - what ends calls and connections of well-behaved clients: deadlines, cancelling,
 * drain, limits.
 */
#include <stdlib.h>

#include "grpc_fixture.h"

#include "shm/host.h"
#include "tools/queryd/grpc.h"

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
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);
	uint32_t stream = peer_open(peer, "/test.Echo/Echo", extra);

	(void)state;
	assert_int_equal(peer_wait(peer, stream)->status, GRPC_DEADLINE_EXCEEDED);
	fixture_end(&fixture);
}

static void a_cancelled_call_is_told_to_its_handler_once(void **state)
{
	const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();
	struct peer *peer = peer_ready(fixture);

	(void)state;
	for (size_t i = 0; i < 3; i++)
		peer_call(peer, "/test.Echo/Never", "x", 1);
	wait_for(fixture, fixture->handled == 3);
	peer_free(&peer);
	wait_for(fixture, fixture->ended == 3);
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
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();

	(void)state;
	grpc_drain(fixture->server, on_drained, fixture);
	assert_true(fixture->drained);
	fixture_end(&fixture);
}

static void free_ends_calls_that_are_open(void **state)
{
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();
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
	struct fixture *fixture = fixture_usual();
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
		cmocka_unit_test(a_deadline_ends_a_call_and_tells_its_handler),
		cmocka_unit_test(a_deadline_is_not_early_when_the_loop_was_held_up),
		cmocka_unit_test(a_handler_can_see_the_deadline),
		cmocka_unit_test(a_deadline_that_is_over_is_not_handled),
		cmocka_unit_test(a_deadline_ends_a_request_that_is_still_coming),
		cmocka_unit_test(a_cancelled_call_is_told_to_its_handler_once),
		cmocka_unit_test(a_connection_that_goes_ends_its_calls),
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
