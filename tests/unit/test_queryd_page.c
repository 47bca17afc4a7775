/*
 * test_queryd_page.c - the web page's files, and what the API has for it: tenants in an order,
 * streams seen last, processes.
 */
#include "queryd_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "tools/queryd/access.h"
#include "tools/queryd/processes.h"

#include "shm/limits.h"

static char dir[] = "/tmp/tally-page-XXXXXX";

static int setup(void **state)
{
	server_start(state);
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	ranking_free(&server.query.ranking);
	server.query.ranking = ranking_new(dir);
	return 0;
}

static int teardown(void **state)
{
	char path[64];

	server_stop(state);
	snprintf(path, sizeof(path), "%s/%s", dir, LIMITS_NAME);
	unlink(path);
	rmdir(dir);
	return 0;
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static struct reply ask_with(const char *method, const char *target, const char *headers)
{
	char text[2048];
	int fd = connection_open();

	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n",
		method, target, headers);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return reply_read(fd);
}

static void has(const struct reply *reply, const char *text)
{
	if (strstr(reply->all, text) == NULL)
		fail_msg("no \"%s\" in: %.800s", text, reply->all);
}

static void has_not(const struct reply *reply, const char *text)
{
	if (strstr(reply->all, text) != NULL)
		fail_msg("\"%s\" is in it", text);
}

/* --- files -------------------------------------------------------------------------------------- */

static void page_runs_and_loads_its_own_files_only(void **state)
{
	struct reply reply = ask("/");

	(void)state;
	assert_int_equal(reply.status, 200);
	has(&reply, "Content-Type: text/html; charset=utf-8\r\n");
	has(&reply, "Content-Security-Policy: default-src 'none'; script-src 'self'; "
		    "style-src 'self'; connect-src 'self'; img-src 'self' data:; ");
	has(&reply, "frame-ancestors 'none'\r\n");
	has(&reply, "X-Content-Type-Options: nosniff\r\n");
	has(&reply, "Referrer-Policy: no-referrer\r\n");
	has(&reply, "Cache-Control: no-cache\r\n");
	has(&reply, "<!doctype html>");
	has_not(&reply, "<style");
	has_not(&reply, "style=");
	has_not(&reply, "://");
	has_not(&reply, "onclick");
	reply_free(&reply);
}

/* Asks for each file that `text` names by src="..", href=".." or from '..'; how many. */
static int follow(const char *text, const char *before, char end)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, before)) != NULL;) {
		char target[128];
		size_t len;
		struct reply reply;

		at += strlen(before);
		len = strcspn(at, (const char[]){end, '\0'});
		snprintf(target, sizeof(target), "/ui/%.*s", (int)len, at);
		reply = ask(target);
		if (reply.status != 200 || reply.len == 0)
			fail_msg("%s: %d", target, reply.status);
		has(&reply, "nosniff");
		if (strstr(target, "uPlot") == NULL) {
			has_not(&reply, "innerHTML");
			has_not(&reply, "insertAdjacentHTML");
			has_not(&reply, "document.write");
			has_not(&reply, "eval(");
			n += follow(reply.body, "from './", '\'');
		}
		reply_free(&reply);
		n++;
	}
	return n;
}

static void page_has_all_that_it_asks_for(void **state)
{
	struct reply reply = ask("/");

	(void)state;
	assert_true(follow(reply.body, "=\"/ui/", '"') >= 14);
	reply_free(&reply);
	expect_status("/ui/nothing.js", 404, "no such file");
	expect_status("/ui/", 404, "no such file");
	expect_status("/ui/..%2fui.c", 404, "no such file");
	expect_status("/ui/uPlot.LICENSE.txt", 200, "The MIT License");
}

