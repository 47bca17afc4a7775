/*
 * test_emit.c - rows of the outbox to Kafka: whatever fails, a row is first seen in the log after all
 * lower ones.
 */
#include "emit_fixture.h"

#include <spawn.h>

#include "worker/emit.h"

static unsigned threads(void)
{
	unsigned n = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "Threads: %u", &n);
	fclose(f);
	return n;
}

static void emit_makes_no_client_before_there_is_a_row(void **state)
{
	unsigned before = threads();

	(void)state;
	for (int i = 0; i < 5; i++)
		pump_once();
	assert_int_equal(threads(), before);
	assert_true(emit_is_done(it.emit));
	fill_box(1, 1);
	assert_false(emit_is_done(it.emit));
	pump_once();
	assert_true(threads() > before);
}

static void emit_writes_all_rows_in_order(void **state)
{
	(void)state;
	fill_box(1, 5000);
	pump_until(emit_is_done(it.emit));
	assert_int_equal(stat(sent), 5000);
	assert_int_equal(stat(confirmed), 5000);
	assert_int_equal(stat(send_errors), 0);
	assert_int_equal(emit_in_flight(it.emit), 0);
	log_holds_in_order(5000);
	box.high = 5001; /* a later commit */
	assert_false(emit_is_done(it.emit));
	pump_until(emit_is_done(it.emit));
	assert_int_equal(stat(sent), 5001);
	log_holds_in_order(5001);
}

/* Nothing but the descriptor calls: P29. */
static void emit_goes_on_by_its_descriptor_alone(void **state)
{
	struct pollfd p = {.fd = emit_fd(it.emit), .events = POLLIN};

	(void)state;
	fill_box(1, 3 * ROUND + 2);
	emit_pump(it.emit);
	for (int i = 0; !emit_is_done(it.emit); i++) {
		assert_int_equal(poll(&p, 1, 20000), 1);
		emit_pump(it.emit);
		assert_true(i < 1000);
	}
	log_holds_in_order(3 * ROUND + 2);
}

static void emit_sends_nothing_while_it_may_not(void **state)
{
	(void)state;
	fill_box(1, 10);
	box.allowed = false;
	for (int i = 0; i < 10; i++)
		pump_once();
	assert_int_equal(stat(sent), 0);
	assert_false(emit_is_done(it.emit));
	box.allowed = true;
	pump_until(emit_is_done(it.emit));
	log_holds_in_order(10);
}

static void emit_sends_what_is_left_again_after_a_restart(void **state)
{
	struct log_view log = {0};

	(void)state;
	fill_box(1, 100);
	pump_until(emit_is_done(it.emit));
	restart_emit();
	box.low = 60;
	box.high = 150;
	pump_until(emit_is_done(it.emit));
	read_log(&log);
	assert_int_equal(log.top, 150);
	assert_int_equal(log.records, 100 + 91);
}

/* One row first: a broker that does not know the producer takes any number for its first. */
static void emit_begins_with_one_row(void **state)
{
	(void)state;
	fill_box(1, 100);
	pump_once();
	assert_int_equal(stat(sent), 1);
	pump_until(stat(confirmed) == 1);
	assert_true(stat(sent) == 1 || stat(sent) == 100);
	pump_until(emit_is_done(it.emit));
}

static const rd_kafka_resp_err_t healing[] = {
	RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
	RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
	RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
	RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
	RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
	RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
	RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
	RD_KAFKA_RESP_ERR__TRANSPORT,
};

static const rd_kafka_resp_err_t final[] = {
	RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
	RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID,
	RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
	RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
	RD_KAFKA_RESP_ERR_INVALID_MSG,
	RD_KAFKA_RESP_ERR_UNKNOWN,
	RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
	RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE,
};

static bool all_confirmed_after(rd_kafka_resp_err_t err, uint64_t more)
{
	rd_kafka_resp_err_t errors[] = {err, err};

	push_errors(PRODUCE, 2, errors);
	box.high += more;
	pump_until(emit_is_done(it.emit));
	return true;
}

