/*
 * peers_fixture.c - instances that answer as a test wants them to, all in one loop with those who ask.
 */
#include "peers_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/queryd/limits.pb-c.h"

#include "shm/host.h"
#include "shm/log.h"

#define PATIENCE_NS UINT64_C(20000000000)

struct stage stage;

/* --- instances ---------------------------------------------------------------------------------- */

static void reply(struct grpc_call *call, const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = malloc(len + 1);

	assert_non_null(bytes);
	protobuf_c_message_pack(message, bytes);
	grpc_reply(call, bytes, len);
	free(bytes);
}

static void give_map(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	struct instance *instance = arg;
	Proto__GetAssignedPartitionsResponse response =
		PROTO__GET_ASSIGNED_PARTITIONS_RESPONSE__INIT;
	Proto__GetAssignedPartitionsResponse__AssignedPartitionsEntry entries[PARTITIONS],
		*list[PARTITIONS];

	(void)message;
	assert_int_equal(len, 0);
	instance->maps++;
	if (instance->map_sleeps)
		return;
	if (instance->map_fails) {
		grpc_fail(call, GRPC_UNAVAILABLE, "not yet");
		return;
	}
	response.assignedpartitions = list;
	for (int p = 0; p < PARTITIONS; p++) {
		if (instance->assigned[p] == 0)
			continue;
		proto__get_assigned_partitions_response__assigned_partitions_entry__init(
			&entries[p]);
		entries[p].key = p;
		entries[p].value = instance->assigned[p];
		list[response.n_assignedpartitions++] = &entries[p];
	}
	reply(call, &response.base);
}

static bool is_rejected(const struct instance *instance, uint64_t hash, unsigned *used)
{
	for (unsigned i = 0; i < instance->rejects_n; i++)
		if (instance->rejects[i] == hash && (*used & 1u << i) == 0) {
			*used |= 1u << i;
			return true;
		}
	return false;
}

static void see(struct instance *instance, Proto__StreamMetadata **streams, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		instance->seen[instance->streams++ % SEEN_MAX] = streams[i]->streamhash;
		snprintf(instance->policy, sizeof(instance->policy), "%s",
			streams[i]->ingestionpolicy);
	}
}

/* true: it has been dealt with. */
static bool in_a_mood(struct instance *instance, struct grpc_call *call)
{
	static const uint8_t garbage[] = {0x0a, 0x7f, 0x08};
	uint8_t *much;

	switch (instance->mood) {
	case ACCEPTS:
		return false;
	case LEAVES:
		memset(instance->assigned, 0, sizeof(instance->assigned));
		grpc_fail(call, GRPC_UNAVAILABLE, "not ours any more");
		return true;
	case REFUSES:
		grpc_fail(call, GRPC_UNAVAILABLE, "not served by this instance");
		return true;
	case SLEEPS:
		return true;
	case DIES:
		instance->dies = true;
		return true;
	case BABBLES:
		grpc_reply(call, garbage, sizeof(garbage));
		return true;
	case SPILLS:
		much = calloc(1, 1 << 20);
		assert_non_null(much);
		grpc_reply(call, much, 1 << 20);
		free(much);
		return true;
	case FAILS:
		grpc_fail(call, GRPC_INTERNAL, "no");
		return true;
	}
	return true;
}

static void exceeds(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	struct instance *instance = arg;
	Proto__ExceedsLimitsRequest *request =
		proto__exceeds_limits_request__unpack(NULL, len, message);
	Proto__ExceedsLimitsResponse response = PROTO__EXCEEDS_LIMITS_RESPONSE__INIT;
	Proto__ExceedsLimitsResult results[9], *list[9];
	unsigned used = 0;

	assert_non_null(request);
	assert_string_equal(request->tenant, "fake");
	instance->questions++;
	if (len > instance->largest)
		instance->largest = len;
	see(instance, request->streams, request->n_streams);
	response.results = list;
	for (size_t i = 0; i < request->n_streams + 1; i++) {
		uint64_t hash =
			i < request->n_streams ? request->streams[i]->streamhash : instance->extra;
		Proto__ExceedsLimitsResult *result = &results[response.n_results];

		if (i < request->n_streams ? !is_rejected(instance, hash, &used) : hash == 0)
			continue;
		proto__exceeds_limits_result__init(result);
		result->streamhash = hash;
		result->reason = instance->reason;
		list[response.n_results++] = result;
	}
	proto__exceeds_limits_request__free_unpacked(request, NULL);
	if (!in_a_mood(instance, call))
		reply(call, &response.base);
}

static void rates(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	struct instance *instance = arg;
	Proto__UpdateRatesRequest *request =
		proto__update_rates_request__unpack(NULL, len, message);
	Proto__UpdateRatesResponse response = PROTO__UPDATE_RATES_RESPONSE__INIT;
	Proto__UpdateRatesResult results[SEEN_MAX], *list[SEEN_MAX];

	assert_non_null(request);
	instance->questions++;
	see(instance, request->streams, request->n_streams);
	response.results = list;
	for (size_t i = 0; i < request->n_streams; i++) {
		proto__update_rates_result__init(&results[i]);
		results[i].streamhash = request->streams[i]->streamhash;
		results[i].rate = request->streams[i]->totalsize * 2;
		list[request->n_streams - 1 - i] = &results[i]; /* in another order */
	}
	response.n_results = request->n_streams;
	if (!in_a_mood(instance, call))
		reply(call, &response.base);
	proto__update_rates_request__free_unpacked(request, NULL);
}

static const struct grpc_method methods[] = {
	{"/proto.IngestLimits/ExceedsLimits", exceeds, GRPC_UNARY},
	{"/proto.IngestLimits/UpdateRates", rates, GRPC_UNARY},
	{"/proto.IngestLimits/GetAssignedPartitions", give_map, GRPC_UNARY},
	{NULL, NULL, GRPC_UNARY},
};

