/*
 * metrics_counts.c - what is counted by the query processes themselves, gathered for /metrics.
 *
 *	conns, access, totals, asker, gRPC, peers --gather--> our slot --counts_sum--> all of them
 *
 * Runs in: queryd, any thread.  Blocks in: mutexes that are held for a few lines.
 */
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "metrics.h"
#include "services.h"

#include "shm/check.h"

void metrics_gather_asked(struct asker *asker, struct services *services, struct counted *own)
{
	if (asker != NULL)
		asker_facts(asker, &own->ask);
	if (services == NULL)
		return;
	services_facts(services, &own->grpc);
	services_peers_facts(services, &own->peers);
}

static void gather_http(struct query *query, struct counted *own)
{
	struct conns_facts conns;

	conns_facts(query->conns, &conns);
	own->http = (struct counted_http){
		.started_ms = (uint64_t)query->started_at_ms,
		.rebuilt = atomic_load(&query->rebuilt),
		.connections = conns.open,
		.accepted = conns.accepted,
		.ended_for_room = conns.ended_for_room,
		.ended_late = conns.ended_late,
	};
	for (unsigned i = 0; i <= ANSWER_ROUTES_MAX; i++)
		for (unsigned s = 0; s < ANSWER_STATUSES; s++)
			own->answers[i][s] = atomic_load(&query->answers[i][s]);
}

static void gather(void *arg, struct counted *own)
{
	struct query *query = arg;

	gather_http(query, own);
	totals_sum(query->totals, &own->totals);
	for (unsigned p = 0; query->access != NULL && p < ACCESS_PROTOCOLS; p++)
		for (unsigned v = 0; v < ACCESS_VERDICTS; v++)
			own->refused[p][v] = access_count(query->access, p, v);
	if (query->gather != NULL)
		query->gather(query->asker, query->services, own);
}

void metrics_publish(struct query *query)
{
	if (query->counts != NULL)
		counts_publish(query->counts, gather, query);
}

void metrics_count(struct query *query, struct counted *sum)
{
	memset(sum, 0, sizeof(*sum));
	metrics_publish(query);
	if (query->counts != NULL)
		counts_sum(query->counts, sum);
	else
		gather(query, sum);
}
