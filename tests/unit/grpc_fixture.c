/*
 * grpc_fixture.c - a gRPC server with the methods of /test.Echo/: see grpc_fixture.h.
 */
#include "grpc_fixture.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "shm/host.h"

/* --- server ------------------------------------------------------------------------------------ */

static void echo(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	struct fixture *fixture = arg;

	fixture->handled++;
	grpc_reply(call, message, len);
}

static void busy(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	uint64_t until = host_boot_ns() + 3000000;

	while (host_boot_ns() < until)
		;
	echo(call, message, len, arg);
}

static void never_ended(void *arg)
{
	struct fixture *fixture = arg;

	fixture->kept = NULL;
	fixture->ended++;
}

static void never(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	struct fixture *fixture = arg;

	(void)message, (void)len;
	fixture->handled++;
	fixture->kept = call;
	grpc_on_end(call, never_ended, fixture);
}

static void thrice(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	(void)arg;
	for (int i = 0; i < 3; i++)
		grpc_send(call, message, len);
	grpc_fail(call, GRPC_OK, NULL);
}

static void chat(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	(void)arg;
	if (message != NULL) {
		grpc_send(call, message, len);
		return;
	}
	grpc_send(call, (const uint8_t *)".", 1);
	grpc_fail(call, GRPC_OK, NULL);
}

static void endless(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	struct fixture *fixture = arg;
	unsigned ended = fixture->ended;
	char *much = calloc(1, 65536);

	(void)message, (void)len;
	grpc_on_end(call, never_ended, fixture);
	while (fixture->ended == ended)
		grpc_send(call, (uint8_t *)much, 65536);
	free(much);
}

static bool serving(const char *service, void *arg)
{
	const struct fixture *fixture = arg;

	(void)service;
	return !fixture->unfit;
}

struct fixture *fixture_new(void)
{
	static const struct grpc_method methods[] = {
		{"/test.Echo/Echo", echo, GRPC_UNARY},
		{"/test.Echo/Busy", busy, GRPC_UNARY},
		{"/test.Echo/Never", never, GRPC_UNARY},
		{"/test.Echo/Thrice", thrice, GRPC_SERVER_STREAM},
		{"/test.Echo/Endless", endless, GRPC_SERVER_STREAM},
		{"/test.Echo/Chat", chat, GRPC_BIDI},
		{NULL, NULL, GRPC_UNARY},
	};
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	signal(SIGPIPE, SIG_IGN);
	peer_from = NULL;
	fixture->loop = ev_loop_new(EVFLAG_AUTO);
	fixture->options = (struct grpc_options){
		.loop = fixture->loop,
		.methods = methods,
		.arg = fixture,
		.serving = serving,
		.message_max = FIXTURE_MESSAGE_MAX,
		.connections_max = 100,
		.streams_max = 256,
	};
	return fixture;
}

static int listen_any(int *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(fd, 256), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

void fixture_start(struct fixture *fixture)
{
	int fd = listen_any(&fixture->port);

	fixture->server = grpc_start(&fixture->options, fd, fixture->why);
}

struct fixture *fixture_usual(void)
{
	struct fixture *fixture = fixture_new();

	fixture_start(fixture);
	assert_non_null(fixture->server);
	return fixture;
}

struct fixture *fixture_impatient(void)
{
	struct fixture *fixture = fixture_new();

	fixture->options.patience = (struct grpc_patience){
		FIXTURE_IMPATIENT_MS, FIXTURE_IMPATIENT_MS, FIXTURE_IMPATIENT_MS, 0};
	fixture_start(fixture);
	assert_non_null(fixture->server);
	return fixture;
}

struct grpc_facts fixture_facts(struct fixture *fixture)
{
	struct grpc_facts facts;

	grpc_facts(fixture->server, &facts);
	return facts;
}

void fixture_end(struct fixture **pointer)
{
	struct fixture *fixture = *pointer;

	while (fixture->n_peers > 0) {
		struct peer *peer = fixture->peers[0];

		peer_free(&peer);
	}
	if (fixture->server != NULL && !fixture->drained && fixture->options.cert_file == NULL) {
		struct peer *peer;

		wait_for(fixture, fixture_facts(fixture).connections == 0);
		peer = peer_ready(fixture);
		peer_is_served(peer);
		peer_free(&peer);
	}
	if (fixture->server != NULL) {
		wait_for(fixture, fixture_facts(fixture).connections == 0);
		assert_int_equal(fixture_facts(fixture).calls, 0);
		assert_int_equal(fixture_facts(fixture).memory, 0);
	}
	grpc_free(&fixture->server);
	ev_loop_destroy(fixture->loop);
	free(fixture);
	*pointer = NULL;
}

void fixture_serves_others(struct fixture *fixture)
{
	struct peer *peer = peer_ready(fixture);

	peer_is_served(peer);
	peer_free(&peer);
}
