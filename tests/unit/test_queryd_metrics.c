/*
 * test_queryd_metrics.c - what /metrics says, against the table that the manual is made of.
 */
#include "queryd_fixture.h"

#include "tools/queryd/http.h"
#include "tools/queryd/metrics_table.h"

/* --- metrics ------------------------------------------------------------------------------------
 */

/* The labels of a sample are those of the table, in that order; `le` is a histogram's own. */
static void assert_labels(const char *line, const struct metric *metric)
{
	char names[128] = "";
	const char *at = strchr(line, '{');

	while (at != NULL && *at != '}') {
		const char *equals = strchr(++at, '=');

		if (strncmp(at, "le=", 3) != 0)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%.*s",
				names[0] == '\0' ? "" : ",", (int)(equals - at), at);
		for (at = equals + 2; *at != '"'; at++)
			at += *at == '\\';
		at++;
	}
	if (strcmp(names, metric->labels) != 0)
		fail_msg("\"%s\" has other labels than the manual: %s", line, metric->labels);
}

/* Every sample belongs to the head last seen, no head comes twice, and all is as the table says. */
static void metrics_are_well_formed(void **state)
{
	struct reply reply = ask("/metrics");
	char *rest = reply.body, *line, head[128] = "", type[16];
	char *seen = calloc(1, reply.len + 2);
	unsigned samples = 0;

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_non_null(strstr(reply.all, "Content-Type: text/plain; version=0.0.4"));
	assert_int_equal(reply.body[reply.len - 1], '\n');
	while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
		char name[128], key[132];

		if (sscanf(line, "# TYPE %127s %15s", name, type) == 2) {
			snprintf(key, sizeof(key), "\n%s\n", name);
			if (strstr(seen, key) != NULL)
				fail_msg("twice: %s", name);
			strcat(seen, key);
			strcpy(head, name);
			assert_non_null(metrics_find(head));
			assert_string_equal(type, metrics_find(head)->type);
		} else if (line[0] != '#') {
			size_t len = strcspn(line, "{ ");

			samples++;
			if (strcmp(type, "histogram") == 0)
				len -= strncmp(line + len - 7, "_bucket", 7) == 0  ? 7
				       : strncmp(line + len - 6, "_count", 6) == 0 ? 6
										   : 4;
			if (len != strlen(head) || strncmp(line, head, len) != 0)
				fail_msg("\"%s\" under the head of %s", line, head);
			assert_labels(line, metrics_find(head));
		}
	}
	assert_true(samples > 100);
	free(seen);
	reply_free(&reply);
}

/* Those of questions need an asker: tests/system/54 has all of them. */
static bool needs_asker(const char *name)
{
	static const char *const prefixes[] = {"tally_ask_", "tally_grpc_", "tally_peers_",
		"tally_tenant_streams_", "loki_ingest_limits_frontend_",
		"loki_ingest_limits_streams_discarded_", "loki_ingest_limits_tenant_ingested_"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

/* What the manual has is there, and Loki's names are there when they are wanted. */
static void metrics_have_all_of_the_table(void **state)
{
	size_t n;
	const struct metric *table = metrics_table(&n);
	char head[160];

	(void)state;
	for (unsigned loki = 0; loki < 2; loki++) {
		struct reply reply;

		server.query.metrics_loki = loki;
		reply = ask("/metrics");
		for (size_t i = 0; i < n; i++) {
			if (table[i].type == NULL || needs_asker(table[i].name))
				continue;
			snprintf(head, sizeof(head), "\n# TYPE %s ", table[i].name);
			if ((strstr(reply.body, head) == NULL) !=
				(metrics_is_loki(&table[i]) && loki == 0))
				fail_msg("%s: %s", loki ? "loki" : "tally", table[i].name);
		}
		reply_free(&reply);
	}
}

/* A process that has no memory for it knows nothing: that is no tally_up 0. */
static void metrics_are_refused_without_memory(void **state)
{
	(void)state;
	fake.open_err = TALLY_ENOMEM;
	expect_status("/metrics", 503, "no_memory");
	fake.open_err = TALLY_EACCESS;
	expect_status("/metrics", 200, "\ntally_up 0\n");
	fake.open_err = 0;
	expect_status("/metrics", 200, "\ntally_up 1\n");
}

static void metrics_show_partitions_and_tenants(void **state)
{
	static const char *const lines[] = {
		"\ntally_partition_state{partition=\"3\",state=\"ready\"} 1\n",
		"\ntally_partition_state{partition=\"3\",state=\"failed\"} 0\n",
		"\ntally_partition_lag_records{partition=\"0\"} 10\n",
		"\ntally_lease_seconds{partition=\"0\"} 4\n",
		"\ntally_worker_problem{partition=\"0\",problem=\"stalled\"} 1\n",
		"\ntally_worker_last_death_info{partition=\"0\",kind=\"signal\",",
		"\ntally_instance_info{topic=\"t\\\"opic\",",
		"\nloki_ingest_limits_partitions{partition=\"3\"} 3\n",
		"\nloki_ingest_limits_records_fetched_total 140\n",
		"\nloki_ingest_limits_active_streams{tenant=\"b\\\"/\\n1\"} 9\n",
		"\ntally_tenant_active_streams{tenant=\"tenant-2\"} 8\n",
		"\ntally_records_skipped_total{partition=\"0\",reason=\"too_old\"} 0\n",
	};
	struct reply reply;

	(void)state;
	fake.instance.started_at_ms = 0; /* before the generations were made */
	reply = ask("/metrics");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (strstr(reply.body, lines[i]) == NULL)
			fail_msg("missing: %s", lines[i]);
	assert_null(strstr(reply.body, "tenant-3")); /* query.metrics_tenants: 3 */
	reply_free(&reply);
	fake.err = TALLY_ENOTREADY;
	ranking_free(&server.query.ranking); /* what it has kept */
	server.query.ranking = ranking_new("/nowhere");
	expect_status("/metrics", 200, "\ntally_tenants_answered_partitions 0\n");
	expect_status("/metrics", 200, "\ntally_tenants_partial_partitions 0\n");
}

/* Every metric that alerts and dashboard speak of is one that we have. */
static void metrics_have_all_that_alerts_and_dashboard_need(void **state)
{
	static const char *const files[] = {
		"etc/prometheus/tally.rules.yaml", "etc/grafana/tally.json"};
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
	char line[4096], name[160];

	(void)state;
	for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
		FILE *file = fopen(files[f], "r");
		unsigned found = 0;

		assert_non_null(file);
		while (fgets(line, sizeof(line), file) != NULL) {
			for (char *at = line; (at = strstr(at, "tally_")) != NULL;) {
				size_t len = strspn(at, letters);

				snprintf(name, sizeof(name), "%.*s", (int)len, at);
				if (metrics_find(name) == NULL && strlen(name) > 7 &&
					strcmp(name + len - 7, "_bucket") == 0)
					name[len - 7] = '\0';
				if (metrics_find(name) == NULL)
					fail_msg("%s: no such metric: %s", files[f], name);
				found++;
				at += len;
			}
		}
		fclose(file);
		assert_true(found > 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(metrics_are_well_formed),
		SERVED(metrics_show_partitions_and_tenants),
		SERVED(metrics_have_all_of_the_table),
		SERVED(metrics_are_refused_without_memory),
		SERVED(metrics_have_all_that_alerts_and_dashboard_need),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
