/*
 * services.c - proto.IngestLimits and proto.IngestLimitsFrontend over gRPC.
 *
 *	message --wire_read--> struct ask --ask_begin------> done --wire_write--> grpc_reply
 *	           front-end service, HTTP: '-frontend_begin-'   client gone: ask_cancel
 *
 * Runs in: queryd, asker thread; services_drain, _stop, _renew_tls, _facts in others.
 * Blocks in: these, until the loop has done it.
 */
#include "services.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "descriptors.h"
#include "frontend.h"
#include "wire.h"

#include "shm/check.h"
#include "shm/host.h"
#include "shm/table.h"

#define CALL_NS	  UINT64_C(5000000000) /* for clients that do not say how long they wait */
#define MARGIN_NS UINT64_C(20000000)   /* answers leave so long before the client stops waiting */

struct services {
	struct asker *asker;
	struct access *access;
	struct grpc_server *grpc;
	struct peers *peers;
	struct frontend *frontend;
	ev_timer tick;
	bool renewed, serving;
	uint64_t serving_ns;
	char *why;
	pthread_mutex_t lock;
	struct grpc_facts facts;
	bool drained;
};

struct call {
	struct services *services;
	struct grpc_call *grpc;
	struct wire_request request;
	struct ask ask;
};

/* ------------------------------------------------------------------ a call */

static void free_call(struct call *call)
{
	free(call->request.memory);
	free(call);
}

static void call_ended(void *arg)
{
	struct call *call = arg;
	if (call->ask.all_or_nothing)
		ask_cancel(call->services->asker, &call->ask);
	else
		frontend_cancel(call->services->frontend, &call->ask);
	free_call(call);
}

static uint64_t deadline_of(const struct grpc_call *grpc)
{
	uint64_t now = host_boot_ns(), deadline = grpc_deadline_ns(grpc);
	if (deadline == UINT64_MAX)
		return now + CALL_NS;
	uint64_t left = deadline > now ? deadline - now : 0;
	return deadline - (left / 10 < MARGIN_NS ? left / 10 : MARGIN_NS);
}

/* Takes `message`. */
static void reply(struct call *call, uint8_t *message, size_t len)
{
	grpc_reply(call->grpc, message, len);
	free(message);
	free_call(call);
}

/* true: it has been answered, since something of it is not served here. */
static bool unavailable(struct call *call)
{
	const struct ask *ask = &call->ask;
	char why[128];
	if (!ask->all_or_nothing || !ask->n || ask->streams[0].result != ASK_UNSERVED)
		return false;
	snprintf(why, sizeof(why),
		"this instance does not serve the partitions of all these %zu streams right now",
		ask->n);
	grpc_fail(call->grpc, GRPC_UNAVAILABLE, why);
	free_call(call);
	return true;
}

static void exceeds_done(struct ask *ask)
{
	size_t len;
	if (!unavailable(ask->arg)) {
		uint8_t *message = wire_write_results(ask, &len);
		reply(ask->arg, message, len);
	}
}

static void rates_done(struct ask *ask)
{
	size_t len;
	if (!unavailable(ask->arg)) {
		uint8_t *message = wire_write_rates(ask, &len);
		reply(ask->arg, message, len);
	}
}

/* ------------------------------------------------------------------ methods */

static void ask(struct grpc_call *grpc, const uint8_t *message, size_t len,
	struct services *services, const struct ask *how)
{
	struct wire_request request;
	char why[WIRE_WHY_SIZE];
	if (!wire_read_request(message, len, &request, why)) {
		grpc_fail(grpc, GRPC_INVALID_ARGUMENT, why);
		return;
	}
	struct call *call = malloc(sizeof(*call));
	must_get(call);
	*call = (struct call){.services = services, .grpc = grpc, .request = request, .ask = *how};
	call->ask.tenant = request.tenant;
	call->ask.streams = request.streams;
	call->ask.n = request.n;
	call->ask.deadline_ns = deadline_of(grpc);
	call->ask.arg = call;
	grpc_on_end(grpc, call_ended, call);
	/* From here on it may be over.  What ask_begin checks has been checked. */
	must(!(how->all_or_nothing ? ask_begin(services->asker, &call->ask)
				   : frontend_begin(services->frontend, &call->ask)));
}

