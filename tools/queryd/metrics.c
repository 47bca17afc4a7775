/*
 * metrics.c - /metrics, in Prometheus' text format.
 *
 *	this process -> tally_query_*, tally_build_info, tally_ask_*, tally_grpc_* (metrics_asker.c)
 *	the table    -> tally_* of instance and partitions (fields.c), loki_ingest_limits_*
 *	the stores   -> tally_tenant_* of the largest tenants
 *
 * O(partitions + largest tenants) samples.  Loki's names are used where one
 * means the same; the rest are ours.  Without an instance, what is known
 * without one is still there, with tally_up 0.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "metrics.h"
#include "prom.h"
#include "route.h"

#include "shm/check.h"

struct scrape {
	FILE *out;
	struct question *question;
	struct tally_instance instance;
	struct tally_partition *partitions;
	size_t n;
};

static const char *number(char text[16], uint32_t value)
{
	snprintf(text, 16, "%" PRIu32, value);
	return text;
}

/* --- this process
 * --------------------------------------------------------------------------------- */

static void write_answers(FILE *out, struct query *query)
{
	static const char name[] = "tally_query_answers_total";
	char text[16];

	prom_head(out, name, "counter", "Answers given, by route and HTTP status.");
	for (unsigned i = 0; i <= ANSWER_ROUTES_MAX; i++) {
		const struct route *route = route_at(i);

		if (route == NULL && i != ANSWER_ROUTES_MAX)
			continue;
		for (unsigned s = 0; answer_status_at(s) != 0; s++) {
			uint64_t count = atomic_load(&query->answers[i][s]);

			if (count > 0)
				prom_count(out, name,
					PROM_LABELS("route", route != NULL ? route->pattern : "",
						"status", number(text, answer_status_at(s))),
					count);
		}
	}
}

static void write_access(FILE *out, struct access *access)
{
	static const char *const protocols[ACCESS_PROTOCOLS] = {"http", "grpc"};
	static const char name[] = "tally_access_refused_total";

	if (access == NULL)
		return;
	prom_single(out, "tally_access_tokens", "gauge", "Tokens that query.tokens_file has.",
		access_tokens(access));
	prom_head(out, name, "counter", "Questions refused for want of a token, or of its scope.");
	for (unsigned p = 0; p < ACCESS_PROTOCOLS; p++)
		for (unsigned v = ACCESS_GRANTED + 1; v < ACCESS_VERDICTS; v++)
			prom_count(out, name,
				PROM_LABELS("protocol", protocols[p], "reason", access_word(v)),
				access_count(access, p, v));
}

