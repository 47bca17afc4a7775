/*
 * test_queryd_post.c - questions that are posted: shapes, refusals, bounds, and that nothing is
 * passed on that a partition said which has left.
 */
#include <pthread.h>

#include "queryd_fixture.h"

#include "tools/queryd/http.h"

#include "shm/host.h"

#define JSON	 "Content-Type: application/json\r\n"
#define OWN	 "/api/v1/exceeds-limits"
#define LOKI	 "/ingest-limits/exceeds-limits"
#define QUESTION "{\"tenant\":\"a\",\"streams\":[" STREAMS "]}"
#define STREAMS                                                                                    \
	"{\"streamHash\":18446744073709551614,\"totalSize\":7,\"ingestionPolicy\":\"gold\"},"      \
	"{\"streamHash\":\"2\"},{\"streamHash\":4},{\"streamHash\":3},{\"streamHash\":6}"

/* --- the asker, as the tests want it ------------------------------------------------------------
 */

static struct {
	_Atomic int asked;
	int err;
	enum ask_kind kind;
	char tenant[257], policy[257];
	uint64_t bytes;
	size_t n;
	bool all_or_nothing;
	unsigned leaves;     /* partitions that leave while workers think */
	_Atomic bool thinks; /* until it no longer does */
} asker;

static pthread_mutex_t asked_lock = PTHREAD_MUTEX_INITIALIZER; /* several threads ask at a time */

/* By hash % 8: 0 accepted, 2 rejected, 4 failed, odd ones unserved, 6 accepted. */
static int fake_ask(struct asker *self, struct ask *ask, struct tally *again)
{
	assert_ptr_equal(self, &asker);
	assert_non_null(again);
	assert_true(ask->deadline_ns > host_boot_ns());
	assert_true(ask->deadline_ns < host_boot_ns() + UINT64_C(5000000000));
	pthread_mutex_lock(&asked_lock);
	asker.asked++;
	asker.kind = ask->kind;
	asker.n = ask->n;
	asker.all_or_nothing = ask->all_or_nothing;
	snprintf(asker.tenant, sizeof(asker.tenant), "%s", ask->tenant);
	snprintf(asker.policy, sizeof(asker.policy), "%s", ask->streams[0].policy);
	asker.bytes = ask->streams[0].bytes;
	pthread_mutex_unlock(&asked_lock);
	for (size_t i = 0; asker.err == 0 && i < ask->n; i++) {
		struct ask_stream *stream = &ask->streams[i];

		stream->result = stream->hash % 2	 ? ASK_UNSERVED
				 : stream->hash % 8 == 2 ? ASK_REJECTED
				 : stream->hash % 8 == 4 ? ASK_FAILED
							 : ASK_ACCEPTED;
		stream->rate = 1000 + stream->hash % 8;
	}
	fake.left |= asker.leaves;
	while (asker.thinks)
		usleep(1000);
	return asker.err;
}

static int start(void **state)
{
	memset(&asker, 0, sizeof(asker));
	server_start(state);
	server.query.ask = fake_ask;
	server.query.asker = (struct asker *)(void *)&asker;
	return 0;
}

static int stop(void **state)
{
	asker.thinks = false; /* a test has failed: nobody waits any longer */
	return server_stop(state);
}

/* --- kit ----------------------------------------------------------------------------------------
 */

static void send_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);

		if (sent <= 0)
			return; /* it closed: reply_read finds out what it said */
		data += sent;
		len -= (size_t)sent;
	}
}

static struct reply post_as(const char *target, const char *headers, const char *body, size_t len)
{
	char head[1024];
	int fd = connection_open();

	snprintf(head, sizeof(head),
		"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n",
		target, headers, len);
	send_all(fd, head, strlen(head));
	send_all(fd, body, len);
	return reply_read(fd);
}

static struct reply post(const char *target, const char *body)
{
	return post_as(target, JSON, body, strlen(body));
}

static void expect_post(
	const char *target, const char *headers, const char *body, int status, const char *in_body)
{
	struct reply reply = post_as(target, headers, body, strlen(body));

	if (reply.status != status || strstr(reply.body, in_body) == NULL)
		fail_msg("%s: %d %s, not %s", body, reply.status,
			reply.body != NULL ? reply.body : "nothing", in_body);
	reply_free(&reply);
}

/* --- shapes -------------------------------------------------------------------------------------
 */

