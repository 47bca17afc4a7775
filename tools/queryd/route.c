/*
 * route.c - which answer a path gets.
 *
 *	/api/v1/tenants/a%2Fb -> segments "api" "v1" "tenants" "a/b" -> answer_tenant
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "route.h"

#include <stdbool.h>
#include <string.h>

/* clang-format off */
#define ASK	TOKEN_ASK
#define READ	TOKEN_READ
#define METRICS TOKEN_METRICS
#define OF_ONE	(TOKEN_READ | TOKEN_TENANT)
static const struct route routes[] = {
	{ "/",                                answer_page,         TABLE_UNUSED, QUERY_IGNORED, ROUTE_GETS,  0 },
	{ "/ui/{file}",                       answer_page_file,    TABLE_UNUSED, QUERY_IGNORED, ROUTE_GETS,  0 },
	{ "/healthz",                         answer_healthz,      TABLE_UNUSED, QUERY_IGNORED, ROUTE_GETS,  0 },
	{ "/ready",                           answer_ready,        TABLE_NEEDED, QUERY_IGNORED, ROUTE_GETS,  METRICS },
	{ "/metrics",                         answer_metrics,      TABLE_USED,   QUERY_IGNORED, ROUTE_GETS,  METRICS },
	{ "/ingest-limits/usage/{tenant}",    answer_usage,        TABLE_NEEDED, QUERY_IGNORED, ROUTE_GETS,  OF_ONE },
	{ "/ingest-limits/exceeds-limits",    answer_exceeds_loki, TABLE_NEEDED, QUERY_IGNORED, ROUTE_POSTS, ASK },
	{ "/api/v1/instance",                 answer_instance,     TABLE_NEEDED, QUERY_REFUSED, ROUTE_GETS,  READ },
	{ "/api/v1/partitions",               answer_partitions,   TABLE_NEEDED, QUERY_REFUSED, ROUTE_GETS,  READ },
	{ "/api/v1/partitions/{n}",           answer_partition,    TABLE_NEEDED, QUERY_REFUSED, ROUTE_GETS,  READ },
	{ "/api/v1/processes",                answer_processes,    TABLE_NEEDED, QUERY_REFUSED, ROUTE_GETS,  READ },
	{ "/api/v1/tenants",                  answer_tenants,      TABLE_NEEDED, QUERY_PAGE,    ROUTE_GETS,  READ },
	{ "/api/v1/tenants/{tenant}",         answer_tenant,       TABLE_NEEDED, QUERY_REFUSED, ROUTE_GETS,  OF_ONE },
	{ "/api/v1/tenants/{tenant}/streams", answer_streams,      TABLE_NEEDED, QUERY_PAGE,    ROUTE_GETS,  OF_ONE },
	{ "/api/v1/tenants/{tenant}/limits",  answer_limits,       TABLE_NEEDED, QUERY_REFUSED, ROUTE_GETS,  OF_ONE },
	{ "/api/v1/check",                    answer_check,        TABLE_NEEDED, QUERY_REFUSED, ROUTE_POSTS, ASK | OF_ONE },
	{ "/api/v1/exceeds-limits",           answer_exceeds,      TABLE_NEEDED, QUERY_REFUSED, ROUTE_POSTS, ASK },
	{ "/api/v1/update-rates",             answer_update_rates, TABLE_NEEDED, QUERY_REFUSED, ROUTE_POSTS, ASK },
};
/* clang-format on */

#define ROUTES (sizeof(routes) / sizeof(routes[0]))
_Static_assert(ROUTES <= ANSWER_ROUTES_MAX, "room for the counters");

static bool matches(const char *pattern, const struct request *request)
{
	unsigned i;

	for (i = 0; i < request->segments && *pattern == '/'; i++) {
		size_t len = strcspn(++pattern, "/");

		if (*pattern != '{' && (strlen(request->segment[i]) != len ||
					       memcmp(request->segment[i], pattern, len) != 0))
			return false;
		pattern += len;
	}
	return i == request->segments && *pattern == '\0';
}

const struct route *route_find(const struct request *request)
{
	for (size_t i = 0; i < ROUTES; i++)
		if (matches(routes[i].pattern, request))
			return &routes[i];
	return NULL;
}

const char *route_tenant(const struct route *route, const struct request *request)
{
	const char *at = strstr(route->pattern, "{tenant}");
	unsigned segment = 0;

	if (at == NULL)
		return NULL;
	for (const char *slash = route->pattern + 1; slash < at; slash++)
		segment += *slash == '/';
	return request->segment[segment];
}

const struct route *route_at(unsigned index)
{
	return index < ROUTES ? &routes[index] : NULL;
}

unsigned route_index(const struct route *route)
{
	return route == NULL ? ANSWER_ROUTES_MAX : (unsigned)(route - routes);
}
