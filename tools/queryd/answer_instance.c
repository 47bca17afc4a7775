/*
 * answer_instance.c - the instance and its partitions, from the table alone.
 *
 *	/healthz /ready /api/v1/instance /api/v1/partitions /api/v1/partitions/{n}
 *
 * None of these reads a store, so they answer while partitions replay and
 * while the supervisor is gone; nothing here stands for what a tenant uses.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"

#define HISTORY_MAX 32 /* changes of a partition that an answer has */

int answer_healthz(struct question *question, struct answer *answer)
{
	json_t *json = json_object();

	(void)question;
	json_object_set_new(json, "status", json_string("ok"));
	answer_json(answer, 200, json);
	return 0;
}

/* Why a partition does not answer, in words. */
static void why_not_ready(const struct tally_instance *instance, const struct tally_partition *p,
	char *why, size_t size)
{
	if (instance->topic_partitions > 0 && p->partition >= instance->topic_partitions)
		snprintf(why, size,
			"the topic does not have it: kafka.partitions is %u, the topic has %u",
			(unsigned)instance->partitions, (unsigned)instance->topic_partitions);
	else if (strcmp(p->state, "ready") == 0)
		snprintf(why, size,
			"its lease is over: the supervisor is gone or has lost touch with Kafka");
	else if (strcmp(p->state, "replaying") == 0 && p->eta_ms >= 0)
		snprintf(why, size, "replaying: %.1f %% done, about %lld s to go",
			p->progress * 100, (long long)(p->eta_ms / 1000));
	else if (strcmp(p->state, "replaying") == 0)
		snprintf(why, size, "replaying: %.1f %% done", p->progress * 100);
	else if (p->retry_in_ms > 0)
		snprintf(why, size, "its worker died (%s %s) and is started again after %u ms",
			p->death, p->death_detail, (unsigned)p->retry_in_ms);
	else if (strcmp(p->state, "pending") == 0)
		snprintf(why, size, "its worker is %s", p->has_stats ? p->phase : "starting");
	else
		snprintf(why, size, "it is %s", p->state);
	if (p->has_stats && p->problems[0] != '\0') {
		size_t used = strlen(why);

		snprintf(why + used, size - used, "; its worker says: %s", p->problems);
	}
}

static json_t *not_ready_list(
	const struct tally_instance *instance, const struct tally_partition *partitions, size_t n)
{
	json_t *list = json_array();
	char why[256];

	for (size_t i = 0; i < n; i++) {
		json_t *one;

		if (partitions[i].ready)
			continue;
		why_not_ready(instance, &partitions[i], why, sizeof(why));
		one = json_object();
		json_object_set_new(one, "partition", json_integer(partitions[i].partition));
		json_object_set_new(one, "state", answer_text(partitions[i].state));
		json_object_set_new(one, "reason", answer_text(why));
		json_array_append_new(list, one);
	}
	return list;
}

int answer_ready(struct question *question, struct answer *answer)
{
	struct tally_partition *partitions;
	struct tally_instance instance;
	json_t *json, *list;
	const char *reason = NULL;
	size_t n;
	int err;

	err = tally_instance(question->seat->table, &instance);
	if (err == 0)
		err = answer_list_partitions(question->seat->table, &partitions, &n);
	if (err != 0)
		return err;
	list = not_ready_list(&instance, partitions, n);
	free(partitions);
	if (!instance.alive)
		reason = instance.stopped ? "the supervisor has stopped" : "the supervisor is gone";
	else if (n == 0)
		reason = "this instance owns no partition";
	else if (json_array_size(list) > 0)
		reason = "not all partitions are ready";
	json = json_object();
	if (reason != NULL) {
		json_object_set_new(json, "error", json_string("not_ready"));
		json_object_set_new(json, "reason", json_string(reason));
	}
	json_object_set_new(json, "ready", json_boolean(reason == NULL));
	json_object_set_new(json, "group_state", answer_text(instance.group_state));
	json_object_set_new(json, "owned", json_integer((json_int_t)n));
	json_object_set_new(json, "not_ready", list);
	answer_json(answer, reason == NULL ? 200 : 503, json);
	return 0;
}

static json_t *fields_json(const struct field *fields, size_t n, const void *base, bool stats)
{
	json_t *json = json_object();

	for (size_t i = 0; i < n; i++)
		if (stats || !field_from_stats(&fields[i]))
			field_to_json(&fields[i], base, json);
	return json;
}