static void emit_keeps_order_whatever_heals(void **state)
{
	(void)state;
	add_property("batch.num.messages", "7", FOR_PRODUCERS);
	fill_box(1, 20);
	pump_until(emit_is_done(it.emit));
	for (size_t i = 0; i < sizeof(healing) / sizeof(healing[0]); i++)
		assert_true(all_confirmed_after(healing[i], 100));
	assert_int_equal(stat(send_errors), 0);
	log_holds_in_order(820);
}

static void emit_begins_anew_at_the_lowest_row_when_a_producer_gives_up(void **state)
{
	(void)state;
	add_property("batch.num.messages", "7", FOR_PRODUCERS);
	fill_box(1, 20);
	pump_until(emit_is_done(it.emit));
	for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++) {
		uint64_t before = stat(send_errors);

		assert_true(all_confirmed_after(final[i], 100));
		if (final[i] != RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID)
			assert_true(stat(send_errors) > before);
		restart_emit(); /* what it has learnt is forgotten, too */
	}
	log_holds_in_order(820);
}

static void push_random_errors(void)
{
	rd_kafka_resp_err_t errors[6];
	size_t n = 1 + scratch_random(&seed) % 6;

	for (size_t i = 0; i < n; i++) {
		uint64_t r = scratch_random(&seed) % 24;

		errors[i] = r < 8     ? healing[r]
			    : r < 11  ? final[r - 8]
			    : r == 11 ? final[3]
				      : RD_KAFKA_RESP_ERR_NO_ERROR;
	}
	push_errors(PRODUCE, n, errors);
}

static void emit_keeps_order_under_random_errors(void **state)
{
	(void)state;
	add_property("batch.num.messages", "5", FOR_PRODUCERS);
	add_property("linger.ms", "0", FOR_PRODUCERS);
	fill_box(1, 0);
	for (int i = 0; i < 18; i++) {
		box.high += 1 + scratch_random(&seed) % 300;
		push_random_errors();
		if (scratch_random(&seed) % 4 == 0) /* a leader change */
			rd_kafka_mock_partition_set_leader(it.cluster, TOPIC, PARTITION,
				1 + (int32_t)(scratch_random(&seed) % 3));
		for (uint64_t k = scratch_random(&seed) % 8; k; k--)
			pump_once();
		if (scratch_random(&seed) % 4 ==
			0) { /* a killed worker: some came back, some not */
			struct log_view log = {0};

			emit_free(&it.emit);
			read_log(&log);
			box.low = log.top > 20 ? log.top - scratch_random(&seed) % 20 : 1;
			start_emit();
		}
	}
	rd_kafka_mock_clear_request_errors(it.cluster, PRODUCE);
	pump_until(emit_is_done(it.emit));
	log_holds_in_order(box.high);
}

static void emit_tries_for_ever_when_it_has_no_right(void **state)
{
	static const rd_kafka_resp_err_t denied[] = {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
		RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
		RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED};

	(void)state;
	push_errors(INIT_PID, 3, denied);
	fill_box(1, 50);
	pump_until(emit_is_done(it.emit));
	assert_int_equal(stat(send_errors), 3);
	log_holds_in_order(50);
}

static void emit_waits_while_the_brokers_are_away(void **state)
{
	(void)state;
	fill_box(1, 10);
	pump_until(emit_is_done(it.emit));
	for (int b = 1; b <= 3; b++)
		rd_kafka_mock_broker_set_down(it.cluster, b);
	box.high = 100000;
	for (int i = 0; i < 50; i++)
		pump_once(); /* which looks how much is in flight */
	assert_true(stat(confirmed) < 100000);
	for (int b = 1; b <= 3; b++)
		rd_kafka_mock_broker_set_up(it.cluster, b);
	box.high = 10000; /* the mock forgets the oldest of more */
	pump_until(stat(confirmed) >= 10000);
	assert_int_equal(stat(send_errors), 0);
	log_holds_in_order(10000);
}

static void emit_shows_that_it_cannot_write(void **state)
{
	static const rd_kafka_resp_err_t denied[] = {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
		RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED};

	(void)state;
	for (int b = 1; b <= 3; b++)
		rd_kafka_mock_broker_set_down(it.cluster, b);
	fill_box(1, 10);
	pump_until(stat(flags) == FLAG_UNWRITTEN);
	assert_int_equal(stat(confirmed), 0);
	push_errors(INIT_PID, 2, denied); /* another producer does not hide it */
	for (int b = 1; b <= 3; b++)
		rd_kafka_mock_broker_set_up(it.cluster, b);
	pump_until(stat(send_errors) == 2);
	assert_int_equal(stat(flags), FLAG_UNWRITTEN);
	pump_until(stat(flags) == 0);
	pump_until(emit_is_done(it.emit));
	log_holds_in_order(10);
}

