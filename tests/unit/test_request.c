/*
 * test_request.c - targets of HTTP requests, parameters, cursors of pages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/queryd/request.h"

/* --- request ------------------------------------------------------------------------------------
 */

static void request_splits_before_it_decodes(void **state)
{
	char why[REQUEST_WHY_SIZE] = "";
	struct request request;

	(void)state;
	assert_int_equal(
		request_parse(&request, "/api/v1/tenants/a%2Fb%3f/streams?limit=2", why), 0);
	assert_int_equal(request.segments, 5);
	assert_string_equal(request.segment[3], "a/b?");
	assert_string_equal(request.segment[4], "streams");
	assert_string_equal(request.query, "limit=2");
	request_free(&request);
}

static void request_keeps_empty_segments(void **state)
{
	char why[REQUEST_WHY_SIZE] = "";
	struct request request;

	(void)state;
	assert_int_equal(request_parse(&request, "/ingest-limits/usage/", why), 0);
	assert_int_equal(request.segments, 3);
	assert_string_equal(request.segment[2], "");
	request_free(&request);
	assert_int_equal(request_parse(&request, "/", why), 0);
	assert_int_equal(request.segments, 1);
	assert_string_equal(request.query, "");
	request_free(&request);
}

static void request_takes_what_proxies_send(void **state)
{
	char why[REQUEST_WHY_SIZE] = "";
	struct request request;

	(void)state;
	assert_int_equal(request_parse(&request, "http://127.0.0.1:1/ready?x", why), 0);
	assert_string_equal(request.segment[0], "ready");
	request_free(&request);
}

static void request_refuses_targets_without_meaning(void **state)
{
	static const char *const bad[] = {"", "*", "ready", "http://host", "?a=1", "/%", "/%4",
		"/%zz", "/a%00b", "/%0", "/1/2/3/4/5/6/7/8/9"};
	struct request request;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char why[REQUEST_WHY_SIZE] = "";

		if (request_parse(&request, bad[i], why) != TALLY_EINVALID || why[0] == '\0')
			fail_msg("accepted, or without a reason: %s", bad[i]);
		request_free(&request);
	}
}

static void request_refuses_names_that_no_tenant_has(void **state)
{
	char why[REQUEST_WHY_SIZE], longest[REQUEST_NAME_MAX + 2];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[REQUEST_NAME_MAX] = '\0';
	assert_true(request_name_ok(longest, "tenant", why));
	longest[REQUEST_NAME_MAX] = 'x';
	longest[REQUEST_NAME_MAX + 1] = '\0';
	assert_false(request_name_ok(longest, "tenant", why));
	assert_non_null(strstr(why, "256"));
	assert_false(request_name_ok("", "tenant", why));
	assert_false(request_name_ok("\xff", "tenant", why));
	assert_false(request_name_ok("\xed\xa0\x80", "tenant", why)); /* a surrogate */
	assert_true(request_name_ok("a/b \xe2\x98\x83", "tenant", why));
}

static void request_number_takes_whole_numbers_only(void **state)
{
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "1.0", "0x1",
		"18446744073709551616", "18446744073709551621", "10001", "0"};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (request_number(bad[i], 1, 10000, &value))
			fail_msg("accepted: \"%s\"", bad[i]);
	assert_true(request_number("10000", 1, 10000, &value));
	assert_int_equal(value, 10000);
	assert_true(request_number("18446744073709551615", 0, UINT64_MAX, &value));
	assert_true(value == UINT64_MAX);
}

/* What a query gives: its limit, or 0 when it is refused. */
static unsigned page_of(const char *target, char after[64], char why[REQUEST_WHY_SIZE])
{
	struct request_page page;
	struct request request;
	int err;

	why[0] = after[0] = '\0';
	assert_int_equal(request_parse(&request, target, why), 0);
	err = request_page(&request, &page, why);
	if (err == 0 && page.after != NULL)
		snprintf(after, 64, "%s", page.after);
	request_free(&request);
	return err == 0 ? page.limit : 0;
}

static void request_page_reads_after_and_limit(void **state)
{
	char after[64], why[REQUEST_WHY_SIZE];

	(void)state;
	assert_int_equal(page_of("/x", after, why), REQUEST_LIMIT_DEFAULT);
	assert_string_equal(after, "");
	assert_int_equal(page_of("/x?limit=7&after=a%26b+c", after, why), 7);
	assert_string_equal(after, "a&b c");
	assert_int_equal(page_of("/x?&after=&", after, why), REQUEST_LIMIT_DEFAULT);
	assert_int_equal(page_of("/x?limit=10000", after, why), 10000);
}

static void request_page_names_what_is_wrong(void **state)
{
	static const char *const bad[][2] = {
		{"/x?limit=abc", "limit must be a whole number from 1 to 10000"},
		{"/x?limit=0", "from 1 to 10000"},
		{"/x?limit=10001", "from 1 to 10000"},
		{"/x?limit=-5", "from 1 to 10000"},
		{"/x?limit=", "from 1 to 10000"},
		{"/x?limit", "limit has no value"},
		{"/x?after=%4", "after has no value, or one with a broken"},
		{"/x?limit=1&limit=2", "limit is given twice"},
		{"/x?after=a&after=b", "after is given twice"},
		{"/x?lim=5", "unknown parameter"},
	};
	char after[64], why[REQUEST_WHY_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (page_of(bad[i][0], after, why) != 0 || strstr(why, bad[i][1]) == NULL)
			fail_msg("%s: \"%s\"", bad[i][0], why);
}

static void cursor_comes_back_as_it_went(void **state)
{
	const struct tally_cursor cursors[] = {
		{0, 0, 0}, {7, 1, 0}, {1023, UINT64_MAX, 0}, {UINT32_MAX, UINT64_C(1) << 63, 0}};
	char text[REQUEST_CURSOR_SIZE];
	struct tally_cursor back;

	(void)state;
	for (size_t i = 0; i < sizeof(cursors) / sizeof(cursors[0]); i++) {
		request_cursor_text(&cursors[i], text);
		assert_true(request_cursor_parse(text, &back));
		assert_int_equal(back.partition, cursors[i].partition);
		assert_true(back.from == cursors[i].from);
		assert_int_equal(back.done, 0);
	}
}

static void cursor_refuses_garbage(void **state)
{
	static const char *const bad[] = {"", ".", "1", "1.", "x.0000000000000000",
		"1.000000000000000", "1.00000000000000000", "1.000000000000000g",
		"4294967296.0000000000000000", "-1.0000000000000000", "1.0000000000000000 ",
		"1111111111111111111111111111111111.0000000000000000"};
	struct tally_cursor cursor;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (request_cursor_parse(bad[i], &cursor))
			fail_msg("accepted: \"%s\"", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_splits_before_it_decodes),
		cmocka_unit_test(request_keeps_empty_segments),
		cmocka_unit_test(request_takes_what_proxies_send),
		cmocka_unit_test(request_refuses_targets_without_meaning),
		cmocka_unit_test(request_refuses_names_that_no_tenant_has),
		cmocka_unit_test(request_number_takes_whole_numbers_only),
		cmocka_unit_test(request_page_reads_after_and_limit),
		cmocka_unit_test(request_page_names_what_is_wrong),
		cmocka_unit_test(cursor_comes_back_as_it_went),
		cmocka_unit_test(cursor_refuses_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
