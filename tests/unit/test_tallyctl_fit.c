/*
 * test_tallyctl_fit.c - text in so many cells: names that fit, bars, wrapped lines; near words.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/tallyctl/ctl.h"

#include "shm/log.h"

static int utf8(void **state)
{
	(void)state;
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	return 0;
}

static int plain(void **state)
{
	(void)state;
	assert_non_null(setlocale(LC_CTYPE, "C"));
	return 0;
}

static const char *fit(const char *text, unsigned cells, enum ctl_side side)
{
	static char to[CTL_CELLS_SIZE(200)];
	return ctl_fit(to, sizeof to, text, cells, side);
}

static void fit_pads_and_cuts_to_the_width(void **state)
{
	(void)state;
	assert_string_equal(fit("abc", 5, CTL_LEFT), "abc  ");
	assert_string_equal(fit("abc", 5, CTL_RIGHT), "  abc");
	assert_string_equal(fit("abc", 5, CTL_ASIS), "abc");
	assert_string_equal(fit("abcde", 5, CTL_LEFT), "abcde");
	assert_string_equal(fit("abcdef", 5, CTL_LEFT), "abcd…");
	assert_string_equal(fit("abcdef", 5, CTL_RIGHT), "abcd…");
	assert_string_equal(fit("abcdef", 1, CTL_LEFT), "…");
	assert_string_equal(fit("abcdef", 0, CTL_LEFT), "");
	assert_string_equal(fit("", 3, CTL_RIGHT), "   ");
}

static void fit_gives_wide_characters_two_cells(void **state)
{
	(void)state;
	assert_int_equal(ctl_width("日本語"), 6);
	assert_string_equal(fit("日本語", 8, CTL_LEFT), "日本語  ");
	assert_string_equal(fit("日本語", 6, CTL_LEFT), "日本語");
	/* No half of one: the cell that is left is blank. */
	assert_string_equal(fit("日本語", 5, CTL_LEFT), "日本…");
	assert_string_equal(fit("日本語", 4, CTL_LEFT), "日… ");
	assert_string_equal(fit("日本語", 2, CTL_LEFT), "… ");
	assert_int_equal(ctl_width("🦀x"), 3);
}

static void fit_keeps_few_marks_on_a_character(void **state)
{
	(void)state;
	assert_int_equal(ctl_width("e\xcc\x81"), 1);
	assert_string_equal(fit("e\xcc\x81!", 3, CTL_LEFT), "e\xcc\x81! ");
	/* A tower of them, and one with nothing to stand on. */
	assert_string_equal(
		fit("a\xcc\x81\xcc\x81\xcc\x81", 20, CTL_ASIS), "a\xcc\x81\xcc\x81\\xcc\\x81");
	assert_string_equal(fit("\xcc\x81z", 20, CTL_ASIS), "\\xcc\\x81z");
	/* Terminals do not agree on how wide this makes the one before. */
	assert_string_equal(fit("\xe2\x98\xba\xef\xb8\x8f", 20, CTL_ASIS), "☺\\xef\\xb8\\x8f");
}

static void fit_escapes_what_drives_a_terminal(void **state)
{
	(void)state;
	assert_string_equal(fit("a\033[2Jb", 20, CTL_ASIS), "a\\x1b[2Jb");
	assert_string_equal(fit("a\033[2Jb", 4, CTL_LEFT), "a…  ");
	assert_string_equal(fit("\n\t\r\x7f", 20, CTL_ASIS), "\\x0a\\x09\\x0d\\x7f");
	assert_string_equal(fit("\xc2\x9b", 20, CTL_ASIS), "\\xc2\\x9b");
	assert_string_equal(fit("a\xe2\x80\xae"
				"b",
				    20, CTL_ASIS),
		"a\\xe2\\x80\\xaeb");
	assert_string_equal(fit("\xff\xc3", 20, CTL_ASIS), "\\xff\\xc3");
}

static void fit_never_exceeds_its_width_or_its_memory(void **state)
{
	static const char *const pieces[] = {"a", "日", "\xcc\x81", "\033[1m", "\xff", "🦀",
		"\xc2\x9b", "é", "\xe2\x80\xae", "\xef\xb8\x8f", " "};
	(void)state;
	srand(1);
	for (unsigned round = 0; round < 20000; round++) {
		char text[200] = "";
		for (int i = rand() % 20; i > 0; i--)
			strcat(text, pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)]);
		unsigned cells = (unsigned)rand() % 30;
		size_t size = 1 + (size_t)rand() % CTL_CELLS_SIZE(30);
		char *to = malloc(size); /* exact, for ASan */
		ctl_fit(to, size, text, cells, (enum ctl_side)(rand() % 3));
		assert_true(strlen(to) < size);
		for (const char *at = to; *at; at += log_printable(at))
			assert_true(log_printable(at) > 0);
		assert_true(ctl_width(to) <= cells);
		free(to);
		const char *whole = fit(text, cells, CTL_LEFT);
		assert_int_equal(ctl_width(whole), cells);
	}
}

