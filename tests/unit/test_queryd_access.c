/*
 * test_queryd_access.c - HTTP with query.tokens_file: who gets which path, and what the others are told.
 */
#include "queryd_fixture.h"

#include <openssl/sha.h>

#include "tools/queryd/access.h"

static char path[] = "/tmp/tally-tokens-XXXXXX";

/* The tokens are "admin-t", "ask-t", "read-t", "metrics-t", "one-t" (tenant one/x). */
static void put_token(FILE *out, const char *token, const char *scopes)
{
	uint8_t hash[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)token, strlen(token), hash);
	fputs("sha256:", out);
	for (size_t i = 0; i < sizeof(hash); i++)
		fprintf(out, "%02x", hash[i]);
	fprintf(out, " %s\n", scopes);
}

static int setup(void **state)
{
	char why[ACCESS_WHY_SIZE];
	FILE *out;

	server_start(state);
	strcpy(path + strlen(path) - 6, "XXXXXX");
	out = fdopen(mkstemp(path), "w");
	assert_non_null(out);
	put_token(out, "admin-t", "admin");
	put_token(out, "ask-t", "ask");
	put_token(out, "read-t", "read");
	put_token(out, "metrics-t", "metrics");
	put_token(out, "one-t", "read:one%2Fx");
	fclose(out);
	server.query.access = access_new(path, why);
	assert_non_null(server.query.access);
	return 0;
}

static int teardown(void **state)
{
	server_stop(state);
	access_free(&server.query.access);
	unlink(path);
	return 0;
}

static struct reply ask_with(
	const char *method, const char *target, const char *headers, const char *body)
{
	char text[4096];
	int fd = connection_open();

	snprintf(text, sizeof(text),
		"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
		method, target, headers, strlen(body), body);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return reply_read(fd);
}

static int status_of(const char *method, const char *target, const char *token)
{
	char headers[256] = "Content-Type: application/json\r\n";
	struct reply reply;
	int status;

	if (token[0] != '\0')
		snprintf(headers, sizeof(headers),
			"Content-Type: application/json\r\nAuthorization: Bearer %s\r\n", token);
	reply = ask_with(method, target, headers,
		strcmp(method, "POST") == 0
			? "{\"tenant\":\"one/x\",\"streams\":[{\"streamHash\":2}]}"
			: "");
	status = reply.status;
	reply_free(&reply);
	return status;
}

static void access_gives_each_token_its_paths(void **state)
{
	/* 0: the path has its own answer, whatever that is; none of 401 and 403. */
	static const struct {
		const char *method, *target;
		int none, unknown, admin, asks, reads, metrics, one;
	} table[] = {
		{"GET", "/healthz", 0, 0, 0, 0, 0, 0, 0},
		{"GET", "/ready", 401, 401, 0, 403, 0, 0, 403},
		{"GET", "/metrics", 401, 401, 0, 403, 0, 0, 403},
		{"HEAD", "/metrics", 401, 401, 0, 403, 0, 0, 403},
		{"GET", "/api/v1/instance", 401, 401, 0, 403, 0, 403, 403},
		{"GET", "/api/v1/partitions", 401, 401, 0, 403, 0, 403, 403},
		{"GET", "/api/v1/partitions/0", 401, 401, 0, 403, 0, 403, 403},
		{"GET", "/api/v1/tenants", 401, 401, 0, 403, 0, 403, 403},
		{"GET", "/api/v1/tenants/one%2Fx", 401, 401, 0, 403, 0, 403, 0},
		{"GET", "/api/v1/tenants/%6fne%2fx/streams?limit=2", 401, 401, 0, 403, 0, 403, 0},
		{"GET", "/api/v1/tenants/one%2Fx/limits", 401, 401, 0, 403, 0, 403, 0},
		{"GET", "/ingest-limits/usage/one%2Fx", 401, 401, 0, 403, 0, 403, 0},
		{"GET", "/api/v1/tenants/two", 401, 401, 0, 403, 0, 403, 403},
		{"GET", "/api/v1/tenants/two/streams", 401, 401, 0, 403, 0, 403, 403},
		{"GET", "/api/v1/tenants/", 401, 401, 0, 403, 0, 403, 403},
		{"GET", "/ingest-limits/usage/one", 401, 401, 0, 403, 0, 403, 403},
		{"POST", "/api/v1/check", 401, 401, 0, 0, 0, 403, 0},
		{"POST", "/api/v1/exceeds-limits", 401, 401, 0, 0, 403, 403, 403},
		{"POST", "/api/v1/update-rates", 401, 401, 0, 0, 403, 403, 403},
		{"POST", "/ingest-limits/exceeds-limits", 401, 401, 0, 0, 403, 403, 403},
		{"POST", "/metrics", 401, 401, 0, 403, 0, 0, 403},
		{"GET", "/no/such/path", 401, 401, 0, 0, 0, 0, 0},
		{"GET", "/%zz", 401, 401, 0, 0, 0, 0, 0},
	};
	static const char *const tokens[] = {
		"", "nobody", "admin-t", "ask-t", "read-t", "metrics-t", "one-t"};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (size_t t = 0; t < 7; t++) {
			int got = status_of(table[i].method, table[i].target, tokens[t]);
			int want = (&table[i].none)[t];

			if (got == 0 || (want == 0 ? got == 401 || got == 403 : got != want))
				fail_msg("%s %s as \"%s\": %d, not %d", table[i].method,
					table[i].target, tokens[t], got, want);
		}
}