static void emit_passes_over_a_row_that_is_too_large(void **state)
{
	struct log_view log = {.hole = 700};

	(void)state;
	memset(long_name, 'x', 255);
	add_property("message.max.bytes", "1000", FOR_ALL_CLIENTS);
	it.handoff.zone = long_name;
	fill_box(1, 1500);
	box.long_row = 700;
	for (int i = 0; i < 2; i++) { /* and not again after another failure */
		pump_until(emit_is_done(it.emit));
		read_log(&log);
		assert_int_equal(log.top, box.high);
		all_confirmed_after(RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, 100);
	}
	assert_int_equal(log.restamped, 0);
}

static void emit_takes_the_present_time_when_a_timestamp_is_refused(void **state)
{
	static const rd_kafka_resp_err_t bad[] = {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP};
	struct log_view log = {0};

	(void)state;
	fill_box(1, 200);
	box.seen_s -= 3600;
	it.head.clock_offset_ms = 40 * 60 * 1000; /* the time to count with is not the wall's */
	push_errors(PRODUCE, 1, bad);
	pump_until(emit_is_done(it.emit));
	assert_int_equal(stat(send_errors), 1);
	read_log(&log);
	assert_int_equal(log.top, 200);
	assert_in_range(log.restamped, 1, 200); /* as old as the refused one, or older */
	assert_true(log.restamped >= 200 - 50);
}

static void emit_passes_over_what_has_expired_when_its_timestamp_is_refused(void **state)
{
	static const rd_kafka_resp_err_t bad[] = {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP};

	(void)state;
	fill_box(1, 200);
	box.seen_s -= 3 * 3600;
	push_errors(PRODUCE, 1, bad);
	pump_until(emit_is_done(it.emit));
	assert_true(stat(sent) < 100);
}

static void emit_drains_rows_and_streams_without_one(void **state)
{
	(void)state;
	fill_box(1, 300);
	box.unsent = 2500;
	box.allowed = false; /* the lease is over; nobody else has it yet */
	pump_once();
	assert_int_equal(stat(sent), 0);
	emit_drain(it.emit);
	pump_until(emit_is_done(it.emit));
	log_holds_in_order(2800);
	assert_int_equal(stat(sent), 2800);
}

static void emit_drains_with_the_same_numbers_after_a_failure(void **state)
{
	static const rd_kafka_resp_err_t late[] = {RD_KAFKA_RESP_ERR_NO_ERROR,
		RD_KAFKA_RESP_ERR_NO_ERROR, RD_KAFKA_RESP_ERR_NO_ERROR,
		RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH};

	(void)state;
	add_property("batch.num.messages", "100", FOR_PRODUCERS);
	fill_box(1, 50);
	box.unsent = 3000;
	push_errors(PRODUCE, 4, late);
	emit_drain(it.emit);
	pump_until(emit_is_done(it.emit));
	assert_int_equal(stat(send_errors), 1);
	log_holds_in_order(3050);
}

/* A worker whose properties librdkafka refuses goes on replaying. */
static void emit_counts_when_no_producer_can_be_made(void **state)
{
	(void)state;
	add_property("linger.ms", "much", FOR_PRODUCERS);
	fill_box(1, 5);
	pump_until(stat(send_errors) >= 2);
	assert_false(emit_is_done(it.emit));
	assert_int_equal(emit_in_flight(it.emit), 0);
}

/* --- killed ---------------------------------------------------------------------------------- */

extern char **environ;

/*
 * A process that emits and does nothing else: BROKERS TOPIC LOW HIGH SEEN RATE [NAME=VALUE...].
 * RATE rows a second are added to the outbox, 0: all are there at once.  tests/kafka uses it, too.
 */
