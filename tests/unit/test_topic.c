/*
 * test_topic.c - how many partitions the topic has, as brokers tell it: here a script.
 *
 * rd_kafka_metadata is the one below; the client has no broker.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shm/host.h"
#include "supervisor/topic.h"

#define SILENCE (-1)
#define MISSING 0
#define SECOND	UINT64_C(1000000000)

/* ------------------------------------------------------------------ the broker */

static struct {
	pthread_mutex_t lock;
	int partitions; /* or SILENCE, MISSING */
	unsigned asked;
} broker = {.lock = PTHREAD_MUTEX_INITIALIZER};

rd_kafka_resp_err_t rd_kafka_metadata(rd_kafka_t *rk, int all, rd_kafka_topic_t *only,
	const struct rd_kafka_metadata **out, int timeout_ms)
{
	(void)rk;
	(void)timeout_ms;
	assert_false(all);
	assert_non_null(only);
	pthread_mutex_lock(&broker.lock);
	int partitions = broker.partitions;
	broker.asked++;
	pthread_mutex_unlock(&broker.lock);
	*out = NULL;
	if (partitions == SILENCE)
		return RD_KAFKA_RESP_ERR__TRANSPORT;
	struct rd_kafka_metadata *md = calloc(1, sizeof *md);
	md->topic_cnt = 1;
	md->topics = calloc(1, sizeof *md->topics);
	md->topics[0].partition_cnt = partitions;
	if (partitions == MISSING)
		md->topics[0].err = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	*out = md;
	return 0;
}

void rd_kafka_metadata_destroy(const struct rd_kafka_metadata *metadata)
{
	free(metadata->topics);
	free((void *)metadata);
}

static unsigned asked(void)
{
	pthread_mutex_lock(&broker.lock);
	unsigned n = broker.asked;
	pthread_mutex_unlock(&broker.lock);
	return n;
}

/* From now on it says so. */
static void say(int partitions)
{
	pthread_mutex_lock(&broker.lock);
	broker.partitions = partitions;
	pthread_mutex_unlock(&broker.lock);
}

/* ------------------------------------------------------------------ the watch */

static rd_kafka_t *client;
static struct topic *topic;

static int setup(void **state)
{
	(void)state;
	char why[512];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_conf_set(conf, "log_level", "0", why, sizeof why); /* "no brokers" is true */
	client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
	return client ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	topic_free(&topic);
	rd_kafka_destroy(client);
	return 0;
}

static bool has_news(int ms)
{
	struct pollfd p = {.fd = topic_fd(topic), .events = POLLIN};
	return poll(&p, 1, ms) == 1;
}

static uint32_t count(enum topic_state expected)
{
	uint32_t partitions;
	char why[256];
	assert_int_equal(topic_answer(topic, &partitions, why), expected);
	return partitions;
}

static void begin(int partitions)
{
	say(partitions);
	assert_int_equal(topic_watch(client, "topic", &topic), 0);
	assert_true(has_news(5000));
	assert_int_equal(count(TOPIC_FOUND), partitions);
	assert_false(has_news(0));
}

/* Tells it to ask, until it has asked so often more. */
static void ask(unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		uint64_t end = host_boot_ns() + 20000000000u;
		unsigned before = asked();
		topic_ask_now(topic);
		while (asked() == before) {
			assert_true(host_boot_ns() < end);
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		}
	}
}

/* ------------------------------------------------------------------ tests */

static void topic_hears_of_growth_by_itself_within_seconds(void **state)
{
	(void)state;
	begin(4);
	say(6);
	assert_true(has_news(10000));
	assert_int_equal(count(TOPIC_FOUND), 6);
}

static void topic_asks_at_once_when_it_is_told_to(void **state)
{
	(void)state;
	begin(4);
	say(12);
	uint64_t began = host_boot_ns();
	topic_ask_now(topic);
	assert_true(has_news(5000));
	assert_in_range((host_boot_ns() - began) / 1000000, 0, 900);
	assert_int_equal(count(TOPIC_FOUND), 12);
}

/* However often it is told to ask: that is one moment. */
static void topic_believes_in_fewer_partitions_when_it_is_told_so_for_seconds(void **state)
{
	(void)state;
	begin(12);
	say(8);
	uint64_t began = host_boot_ns();
	ask(TOPIC_FEWER_TIMES * 3);
	assert_true(host_boot_ns() - began < (TOPIC_FEWER_TIMES - 1) * SECOND);
	assert_false(has_news(0));
	assert_int_equal(count(TOPIC_FOUND), 12);
	assert_true(has_news(20000)); /* now it asks every second */
	assert_true(host_boot_ns() - began >= (TOPIC_FEWER_TIMES - 1) * SECOND);
	assert_int_equal(count(TOPIC_FOUND), 8);
}

