/*
 * test_queryd_origin.c - whose requests are taken: names in Host, pages in Origin and
 * Sec-Fetch-Site.
 */
#include "queryd_fixture.h"

#include "tools/queryd/origin.h"

#define EXCEEDS "/api/v1/exceeds-limits"

/* The name in Host, of a request to 127.0.0.1 that comes from no page. */
static enum origin_verdict named(const char *names, const char *host)
{
	const struct origin_rules rules = {.names = names, .own = "machine"};
	const struct origin origin = {.method = "GET", .host = host, .fd = -1};

	return origin_judge(&rules, &origin);
}

static void addresses_and_localhost_are_taken(void **state)
{
	static const char *const hosts[] = {"127.0.0.1", "127.0.0.1:3100", "localhost",
		"LocalHost:3100", "10.2.3.4:3100", "[::1]:3100", "[fe80::1%eth0]", "machine",
		"Machine:3100"};

	(void)state;
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		if (named("", hosts[i]) != ORIGIN_OURS || named("a.b", hosts[i]) != ORIGIN_OURS)
			fail_msg("%s is refused", hosts[i]);
	assert_int_equal(named("", NULL), ORIGIN_OURS); /* HTTP/1.0: no browser */
}

static void names_that_somebody_could_own_are_not(void **state)
{
	static const char *const hosts[] = {"evil.example", "evil.example:3100",
		"127.0.0.1.evil.example", "127.0.0.1.", "127.1", "1.2.3.4.5",
		"localhost.evil.example", "evil-localhost", "localhost:evil.example",
		"machine.evil.example", "[::1].evil.example", "[::1",
		"evil.example:", "127.0.0.1@evil.example", "x", "2130706433.evil", " "};

	(void)state;
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		if (named("", hosts[i]) != ORIGIN_OTHER_NAME ||
			named(NULL, hosts[i]) != ORIGIN_OTHER_NAME)
			fail_msg("%s is taken", hosts[i]);
}

static void names_in_the_list_are_taken(void **state)
{
	(void)state;
	assert_int_equal(named("tally.example.com, tally-1", "Tally.example.com:80"), ORIGIN_OURS);
	assert_int_equal(named("tally.example.com,tally-1", "tally-1"), ORIGIN_OURS);
	assert_int_equal(named("tally.example.com,tally-1", "tally-11"), ORIGIN_OTHER_NAME);
	assert_int_equal(named("tally.example.com,tally-1", "example.com"), ORIGIN_OTHER_NAME);
	assert_int_equal(named(", ,", "evil.example"), ORIGIN_OTHER_NAME);
	assert_int_equal(named("*", "evil.example"), ORIGIN_OURS);
}

static void any_name_is_taken_with_tls_or_tokens(void **state)
{
	struct origin_rules rules = {.names = "", .guarded = true};
	const struct origin origin = {.method = "GET", .host = "tally.example.com", .fd = -1};

	(void)state;
	assert_int_equal(origin_judge(&rules, &origin), ORIGIN_OURS);
	rules.names = "tally-1"; /* unless there is a list */
	assert_int_equal(origin_judge(&rules, &origin), ORIGIN_OTHER_NAME);
}

static enum origin_verdict from(
	const char *method, const char *site, const char *mode, const char *page)
{
	const struct origin_rules rules = {.names = ""};
	const struct origin origin = {.method = method,
		.host = "127.0.0.1:3100",
		.site = site,
		.mode = mode,
		.origin = page,
		.fd = -1};

	return origin_judge(&rules, &origin);
}

static void pages_of_others_are_refused(void **state)
{
	(void)state;
	assert_int_equal(from("GET", "cross-site", "no-cors", NULL), ORIGIN_OTHER_PAGE);
	assert_int_equal(
		from("GET", "same-site", "cors", "http://127.0.0.1:80"), ORIGIN_OTHER_PAGE);
	assert_int_equal(from("POST", "cross-site", "navigate", "null"), ORIGIN_OTHER_PAGE);
	assert_int_equal(from("OPTIONS", "cross-site", "cors", "http://e"), ORIGIN_OTHER_PAGE);
	assert_int_equal(from("GET", "", "", NULL), ORIGIN_OTHER_PAGE);
	/* An older browser, or one that says it to addresses with TLS only. */
	assert_int_equal(from("POST", NULL, NULL, "http://evil.example"), ORIGIN_OTHER_PAGE);
	assert_int_equal(from("POST", NULL, NULL, "null"), ORIGIN_OTHER_PAGE);
	assert_int_equal(from("POST", NULL, NULL, "http://127.0.0.1:31000"), ORIGIN_OTHER_PAGE);
}

