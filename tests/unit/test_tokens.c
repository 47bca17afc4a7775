/*
 * test_tokens.c - query.tokens_file: what is one, what is a mistake, and who may do what.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/tokens.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define A	 "sha256:00000000000000000000000000000000000000000000000000000000000000aA"
#define B	 "sha256:00000000000000000000000000000000000000000000000000000000000000bb"

static struct tokens *tokens;
static char why[TOKENS_WHY_SIZE];

static void reads(const char *text, size_t n)
{
	tokens_free(&tokens);
	tokens = tokens_parse("f", text, strlen(text), why);
	if (tokens == NULL)
		fail_msg("refused: %s", why);
	assert_int_equal(tokens->n, n);
}

static int teardown(void **state)
{
	(void)state;
	tokens_free(&tokens);
	return 0;
}

static void tokens_are_hashes_with_scopes_and_comments(void **state)
{
	(void)state;
	reads("# who\n\n  " A "\tadmin # a person\r\n" B " metrics read:x", 2);
	assert_int_equal(tokens->of[0].hash[31], 0xaa);
	assert_int_equal(tokens->of[1].hash[31], 0xbb);
	assert_int_equal(tokens->of[1].line, 4);
	assert_int_equal(tokens->of[1].scopes, TOKEN_METRICS);
	assert_int_equal(tokens->of[1].tenants_n, 1);
}

static bool may(unsigned needs, const char *tenant)
{
	return tokens_allow(tokens, &tokens->of[0], needs, tenant);
}

static void tokens_allow_what_their_scopes_say(void **state)
{
	const unsigned of_one = TOKEN_READ | TOKEN_TENANT;

	(void)state;
	reads(A " admin", 1);
	assert_true(may(TOKEN_ASK, NULL) && may(TOKEN_READ, NULL) && may(TOKEN_METRICS, NULL));
	assert_true(may(of_one, "a"));
	reads(A " ask", 1);
	assert_true(may(TOKEN_ASK, NULL));
	assert_false(may(TOKEN_READ, NULL) || may(TOKEN_METRICS, NULL) || may(of_one, "a"));
	reads(A " read", 1);
	assert_true(may(TOKEN_READ, NULL) && may(TOKEN_METRICS, NULL) && may(of_one, "a"));
	assert_false(may(TOKEN_ASK, NULL));
	reads(A " metrics", 1);
	assert_true(may(TOKEN_METRICS, NULL));
	assert_false(may(TOKEN_ASK, NULL) || may(TOKEN_READ, NULL) || may(of_one, NULL));
}

static void tokens_of_a_tenant_read_that_tenant_only(void **state)
{
	const unsigned of_one = TOKEN_READ | TOKEN_TENANT;

	(void)state;
	reads(B " read:z\n" A " read:a read:b%20%25%23%0a ", 2);
	tokens->of[0] = tokens->of[1]; /* the second: its names come after those of the first */
	assert_true(may(of_one, "a"));
	assert_true(may(of_one, "b %#\n"));
	assert_true(may(of_one, NULL));
	assert_false(may(of_one, "z") || may(of_one, "") || may(of_one, "A") || may(of_one, "aa"));
	assert_false(may(TOKEN_READ, "a") || may(TOKEN_ASK, "a") || may(TOKEN_METRICS, "a"));
}

static void tokens_refuse_a_file_with_a_mistake_as_a_whole(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"", "f: has no token, so nobody could ask"},
		{"# all\n", "f: has no token"},
		{A " ask\nhunter2 admin", "f:2: must begin with sha256: and the SHA-256"},
		{A "0 ask", "f:1: sha256: must be followed by 64 hexadecimal digits"},
		{"sha256:zz000000000000000000000000000000000000000000000000000000000000aa ask",
			"f:1: sha256: must be followed by 64"},
		{"sha256: ask", "f:1: sha256: must be followed by 64"},
		{A, "f:1: the token has no scope"},
		{A " # ask", "f:1: the token has no scope"},
		{A " hunter2", "f:1: there is a scope that is none"},
		{A " ask,read", "f:1: there is a scope that is none"},
		{A " Admin", "f:1: there is a scope that is none"},
		{A " read:", "f:1: read: must be followed by a tenant's name"},
		{A " read:a%", "f:1: read: a tenant's name has a % that is no escape"},
		{A " read:a%00", "f:1: read: a tenant's name has a % that is no escape"},
		{A " ask\n\n" A " read", "f:3: the same token as on line 1"},
		{"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 ask",
			"f:1: this is the SHA-256 of nothing"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		tokens_free(&tokens);
		tokens = tokens_parse("f", bad[i].text, strlen(bad[i].text), why);
		assert_null(tokens);
		if (strncmp(why, bad[i].why, strlen(bad[i].why)) != 0)
			fail_msg("%s: %s", bad[i].text, why);
		assert_null(strstr(why, "hunter2")); /* it may be the token itself */
	}
}

static void tokens_are_not_without_number(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	for (int i = 0; i <= TOKENS_MAX; i++)
		fprintf(out, "sha256:%064x ask\n", i + 1);
	fclose(out);
	assert_null(tokens_parse("f", text, len, why));
	assert_string_equal(why, "f:1025: there are more than 1024 tokens");
	free(text);
}

static void tokens_say_why_a_file_cannot_be_read(void **state)
{
	unsigned mode;

	(void)state;
	assert_null(tokens_load("/nope/x", &mode, why));
	assert_string_equal(
		why, "/nope/x: No such file or directory; create it, or correct the path");
	assert_null(tokens_load("/dev/null", &mode, why));
	assert_string_equal(why, "/dev/null: is not a regular file; name one");
}

static void one_token_is_read_without_its_newline(void **state)
{
	static const struct {
		const char *text, *token, *why;
	} files[] = {
		{"abc", "abc", NULL},
		{"abc\r\n", "abc", NULL},
		{"", NULL, "is empty"},
		{"\n", NULL, "is empty"},
		{"abc\ndef\n", NULL, "has more than one line"},
		{"a c\n", NULL, "no blanks"},
		{"a\x01", NULL, "no blanks"},
		{"a\xc3\xa9", NULL, "no blanks"},
	};
	char path[] = "/tmp/tally-token-XXXXXX";
	int fd = mkstemp(path);
	unsigned mode;

	(void)state;
	for (size_t i = 0; i < COUNT(files); i++) {
		char *token;

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_true(pwrite(fd, files[i].text, strlen(files[i].text), 0) >= 0);
		token = tokens_read_one(path, &mode, why);
		if (files[i].token == NULL) {
			assert_null(token);
			assert_non_null(strstr(why, files[i].why));
		} else {
			assert_string_equal(token, files[i].token);
			assert_int_equal(mode, 0600);
		}
		tokens_wipe(&token);
	}
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_are_hashes_with_scopes_and_comments),
		cmocka_unit_test(tokens_allow_what_their_scopes_say),
		cmocka_unit_test(tokens_of_a_tenant_read_that_tenant_only),
		cmocka_unit_test(tokens_refuse_a_file_with_a_mistake_as_a_whole),
		cmocka_unit_test(tokens_are_not_without_number),
		cmocka_unit_test(tokens_say_why_a_file_cannot_be_read),
		cmocka_unit_test(one_token_is_read_without_its_newline),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
