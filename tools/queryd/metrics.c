/*
 * metrics.c - /metrics, in Prometheus' text format.
 *
 *	all query processes -> tally_query_*, tally_access_*; tally_ask_*, tally_grpc_* (metrics_asker.c)
 *	the table    -> tally_* of instance and partitions (fields.c)
 *	/proc        -> tally_process_* (metrics_processes.c)
 *	the stores   -> tally_tenant_* of the largest tenants (metrics_tenants.c)
 *	Loki's names -> metrics_loki.c
 *
 * O(partitions + largest tenants) samples.  What there is, is in metrics_table.c.  Without
 * an instance, what is known without one is still there, with tally_up 0; without memory
 * there is no answer, since a tally_up 0 would not be true.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "fields.h"
#include "metrics.h"
#include "metrics_table.h"
#include "prom.h"
#include "route.h"

const char *metrics_number(char text[16], uint32_t value)
{
	snprintf(text, 16, "%" PRIu32, value);
	return text;
}

/* --- the query processes
 * --------------------------------------------------------------------------------- */

static void write_answers(FILE *out, const struct counted *counted)
{
	static const char name[] = "tally_query_answers_total";
	char text[16];

	metrics_head(out, name);
	for (unsigned i = 0; i <= ANSWER_ROUTES_MAX; i++) {
		const struct route *route = route_at(i);

		if (route == NULL && i != ANSWER_ROUTES_MAX)
			continue;
		for (unsigned s = 0; answer_status_at(s) != 0; s++) {
			uint64_t count = counted->answers[i][s];

			if (count > 0)
				prom_count(out, name,
					PROM_LABELS("route", route != NULL ? route->pattern : "",
						"status",
						metrics_number(text, answer_status_at(s))),
					count);
		}
	}
}

static void write_access(FILE *out, struct access *access, const struct counted *counted)
{
	static const char *const protocols[ACCESS_PROTOCOLS] = {"http", "grpc"};
	static const char tokens[] = "tally_access_tokens",
			  refused[] = "tally_access_refused_total";

	metrics_head(out, tokens);
	if (access != NULL)
		prom_count(out, tokens, NULL, access_tokens(access));
	metrics_head(out, refused);
	for (unsigned p = 0; access != NULL && p < ACCESS_PROTOCOLS; p++)
		for (unsigned v = ACCESS_GRANTED + 1; v < ACCESS_VERDICTS; v++)
			prom_count(out, refused,
				PROM_LABELS("protocol", protocols[p], "reason", access_word(v)),
				counted->refused[p][v]);
}

static void write_process(FILE *out, struct query *query, const struct counted *counted)
{
	const struct counted_http *http = &counted->http;
	char text[32];

	metrics_head(out, "tally_build_info");
	prom_count(out, "tally_build_info", PROM_LABELS("version", QUERYD_VERSION), 1);
	metrics_head(out, "tally_query_start_timestamp_seconds");
	snprintf(text, sizeof(text), "%.15g", (double)http->started_ms / 1000);
	prom_sample(out, "tally_query_start_timestamp_seconds", NULL, text);
	write_answers(out, counted);
	metrics_single(out, "tally_query_rebuilt_total", http->rebuilt);
	metrics_single(out, "tally_query_connections", http->connections);
	metrics_single(out, "tally_query_connections_accepted_total", http->accepted);
	metrics_head(out, "tally_query_connections_ended_total");
	prom_count(out, "tally_query_connections_ended_total", PROM_LABELS("reason", "room"),
		http->ended_for_room);
	prom_count(out, "tally_query_connections_ended_total", PROM_LABELS("reason", "slow"),
		http->ended_late);
	write_access(out, query->access, counted);
	if (query->gather != NULL)
		metrics_asker(out, counted, query->counts, query->asker, NULL);
}

/* --- the table
 * -------------------------------------------------------------------------------------- */

static void write_instance(struct scrape *scrape)
{
	static const char *const loads[] = {"none", "ok", "refused"};
	const struct tally_instance *instance = &scrape->instance;
	const struct field *fields;
	char text[40];
	size_t n;

	metrics_head(scrape->out, "tally_instance_info");
	prom_count(scrape->out, "tally_instance_info",
		PROM_LABELS("topic", instance->topic, "group", instance->group, "zone",
			instance->zone, "instance_name", instance->instance),
		1);
	metrics_head(scrape->out, "tally_group_state");
	prom_count(
		scrape->out, "tally_group_state", PROM_LABELS("state", instance->group_state), 1);
	metrics_head(scrape->out, "tally_limits_state");
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		prom_count(scrape->out, "tally_limits_state", PROM_LABELS("state", loads[i]),
			strcmp(instance->limits_state, loads[i]) == 0);
	fields = fields_of_instance(&n);
	for (size_t i = 0; i < n; i++) {
		if (fields[i].metric == NULL)
			continue;
		metrics_head(scrape->out, fields[i].metric);
		if (field_to_sample(&fields[i], instance, text))
			prom_sample(scrape->out, fields[i].metric, NULL, text);
	}
}

static void write_fields(struct scrape *scrape)
{
	char text[40], partition[16];
	const struct field *fields;
	size_t n;

	fields = fields_of_partition(&n);
	for (size_t i = 0; i < n; i++) {
		if (fields[i].metric == NULL)
			continue;
		metrics_head(scrape->out, fields[i].metric);
		for (size_t p = 0; p < scrape->n; p++) {
			const struct tally_partition *of = &scrape->partitions[p];

			if ((of->has_stats || !field_from_stats(&fields[i])) &&
				field_to_sample(&fields[i], of, text))
				prom_sample(scrape->out, fields[i].metric,
					PROM_LABELS("partition",
						metrics_number(partition, of->partition)),
					text);
		}
	}
}

