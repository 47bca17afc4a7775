/*
 * test_posted.c - the body of a question: what is taken, and what is refused in which words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/queryd/posted.h"

#include "shm/host.h"
#include "shm/tally.h"

static char why[POSTED_WHY_SIZE];
static char *body;

/* In memory of its own, as large as the text: a byte read beyond it is found by the sanitizer. */
static int parse_bytes(struct posted *posted, const char *text, size_t len)
{
	free(body);
	body = malloc(len + (len == 0));
	memcpy(body, text, len);
	*why = '\0';
	return posted_parse(posted, body, len, why);
}

static int parse(struct posted *posted, const char *text)
{
	return parse_bytes(posted, text, strlen(text));
}

static int teardown(void **state)
{
	(void)state;
	free(body);
	body = NULL;
	return 0;
}

static void posted_takes_lokis_shape(void **state)
{
	struct posted posted;

	(void)state;
	assert_int_equal(
		parse(&posted,
			" {\t\"tenant\":\"a\",\r\n\"streams\":[{\"streamHash\":1,\"totalSize\":2,"
			"\"ingestionPolicy\":\"gold\"} , {\"streamHash\": 0 } ] } \n"),
		0);
	assert_string_equal(posted.tenant, "a");
	assert_int_equal(posted.n, 2);
	assert_int_equal(posted.streams[0].hash, 1);
	assert_int_equal(posted.streams[0].bytes, 2);
	assert_string_equal(posted.streams[0].policy, "gold");
	assert_int_equal(posted.streams[1].hash, 0);
	assert_int_equal(posted.streams[1].bytes, 0);
	assert_string_equal(posted.streams[1].policy, "");
	posted_free(&posted);
	assert_int_equal(parse(&posted, "{\"streams\":[],\"tenant\":\"a\"}"), 0);
	assert_int_equal(posted.n, 0);
	posted_free(&posted);
}

static void posted_keeps_all_digits(void **state)
{
	static const char *const texts[] = {"18446744073709551615", "\"18446744073709551615\"",
		"9223372036854775808", "9007199254740993", "\"9007199254740993\"", "0", "\"0\""};
	static const uint64_t values[] = {UINT64_MAX, UINT64_MAX, UINT64_C(1) << 63,
		UINT64_C(9007199254740993), UINT64_C(9007199254740993), 0, 0};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct posted posted;
		char text[200];

		snprintf(text, sizeof(text),
			"{\"tenant\":\"a\",\"streams\":[{\"totalSize\":%s,\"streamHash\":%s}]}",
			texts[i], texts[i]);
		assert_int_equal(parse(&posted, text), 0);
		assert_int_equal(posted.streams[0].hash, values[i]);
		assert_int_equal(posted.streams[0].bytes, values[i]);
		posted_free(&posted);
	}
}

static void posted_decodes_texts(void **state)
{
	struct posted posted;

	(void)state;
	assert_int_equal(
		parse(&posted, "{\"te\\u006eant\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20AC"
			       "\\ud83d\\ude00\xc3\xa4\",\"streams\":[]}"),
		0);
	assert_string_equal(
		posted.tenant, "\"\\/\b\f\n\r\t\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4");
	posted_free(&posted);
}

#define STREAM(text) "{\"tenant\":\"a\",\"streams\":[" text "]}"

