/*
 * emit_fixture.h - worker/emit on an outbox that is made up, and a broker in this process.
 *
 *	box (the functions of shm/usage.h that emit calls) --> emit --> mock cluster --> log_view
 *
 * The broker does not check the numbers of an idempotent producer, so what keeps its order
 * here does so by itself.  Times and errors come from a seed, which is printed; TALLY_SEED
 * repeats one.  For one program: it has its own functions of shm/usage.h.
 */
#ifndef TALLY_TESTS_EMIT_FIXTURE_H
#define TALLY_TESTS_EMIT_FIXTURE_H

#include "scratch.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>

#include "shm/host.h"
#include "worker/emit.h"

#define TOPIC	   "emit"
#define PARTITION  2
#define PARTITIONS 4
#define DEADLINE   (UINT64_C(30) * 1000000000)
#define PRODUCE	   0 /* API keys */
#define INIT_PID   22
#define ROUND	   2000

static uint64_t seed;
static const char *self; /* this program */

/* --- an outbox ------------------------------------------------------------------------------- */

static struct {
	uint64_t low, high; /* rows in it, by sequence */
	uint64_t unsent;    /* streams that no row was made for */
	uint64_t long_row;  /* has the longest names there are */
	uint32_t seen_s;    /* of the latest row */
	bool allowed;
	struct usage_meta meta;
} box;

static char long_name[256];

static struct usage_outgoing row_of(uint64_t sequence)
{
	static const char *const tenants[] = {"a", "tenant-b", "c c"};
	struct usage_outgoing row = {.sequence = sequence,
		.hash = sequence * PARTITIONS + PARTITION,
		.bytes = sequence * 3,
		.seen_s = box.seen_s - (uint32_t)(sequence % 50),
		.tenant = tenants[sequence % 3],
		.policy = sequence % 2 ? "" : "finance"};

	if (sequence == box.long_row)
		row.tenant = row.policy = long_name;
	row.tenant_len = strlen(row.tenant);
	row.policy_len = strlen(row.policy);
	return row;
}

int usage_outbox_list(struct usage *usage, uint64_t after, struct usage_outgoing *rows, size_t cap)
{
	uint64_t next = after + 1 > box.low ? after + 1 : box.low;
	size_t n = 0;

	(void)usage;
	for (; next <= box.high && n < cap; next++)
		rows[n++] = row_of(next);
	return (int)n;
}

int usage_unsent_list(struct usage *usage, struct usage_unsent_cursor *cursor,
	struct usage_outgoing *rows, size_t cap)
{
	size_t n = 0;

	(void)usage;
	for (; cursor->at < box.unsent && n < cap; cursor->at++)
		rows[n++] = row_of(box.high + ++cursor->sequence);
	return (int)n;
}

const struct usage_meta *usage_meta(const struct usage *usage)
{
	(void)usage;
	return &box.meta;
}

/* facts.c wants it. */
void usage_store_facts(struct usage *usage, struct store_facts *facts)
{
	(void)usage;
	memset(facts, 0, sizeof(*facts));
}

static void fill_box(uint64_t low, uint64_t high)
{
	memset(&box, 0, sizeof(box));
	box.low = low;
	box.high = high;
	box.seen_s = (uint32_t)(host_wall_ms() / 1000);
	box.allowed = true;
	memcpy(box.meta.incarnation, "0123456789abcdef", INCARNATION_SIZE);
}

/* --- a broker, and the one that is tested ---------------------------------------------------- */

static struct {
	rd_kafka_t *rk;
	rd_kafka_mock_cluster_t *cluster;
	struct handoff handoff;
	struct stats stats;
	struct facts facts;
	struct table_head head; /* has the instance's clock offset */
	struct table table;
	struct now now;
	struct emit *emit;
} it;

static bool may_send(void *arg)
{
	(void)arg;
	return box.allowed;
}

static void add_property(const char *name, const char *value, enum handoff_client client)
{
	it.handoff.properties[it.handoff.n_properties++] =
		(struct handoff_property){(char *)name, (char *)value, client};
}

static void make_handoff(const char *brokers)
{
	it.handoff = (struct handoff){.partition = PARTITION,
		.partitions = PARTITIONS,
		.topic = (char *)TOPIC,
		.zone = (char *)"zone-a",
		.window_minutes = 120};
	add_property("bootstrap.servers", brokers, FOR_ALL_CLIENTS);
	add_property("fetch.wait.max.ms", "nonsense", FOR_CONSUMERS);
	it.facts.stats = &it.stats;
}

static void start_emit(void)
{
	struct emit_options options = {
		.handoff = &it.handoff, .facts = &it.facts, .now = &it.now, .may_send = may_send};

	it.table.head = &it.head;
	now_start(&it.now, &it.table, 0);
	emit_new(&options, &it.emit);
}

static int emit_setup(void **state)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	(void)state;
	memset(&it, 0, sizeof(it));
	rd_kafka_conf_set(conf, "log_level", "0", NULL, 0);
	it.rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
	it.cluster = rd_kafka_mock_cluster_new(it.rk, 3);
	rd_kafka_mock_topic_create(it.cluster, TOPIC, PARTITIONS, 3);
	make_handoff(rd_kafka_mock_cluster_bootstraps(it.cluster));
	fill_box(1, 0);
	start_emit();
	return 0;
}

