/*
 * put.c - kafka-do's `put`: lines from stdin to records, in one transaction or in none.
 *
 *	line --> put_line --> produce --> flush --> first=OFFSET last=OFFSET --> commit, abort
 *	                 every --batch N lines --^                               or left open
 *
 * A line is one of
 *
 *	TIMESTAMP_MS|now[-MS]|none TENANT HASH|auto BYTES [POLICY] [zone=Z] [key=K]
 *	tombstone KEY
 *	garbage N
 *
 * none is timestamp -1, which the broker keeps in a topic of CreateTime.  A TENANT of "-" is empty,
 * fields that are zero or empty are left out as proto3 does.  auto is the next number that belongs
 * to the partition.  What lies between two flushes is one batch, up to a megabyte.
 */
#include "tests/tools/kafka/put.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "record.pb-c.h"
#include "tests/tools/text.h"

#define PUT_WORDS_MAX	   8
#define PUT_PARTITIONS_MAX 1024

struct put {
	rd_kafka_t *rk;
	const char *topic, *txn, *id, *compression;
	int partitions, partition; /* -1: HASH % partitions */
	long batch, lines;
	uint64_t next_auto;
	int64_t first[PUT_PARTITIONS_MAX], last[PUT_PARTITIONS_MAX];
};

/* --- the handle ------------------------------------------------------------------------------ */

static void put_on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
	struct put *p = opaque;

	(void)rk;
	if (m->err != 0)
		kafka_fail_err(p->topic, m->err, NULL); /* its errstr would be the value */
	if (p->first[m->partition] < 0)
		p->first[m->partition] = m->offset;
	p->last[m->partition] = m->offset;
}

static void put_open(struct put *p, const struct kafka *k)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *reader = kafka_reader(k, "read_committed");

	p->partitions = kafka_partitions(reader, p->topic);
	if (p->partitions > PUT_PARTITIONS_MAX || p->partition >= p->partitions)
		kafka_fail(p->topic, "no such partition");
	for (int i = 0; i < p->partitions; i++)
		p->first[i] = p->last[i] = -1;
	kafka_set(conf, "enable.idempotence", "true"); /* in order and once, whatever happens */
	kafka_set(conf, "linger.ms", "30000");	       /* a batch ends with a flush */
	kafka_set(conf, "batch.num.messages", "1000000");
	kafka_set(conf, "message.timeout.ms", "60000");
	kafka_set(conf, "compression.codec", p->compression);
	if (p->txn != NULL) {
		kafka_set(conf, "transactional.id", p->id);
		kafka_set(conf, "transaction.timeout.ms", "900000");
	}
	rd_kafka_conf_set_dr_msg_cb(conf, put_on_delivery);
	rd_kafka_conf_set_opaque(conf, p);
	p->rk = kafka_open(k, RD_KAFKA_PRODUCER, conf);
	kafka_partitions(p->rk, p->topic); /* else it waits up to a second to hear of the topic */
}

static void put_flush(struct put *p)
{
	rd_kafka_resp_err_t err = rd_kafka_flush(p->rk, 4 * KAFKA_TIMEOUT_MS);

	if (err != 0)
		kafka_fail_err("flush", err, NULL);
}

/* --- one record ------------------------------------------------------------------------------ */

struct put_record {
	int32_t partition;
	const void *key, *value; /* NULL: none */
	size_t key_len, value_len;
	int64_t timestamp;
};

static void put_send(struct put *p, const struct put_record *r)
{
	rd_kafka_vu_t vu[] = {{RD_KAFKA_VTYPE_TOPIC, .u.cstr = p->topic},
		{RD_KAFKA_VTYPE_PARTITION, .u.i32 = r->partition},
		{RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)(uintptr_t)r->key, r->key_len}},
		{RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)(uintptr_t)r->value, r->value_len}},
		{RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = r->timestamp},
		{RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY}};
	rd_kafka_error_t *error;

	while ((error = rd_kafka_produceva(p->rk, vu, sizeof(vu) / sizeof(*vu))) != NULL &&
		rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
		rd_kafka_error_destroy(error);
		put_flush(p);
	}
	kafka_check(p->topic, error);
}

