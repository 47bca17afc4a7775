/*
 * test_services.c - proto.IngestLimits and proto.IngestLimitsFrontend as a client sees them.
 *
 *	peer (frame by frame) -> services -> asker -> workers in children
 */
#include "ask_fixture.h"

/* The query process has peers of its own: those of the fixture get other names here. */
#define peer_new  test_peer_new
#define peer_free test_peer_free
#include "grpc_fixture.c"
#include "grpc_peer.c"

#include "shm/config.h"
#include "tools/queryd/limits.pb-c.h"
#include "tools/queryd/services.h"

#define LIMITS	 "/proto.IngestLimits/"
#define FRONTEND "/proto.IngestLimitsFrontend/"

static struct config config;
static struct services *services;
static struct fixture *client; /* without a server of its own */
static struct peer *peer;

static int setup(void **state)
{
	char why[GRPC_WHY_SIZE];
	bench_setup(state);
	signal(SIGPIPE, SIG_IGN);
	config_defaults(&config);
	client = calloc(1, sizeof *client);
	client->loop = asker_loop(bench.asker);
	int fd = listen_any(&client->port);
	services = services_start(bench.asker, &config, NULL, fd, why);
	assert_non_null(services);
	assert_true(asker_start(bench.asker));
	peer = peer_ready(client);
	return 0;
}

static int teardown(void **state)
{
	if (peer)
		peer_free(&peer);
	services_drain(services);
	services_stop(&services, 5000);
	assert_null(services);
	asker_stop(bench.asker, 1000);
	free(client);
	return bench_teardown(state);
}

/* ------------------------------------------------------------------ messages */

static uint8_t bytes[100000];

/* Streams first .. first + n - 1, 10 bytes each. */
static size_t question(const char *tenant, uint64_t first, size_t n)
{
	static Proto__StreamMetadata streams[1000], *list[1000];
	Proto__ExceedsLimitsRequest message = PROTO__EXCEEDS_LIMITS_REQUEST__INIT;
	message.tenant = (char *)tenant;
	message.streams = list;
	message.n_streams = n;
	for (size_t i = 0; i < n; i++) {
		proto__stream_metadata__init(&streams[i]);
		streams[i].streamhash = first + i;
		streams[i].totalsize = 10;
		list[i] = &streams[i];
	}
	return proto__exceeds_limits_request__pack(&message, bytes);
}

static struct reply *call(const char *path, size_t len)
{
	return peer_wait(peer, peer_call(peer, path, bytes, len));
}

/* The message after its five bytes of prefix; the call went well. */
static const uint8_t *message_of(const struct reply *reply, size_t *len)
{
	assert_int_equal(reply->status, 0);
	assert_true(reply->len >= 5);
	*len = reply->len - 5;
	return reply->data + 5;
}

/* How many results have this reason; all of them together must be `all`. */
static size_t reasons(const struct reply *reply, uint32_t reason, size_t all)
{
	size_t len, n = 0;
	const uint8_t *message = message_of(reply, &len);
	Proto__ExceedsLimitsResponse *response =
		proto__exceeds_limits_response__unpack(NULL, len, message);
	assert_non_null(response);
	assert_int_equal(response->n_results, all);
	for (size_t i = 0; i < response->n_results; i++)
		n += response->results[i]->reason == reason;
	proto__exceeds_limits_response__free_unpacked(response, NULL);
	return n;
}

/* ------------------------------------------------------------------ tests */

static void services_name_only_what_is_not_accepted(void **state)
{
	(void)state;
	bench_limit(10);
	assert_int_equal(reasons(call(LIMITS "ExceedsLimits", question("a", 0, 10)), 0, 0), 0);
	assert_int_equal(reasons(call(LIMITS "ExceedsLimits", question("a", 5, 10)), 2, 5), 5);
	assert_int_equal(reasons(call(FRONTEND "ExceedsLimits", question("a", 5, 10)), 2, 5), 5);
	assert_int_equal(reasons(call(FRONTEND "ExceedsLimits", question("b", 0, 0)), 0, 0), 0);
}

static void services_say_unavailable_or_failed_where_it_is_not_served(void **state)
{
	(void)state;
	run_publish(&bench.run, 1, PART_REPLAYING, 11);
	struct reply *reply = call(LIMITS "ExceedsLimits", question("a", 0, 8));
	assert_int_equal(reply->status, GRPC_UNAVAILABLE);
	assert_non_null(strstr(reply->words, "does not serve"));
	assert_int_equal(SUM(admits), 0);
	reply = call(LIMITS "UpdateRates", question("a", 0, 8));
	assert_int_equal(reply->status, GRPC_UNAVAILABLE);
	assert_int_equal(reasons(call(FRONTEND "ExceedsLimits", question("a", 0, 8)), 1, 2), 2);
	assert_int_equal(call(LIMITS "ExceedsLimits", question("a", 2, 1))->status, 0);
}

