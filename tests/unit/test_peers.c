/*
 * test_peers.c - streams that others serve: who is asked, how often, and what comes of it when they
 * are late, gone, mad or not there at all.
 */
#include "peers_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "tools/queryd/peers.h"

#include "shm/host.h"

/* --- who is asked ------------------------------------------------------------------------------- */

static void peers_asks_each_the_streams_of_its_partitions(void **state)
{
	const uint64_t hashes[] = {1, 9, 2, 10, 3};
	struct ask_stream *streams;

	(void)state;
	two_instances();
	peers_meet(peers_both(), 16);
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
	two_instances();
	peers_meet(peers_both(), 16);
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
	two_instances();
	instance_serves(&stage.b, 3, 3, 200);
	peers_meet(peers_both(), 16);
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 0);
	assert_int_equal(stage.b.questions, 1);
}

static void peers_believes_no_assignment_from_the_future(void **state)
{
	(void)state;
	two_instances();
	instance_serves(&stage.b, 3, 3, INT64_MAX);
	peers_meet(peers_both(), 16);
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(facts_now().strange, 1);
}

static void peers_says_unserved_where_nobody_serves(void **state)
{
	const uint64_t hashes[] = {1, 12};
	struct ask_stream *streams;

	(void)state;
	two_instances();
	instance_serves(&stage.b, 8, 15, 0);
	peers_meet(peers_both(), 8);
	streams = ask(ASK_EXCEEDS, hashes, 2);
	assert_int_equal(streams[0].result, ASK_ACCEPTED);
	assert_int_equal(streams[1].result, ASK_UNSERVED);
}

static void peers_asks_for_maps_again_before_it_says_unserved(void **state)
{
	(void)state;
	two_instances();
	instance_serves(&stage.b, 8, 15, 0);
	peers_meet(peers_both(), 8);
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
	two_instances();
	peers_meet(peers_both(), 16);
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
	two_instances();
	peers_are_as(peers_both(), (struct peers_options){.message_max = 1000});
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
	two_instances();
	instance_serves(&stage.a, 3, 3, 300);
	instance_serves(&stage.b, 3, 3, 200);
	stage.a.mood = LEAVES;
	peers_meet(peers_both(), 16);
	assert_int_equal(ask_one(3), ASK_ACCEPTED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(stage.b.questions, 1);
	assert_int_equal(facts_now().streams_retried, 1);
	assert_int_equal(stage.a.maps, 2); /* its map was asked for again, at once */
}

static void peers_finds_the_new_owner_after_unavailable(void **state)
{
	(void)state;
	two_instances();
	peers_meet(peers_both(), 16);
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
	two_instances();
	peers_meet(peers_both(), 16);
	stage.a.mood = REFUSES;
	assert_int_equal(ask_one(3), ASK_UNSERVED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(stage.b.questions, 0);
}

static void peers_asks_two_others_at_most(void **state)
{
	(void)state;
	two_instances();
	instance_serves(&stage.b, 3, 3, 50);
	stage.a.mood = stage.b.mood = REFUSES;
	peers_meet(peers_both(), 16);
	assert_int_equal(ask_one(3), ASK_UNSERVED);
	assert_int_equal(stage.a.questions, 1);
	assert_int_equal(stage.b.questions, 1);
}

/* Two addresses with the same assigned_at are one instance. */
static void peers_asks_no_instance_twice_at_its_other_address(void **state)
{
	(void)state;
	two_instances();
	instance_serves(&stage.b, 0, 7, 100);
	stage.a.mood = stage.b.mood = REFUSES;
	peers_meet(peers_both(), 16);
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
	two_instances();
	instance_serves(&stage.b, 3, 3, 50);
	stage.a.mood = SLEEPS;
	peers_meet(peers_both(), 16);
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
	two_instances();
	stage.a.mood = SLEEPS;
	peers_are_as(peers_both(), (struct peers_options){.call_ms = LATE_MS});
	assert_true(until(partitions_are, 16));
	assert_int_equal(ask_one(3), ASK_FAILED);
}

static void peers_retries_for_one_while_another_sleeps(void **state)
{
	const uint64_t hashes[] = {3, 9};
	struct ask_stream *streams;

	(void)state;
	two_instances();
	instance_serves(&stage.a, 9, 9, 50);
	instance_serves(&stage.b, 9, 9, 200);
	stage.b.mood = LEAVES;
	peers_meet(peers_both(), 16);
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
	two_instances();
	instance_serves(&stage.b, 3, 3, 50);
	stage.a.mood = DIES;
	peers_meet(peers_both(), 16);
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
	two_instances();
	instance_serves(&stage.b, 3, 3, 50);
	peers_meet(peers_both(), 16);
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
	two_instances();
	peers_meet(peers_both(), 16);
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
	two_instances();
	peers_meet(peers_both(), 16);
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
	two_instances();
	peers_meet(peers_both(), 16);
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
	two_instances();
	stage.a.mood = SLEEPS;
	peers_meet(peers_both(), 16);
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
	two_instances();
	stage.a.mood = SLEEPS;
	peers_meet(peers_both(), 16);
	peers_ask(stage.peers, &one);
	peers_free(&stage.peers);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