static void posted_refuses_in_words(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "the body is empty"},
		{"  ", "the question must be an object"},
		{"null", "must be an object"},
		{"[]", "must be an object"},
		{"{", "a key must be a text in quotes"},
		{"{}", "the question has no \"tenant\""},
		{"{\"tenant\":\"a\"}", "the question has no \"streams\""},
		{"{\"tenant\":\"\",\"streams\":[]}", "tenant is empty"},
		{"{\"tenant\":null,\"streams\":[]}", "tenant must be a text in quotes (byte 10)"},
		{"{\"tenant\":1,\"streams\":[]}", "tenant must be a text"},
		{"{\"tenant\":\"a\",\"streams\":null}", "streams must be a list"},
		{"{\"tenant\":\"a\",\"streams\":{}}", "streams must be a list"},
		{"{\"tenant\":\"a\",\"streams\":[]} x", "there is something behind the question"},
		{"{\"tenant\":\"a\",\"streams\":[]}{}", "there is something behind the question"},
		{"{\"tenant\":\"a\",\"streams\":[],}", "a key must be a text"},
		{"{\"tenant\":\"a\",\"streams\":[]", "there should be"},
		{"{\"tenant\":\"a\" \"streams\":[]}", "there should be ',' or '}'"},
		{"{\"tenant\" \"a\"}", "there should be ':'"},
		{"{\"tenant\":\"a\",\"tenant\":\"b\",\"streams\":[]}", "\"tenant\" is given twice"},
		{"{\"tenant\":\"a\",\"streams\":[],\"streams\":[]}", "\"streams\" is given twice"},
		{"{\"tenant\":\"a\",\"Streams\":[]}", "the question has no key \"Streams\""},
		{"{\"tenant\":\"a\",\"streams\":[],\"dry\":1}", "the question has no key \"dry\""},
		{"{\"tenant\":\"\xff\",\"streams\":[]}", "tenant is not UTF-8"},
		{"{\"tenant\":\"\\ud800\",\"streams\":[]}", "half of a surrogate pair"},
		{"{\"tenant\":\"\\udc00x\",\"streams\":[]}", "half of a surrogate pair"},
		{"{\"tenant\":\"\\ud800\\u0041\",\"streams\":[]}", "half of a surrogate pair"},
		{"{\"tenant\":\"a\\u0000\",\"streams\":[]}", "must not hold a NUL"},
		{"{\"tenant\":\"a\\x\",\"streams\":[]}", "unknown escape"},
		{"{\"tenant\":\"a\\u12g4\",\"streams\":[]}", "four hexadecimal digits"},
		{"{\"tenant\":\"a\nb\",\"streams\":[]}", "must be escaped"},
		{"{\"tenant\":\"a", "a text does not end"},
		{"{\"tenant\":\"a\\", "unknown escape"},
		{"{\"tenant\":\"a\\u00", "four hexadecimal digits"},
		{STREAM("1"), "a stream must be an object (stream 0, byte 25)"},
		{STREAM("{}"), "a stream has no \"streamHash\""},
		{STREAM("{\"streamHash\":1},"), "a stream must be an object (stream 1,"},
		{STREAM("{\"streamHash\":1}{"), "there should be ',' or ']'"},
		{STREAM("{\"streamHash\":1,\"streamHash\":1}"), "given twice (stream 0"},
		{STREAM("{\"streamHash\":1,\"hash\":1}"), "a stream has no key \"hash\""},
		{STREAM("{\"streamHash\":-1}"), "streamHash must be a whole number from 0 to 1844"},
		{STREAM("{\"streamHash\":1.0}"), "without sign, fraction or exponent"},
		{STREAM("{\"streamHash\":1e3}"), "without sign"},
		{STREAM("{\"streamHash\":01}"), "whole number"},
		{STREAM("{\"streamHash\":\"0x1\"}"), "whole number"},
		{STREAM("{\"streamHash\":\"\"}"), "whole number"},
		{STREAM("{\"streamHash\":\" 1\"}"), "whole number"},
		{STREAM("{\"streamHash\":true}"), "whole number"},
		{STREAM("{\"streamHash\":18446744073709551616}"), "whole number"},
		{STREAM("{\"streamHash\":\"18446744073709551616\"}"), "whole number"},
		{STREAM("{\"streamHash\":100000000000000000000000000000}"), "whole number"},
		{STREAM("{\"streamHash\":1x}"), "there should be ',' or '}'"},
		{STREAM("{\"streamHash\":1,\"totalSize\":-5}"), "totalSize must be a whole number"},
		{STREAM("{\"streamHash\":1,\"ingestionPolicy\":7}"),
			"ingestionPolicy must be a text in quotes"},
		{STREAM("{\"streamHash\":1"), "there should be ',' or '}'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct posted posted;
		int err = parse(&posted, cases[i].text);

		if (err != TALLY_EINVALID || strstr(why, cases[i].why) == NULL)
			fail_msg(
				"%s: %d \"%s\", not \"%s\"", cases[i].text, err, why, cases[i].why);
		posted_free(&posted);
	}
}