static void exceeds_has_lokis_shape_with_all_digits(void **state)
{
	struct reply reply = post(LOKI, QUESTION);

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_string_equal(reply.body, "{\"results\":["
					"{\"streamHash\":2,\"reason\":2},"
					"{\"streamHash\":4,\"reason\":1},"
					"{\"streamHash\":3,\"reason\":1}]}");
	assert_int_equal(asker.asked, 1);
	assert_int_equal(asker.kind, ASK_EXCEEDS);
	assert_int_equal(asker.n, 5);
	assert_false(asker.all_or_nothing);
	assert_string_equal(asker.tenant, "a");
	assert_string_equal(asker.policy, "gold");
	assert_int_equal(asker.bytes, 7);
	reply_free(&reply);
	expect_post(LOKI, JSON,
		"{\"tenant\":\"a\",\"streams\":[{\"streamHash\":18446744073709551610}]}", 200,
		"{\"results\":[{\"streamHash\":18446744073709551610,\"reason\":2}]}");
	reply = post(LOKI, "{\"tenant\":\"a\",\"streams\":[{\"streamHash\":8}]}");
	assert_string_equal(reply.body, "{}"); /* results omitted when empty */
	reply_free(&reply);
	asker.asked = 0;
	reply = post(LOKI, "{\"tenant\":\"a\",\"streams\":[]}");
	assert_string_equal(reply.body, "{}");
	assert_int_equal(asker.asked, 0);
	reply_free(&reply);
}

static void exceeds_says_a_word_for_every_stream(void **state)
{
	struct reply reply = post(OWN, QUESTION);

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_string_equal(reply.body,
		"{\"tenant\":\"a\",\"results\":["
		"{\"streamHash\":\"18446744073709551614\",\"result\":\"accepted\"},"
		"{\"streamHash\":\"2\",\"result\":\"rejected\"},"
		"{\"streamHash\":\"4\",\"result\":\"failed\"},"
		"{\"streamHash\":\"3\",\"result\":\"unserved\"},"
		"{\"streamHash\":\"6\",\"result\":\"accepted\"}],"
		"\"accepted\":2,\"rejected\":1,\"failed\":1,\"unserved\":1}");
	reply_free(&reply);
	expect_post(OWN, JSON, "{\"tenant\":\"\\\"\\u0001\xc3\xa4\",\"streams\":[]}", 200,
		"{\"tenant\":\"\\\"\\u0001\\u00E4\",\"results\":[],\"accepted\":0,");
}

static void rates_come_with_the_streams(void **state)
{
	struct reply reply = post("/api/v1/update-rates", QUESTION);

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_int_equal(asker.kind, ASK_RATES);
	assert_non_null(strstr(reply.body,
		"{\"streamHash\":\"18446744073709551614\",\"result\":\"accepted\",\"rate\":1006}"));
	assert_non_null(strstr(reply.body, "{\"streamHash\":\"3\",\"result\":\"unserved\"}"));
	reply_free(&reply);
}

static void check_reads_and_asks_nobody(void **state)
{
	struct reply reply = post("/api/v1/check",
		"{\"tenant\":\"a\",\"streams\":[{\"streamHash\":0},{\"streamHash\":2},"
		"{\"streamHash\":1002},{\"streamHash\":18446744073709551615}]}");

	(void)state;
	assert_int_equal(reply.status, 200);
	assert_int_equal(asker.asked, 0);
	assert_non_null(strstr(reply.body,
		"{\"tenant\":\"a\",\"results\":["
		"{\"streamHash\":\"0\",\"partition\":0,\"result\":\"known\"},"
		"{\"streamHash\":\"2\",\"partition\":2,\"result\":\"new\"},"
		"{\"streamHash\":\"1002\",\"partition\":2,\"result\":\"full\"},"
		"{\"streamHash\":\"18446744073709551615\",\"partition\":7,\"result\":\"not_ready\"}"
		"],"
		"\"limits\":{\"listed\":true,\"is_default\":false,\"dry_run\":false,"
		"\"scope\":\"instance\",\"version\":\"7\"},\"basis\":{\"partitions\":8"));
	reply_free(&reply);
	fake.leaves = "check";
	fake.leaves_times = 1; /* built again from the same body */
	fake.calls = 0;
	expect_post("/api/v1/check", JSON, QUESTION, 200, "18446744073709551614");
	assert_int_equal(fake.calls, 2);
	fake.leaves_times = 1000;
	expect_post("/api/v1/check", JSON, QUESTION, 503, "not_ready");
	fake.leaves = NULL;
	fake.err = TALLY_ENOTREADY;
	fake.limits.basis = (struct tally_basis){.partitions = 8};
	expect_post("/api/v1/check", JSON, QUESTION, 503, "owns no partition");
	fake.err = TALLY_EFORMAT;
	expect_post("/api/v1/check", JSON, QUESTION, 500, "format");
}

