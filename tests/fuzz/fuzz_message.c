/*
 * fuzz_message.c - the bytes inside of gRPC: requests, answers of peers, frames, gzip, timeouts.
 *
 *	what:1 bytes
 */
#include "fuzz.h"

#include "tools/queryd/grpc_message.h"
#include "tools/queryd/peers_private.h"
#include "tools/queryd/wire.h"

#define FRONT_MAX  64
#define GUNZIP_MAX 20000

/* --- requests --------------------------------------------------------------------------------- */

/* What was understood, written as to a peer, is understood as the same. */
static void hold_request_round(const struct wire_request *request)
{
	struct wire_request again;
	char why[WIRE_WHY_SIZE];
	size_t len = peer_message_base(request->tenant);
	uint8_t *bytes, *at;

	for (size_t i = 0; i < request->n; i++)
		len += peer_message_stream(&request->streams[i]);
	bytes = malloc(len);
	hold(bytes != NULL);
	at = peer_message_put_tenant(bytes, request->tenant);
	for (size_t i = 0; i < request->n; i++)
		at = peer_message_put_stream(at, &request->streams[i]);
	hold(at == bytes + len);
	hold(wire_read_request(bytes, len, &again, why));
	hold(strcmp(again.tenant, request->tenant) == 0 && again.n == request->n);
	for (size_t i = 0; i < again.n; i++)
		hold(again.streams[i].hash == request->streams[i].hash &&
			again.streams[i].bytes == request->streams[i].bytes &&
			strcmp(again.streams[i].policy, request->streams[i].policy) == 0);
	free(again.memory);
	free(bytes);
}

static void hold_name(const char *name, size_t least)
{
	size_t len = strlen(name);

	hold(len >= least && len <= RECORD_TENANT_MAX);
	hold(len == 0 || record_text_ok(name, len));
}

/* Answers made of what was asked: their pairs are found again. */
struct pairs {
	const struct ask *ask;
	size_t n;
	bool rates;
};

static void each_pair(void *arg, uint64_t first, uint64_t second)
{
	struct pairs *pairs = arg;

	hold(pairs->n < pairs->ask->n);
	if (pairs->rates) {
		hold(first == pairs->ask->streams[pairs->n].hash);
		hold(second == pairs->ask->streams[pairs->n].rate);
	}
	pairs->n++;
}

static void hold_answers(const struct wire_request *request)
{
	struct ask ask = {.streams = request->streams, .n = request->n};
	struct pairs pairs = {.ask = &ask, .rates = true};
	uint8_t *bytes;
	size_t len;

	for (size_t i = 0; i < ask.n; i++) {
		ask.streams[i].rate = ask.streams[i].hash * 3;
		ask.streams[i].result = (enum ask_result)(ask.streams[i].hash % 4);
	}
	bytes = wire_write_results(&ask, &len);
	hold(bytes != NULL);
	pairs.rates = false;
	hold(peer_message_pairs(bytes, len, each_pair, &pairs));
	free(bytes);
	for (size_t i = 0; i < ask.n; i++)
		ask.streams[i].result = ASK_ACCEPTED;
	pairs = (struct pairs){.ask = &ask, .rates = true};
	bytes = wire_write_rates(&ask, &len);
	hold(bytes != NULL);
	hold(peer_message_pairs(bytes, len, each_pair, &pairs) && pairs.n == ask.n);
	free(bytes);
}

static void run_request(const uint8_t *data, size_t len)
{
	struct wire_request request;
	char why[WIRE_WHY_SIZE] = "";

	if (!wire_read_request(data, len, &request, why)) {
		hold_line(why, sizeof(why));
		return;
	}
	hold(wire_read_empty(data, len));
	hold_name(request.tenant, 1);
	hold(request.n <= ASK_STREAMS_MAX);
	for (size_t i = 0; i < request.n; i++)
		hold_name(request.streams[i].policy, 0);
	hold_request_round(&request);
	hold_answers(&request);
	free(request.memory);
}

/* --- answers of peers ------------------------------------------------------------------------- */

static void count_pair(void *arg, uint64_t first, uint64_t second)
{
	(void)first, (void)second;
	++*(size_t *)arg;
}

static void run_pairs(const uint8_t *data, size_t len)
{
	size_t n = 0;

	peer_message_pairs(data, len, count_pair, &n);
	hold(n <= len / 2);
}

/* --- frames and their packing ------------------------------------------------------------------ */

static void run_front(const uint8_t *data, size_t len)
{
	size_t length = 0;

	switch (grpc_front(data, len, FRONT_MAX, &length)) {
	case FRONT_WHOLE:
		hold(length <= FRONT_MAX && length + GRPC_PREFIX_SIZE <= len);
		break;
	case FRONT_SHORT:
		hold(len < GRPC_PREFIX_SIZE ||
			(length <= FRONT_MAX && length > len - GRPC_PREFIX_SIZE));
		break;
	case FRONT_TOO_LONG:
		hold(length > FRONT_MAX);
		break;
	case FRONT_BROKEN:
		hold(data[0] > 1);
		break;
	}
}

static void run_gunzip(const uint8_t *data, size_t len)
{
	uint8_t *out = NULL;
	size_t n = 0;

	if (grpc_gunzip(data, len, GUNZIP_MAX, &out, &n) == GUNZIP_DONE)
		hold(n <= GUNZIP_MAX);
	else
		hold(out == NULL);
	free(out);
}

static void run_text(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len), to[64];
	uint64_t ns = 0;
	size_t n;

	if (grpc_parse_timeout((const char *)data, len, &ns))
		hold(len >= 2 && len <= 9);
	n = grpc_percent(to, sizeof(to), text);
	hold(n < sizeof(to) && to[n] == '\0' && strlen(to) == n);
	for (size_t i = 0; i < n; i++)
		hold(to[i] >= ' ' && to[i] <= '~');
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const runs[])(const uint8_t *, size_t) = {
		run_request, run_pairs, run_front, run_gunzip, run_text};
	struct input in = {data, len};
	unsigned what = (unsigned)take(&in, 1) % (sizeof(runs) / sizeof(runs[0]));
	uint8_t *bytes = fuzz_copy(in.at, in.left);

	runs[what](bytes, in.left);
	free(bytes);
	return 0;
}
