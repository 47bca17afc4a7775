/*
 * test_queryd_http.c - the query process's HTTP server: what can be read, and the promise that an
 * answer is still true when it is sent.
 */
#include "queryd_fixture.h"

#include "tools/queryd/http.h"
#include "tools/queryd/metrics_table.h"

/* --- without, before and after an instance ------------------------------------------------------
 */

static void http_lives_without_an_instance(void **state)
{
	(void)state;
	fake.open_err = TALLY_ENOTFOUND;
	expect_status("/healthz", 200, "ok");
	expect_status("/metrics", 200, "\ntally_up 0\n");
	expect_status("/ready", 503, "no_instance");
	expect_status("/api/v1/instance", 503, "/nowhere");
	expect_status("/ingest-limits/usage/a", 503, "no_instance");
	expect_status("/api/v1/tenants", 503, "no_instance");
	fake.open_err = 0; /* it has come */
	expect_status("/ready", 200, "\"ready\":true");
	expect_status("/metrics", 200, "\ntally_up 1\n");
}

static void http_says_when_the_supervisor_is_gone(void **state)
{
	(void)state;
	fake.err = TALLY_ESTALE;
	fake.instance.alive = 0;
	expect_status("/healthz", 200, "ok");
	expect_status("/ready", 503, "the supervisor is gone");
	expect_status("/ingest-limits/usage/a", 503, "stale");
	expect_status("/api/v1/instance", 200, "\"alive\":false");
	expect_status("/metrics", 200, "\ntally_supervisor_alive 0\n");
}

static void http_ready_names_the_partition_that_is_not(void **state)
{
	struct reply reply;

	(void)state;
	strcpy(fake.partitions[1].state, "replaying");
	fake.partitions[1].ready = 0;
	fake.partitions[1].progress = 0.425;
	fake.partitions[1].eta_ms = 12000;
	reply = ask("/ready");
	assert_int_equal(reply.status, 503);
	assert_int_equal(json_array_size(json_object_get(reply.json, "not_ready")), 1);
	assert_non_null(strstr(reply.body, "\"partition\":3,\"state\":\"replaying\""));
	assert_non_null(strstr(reply.body, "42.5 % done, about 12 s to go; its worker says: degr"));
	reply_free(&reply);
	fake.n_partitions = 0;
	expect_status("/ready", 503, "owns no partition");
}

/* --- the promise --------------------------------------------------------------------------------
 */

static void http_builds_again_when_a_partition_left(void **state)
{
	(void)state;
	fake.leaves = "tenants";
	fake.leaves_times = 1;
	expect_status("/api/v1/tenants", 200, "tenant-0");
	assert_int_equal(fake.calls, 2);
	assert_int_equal(server.query.rebuilt, 1);
}

static void http_checks_every_call_that_an_answer_is_made_of(void **state)
{
	static const char *const calls[] = {"policies", "histogram"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		fake.calls = 0;
		fake.leaves = calls[i];
		fake.leaves_times = 1;
		expect_status("/api/v1/tenants/a", 200, "gold");
		assert_int_equal(fake.calls, 4);
		fake.leaves_times = 1000;
		expect_status("/api/v1/tenants/a", 503, "not_ready");
		expect_status("/ingest-limits/usage/a", 503, "not_ready");
	}
}