static void write_process(FILE *out, struct query *query)
{
	struct conns_facts conns;
	char text[32];

	prom_head(out, "tally_build_info", "gauge", "Version of this query process.");
	prom_count(out, "tally_build_info", PROM_LABELS("version", QUERYD_VERSION), 1);
	prom_head(out, "tally_query_start_timestamp_seconds", "gauge",
		"Unix time when this query process started.");
	snprintf(text, sizeof(text), "%.15g", (double)query->started_at_ms / 1000);
	prom_sample(out, "tally_query_start_timestamp_seconds", NULL, text);
	write_answers(out, query);
	prom_single(out, "tally_query_rebuilt_total", "counter",
		"Answers built again because a partition left while they were built.",
		atomic_load(&query->rebuilt));
	conns_facts(query->conns, &conns);
	prom_single(out, "tally_query_connections", "gauge", "Open HTTP connections.", conns.open);
	prom_single(out, "tally_query_connections_accepted_total", "counter",
		"HTTP connections accepted.", conns.accepted);
	prom_head(out, "tally_query_connections_ended_total", "counter",
		"HTTP connections that were ended to make room, or for being too slow.");
	prom_count(out, "tally_query_connections_ended_total", PROM_LABELS("reason", "room"),
		conns.ended_for_room);
	prom_count(out, "tally_query_connections_ended_total", PROM_LABELS("reason", "slow"),
		conns.ended_late);
	write_access(out, query->access);
	if (query->ask_metrics != NULL)
		query->ask_metrics(out, query->asker, query->services);
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

	prom_head(scrape->out, "tally_instance_info", "gauge", "What this instance is.");
	prom_count(scrape->out, "tally_instance_info",
		PROM_LABELS("topic", instance->topic, "group", instance->group, "zone",
			instance->zone, "instance_name", instance->instance),
		1);
	prom_head(scrape->out, "tally_group_state", "gauge",
		"1 for the state of the consumer group membership.");
	prom_count(
		scrape->out, "tally_group_state", PROM_LABELS("state", instance->group_state), 1);
	prom_head(scrape->out, "tally_limits_state", "gauge",
		"1 for what came of the last load of the limits of tenants, else 0.");
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		prom_count(scrape->out, "tally_limits_state", PROM_LABELS("state", loads[i]),
			strcmp(instance->limits_state, loads[i]) == 0);
	fields = fields_of_instance(&n);
	for (size_t i = 0; i < n; i++) {
		if (fields[i].metric == NULL || !field_to_sample(&fields[i], instance, text))
			continue;
		prom_head(scrape->out, fields[i].metric, fields[i].type, fields[i].help);
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
		prom_head(scrape->out, fields[i].metric, fields[i].type, fields[i].help);
		for (size_t p = 0; p < scrape->n; p++) {
			const struct tally_partition *of = &scrape->partitions[p];

			if ((of->has_stats || !field_from_stats(&fields[i])) &&
				field_to_sample(&fields[i], of, text))
				prom_sample(scrape->out, fields[i].metric,
					PROM_LABELS("partition", number(partition, of->partition)),
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

	prom_head(scrape->out, name, "gauge", "1 for the state that the partition is in, else 0.");
	for (size_t p = 0; p < scrape->n; p++)
		for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++)
			prom_count(scrape->out, name,
				PROM_LABELS("partition",
					number(partition, scrape->partitions[p].partition), "state",
					states[s]),
				strcmp(scrape->partitions[p].state, states[s]) == 0);
}

static void write_skipped(struct scrape *scrape)
{
	static const char name[] = "tally_records_skipped_total";
	char partition[16];

	prom_head(scrape->out, name, "counter",
		"Records that were not counted, by reason, since the generation began.");
	for (size_t p = 0; p < scrape->n; p++)
		for (unsigned r = 1;
			scrape->partitions[p].has_stats && tally_skip_reason(r) != NULL; r++)
			prom_count(scrape->out, name,
				PROM_LABELS("partition",
					number(partition, scrape->partitions[p].partition),
					"reason", tally_skip_reason(r)),
				scrape->partitions[p].skipped[r]);
}

static void write_deaths(struct scrape *scrape)
{
	static const char name[] = "tally_worker_last_death_info";
	char partition[16];

	prom_head(scrape->out, name, "gauge", "How the partition's worker died last.");
	for (size_t p = 0; p < scrape->n; p++) {
		const struct tally_partition *of = &scrape->partitions[p];

		if (strcmp(of->death, "none") != 0)
			prom_count(scrape->out, name,
				PROM_LABELS("partition", number(partition, of->partition), "kind",
					of->death, "detail", of->death_detail),
				1);
	}
}

static void write_phases(struct scrape *scrape)
{
	static const char name[] = "tally_worker_phase";
	char partition[16];

	prom_head(scrape->out, name, "gauge", "1 for the phase that the partition's worker is in.");
	for (size_t p = 0; p < scrape->n; p++)
		if (scrape->partitions[p].has_stats)
			prom_count(scrape->out, name,
				PROM_LABELS("partition",
					number(partition, scrape->partitions[p].partition), "phase",
					scrape->partitions[p].phase),
				1);
}

static void write_problems(struct scrape *scrape)
{
	static const char name[] = "tally_worker_problem";
	char partition[16], words[sizeof(scrape->partitions->problems)], *rest, *word;

	prom_head(scrape->out, name, "gauge",
		"1 for each thing that is wrong but healing in the partition's worker.");
	for (size_t p = 0; p < scrape->n; p++) {
		if (!scrape->partitions[p].has_stats)
			continue;
		memcpy(words, scrape->partitions[p].problems, sizeof(words));
		for (rest = words; (word = strtok_r(rest, " ", &rest)) != NULL;)
			prom_count(scrape->out, name,
				PROM_LABELS("partition",
					number(partition, scrape->partitions[p].partition),
					"problem", word),
				1);
	}
}

/* Loki's numbers for states; those it does not have are 0, unknown. */
static unsigned loki_state(const struct tally_partition *partition)
{
	if (partition->ready)
		return 3;
	if (strcmp(partition->state, "replaying") == 0)
		return 2;
	return strcmp(partition->state, "pending") == 0 ? 1 : 0;
}

static void write_loki(struct scrape *scrape)
{
	struct totals *totals = scrape->question->query->totals;
	struct totals_sum sum;
	char partition[16];

	prom_head(scrape->out, "loki_ingest_limits_partitions", "gauge",
		"State of the partition: 1 pending, 2 replaying, 3 ready, 0 another.");
	for (size_t p = 0; p < scrape->n; p++)
		prom_count(scrape->out, "loki_ingest_limits_partitions",
			PROM_LABELS(
				"partition", number(partition, scrape->partitions[p].partition)),
			loki_state(&scrape->partitions[p]));
	totals_update(totals, scrape->partitions, scrape->n);
	totals_sum(totals, &sum);
	prom_single(scrape->out, "loki_ingest_limits_records_fetched_total", "counter",
		"Records seen by all partitions while this query process ran.", sum.records);
	prom_single(scrape->out, "loki_ingest_limits_records_discarded_total", "counter",
		"Records that could be read but were not counted.", sum.discarded);
	prom_single(scrape->out, "loki_ingest_limits_records_invalid_total", "counter",
		"Records that could not be read, or had no tenant or no metadata.", sum.invalid);
}

/* --- the stores
 * ------------------------------------------------------------------------------------- */

/* clang-format off */
static const struct tenant_metric {
	const char *name, *help;
	enum { STREAMS, BYTES, POLICIES } what;
} tenant_metrics[] = {
	{ "tally_tenant_active_streams", "Active streams of the largest tenants.", STREAMS },
	{ "tally_tenant_window_bytes", "Bytes in the active window, of the largest tenants.", BYTES },
	{ "tally_tenant_policies", "Policies in use, of the largest tenants.", POLICIES },
	{ "loki_ingest_limits_active_streams", "Active streams of the largest tenants.", STREAMS },
	{ "loki_ingest_limits_streams", "The same: expired streams are never counted.", STREAMS },
};
/* clang-format on */

static uint64_t tenant_value(const struct tally_usage *tenant, unsigned what)
{
	if (what == STREAMS)
		return tenant->streams;
	return what == BYTES ? tenant->bytes : tenant->policies;
}

/*
 * No partition that answers, or no room to map a store: no samples, and
 * tally_tenants_answered_partitions says so.
 */
static void write_tenants(struct scrape *scrape)
{
	size_t cap = scrape->question->query->metrics_tenants, n = 0;
	struct tally_basis basis = {0};
	struct tally_usage *top;
	char rate[40];
	int err = 0;

	top = calloc(cap + 1, sizeof(*top));
	must_get(top != NULL);
	if (cap > 0)
		err = tally_top(seat_store(scrape->question->seat), top, cap, &n, &basis);
	if (err != 0)
		n = 0;
	prom_single(scrape->out, "tally_tenants_answered_partitions", "gauge",
		"Partitions that the tenant metrics stand on; compare with tally_partitions_owned.",
		err == 0 ? basis.answered : 0);
	for (size_t m = 0; m < sizeof(tenant_metrics) / sizeof(tenant_metrics[0]); m++) {
		const struct tenant_metric *metric = &tenant_metrics[m];

		prom_head(scrape->out, metric->name, "gauge", metric->help);
		for (size_t i = 0; i < n; i++)
			prom_count(scrape->out, metric->name, PROM_LABELS("tenant", top[i].tenant),
				tenant_value(&top[i], metric->what));
	}
	prom_head(scrape->out, "tally_tenant_bytes_per_second", "gauge",
		"Bytes per second over the rate window, of the largest tenants.");
	for (size_t i = 0; i < n; i++) {
		snprintf(rate, sizeof(rate), "%.9g", top[i].bytes_per_sec);
		prom_sample(scrape->out, "tally_tenant_bytes_per_second",
			PROM_LABELS("tenant", top[i].tenant), rate);
	}
	free(top);
}

static void write_all(struct scrape *scrape)
{
	struct seat *seat = scrape->question->seat;
	int err = seat->table == NULL ? TALLY_ENOTFOUND : 0;

	if (err == 0)
		err = tally_instance(seat->table, &scrape->instance);
	if (err == 0)
		err = answer_list_partitions(seat->table, &scrape->partitions, &scrape->n);
	prom_single(scrape->out, "tally_up", "gauge",
		"Whether this query process sees an instance.", err == 0);
	write_process(scrape->out, scrape->question->query);
	if (err != 0)
		return;
	write_instance(scrape);
	write_states(scrape);
	write_fields(scrape);
	write_skipped(scrape);
	write_deaths(scrape);
	write_phases(scrape);
	write_problems(scrape);
	write_loki(scrape);
	write_tenants(scrape);
}

int answer_metrics(struct question *question, struct answer *answer)
{
	struct scrape scrape = {.question = question};
	int err = 0;

	answer_clear(answer);
	scrape.out = open_memstream(&answer->body, &answer->len);
	if (scrape.out == NULL)
		return TALLY_ENOMEM;
	write_all(&scrape);
	free(scrape.partitions);
	if (fclose(scrape.out) != 0)
		err = TALLY_ENOMEM;
	answer->status = 200;
	answer->type = PROM_TYPE;
	return err;
}