static void our_own_page_links_and_other_clients_are_not(void **state)
{
	(void)state;
	assert_int_equal(from("GET", NULL, NULL, NULL), ORIGIN_OURS);
	assert_int_equal(from("POST", NULL, NULL, NULL), ORIGIN_OURS);
	assert_int_equal(from("GET", "same-origin", "cors", NULL), ORIGIN_OURS);
	assert_int_equal(from("POST", "same-origin", "cors", "http://127.0.0.1:3100"), ORIGIN_OURS);
	assert_int_equal(from("POST", NULL, NULL, "http://127.0.0.1:3100"), ORIGIN_OURS);
	assert_int_equal(from("GET", "none", "navigate", NULL), ORIGIN_OURS);
	assert_int_equal(from("GET", "cross-site", "navigate", NULL), ORIGIN_OURS);
}

/* --- over a socket ------------------------------------------------------------------------------ */

static struct reply send_with(const char *method, const char *target, const char *headers)
{
	char text[1024];
	int fd = connection_open();

	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nConnection: close\r\n%s\r\n", method,
		target, headers);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return reply_read(fd);
}

static void server_answers_nothing_under_a_foreign_name(void **state)
{
	static const char *const paths[] = {
		"/", "/ui/app.js", "/metrics", "/healthz", "/api/v1/tenants", "/nothing"};
	struct reply reply;

	(void)state;
	server.query.origins.names = "";
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		reply = send_with("GET", paths[i], "Host: evil.example:3100\r\n");
		assert_int_equal(reply.status, 421);
		assert_non_null(strstr(reply.all, "query.http_hosts"));
		assert_null(strstr(reply.all, "Tally</title>"));
	}
	reply = send_with("GET", "/healthz", "Host: localhost:1\r\n");
	assert_int_equal(reply.status, 200);
}

static void server_takes_no_post_of_a_foreign_page(void **state)
{
	struct reply reply;
	int calls;

	(void)state;
	server.query.origins.names = "";
	calls = fake.calls;
	reply = send_with("POST", EXCEEDS,
		"Host: 127.0.0.1\r\nOrigin: http://evil.example\r\nContent-Type: "
		"application/json\r\nContent-Length: 1000000\r\n");
	assert_int_equal(reply.status, 403);
	assert_int_equal(fake.calls, calls);
	assert_null(strstr(reply.all, "Access-Control-"));
	reply = send_with("OPTIONS", EXCEEDS,
		"Host: 127.0.0.1\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n"
		"Access-Control-Request-Method: POST\r\n");
	assert_int_equal(reply.status, 403);
	assert_null(strstr(reply.all, "Access-Control-"));
}

static void answers_are_in_no_page(void **state)
{
	struct reply reply = send_with("GET", "/api/v1/instance", "Host: 127.0.0.1\r\n");

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_non_null(strstr(reply.all, "Cross-Origin-Resource-Policy: same-origin\r\n"));
	assert_non_null(strstr(reply.all, "frame-ancestors 'none'\r\n"));
	assert_non_null(strstr(reply.all, "X-Content-Type-Options: nosniff\r\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_and_localhost_are_taken),
		cmocka_unit_test(names_that_somebody_could_own_are_not),
		cmocka_unit_test(names_in_the_list_are_taken),
		cmocka_unit_test(any_name_is_taken_with_tls_or_tokens),
		cmocka_unit_test(pages_of_others_are_refused),
		cmocka_unit_test(our_own_page_links_and_other_clients_are_not),
		cmocka_unit_test_setup_teardown(
			server_answers_nothing_under_a_foreign_name, server_start, server_stop),
		cmocka_unit_test_setup_teardown(
			server_takes_no_post_of_a_foreign_page, server_start, server_stop),
		cmocka_unit_test_setup_teardown(answers_are_in_no_page, server_start, server_stop),
	};

	return cmocka_run_group_tests_name("queryd_origin", tests, NULL, NULL);
}