static void http_sends_nothing_of_a_revoked_store(void **state)
{
	static const char *const targets[][2] = {
		{"tenants", "/api/v1/tenants"},
		{"policies", "/api/v1/tenants/a"},
		{"streams", "/api/v1/tenants/a/streams"},
		{"policies", "/ingest-limits/usage/a"},
		{"top", "/metrics"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct reply reply;

		fake.leaves = targets[i][0];
		fake.leaves_times = 1000;
		reply = ask(targets[i][1]);
		assert_int_equal(reply.status, 503);
		if (strstr(reply.body, "streams") != NULL || strstr(reply.body, "gold") != NULL)
			fail_msg("%s: %s", targets[i][1], reply.body);
		reply_free(&reply);
	}
}

static void http_does_not_mix_two_sets_of_partitions(void **state)
{
	(void)state;
	fake.histogram_basis.answered = 1;
	expect_status("/api/v1/tenants/a", 503, "not_ready");
	assert_int_equal(fake.calls, 6);
}

/* --- usage, as Loki's service answers -----------------------------------------------------------
 */

static void usage_has_lokis_shape(void **state)
{
	struct reply reply = ask("/ingest-limits/usage/a%2F%C3%A4?x=y");
	json_t *policies;

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_string_equal(text_of(&reply, "tenant"), "a/\xc3\xa4");
	assert_string_equal(fake.tenant, "a/\xc3\xa4");
	assert_int_equal(number_of(&reply, "streams_total"), 7);
	policies = json_object_get(reply.json, "streams_by_policy");
	assert_int_equal(json_integer_value(json_object_get(policies, "")), 3);
	assert_int_equal(json_integer_value(json_object_get(policies, "gold")), 4);
	/* 900 bytes in four whole minutes and half of the present one */
	assert_float_equal(json_real_value(json_object_get(reply.json, "rate")), 900 / 270.0, 1e-6);
	assert_true(json_is_true(json_object_get(reply.json, "complete")));
	reply_free(&reply);
}

static void usage_of_an_unknown_tenant_is_zero(void **state)
{
	struct reply reply = ask("/ingest-limits/usage/nobody");

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_int_equal(number_of(&reply, "streams_total"), 0);
	assert_int_equal(json_object_size(json_object_get(reply.json, "streams_by_policy")), 0);
	assert_float_equal(json_real_value(json_object_get(reply.json, "rate")), 0, 0);
	reply_free(&reply);
}

static void usage_says_when_a_part_is_missing(void **state)
{
	(void)state;
	fake.basis = fake.histogram_basis =
		(struct tally_basis){.partitions = 8, .owned = 2, .answered = 1};
	expect_status("/ingest-limits/usage/a", 200,
		"\"complete\":false,\"partitions\":{\"answered\":1,\"partial\":0,\"owned\":2}");
	expect_status("/ingest-limits/usage/nobody", 200, "\"complete\":false");
	expect_status("/api/v1/tenants/nobody", 503, "not_ready"); /* perhaps the other knows it */
	fake.err = TALLY_ENOTREADY;
	fake.basis = fake.histogram_basis = (struct tally_basis){.partitions = 8, .owned = 2};
	expect_status("/ingest-limits/usage/a", 503, "no partition of this instance is ready");
	fake.basis.owned = 0;
	expect_status("/api/v1/tenants", 503, "owns no partition");
}

static void answers_say_when_a_part_is_still_counted(void **state)
{
	(void)state;
	fake.basis = fake.histogram_basis = (struct tally_basis){.partitions = 8,
		.owned = 2,
		.answered = 1,
		.partial = 1,
		.counted_to_ms = 1700000000123};
	expect_status("/ingest-limits/usage/a", 200,
		"\"complete\":false,\"partitions\":{\"answered\":1,\"partial\":1,\"owned\":2}");
	expect_status("/api/v1/tenants/a", 200,
		"\"answered\":1,\"partial\":1,\"counted_to_ms\":1700000000123,\"complete\":false");
	expect_status("/api/v1/tenants/nobody", 503, "still replaying"); /* it may be yet to come */
	fake.histogram_basis.partial = 0; /* half of each: asked again, and again */
	expect_status("/api/v1/tenants/a", 503, "kept changing");
}

/* --- parameters, paths, methods -----------------------------------------------------------------
 */

static void http_refuses_with_the_right_status(void **state)
{
	static const struct {
		const char *target;
		int status;
		const char *in_body;
	} cases[] = {
		{"/ui/nothing", 404, "not_found"},
		{"/nothing", 404, "not_found"},
		{"/ready/", 404, "not_found"},
		{"/api/v1/tenants/a/b", 404, "not_found"},
		{"/ingest-limits/usage/", 400, "the tenant in the path is empty"},
		{"/api/v1/tenants/", 400, "is empty"},
		{"/api/v1/tenants/%ff", 400, "not UTF-8"},
		{"/api/v1/tenants/a%00b", 400, "NUL"},
		{"/api/v1/tenants/%zz", 400, "escape"},
		{"/api/v1/tenants/nobody", 404, "unknown_tenant"},
		{"/api/v1/tenants/nobody/streams", 404, "unknown_tenant"},
		{"/api/v1/tenants?limit=abc", 400, "limit must be a whole number from 1 to 10000"},
		{"/api/v1/tenants?limit=10001", 400, "from 1 to 10000"},
		{"/api/v1/tenants?after=%ff", 400, "after (a tenant's name) is not UTF-8"},
		{"/api/v1/tenants?page=2", 400, "unknown parameter"},
		{"/api/v1/tenants/a?limit=2", 400, "takes no parameters"},
		{"/api/v1/tenants/a/streams?after=garbage", 400, "after is not a cursor"},
		{"/api/v1/partitions/x", 400, "from 0 to 7"},
		{"/api/v1/partitions/8", 404, "it has 8 of them"},
		{"/api/v1/partitions/99999999999999999999", 400, "from 0 to 7"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_status(cases[i].target, cases[i].status, cases[i].in_body);
}

static void http_takes_get_and_head_only(void **state)
{
	static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "FOO"};
	struct reply reply;

	(void)state;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		reply = ask_as(methods[i], "/healthz");
		assert_int_equal(reply.status, 405);
		assert_non_null(strstr(reply.all, "\r\nAllow: GET, HEAD\r\n"));
		reply_free(&reply);
	}
	reply = ask_as("HEAD", "/api/v1/tenants");
	assert_int_equal(reply.status, 200);
	assert_int_equal(reply.len, 0);
	assert_non_null(strstr(reply.all, "\r\nContent-Type: application/json\r\n"));
	assert_non_null(strstr(reply.all, "\r\nCache-Control: no-store\r\n"));
	assert_null(strstr(reply.all, "\r\nContent-Length: 0\r\n"));
	reply_free(&reply);
	reply = ask_as("POST", "/nothing");
	assert_int_equal(reply.status, 404);
	reply_free(&reply);
}

/* --- pages --------------------------------------------------------------------------------------
 */

static void tenants_come_in_pages(void **state)
{
	struct reply reply = ask("/api/v1/tenants?limit=2");

	(void)state;
	assert_int_equal(json_array_size(json_object_get(reply.json, "tenants")), 2);
	assert_string_equal(text_of(&reply, "next"), "b\"/\n1");
	assert_string_equal(fake.tenant, "(first)");
	reply_free(&reply);
	reply = ask("/api/v1/tenants?limit=5&after=b%22%2F%0A1");
	assert_string_equal(fake.tenant, "b\"/\n1");
	assert_int_equal(json_array_size(json_object_get(reply.json, "tenants")), 5);
	assert_true(json_is_null(json_object_get(reply.json, "next")));
	assert_true(
		json_is_true(json_object_get(json_object_get(reply.json, "basis"), "complete")));
	reply_free(&reply);
}

static void streams_come_in_pages_without_loss(void **state)
{
	char target[128] = "/api/v1/tenants/a/streams?limit=2";
	json_t *streams;
	struct reply reply = ask(target);

	(void)state;
	streams = json_object_get(reply.json, "streams");
	assert_int_equal(json_array_size(streams), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(streams, 0), "hash")),
		"18446744073709551613");
	snprintf(target, sizeof(target), "/api/v1/tenants/a/streams?after=%s",
		text_of(&reply, "next"));
	reply_free(&reply);
	reply = ask(target);
	streams = json_object_get(reply.json, "streams");
	assert_int_equal(json_array_size(streams), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(streams, 0), "hash")),
		"18446744073709551615");
	assert_true(json_is_null(json_object_get(reply.json, "next")));
	reply_free(&reply);
}

