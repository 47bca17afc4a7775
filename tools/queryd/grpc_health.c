/*
 * grpc_health.c - grpc.health.v1.Health: Check answers, Watch is told of changes.
 *
 *	Watch --> struct watch { service, what was said last } --once a second--> changed? grpc_send
 *
 * A service is known when there is a method of it; whether it is fit to be
 * asked says options.serving.
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "grpc_private.h"
#include "health.pb-c.h"

#define SERVICE_SIZE 128 /* a longer name is not one of ours */

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;
#define SERVING		GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING	GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

struct watch {
	TAILQ_ENTRY(watch) link;
	struct grpc_server *server;
	struct grpc_call *call;
	serving_status said;
	char service[SERVICE_SIZE];
};

/* --- status ------------------------------------------------------------------------------------ */

static bool has_service(const struct grpc_method *table, const char *service)
{
	size_t len = strlen(service);

	for (; table->path != NULL; table++)
		if (strncmp(table->path + 1, service, len) == 0 && table->path[1 + len] == '/')
			return true;
	return false;
}

static serving_status status_of(const struct grpc_server *server, const char *service)
{
	const struct grpc_options *options = &server->options;

	if (service[0] != '\0' && !has_service(options->methods, service) &&
		!has_service(grpc_health_table(), service))
		return SERVICE_UNKNOWN;
	if (server->draining)
		return NOT_SERVING;
	return options->serving == NULL || options->serving(service, options->arg) ? SERVING
										   : NOT_SERVING;
}

/* false: it has been answered. */
static bool read_request(
	struct grpc_call *call, const uint8_t *message, size_t len, char service[SERVICE_SIZE])
{
	Grpc__Health__V1__HealthCheckRequest *request =
		grpc__health__v1__health_check_request__unpack(NULL, len, message);

	if (request == NULL) {
		grpc_fail(call, GRPC_INTERNAL, "this is not a HealthCheckRequest");
		return false;
	}
	strncpy(service, request->service, SERVICE_SIZE - 1);
	service[SERVICE_SIZE - 1] = '\0';
	grpc__health__v1__health_check_request__free_unpacked(request, NULL);
	return true;
}

static size_t pack(serving_status status, uint8_t bytes[16])
{
	Grpc__Health__V1__HealthCheckResponse response =
		GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

	response.status = status;
	return grpc__health__v1__health_check_response__pack(&response, bytes);
}

/* --- methods ----------------------------------------------------------------------------------- */

static void check(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	char service[SERVICE_SIZE];
	serving_status status;
	uint8_t bytes[16];

	(void)arg;
	if (!read_request(call, message, len, service))
		return;
	status = status_of(call->conn->server, service);
	if (status == SERVICE_UNKNOWN)
		grpc_fail(call, GRPC_NOT_FOUND, "no such service");
	else
		grpc_reply(call, bytes, pack(status, bytes));
}

static void say(struct watch *watch, serving_status status)
{
	uint8_t bytes[16];

	watch->said = status;
	grpc_send(watch->call, bytes, pack(status, bytes));
}

static void forget(struct watch *watch)
{
	TAILQ_REMOVE(&watch->server->watches, watch, link);
	watch->call->conn->watches_n--;
	free(watch);
}

static void watch_ended(void *arg)
{
	forget(arg);
}

static void watch(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	(void)arg;
	if (watch == NULL) {
		grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (!read_request(call, message, len, watch->service)) {
		free(watch);
		return;
	}
	watch->server = call->conn->server;
	watch->call = call;
	TAILQ_INSERT_TAIL(&watch->server->watches, watch, link);
	call->conn->watches_n++;
	grpc_on_end(call, watch_ended, watch);
	say(watch, status_of(watch->server, watch->service));
}

const struct grpc_method *grpc_health_table(void)
{
	static const struct grpc_method table[] = {
		{"/grpc.health.v1.Health/Check", check, GRPC_UNARY},
		{"/grpc.health.v1.Health/Watch", watch, GRPC_SERVER_STREAM},
		{NULL, NULL, GRPC_UNARY},
	};

	return table;
}

/* --- watchers ---------------------------------------------------------------------------------- */

void grpc_health_tick(struct grpc_server *server)
{
	struct watch *watch, *next;

	for (watch = TAILQ_FIRST(&server->watches); watch != NULL; watch = next) {
		serving_status status = status_of(server, watch->service);

		next = TAILQ_NEXT(watch, link);
		if (status != watch->said)
			say(watch, status);
	}
}

void grpc_health_end(struct grpc_server *server)
{
	struct watch *watch;

	grpc_health_tick(server);
	while ((watch = TAILQ_FIRST(&server->watches)) != NULL) {
		struct grpc_call *call = watch->call;

		forget(watch);
		grpc_fail(call, GRPC_UNAVAILABLE, "the server stops");
	}
}