static void limits_say_what_is_left(void **state)
{
	(void)state;
	expect_status("/api/v1/tenants/a/limits", 200,
		"{\"tenant\":\"a\",\"limits\":{\"listed\":true,\"is_default\":false,\"dry_run\":"
		"false,"
		"\"scope\":\"instance\",\"version\":\"7\"},\"buckets\":["
		"{\"policy\":\"\",\"limit\":100,\"share\":25,\"streams\":20,\"headroom\":5},"
		"{\"policy\":\"free\",\"limit\":null,\"share\":null,\"streams\":3,"
		"\"headroom\":null}],\"basis\":{\"partitions\":8");
	expect_status("/api/v1/tenants//limits", 400, "is empty");
	expect_status("/api/v1/tenants/a/limits?x=1", 400, "takes no parameters");
	fake.err = TALLY_ENOTREADY;
	expect_status("/api/v1/tenants/a/limits", 503, "not_ready");
}

/* --- the promise --------------------------------------------------------------------------------
 */

/* Workers have answered, and then their partition leaves: what it said is not passed on. */
static void exceeds_passes_nothing_on_of_a_partition_that_has_left(void **state)
{
	struct reply reply;

	(void)state;
	asker.leaves = 1u << 6 | 1u << 2;
	reply = post(OWN, QUESTION);
	assert_int_equal(reply.status, 200);
	assert_non_null(strstr(reply.body, "{\"streamHash\":\"18446744073709551614\",\"result\":"
					   "\"unserved\"},{\"streamHash\":\"2\",\"result\":"
					   "\"unserved\"},{\"streamHash\":\"4\",\"result\":"
					   "\"failed\"}"));
	assert_non_null(strstr(reply.body, "\"accepted\":0,\"rejected\":0,\"failed\":1,"));
	assert_int_equal(asker.asked, 1);
	reply_free(&reply);
	fake.left = 0;
	expect_post(LOKI, JSON, QUESTION, 200,
		"\"results\":[{\"streamHash\":18446744073709551614,"
		"\"reason\":1},{\"streamHash\":2,\"reason\":1}");
	fake.left = 0;
	expect_post("/api/v1/update-rates", JSON, QUESTION, 200, "\"accepted\":0,");
}

/* ... also when it leaves while the answer is being written. */
static void exceeds_looks_again_after_it_has_written(void **state)
{
	static const char *const targets[] = {OWN, LOKI, "/api/v1/update-rates"};
	static const char *const says[] = {"{\"streamHash\":\"2\",\"result\":\"unserved\"}",
		"{\"streamHash\":2,\"reason\":1}",
		"{\"streamHash\":\"2\",\"result\":\"unserved\"}"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		fake.left = 0;
		fake.next = 1u << 2;
		fake.stands = 4; /* three streams are looked at before it is written */
		expect_post(targets[i], JSON, QUESTION, 200, says[i]);
		assert_int_equal(fake.stands, 0);
	}
}

static void exceeds_says_so_when_nobody_can_be_asked(void **state)
{
	(void)state;
	asker.err = TALLY_ENOTREADY;
	expect_post(OWN, JSON, QUESTION, 503, "not_ready");
	asker.err = TALLY_ENOMEM;
	expect_post(LOKI, JSON, QUESTION, 503, "no_memory");
	server.query.ask = NULL;
	expect_post(OWN, JSON, QUESTION, 503, "no_asker");
	expect_post("/api/v1/check", JSON, QUESTION, 200, "results");
}

/* --- threads ------------------------------------------------------------------------------------
 */

static int post_begin(const char *target)
{
	char text[1024];
	int fd = connection_open(),
	    len = snprintf(text, sizeof(text),
		    "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" JSON
		    "Content-Length: %zu\r\n\r\n%s",
		    target, strlen(QUESTION), QUESTION);

	send_all(fd, text, (size_t)len);
	return fd;
}