/* A page that is built again starts where the client said, not where the first try ended. */
static void streams_built_again_start_at_the_same_place(void **state)
{
	struct reply reply;

	(void)state;
	fake.leaves = "streams";
	fake.leaves_times = 2;
	reply = ask("/api/v1/tenants/a/streams?limit=1&after=3.0000000000000001");
	assert_int_equal(reply.status, 200);
	assert_non_null(strstr(reply.body, "18446744073709551614"));
	assert_int_equal(fake.calls, 3);
	reply_free(&reply);
}

static void tenant_has_policies_and_minutes(void **state)
{
	struct reply reply = ask("/api/v1/tenants/a");
	json_t *histogram = json_object_get(reply.json, "histogram");

	(void)state;
	assert_int_equal(number_of(&reply, "streams"), 7);
	assert_int_equal(number_of(&reply, "bytes"), 900);
	assert_int_equal(json_array_size(json_object_get(reply.json, "policies")), 2);
	assert_int_equal(json_integer_value(json_object_get(histogram, "first_minute")),
		NOW_MS / 60000 - 120);
	assert_int_equal(json_array_size(json_object_get(histogram, "streams")), 121);
	assert_int_equal(
		json_integer_value(json_array_get(json_object_get(histogram, "bytes"), 120)), 700);
	reply_free(&reply);
}

