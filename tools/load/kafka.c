/*
 * kafka.c - messages to a broker, each followed until it is delivered or not.
 *
 *	send --> producer queue (bounded: full = wait) --> broker
 *	                                                     |
 *	counts, --out <-- delivery report <-- rd_kafka_poll <'
 *
 * Order within a partition is that of sending, retries included: idempotent
 * with acks=all, else one request in flight.
 *
 * Runs in: load, main thread.  Blocks in: rd_kafka_poll, flush, metadata.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>

#include "sink.h"

#define METADATA_MS 10000
#define FLUSH_MS    60000 /* above message.timeout.ms: until then each message has its report */

struct kafka {
	struct sink sink;
	rd_kafka_t *rk;
	rd_kafka_topic_t *topic;
	bool reported;
};

static void fail(struct kafka *kafka, int32_t partition, rd_kafka_resp_err_t err)
{
	if (!kafka->reported)
		fprintf(stderr, "tally-load: a record was not delivered: partition %d: %s\n",
			(int)partition, rd_kafka_err2str(err));
	kafka->reported = true; /* the rest is in the summary */
	kafka->sink.count->failed++;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
	struct kafka *kafka = opaque;
	struct note *note = m->_private;

	(void)rk;
	if (m->err) {
		fail(kafka, m->partition, m->err);
	} else {
		kafka->sink.count->delivered++;
		kafka->sink.count->broken += note->kind != KIND_OK;
		if (kafka->sink.out)
			out_write(kafka->sink.out, m->partition, m->offset, note);
	}
	free(note);
}

/* As an array: the macros of rd_kafka_producev are no ISO C. */
static rd_kafka_resp_err_t produce(struct kafka *kafka, const struct message *m, struct note *note)
{
	rd_kafka_headers_t *headers = m->has_header ? rd_kafka_headers_new(1) : NULL;
	const rd_kafka_vu_t vu[] = {
		{.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = kafka->topic},
		{.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = m->partition},
		{.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
		{.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)(uintptr_t)m->key, m->key_len}},
		{.vtype = RD_KAFKA_VTYPE_VALUE,
			.u.mem = {(void *)(uintptr_t)m->value, m->value_len}},
		{.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = m->timestamp_ms},
		{.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = note},
		{.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers}, /* last: may be left out */
	};
	size_t n = sizeof(vu) / sizeof(*vu) - !headers;
	rd_kafka_resp_err_t err = RD_KAFKA_RESP_ERR_NO_ERROR;
	rd_kafka_error_t *error;

	if (headers)
		rd_kafka_header_add(headers, RECORD_HEADER, -1, m->header, sizeof(m->header));
	error = rd_kafka_produceva(kafka->rk, vu, n);
	if (!error)
		return err;
	err = rd_kafka_error_code(error);
	rd_kafka_error_destroy(error);
	if (headers)
		rd_kafka_headers_destroy(headers); /* taken only with a message that is taken */
	return err;
}

static void kafka_send(struct sink *sink, const struct message *m)
{
	struct kafka *kafka = (struct kafka *)sink;
	struct note *note = malloc(sizeof(*note));
	rd_kafka_resp_err_t err = RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;

	if (note) {
		*note = m->note;
		while ((err = produce(kafka, m, note)) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
			rd_kafka_poll(kafka->rk, 100);
	}
	if (err) {
		fail(kafka, m->partition, err);
		free(note);
	}
	rd_kafka_poll(kafka->rk, 0);
}

static void kafka_wait(struct sink *sink, int ms)
{
	rd_kafka_poll(((struct kafka *)sink)->rk, ms);
}

static void kafka_free(struct kafka *kafka)
{
	if (kafka->topic)
		rd_kafka_topic_destroy(kafka->topic);
	if (kafka->rk)
		rd_kafka_destroy(kafka->rk);
	free(kafka);
}

static void kafka_finish(struct sink **sink)
{
	struct kafka *kafka = (struct kafka *)*sink;

	rd_kafka_flush(kafka->rk, FLUSH_MS);
	while (rd_kafka_outq_len(kafka->rk) > 0) { /* a report for each, though it be a bad one */
		rd_kafka_purge(kafka->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
		rd_kafka_poll(kafka->rk, 100);
	}
	kafka_free(kafka);
	*sink = NULL;
}

static bool set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[512];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) == RD_KAFKA_CONF_OK)
		return true;
	fprintf(stderr, "tally-load: %s\n", why);
	return false;
}

static rd_kafka_conf_t *configure(const struct options *o, void *opaque)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	bool all = strcmp(o->acks, "all") == 0 || strcmp(o->acks, "-1") == 0;
	char linger[24];

	snprintf(linger, sizeof(linger), "%llu", (unsigned long long)o->linger_ms);
	if (!set(conf, "bootstrap.servers", o->brokers) || !set(conf, "linger.ms", linger) ||
		!set(conf, "acks", o->acks) || !set(conf, "compression.type", o->compression) ||
		!set(conf, all ? "enable.idempotence" : "max.in.flight", all ? "true" : "1") ||
		!set(conf, "message.timeout.ms", "30000") ||
		!set(conf, "queue.buffering.max.messages", "200000") ||
		!set(conf, "queue.buffering.max.kbytes", "65536") ||
		!set(conf, "reconnect.backoff.max.ms", "1000") ||
		!set(conf, "socket.nagle.disable", "true") || !set(conf, "log_level", "2")) {
		rd_kafka_conf_destroy(conf);
		return NULL;
	}
	rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
	rd_kafka_conf_set_opaque(conf, opaque);
	return conf;
}

/* Also makes the client know the topic: the first record of an unknown one waits up to 1 s. */
static bool ask_partitions(struct kafka *kafka, struct options *o)
{
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_resp_err_t err =
		rd_kafka_metadata(kafka->rk, 0, kafka->topic, &metadata, METADATA_MS);
	uint64_t partitions = 0;

	if (!err && metadata->topic_cnt == 1) {
		err = metadata->topics[0].err;
		partitions = (uint64_t)metadata->topics[0].partition_cnt;
	}
	rd_kafka_metadata_destroy(metadata);
	if (!err && partitions == 0)
		err = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	if (!err && o->partitions > partitions)
		fprintf(stderr, "tally-load: --partitions %llu: topic %s has only %llu\n",
			(unsigned long long)o->partitions, o->topic,
			(unsigned long long)partitions);
	else if (err)
		fprintf(stderr, "tally-load: topic %s at %s: %s\n", o->topic, o->brokers,
			rd_kafka_err2str(err));
	else if (o->partitions == 0)
		o->partitions = partitions;
	return !err && o->partitions <= partitions;
}

struct sink *sink_open_kafka(struct options *options, struct out *out, struct load_count *count)
{
	struct kafka *kafka = calloc(1, sizeof(*kafka));
	rd_kafka_conf_t *conf = kafka ? configure(options, kafka) : NULL;
	char why[512] = "out of memory";

	if (conf)
		kafka->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (conf && !kafka->rk) {
		rd_kafka_conf_destroy(conf);
		fprintf(stderr, "tally-load: %s\n", why);
	}
	if (kafka && kafka->rk)
		kafka->topic = rd_kafka_topic_new(kafka->rk, options->topic, NULL);
	if (!kafka || !kafka->topic || !ask_partitions(kafka, options)) {
		if (kafka)
			kafka_free(kafka);
		return NULL;
	}
	kafka->sink = (struct sink){kafka_send, kafka_wait, kafka_finish, options, out, count};
	return &kafka->sink;
}
