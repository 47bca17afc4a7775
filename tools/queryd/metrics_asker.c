/*
 * metrics_asker.c - /metrics of questions: what was asked, what became of it, what it waits for.
 *
 *	asker_facts    -> tally_ask_*, loki_ingest_limits_frontend_*
 *	asker_refusals -> tally_tenant_streams_*_total
 *	services_facts -> tally_grpc_*
 *	services_peers_facts -> tally_peers_*
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "asker.h"
#include "metrics.h"
#include "prom.h"
#include "services.h"

#include "shm/check.h"

/* A gauge or counter that is one number of a struct. */
struct single {
	const char *name, *type, *help;
	size_t at;
};

static void write_singles(FILE *out, const struct single *singles, const void *facts)
{
	for (; singles->name; singles++)
		prom_single(out, singles->name, singles->type, singles->help,
			*(const uint64_t *)(const void *)((const char *)facts + singles->at));
}

/* ------------------------------------------------------------------ questions */

#define FACT(field) offsetof(struct asker_facts, field)

/* clang-format off */
static const struct single ask_singles[] = {
	{"tally_ask_under_way", "gauge", "Questions that wait for workers or budgets now.",
	 FACT(under_way)},
	{"tally_ask_refused_total", "counter",
	 "Questions that were answered failed at once: too many streams were under way.",
	 FACT(refused)},
	{"tally_ask_streams_from_map_total", "counter",
	 "Streams that were accepted from shared memory alone.", FACT(from_map)},
	{"tally_ask_reserved_streams", "gauge",
	 "Budgets that are with workers: so many new streams may come in beside what is counted.",
	 FACT(ledger_reserved)},
	{"tally_ask_claims_waiting", "gauge", "Claims for budgets that wait for others to come back.",
	 FACT(ledger_waiting)},
	{"tally_ask_tenants_kept", "gauge", "Tenants whose limits and counts are at hand.",
	 FACT(ledger_accounts)},
	{"tally_ask_readings_total", "counter", "Times a tenant's streams were counted to judge.",
	 FACT(ledger_readings)},
	{"tally_ask_touches_waiting", "gauge",
	 "Streams accepted from shared memory that workers have not been told of yet.",
	 FACT(touches_waiting)},
	{"tally_ask_worker_connections", "gauge", "Connections to workers.", FACT(links_open)},
	{"tally_ask_worker_messages", "gauge", "Messages that workers have not answered yet.",
	 FACT(link_waiting)},
	{"tally_ask_worker_lost_total", "counter",
	 "Messages whose worker ended before it answered: their streams failed.", FACT(link_lost)},
	{"tally_ask_worker_refused_total", "counter", "Connections that no worker took.",
	 FACT(link_refused)},
	{"tally_ask_worker_nonsense_total", "counter",
	 "Answers of workers that made no sense: a bug, or tools of two versions.",
	 FACT(link_unexpected)},
	{NULL, NULL, NULL, 0},
};
/* clang-format on */

static void write_questions(FILE *out, const struct asker_facts *facts)
{
	static const char *const kinds[] = {[ASK_EXCEEDS] = "exceeds", [ASK_RATES] = "rates"};
	static const char *const results[] = {[ASK_ACCEPTED] = "accepted",
		[ASK_REJECTED] = "rejected",
		[ASK_FAILED] = "failed",
		[ASK_UNSERVED] = "unserved"};
	prom_head(out, "tally_ask_questions_total", "counter", "Questions by kind.");
	for (unsigned k = 0; k < 2; k++)
		prom_count(out, "tally_ask_questions_total", PROM_LABELS("kind", kinds[k]),
			facts->questions[k]);
	prom_head(out, "tally_ask_streams_total", "counter",
		"Streams (keys, for rates) that were asked about, by what became of them.");
	for (unsigned k = 0; k < 2; k++)
		for (unsigned r = 0; r < 4; r++)
			prom_count(out, "tally_ask_streams_total",
				PROM_LABELS("kind", kinds[k], "result", results[r]),
				facts->streams[k][r]);
}

