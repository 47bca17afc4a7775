/*
 * metrics_asker.c - /metrics of questions: what was asked, what became of it, what it waits for.
 *
 *	counted.ask    -> tally_ask_*, loki_ingest_limits_frontend_*
 *	counted.grpc   -> tally_grpc_*
 *	counted.peers  -> tally_peers_*
 *	counts_tenants -> tally_tenant_streams_*_total, loki_ingest_limits_tenant_ingested_bytes_total
 *
 * Of all query processes, as metrics_count has found them.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "asker.h"
#include "counts.h"
#include "metrics.h"
#include "metrics_table.h"
#include "prom.h"

#include "shm/check.h"

/* A gauge or counter that is one number of a struct. */
struct single {
	const char *name;
	size_t at;
};

static void write_singles(FILE *out, const struct single *singles, const void *facts)
{
	for (; singles->name; singles++)
		metrics_single(out, singles->name,
			*(const uint64_t *)(const void *)((const char *)facts + singles->at));
}

/* ------------------------------------------------------------------ questions */

#define FACT(field) offsetof(struct asker_facts, field)

/* clang-format off */
static const struct single ask_singles[] = {
	{"tally_ask_under_way", FACT(under_way)},
	{"tally_ask_refused_total", FACT(refused)},
	{"tally_ask_streams_from_map_total", FACT(from_map)},
	{"tally_ask_reserved_streams", FACT(ledger_reserved)},
	{"tally_ask_claims_waiting", FACT(ledger_waiting)},
	{"tally_ask_tenants_kept", FACT(ledger_accounts)},
	{"tally_ask_readings_total", FACT(ledger_readings)},
	{"tally_ask_touches_waiting", FACT(touches_waiting)},
	{"tally_ask_worker_connections", FACT(links_open)},
	{"tally_ask_worker_messages", FACT(link_waiting)},
	{"tally_ask_worker_lost_total", FACT(link_lost)},
	{"tally_ask_worker_refused_total", FACT(link_refused)},
	{"tally_ask_worker_nonsense_total", FACT(link_unexpected)},
	{NULL, 0},
};
/* clang-format on */

static void write_questions(FILE *out, const struct asker_facts *facts)
{
	static const char *const kinds[] = {[ASK_EXCEEDS] = "exceeds", [ASK_RATES] = "rates"};
	static const char *const results[] = {[ASK_ACCEPTED] = "accepted",
		[ASK_REJECTED] = "rejected",
		[ASK_FAILED] = "failed",
		[ASK_UNSERVED] = "unserved"};
	metrics_head(out, "tally_ask_questions_total");
	for (unsigned k = 0; k < 2; k++)
		prom_count(out, "tally_ask_questions_total", PROM_LABELS("kind", kinds[k]),
			facts->questions[k]);
	metrics_head(out, "tally_ask_streams_total");
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
	metrics_head(out, name);
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
	metrics_head(out, "tally_ask_touches_total");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		prom_count(out, "tally_ask_touches_total", PROM_LABELS("fate", rows[i].word),
			rows[i].n);
}

/* Of all processes, or of ours when it is alone with what it counts.  The caller frees it. */
static size_t tenants(const struct counts *counts, struct asker *asker, enum counts_rows rows,
	struct refusals_of **list)
{
	size_t cap = REFUSALS_TENANTS + 1;
	if (counts)
		return counts_tenants(counts, rows, list);
	*list = calloc(cap, sizeof **list);
	must_get(*list);
	return rows == COUNTS_REFUSED ? asker_refusals(asker, *list, cap)
				      : asker_accepted(asker, *list, cap);
}

static void write_refusals(FILE *out, const struct counts *counts, struct asker *asker)
{
	static const char rejected[] = "tally_tenant_streams_rejected_total",
			  would[] = "tally_tenant_streams_dry_run_rejected_total";
	struct refusals_of *list;
	size_t n = tenants(counts, asker, COUNTS_REFUSED, &list);
	metrics_head(out, rejected);
	for (size_t i = 0; i < n; i++)
		prom_count(out, rejected, PROM_LABELS("tenant", list[i].tenant), list[i].refused);
	metrics_head(out, would);
	for (size_t i = 0; i < n; i++)
		prom_count(out, would, PROM_LABELS("tenant", list[i].tenant), list[i].would);
	free(list);
}

/* ------------------------------------------------------------------ by Loki's names */

static void write_accepted_bytes(FILE *out, const struct counts *counts, struct asker *asker)
{
	static const char name[] = "loki_ingest_limits_tenant_ingested_bytes_total";
	struct refusals_of *list;
	size_t n = tenants(counts, asker, COUNTS_ACCEPTED, &list);
	metrics_head(out, name);
	for (size_t i = 0; i < n; i++)
		prom_count(out, name, PROM_LABELS("tenant", list[i].tenant), list[i].refused);
	free(list);
}