static void services_list_the_partitions_that_are_ready(void **state)
{
	size_t len;
	(void)state;
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		atomic_store(&table_slot_mut(&bench.run.table, p)->assigned_at, 1000 + p);
	run_publish(&bench.run, 0, PART_DRAINING, 10);
	run_lease(&bench.run, 2, -1);
	const uint8_t *message = message_of(call(LIMITS "GetAssignedPartitions", 0), &len);
	Proto__GetAssignedPartitionsResponse *response =
		proto__get_assigned_partitions_response__unpack(NULL, len, message);
	assert_non_null(response);
	assert_int_equal(response->n_assignedpartitions, 2);
	assert_int_equal(response->assignedpartitions[0]->key, 1);
	assert_int_equal(response->assignedpartitions[0]->value, 1001);
	assert_int_equal(response->assignedpartitions[1]->key, 3);
	proto__get_assigned_partitions_response__free_unpacked(response, NULL);
}

static void services_give_a_rate_for_each_key(void **state)
{
	size_t len;
	(void)state;
	run_publish(&bench.run, 1, PART_REPLAYING, 11);
	const uint8_t *message =
		message_of(call(FRONTEND "UpdateRates", question("a", 0, 4)), &len);
	Proto__UpdateRatesResponse *response =
		proto__update_rates_response__unpack(NULL, len, message);
	assert_non_null(response);
	assert_int_equal(response->n_results, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(response->results[i]->streamhash, i);
	assert_int_equal(response->results[1]->rate, 0);
	proto__update_rates_response__free_unpacked(response, NULL);
}

static void services_say_what_a_client_wrote_wrong(void **state)
{
	(void)state;
	struct reply *reply = call(LIMITS "ExceedsLimits", question("", 0, 1));
	assert_int_equal(reply->status, GRPC_INVALID_ARGUMENT);
	assert_non_null(strstr(reply->words, "tenant: missing"));
	reply = call(FRONTEND "UpdateRates", question("\xff", 0, 1));
	assert_int_equal(reply->status, GRPC_INVALID_ARGUMENT);
	assert_non_null(strstr(reply->words, "UTF-8"));
	memset(bytes, 0xff, 10);
	assert_int_equal(call(FRONTEND "ExceedsLimits", 10)->status, GRPC_INVALID_ARGUMENT);
	memset(bytes, 0xff, 10);
	assert_int_equal(call(LIMITS "GetAssignedPartitions", 10)->status, GRPC_INVALID_ARGUMENT);
	assert_int_equal(call(LIMITS "Nothing", 0)->status, GRPC_UNIMPLEMENTED);
}

static void services_answer_before_the_client_stops_waiting(void **state)
{
	static const char *const timeout[] = {"grpc-timeout", "300m", NULL};
	(void)state;
	atomic_store(&bench.lever[0].hold, 1);
	uint64_t before = host_boot_ns();
	uint32_t stream = peer_open(peer, FRONTEND "ExceedsLimits", timeout);
	size_t len = question("a", 0, 4);
	peer_message(peer, stream, bytes, len, true);
	assert_int_equal(reasons(peer_wait(peer, stream), 1, 1), 1);
	assert_true(host_boot_ns() - before >= 200000000);
}

static void services_forget_a_client_that_has_gone(void **state)
{
	struct asker_facts facts;
	(void)state;
	atomic_store(&bench.lever[0].hold, 1);
	size_t len = question("a", 0, 4);
	peer_call(peer, LIMITS "ExceedsLimits", bytes, len);
	wait_for(client, atomic_load(&bench.lever[0].held) == 1);
	asker_facts(bench.asker, &facts);
	assert_int_equal(facts.under_way, 1);
	peer_free(&peer);
	wait_for(client, (asker_facts(bench.asker, &facts), facts.under_way == 0));
	atomic_store(&bench.lever[0].hold, 0);
	peer = peer_ready(client);
	assert_int_equal(reasons(call(LIMITS "ExceedsLimits", question("a", 0, 4)), 0, 0), 0);
}

static uint8_t health(void)
{
	size_t len;
	const uint8_t *message = message_of(call("/grpc.health.v1.Health/Check", 0), &len);
	assert_int_equal(len, 2);
	return message[1];
}

static void services_are_fit_while_there_is_a_tallyd(void **state)
{
	(void)state;
	assert_int_equal(health(), 1);
	atomic_store(&table_head_mut(&bench.run.table)->stopped, 1);
	wait_for(client, health() == 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(services_name_only_what_is_not_accepted),
		TEST(services_say_unavailable_or_failed_where_it_is_not_served),
		TEST(services_list_the_partitions_that_are_ready),
		TEST(services_give_a_rate_for_each_key),
		TEST(services_say_what_a_client_wrote_wrong),
		TEST(services_answer_before_the_client_stops_waiting),
		TEST(services_forget_a_client_that_has_gone),
		TEST(services_are_fit_while_there_is_a_tallyd),
	};
	return cmocka_run_group_tests_name("services", tests, NULL, NULL);
}