int listening(const char *host, uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*port)};
	socklen_t len = sizeof(address);
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

void instance_start(struct instance *instance, const char *host, uint16_t port)
{
	char why[GRPC_WHY_SIZE] = "";
	int fd;

	instance->port = port;
	fd = listening(host, &instance->port);
	snprintf(instance->address, sizeof(instance->address), "%s:%u", host, instance->port);
	instance->options.loop = stage.loop;
	instance->options.methods = methods;
	instance->options.arg = instance;
	instance->options.message_max = 4 << 20;
	instance->options.connections_max = 16;
	instance->options.streams_max = 256;
	if (instance->reason == 0)
		instance->reason = 2;
	instance->grpc = grpc_start(&instance->options, fd, why);
	if (instance->grpc == NULL)
		fail_msg("%s", why);
}

void instance_stop(struct instance *instance)
{
	if (instance->grpc != NULL)
		grpc_free(&instance->grpc);
}

void instance_serves(struct instance *instance, unsigned first, unsigned last, int64_t at)
{
	for (unsigned p = first; p <= last; p++)
		instance->assigned[p] = at;
}

/* --- those who ask ------------------------------------------------------------------------------ */

static ev_timer beat;

static void on_beat(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop, (void)timer, (void)events;
}

void stage_open(struct ev_loop *loop)
{
	signal(SIGPIPE, SIG_IGN);
	log_init("test", -1, LOG_LEVEL_ERROR);
	memset(&stage, 0, sizeof(stage));
	stage.loop = loop;
	ev_timer_init(&beat, on_beat, 0.005, 0.005);
	ev_timer_start(stage.loop, &beat);
}

void stage_close(void)
{
	peers_free(&stage.peers);
	instance_stop(&stage.a);
	instance_stop(&stage.b);
	ev_run(stage.loop, EVRUN_NOWAIT);
	ev_timer_stop(stage.loop, &beat);
}

int peers_setup(void **state)
{
	(void)state;
	stage_open(ev_loop_new(EVFLAG_AUTO));
	return 0;
}

int peers_teardown(void **state)
{
	(void)state;
	stage_close();
	ev_loop_destroy(stage.loop);
	return 0;
}

void peers_are_as(const char *list, struct peers_options options)
{
	char why[PEERS_WHY_SIZE] = "";

	options.loop = stage.loop;
	options.list = list;
	if (options.message_max == 0)
		options.message_max = 4 << 20;
	if (options.listening_fd == 0)
		options.listening_fd = -1;
	if (options.poll_ms == 0)
		options.poll_ms = 60000; /* a test that wants new maps causes them */
	if (options.back_off_ms == 0)
		options.back_off_ms = 10;
	options.back_off_max_ms = 50;
	stage.peers = peers_new(&options, why);
	if (stage.peers == NULL)
		fail_msg("%s", why);
}

void peers_are(const char *list)
{
	peers_are_as(list, (struct peers_options){0});
}

static void turn(void)
{
	ev_run(stage.loop, EVRUN_ONCE);
	if (stage.a.dies)
		instance_stop(&stage.a);
	if (stage.b.dies)
		instance_stop(&stage.b);
	stage.a.dies = stage.b.dies = false;
}

bool until(bool (*condition)(uint64_t want), uint64_t want)
{
	uint64_t end = host_boot_ns() + PATIENCE_NS;

	while (!condition(want) && host_boot_ns() < end)
		turn();
	return condition(want);
}

struct peers_facts facts_now(void)
{
	struct peers_facts facts;

	peers_facts(stage.peers, &facts);
	return facts;
}

bool partitions_are(uint64_t want)
{
	return facts_now().partitions == want;
}

bool connected_are(uint64_t want)
{
	return facts_now().connected == want;
}

bool known_are(uint64_t want)
{
	return facts_now().known == want;
}

static void done(struct peers_ask *ask)
{
	*(bool *)ask->arg = true;
	stage.dones++;
}

static bool is_done(uint64_t want)
{
	(void)want;
	return stage.done;
}

struct ask_stream *ask_within(
	enum ask_kind kind, const uint64_t *hashes, size_t n, unsigned deadline_ms)
{
	static struct ask_stream streams[200000];
	struct peers_ask ask = {
		.kind = kind,
		.tenant = "fake",
		.streams = streams,
		.n = n,
		.partitions = PARTITIONS,
		.deadline_ns = host_boot_ns() + deadline_ms * UINT64_C(1000000),
		.done = done,
		.arg = &stage.done,
	};

	assert_true(n <= sizeof(streams) / sizeof(*streams));
	for (size_t i = 0; i < n; i++)
		streams[i] = (struct ask_stream){
			.hash = hashes[i], .bytes = 10 + i, .result = ASK_UNSERVED};
	stage.done = false;
	peers_ask(stage.peers, &ask);
	assert_true(until(is_done, 0));
	return streams;
}

struct ask_stream *ask(enum ask_kind kind, const uint64_t *hashes, size_t n)
{
	return ask_within(kind, hashes, n, 60000);
}

const char *peers_both(void)
{
	static char both[256];

	snprintf(both, sizeof(both), "%s, %s", stage.a.address, stage.b.address);
	return both;
}

void two_instances(void)
{
	instance_start(&stage.a, "127.0.0.1", 0);
	instance_start(&stage.b, "127.0.0.1", 0);
	instance_serves(&stage.a, 0, 7, 100);
	instance_serves(&stage.b, 8, 15, 100);
}

void peers_meet(const char *list, uint64_t partitions)
{
	peers_are(list);
	assert_true(until(partitions_are, partitions));
}