/* What Loki's front-end calls them; a stream that is not served is a failed one there. */
static void write_loki(FILE *out, const struct asker_facts *facts, const char *zone)
{
	static const char missing[] = "loki_ingest_limits_frontend_partitions_missing_total";
	const uint64_t *streams = facts->streams[ASK_EXCEEDS];
	uint64_t failed = streams[ASK_FAILED] + streams[ASK_UNSERVED];
	metrics_single(out, "loki_ingest_limits_streams_discarded_total", streams[ASK_UNSERVED]);
	metrics_single(out, "loki_ingest_limits_frontend_streams_total",
		streams[ASK_ACCEPTED] + streams[ASK_REJECTED] + failed);
	metrics_single(out, "loki_ingest_limits_frontend_streams_failed_total", failed);
	metrics_single(
		out, "loki_ingest_limits_frontend_streams_rejected_total", streams[ASK_REJECTED]);
	metrics_head(out, missing);
	prom_count(out, missing, PROM_LABELS("zone", zone), streams[ASK_UNSERVED]);
}

/* ------------------------------------------------------------------ gRPC */

#define GRPC_FACT(field) offsetof(struct grpc_facts, field)

/* clang-format off */
static const struct single grpc_singles[] = {
	{"tally_grpc_connections", GRPC_FACT(connections)},
	{"tally_grpc_calls", GRPC_FACT(calls)},
	{"tally_grpc_memory_bytes", GRPC_FACT(memory)},
	{"tally_grpc_connections_accepted_total", GRPC_FACT(accepted)},
	{"tally_grpc_connections_refused_total", GRPC_FACT(refused)},
	{"tally_grpc_connections_abused_total", GRPC_FACT(abused)},
	{"tally_grpc_received_bytes_total", GRPC_FACT(bytes_in)},
	{"tally_grpc_sent_bytes_total", GRPC_FACT(bytes_out)},
	{NULL, 0},
};
/* clang-format on */

static void write_grpc(FILE *out, const struct grpc_facts *facts)
{
	char text[16];
	write_singles(out, grpc_singles, facts);
	metrics_head(out, "tally_grpc_answers_total");
	for (unsigned i = 0; i < GRPC_STATUSES; i++) {
		if (!facts->answers[i])
			continue;
		snprintf(text, sizeof text, "%u", i);
		prom_count(out, "tally_grpc_answers_total", PROM_LABELS("code", text),
			facts->answers[i]);
	}
}

/* ------------------------------------------------------------------ other instances */

#define PEERS_FACT(field) offsetof(struct peers_facts, field)

/* clang-format off */
static const struct single peers_singles[] = {
	{"tally_peers_known", PEERS_FACT(known)},
	{"tally_peers_connected", PEERS_FACT(connected)},
	{"tally_peers_partitions", PEERS_FACT(partitions)},
	{"tally_peers_calls", PEERS_FACT(calls)},
	{"tally_peers_connects_total", PEERS_FACT(connects)},
	{"tally_peers_lost_total", PEERS_FACT(lost)},
	{"tally_peers_strange_total", PEERS_FACT(strange)},
	{"tally_peers_streams_asked_total", PEERS_FACT(streams_asked)},
	{"tally_peers_streams_retried_total", PEERS_FACT(streams_retried)},
	{NULL, 0},
};
/* clang-format on */

static void write_peers(FILE *out, const struct peers_facts *facts)
{
	const struct {
		const char *word;
		uint64_t n;
	} rows[] = {
		{"answered", facts->answered},
		{"unavailable", facts->unavailable},
		{"forbidden", facts->forbidden},
		{"failed", facts->failed},
		{"full", facts->full},
	};
	write_singles(out, peers_singles, facts);
	metrics_head(out, "tally_peers_calls_total");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		prom_count(out, "tally_peers_calls_total", PROM_LABELS("outcome", rows[i].word),
			rows[i].n);
}

void metrics_asker(FILE *out, const struct counted *counted, const struct counts *counts,
	struct asker *asker, const char *loki_zone)
{
	if (loki_zone) {
		write_accepted_bytes(out, counts, asker);
		write_loki(out, &counted->ask, loki_zone);
		return;
	}
	write_questions(out, &counted->ask);
	write_duration(out, &counted->ask);
	write_touches(out, &counted->ask);
	write_singles(out, ask_singles, &counted->ask);
	write_refusals(out, counts, asker);
	write_grpc(out, &counted->grpc);
	write_peers(out, &counted->peers);
}
