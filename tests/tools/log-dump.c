/*
 * log-dump.c - prints every record that is in a topic, decoded by protobuf-c.
 *
 *	log-dump --brokers HOST:PORT --topic NAME [--follow]
 *
 *	partition offset timestamp key status zone tenant policy hash size incarnation sequence raw
 *
 * Fields are separated by tabs.  status: decoded, no_metadata, undecodable
 * (raw then has the value in hex).  It shares no code with the worker: the
 * oracle is fed with what is really in the log.
 *
 * Without --follow it ends where the log ended when it started; with it, where
 * the log ends when it gets SIGTERM (for logs that forget their beginning).
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>

#include "record.pb-c.h"
#include "tests/tools/text.h"

#define PARTITIONS_MAX 1024
#define TIMEOUT_MS     10000

static volatile sig_atomic_t stopped;

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "log-dump: %s: %s\n", what, why);
	exit(1);
}

/* UTF-8 without NUL, as proto3 demands of strings; the bytes of record.proto say nothing. */
static bool utf8(const uint8_t *p, size_t len)
{
	static const uint32_t least[] = {1, 0x80, 0x800, 0x10000};
	const uint8_t *end = p + len;

	while (p < end) {
		unsigned more = *p < 0x80 ? 0 : *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
		uint32_t c = more == 0 ? *p : *p & (0x3fu >> more);

		if ((*p >= 0x80 && *p < 0xc0) || *p >= 0xf8 || (size_t)(end - p) <= more)
			return false;
		for (unsigned i = 1; i <= more; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return false;
			c = c << 6 | (p[i] & 0x3f);
		}
		if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return false;
		p += more + 1;
	}
	return true;
}

static bool name_ok(ProtobufCBinaryData name)
{
	return name.len <= 256 && utf8(name.data, name.len);
}

static void print_hex(const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		printf("%02x", ((const uint8_t *)data)[i]);
}

/* proto3: the last value of a field wins, over repeated messages too. */
static Oracle__Metadata merge_metadata(const Oracle__Record *r)
{
	Oracle__Metadata all = ORACLE__METADATA__INIT;

	for (size_t i = 0; i < r->n_metadata; i++) {
		if (r->metadata[i]->has_stream_hash)
			all.stream_hash = r->metadata[i]->stream_hash;
		if (r->metadata[i]->has_total_size)
			all.total_size = r->metadata[i]->total_size;
		if (r->metadata[i]->has_ingestion_policy)
			all.ingestion_policy = r->metadata[i]->ingestion_policy;
	}
	return all;
}

static void print_decoded(const Oracle__Record *r, const Oracle__Metadata *md)
{
	char zone[TEXT_SIZE], tenant[TEXT_SIZE], policy[TEXT_SIZE];

	printf("%s\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64,
		r->n_metadata > 0 ? "decoded" : "no_metadata",
		text_of(zone, r->zone.data, r->zone.len),
		text_of(tenant, r->tenant.data, r->tenant.len),
		text_of(policy, md->ingestion_policy.data, md->ingestion_policy.len),
		md->stream_hash, md->total_size);
}

/* True when it is what the worker has to count. */
static bool print_value(const rd_kafka_message_t *m)
{
	Oracle__Record *r = oracle__record__unpack(NULL, m->len, m->payload);
	Oracle__Metadata md = ORACLE__METADATA__INIT;
	bool ok = r != NULL;

	if (ok) {
		md = merge_metadata(r);
		ok = utf8(r->zone.data, r->zone.len) && name_ok(r->tenant) &&
		     name_ok(md.ingestion_policy);
	}
	if (ok)
		print_decoded(r, &md);
	else
		printf("undecodable\t-\t-\t-\t0\t0");
	if (r != NULL)
		oracle__record__free_unpacked(r, NULL);
	return ok;
}

static void print_source(const rd_kafka_message_t *m)
{
	rd_kafka_headers_t *headers;
	const void *value;
	size_t size;
	uint64_t sequence = 0;

	if (rd_kafka_message_headers(m, &headers) != 0 ||
		rd_kafka_header_get_last(headers, "tally", &value, &size) != 0 || size != 24) {
		printf("\t-\t0");
		return;
	}
	for (int i = 16; i < 24; i++)
		sequence = sequence << 8 | ((const uint8_t *)value)[i];
	putchar('\t');
	print_hex(value, 16);
	printf("\t%" PRIu64, sequence);
}

static void print_message(const rd_kafka_message_t *m)
{
	char key[TEXT_SIZE];
	rd_kafka_timestamp_type_t type;
	int64_t timestamp = rd_kafka_message_timestamp(m, &type);
	bool ok;

	printf("%d\t%" PRId64 "\t%" PRId64 "\t%s\t", m->partition, m->offset,
		type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : timestamp,
		text_of(key, m->key, m->key_len));
	ok = print_value(m);
	print_source(m);
	putchar('\t');
	if (!ok)
		print_hex(m->payload, m->len);
	putchar('\n');
}