/* For HTTP. */
static int begin_frontend(void *arg, struct ask *ask)
{
	struct services *services = arg;
	return frontend_begin(services->frontend, ask);
}

static void limits_exceeds(struct grpc_call *grpc, const uint8_t *message, size_t len, void *arg)
{
	ask(grpc, message, len, arg,
		&(struct ask){.kind = ASK_EXCEEDS, .done = exceeds_done, .all_or_nothing = true});
}

static void frontend_exceeds(struct grpc_call *grpc, const uint8_t *message, size_t len, void *arg)
{
	ask(grpc, message, len, arg, &(struct ask){.kind = ASK_EXCEEDS, .done = exceeds_done});
}

static void limits_rates(struct grpc_call *grpc, const uint8_t *message, size_t len, void *arg)
{
	ask(grpc, message, len, arg,
		&(struct ask){.kind = ASK_RATES, .done = rates_done, .all_or_nothing = true});
}

static void frontend_rates(struct grpc_call *grpc, const uint8_t *message, size_t len, void *arg)
{
	ask(grpc, message, len, arg, &(struct ask){.kind = ASK_RATES, .done = rates_done});
}

static void assigned(struct grpc_call *grpc, const uint8_t *message, size_t len, void *arg)
{
	struct services *services = arg;
	struct asker_partition ready[TABLE_CAPACITY];
	if (!wire_read_empty(message, len)) {
		grpc_fail(grpc, GRPC_INVALID_ARGUMENT,
			"the request: not a protobuf message of this method");
		return;
	}
	/* Without a tallyd there are none: that is an answer, too. */
	int n = asker_partitions(services->asker, ready, TABLE_CAPACITY);
	uint8_t *answer = wire_write_partitions(ready, n < 0 ? 0 : (size_t)n, &len);
	grpc_reply(grpc, answer, len);
	free(answer);
}

static const struct grpc_method methods[] = {
	{"/proto.IngestLimits/ExceedsLimits", limits_exceeds, GRPC_UNARY},
	{"/proto.IngestLimits/GetAssignedPartitions", assigned, GRPC_UNARY},
	{"/proto.IngestLimits/UpdateRates", limits_rates, GRPC_UNARY},
	{"/proto.IngestLimitsFrontend/ExceedsLimits", frontend_exceeds, GRPC_UNARY},
	{"/proto.IngestLimitsFrontend/UpdateRates", frontend_rates, GRPC_UNARY},
	{NULL, NULL, GRPC_UNARY},
};

/* ------------------------------------------------------------------ the server */

/* Without its tallyd nothing can be answered; the front-end service then says "failed". */
static bool serving(const char *service, void *arg)
{
	struct services *services = arg;
	uint64_t now = host_boot_ns();
	(void)service;
	if (now - services->serving_ns > UINT64_C(200000000)) {
		services->serving = asker_alive(services->asker);
		services->serving_ns = now;
	}
	return services->serving;
}

static enum grpc_status may(
	const char *authorization, size_t len, int fd, const char **why, void *arg)
{
	struct services *services = arg;
	enum access_verdict verdict =
		access_judge(services->access, authorization, len, TOKEN_ASK, NULL);
	if (verdict == ACCESS_GRANTED)
		return GRPC_OK;
	*why = access_words(verdict);
	access_refused(services->access, ACCESS_GRPC, verdict, fd);
	return verdict == ACCESS_OUT_OF_SCOPE ? GRPC_PERMISSION_DENIED : GRPC_UNAUTHENTICATED;
}

static void tick(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct services *services = timer->data;
	(void)loop;
	(void)events;
	pthread_mutex_lock(&services->lock);
	grpc_facts(services->grpc, &services->facts);
	pthread_mutex_unlock(&services->lock);
}

