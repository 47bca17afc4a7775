/*
 * queryd_fixture.h - the query process's HTTP server, over a libtally that says what a test wants.
 *
 *	test --TCP--> http.c, answer_*.c, metrics.c --tally_*()--> the functions in this file
 *
 * Defining them here keeps the real ones out of the program, so that a
 * partition can leave in the very moment between two lines.
 */
#ifndef TALLY_TESTS_QUERYD_FIXTURE_H
#define TALLY_TESTS_QUERYD_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FIXTURE __attribute__((unused))

#include "tools/queryd/answer.h"
#include "tools/queryd/http.h"
#include "tools/queryd/listen.h"

#include "shm/client_stand.h"

/* --- libtally, as the tests want it -------------------------------------------------------------
 */

#define NOW_MS INT64_C(1700000010000) /* half a minute into a minute */

struct tally {
	const char *last; /* the call whose answer it would vouch for */
};

static struct {
	int open_err;
	struct tally_instance instance;
	struct tally_partition partitions[4];
	size_t n_partitions;
	struct tally_basis basis, histogram_basis;
	int err; /* of calls that add up partitions */
	char tenant[257];
	_Atomic int delay_ms;
	_Atomic bool held;	  /* calls to stores do not return before it is false */
	const char *leaves;	  /* after this call ... */
	_Atomic int leaves_times; /* ... so often, a partition leaves before the answer is sent */
	_Atomic int calls, opened, idled;
	struct tally_tenant_limits limits;
	struct tally_bucket buckets[3];
	size_t n_buckets;
	_Atomic unsigned left; /* partitions (bits) that have left: client_stand_of */
	_Atomic int stands;    /* so many looks at them, and then ... */
	_Atomic unsigned next; /* ... these leave as well */
} fake;

FIXTURE static void fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.instance = (struct tally_instance){.topic = "t\"opic",
		.group = "g",
		.zone = "z",
		.instance = "i",
		.group_state = "member",
		.partitions = 8,
		.owned = 2,
		.ready = 2,
		.window_minutes = 120,
		.rate_minutes = 5,
		.supervisor_pid = 1,
		.alive = 1,
		.started_at_ms = NOW_MS - 5000};
	for (uint32_t i = 0; i < 2; i++)
		fake.partitions[i] = (struct tally_partition){.partition = i * 3,
			.state = "ready",
			.ready = 1,
			.generation = 9,
			.lease_ms = 4000,
			.has_stats = 1,
			.phase = "live",
			.death = "signal",
			.death_detail = "SIGSEGV",
			.death_at_ms = NOW_MS,
			.problems = "degraded stalled",
			.progress = 1,
			.eta_ms = 0,
			.next_offset = 70,
			.start_offset = 1,
			.target_offset = 60,
			.log_start = 0,
			.log_end = 80,
			.lag = 10,
			.replay_started_at_ms = 1,
			.ready_at_ms = 2,
			.records = 70,
			.changed_at_ms = 5};
	fake.n_partitions = 2;
	fake.basis =
		(struct tally_basis){.partitions = 8, .owned = 2, .answered = 2, .complete = 1};
	fake.histogram_basis = fake.basis;
	fake.limits = (struct tally_tenant_limits){.listed = 1, .version = 7, .basis = fake.basis};
	fake.buckets[0] = (struct tally_bucket){"", 100, 25, 20, 5};
	fake.buckets[1] =
		(struct tally_bucket){"free", TALLY_UNLIMITED, TALLY_UNLIMITED, 3, TALLY_UNLIMITED};
	fake.n_buckets = 2;
}

/* Every call to stores passes here. */
static int called(struct tally *tally, const char *name)
{
	const struct timespec delay = {.tv_nsec = fake.delay_ms * 1000000L};

	tally->last = name;
	fake.calls++;
	if (fake.delay_ms > 0)
		nanosleep(&delay, NULL);
	while (fake.held)
		usleep(1000);
	return fake.err;
}

int tally_open(const char *run_dir, unsigned flags, struct tally **out)
{
	(void)run_dir;
	if (flags & TALLY_STALE_OK)
		return TALLY_EINVALID; /* stale stores are not for us */
	if (fake.open_err != 0)
		return fake.open_err;
	fake.opened++;
	*out = calloc(1, sizeof(**out));
	return 0;
}

