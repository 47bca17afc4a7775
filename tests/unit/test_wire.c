/*
 * test_wire.c - requests as they are read and answers as they are written by hand, against
 * protobuf-c, over messages that are right, damaged, or made to hurt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/queryd/limits.pb-c.h"
#include "tools/queryd/varint.h"
#include "tools/queryd/wire.h"

static char why[WIRE_WHY_SIZE];
static struct wire_request request;

/* From a block of exactly that length, so that a sanitizer sees a byte too much. */
static bool read_exactly(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	memset(why, 0, sizeof why);
	bool ok = wire_read_request(copy, len, &request, why);
	free(copy);
	assert_true(ok || *why);
	return ok;
}

static void refused(const void *bytes, size_t len, const char *sentence)
{
	assert_false(read_exactly(bytes, len));
	assert_string_equal(why, sentence);
	assert_null(request.memory);
}

static void wire_reads_a_request(void **state)
{
	(void)state;
	assert_true(read_exactly("\x0a\x01"
				 "a"
				 "\x12\x00"
				 "\x12\x0d\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x05"
				 "\x12\x06\x1a\x04gold"
				 "\x12\x08\x08\x07\x1a\x04gold",
		38));
	assert_string_equal(request.tenant, "a");
	assert_int_equal(request.n, 4);
	assert_int_equal(request.streams[0].hash, 0);
	assert_string_equal(request.streams[0].policy, "");
	assert_true(request.streams[1].hash == UINT64_MAX);
	assert_int_equal(request.streams[1].bytes, 5);
	assert_string_equal(request.streams[2].policy, "gold");
	assert_int_equal(request.streams[3].hash, 7);
	assert_ptr_equal(request.streams[3].policy, request.streams[2].policy);
	free(request.memory);
}

static void wire_passes_over_what_it_does_not_know(void **state)
{
	(void)state;
	/* A group with a group in it, a fixed64, a fixed32, a tenant of another type; the last wins. */
	assert_true(read_exactly("\x23\x2b\x30\x01\x2c\x24"
				 "\x39"
				 "12345678"
				 "\x45"
				 "1234"
				 "\x08\x01"
				 "\x0a\x01z"
				 "\x0a\x01y",
		28));
	assert_string_equal(request.tenant, "y");
	assert_int_equal(request.n, 0);
	free(request.memory);
}

#define MALFORMED(name) name ": not a protobuf message of this method"

