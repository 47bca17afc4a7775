/*
 * test_locate.c - the look-up thread against answers of every kind.
 *
 * Linked with tests/fake/lookups.c in the place of rd_kafka_offsets_for_times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <time.h>

#include "tests/fake/lookups.h"
#include "worker/locate.h"

#define SINCE INT64_C(1700000000000)

static rd_kafka_t *client;

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int setup(void **state)
{
	struct locate_options options = {.topic = "t",
		.partition = 7,
		.timeout_ms = 20, /* the client knows no broker: its cluster id costs this */
		.hurry = true,
		.client = client};
	struct locate *locate;

	lookups_reset();
	lookups_set(LOOKUPS_END, (struct lookups_answer){.kind = LOOKUPS_OFFSET, .offset = 1000});
	lookups_set(LOOKUPS_START, (struct lookups_answer){.kind = LOOKUPS_OFFSET, .offset = 100});
	lookups_set(LOOKUPS_TIME, (struct lookups_answer){.kind = LOOKUPS_OFFSET, .offset = 500});
	if (locate_start(&options, &locate) != 0)
		return -1;
	*state = locate;
	return 0;
}

static int teardown(void **state)
{
	struct locate *locate = *state;

	locate_stop(&locate);
	return 0;
}

/* Waits for the eventfd, takes the answer. */
static struct locate_answer answer_of(struct locate *locate)
{
	struct pollfd fd = {.fd = locate_fd(locate), .events = POLLIN};
	struct locate_answer answer;

	assert_int_equal(poll(&fd, 1, 5000), 1);
	assert_true(locate_answer(locate, &answer));
	return answer;
}

static struct locate_answer ask(struct locate *locate, int64_t since_ms)
{
	unsigned id = locate_ask(locate, since_ms);
	struct locate_answer answer = answer_of(locate);

	assert_int_equal(answer.id, id);
	return answer;
}

static void locate_asks_end_then_start_then_time(void **state)
{
	struct locate_answer answer = ask(*state, SINCE);
	char order[64];

	lookups_order(order);
	assert_string_equal(order, "est");
	assert_int_equal(lookups_last_time(), SINCE);
	assert_int_equal(answer.end, 1000);
	assert_int_equal(answer.start, 100);
	assert_int_equal(answer.time, TIME_FOUND);
	assert_int_equal(answer.time_offset, 500);
	assert_string_equal(answer.error, "");
	assert_int_equal(locate_end(*state), 1000);
}

static void locate_does_not_ask_for_time_when_not_told(void **state)
{
	struct locate_answer answer = ask(*state, -1);

	assert_int_equal(lookups_count(LOOKUPS_TIME), 0);
	assert_int_equal(answer.end, 1000);
	assert_int_equal(answer.time, TIME_UNKNOWN);
	assert_string_equal(answer.error, "");
}

static void locate_says_none_when_the_broker_knows_no_such_record(void **state)
{
	struct locate_answer answer;

	lookups_set(LOOKUPS_TIME, (struct lookups_answer){.kind = LOOKUPS_NONE});
	answer = ask(*state, SINCE);
	assert_int_equal(answer.time, TIME_NONE);
	assert_string_equal(answer.error, "");
}

/* The trap: on a timeout the element holds the timestamp as an offset, and no error. */
static void locate_takes_no_timestamp_for_an_offset_when_time_times_out(void **state)
{
	struct locate_answer answer;

	lookups_set(LOOKUPS_TIME, (struct lookups_answer){.kind = LOOKUPS_TIMEOUT});
	answer = ask(*state, SINCE);
	assert_int_equal(answer.time, TIME_UNKNOWN);
	assert_int_equal(answer.end, 1000);
	assert_int_equal(answer.start, 100);
	assert_true(answer.error[0] != '\0');
}