void tally_close(struct tally **tally)
{
	fake.opened--;
	free(*tally);
	*tally = NULL;
}

void tally_idle(struct tally *tally)
{
	(void)tally;
	fake.idled++;
}

int tally_still_valid(struct tally *tally)
{
	if (tally->last == NULL || fake.leaves == NULL || strcmp(tally->last, fake.leaves) != 0)
		return 1;
	return fake.leaves_times-- <= 0;
}

int64_t tally_now_ms(struct tally *tally)
{
	(void)tally;
	return NOW_MS;
}

const char *tally_error(int err)
{
	return err == TALLY_ENOTFOUND ? "not found" : "a sentence";
}

const char *tally_skip_reason(unsigned reason)
{
	static const char *const words[TALLY_SKIP_REASONS] = {"applied", "undecodable",
		"no_metadata", "no_tenant", "misrouted", "own", "duplicate", "too_old",
		"store_full", "quarantined"};

	return reason < TALLY_SKIP_REASONS ? words[reason] : NULL;
}

int tally_instance(struct tally *tally, struct tally_instance *out)
{
	(void)tally;
	*out = fake.instance;
	return 0;
}

int tally_partitions(struct tally *tally, struct tally_partition *out, size_t cap, size_t *n)
{
	(void)tally;
	*n = fake.n_partitions;
	for (size_t i = 0; i < *n && i < cap; i++)
		out[i] = fake.partitions[i];
	return 0;
}

int tally_partition(struct tally *tally, uint32_t partition, struct tally_partition *out)
{
	(void)tally;
	if (partition >= fake.instance.partitions)
		return TALLY_EINVALID;
	*out = fake.partitions[0];
	out->partition = partition;
	return 0;
}

int tally_history(
	struct tally *tally, uint32_t partition, struct tally_change *out, size_t cap, size_t *n)
{
	(void)tally;
	(void)partition;
	*n = 0;
	if (cap == 0)
		return 0;
	*n = 1;
	*out = (struct tally_change){.at_ms = 1700000000123,
		.generation = UINT64_MAX,
		.from = "ready",
		.to = "pending",
		.why = "exited",
		.death = "signal",
		.death_detail = "SIGKILL"};
	return 0;
}

static int unknown(const char *tenant)
{
	return strcmp(tenant, "nobody") == 0 ? TALLY_ENOTFOUND : 0;
}

int tally_policies(struct tally *tally, const char *tenant, struct tally_policy *out, size_t cap,
	size_t *n, struct tally_basis *basis)
{
	const struct tally_policy all[] = {{"", 3, 300}, {"gold", 4, 600}};
	int err = called(tally, "policies");

	snprintf(fake.tenant, sizeof(fake.tenant), "%s", tenant);
	*basis = fake.basis;
	*n = 0;
	if (err != 0 || unknown(tenant) != 0)
		return err != 0 ? err : TALLY_ENOTFOUND;
	*n = 2;
	for (size_t i = 0; i < 2 && i < cap; i++)
		out[i] = all[i];
	return 0;
}

int tally_histogram(struct tally *tally, const char *tenant, struct tally_minute *out, size_t cap,
	size_t *n, struct tally_basis *basis)
{
	int err = called(tally, "histogram");

	*basis = fake.histogram_basis;
	*n = 0;
	if (err != 0 || unknown(tenant) != 0)
		return err != 0 ? err : TALLY_ENOTFOUND;
	if (cap < 121)
		return TALLY_EINVALID;
	*n = 121;
	for (size_t i = 0; i < 121; i++)
		out[i] = (struct tally_minute){
			.minute = NOW_MS / 60000 - 120 + (int64_t)i, .streams = i == 120 ? 7 : 0};
	out[115].bytes = 10000; /* outside the rate window */
	out[116].bytes = 200;
	out[120].bytes = 700;
	return 0;
}

static void usage_at(struct tally_usage *out, unsigned i)
{
	*out = (struct tally_usage){
		.streams = 10 - i, .bytes = 100, .policies = 1, .basis = fake.basis};
	snprintf(out->tenant, sizeof(out->tenant), i == 1 ? "b\"/\n%u" : "tenant-%u", i);
}

