/*
 * topic.c - kafka-do's create, delete, grow and config.
 *
 *	words --> NewTopic, ConfigResource --> the broker's yes --> metadata, DescribeConfigs: so?
 */
#include "tests/tools/kafka/topic.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tools/text.h"

#define TOPIC_ENTRIES_MAX 64

static void topic_check(const char *what, const rd_kafka_topic_result_t **topic, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rd_kafka_topic_result_error(topic[i]) != 0)
			kafka_fail_err(what, rd_kafka_topic_result_error(topic[i]),
				rd_kafka_topic_result_error_string(topic[i]));
}

struct topic_wish {
	rd_kafka_t *rk;
	const char *topic;
	int partitions; /* 0: gone */
};

/* As many partitions as that, each of them with a leader. */
static bool topic_is_so(void *arg)
{
	const struct topic_wish *wish = arg;
	const struct rd_kafka_metadata *md = kafka_metadata(wish->rk, wish->topic);
	const struct rd_kafka_metadata_topic *t = &md->topics[0];
	bool so = t->err == 0 && t->partition_cnt == wish->partitions;

	if (wish->partitions == 0)
		so = t->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	for (int i = 0; i < t->partition_cnt && so; i++)
		so = t->partitions[i].err == 0 && t->partitions[i].leader >= 0;
	rd_kafka_metadata_destroy(md);
	return so;
}

static void topic_wait(struct kafka_run *r, int partitions)
{
	kafka_wait(topic_is_so, &(struct topic_wish){r->rk, r->arg[0], partitions}, r->arg[0]);
}

void topic_create(struct kafka_run *r)
{
	int partitions = (int)text_number("PARTITIONS", r->arg[1]), replication = 1;
	const rd_kafka_topic_result_t **topics;
	rd_kafka_NewTopic_t *topic;
	rd_kafka_event_t *event;
	char why[512];
	size_t n;

	for (int i = 2; i < r->n; i++)
		if (strncmp(r->arg[i], "replication=", 12) == 0)
			replication = (int)text_number("replication", r->arg[i] + 12);
	topic = rd_kafka_NewTopic_new(r->arg[0], partitions, replication, why, sizeof(why));
	if (topic == NULL)
		kafka_fail(r->arg[0], why);
	for (int i = 2; i < r->n; i++) {
		char *value = kafka_cut(r->arg[i]);

		if (strcmp(r->arg[i], "replication") != 0)
			rd_kafka_NewTopic_set_config(topic, r->arg[i], value);
	}
	rd_kafka_CreateTopics(r->rk, &topic, 1, r->options, r->queue);
	event = kafka_answer(r, r->arg[0]);
	topics = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
	topic_check(r->arg[0], topics, n);
	topic_wait(r, partitions);
}

void topic_delete(struct kafka_run *r)
{
	rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(r->arg[0]);
	const rd_kafka_topic_result_t **topics;
	rd_kafka_event_t *event;
	size_t n;

	rd_kafka_DeleteTopics(r->rk, &topic, 1, r->options, r->queue);
	event = kafka_answer(r, r->arg[0]);
	topics = rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n);
	topic_check(r->arg[0], topics, n);
	topic_wait(r, 0);
}

void topic_grow(struct kafka_run *r)
{
	int partitions = (int)text_number("PARTITIONS", r->arg[1]);
	const rd_kafka_topic_result_t **topics;
	rd_kafka_NewPartitions_t *more;
	rd_kafka_event_t *event;
	char why[512];
	size_t n;

	more = rd_kafka_NewPartitions_new(r->arg[0], (size_t)partitions, why, sizeof(why));
	if (more == NULL)
		kafka_fail(r->arg[0], why);
	rd_kafka_CreatePartitions(r->rk, &more, 1, r->options, r->queue);
	event = kafka_answer(r, r->arg[0]);
	topics = rd_kafka_CreatePartitions_result_topics(
		rd_kafka_event_CreatePartitions_result(event), &n);
	topic_check(r->arg[0], topics, n);
	topic_wait(r, partitions);
}