static void partitions_say_what_is_known_of_them(void **state)
{
	struct reply reply = ask("/api/v1/partitions");

	(void)state;
	assert_int_equal(json_array_size(json_object_get(reply.json, "partitions")), 2);
	assert_non_null(strstr(reply.body, "\"death_detail\":\"SIGSEGV\""));
	assert_non_null(strstr(reply.body, "\"skipped\":{\"undecodable\":0"));
	assert_non_null(strstr(reply.body, "\"basis\":{\"partitions\":8,\"owned\":2"));
	reply_free(&reply);
	fake.partitions[0].has_stats = 0;
	expect_status("/api/v1/partitions/5", 200,
		"\"has_stats\":false,\"history\":[{\"time_ms\":1700000000123,\"from\":\"ready\","
		"\"to\":\"pending\",\"why\":\"exited\",\"generation\":\"18446744073709551615\","
		"\"death\":\"signal\",\"death_detail\":\"SIGKILL\"}],\"basis\"");
}

static void partitions_say_whether_topic_or_tally_lacks_one(void **state)
{
	(void)state;
	expect_status("/api/v1/partitions/9", 404, "the topic has no partition 9; it has 8 of");
	fake.instance.topic_partitions = 12;
	expect_status("/api/v1/partitions/9", 404,
		"no partition 9: this Tally serves 8 of the topic's 12 partitions "
		"(kafka.partitions)");
	expect_status("/api/v1/partitions/12", 404, "the topic has no partition 12; it has 12 of");
	fake.instance.topic_partitions = 2000;
	expect_status("/api/v1/partitions/9", 404,
		"this Tally serves 8 of the topic's 2000 partitions (no instance can serve more "
		"than 1024)");
}

static void http_ready_says_that_the_topic_lacks_a_partition(void **state)
{
	(void)state;
	fake.instance.topic_partitions = 3;
	fake.instance.ready = 1;
	strcpy(fake.partitions[1].state, "failed");
	fake.partitions[1].ready = fake.partitions[1].has_stats = 0;
	expect_status("/ready", 503,
		"the topic does not have it: kafka.partitions is 8, the topic has 3");
	expect_status("/api/v1/partitions", 200,
		"\"basis\":{\"partitions\":8,\"owned\":2,\"answered\":1,\"complete\":false");
	fake.instance.topic_partitions = 8;
	expect_status("/ready", 503, "it is failed");
}

/* --- connections --------------------------------------------------------------------------------
 */

