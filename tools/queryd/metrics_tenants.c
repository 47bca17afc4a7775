/*
 * metrics_tenants.c - /metrics of tenants: the largest ones, and those nearest to a limit.
 *
 *	ranking (one pass over all tenants, kept for a while) -> tally_tenant_*
 *
 * However many tenants there are, query.metrics_tenants of them are shown, twice.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include <stdio.h>
#include <stdlib.h>

#include "answer.h"
#include "metrics.h"
#include "metrics_table.h"
#include "prom.h"

#include "shm/check.h"

enum what { STREAMS, BYTES, RATE, POLICIES, USED, SHARE, COUNTED };

struct tenant_metric {
	const char *name;
	enum what what;
};

static void value_of(const struct ranked *tenant, enum what what, char text[40])
{
	const struct tally_usage *usage = &tenant->usage;
	const uint64_t counts[] = {
		[STREAMS] = usage->streams,
		[BYTES] = usage->bytes,
		[POLICIES] = usage->policies,
		[SHARE] = tenant->share,
		[COUNTED] = tenant->counted,
	};

	if (what == RATE || what == USED)
		snprintf(text, 40, "%.9g", what == RATE ? usage->bytes_per_sec : tenant->used);
	else
		snprintf(text, 40, "%llu", (unsigned long long)counts[what]);
}

static void write_metrics(FILE *out, const struct tenant_metric *metrics, size_t n_metrics,
	const struct ranked *list, size_t n)
{
	char text[40];

	for (size_t m = 0; m < n_metrics; m++) {
		metrics_head(out, metrics[m].name);
		for (size_t i = 0; i < n; i++) {
			value_of(&list[i], metrics[m].what, text);
			prom_sample(out, metrics[m].name,
				PROM_LABELS("tenant", list[i].usage.tenant), text);
		}
	}
}

/*
 * No partition that answers, or no room to look: none.  The answer stands on the pass that
 * was read first: when the second one is another, it is made again.
 */
static size_t rank(struct scrape *scrape, enum ranking_sort sort, struct ranked *list,
	struct ranking_facts *facts)
{
	const struct query *query = scrape->question->query;
	struct seat *seat = scrape->question->seat;
	struct ranking_ask ask = {.sort = sort, .rows = query->metrics_tenants};
	size_t n = 0;
	int err;

	*facts = (struct ranking_facts){0};
	if (ask.rows > RANKING_ROWS_MAX)
		ask.rows = RANKING_ROWS_MAX;
	if (ask.rows == 0)
		return 0;
	err = ranking_read(query->ranking, &ask, list, &n, facts);
	/* What does not hold any more is stood on as well: it makes the answer be made again. */
	if ((err == 0 || err == RANKING_LEFT) && seat->ranking == NULL) {
		seat->ranking = query->ranking;
		seat->ranking_id = facts->id;
	}
	if (err != 0)
		*facts = (struct ranking_facts){0};
	return err == 0 ? n : 0;
}

static void write_largest(struct scrape *scrape, struct ranked *list)
{
	static const char answered[] = "tally_tenants_answered_partitions";
	static const char partial[] = "tally_tenants_partial_partitions";
	static const struct tenant_metric ours[] = {
		{"tally_tenant_active_streams", STREAMS},
		{"tally_tenant_window_bytes", BYTES},
		{"tally_tenant_bytes_per_second", RATE},
		{"tally_tenant_policies", POLICIES},
	};
	static const struct tenant_metric lokis[] = {
		{"loki_ingest_limits_active_streams", STREAMS},
		{"loki_ingest_limits_streams", STREAMS},
	};
	struct ranking_facts facts;
	size_t n = rank(scrape, RANK_STREAMS, list, &facts);

	metrics_head(scrape->out, answered);
	if (scrape->question->query->metrics_tenants > 0)
		prom_count(scrape->out, answered, NULL, facts.basis.answered);
	metrics_head(scrape->out, partial);
	if (scrape->question->query->metrics_tenants > 0)
		prom_count(scrape->out, partial, NULL, facts.basis.partial);
	write_metrics(scrape->out, ours, sizeof(ours) / sizeof(ours[0]), list, n);
	if (scrape->question->query->metrics_loki)
		write_metrics(scrape->out, lokis, sizeof(lokis) / sizeof(lokis[0]), list, n);
}

static void write_nearest(struct scrape *scrape, struct ranked *list)
{
	static const struct tenant_metric limits[] = {
		{"tally_tenant_limit_used_ratio", USED},
		{"tally_tenant_limit_streams", SHARE},
		{"tally_tenant_limit_used_streams", COUNTED},
	};
	struct ranking_facts facts;
	size_t n = rank(scrape, RANK_HEADROOM, list, &facts);

	while (n > 0 && (list[n - 1].used < 0 || !list[n - 1].known))
		n--; /* they are last: no limit, or not known */
	write_metrics(scrape->out, limits, sizeof(limits) / sizeof(limits[0]), list, n);
}

void metrics_tenants(struct scrape *scrape)
{
	struct ranked *list = calloc(scrape->question->query->metrics_tenants + 1, sizeof(*list));

	must_get(list != NULL);
	write_largest(scrape, list);
	write_nearest(scrape, list);
	free(list);
}