static void page_is_sent_once_and_again_when_it_has_changed(void **state)
{
	char headers[128], etag[64] = "";
	struct reply reply = ask("/ui/app.js");

	(void)state;
	sscanf(strstr(reply.all, "ETag: "), "ETag: %63[^\r]", etag);
	assert_int_equal(etag[0], '"');
	reply_free(&reply);
	snprintf(headers, sizeof(headers), "If-None-Match: W/\"x\", %s\r\n", etag);
	reply = ask_with("GET", "/ui/app.js", headers);
	assert_int_equal(reply.status, 304);
	assert_int_equal(reply.len, 0);
	has(&reply, etag);
	reply_free(&reply);
	reply = ask_with("GET", "/ui/app.js", "If-None-Match: \"0123456789abcdef\"\r\n");
	assert_int_equal(reply.status, 200);
	reply_free(&reply);
	reply = ask_with("HEAD", "/ui/app.js", "");
	assert_int_equal(reply.status, 200);
	assert_int_equal(reply.len, 0);
	has(&reply, etag);
	reply_free(&reply);
	reply = ask_with("POST", "/", "Content-Length: 0\r\n");
	assert_int_equal(reply.status, 405);
	reply_free(&reply);
}

static void page_needs_no_instance_and_no_token(void **state)
{
	char path[80], why[ACCESS_WHY_SIZE];
	FILE *out;

	(void)state;
	snprintf(path, sizeof(path), "%s/tokens", dir);
	out = fopen(path, "w");
	assert_non_null(out);
	chmod(path, 0600);
	fputs("sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae read\n",
		out);
	fclose(out);
	server.query.access = access_new(path, why);
	assert_non_null(server.query.access);
	fake.open_err = TALLY_ENOTFOUND;
	expect_status("/", 200, "<!doctype html>");
	expect_status("/ui/style.css", 200, "--accent");
	expect_status("/api/v1/processes", 401, "unauthenticated");
	expect_status("/api/v1/tenants?sort=headroom", 401, "unauthenticated");
	access_free(&server.query.access);
	unlink(path);
}

/* --- tenants in an order ------------------------------------------------------------------------ */

/* Of 8 partitions 2 are owned: a limit of 80 is a share of 20. */
static void write_limits(enum limit_scope scope)
{
	const struct limits_policy gold = {"free", 7};
	const struct limits_tenant tenants[] = {
		{.name = "tenant-0", .streams = 80, .has_streams = true},
		{.name = "tenant-2", .streams = 36, .has_streams = true, .dry_run = true},
		{.name = "tenant-3", .streams = LIMIT_NONE, .has_streams = true},
		{.name = "tenant-4", .streams = 4, .has_streams = true},
		{.name = "b\"/\n1", .policies = &gold, .n_policies = 1},
	};
	const struct limits_source source = {.version = 7,
		.default_streams = 400,
		.scope = scope,
		.tenants = tenants,
		.n_tenants = 5};
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY);

	assert_int_equal(limits_write(dirfd, &source), 0);
	close(dirfd);
	fake.instance.limits_version = 7;
}

/* The names in the answer, blank-separated. */
static const char *order(const char *target)
{
	static char names[512];
	struct reply reply = ask(target);
	json_t *list = json_object_get(reply.json, "tenants"), *one;
	size_t i;

	if (reply.status != 200)
		fail_msg("%s: %d %s", target, reply.status, reply.body);
	names[0] = '\0';
	json_array_foreach(list, i, one)
	{
		strcat(names, i > 0 ? " " : "");
		strcat(names, json_string_value(json_object_get(one, "tenant")));
	}
	reply_free(&reply);
	return names;
}

static json_t *nearest_of(struct reply *reply, const char *tenant)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(reply->json, "tenants"), i,
		one) if (strcmp(json_string_value(json_object_get(one, "tenant")), tenant) ==
			 0) return json_object_get(one, "nearest");
	fail_msg("no %s in %s", tenant, reply->body);
	return NULL;
}