/* All threads but one wait for workers: who only reads is answered, who asks is to come again. */
static void questions_leave_a_thread_for_others(void **state)
{
	static const char *const targets[] = {OWN, LOKI, "/api/v1/update-rates"};
	struct reply reply;
	int fd[2];

	(void)state;
	asker.thinks = true;
	for (int i = 0; i < 2; i++) {
		fd[i] = post_begin(targets[i]);
		for (int ms = 0; ms < 5000 && asker.asked <= i; ms++)
			usleep(1000);
		assert_int_equal(asker.asked, i + 1);
	}
	for (int i = 0; i < 3; i++) {
		reply = reply_read(post_begin(targets[i]));
		assert_int_equal(reply.status, 503);
		assert_string_equal(text_of(&reply, "error"), "busy");
		assert_non_null(strstr(reply.all, "\r\nRetry-After: 1\r\n"));
		reply_free(&reply);
	}
	expect_status("/healthz", 200, "ok");
	expect_post("/api/v1/check", JSON, QUESTION, 200, "results");
	asker.thinks = false;
	for (int i = 0; i < 2; i++) {
		reply = reply_read(fd[i]);
		assert_int_equal(reply.status, 200);
		reply_free(&reply);
	}
	assert_int_equal(asker.asked, 2);
	expect_post(OWN, JSON, QUESTION, 200, "accepted");
	server.query.threads = 1; /* one is allowed to, at least */
	expect_post(OWN, JSON, QUESTION, 200, "accepted");
}

/* --- what is refused ----------------------------------------------------------------------------
 */

static void post_is_strict(void **state)
{
	static const char *const targets[] = {OWN, LOKI, "/api/v1/check", "/api/v1/update-rates"};

	(void)state;
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		expect_post(targets[i], JSON, "", 400, "the body is empty");
		expect_post(targets[i], JSON, "{\"tenant\":\"a\"}", 400,
			"{\"error\":\"invalid\",\"reason\":\"the question has no \\\"streams\\\"");
		expect_post(targets[i], JSON, "{\"tenant\":\"a\",\"streams\":[{\"hash\":1}]}", 400,
			"no key \\\"hash\\\" (stream 0, byte 32)");
		expect_post(targets[i], JSON, QUESTION "x", 400, "something behind");
		expect_post(targets[i], JSON, "{\"\xff\":1}", 400, "not UTF-8");
		expect_post(targets[i], "", QUESTION, 415, "Content-Type: application/json");
		expect_post(
			targets[i], "Content-Type: text/plain\r\n", QUESTION, 415, "content_type");
		expect_post(targets[i], "Content-Type: application/jsonp\r\n", QUESTION, 415,
			"content_type");
		expect_post(
			targets[i], JSON "Content-Encoding: gzip\r\n", QUESTION, 415, "compressed");
		expect_post(targets[i], "Content-Type: Application/JSON; charset=utf-8\r\n",
			QUESTION, 200, "");
		expect_status(targets[i], 405, "takes POST only");
	}
	expect_post(OWN "?x=1", JSON, QUESTION, 400, "takes no parameters");
	expect_post("/api/v1/tenants", JSON, QUESTION, 405, "GET and HEAD");
	expect_post("/nothing", JSON, QUESTION, 404, "not_found");
	struct reply reply = ask_as("OPTIONS", OWN);
	assert_int_equal(reply.status, 405);
	assert_non_null(strstr(reply.all, "\r\nAllow: POST\r\n"));
	assert_null(strstr(reply.all, "Access-Control"));
	reply_free(&reply);
}

/* --- bounds -------------------------------------------------------------------------------------
 */

static char *padded(size_t len)
{
	char *body = malloc(len + 1);

	memset(body, ' ', len);
	memcpy(body, QUESTION, strlen(QUESTION));
	body[len] = '\0';
	return body;
}

static void post_takes_4_mib_and_no_more(void **state)
{
	char *body = padded(BODY_MAX);
	struct reply reply;

	(void)state;
	reply = post_as(OWN, JSON, body, BODY_MAX);
	assert_int_equal(reply.status, 200);
	reply_free(&reply);
	free(body);
	body = padded(BODY_MAX + 1);
	reply = post_as(OWN, JSON, body, BODY_MAX + 1);
	assert_true(reply.status == 413 || reply.status == 0); /* 0: reset before it was read */
	reply_free(&reply);
	/* Asked for before it is sent. */
	expect_post(OWN, JSON "Content-Length: 4194305\r\nX: ", "", 413, "too_large");
	expect_status("/healthz", 200, "ok");
	assert_int_equal(server.query.bodies, 0);
	free(body);
}

/* Chunks of 64 KiB: nobody knows how much there will be. */
static struct reply post_chunked(size_t bytes, bool end)
{
	static const char head[] = "POST " OWN " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" JSON
				   "Transfer-Encoding: chunked\r\n\r\n";
	char *body = padded(bytes), size[16];
	int fd = connection_open();