/* --- their configuration --------------------------------------------------------------------- */

struct config {
	char *name[TOPIC_ENTRIES_MAX], *value[TOPIC_ENTRIES_MAX];
	int n;
};

static void config_check(const char *what, const rd_kafka_ConfigResource_t **resource, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rd_kafka_ConfigResource_error(resource[i]) != 0)
			kafka_fail_err(what, rd_kafka_ConfigResource_error(resource[i]),
				rd_kafka_ConfigResource_error_string(resource[i]));
}

/* An empty value takes the entry out. */
static void config_set(struct config *c, const char *name, const char *value)
{
	int i = 0;

	while (i < c->n && strcmp(c->name[i], name) != 0)
		i++;
	if (i == TOPIC_ENTRIES_MAX)
		kafka_fail(name, "too many entries");
	if (*value == '\0') {
		if (i < c->n) {
			c->name[i] = c->name[--c->n];
			c->value[i] = c->value[c->n];
		}
		return;
	}
	c->name[i] = strdup(name);
	c->value[i] = strdup(value);
	c->n += i == c->n;
}

/* What has been set on the topic, without the defaults. */
static void config_read(struct kafka_run *r, struct config *c)
{
	rd_kafka_ConfigResource_t *ask =
		rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, r->arg[0]);
	const rd_kafka_ConfigResource_t **resource;
	const rd_kafka_ConfigEntry_t **entry;
	rd_kafka_event_t *event;
	size_t n;

	c->n = 0;
	rd_kafka_DescribeConfigs(r->rk, &ask, 1, r->options, r->queue);
	event = kafka_answer(r, r->arg[0]);
	resource = rd_kafka_DescribeConfigs_result_resources(
		rd_kafka_event_DescribeConfigs_result(event), &n);
	config_check(r->arg[0], resource, n);
	entry = rd_kafka_ConfigResource_configs(resource[0], &n);
	for (size_t i = 0; i < n; i++)
		if (rd_kafka_ConfigEntry_source(entry[i]) ==
				RD_KAFKA_CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG &&
			rd_kafka_ConfigEntry_value(entry[i]) != NULL)
			config_set(c, rd_kafka_ConfigEntry_name(entry[i]),
				rd_kafka_ConfigEntry_value(entry[i]));
	rd_kafka_event_destroy(event);
	rd_kafka_ConfigResource_destroy(ask);
}

struct config_wish {
	struct kafka_run *run;
	const struct config *config;
};

static bool config_is_so(void *arg)
{
	const struct config_wish *wish = arg;
	struct config now;
	int found = 0;

	config_read(wish->run, &now);
	for (int i = 0; i < now.n; i++)
		for (int j = 0; j < wish->config->n; j++)
			found += strcmp(now.name[i], wish->config->name[j]) == 0 &&
				 strcmp(now.value[i], wish->config->value[j]) == 0;
	return found == wish->config->n && now.n == wish->config->n;
}

/* AlterConfigs replaces all, so what is there is sent along. */
void topic_config(struct kafka_run *r)
{
	rd_kafka_ConfigResource_t *set =
		rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, r->arg[0]);
	const rd_kafka_ConfigResource_t **resource;
	rd_kafka_event_t *event;
	struct config c;
	size_t n;

	config_read(r, &c);
	for (int i = 1; i < r->n; i++) {
		char *value = kafka_cut(r->arg[i]);

		config_set(&c, r->arg[i], value);
	}
	for (int i = 0; i < c.n; i++)
		rd_kafka_ConfigResource_set_config(set, c.name[i], c.value[i]);
	rd_kafka_AlterConfigs(r->rk, &set, 1, r->options, r->queue);
	event = kafka_answer(r, r->arg[0]);
	resource = rd_kafka_AlterConfigs_result_resources(
		rd_kafka_event_AlterConfigs_result(event), &n);
	config_check(r->arg[0], resource, n);
	kafka_wait(config_is_so, &(struct config_wish){r, &c}, r->arg[0]);
}