static void fit_shows_ascii_only_without_utf8(void **state)
{
	(void)state;
	assert_string_equal(fit("é", 20, CTL_ASIS), "\\xc3\\xa9");
	assert_string_equal(fit("abcdef", 4, CTL_LEFT), "abc~");
	assert_string_equal(fit("abé", 20, CTL_LEFT), "ab\\xc3\\xa9          ");
}

static const char *bar(unsigned cells, double share)
{
	static char to[400];
	return ctl_bar(to, sizeof to, cells, share);
}

static void bar_is_full_at_the_end_only(void **state)
{
	(void)state;
	assert_string_equal(bar(4, 0), "░░░░");
	assert_string_equal(bar(4, 0.0001), "▌░░░");
	assert_string_equal(bar(4, 0.25), "█░░░");
	assert_string_equal(bar(4, 0.5), "██░░");
	assert_string_equal(bar(4, 0.9999), "███▌");
	assert_string_equal(bar(4, 1), "████");
	assert_string_equal(bar(4, 7.5), "████");
	assert_string_equal(bar(4, 1e300 * 1e300), "████");
	assert_string_equal(bar(4, -1), "░░░░");
	assert_string_equal(bar(0, 0.5), "");
}

static void bar_is_ascii_without_utf8(void **state)
{
	(void)state;
	assert_string_equal(bar(4, 0), "....");
	assert_string_equal(bar(4, 0.0001), "#...");
	assert_string_equal(bar(4, 0.5), "##..");
	assert_string_equal(bar(4, 0.9999), "###.");
	assert_string_equal(bar(4, 1), "####");
}

static void wrap_breaks_at_blanks(void **state)
{
	(void)state;
	assert_int_equal(ctl_wrap("one two", 7), 7);
	assert_int_equal(ctl_wrap("one two", 6), 3);
	assert_int_equal(ctl_wrap("one two", 3), 3);
	assert_int_equal(ctl_wrap("onetwo", 4), 4);
	assert_int_equal(ctl_wrap("日本", 3), 3); /* bytes of one */
	assert_int_equal(ctl_wrap("日本", 1), 3); /* always goes on */
	assert_int_equal(ctl_wrap("", 4), 0);
	/* A line ends where it ends: what follows is none of its business. */
	assert_int_equal(ctl_wrap("one two\nthree", 9), 7);
	assert_int_equal(ctl_wrap("\none", 9), 0);
	/* Colours have no width. */
	assert_int_equal(ctl_wrap("\033[1;31mone\033[0m two", 7), 18);
	assert_int_equal(ctl_wrap("\033[1;31mone\033[0m two", 4), 14);
}

static void plain_takes_colours_out(void **state)
{
	char text[] = "\033[1;31mone\033[0m two", other[] = "\033[2Jx\033[1", none[] = "";
	(void)state;
	ctl_plain(text);
	assert_string_equal(text, "one two");
	ctl_plain(other); /* not ours */
	assert_string_equal(other, "\033[2Jx\033[1");
	ctl_plain(none);
	assert_string_equal(none, "");
}

static void nearest_finds_what_was_meant(void **state)
{
	static const char *const words[] = {"help", "status", "tenants", "tenant", "streams",
		"stream", "top", "explain", "check"};
	static const struct {
		const char *typed, *meant;
	} cases[] = {
		{"staus", "status"},
		{"sattus", "status"},
		{"stats", "status"},
		{"stat", "status"},
		{"tennants", "tenants"},
		{"tenat", "tenant"},
		{"tpo", "top"},
		{"expain", "explain"},
		{"chekc", "check"},
		{"steram", "stream"},
		{"x", NULL},
		{"restart", NULL},
		{"quarantine", NULL},
		{"", NULL},
		{"a-word-that-is-longer-than-any-that-is-known", NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *near = ctl_nearest(cases[i].typed, words, sizeof words / sizeof *words);
		if (!cases[i].meant ? near != NULL : !near || strcmp(near, cases[i].meant) != 0)
			fail_msg("'%s': %s", cases[i].typed, near ? near : "none");
	}
}

int main(void)
{
#define UTF8(f)	 cmocka_unit_test_setup(f, utf8)
#define PLAIN(f) cmocka_unit_test_setup(f, plain)
	const struct CMUnitTest tests[] = {
		UTF8(fit_pads_and_cuts_to_the_width),
		UTF8(fit_gives_wide_characters_two_cells),
		UTF8(fit_keeps_few_marks_on_a_character),
		UTF8(fit_escapes_what_drives_a_terminal),
		UTF8(fit_never_exceeds_its_width_or_its_memory),
		PLAIN(fit_shows_ascii_only_without_utf8),
		UTF8(bar_is_full_at_the_end_only),
		PLAIN(bar_is_ascii_without_utf8),
		UTF8(wrap_breaks_at_blanks),
		UTF8(plain_takes_colours_out),
		UTF8(nearest_finds_what_was_meant),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