static void write_duration(FILE *out, const struct asker_facts *facts)
{
	static const char name[] = "tally_ask_duration_seconds";
	uint64_t sum = 0;
	char text[40];
	prom_head(out, name, "histogram", "Time from a question to its answer.");
	for (unsigned i = 0; i < ASKER_LATENCIES; i++) {
		sum += facts->latency[i];
		snprintf(text, sizeof text, "%g", (double)asker_latency_ns(i) / 1e9);
		prom_count(out, "tally_ask_duration_seconds_bucket", PROM_LABELS("le", text), sum);
	}
	sum += facts->latency[ASKER_LATENCIES];
	prom_count(out, "tally_ask_duration_seconds_bucket", PROM_LABELS("le", "+Inf"), sum);
	snprintf(text, sizeof text, "%.9g", (double)facts->latency_ns / 1e9);
	prom_sample(out, "tally_ask_duration_seconds_sum", NULL, text);
	prom_count(out, "tally_ask_duration_seconds_count", NULL, sum);
}

static void write_touches(FILE *out, const struct asker_facts *facts)
{
	const struct {
		const char *word;
		uint64_t n;
	} rows[] = {
		{"sent", facts->touches_sent},
		{"coalesced", facts->touches_coalesced},
		{"dropped", facts->touches_dropped},
		{"refused", facts->touches_refused},
	};
	prom_head(out, "tally_ask_touches_total", "counter",
		"Streams accepted from shared memory: told to workers, added to one that waited, "
		"dropped since the partition left, refused for want of room (they failed).");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		prom_count(out, "tally_ask_touches_total", PROM_LABELS("fate", rows[i].word),
			rows[i].n);
}

/* What Loki's front-end calls them; a stream that is not served is a failed one there. */
static void write_loki(FILE *out, const struct asker_facts *facts)
{
	const uint64_t *streams = facts->streams[ASK_EXCEEDS];
	uint64_t failed = streams[ASK_FAILED] + streams[ASK_UNSERVED];
	prom_single(out, "loki_ingest_limits_frontend_streams_total", "counter",
		"Streams that were asked about.",
		streams[ASK_ACCEPTED] + streams[ASK_REJECTED] + failed);
	prom_single(out, "loki_ingest_limits_frontend_streams_failed_total", "counter",
		"Streams that could not be checked.", failed);
	prom_single(out, "loki_ingest_limits_frontend_streams_rejected_total", "counter",
		"Streams that were rejected.", streams[ASK_REJECTED]);
}

static void write_refusals(FILE *out, struct asker *asker)
{
	size_t cap = REFUSALS_TENANTS + 1, n;
	struct refusals_of *list = calloc(cap, sizeof *list);
	must_get(list);
	n = asker_refusals(asker, list, cap);
	prom_head(out, "tally_tenant_streams_rejected_total", "counter",
		"Streams rejected for want of room under the limit; tenant \"\": all others.");
	for (size_t i = 0; i < n; i++)
		prom_count(out, "tally_tenant_streams_rejected_total",
			PROM_LABELS("tenant", list[i].tenant), list[i].refused);
	prom_head(out, "tally_tenant_streams_dry_run_rejected_total", "counter",
		"Streams that came in beyond the limit in a dry run; tenant \"\": all others.");
	for (size_t i = 0; i < n; i++)
		prom_count(out, "tally_tenant_streams_dry_run_rejected_total",
			PROM_LABELS("tenant", list[i].tenant), list[i].would);
	free(list);
}

/* ------------------------------------------------------------------ gRPC */

#define GRPC_FACT(field) offsetof(struct grpc_facts, field)

