/*
 * test_grpc_message.c - frames, gzip, grpc-timeout and grpc-message, as bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "tools/queryd/grpc_message.h"

static void a_front_is_whole_when_its_last_byte_is_there(void **state)
{
	const uint8_t bytes[] = {0, 0, 0, 0, 2, 'a', 'b', 0};
	size_t length = 99;

	(void)state;
	for (size_t len = 0; len < 7; len++)
		assert_int_equal(grpc_front(bytes, len, 10, &length), FRONT_SHORT);
	assert_int_equal(grpc_front(bytes, 7, 10, &length), FRONT_WHOLE);
	assert_int_equal(length, 2);
	assert_int_equal(grpc_front(bytes, 8, 2, &length), FRONT_WHOLE);
}

static void a_front_that_says_4_gib_is_too_long_at_once(void **state)
{
	const uint8_t bytes[] = {1, 0xff, 0xff, 0xff, 0xff};
	size_t length;

	(void)state;
	assert_int_equal(grpc_front(bytes, 5, 4 * 1024 * 1024, &length), FRONT_TOO_LONG);
	assert_int_equal(length, UINT32_MAX);
	assert_int_equal(grpc_front(bytes, 4, 4 * 1024 * 1024, &length), FRONT_SHORT);
}

static void a_front_with_a_flag_that_is_not_known_is_broken(void **state)
{
	const uint8_t bytes[] = {2};
	size_t length;

	(void)state;
	assert_int_equal(grpc_front(bytes, 1, 10, &length), FRONT_BROKEN);
}

static void a_timeout_has_up_to_8_digits_and_a_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"1n", 1},
		{"7u", 7000},
		{"250m", 250000000},
		{"2S", 2000000000},
		{"3M", UINT64_C(180000000000)},
		{"1H", UINT64_C(3600000000000)},
		{"0S", 0},
		{"99999999S", UINT64_C(99999999000000000)},
		{"99999999H", UINT64_MAX},
	};
	static const char *const bad[] = {"", "S", "1", "1s", "-1S", "+1S", " 1S", "1 S", "1.5S",
		"123456789n", "1SS", "0x1S"};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(grpc_parse_timeout(good[i].text, strlen(good[i].text), &ns));
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(grpc_parse_timeout(bad[i], strlen(bad[i]), &ns));
}

static void a_message_is_percent_encoded_and_cut_between_characters(void **state)
{
	char text[32];

	(void)state;
	assert_int_equal(grpc_percent(text, sizeof(text), "50% \xc3\xa9\n~"), 16);
	assert_string_equal(text, "50%25 %C3%A9%0A~");
	assert_int_equal(grpc_percent(text, 6, "abc\n"), 3);
	assert_string_equal(text, "abc");
}

static size_t pack(const void *bytes, size_t len, uint8_t *out, size_t size)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
		.avail_in = (uInt)len,
		.next_out = out,
		.avail_out = (uInt)size};

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return size - z.avail_out;
}

static void gunzip_gives_what_was_packed_up_to_the_last_byte_allowed(void **state)
{
	static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8192, 100000};
	uint8_t *plain = malloc(100000), *packed = malloc(200000), *out;
	size_t len, out_len;

	(void)state;
	for (size_t i = 0; i < 100000; i++)
		plain[i] = (uint8_t)(i * i >> 3);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		len = pack(plain, sizes[i], packed, 200000);
		assert_int_equal(grpc_gunzip(packed, len, sizes[i], &out, &out_len), GUNZIP_DONE);
		assert_int_equal(out_len, sizes[i]);
		if (out_len > 0)
			assert_memory_equal(out, plain, out_len);
		free(out);
		if (sizes[i] > 0)
			assert_int_equal(grpc_gunzip(packed, len, sizes[i] - 1, &out, &out_len),
				GUNZIP_TOO_LONG);
	}
	free(plain);
	free(packed);
}

static void gunzip_refuses_what_is_cut_damaged_or_followed_by_more(void **state)
{
	uint8_t packed[256], *out;
	size_t len = pack("hello hello hello", 17, packed, sizeof(packed) - 1), out_len;

	(void)state;
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(grpc_gunzip(packed, cut, 100, &out, &out_len), GUNZIP_BROKEN);
	packed[len] = 0;
	assert_int_equal(grpc_gunzip(packed, len + 1, 100, &out, &out_len), GUNZIP_BROKEN);
	packed[len - 6] ^= 1; /* its checksum */
	assert_int_equal(grpc_gunzip(packed, len, 100, &out, &out_len), GUNZIP_BROKEN);
	assert_null(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_front_is_whole_when_its_last_byte_is_there),
		cmocka_unit_test(a_front_that_says_4_gib_is_too_long_at_once),
		cmocka_unit_test(a_front_with_a_flag_that_is_not_known_is_broken),
		cmocka_unit_test(a_timeout_has_up_to_8_digits_and_a_unit),
		cmocka_unit_test(a_message_is_percent_encoded_and_cut_between_characters),
		cmocka_unit_test(gunzip_gives_what_was_packed_up_to_the_last_byte_allowed),
		cmocka_unit_test(gunzip_refuses_what_is_cut_damaged_or_followed_by_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