static int be_emitter(char **arg)
{
	uint64_t began = host_boot_ns(), high = strtoull(arg[3], NULL, 10);
	uint64_t rate = strtoull(arg[5], NULL, 10);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	make_handoff(arg[0]);
	it.handoff.topic = arg[1];
	add_property("batch.num.messages", "50", FOR_PRODUCERS);
	for (char **more = arg + 6; *more; more++) {
		char *value = strchr(*more, '=');

		*value = '\0';
		add_property(*more, value + 1, FOR_ALL_CLIENTS);
	}
	fill_box(strtoull(arg[2], NULL, 10), high);
	box.seen_s = (uint32_t)strtoul(arg[4], NULL, 10);
	start_emit();
	do {
		struct pollfd p = {.fd = emit_fd(it.emit), .events = POLLIN};
		uint64_t there = box.low + (host_boot_ns() - began) / 1000 * rate / 1000000;

		box.high = rate && there < high ? there : high;
		poll(&p, 1, 20);
		emit_pump(it.emit);
	} while (box.high < high || !emit_is_done(it.emit));
	return 0;
}

static pid_t spawn_emitter(uint64_t low, uint64_t high)
{
	char from[24], to[24], seen[24];
	char *argv[] = {(char *)"test_emit", it.handoff.properties[0].value, (char *)TOPIC, from,
		to, seen, (char *)"0", NULL};
	pid_t pid;

	snprintf(from, sizeof(from), "%" PRIu64, low);
	snprintf(to, sizeof(to), "%" PRIu64, high);
	snprintf(seen, sizeof(seen), "%u", box.seen_s);
	assert_int_equal(posix_spawn(&pid, self, NULL, NULL, argv, environ), 0);
	return pid;
}

static void emit_keeps_order_when_workers_are_killed(void **state)
{
	uint64_t low = 1;
	struct log_view log = {0};

	(void)state;
	fill_box(1, 20000);
	for (int i = 0; i < 9; i++) {
		pid_t pid = spawn_emitter(low, box.high);

		usleep((useconds_t)(20000 + scratch_random(&seed) % 120000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		/* Its successor knows what has come back, or a part of it; more may be on its way. */
		if (i % 3 == 0) {
			read_log(&log);
			low = 1 + log.top - scratch_random(&seed) % (1 + log.top / 10);
		}
	}
	assert_int_equal(scratch_wait(spawn_emitter(low, box.high)), 0);
	log_holds_in_order(box.high);
}

#define EMIT_TEST(name) cmocka_unit_test_setup_teardown(name, emit_setup, emit_teardown)

int main(int argc, char **argv)
{
	const char *given = getenv("TALLY_SEED");
	const struct CMUnitTest tests[] = {
		EMIT_TEST(emit_makes_no_client_before_there_is_a_row),
		EMIT_TEST(emit_writes_all_rows_in_order),
		EMIT_TEST(emit_goes_on_by_its_descriptor_alone),
		EMIT_TEST(emit_sends_nothing_while_it_may_not),
		EMIT_TEST(emit_sends_what_is_left_again_after_a_restart),
		EMIT_TEST(emit_begins_with_one_row),
		EMIT_TEST(emit_keeps_order_whatever_heals),
		EMIT_TEST(emit_begins_anew_at_the_lowest_row_when_a_producer_gives_up),
		EMIT_TEST(emit_keeps_order_under_random_errors),
		EMIT_TEST(emit_tries_for_ever_when_it_has_no_right),
		EMIT_TEST(emit_waits_while_the_brokers_are_away),
		EMIT_TEST(emit_shows_that_it_cannot_write),
		EMIT_TEST(emit_passes_over_a_row_that_is_too_large),
		EMIT_TEST(emit_takes_the_present_time_when_a_timestamp_is_refused),
		EMIT_TEST(emit_passes_over_what_has_expired_when_its_timestamp_is_refused),
		EMIT_TEST(emit_drains_rows_and_streams_without_one),
		EMIT_TEST(emit_drains_with_the_same_numbers_after_a_failure),
		EMIT_TEST(emit_counts_when_no_producer_can_be_made),
		EMIT_TEST(emit_keeps_order_when_workers_are_killed),
	};

	self = argv[0];
	if (argc >= 7)
		return be_emitter(argv + 1);
	seed = given ? strtoull(given, NULL, 10) : host_random() | 1;
	printf("TALLY_SEED=%" PRIu64 "\n", seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
