/*
 * metrics_loki.c - /metrics by the names of Loki's ingest-limits, for panels that are there already.
 *
 *	the table -> loki_ingest_limits_partitions
 *	totals    -> loki_ingest_limits_records_*_total, _lag_seconds, _stream_evictions_total
 *
 * Those of tenants are in metrics_tenants.c, those of questions in metrics_asker.c.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "counts.h"
#include "metrics.h"
#include "metrics_table.h"
#include "prom.h"

/* Loki's numbers for states; those it does not have are 0, unknown. */
static unsigned state_of(const struct tally_partition *partition)
{
	if (partition->ready)
		return 3;
	if (strcmp(partition->state, "replaying") == 0)
		return 2;
	return strcmp(partition->state, "pending") == 0 ? 1 : 0;
}

static void write_states(struct scrape *scrape)
{
	static const char name[] = "loki_ingest_limits_partitions";
	char partition[16];

	metrics_head(scrape->out, name);
	for (size_t p = 0; p < scrape->n; p++)
		prom_count(scrape->out, name,
			PROM_LABELS("partition",
				metrics_number(partition, scrape->partitions[p].partition)),
			state_of(&scrape->partitions[p]));
}

static void write_lag(struct scrape *scrape, const struct totals_sum *sum)
{
	static const char name[] = "loki_ingest_limits_lag_seconds";
	uint64_t so_far = 0;
	char text[40];

	metrics_head(scrape->out, name);
	for (unsigned i = 0; i < TOTALS_LAGS; i++) {
		so_far += sum->lags[i];
		snprintf(text, sizeof(text), "%.15g", totals_lag_ms(i) / 1000.0);
		prom_count(scrape->out, "loki_ingest_limits_lag_seconds_bucket",
			PROM_LABELS("le", text), so_far);
	}
	so_far += sum->lags[TOTALS_LAGS];
	prom_count(scrape->out, "loki_ingest_limits_lag_seconds_bucket", PROM_LABELS("le", "+Inf"),
		so_far);
	snprintf(text, sizeof(text), "%.15g", (double)sum->lag_ms / 1000);
	prom_sample(scrape->out, "loki_ingest_limits_lag_seconds_sum", NULL, text);
	prom_count(scrape->out, "loki_ingest_limits_lag_seconds_count", NULL, so_far);
}

void metrics_loki(struct scrape *scrape)
{
	const struct totals_sum *sum = &scrape->counted->totals;
	FILE *out = scrape->out;

	write_states(scrape);
	write_lag(scrape, sum);
	metrics_single(out, "loki_ingest_limits_records_fetched_total", sum->records);
	metrics_single(out, "loki_ingest_limits_records_discarded_total", sum->discarded);
	metrics_single(out, "loki_ingest_limits_records_invalid_total", sum->invalid);
	metrics_single(out, "loki_ingest_limits_records_produced_total", sum->sent);
	metrics_single(out, "loki_ingest_limits_records_produced_failed_total", sum->send_errors);
	metrics_single(out, "loki_ingest_limits_stream_evictions_total", sum->swept);
}