static void locate_sees_an_error_that_is_only_in_the_element(void **state)
{
	struct locate_answer answer;

	lookups_set(LOOKUPS_TIME, (struct lookups_answer){.kind = LOOKUPS_UNAVAILABLE});
	answer = ask(*state, SINCE);
	assert_int_equal(answer.time, TIME_UNKNOWN);
	lookups_set(LOOKUPS_END, (struct lookups_answer){.kind = LOOKUPS_UNAVAILABLE});
	answer = ask(*state, SINCE);
	assert_int_equal(answer.end, -1);
	assert_int_equal(answer.start, -1);
	assert_true(answer.error[0] != '\0');
}

static void locate_knows_nothing_when_the_end_times_out(void **state)
{
	struct locate_answer answer;

	lookups_set(LOOKUPS_END, (struct lookups_answer){.kind = LOOKUPS_TIMEOUT});
	answer = ask(*state, SINCE);
	assert_int_equal(answer.end, -1);
	assert_int_equal(answer.start, -1);
	assert_int_equal(lookups_count(LOOKUPS_START), 0);
	assert_int_equal(locate_end(*state), -1);
}

static void locate_knows_nothing_when_the_start_cannot_be_had(void **state)
{
	struct locate_answer answer;

	lookups_set(LOOKUPS_START, (struct lookups_answer){.kind = LOOKUPS_UNKNOWN});
	answer = ask(*state, SINCE);
	assert_int_equal(answer.end, -1);
	assert_int_equal(answer.start, -1);
	assert_true(answer.error[0] != '\0');
}

static void locate_believes_neither_when_the_start_is_above_the_end(void **state)
{
	struct locate_answer answer;

	lookups_set(LOOKUPS_START, (struct lookups_answer){.kind = LOOKUPS_OFFSET, .offset = 1001});
	answer = ask(*state, SINCE);
	assert_int_equal(answer.end, -1);
	assert_int_equal(answer.start, -1);
	assert_true(answer.error[0] != '\0');
}

static void locate_answers_the_latest_question_when_one_replaces_another(void **state)
{
	struct locate_answer answer;
	unsigned id;

	lookups_set(LOOKUPS_END,
		(struct lookups_answer){.kind = LOOKUPS_OFFSET, .offset = 1, .delay_ms = 100});
	(void)locate_ask(*state, -1);
	pause_ms(30);
	lookups_set(LOOKUPS_END, (struct lookups_answer){.kind = LOOKUPS_OFFSET, .offset = 2000});
	id = locate_ask(*state, -1);
	for (int i = 0; i < 200 && !locate_answer(*state, &answer); i++)
		pause_ms(10);
	assert_int_equal(answer.id, id);
	assert_int_equal(answer.end, 2000);
}

static void locate_asks_the_end_all_the_time_while_it_hurries(void **state)
{
	unsigned before;

	locate_hurry(*state, true);
	pause_ms(20 * LOCATE_HURRY_MS);
	before = lookups_count(LOOKUPS_END);
	assert_in_range(before, 5, 21);
	assert_int_equal(locate_end(*state), 1000);
	assert_int_equal(ask(*state, SINCE).end, 1000); /* questions pass in between */
	locate_hurry(*state, false);
	pause_ms(2 * LOCATE_HURRY_MS);
	before = lookups_count(LOOKUPS_END);
	pause_ms(5 * LOCATE_HURRY_MS);
	assert_int_equal(lookups_count(LOOKUPS_END), before);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(locate_asks_end_then_start_then_time),
		test(locate_does_not_ask_for_time_when_not_told),
		test(locate_says_none_when_the_broker_knows_no_such_record),
		test(locate_takes_no_timestamp_for_an_offset_when_time_times_out),
		test(locate_sees_an_error_that_is_only_in_the_element),
		test(locate_knows_nothing_when_the_end_times_out),
		test(locate_knows_nothing_when_the_start_cannot_be_had),
		test(locate_believes_neither_when_the_start_is_above_the_end),
		test(locate_answers_the_latest_question_when_one_replaces_another),
		test(locate_asks_the_end_all_the_time_while_it_hurries),
	};
	int failed;

	client = rd_kafka_new(RD_KAFKA_CONSUMER, NULL, NULL, 0);
	if (!client)
		return 1;
	failed = cmocka_run_group_tests_name("locate", tests, NULL, NULL);
	rd_kafka_destroy(client);
	return failed;
}