static void write_states(struct scrape *scrape)
{
	static const char *const states[] = {
		"pending", "replaying", "ready", "draining", "parked", "failed", "stopped"};
	static const char name[] = "tally_partition_state";
	char partition[16];

	metrics_head(scrape->out, name);
	for (size_t p = 0; p < scrape->n; p++)
		for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++)
			prom_count(scrape->out, name,
				PROM_LABELS("partition",
					metrics_number(partition, scrape->partitions[p].partition),
					"state", states[s]),
				strcmp(scrape->partitions[p].state, states[s]) == 0);
}

static void write_skipped(struct scrape *scrape)
{
	static const char name[] = "tally_records_skipped_total";
	char partition[16];

	metrics_head(scrape->out, name);
	for (size_t p = 0; p < scrape->n; p++)
		for (unsigned r = 1;
			scrape->partitions[p].has_stats && tally_skip_reason(r) != NULL; r++)
			prom_count(scrape->out, name,
				PROM_LABELS("partition",
					metrics_number(partition, scrape->partitions[p].partition),
					"reason", tally_skip_reason(r)),
				scrape->partitions[p].skipped[r]);
}

static void write_deaths(struct scrape *scrape)
{
	static const char name[] = "tally_worker_last_death_info";
	char partition[16];

	metrics_head(scrape->out, name);
	for (size_t p = 0; p < scrape->n; p++) {
		const struct tally_partition *of = &scrape->partitions[p];

		if (strcmp(of->death, "none") != 0)
			prom_count(scrape->out, name,
				PROM_LABELS("partition", metrics_number(partition, of->partition),
					"kind", of->death, "detail", of->death_detail),
				1);
	}
}

static void write_phases(struct scrape *scrape)
{
	static const char name[] = "tally_worker_phase";
	char partition[16];

	metrics_head(scrape->out, name);
	for (size_t p = 0; p < scrape->n; p++)
		if (scrape->partitions[p].has_stats)
			prom_count(scrape->out, name,
				PROM_LABELS("partition",
					metrics_number(partition, scrape->partitions[p].partition),
					"phase", scrape->partitions[p].phase),
				1);
}

static void write_problems(struct scrape *scrape)
{
	static const char name[] = "tally_worker_problem";
	char partition[16], words[sizeof(scrape->partitions->problems)], *rest, *word;

	metrics_head(scrape->out, name);
	for (size_t p = 0; p < scrape->n; p++) {
		if (!scrape->partitions[p].has_stats)
			continue;
		memcpy(words, scrape->partitions[p].problems, sizeof(words));
		for (rest = words; (word = strtok_r(rest, " ", &rest)) != NULL;)
			prom_count(scrape->out, name,
				PROM_LABELS("partition",
					metrics_number(partition, scrape->partitions[p].partition),
					"problem", word),
				1);
	}
}

/* 0: it is in scrape.  Loki's names come from the same picture. */
static int look(struct scrape *scrape)
{
	struct seat *seat = scrape->question->seat;
	int err = seat_attach(scrape->question->query->seats, seat);

	if (err == 0)
		err = tally_instance(seat->table, &scrape->instance);
	if (err == 0)
		err = answer_list_partitions(seat->table, &scrape->partitions, &scrape->n);
	return err;
}

static void write_instance_and_all(struct scrape *scrape)
{
	metrics_processes(scrape);
	write_instance(scrape);
	write_states(scrape);
	write_fields(scrape);
	write_skipped(scrape);
	write_deaths(scrape);
	write_phases(scrape);
	write_problems(scrape);
	metrics_tenants(scrape);
}

static void write_all(struct scrape *scrape, bool up)
{
	struct query *query = scrape->question->query;

	metrics_single(scrape->out, "tally_up", up);
	write_process(scrape->out, query, scrape->counted);
	if (up)
		write_instance_and_all(scrape);
	if (!query->metrics_loki)
		return;
	if (up)
		metrics_loki(scrape);
	if (query->gather != NULL)
		metrics_asker(scrape->out, scrape->counted, query->counts, query->asker,
			scrape->instance.zone);
}

/* What passes by itself says nothing of the instance. */
static bool is_trouble_of_ours(int err)
{
	return err == TALLY_ENOMEM || err == TALLY_EBUSY;
}

int answer_metrics(struct question *question, struct answer *answer)
{
	struct counted counted;
	struct scrape scrape = {.question = question, .counted = &counted};
	int err;

	if (question->query->metrics_tenants > 0 && question_ranked(question) != 0)
		return ANSWER_LATER;
	err = look(&scrape);
	answer_clear(answer);
	if (is_trouble_of_ours(err))
		return err;
	scrape.out = open_memstream(&answer->body, &answer->len);
	if (scrape.out == NULL) {
		free(scrape.partitions);
		return TALLY_ENOMEM;
	}
	if (err == 0)
		totals_update(
			question->query->totals, &scrape.instance, scrape.partitions, scrape.n);
	metrics_count(question->query, &counted);
	write_all(&scrape, err == 0);
	free(scrape.partitions);
	answer->status = 200;
	answer->type = PROM_TYPE;
	return fclose(scrape.out) == 0 ? 0 : TALLY_ENOMEM;
}