/* clang-format off */
static const struct single grpc_singles[] = {
	{"tally_grpc_connections", "gauge", "Open gRPC connections.", GRPC_FACT(connections)},
	{"tally_grpc_calls", "gauge", "gRPC calls under way.", GRPC_FACT(calls)},
	{"tally_grpc_memory_bytes", "gauge", "Bytes of requests and answers under way.",
	 GRPC_FACT(memory)},
	{"tally_grpc_connections_accepted_total", "counter", "gRPC connections accepted.",
	 GRPC_FACT(accepted)},
	{"tally_grpc_connections_refused_total", "counter",
	 "gRPC connections refused since there were too many.", GRPC_FACT(refused)},
	{"tally_grpc_connections_abused_total", "counter",
	 "gRPC connections ended because of what they did.", GRPC_FACT(abused)},
	{"tally_grpc_received_bytes_total", "counter", "Bytes received over gRPC.",
	 GRPC_FACT(bytes_in)},
	{"tally_grpc_sent_bytes_total", "counter", "Bytes sent over gRPC.", GRPC_FACT(bytes_out)},
	{NULL, NULL, NULL, 0},
};
/* clang-format on */

static void write_grpc(FILE *out, struct services *services)
{
	struct grpc_facts facts;
	char text[16];
	services_facts(services, &facts);
	write_singles(out, grpc_singles, &facts);
	prom_head(out, "tally_grpc_answers_total", "counter", "gRPC answers by status code.");
	for (unsigned i = 0; i < GRPC_STATUSES; i++) {
		if (!facts.answers[i])
			continue;
		snprintf(text, sizeof text, "%u", i);
		prom_count(out, "tally_grpc_answers_total", PROM_LABELS("code", text),
			facts.answers[i]);
	}
}

/* ------------------------------------------------------------------ other instances */

#define PEERS_FACT(field) offsetof(struct peers_facts, field)

/* clang-format off */
static const struct single peers_singles[] = {
	{"tally_peers_known", "gauge", "Addresses of other instances (query.peers), without our own.",
	 PEERS_FACT(known)},
	{"tally_peers_connected", "gauge", "Other instances that we are connected to.",
	 PEERS_FACT(connected)},
	{"tally_peers_partitions", "gauge", "Partitions that other instances serve, as far as known.",
	 PEERS_FACT(partitions)},
	{"tally_peers_calls", "gauge", "Calls to other instances under way.", PEERS_FACT(calls)},
	{"tally_peers_connects_total", "counter", "Connections made to other instances.",
	 PEERS_FACT(connects)},
	{"tally_peers_lost_total", "counter", "Connections to other instances that ended.",
	 PEERS_FACT(lost)},
	{"tally_peers_strange_total", "counter",
	 "Answers, results and partitions of other instances that make no sense.",
	 PEERS_FACT(strange)},
	{"tally_peers_streams_asked_total", "counter",
	 "Streams (keys, for rates) that other instances were asked about.",
	 PEERS_FACT(streams_asked)},
	{"tally_peers_streams_retried_total", "counter",
	 "... of these, asked of a second one since the first did not serve them.",
	 PEERS_FACT(streams_retried)},
	{NULL, NULL, NULL, 0},
};
/* clang-format on */

static void write_peers(FILE *out, struct services *services)
{
	struct peers_facts facts;
	services_peers_facts(services, &facts);
	const struct {
		const char *word;
		uint64_t n;
	} rows[] = {
		{"answered", facts.answered},
		{"unavailable", facts.unavailable},
		{"forbidden", facts.forbidden},
		{"failed", facts.failed},
		{"full", facts.full},
	};
	write_singles(out, peers_singles, &facts);
	prom_head(out, "tally_peers_calls_total", "counter",
		"Calls to other instances: answered; refused as not served there; refused for "
		"want of a token that is taken there; outcome unknown "
		"(late, broken off, another error); not sent since too much was under way.");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		prom_count(out, "tally_peers_calls_total", PROM_LABELS("outcome", rows[i].word),
			rows[i].n);
}

void metrics_asker(FILE *out, struct asker *asker, struct services *services)
{
	struct asker_facts facts;
	if (asker) {
		asker_facts(asker, &facts);
		write_questions(out, &facts);
		write_duration(out, &facts);
		write_touches(out, &facts);
		write_singles(out, ask_singles, &facts);
		write_loki(out, &facts);
		write_refusals(out, asker);
	}
	if (services) {
		write_grpc(out, services);
		write_peers(out, services);
	}
}