static void wire_says_what_is_wrong(void **state)
{
	static uint8_t bytes[400] = {0x0a, 0x81, 0x02};
	(void)state;
	refused("", 0, "tenant: missing; say whose streams these are");
	refused("\x0a\x00", 2, "tenant: missing; say whose streams these are");
	refused("\x0a\x01\xff", 3, "tenant: not UTF-8 text without NUL");
	refused("\x0a\x03"
		"a\0b",
		5, "tenant: not UTF-8 text without NUL");
	memset(bytes + 3, 'x', 257);
	refused(bytes, 260, "tenant: longer than 256 bytes");
	bytes[1] = 0x80;
	assert_true(read_exactly(bytes, 259));
	free(request.memory);
	refused("\x0a\x01z\x12\x00\x12\x03\x1a\x01\x80", 10,
		"streams[1].ingestionPolicy: not UTF-8 text without NUL");
	refused("\x0a\x01z\x12\x03\x1a\x01\x00", 8,
		"streams[0].ingestionPolicy: not UTF-8 text without NUL");
	refused("\x0a\x01z\x12\x01\x08", 6, MALFORMED("streams[0]"));
	refused("\x0a", 1, MALFORMED("the request"));
	refused("\x0a\x05z", 3, MALFORMED("the request"));
	refused("\x02\x00", 2, MALFORMED("the request"));
	refused("\x0e\x00", 2, MALFORMED("the request"));
	refused("\x24", 1, MALFORMED("the request"));
	refused("\x23\x1c", 2, MALFORMED("the request"));
	refused("\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, MALFORMED("the request"));
	refused("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01z", 12, MALFORMED("the request"));
}

static void wire_bounds_groups_and_streams(void **state)
{
	static uint8_t bytes[2 * ASK_STREAMS_MAX + 5] = "\x0a\x01z";
	(void)state;
	memset(bytes + 3, 0x23, 101);
	memset(bytes + 104, 0x24, 101);
	refused(bytes, 205, MALFORMED("the request"));
	memset(bytes + 103, 0x24, 100);
	assert_true(read_exactly(bytes, 203));
	free(request.memory);
	for (size_t i = 0; i <= ASK_STREAMS_MAX; i++)
		memcpy(bytes + 3 + 2 * i, "\x12", 2);
	refused(bytes, sizeof bytes,
		"streams: 262145 of them, more than 262144; ask in several calls");
	assert_true(read_exactly(bytes, sizeof bytes - 2));
	assert_int_equal(request.n, ASK_STREAMS_MAX);
	free(request.memory);
}

/* ------------------------------------------------------------------ answers */

static struct ask_stream answered[] = {
	{.hash = 0, .result = ASK_REJECTED, .rate = 5},
	{.hash = UINT64_MAX, .result = ASK_FAILED, .rate = 7},
	{.hash = 1, .result = ASK_ACCEPTED, .rate = UINT64_MAX},
	{.hash = 300, .result = ASK_UNSERVED},
	{.hash = 300, .result = ASK_ACCEPTED},
};
static const struct ask answered_ask = {.streams = answered, .n = 5};

static void wire_writes_results_with_reasons(void **state)
{
	size_t len;
	(void)state;
	uint8_t *bytes = wire_write_results(&answered_ask, &len);
	Proto__ExceedsLimitsResponse *response =
		proto__exceeds_limits_response__unpack(NULL, len, bytes);
	assert_non_null(response);
	assert_int_equal(response->n_results, 3);
	assert_int_equal(response->results[0]->streamhash, 0);
	assert_int_equal(response->results[0]->reason, 2);
	assert_true(response->results[1]->streamhash == UINT64_MAX);
	assert_int_equal(response->results[1]->reason, 1);
	assert_int_equal(response->results[2]->streamhash, 300);
	assert_int_equal(response->results[2]->reason, 1);
	uint8_t again[100];
	assert_int_equal(proto__exceeds_limits_response__pack(response, again), len);
	assert_memory_equal(again, bytes, len);
	proto__exceeds_limits_response__free_unpacked(response, NULL);
	free(bytes);
	bytes = wire_write_results(&(struct ask){.n = 0}, &len);
	assert_int_equal(len, 0);
	free(bytes);
}

static void wire_writes_rates(void **state)
{
	size_t len;
	(void)state;
	uint8_t *bytes = wire_write_rates(&answered_ask, &len);
	Proto__UpdateRatesResponse *response =
		proto__update_rates_response__unpack(NULL, len, bytes);
	assert_non_null(response);
	assert_int_equal(response->n_results, 5);
	assert_int_equal(response->results[0]->rate, 0); /* not known */
	assert_true(response->results[2]->rate == UINT64_MAX);
	uint8_t again[200];
	assert_int_equal(proto__update_rates_response__pack(response, again), len);
	assert_memory_equal(again, bytes, len);
	proto__update_rates_response__free_unpacked(response, NULL);
	free(bytes);
}

static void wire_writes_partitions_as_protobuf_does(void **state)
{
	static const struct asker_partition partitions[] = {
		{0, 1764597600123456789}, {128, INT64_MAX}};
	size_t len;
	(void)state;
	uint8_t *bytes = wire_write_partitions(partitions, 2, &len);
	/* The first is case "partition-0" of tests/golden/golden.txt. */
	assert_memory_equal(bytes, "\x0a\x0c\x08\x00\x10\x95\x9a\xf6\xb6\xb0\x85\xc7\xbe\x18", 14);
	Proto__GetAssignedPartitionsResponse *response =
		proto__get_assigned_partitions_response__unpack(NULL, len, bytes);
	assert_non_null(response);
	assert_int_equal(response->n_assignedpartitions, 2);
	assert_int_equal(response->assignedpartitions[1]->key, 128);
	assert_true(response->assignedpartitions[1]->value == INT64_MAX);
	proto__get_assigned_partitions_response__free_unpacked(response, NULL);
	free(bytes);
}

/* ------------------------------------------------------------------ against protobuf-c */

static uint64_t rng_state;

static uint64_t rng(void)
{
	uint64_t z = rng_state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t random_request(uint8_t *out)
{
	static const char *const policies[] = {"", "gold", "gold", "a\xc3\xa4"};
	Proto__StreamMetadata streams[8], *list[8];
	Proto__ExceedsLimitsRequest message = PROTO__EXCEEDS_LIMITS_REQUEST__INIT;
	message.tenant = (char *)"tenant";
	message.n_streams = rng() % 8;
	message.streams = list;
	for (size_t i = 0; i < message.n_streams; i++) {
		proto__stream_metadata__init(&streams[i]);
		streams[i].streamhash = rng() >> rng() % 64;
		streams[i].totalsize = rng() >> rng() % 64;
		streams[i].ingestionpolicy = (char *)policies[rng() % 4];
		list[i] = &streams[i];
	}
	return proto__exceeds_limits_request__pack(&message, out);
}

/* What is read of these bytes, when `behind` others follow them; false: refused. */
static bool read_number(const uint8_t *bytes, size_t len, size_t behind, uint64_t *value)
{
	uint8_t *copy = malloc(len + behind);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	memset(copy + len, 0xff, behind);
	struct reader in = {.at = copy, .end = copy + len + behind};
	bool ok = read_varint(&in, value);
	if (ok)
		assert_int_equal(in.at - copy, len);
	free(copy);
	return ok;
}

static void wire_reads_numbers_of_every_length(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= 64; bits++)
		for (int less = 0; less < 2; less++)
			for (size_t behind = 0; behind < 12; behind++) {
				uint64_t was =
					(bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1) ^
					(less ? UINT64_C(0x5a5a5a5a5a5a5a5a) >> (64 - bits) % 64
					      : 0);
				uint8_t bytes[10];
				size_t len = (size_t)(put_varint(bytes, was) - bytes);
				uint64_t value = 1;
				assert_int_equal(len, varint_size(was));
				assert_true(read_number(bytes, len, behind, &value));
				assert_int_equal(value, was);
			}
}

static void wire_refuses_numbers_without_an_end(void **state)
{
	uint8_t bytes[10];
	uint64_t value;
	(void)state;
	memset(bytes, 0xff, sizeof bytes);
	for (size_t len = 1; len <= sizeof bytes; len++)
		assert_false(read_number(bytes, len, 0, &value));
	assert_false(read_number(bytes, sizeof bytes, 3, &value));
	/* Nine bytes, or a tenth one of which a bit has room. */
	bytes[8] = 0x7f;
	assert_true(read_number(bytes, 9, 3, &value));
	assert_int_equal(value, UINT64_MAX >> 1);
	bytes[8] = 0xff, bytes[9] = 0x7f;
	assert_true(read_number(bytes, 10, 0, &value));
	assert_int_equal(value, UINT64_MAX);
}

/* What protobuf-c takes is taken, alike, unless a text is none. */
static void compare(const uint8_t *bytes, size_t len, unsigned *taken, unsigned *lax)
{
	Proto__ExceedsLimitsRequest *message =
		proto__exceeds_limits_request__unpack(NULL, len, bytes);
	bool ok = read_exactly(bytes, len);
	if (message && !ok && !strstr(why, "text") && !strstr(why, "missing"))
		++*lax; /* protobuf-c cuts tags to 32 bits; Google's does not take them */
	if (message && ok) {
		++*taken;
		assert_string_equal(message->tenant, request.tenant);
		assert_int_equal(message->n_streams, request.n);
		for (size_t i = 0; i < request.n; i++) {
			assert_true(message->streams[i]->streamhash == request.streams[i].hash);
			assert_true(message->streams[i]->totalsize == request.streams[i].bytes);
			assert_string_equal(
				message->streams[i]->ingestionpolicy, request.streams[i].policy);
		}
	}
	if (message)
		proto__exceeds_limits_request__free_unpacked(message, NULL);
	free(request.memory);
	request.memory = NULL;
}

static void wire_reads_what_protobuf_c_reads(void **state)
{
	uint8_t bytes[600];
	unsigned taken = 0, lax = 0;
	(void)state;
	const char *seed = getenv("TALLY_SEED");
	rng_state = seed ? strtoull(seed, NULL, 0) : 1;
	for (unsigned round = 0; round < 200000; round++) {
		size_t len = random_request(bytes);
		for (unsigned k = (unsigned)(rng() % 4); k; k--)
			bytes[rng() % len] = (uint8_t)(rng() % 2 ? rng() % 32 : rng());
		compare(bytes, rng() % 8 ? len : rng() % (len + 1), &taken, &lax);
	}
	assert_true(taken > 50000);
	assert_true(lax < 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wire_reads_a_request),
		cmocka_unit_test(wire_passes_over_what_it_does_not_know),
		cmocka_unit_test(wire_says_what_is_wrong),
		cmocka_unit_test(wire_bounds_groups_and_streams),
		cmocka_unit_test(wire_writes_results_with_reasons),
		cmocka_unit_test(wire_writes_rates),
		cmocka_unit_test(wire_writes_partitions_as_protobuf_does),
		cmocka_unit_test(wire_reads_numbers_of_every_length),
		cmocka_unit_test(wire_refuses_numbers_without_an_end),
		cmocka_unit_test(wire_reads_what_protobuf_c_reads),
	};
	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