int tally_tenants(struct tally *tally, const char *after, struct tally_usage *out, size_t cap,
	size_t *n, struct tally_basis *basis)
{
	int err = called(tally, "tenants");

	snprintf(fake.tenant, sizeof(fake.tenant), "%s", after != NULL ? after : "(first)");
	*basis = fake.basis;
	for (*n = 0; err == 0 && *n < 5 && *n < cap; ++*n)
		usage_at(&out[*n], (unsigned)*n);
	return err;
}

int tally_top(struct tally *tally, struct tally_usage *out, size_t cap, size_t *n,
	struct tally_basis *basis)
{
	int err = called(tally, "top");

	*basis = fake.basis;
	for (*n = 0; err == 0 && *n < 5 && *n < cap; ++*n)
		usage_at(&out[*n], (unsigned)*n);
	return err;
}

int tally_streams(struct tally *tally, const char *tenant, struct tally_cursor *cursor,
	struct tally_stream *out, size_t cap, size_t *n, struct tally_basis *basis)
{
	int err = called(tally, "streams");

	*basis = fake.basis;
	*n = 0;
	if (err != 0 || unknown(tenant) != 0)
		return err != 0 ? err : TALLY_ENOTFOUND;
	/* Three streams: hashes UINT64_MAX - 2 .. UINT64_MAX, all in partition 3. */
	for (uint64_t i = cursor->partition == 3 ? cursor->from : 0; i < 3 && *n < cap; i++, ++*n)
		out[*n] = (struct tally_stream){
			.hash = UINT64_MAX - 2 + i, .partition = 3, .active = 1, .policy = "gold"};
	cursor->from = (cursor->partition == 3 ? cursor->from : 0) + *n;
	cursor->partition = 3;
	cursor->done = cursor->from == 3;
	return 0;
}

int tally_buckets(struct tally *tally, const char *tenant, int32_t partition,
	struct tally_tenant_limits *limits, struct tally_bucket *out, size_t cap, size_t *n)
{
	int err = called(tally, "buckets");

	(void)tenant;
	(void)partition;
	*limits = fake.limits;
	*n = err != 0 ? 0 : fake.n_buckets;
	for (size_t i = 0; i < *n && i < cap; i++)
		out[i] = fake.buckets[i];
	return err;
}

/* Even partitions of 8 are ready; in them 0 is known, what is above 1000 does not fit. */
int tally_check(struct tally *tally, const char *tenant, struct tally_check *streams, size_t n,
	struct tally_tenant_limits *limits)
{
	int err = called(tally, "check");

	snprintf(fake.tenant, sizeof(fake.tenant), "%s", tenant);
	*limits = fake.limits;
	for (size_t i = 0; i < n; i++) {
		streams[i].partition = (uint32_t)(streams[i].hash % 8);
		streams[i].result = streams[i].hash % 2 ? TALLY_ENOTREADY : 0;
		streams[i].verdict = streams[i].hash == 0     ? TALLY_KNOWN
				     : streams[i].hash > 1000 ? TALLY_FULL
							      : TALLY_NEW;
	}
	return err;
}

int client_stand_begin(struct tally *tally, uint32_t *partitions)
{
	(void)tally;
	*partitions = fake.instance.partitions;
	return 0;
}

uint64_t client_stand_generation(const struct tally *tally, uint32_t partition, uint64_t boot_ns)
{
	(void)tally;
	(void)boot_ns;
	return partition % 2 ? 0 : 100 + partition;
}

enum client_standing client_stand_of(const struct tally *tally, uint32_t partition,
	uint64_t generation, uint32_t partitions, uint64_t boot_ns)
{
	(void)tally;
	(void)boot_ns;
	if (fake.stands > 0 && --fake.stands == 0)
		fake.left |= fake.next;
	return generation == 100 + partition && partitions == fake.instance.partitions &&
			       !(fake.left >> partition & 1)
		       ? STANDS_READY
		       : STANDS_LEFT;
}

/* The rest of client_stand.c, which the metrics of the asker bring along: never called. */

int64_t client_stand_assigned(const struct tally *tally, uint32_t partition, uint64_t boot_ns)
{
	(void)tally, (void)partition, (void)boot_ns;
	return -1;
}

int client_stand_known(struct tally *tally, const char *tenant, uint32_t partition,
	uint64_t generation, const uint64_t *hashes, size_t n, uint8_t *active, uint32_t *until)
{
	(void)tally, (void)tenant, (void)partition, (void)generation, (void)hashes, (void)n;
	(void)active, (void)until;
	return TALLY_ENOTREADY;
}