static void topic_believes_in_fewer_at_once_when_it_was_gone(void **state)
{
	(void)state;
	begin(12);
	say(MISSING);
	ask(3);
	assert_true(has_news(0));
	assert_int_equal(count(TOPIC_MISSING), 12);
	say(8);
	ask(2);
	assert_true(has_news(0));
	assert_int_equal(count(TOPIC_FOUND), 8);
	say(7); /* that was for once */
	ask(2);
	assert_false(has_news(0));
}

static void topic_keeps_what_it_knows_when_there_is_no_answer_or_no_topic(void **state)
{
	(void)state;
	begin(4);
	say(SILENCE);
	ask(3);
	assert_false(has_news(100));
	assert_int_equal(count(TOPIC_FOUND), 4);
	say(MISSING);
	ask(1); /* a broker may be late; twice it is believed */
	ask(2);
	assert_true(has_news(5000));
	assert_int_equal(count(TOPIC_MISSING), 4);
	say(5);
	ask(2);
	assert_true(has_news(5000));
	assert_int_equal(count(TOPIC_FOUND), 5);
}

/* ------------------------------------------------------------------ what is believed of fewer */

/* So many answers in a row, of which the first is now, the next so much later. */
static bool is_told(
	struct topic_belief *b, uint64_t *now, uint32_t partitions, unsigned times, uint64_t apart)
{
	bool news = false;
	for (unsigned i = 0; i < times; i++, *now += apart)
		news |= topic_believe(b, TOPIC_FOUND, partitions, *now);
	return news;
}

static void topic_counts_answers_that_are_a_second_apart(void **state)
{
	(void)state;
	struct topic_belief b = {0};
	uint64_t now = 1;
	assert_true(is_told(&b, &now, 12, 1, 0));
	assert_false(is_told(&b, &now, 8, TOPIC_FEWER_TIMES - 1, SECOND));
	assert_true(is_told(&b, &now, 8, 1, 0));
	assert_int_equal(b.partitions, 8);
	assert_false(is_told(&b, &now, 8, 100, SECOND));
	assert_true(is_told(&b, &now, 12, 1, 0)); /* more is believed at once */
}

static void topic_counts_answers_of_one_moment_once(void **state)
{
	(void)state;
	struct topic_belief b = {.partitions = 12};
	uint64_t now = 1, began = now;
	assert_false(is_told(&b, &now, 8, 1000, SECOND / 1000));
	assert_int_equal(b.fewer_times, 1);
	while (!topic_believe(&b, TOPIC_FOUND, 8, now)) /* what lies between does not delay it */
		now += SECOND / 10;
	assert_int_equal(now - began, (TOPIC_FEWER_TIMES - 1) * SECOND);
}

static void topic_begins_to_count_anew_after_any_other_answer(void **state)
{
	(void)state;
	static const struct {
		enum topic_state answer;
		uint32_t partitions;
	} others[] = {
		{TOPIC_NO_BROKER, 0},
		{TOPIC_REFUSED, 0},
		{TOPIC_FOUND, 12},
		{TOPIC_FOUND, 7},
		{TOPIC_FOUND, 9},
	};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct topic_belief b = {.partitions = 12};
		uint64_t now = 1;
		assert_false(is_told(&b, &now, 8, TOPIC_FEWER_TIMES - 1, SECOND));
		assert_false(topic_believe(&b, others[i].answer, others[i].partitions, now));
		now += SECOND;
		assert_false(is_told(&b, &now, 8, TOPIC_FEWER_TIMES - 1, SECOND));
		assert_int_equal(b.partitions, 12);
		assert_true(is_told(&b, &now, 8, 1, SECOND));
	}
}

static void topic_believes_in_fewer_once_after_it_was_gone(void **state)
{
	(void)state;
	struct topic_belief b = {.partitions = 12};
	uint64_t now = 1;
	assert_false(is_told(&b, &now, 8, 1, SECOND));
	assert_false(topic_believe(&b, TOPIC_MISSING, 0, now));
	assert_false(topic_believe(&b, TOPIC_NO_BROKER, 0, now)); /* which does not undo it */
	assert_true(topic_believe(&b, TOPIC_FOUND, 8, now));
	assert_false(topic_believe(&b, TOPIC_FOUND, 7, now));
	assert_int_equal(b.partitions, 8);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(topic_hears_of_growth_by_itself_within_seconds),
		TEST(topic_asks_at_once_when_it_is_told_to),
		TEST(topic_believes_in_fewer_partitions_when_it_is_told_so_for_seconds),
		TEST(topic_believes_in_fewer_at_once_when_it_was_gone),
		TEST(topic_keeps_what_it_knows_when_there_is_no_answer_or_no_topic),
		cmocka_unit_test(topic_counts_answers_that_are_a_second_apart),
		cmocka_unit_test(topic_counts_answers_of_one_moment_once),
		cmocka_unit_test(topic_begins_to_count_anew_after_any_other_answer),
		cmocka_unit_test(topic_believes_in_fewer_once_after_it_was_gone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