static int64_t put_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t put_timestamp(const char *word)
{
	int64_t ms;

	if (strcmp(word, "none") == 0)
		return -1;
	if (strcmp(word, "now") == 0)
		return put_wall_ms();
	if (strncmp(word, "now", 3) == 0)
		return put_wall_ms() + text_number("timestamp", word + 3);
	ms = text_number("timestamp", word);
	if (ms == 0)
		kafka_fail("timestamp 0", "librdkafka would send the time of now; take 1");
	return ms;
}

static uint64_t put_unsigned(const char *what, const char *word)
{
	char *end;
	uint64_t n = strtoull(word, &end, 10);

	if (*word < '0' || *word > '9' || *end != '\0')
		kafka_fail(what, word);
	return n;
}

static uint64_t put_hash(struct put *p, const char *word)
{
	if (strcmp(word, "auto") != 0)
		return put_unsigned("HASH is not a number", word);
	if (p->partition < 0)
		return p->next_auto++;
	return (uint64_t)p->partition + (uint64_t)p->partitions * p->next_auto++;
}

static ProtobufCBinaryData put_bytes(const char *text)
{
	return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

/* TIME TENANT HASH BYTES [POLICY] [zone=Z] [key=K] */
static void put_stream(struct put *p, char **word, int n)
{
	const char *tenant = strcmp(word[1], "-") == 0 ? "" : word[1], *key = tenant;
	const char *zone = "", *policy = "";
	Oracle__Record record = ORACLE__RECORD__INIT;
	Oracle__Metadata metadata = ORACLE__METADATA__INIT, *list[] = {&metadata};
	uint8_t value[4096];
	uint64_t hash = put_hash(p, word[2]);

	for (int i = 4; i < n; i++) {
		if (strncmp(word[i], "zone=", 5) == 0)
			zone = word[i] + 5;
		else if (strncmp(word[i], "key=", 4) == 0)
			key = word[i] + 4;
		else
			policy = word[i];
	}
	metadata.stream_hash = hash;
	metadata.total_size = put_unsigned("BYTES is not a number", word[3]);
	metadata.ingestion_policy = put_bytes(policy);
	metadata.has_stream_hash = hash != 0;
	metadata.has_total_size = metadata.total_size != 0;
	metadata.has_ingestion_policy = *policy != '\0';
	record.zone = put_bytes(zone);
	record.tenant = put_bytes(tenant);
	record.has_zone = *zone != '\0';
	record.has_tenant = *tenant != '\0';
	record.metadata = list;
	record.n_metadata = 1;
	if (oracle__record__get_packed_size(&record) > sizeof(value))
		kafka_fail(p->topic, "the names are too long");
	put_send(p,
		&(struct put_record){
			.partition = p->partition >= 0 ? p->partition
						       : (int32_t)(hash % (uint64_t)p->partitions),
			.key = key,
			.key_len = strlen(key),
			.value = value,
			.value_len = oracle__record__pack(&record, value),
			.timestamp = put_timestamp(word[0]),
		});
}

/* Bytes that no reader of protobuf takes: a tag that has no end. */
static void put_garbage(struct put *p, const char *word)
{
	size_t len = (size_t)put_unsigned("garbage: not a number", word);
	char *bytes = malloc(len + 1);

	if (bytes == NULL)
		kafka_fail("garbage", "out of memory");
	memset(bytes, 0xff, len);
	put_send(p, &(struct put_record){.partition = p->partition < 0 ? 0 : p->partition,
			    .value = bytes,
			    .value_len = len,
			    .timestamp = put_wall_ms()});
	free(bytes);
}

/* False when there is nothing on the line. */
static bool put_line(struct put *p, char *line)
{
	char *word[PUT_WORDS_MAX + 1], *rest = line, whole[160];
	int n = 0;

	snprintf(whole, sizeof(whole), "%.*s", (int)strcspn(line, "\n"), line);
	while (n <= PUT_WORDS_MAX && (word[n] = strtok_r(rest, " \t\n", &rest)) != NULL)
		n++;
	if (n == 0)
		return false;
	if (n == 2 && strcmp(word[0], "tombstone") == 0)
		put_send(p, &(struct put_record){.partition = p->partition < 0 ? 0 : p->partition,
				    .key = word[1],
				    .key_len = strlen(word[1]),
				    .timestamp = put_wall_ms()});
	else if (n == 2 && strcmp(word[0], "garbage") == 0)
		put_garbage(p, word[1]);
	else if (n >= 4 && n <= PUT_WORDS_MAX)
		put_stream(p, word, n);
	else
		kafka_fail(whole, "expected TIME TENANT HASH BYTES [POLICY] [zone=Z] [key=K], "
				  "tombstone KEY or garbage N");
	if (++p->lines % p->batch == 0)
		put_flush(p);
	return true;
}

/* --- all of them ----------------------------------------------------------------------------- */

/* Up to the end of stdin; with a transaction that stays open, up to an empty line. */
static void put_lines(struct put *p)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0)
		if (!put_line(p, line) && p->txn != NULL && strcmp(p->txn, "open") == 0)
			break;
	free(line);
	put_flush(p);
}