uint32_t client_stand_minute(const struct tally *tally)
{
	(void)tally;
	return 0;
}

uint64_t client_stand_limits(const struct tally *tally)
{
	(void)tally;
	return 0;
}

/* --- the server and its client ------------------------------------------------------------------
 */

static struct {
	struct query query;
	struct http *http;
	struct sockaddr_in address;
} server;

FIXTURE static int server_start(void **state)
{
	static const struct conns_limits limits = {
		.many = HTTP_CONNECTIONS_MANY,
		.waiting_ns = HTTP_WAITING_S * UINT64_C(1000000000),
		.asking_ns = HTTP_ASKING_S * UINT64_C(1000000000),
	};
	char bound[LISTEN_TEXT_SIZE], why[LISTEN_WHY_SIZE];
	int fd;

	(void)state;
	fake_reset();
	memset(&server, 0, sizeof(server));
	server.query.run_dir = "/nowhere";
	server.query.threads = 3;
	server.query.origins.names = "*"; /* test_queryd_origin.c has others */
	server.query.metrics_tenants = 3;
	server.query.seats = seats_new("/nowhere", 3);
	server.query.conns = conns_new(&limits);
	server.query.totals = totals_new(0);
	server.query.metrics_loki = true;
	server.query.ranking = ranking_new("/nowhere");
	fd = listen_open("127.0.0.1:0", "query.http_listen", false, bound, why);
	assert_true(fd >= 0);
	server.address.sin_family = AF_INET;
	server.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server.address.sin_port = htons((uint16_t)atoi(strrchr(bound, ':') + 1));
	server.http = http_start(&server.query, fd, NULL, NULL, why);
	assert_non_null(server.http);
	return 0;
}

FIXTURE static int server_stop(void **state)
{
	(void)state;
	http_stop(&server.http, false, 0);
	seats_free(&server.query.seats);
	conns_free(&server.query.conns);
	totals_free(&server.query.totals);
	ranking_free(&server.query.ranking);
	assert_int_equal(fake.opened, 0);
	return 0;
}

struct reply {
	int status;
	char *all, *body;
	size_t len; /* of the body */
	json_t *json;
	bool open; /* the server did not close */
};

static int connection_open(void)
{
	const struct timeval wait = {.tv_sec = 5};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (connect(fd, (struct sockaddr *)&server.address, sizeof(server.address)) != 0)
		fail_msg("connect: %s", strerror(errno));
	return fd;
}

/* Reads until the server closes. */
static struct reply reply_read(int fd)
{
	struct reply reply = {.all = calloc(1, 1 << 22)};
	size_t len = 0;
	ssize_t got;

	while ((got = recv(fd, reply.all + len, (1 << 22) - 1 - len, 0)) > 0)
		len += (size_t)got;
	reply.open = got < 0 && errno == EAGAIN;
	close(fd);
	reply.body = strstr(reply.all, "\r\n\r\n");
	if (reply.body == NULL)
		return reply; /* status 0: no answer */
	reply.body += 4;
	reply.len = len - (size_t)(reply.body - reply.all);
	sscanf(reply.all, "HTTP/1.1 %d", &reply.status);
	reply.json = json_loads(reply.body, 0, NULL);
	return reply;
}

FIXTURE static struct reply ask_as(const char *method, const char *target)
{
	char text[4096];
	int fd = connection_open();

	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		method, target);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return reply_read(fd);
}

FIXTURE static struct reply ask(const char *target)
{
	return ask_as("GET", target);
}

static void reply_free(struct reply *reply)
{
	json_decref(reply->json);
	free(reply->all);
}

FIXTURE static const char *text_of(const struct reply *reply, const char *key)
{
	const char *text = json_string_value(json_object_get(reply->json, key));

	return text != NULL ? text : "(none)";
}

FIXTURE static long long number_of(const struct reply *reply, const char *key)
{
	json_t *value = json_object_get(reply->json, key);

	if (!json_is_integer(value))
		fail_msg("no number %s in %s", key, reply->body);
	return json_integer_value(value);
}

FIXTURE static void expect_status(const char *target, int status, const char *in_body)
{
	struct reply reply = ask(target);

	if (reply.status != status || strstr(reply.body, in_body) == NULL)
		fail_msg("%s: %d %s", target, reply.status, reply.body);
	reply_free(&reply);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, server_start, server_stop)

#endif