/* The other instances.  With the server: it may be asked as soon as it is there. */
static bool start_frontend(
	struct services *services, const struct config *config, int fd, char why[PEERS_WHY_SIZE])
{
	services->peers = peers_new(&(struct peers_options){.loop = asker_loop(services->asker),
					    .list = config->peers,
					    .listening_fd = fd,
					    .message_max = config->grpc_max_message,
					    .cert_file = config->grpc_tls_cert,
					    .key_file = config->grpc_tls_key,
					    .ca_file = config->grpc_tls_client_ca,
					    .token_file = config->peers_token_file},
		why);
	if (!services->peers)
		return false;
	services->frontend = frontend_new(services->asker, services->peers);
	asker_set_begin(services->asker, begin_frontend, services);
	return true;
}

/* Questions that wait for others go on without them. */
static void end_frontend(struct services *services)
{
	asker_set_begin(services->asker, NULL, NULL);
	frontend_free(&services->frontend);
	peers_free(&services->peers);
}

struct services *services_start(struct asker *asker, const struct config *config,
	struct access *access, int fd, char why[GRPC_WHY_SIZE])
{
	struct services *services = calloc(1, sizeof(*services));
	size_t descriptors_len;
	const uint8_t *descriptors = queryd_descriptors(&descriptors_len);
	must_get(services);
	services->asker = asker;
	services->access = access;
	if (!start_frontend(services, config, fd, why)) {
		close(fd);
		free(services);
		return NULL;
	}
	services->grpc = grpc_start(&(struct grpc_options){.loop = asker_loop(asker),
					    .methods = methods,
					    .arg = services,
					    .serving = serving,
					    .may = access != NULL ? may : NULL,
					    .descriptors = descriptors,
					    .descriptors_len = descriptors_len,
					    .message_max = config->grpc_max_message,
					    .connections_max = config->grpc_connections,
					    .streams_max = config->grpc_streams,
					    .cert_file = config->grpc_tls_cert,
					    .key_file = config->grpc_tls_key,
					    .client_ca_file = config->grpc_tls_client_ca},
		fd, why);
	if (!services->grpc) {
		end_frontend(services);
		free(services);
		return NULL;
	}
	pthread_mutex_init(&services->lock, NULL);
	ev_timer_init(&services->tick, tick, 0.5, 0.5);
	services->tick.data = services;
	ev_timer_start(asker_loop(asker), &services->tick);
	return services;
}

static void renew(void *arg)
{
	struct services *services = arg;
	services->renewed = grpc_renew_tls(services->grpc, services->why) &&
			    peers_renew(services->peers, services->why);
}

bool services_renew_tls(struct services *services, char why[GRPC_WHY_SIZE])
{
	services->why = why;
	asker_call(services->asker, renew, services);
	return services->renewed;
}

static void is_drained(void *arg)
{
	struct services *services = arg;
	pthread_mutex_lock(&services->lock);
	services->drained = true;
	pthread_mutex_unlock(&services->lock);
}

static void drain(void *arg)
{
	struct services *services = arg;
	grpc_drain(services->grpc, is_drained, services);
}

void services_drain(struct services *services)
{
	asker_call(services->asker, drain, services);
}

static void end(void *arg)
{
	struct services *services = arg;
	ev_timer_stop(asker_loop(services->asker), &services->tick);
	grpc_free(&services->grpc);
	end_frontend(services);
}

static bool drained(struct services *services)
{
	pthread_mutex_lock(&services->lock);
	bool over = services->drained;
	pthread_mutex_unlock(&services->lock);
	return over;
}

void services_stop(struct services **handle, unsigned grace_ms)
{
	struct services *services = *handle;
	uint64_t until = host_boot_ns() + grace_ms * UINT64_C(1000000);
	if (!services)
		return;
	*handle = NULL;
	while (!drained(services) && host_boot_ns() < until)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	asker_call(services->asker, end, services);
	pthread_mutex_destroy(&services->lock);
	free(services);
}

void services_facts(struct services *services, struct grpc_facts *facts)
{
	pthread_mutex_lock(&services->lock);
	*facts = services->facts;
	pthread_mutex_unlock(&services->lock);
}

void services_peers_facts(struct services *services, struct peers_facts *facts)
{
	peers_facts(services->peers, facts);
}