static void access_checks_the_tenant_in_the_body(void **state)
{
	struct reply reply = ask_with("POST", "/api/v1/check",
		"Content-Type: application/json\r\nAuthorization: Bearer one-t\r\n",
		"{\"tenant\":\"two\",\"streams\":[{\"streamHash\":2}]}");

	(void)state;
	assert_int_equal(reply.status, 403);
	assert_int_equal(fake.calls, 0); /* nothing was read */
	reply_free(&reply);
}

static void access_says_what_is_wanted_and_repeats_no_token(void **state)
{
	struct reply reply = ask_with("GET", "/metrics", "", "");

	(void)state;
	assert_int_equal(reply.status, 401);
	assert_non_null(strstr(reply.all, "\r\nWWW-Authenticate: Bearer realm=\"tally\"\r\n"));
	assert_string_equal(text_of(&reply, "error"), "unauthenticated");
	assert_non_null(strstr(text_of(&reply, "reason"), "Authorization: Bearer TOKEN"));
	reply_free(&reply);
	reply = ask_with("GET", "/metrics", "Authorization: Bearer hunter2\r\n", "");
	assert_int_equal(reply.status, 401);
	assert_null(strstr(reply.all, "hunter2"));
	reply_free(&reply);
}

static void access_takes_the_header_as_the_rfc_has_it(void **state)
{
	static const struct {
		const char *header;
		int status;
	} headers[] = {
		{"Authorization: bearer   metrics-t  ", 200},
		{"authorization: BEARER metrics-t", 200},
		{"Authorization: Bearer", 401},
		{"Authorization: Bearer ", 401},
		{"Authorization: Bearermetrics-t", 401},
		{"Authorization: Basic metrics-t", 401},
		{"Authorization: metrics-t", 401},
		{"Authorization: Bearer metrics-t metrics-t", 401},
		{"Authorization: Bearer metrics-", 401},
		{"Authorization: Bearer metrics-tt", 401},
		{"Cookie: Bearer metrics-t", 401},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		char text[200];
		struct reply reply;

		snprintf(text, sizeof(text), "%s\r\n", headers[i].header);
		reply = ask_with("GET", "/metrics", text, "");
		if (reply.status != headers[i].status)
			fail_msg("%s: %d", headers[i].header, reply.status);
		reply_free(&reply);
	}
}

static void access_counts_whom_it_refused(void **state)
{
	struct reply reply;

	(void)state;
	assert_int_equal(status_of("GET", "/ready", ""), 401);
	assert_int_equal(status_of("GET", "/ready", "nobody"), 401);
	assert_int_equal(status_of("GET", "/ready", "ask-t"), 403);
	assert_int_equal(status_of("GET", "/ready", "ask-t"), 403);
	reply = ask_with("GET", "/metrics", "Authorization: Bearer metrics-t\r\n", "");
	assert_non_null(strstr(reply.body,
		"\ntally_access_refused_total{protocol=\"http\",reason=\"no_token\"} 1\n"
		"tally_access_refused_total{protocol=\"http\",reason=\"unknown_token\"} 1\n"
		"tally_access_refused_total{protocol=\"http\",reason=\"scope\"} 2\n"));
	assert_non_null(strstr(reply.body, "\ntally_access_tokens 5\n"));
	assert_non_null(
		strstr(reply.body, "tally_query_answers_total{route=\"/ready\",status=\"401\"} 2"));
	assert_null(strstr(reply.body, "metrics-t"));
	reply_free(&reply);
}

static void access_takes_in_no_body_of_a_stranger(void **state)
{
	static const char head[] =
		"POST /api/v1/exceeds-limits HTTP/1.1\r\nHost: x\r\n"
		"Content-Type: application/json\r\nContent-Length: 4000000\r\n\r\n{";
	int fd = connection_open();
	struct reply reply;

	(void)state;
	assert_int_equal(send(fd, head, sizeof(head) - 1, MSG_NOSIGNAL), sizeof(head) - 1);
	reply = reply_read(fd); /* until it closes: it does not wait for the rest */
	assert_int_equal(reply.status, 401);
	assert_false(reply.open);
	assert_int_equal(atomic_load(&server.query.bodies), 0);
	reply_free(&reply);
}

static void access_is_renewed_as_a_whole_or_not_at_all(void **state)
{
	char why[ACCESS_WHY_SIZE];
	FILE *out = fopen(path, "w");

	(void)state;
	put_token(out, "new-t", "metrics");
	fputs("nonsense\n", out);
	fclose(out);
	assert_false(access_renew(server.query.access, why));
	assert_non_null(strstr(why, ":2: must begin with sha256:"));
	assert_int_equal(status_of("GET", "/metrics", "new-t"), 401);
	assert_int_equal(status_of("GET", "/metrics", "metrics-t"), 200);
	out = fopen(path, "w");
	put_token(out, "new-t", "metrics");
	fclose(out);
	assert_true(access_renew(server.query.access, why));
	assert_int_equal(status_of("GET", "/metrics", "new-t"), 200);
	assert_int_equal(status_of("GET", "/metrics", "metrics-t"), 401);
}

#define WITH_TOKENS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TOKENS(access_gives_each_token_its_paths),
		WITH_TOKENS(access_checks_the_tenant_in_the_body),
		WITH_TOKENS(access_says_what_is_wanted_and_repeats_no_token),
		WITH_TOKENS(access_takes_the_header_as_the_rfc_has_it),
		WITH_TOKENS(access_counts_whom_it_refused),
		WITH_TOKENS(access_takes_in_no_body_of_a_stranger),
		WITH_TOKENS(access_is_renewed_as_a_whole_or_not_at_all),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