static long long in(json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void tenants_come_by_nearness_to_their_limit(void **state)
{
	struct reply reply;
	json_t *near;

	(void)state;
	write_limits(LIMIT_INSTANCE);
	assert_string_equal(order("/api/v1/tenants?sort=headroom"),
		"tenant-4 tenant-2 b\"/\n1 tenant-0 tenant-3");
	reply = ask("/api/v1/tenants?sort=headroom");
	near = nearest_of(&reply, "tenant-0");
	assert_int_equal(in(near, "limit"), 80);
	assert_int_equal(in(near, "share"), 20);
	assert_int_equal(in(near, "streams"), 10);
	assert_int_equal(in(near, "left"), 10);
	assert_float_equal(json_real_value(json_object_get(near, "used")), 0.5, 1e-9);
	assert_true(json_is_false(json_object_get(near, "dry_run")));
	assert_true(json_is_true(json_object_get(nearest_of(&reply, "tenant-2"), "dry_run")));
	assert_int_equal(in(nearest_of(&reply, "tenant-4"), "left"), 0);
	assert_true(json_is_null(json_object_get(nearest_of(&reply, "tenant-3"), "used")));
	/* Its policy has a limit: its buckets are asked for, and the fullest is shown. */
	near = nearest_of(&reply, "b\"/\n1");
	assert_int_equal(in(near, "share"), 25);
	assert_int_equal(in(near, "streams"), 20);
	assert_int_equal(number_of(&reply, "matched"), 5);
	assert_int_equal(number_of(&reply, "looked_at"), 5);
	assert_true(json_is_true(json_object_get(reply.json, "all")));
	assert_int_equal(number_of(&reply, "as_of_ms"), NOW_MS);
	reply_free(&reply);
}

static void tenants_by_partition_have_the_sum_of_the_parts(void **state)
{
	struct reply reply;

	(void)state;
	write_limits(LIMIT_PARTITION);
	reply = ask("/api/v1/tenants?sort=headroom");
	assert_int_equal(in(nearest_of(&reply, "tenant-2"), "share"), 10); /* 2 x ceil(36 / 8) */
	reply_free(&reply);
}

static void tenants_without_published_limits_are_listed(void **state)
{
	struct reply reply = ask("/api/v1/tenants?sort=headroom");

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_true(json_is_null(nearest_of(&reply, "tenant-0")));
	reply_free(&reply);
}

static void tenants_are_found_by_a_part_of_their_name(void **state)
{
	(void)state;
	assert_string_equal(order("/api/v1/tenants?q=NANT-2"), "tenant-2");
	assert_string_equal(order("/api/v1/tenants?q=%22/&sort=rate"), "b\"/\n1");
	assert_string_equal(order("/api/v1/tenants?q=nobody"), "");
	assert_string_equal(order("/api/v1/tenants?q=&sort=name&limit=2"), "b\"/\n1 tenant-0");
	assert_string_equal(order("/api/v1/tenants?sort=streams&limit=2"), "tenant-0 b\"/\n1");
	expect_status("/api/v1/tenants?q=tenant&limit=1", 200, "\"matched\":4,\"looked_at\":5");
}

static void tenants_in_an_order_refuse_what_has_no_meaning(void **state)
{
	(void)state;
	expect_status("/api/v1/tenants?sort=size", 400, "headroom, streams, rate, bytes or name");
	expect_status("/api/v1/tenants?sort=rate&after=a", 400, "after= is not for lists");
	expect_status("/api/v1/tenants?q=a&limit=1001", 400, "from 1 to 1000");
	expect_status("/api/v1/tenants?q=%ff", 400, "not UTF-8");
	expect_status("/api/v1/tenants?q=a&q=b", 400, "q is given twice");
	expect_status("/api/v1/tenants/a/streams?q=a", 400, "q= is for tenants");
	expect_status("/api/v1/tenants/a/streams?sort=rate", 400, "sort must be newest");
	expect_status("/api/v1/tenants/a/streams?sort=newest&after=3.0000000000000000", 400,
		"after= is not for");
}

static void tenants_are_read_once_for_all_who_look(void **state)
{
	(void)state;
	write_limits(LIMIT_INSTANCE);
	order("/api/v1/tenants?sort=headroom");
	assert_int_equal(fake.calls, 2); /* a pass, and the buckets of one */
	order("/api/v1/tenants?sort=name");
	order("/api/v1/tenants?q=tenant-1");
	assert_int_equal(fake.calls, 2);
	ranking_idle(server.query.ranking);
	assert_true(fake.idled >= 2);
}

#define MANY 6 /* more than there are threads */

static int begin_to_ask(const char *target)
{
	char text[256];
	int fd = connection_open();

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		target);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

/* One after another: a thread that stands still would take none of the later ones. */
static void all_wait(int fds[MANY], const char *target, const char *other)
{
	struct conns_facts facts = {0};

	fake.held = true;
	for (unsigned i = 0; i < MANY; i++) {
		fds[i] = begin_to_ask(i % 2 ? other : target);
		for (int ms = 0; ms < 10000 && facts.asking <= i; ms++) {
			usleep(1000);
			conns_facts(server.query.conns, &facts);
		}
		fake.held = facts.asking == i + 1; /* else the end would wait as well */
		assert_true(fake.held);
	}
	while (fake.calls == 0)
		usleep(1000);
}

static void a_pass_over_all_tenants_keeps_nobody_waiting_but_who_asked_for_it(void **state)
{
	int fds[MANY];

	(void)state;
	all_wait(fds, "/api/v1/tenants?sort=headroom", "/metrics");
	for (int i = 0; i < MANY; i++)
		expect_status("/healthz", 200, "");
	fake.held = false;
	for (int i = 0; i < MANY; i++) {
		struct reply reply = reply_read(fds[i]);

		assert_int_equal(reply.status, 200);
		assert_non_null(strstr(reply.body, "tenant-2"));
		reply_free(&reply);
	}
}

static void stop_while_all_wait(unsigned grace_ms)
{
	int fds[MANY];
	char byte;

	all_wait(fds, "/api/v1/tenants?sort=headroom", "/api/v1/tenants?q=a");
	http_stop(&server.http, false, grace_ms);
	for (int i = 0; i < MANY; i++) {
		while (recv(fds[i], &byte, 1, 0) > 0) /* 503, or it had not been read yet */
			;
		close(fds[i]);
	}
	fake.held = false;
}

static void who_waits_for_a_pass_does_not_hold_up_the_end(void **state)
{
	(void)state;
	stop_while_all_wait(1000);
}

static void who_waits_for_a_pass_is_no_trouble_for_a_sudden_end(void **state)
{
	(void)state;
	stop_while_all_wait(0);
}

static void tenants_of_a_revoked_store_are_not_sent(void **state)
{
	struct reply reply;

	(void)state;
	order("/api/v1/tenants?sort=headroom");
	fake.leaves = "top";
	fake.leaves_times = 1; /* what was kept is of no use any more */
	assert_string_equal(order("/api/v1/tenants?sort=name&limit=1"), "b\"/\n1");
	assert_int_equal(fake.calls, 2);
	fake.leaves_times = 1000;
	reply = ask("/api/v1/tenants?sort=headroom");
	assert_int_equal(reply.status, 503);
	has_not(&reply, "streams\"");
	reply_free(&reply);
	fake.leaves = NULL;
	fake.err = TALLY_ENOTREADY;
	fake.basis = (struct tally_basis){.partitions = 8, .owned = 2};
	usleep(1100000); /* what was kept has had its time */
	expect_status(
		"/api/v1/tenants?sort=headroom", 503, "no partition of this instance is ready");
}

/* --- streams and processes ---------------------------------------------------------------------- */

static void streams_seen_last_come_first(void **state)
{
	struct reply reply = ask("/api/v1/tenants/a/streams?sort=newest&limit=2");

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_int_equal(json_array_size(json_object_get(reply.json, "streams")), 2);
	assert_int_equal(number_of(&reply, "looked_at"), 3);
	assert_true(json_is_true(json_object_get(reply.json, "all")));
	reply_free(&reply);
	expect_status("/api/v1/tenants/nobody/streams?sort=newest", 404, "unknown_tenant");
	fake.leaves = "streams";
	fake.leaves_times = 1000;
	expect_status("/api/v1/tenants/a/streams?sort=newest", 503, "not_ready");
}

static void processes_are_what_the_kernel_says(void **state)
{
	struct reply reply;
	json_t *list, *one;

	(void)state;
	fake.instance.supervisor_pid = (uint32_t)getpid();
	fake.instance.query_pids[0] = 0x7ffffffe; /* there is none */
	fake.partitions[1].pid = (uint32_t)getpid();
	reply = ask("/api/v1/processes");
	list = json_object_get(reply.json, "processes");
	assert_int_equal(json_array_size(list), 3);
	one = json_array_get(list, 0);
	assert_string_equal(json_string_value(json_object_get(one, "role")), "supervisor");
	assert_true(in(one, "rss_bytes") > 100000);
	assert_true(in(one, "threads") >= 2);
	assert_true(in(one, "shared_bytes") <= in(one, "rss_bytes"));
	one = json_array_get(list, 1);
	assert_true(json_is_false(json_object_get(one, "seen")));
	assert_true(json_is_null(json_object_get(one, "cpu_ms")));
	one = json_array_get(list, 2);
	assert_string_equal(json_string_value(json_object_get(one, "role")), "worker");
	assert_int_equal(in(one, "partition"), 3);
	assert_int_equal(number_of(&reply, "answered_by"), getpid());
	reply_free(&reply);
}

static void processes_may_have_any_name(void **state)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), hz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct process_facts facts;

	(void)state;
	assert_true(process_parse("7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 50 25 0 0 20 0 9 0 200 "
				  "1000000 300 18446744073709551615 1 1 0",
		"5000 300 120 9 0 70 0", 2000 * 1000 / hz * 1 + 10000, &facts));
	assert_int_equal(facts.cpu_ms, 75 * 1000 / hz);
	assert_int_equal(facts.threads, 9);
	assert_int_equal(facts.rss_bytes, 300 * page);
	assert_int_equal(facts.shared_bytes, 120 * page);
	assert_true(facts.age_ms > 0);
	assert_false(process_parse("", "", 0, &facts));
	assert_false(process_parse("7 (x) S 1 7", "1 2 3", 0, &facts));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(page_runs_and_loads_its_own_files_only),
		IN_DIR(page_has_all_that_it_asks_for),
		IN_DIR(page_is_sent_once_and_again_when_it_has_changed),
		IN_DIR(page_needs_no_instance_and_no_token),
		IN_DIR(tenants_come_by_nearness_to_their_limit),
		IN_DIR(tenants_by_partition_have_the_sum_of_the_parts),
		IN_DIR(tenants_without_published_limits_are_listed),
		IN_DIR(tenants_are_found_by_a_part_of_their_name),
		IN_DIR(tenants_in_an_order_refuse_what_has_no_meaning),
		IN_DIR(tenants_are_read_once_for_all_who_look),
		IN_DIR(a_pass_over_all_tenants_keeps_nobody_waiting_but_who_asked_for_it),
		IN_DIR(who_waits_for_a_pass_does_not_hold_up_the_end),
		IN_DIR(who_waits_for_a_pass_is_no_trouble_for_a_sudden_end),
		IN_DIR(tenants_of_a_revoked_store_are_not_sent),
		IN_DIR(streams_seen_last_come_first),
		IN_DIR(processes_are_what_the_kernel_says),
		IN_DIR(processes_may_have_any_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
