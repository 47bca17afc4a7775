/*
 * test_percent.c - percent-escapes: decoded whole, or refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shm/percent.h"

static void percent_decodes_plus_only_when_asked_to(void **state)
{
	char path[] = "a+b%20c%C3%A4", query[] = "a+b%2Bc", empty[] = "";

	(void)state;
	assert_true(percent_decode(path, false));
	assert_string_equal(path, "a+b c\xc3\xa4");
	assert_true(percent_decode(query, true));
	assert_string_equal(query, "a b+c");
	assert_true(percent_decode(empty, true));
}

static void percent_refuses_what_is_no_escape_and_a_nul(void **state)
{
	static const char *const bad[] = {
		"%", "a%", "a%4", "%4g", "%g4", "%%41", "%00", "x%00y", "% 1", "%-1", "%4%"};
	char text[16];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "%s", bad[i]);
		assert_false(percent_decode(text, false));
	}
}

static void percent_decodes_each_byte_in_either_case(void **state)
{
	char lower[8], upper[8];

	(void)state;
	for (unsigned c = 1; c < 256; c++) {
		snprintf(lower, sizeof(lower), "%%%02x", c);
		snprintf(upper, sizeof(upper), "%%%02X", c);
		assert_true(percent_decode(lower, true) && percent_decode(upper, false));
		assert_int_equal((uint8_t)lower[0], c);
		assert_int_equal((uint8_t)upper[0], c);
		assert_int_equal(strlen(upper), 1);
	}
}

static void percent_knows_hexadecimal_digits_and_no_other(void **state)
{
	static const char digits[] = "0123456789abcdef";

	(void)state;
	for (int c = 0; c < 256; c++) {
		char low = (char)(c >= 'A' && c <= 'F' ? c | 0x20 : c);
		const char *at = low ? strchr(digits, low) : NULL;

		assert_int_equal(percent_hex((char)c), at ? at - digits : -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percent_decodes_plus_only_when_asked_to),
		cmocka_unit_test(percent_refuses_what_is_no_escape_and_a_nul),
		cmocka_unit_test(percent_decodes_each_byte_in_either_case),
		cmocka_unit_test(percent_knows_hexadecimal_digits_and_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