int answer_instance(struct question *question, struct answer *answer)
{
	struct tally_instance instance;
	const struct field *fields;
	json_t *json;
	size_t n;
	int err = tally_instance(question->seat->table, &instance);

	if (err != 0)
		return err;
	fields = fields_of_instance(&n);
	json = fields_json(fields, n, &instance, true);
	json_object_set_new(json, "now_ms", json_integer(tally_now_ms(question->seat->table)));
	answer_json(answer, 200, json);
	return 0;
}

static json_t *partition_json(const struct tally_partition *partition)
{
	const struct field *fields;
	json_t *json, *skipped;
	size_t n;

	fields = fields_of_partition(&n);
	json = fields_json(fields, n, partition, partition->has_stats);
	if (!partition->has_stats)
		return json;
	skipped = json_object();
	for (unsigned i = 1; i < TALLY_SKIP_REASONS && tally_skip_reason(i) != NULL; i++)
		json_object_set_new(
			skipped, tally_skip_reason(i), answer_count(partition->skipped[i]));
	json_object_set_new(json, "skipped", skipped);
	return json;
}

/* Which partitions could answer a question about a tenant right now. */
static json_t *table_basis(const struct tally_instance *instance)
{
	struct tally_basis basis = {
		.partitions = instance->partitions,
		.owned = instance->owned,
		.answered = instance->ready,
		.complete = instance->owned > 0 && instance->ready == instance->owned,
	};
	json_t *json = answer_basis(&basis);

	json_object_del(json, "partial"); /* nothing was read */
	return json;
}

int answer_partitions(struct question *question, struct answer *answer)
{
	struct tally_partition *partitions;
	struct tally_instance instance;
	json_t *json, *list;
	size_t n;
	int err;

	err = tally_instance(question->seat->table, &instance);
	if (err == 0)
		err = answer_list_partitions(question->seat->table, &partitions, &n);
	if (err != 0)
		return err;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, partition_json(&partitions[i]));
	free(partitions);
	json = json_object();
	json_object_set_new(json, "partitions", list);
	json_object_set_new(json, "basis", table_basis(&instance));
	answer_json(answer, 200, json);
	return 0;
}

/* The topic has it, or nobody does. */
static void say_unknown(const struct tally_instance *instance, unsigned n, struct answer *answer)
{
	unsigned served = instance->partitions, has = instance->topic_partitions;

	if (n < has)
		answer_error(answer, 404, "unknown_partition",
			"no partition %u: this Tally serves %u of the topic's %u partitions (%s)",
			n, served, has,
			has > 1024 ? "no instance can serve more than 1024" : "kafka.partitions");
	else
		answer_error(answer, 404, "unknown_partition",
			"the topic has no partition %u; it has %u of them", n,
			has > 0 ? has : served);
}

static json_t *change_json(const struct tally_change *change)
{
	json_t *json = json_object();
	char generation[24];

	snprintf(generation, sizeof(generation), "%" PRIu64, change->generation);
	json_object_set_new(json, "time_ms", json_integer(change->at_ms));
	json_object_set_new(json, "from", json_string(change->from));
	json_object_set_new(json, "to", json_string(change->to));
	json_object_set_new(json, "why", json_string(change->why));
	json_object_set_new(json, "generation", json_string(generation));
	json_object_set_new(json, "death", json_string(change->death));
	json_object_set_new(json, "death_detail", json_string(change->death_detail));
	return json;
}

/* NULL: not readable now; the rest of the answer stands without. */
static json_t *history_json(struct tally *table, uint32_t partition)
{
	struct tally_change changes[HISTORY_MAX];
	size_t n = 0;
	json_t *list;

	if (tally_history(table, partition, changes, HISTORY_MAX, &n) != 0)
		return NULL;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, change_json(&changes[i]));
	return list;
}

int answer_partition(struct question *question, struct answer *answer)
{
	const char *text = question->request->segment[3];
	struct tally_partition partition;
	struct tally_instance instance;
	json_t *json;
	uint64_t n;
	int err;

	err = tally_instance(question->seat->table, &instance);
	if (err != 0)
		return err;
	if (!request_number(text, 0, UINT32_MAX, &n)) {
		answer_error(answer, 400, "invalid", "a partition is a whole number from 0 to %u",
			instance.partitions == 0 ? 0 : (unsigned)instance.partitions - 1);
		return 0;
	}
	err = tally_partition(question->seat->table, (uint32_t)n, &partition);
	if (err == TALLY_EINVALID) {
		say_unknown(&instance, (unsigned)n, answer);
		return 0;
	}
	if (err != 0)
		return err;
	json = partition_json(&partition);
	json_object_set_new(json, "history", history_json(question->seat->table, (uint32_t)n));
	json_object_set_new(json, "basis", table_basis(&instance));
	answer_json(answer, 200, json);
	return 0;
}