	send_all(fd, head, strlen(head));
	for (size_t at = 0; at < bytes; at += 65536) {
		size_t len = bytes - at < 65536 ? bytes - at : 65536;

		snprintf(size, sizeof(size), "%zx\r\n", len);
		send_all(fd, size, strlen(size));
		send_all(fd, body + at, len);
		send_all(fd, "\r\n", 2);
	}
	if (end)
		send_all(fd, "0\r\n\r\n", 5);
	free(body);
	return reply_read(fd);
}

static void post_bounds_what_comes_in_chunks(void **state)
{
	struct reply reply = post_chunked(100000, true);

	(void)state;
	assert_int_equal(reply.status, 200);
	reply_free(&reply);
	reply = post_chunked(BODY_MAX + 1, true);
	assert_int_equal(reply.status, 413);
	assert_non_null(strstr(reply.body, "too_large"));
	reply_free(&reply);
	reply = post_chunked(BODY_SEEN_MAX + 65536, false);
	assert_int_equal(reply.status, 0);
	assert_false(reply.open);
	reply_free(&reply);
	assert_int_equal(server.query.bodies, 0);
	expect_post(OWN, JSON, QUESTION, 200, "accepted");
}

/* Many who never end hold no more than all may; others are told to come again. */
static void post_bounds_all_bodies_together(void **state)
{
	enum { MANY = 20 };
	static const char head[] =
		"POST " OWN " HTTP/1.1\r\nHost: x\r\n" JSON "Content-Length: 4194304\r\n\r\n";
	char *body = padded(BODY_MAX);
	int fd[MANY];

	(void)state;
	for (int i = 0; i < MANY; i++) {
		fd[i] = connection_open();
		send_all(fd[i], head, strlen(head));
		send_all(fd[i], body, BODY_MAX - 1);
		/* One after the other: two that grow at a time could both find no room. */
		for (size_t ms = 0, all = (size_t)(i + 1) * BODY_MAX;
			ms < 10000 && server.query.bodies < (all < BODIES_MAX ? all : BODIES_MAX);
			ms++)
			usleep(1000);
	}
	assert_int_equal(server.query.bodies, BODIES_MAX);
	expect_post(OWN, JSON, QUESTION, 503, "busy");
	expect_status("/healthz", 200, "ok");
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
	/* The library may notice only by its silence that somebody has gone. */
	for (int i = 0; i < 1000 * (HTTP_SILENT_S + 10) && server.query.bodies > 0; i++)
		usleep(1000);
	assert_int_equal(server.query.bodies, 0);
	expect_post(OWN, JSON, QUESTION, 200, "accepted");
	free(body);
}

static void post_works_on_a_kept_connection(void **state)
{
	char text[4096];
	int fd = connection_open(), len;
	struct reply reply;

	(void)state;
	len = snprintf(text, sizeof(text),
		"POST " OWN " HTTP/1.1\r\nHost: x\r\n" JSON "Content-Length: %zu\r\n\r\n%s"
		"POST " LOKI " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" JSON
		"Content-Length: %zu\r\n\r\n%s",
		strlen(QUESTION), QUESTION, strlen(QUESTION), QUESTION);
	for (int i = 0; i < len; i += 50) /* in small pieces */
		send_all(fd, text + i, (size_t)(len - i < 50 ? len - i : 50));
	reply = reply_read(fd);
	assert_int_equal(reply.status, 200);
	assert_non_null(strstr(reply.body, "\"unserved\":1}HTTP/1.1 200 OK"));
	assert_non_null(strstr(reply.body, "{\"streamHash\":3,\"reason\":1}]}"));
	assert_int_equal(asker.asked, 2);
	reply_free(&reply);
}

#undef SERVED
#define SERVED(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(exceeds_has_lokis_shape_with_all_digits),
		SERVED(exceeds_says_a_word_for_every_stream),
		SERVED(rates_come_with_the_streams),
		SERVED(check_reads_and_asks_nobody),
		SERVED(limits_say_what_is_left),
		SERVED(exceeds_passes_nothing_on_of_a_partition_that_has_left),
		SERVED(exceeds_looks_again_after_it_has_written),
		SERVED(exceeds_says_so_when_nobody_can_be_asked),
		SERVED(questions_leave_a_thread_for_others),
		SERVED(post_is_strict),
		SERVED(post_takes_4_mib_and_no_more),
		SERVED(post_bounds_what_comes_in_chunks),
		SERVED(post_bounds_all_bodies_together),
		SERVED(post_works_on_a_kept_connection),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