static void put_report(const struct put *p)
{
	if (p->partition >= 0)
		printf("first=%" PRId64 " last=%" PRId64 "\n", p->first[p->partition],
			p->last[p->partition]);
	for (int i = 0; i < p->partitions && p->partition < 0; i++)
		if (p->first[i] >= 0)
			printf("partition=%d first=%" PRId64 " last=%" PRId64 "\n", i, p->first[i],
				p->last[i]);
	fflush(stdout);
}

/* What becomes of an open transaction: a line says it; without one it stays open. */
static const char *put_verdict(void)
{
	static char line[64];

	puts("open");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL)
		_exit(0);
	line[strcspn(line, "\r\n")] = '\0';
	return line;
}

static void put_end(struct put *p, const char *verdict)
{
	if (strcmp(verdict, "commit") == 0)
		kafka_check("commit", rd_kafka_commit_transaction(p->rk, KAFKA_TIMEOUT_MS));
	else if (strcmp(verdict, "abort") == 0)
		kafka_check("abort", rd_kafka_abort_transaction(p->rk, KAFKA_TIMEOUT_MS));
	else
		kafka_fail(verdict, "a transaction ends with commit or abort");
}

/* What follows TOPIC on the command line. */
static void put_options(struct put *p, const struct kafka_run *r)
{
	for (int i = 1; i < r->n; i++) {
		const char *word = r->arg[i], *value = i + 1 < r->n ? r->arg[i + 1] : "";

		if (word[0] != '-') {
			p->partition = (int)text_number("PARTITION", word);
			continue;
		}
		if (strcmp(word, "--txn") == 0)
			p->txn = value;
		else if (strcmp(word, "--id") == 0)
			p->id = value;
		else if (strcmp(word, "--compression") == 0)
			p->compression = value;
		else if (strcmp(word, "--batch") == 0)
			p->batch = text_number("--batch", value);
		else
			kafka_fail(word, "put: no such option");
		i++;
	}
	if (p->batch < 1)
		kafka_fail("--batch", "at least 1");
	if (p->txn != NULL && strcmp(p->txn, "commit") != 0 && strcmp(p->txn, "abort") != 0 &&
		strcmp(p->txn, "open") != 0)
		kafka_fail("--txn", "commit, abort or open");
}

void put_run(struct kafka_run *r)
{
	static struct put put = {.partition = -1, .batch = INT32_MAX, .compression = "none"};
	struct put *p = &put;
	char id[32];

	snprintf(id, sizeof(id), "kafka-do-%d", (int)getpid());
	p->topic = r->arg[0];
	p->id = id;
	put_options(p, r);
	put_open(p, r->kafka);
	if (p->txn != NULL) {
		kafka_check("transaction", rd_kafka_init_transactions(p->rk, KAFKA_TIMEOUT_MS));
		kafka_check("transaction", rd_kafka_begin_transaction(p->rk));
	}
	put_lines(p);
	put_report(p);
	if (p->txn == NULL)
		return;
	if (strcmp(p->txn, "open") == 0) {
		put_end(p, put_verdict());
		puts("done");
	} else {
		put_end(p, p->txn);
	}
}