static void http_answers_one_after_another_on_a_connection(void **state)
{
	static const char two[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
				  "HEAD /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	int fd = connection_open();
	struct reply reply;
	char *second;

	(void)state;
	assert_int_equal(send(fd, two, strlen(two), MSG_NOSIGNAL), strlen(two));
	reply = reply_read(fd);
	assert_int_equal(reply.status, 200);
	second = strstr(reply.body, "{\"status\":\"ok\"}HTTP/1.1 200 OK");
	assert_non_null(second);
	reply_free(&reply);
}

static void http_ends_what_sends_too_much(void **state)
{
	static const char head[] =
		"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 4294967296\r\n\r\n";
	char *junk = malloc(1 << 20);
	int fd = connection_open();
	struct reply reply;

	(void)state;
	memset(junk, 'x', 1 << 20);
	send(fd, head, strlen(head), MSG_NOSIGNAL);
	send(fd, junk, 1 << 20, MSG_NOSIGNAL);
	reply = reply_read(fd);
	assert_int_equal(reply.status, 0);
	assert_false(reply.open);
	reply_free(&reply);
	memcpy(junk, "GET /", 5); /* a target of a megabyte */
	fd = connection_open();
	send(fd, junk, 1 << 20, MSG_NOSIGNAL);
	reply = reply_read(fd);
	assert_true(reply.status == 0 || (reply.status >= 400 && reply.status < 500));
	reply_free(&reply);
	free(junk);
	expect_status("/healthz", 200, "ok");
}

static void http_survives_garbage(void **state)
{
	static const char *const bad[] = {"GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00",
		"GET /ready HTTP/1.1\r\nHost: x\r\nContent-Length: -1"
		"\r\n\r\n",
		"GET /ready HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /ready HTTP/1.1\r\nHost: x\r\n"
		"Transfer-Encoding: chunked\r\n\r\nzz\r\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int fd = connection_open();
		struct reply reply;

		send(fd, bad[i], strlen(bad[i]), MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		reply = reply_read(fd);
		if (reply.status == 200)
			fail_msg("accepted: %s", bad[i]);
		reply_free(&reply);
	}
	expect_status("/healthz", 200, "ok");
}

static void http_is_not_starved_by_idle_connections(void **state)
{
	enum { IDLE = 900 };
	struct rlimit limit;
	struct conns_facts facts;
	static int fd[IDLE];

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max < 3 * IDLE || setrlimit(RLIMIT_NOFILE, &limit) != 0)
		skip();
	for (int i = 0; i < IDLE; i++) {
		fd[i] = connection_open();
		if (i % 2 == 0)
			send(fd[i], "GET /heal", 9, MSG_NOSIGNAL);
	}
	expect_status("/healthz", 200, "ok");
	expect_status("/api/v1/tenants", 200, "tenant-0");
	/* Other threads may still be taking those that were made before. */
	for (int ms = 0; ms < 10000; ms++) {
		conns_facts(server.query.conns, &facts);
		if (facts.ended_for_room >= IDLE - HTTP_CONNECTIONS_MANY)
			break;
		usleep(1000);
	}
	assert_true(facts.ended_for_room >= IDLE - HTTP_CONNECTIONS_MANY);
	for (int i = 0; i < IDLE; i++)
		close(fd[i]);
}

static void http_lets_answers_under_way_end_when_it_stops(void **state)
{
	static const char get[] = "GET /api/v1/tenants HTTP/1.1\r\nHost: x\r\n\r\n";
	struct conns_facts facts = {0};
	struct reply reply;
	int fd;

	(void)state;
	fake.delay_ms = 300;
	fd = connection_open();
	send(fd, get, strlen(get), MSG_NOSIGNAL);
	for (int i = 0; i < 5000 && facts.asking == 0; i++) {
		usleep(1000);
		conns_facts(server.query.conns, &facts);
	}
	assert_int_equal(facts.asking, 1);
	http_stop(&server.http, false, 1500);
	reply = reply_read(fd);
	assert_int_equal(reply.status, 200);
	assert_int_equal(json_array_size(json_object_get(reply.json, "tenants")), 5);
	reply_free(&reply);
}

static void seats_are_idle_only_when_nobody_uses_them(void **state)
{
	struct seat *seat;

	(void)state;
	seat = seats_take(server.query.seats);
	assert_int_equal(seat_attach(server.query.seats, seat), 0);
	seats_idle(server.query.seats);
	assert_int_equal(fake.idled, 0);
	seats_give(server.query.seats, seat);
	seats_idle(server.query.seats);
	assert_int_equal(fake.idled, 1 + SEAT_STORE_CALLS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(http_lives_without_an_instance),
		SERVED(http_says_when_the_supervisor_is_gone),
		SERVED(http_ready_names_the_partition_that_is_not),
		SERVED(http_builds_again_when_a_partition_left),
		SERVED(http_checks_every_call_that_an_answer_is_made_of),
		SERVED(http_sends_nothing_of_a_revoked_store),
		SERVED(http_does_not_mix_two_sets_of_partitions),
		SERVED(usage_has_lokis_shape),
		SERVED(usage_of_an_unknown_tenant_is_zero),
		SERVED(usage_says_when_a_part_is_missing),
		SERVED(answers_say_when_a_part_is_still_counted),
		SERVED(http_refuses_with_the_right_status),
		SERVED(http_takes_get_and_head_only),
		SERVED(tenants_come_in_pages),
		SERVED(streams_come_in_pages_without_loss),
		SERVED(streams_built_again_start_at_the_same_place),
		SERVED(tenant_has_policies_and_minutes),
		SERVED(partitions_say_what_is_known_of_them),
		SERVED(partitions_say_whether_topic_or_tally_lacks_one),
		SERVED(http_ready_says_that_the_topic_lacks_a_partition),
		SERVED(http_answers_one_after_another_on_a_connection),
		SERVED(http_ends_what_sends_too_much),
		SERVED(http_survives_garbage),
		SERVED(http_is_not_starved_by_idle_connections),
		SERVED(http_lets_answers_under_way_end_when_it_stops),
		SERVED(seats_are_idle_only_when_nobody_uses_them),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
