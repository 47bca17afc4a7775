/*
 * kafka.c - what kafka-do stands on: see kafka.h.
 *
 *	--brokers, --property --> kafka_open --> kafka_metadata, kafka_look_up, kafka_wait
 */
#include "tests/tools/kafka/kafka.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	char line[512];
} kafka_said = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* librdkafka's threads: the last line is kept, for an error that has no reason of its own. */
static void kafka_on_log(const rd_kafka_t *rk, int level, const char *fac, const char *buf)
{
	(void)rk;
	if (level == 7) /* only with --property debug=... */
		fprintf(stderr, "%s: %s\n", fac, buf);
	if (level > 4)
		return;
	pthread_mutex_lock(&kafka_said.lock);
	snprintf(kafka_said.line, sizeof(kafka_said.line), "%s", buf);
	pthread_mutex_unlock(&kafka_said.lock);
}

_Noreturn void kafka_fail(const char *what, const char *why)
{
	fflush(stdout);
	fprintf(stderr, "kafka-do: %s: %s\n", what, why);
	_exit(1);
}

_Noreturn void kafka_fail_err(const char *what, rd_kafka_resp_err_t err, const char *why)
{
	char text[1200];

	pthread_mutex_lock(&kafka_said.lock);
	if (err < 0 && kafka_said.line[0] != '\0')
		snprintf(text, sizeof(text), "%s: %s; %s", rd_kafka_err2name(err),
			why ? why : rd_kafka_err2str(err), kafka_said.line);
	else
		snprintf(text, sizeof(text), "%s: %s", rd_kafka_err2name(err),
			why ? why : rd_kafka_err2str(err));
	kafka_fail(what, text);
}

void kafka_check(const char *what, const rd_kafka_error_t *error)
{
	if (error != NULL)
		kafka_fail_err(what, rd_kafka_error_code(error), rd_kafka_error_string(error));
}

void kafka_set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[512];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK)
		kafka_fail(name, why);
}

rd_kafka_t *kafka_open(const struct kafka *k, rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
	char why[512];
	rd_kafka_t *rk;

	kafka_set(conf, "bootstrap.servers", k->brokers);
	for (int i = 0; i < k->n_properties; i++)
		kafka_set(conf, k->property[i][0], k->property[i][1]);
	rd_kafka_conf_set_log_cb(conf, kafka_on_log);
	rk = rd_kafka_new(type, conf, why, sizeof(why));
	if (rk == NULL)
		kafka_fail("no handle", why);
	return rk;
}

rd_kafka_t *kafka_reader(const struct kafka *k, const char *isolation)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	kafka_set(conf, "isolation.level", isolation);
	kafka_set(conf, "enable.partition.eof", "true");
	kafka_set(conf, "auto.offset.reset", "error");
	kafka_set(conf, "check.crcs", "true");
	kafka_set(conf, "fetch.wait.max.ms", "10");
	return kafka_open(k, RD_KAFKA_CONSUMER, conf);
}

const struct rd_kafka_metadata *kafka_metadata(rd_kafka_t *rk, const char *topic)
{
	rd_kafka_topic_t *t = rd_kafka_topic_new(rk, topic, NULL);
	const struct rd_kafka_metadata *md;
	rd_kafka_resp_err_t err;

	if (t == NULL)
		kafka_fail_err(topic, rd_kafka_last_error(), NULL);
	err = rd_kafka_metadata(rk, 0, t, &md, KAFKA_TIMEOUT_MS);
	rd_kafka_topic_destroy(t);
	if (err != 0)
		kafka_fail_err(topic, err, NULL);
	if (md->topic_cnt != 1)
		kafka_fail(topic, "the metadata does not speak of it");
	return md;
}

static int64_t kafka_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void kafka_wait(bool (*so)(void *arg), void *arg, const char *what)
{
	int64_t until = kafka_now_ms() + KAFKA_TIMEOUT_MS;

	while (!so(arg)) {
		if (kafka_now_ms() > until)
			kafka_fail(what, "not seen in 15 s");
		usleep(5000);
	}
}

int kafka_partitions(rd_kafka_t *rk, const char *topic)
{
	const struct rd_kafka_metadata *md = kafka_metadata(rk, topic);
	int n = md->topics[0].partition_cnt;

	if (md->topics[0].err != 0)
		kafka_fail_err(topic, md->topics[0].err, NULL);
	rd_kafka_metadata_destroy(md);
	return n;
}

void kafka_look_up(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int64_t which)
{
	int64_t until = kafka_now_ms() + KAFKA_TIMEOUT_MS;
	rd_kafka_resp_err_t err;

	if (list->cnt == 0)
		return;
	do {
		for (int i = 0; i < list->cnt; i++)
			list->elems[i].offset = which;
		err = rd_kafka_offsets_for_times(rk, list, KAFKA_TIMEOUT_MS);
		for (int i = 0; i < list->cnt && err == 0; i++)
			err = list->elems[i].err;
	} while ((err == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION ||
			 err == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
			 err == RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE) &&
		 kafka_now_ms() < until && usleep(20000) == 0);
	if (err != 0)
		kafka_fail_err(list->elems[0].topic, err, NULL);
}

int64_t kafka_look_up_one(rd_kafka_t *rk, const char *topic, int32_t partition, int64_t which)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
	int64_t offset;

	rd_kafka_topic_partition_list_add(list, topic, partition);
	kafka_look_up(rk, list, which);
	offset = list->elems[0].offset;
	rd_kafka_topic_partition_list_destroy(list);
	return offset;
}

/* --- commands ------------------------------------------------------------------------------ */

void kafka_open_admin(struct kafka_run *r)
{
	char why[512];

	r->rk = kafka_reader(r->kafka, "read_uncommitted");
	r->queue = rd_kafka_queue_new(r->rk);
	r->options = rd_kafka_AdminOptions_new(r->rk, RD_KAFKA_ADMIN_OP_ANY);
	if (rd_kafka_AdminOptions_set_request_timeout(
		    r->options, KAFKA_TIMEOUT_MS, why, sizeof(why)) != 0)
		kafka_fail("admin", why);
}

rd_kafka_event_t *kafka_answer(struct kafka_run *r, const char *what)
{
	rd_kafka_event_t *event = rd_kafka_queue_poll(r->queue, 2 * KAFKA_TIMEOUT_MS);

	if (event == NULL)
		kafka_fail(what, "no answer");
	if (rd_kafka_event_error(event) != 0)
		kafka_fail_err(
			what, rd_kafka_event_error(event), rd_kafka_event_error_string(event));
	return event;
}

char *kafka_cut(char *word)
{
	char *equals = strchr(word, '=');

	if (equals == NULL || equals == word)
		kafka_fail(word, "expected key=value");
	*equals = '\0';
	return equals + 1;
}
