/*
 * test_err.c - every code has a word and a sentence of its own; errno finds its code.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shm/err.h"
#include "shm/tally.h"

static void err_has_a_word_and_a_sentence_for_each_code(void **state)
{
	(void)state;
	for (int a = ERR_UNAVAILABLE; a <= ERR_OK; a++) {
		assert_string_not_equal(err_word(a), "unknown");
		assert_true(strlen(err_text(a)) > 5);
		assert_null(strchr(err_word(a), ' ')); /* a logfmt value without quotes */
		for (int b = ERR_UNAVAILABLE; b < a; b++) {
			assert_string_not_equal(err_word(a), err_word(b));
			assert_string_not_equal(err_text(a), err_text(b));
		}
	}
	assert_string_equal(err_word(ERR_FULL), "full");
	assert_string_equal(err_word(ERR_NOT_READY), "not_ready");
}

static void err_says_unknown_when_the_code_is_none(void **state)
{
	static const int codes[] = {1, INT_MAX, ERR_UNAVAILABLE - 1, -1000, INT_MIN};

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		assert_string_equal(err_word(codes[i]), "unknown");
		assert_true(strlen(err_text(codes[i])) > 5);
	}
}

static void err_translates_errno_when_a_call_failed(void **state)
{
	(void)state;
	assert_int_equal(err_from_errno(ENOMEM), ERR_NOMEM);
	assert_int_equal(err_from_errno(ENOSPC), ERR_FULL);
	assert_int_equal(err_from_errno(EDQUOT), ERR_FULL);
	assert_int_equal(err_from_errno(EACCES), ERR_ACCESS);
	assert_int_equal(err_from_errno(ELOOP), ERR_ACCESS);
	assert_int_equal(err_from_errno(ENOENT), ERR_NOT_FOUND);
	assert_int_equal(err_from_errno(EWOULDBLOCK), ERR_BUSY);
	assert_int_equal(err_from_errno(ENAMETOOLONG), ERR_INVALID);
	assert_int_equal(err_from_errno(ETIMEDOUT), ERR_TIMEOUT);
	assert_int_equal(err_from_errno(ECONNREFUSED), ERR_UNAVAILABLE);
	assert_int_equal(err_from_errno(EIO), ERR_IO);
}

static void err_is_never_ok_when_errno_got_lost(void **state)
{
	(void)state;
	for (int e = -1; e < 200; e++)
		assert_true(err_from_errno(e) < 0);
}

/* The public header repeats the codes; a client compares what we return. */
static void err_equals_the_public_codes(void **state)
{
	(void)state;
	assert_int_equal(TALLY_ENOMEM, ERR_NOMEM);
	assert_int_equal(TALLY_EIO, ERR_IO);
	assert_int_equal(TALLY_ECORRUPT, ERR_CORRUPT);
	assert_int_equal(TALLY_EFORMAT, ERR_FORMAT);
	assert_int_equal(TALLY_EACCESS, ERR_ACCESS);
	assert_int_equal(TALLY_ENOTFOUND, ERR_NOT_FOUND);
	assert_int_equal(TALLY_EBUSY, ERR_BUSY);
	assert_int_equal(TALLY_ESTALE, ERR_STALE);
	assert_int_equal(TALLY_ENOTREADY, ERR_NOT_READY);
	assert_int_equal(TALLY_EINVALID, ERR_INVALID);
	assert_int_equal(TALLY_ENAMESPACE, ERR_NAMESPACE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_has_a_word_and_a_sentence_for_each_code),
		cmocka_unit_test(err_says_unknown_when_the_code_is_none),
		cmocka_unit_test(err_translates_errno_when_a_call_failed),
		cmocka_unit_test(err_is_never_ok_when_errno_got_lost),
		cmocka_unit_test(err_equals_the_public_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