static void posted_bounds_names(void **state)
{
	char text[1000], name[400];
	struct posted posted;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[256] = '\0';
	snprintf(text, sizeof(text),
		"{\"tenant\":\"%s\",\"streams\":[{\"streamHash\":1,\"ingestionPolicy\":\"%s\"}]}",
		name, name);
	assert_int_equal(parse(&posted, text), 0);
	posted_free(&posted);
	name[256] = 'x';
	name[257] = '\0';
	snprintf(text, sizeof(text), "{\"tenant\":\"%s\",\"streams\":[]}", name);
	assert_int_equal(parse(&posted, text), TALLY_EINVALID);
	assert_non_null(strstr(why, "tenant has 257 bytes; at most 256 are allowed"));
	posted_free(&posted);
	snprintf(text, sizeof(text),
		"{\"tenant\":\"a\",\"streams\":[{\"streamHash\":1,\"ingestionPolicy\":\"%s\"}]}",
		name);
	assert_int_equal(parse(&posted, text), TALLY_EINVALID);
	assert_non_null(strstr(why, "ingestionPolicy has 257 bytes"));
	posted_free(&posted);
	assert_int_equal(
		parse_bytes(&posted, "{\"tenant\":\"a\",\"streams\":[]}\0", 28), TALLY_EINVALID);
	posted_free(&posted);
}

static void posted_takes_many_streams(void **state)
{
	enum { MANY = 200000 };
	char *text = malloc(MANY * 24 + 100);
	size_t len = (size_t)sprintf(text, "{\"tenant\":\"a\",\"streams\":[");
	struct posted posted;

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		len += (size_t)sprintf(
			text + len, "%s{\"streamHash\":%u}", i > 0 ? "," : "", i * 3 % 100000);
	strcpy(text + len, "]}");
	assert_int_equal(parse(&posted, text), 0);
	assert_int_equal(posted.n, MANY);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(posted.streams[i].hash, i * 3 % 100000);
	posted_free(&posted);
	free(text);
}

/* What we take, another reader of JSON takes as well; and nothing makes us read out of bounds. */
static void posted_takes_only_json(void **state)
{
	static const char seed[] =
		"{\"tenant\":\"a\\u00e4\\n\",\"streams\":[{\"streamHash\":\"1844674407370955161\","
		"\"totalSize\":12,\"ingestionPolicy\":\"\"},{\"streamHash\":3}]}";
	static const char bytes[] = "{}[]\",:\\u0123456789abdefnrt -.\x80\xc3\x01";
	uint64_t random = host_random() | 1;
	unsigned taken = 0;

	(void)state;
	print_message("seed %" PRIu64 "\n", random);
	for (int round = 0; round < 200000; round++) {
		char text[sizeof(seed)];
		struct posted posted;
		json_t *json;

		memcpy(text, seed, sizeof(seed));
		for (int i = 0; i <= round % 3; i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			text[random % (sizeof(seed) - 1)] =
				bytes[(random >> 32) % (sizeof(bytes) - 1)];
		}
		if (parse_bytes(&posted, text, sizeof(seed) - 1) == 0) {
			taken++;
			json = json_loadb(text, sizeof(seed) - 1,
				JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
			if (json == NULL)
				fail_msg("taken: %s", text);
			assert_string_equal(
				json_string_value(json_object_get(json, "tenant")), posted.tenant);
			assert_int_equal(
				json_array_size(json_object_get(json, "streams")), posted.n);
			json_decref(json);
		} else {
			assert_int_not_equal(*why, '\0');
		}
		posted_free(&posted);
	}
	assert_true(taken > 100);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, teardown)
	const struct CMUnitTest tests[] = {
		TEST(posted_takes_lokis_shape),
		TEST(posted_keeps_all_digits),
		TEST(posted_decodes_texts),
		TEST(posted_refuses_in_words),
		TEST(posted_bounds_names),
		TEST(posted_takes_many_streams),
		TEST(posted_takes_only_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