static rd_kafka_t *consumer(const char *brokers)
{
	static const char *const properties[][2] = {{"group.id", "log-dump"},
		{"enable.partition.eof", "true"}, {"auto.offset.reset", "error"},
		{"enable.auto.commit", "false"}, {"fetch.wait.max.ms", "10"},
		{"isolation.level", "read_committed"}};
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[512];
	rd_kafka_t *rk;

	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++)
		if (rd_kafka_conf_set(conf, properties[i][0], properties[i][1], why, sizeof(why)) !=
			0)
			fail(properties[i][0], why);
	if (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof(why)) != 0)
		fail(brokers, why);
	rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
	if (rk == NULL)
		fail("rd_kafka_new", why);
	rd_kafka_poll_set_consumer(rk);
	return rk;
}

static rd_kafka_topic_partition_list_t *partitions_of(rd_kafka_t *rk, const char *topic)
{
	rd_kafka_topic_t *t = rd_kafka_topic_new(rk, topic, NULL);
	const struct rd_kafka_metadata *md;
	rd_kafka_resp_err_t err = rd_kafka_metadata(rk, 0, t, &md, TIMEOUT_MS);
	rd_kafka_topic_partition_list_t *list;

	if (err != 0 || md->topic_cnt != 1 || md->topics[0].partition_cnt > PARTITIONS_MAX)
		fail(topic,
			err ? rd_kafka_err2str(err) : "not there, or more than 1024 partitions");
	list = rd_kafka_topic_partition_list_new(md->topics[0].partition_cnt);
	for (int p = 0; p < md->topics[0].partition_cnt; p++)
		rd_kafka_topic_partition_list_add(list, topic, p);
	rd_kafka_metadata_destroy(md);
	rd_kafka_topic_destroy(t);
	return list;
}

/* which: -1 = end, -2 = start */
static void look_up(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int64_t which)
{
	rd_kafka_resp_err_t err;

	for (int i = 0; i < list->cnt; i++)
		list->elems[i].offset = which;
	err = rd_kafka_offsets_for_times(rk, list, TIMEOUT_MS);
	for (int i = 0; i < list->cnt && err == 0; i++)
		err = list->elems[i].err;
	if (err != 0)
		fail("offsets", rd_kafka_err2str(err));
}

/* Prints until every partition has been read up to `end`. */
static void dump_to(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *end, int64_t *next)
{
	int i = 0;

	while (i < end->cnt && !stopped) {
		rd_kafka_message_t *m;

		if (next[i] >= end->elems[i].offset) {
			i++;
			continue;
		}
		m = rd_kafka_consumer_poll(rk, 100);
		if (m == NULL)
			continue;
		if (m->err == 0) {
			print_message(m);
			next[m->partition] = m->offset + 1;
		} else if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
			if (next[m->partition] < m->offset)
				next[m->partition] = m->offset;
		} else if (m->err != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN &&
			   m->err != RD_KAFKA_RESP_ERR__TRANSPORT) {
			fail("consume", rd_kafka_message_errstr(m));
		}
		rd_kafka_message_destroy(m);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"brokers", required_argument, NULL, 'b'},
		{"topic", required_argument, NULL, 't'}, {"follow", no_argument, NULL, 'f'}, {0}};
	const char *brokers = NULL, *topic = NULL;
	rd_kafka_topic_partition_list_t *list;
	int64_t next[PARTITIONS_MAX];
	bool follow = false;
	rd_kafka_t *rk;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == '?')
			return 2;
		*(c == 'b' ? &brokers : c == 't' ? &topic : &(const char *){NULL}) = optarg;
		follow |= c == 'f';
	}
	if (brokers == NULL || topic == NULL || optind != argc)
		fail("usage", "log-dump --brokers HOST:PORT --topic NAME [--follow]");
	signal(SIGTERM, on_term);

	rk = consumer(brokers);
	list = partitions_of(rk, topic);
	look_up(rk, list, -2);
	for (int i = 0; i < list->cnt; i++)
		next[i] = list->elems[i].offset;
	rd_kafka_assign(rk, list);
	do {
		look_up(rk, list, -1);
		dump_to(rk, list, next);
	} while (follow && !stopped);
	if (follow) {
		stopped = 0;
		look_up(rk, list, -1);
		dump_to(rk, list, next);
	}
	rd_kafka_topic_partition_list_destroy(list);
	rd_kafka_destroy(rk);
	return fflush(stdout) == 0 ? 0 : 1;
}