static int emit_teardown(void **state)
{
	(void)state;
	if (it.emit)
		emit_free(&it.emit);
	rd_kafka_mock_cluster_destroy(it.cluster);
	rd_kafka_destroy(it.rk);
	return 0;
}

/* As the loop of a worker does, with a quicker tick. */
static void pump_once(void)
{
	struct pollfd p = {.fd = emit_fd(it.emit), .events = POLLIN};

	poll(&p, 1, 20);
	emit_pump(it.emit);
	assert_true(emit_in_flight(it.emit) <= ROUND);
}

#define pump_until(condition)                                                                      \
	do {                                                                                       \
		uint64_t end_ = host_boot_ns() + DEADLINE;                                         \
		while (!(condition)) {                                                             \
			pump_once();                                                               \
			assert_true(host_boot_ns() < end_);                                        \
		}                                                                                  \
	} while (0)

#define stat(field) stats_get(&it.stats, field)

static void push_errors(int16_t api, size_t n, const rd_kafka_resp_err_t *errors)
{
	rd_kafka_mock_push_request_errors_array(it.cluster, api, n, errors);
}

static void restart_emit(void)
{
	emit_free(&it.emit);
	start_emit();
}

/* --- what is in the log ---------------------------------------------------------------------- */

struct log_view {
	uint64_t records, top; /* top: up to here without a hole */
	uint64_t hole;	       /* but this one, if it is not 0 */
	uint64_t restamped;
};

static rd_kafka_t *make_reader(const char *brokers)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	rd_kafka_conf_set(conf, "bootstrap.servers", brokers, NULL, 0);
	rd_kafka_conf_set(conf, "enable.partition.eof", "true", NULL, 0);
	rd_kafka_conf_set(conf, "log_level", "0", NULL, 0);
	return rd_kafka_new(RD_KAFKA_CONSUMER, conf, NULL, 0);
}

static void see_order(struct log_view *log, uint64_t sequence)
{
	log->records++;
	if (log->hole && log->top + 1 == log->hole && sequence == log->hole + 1)
		log->top = log->hole;
	if (sequence > log->top + 1)
		fail_msg("record %" PRIu64 ": sequence %" PRIu64 " after %" PRIu64, log->records,
			sequence, log->top);
	if (sequence == log->top + 1)
		log->top = sequence;
}

static void see_record(struct log_view *log, const rd_kafka_message_t *message)
{
	struct record record;
	struct usage_outgoing row;
	rd_kafka_headers_t *headers;
	const void *header;
	size_t size;

	assert_int_equal(rd_kafka_message_headers(message, &headers), 0);
	assert_int_equal(rd_kafka_header_cnt(headers), 1);
	assert_int_equal(rd_kafka_header_get_last(headers, RECORD_HEADER, &header, &size), 0);
	record_source(header, size, &record);
	assert_true(record.has_source);
	assert_memory_equal(record.incarnation, box.meta.incarnation, INCARNATION_SIZE);
	see_order(log, record.sequence);
	row = row_of(record.sequence);
	assert_int_equal(record_decode(message->payload, message->len, &record), SKIP_NONE);
	assert_int_equal(record.hash, row.hash);
	assert_int_equal(record.size, row.bytes);
	assert_int_equal(record.zone_len, strlen(it.handoff.zone));
	assert_memory_equal(record.zone, it.handoff.zone, record.zone_len);
	assert_int_equal(record.tenant_len, row.tenant_len);
	assert_memory_equal(record.tenant, row.tenant, row.tenant_len);
	assert_int_equal(record.policy_len, row.policy_len);
	assert_memory_equal(record.policy, row.policy, row.policy_len);
	assert_int_equal(message->key_len, row.tenant_len);
	assert_memory_equal(message->key, row.tenant, row.tenant_len);
	if (rd_kafka_message_timestamp(message, NULL) != (int64_t)row.seen_s * 1000) {
		log->restamped++;
		assert_in_range(
			now_ms(&it.now) - rd_kafka_message_timestamp(message, NULL), 0, 30 * 1000);
	}
}

/* From the beginning. */
static void read_log(struct log_view *log)
{
	rd_kafka_t *reader = make_reader(it.handoff.properties[0].value);
	rd_kafka_topic_t *topic = rd_kafka_topic_new(reader, TOPIC, NULL);
	uint64_t end = host_boot_ns() + DEADLINE;
	bool more = true;

	log->records = log->top = log->restamped = 0;
	assert_int_equal(rd_kafka_consume_start(topic, PARTITION, 0), 0);
	while (more) {
		rd_kafka_message_t *message = rd_kafka_consume(topic, PARTITION, 100);

		assert_true(host_boot_ns() < end);
		if (!message)
			continue;
		if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
			more = false;
		else if (!message->err)
			see_record(log, message);
		rd_kafka_message_destroy(message);
	}
	rd_kafka_consume_stop(topic, PARTITION);
	rd_kafka_topic_destroy(topic);
	rd_kafka_destroy(reader);
}

static void log_holds_in_order(uint64_t top)
{
	struct log_view log = {0};

	read_log(&log);
	assert_int_equal(log.top, top);
	assert_int_equal(log.restamped, 0);
}

#endif
