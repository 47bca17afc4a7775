/*
 * test_peer_message.c - the bytes that are exchanged with peers, beside protobuf-c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/queryd/limits.pb-c.h"
#include "tools/queryd/peers_private.h"

#define ROUNDS 20000

static uint64_t state = 88172645463325252;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Of any size. */
static uint64_t number(void)
{
	return next() % 8 == 0 ? 0 : next() >> next() % 64;
}

/* --- requests ----------------------------------------------------------------------------------- */

static uint8_t *ours(const char *tenant, const struct ask_stream *streams, size_t n, size_t *len)
{
	uint8_t *bytes, *at;

	*len = peer_message_base(tenant);
	for (size_t i = 0; i < n; i++)
		*len += peer_message_stream(&streams[i]);
	bytes = malloc(*len + 1);
	assert_non_null(bytes);
	at = peer_message_put_tenant(bytes, tenant);
	for (size_t i = 0; i < n; i++)
		at = peer_message_put_stream(at, &streams[i]);
	assert_ptr_equal(at, bytes + *len);
	return bytes;
}

static uint8_t *protobufs(
	const char *tenant, const struct ask_stream *streams, size_t n, size_t *len)
{
	Proto__ExceedsLimitsRequest request = PROTO__EXCEEDS_LIMITS_REQUEST__INIT;
	Proto__StreamMetadata metadata[8], *list[8];
	uint8_t *bytes;

	request.tenant = (char *)(uintptr_t)tenant;
	request.streams = list;
	request.n_streams = n;
	for (size_t i = 0; i < n; i++) {
		list[i] = &metadata[i];
		proto__stream_metadata__init(list[i]);
		list[i]->streamhash = streams[i].hash;
		list[i]->totalsize = streams[i].bytes;
		list[i]->ingestionpolicy = (char *)(uintptr_t)streams[i].policy;
	}
	*len = proto__exceeds_limits_request__get_packed_size(&request);
	bytes = malloc(*len + 1);
	assert_non_null(bytes);
	proto__exceeds_limits_request__pack(&request, bytes);
	return bytes;
}

static void peer_message_is_what_protobuf_writes(void **arg)
{
	static char longer[300];
	const char *const texts[] = {"", "a", "finance", longer};

	(void)arg;
	memset(longer, 'x', sizeof(longer) - 1);
	for (int round = 0; round < ROUNDS; round++) {
		const char *tenant = texts[next() % 4];
		struct ask_stream streams[8];
		size_t n = next() % 9, len, want_len;
		uint8_t *bytes, *want;

		for (size_t i = 0; i < n; i++)
			streams[i] = (struct ask_stream){
				.hash = number(), .bytes = number(), .policy = texts[next() % 4]};
		bytes = ours(tenant, streams, n, &len);
		want = protobufs(tenant, streams, n, &want_len);
		assert_int_equal(len, want_len);
		assert_memory_equal(bytes, want, len);
		free(bytes);
		free(want);
	}
}

/* --- answers ------------------------------------------------------------------------------------ */

struct pairs {
	uint64_t pair[64][2];
	size_t n;
};

static void take(void *arg, uint64_t first, uint64_t second)
{
	struct pairs *pairs = arg;

	if (pairs->n < 64) {
		pairs->pair[pairs->n][0] = first;
		pairs->pair[pairs->n][1] = second;
	}
	pairs->n++;
}

static void peer_message_reads_what_protobuf_writes(void **arg)
{
	(void)arg;
	for (int round = 0; round < ROUNDS; round++) {
		Proto__UpdateRatesResponse response = PROTO__UPDATE_RATES_RESPONSE__INIT;
		Proto__UpdateRatesResult results[8], *list[8];
		uint8_t bytes[256];
		struct pairs pairs = {.n = 0};
		size_t len;

		response.results = list;
		response.n_results = next() % 9;
		for (size_t i = 0; i < response.n_results; i++) {
			list[i] = &results[i];
			proto__update_rates_result__init(list[i]);
			list[i]->streamhash = number();
			list[i]->rate = number();
		}
		len = proto__update_rates_response__pack(&response, bytes);
		assert_true(peer_message_pairs(bytes, len, take, &pairs));
		assert_int_equal(pairs.n, response.n_results);
		for (size_t i = 0; i < pairs.n; i++) {
			assert_true(pairs.pair[i][0] == results[i].streamhash);
			assert_true(pairs.pair[i][1] == results[i].rate);
		}
	}
}

static bool reads(const void *bytes, size_t len, struct pairs *pairs)
{
	uint8_t *exact = malloc(len == 0 ? 1 : len); /* so that ASan sees one byte too far */
	bool ok;

	assert_non_null(exact);
	memcpy(exact, bytes, len);
	pairs->n = 0;
	ok = peer_message_pairs(exact, len, take, pairs);
	free(exact);
	return ok;
}

#define READS(text, pairs) reads(text, sizeof(text) - 1, pairs)

static void peer_message_skips_what_it_does_not_know(void **arg)
{
	struct pairs pairs;

	(void)arg;
	/* 9: varint, fixed, bytes; inside 9: fixed32 */
	assert_true(READS("\x48\x01\x49"
			  "12345678"
			  "\x4a\x02xx"
			  "\x0a\x09\x08\x05\x4d"
			  "1234"
			  "\x10\x02",
		&pairs));
	assert_int_equal(pairs.n, 1);
	assert_int_equal(pairs.pair[0][0], 5);
	assert_int_equal(pairs.pair[0][1], 2);
}

static void peer_message_takes_the_last_of_a_field(void **arg)
{
	struct pairs pairs;

	(void)arg;
	assert_true(READS("\x0a\x06\x08\x05\x08\x06\x10\x02\x0a\x00", &pairs));
	assert_int_equal(pairs.n, 2);
	assert_int_equal(pairs.pair[0][0], 6);
	assert_int_equal(pairs.pair[1][0], 0); /* an empty one is all zeroes */
}

static void peer_message_refuses_garbage(void **arg)
{
	struct pairs pairs;

	(void)arg;
	assert_false(READS("\x0a", &pairs));
	assert_false(READS("\x0a\x05\x08", &pairs));
	assert_false(READS("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &pairs));
	assert_false(READS("\x08\x01", &pairs));	 /* results as a number */
	assert_false(READS("\x0a\x02\x0a\x00", &pairs)); /* a hash as bytes */
	assert_false(READS("\x00\x01", &pairs));	 /* there is no field 0 */
	assert_false(READS("\x0b\x0c", &pairs));	 /* groups */
	assert_false(READS("\x0a\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &pairs));
}

static void peer_message_survives_any_bytes(void **arg)
{
	struct pairs pairs;
	uint8_t bytes[48];

	(void)arg;
	for (int round = 0; round < 10 * ROUNDS; round++) {
		size_t len = next() % sizeof(bytes);

		for (size_t i = 0; i < len; i++)
			bytes[i] = next() % 3 == 0 ? (uint8_t)next()
						   : "\x0a\x08\x10\x04\x02"[next() % 5];
		reads(bytes, len, &pairs);
		assert_true(pairs.n <= len / 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peer_message_is_what_protobuf_writes),
		cmocka_unit_test(peer_message_reads_what_protobuf_writes),
		cmocka_unit_test(peer_message_skips_what_it_does_not_know),
		cmocka_unit_test(peer_message_takes_the_last_of_a_field),
		cmocka_unit_test(peer_message_refuses_garbage),
		cmocka_unit_test(peer_message_survives_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
