/*
 * test_tallyctl_table.c - tables on terminals that are too narrow for them, and in pipes.
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

#define LONG_SIZE 1100

static char *said;

static int setup(void **state)
{
	(void)state;
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	said = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(said);
	return 0;
}

static int end_table(struct ctl *ctl, void *arg)
{
	(void)ctl;
	ctl_table_end(arg);
	return CTL_OK;
}

static const char *printed(struct ctl_table *table)
{
	int code;
	free(said);
	said = ctl_capture(NULL, end_table, table, &code, NULL);
	return said;
}

/* As status has them. */
static struct ctl_table partitions(unsigned screen, const char *notes)
{
	static const char *const headings[] = {">P", "STATE", ">GENERATION", ">LAG", "NOTES"};
	struct ctl_table table;
	ctl_table_start(&table, 5, headings);
	table.screen = screen;
	table.spare[0] = 2;
	table.spare[1] = 3;
	ctl_table_row(&table, (const char *[]){"0", "ready", "1796169176867001", "12", notes});
	return table;
}

static void a_table_is_as_wide_as_its_content(void **state)
{
	struct ctl_table table = partitions(0, "SIGKILL 3 s ago; restarts in 12 s");
	(void)state;
	assert_string_equal(printed(&table),
		"P  STATE        GENERATION  LAG  NOTES\n"
		"0  ready  1796169176867001   12  SIGKILL 3 s ago; restarts in 12 s\n");
}

static void a_narrow_terminal_has_all_of_it_in_its_columns(void **state)
{
	struct ctl_table table = partitions(57, "SIGKILL 3 s ago; restarts in 12 s");
	(void)state;
	assert_string_equal(printed(&table), "P  STATE        GENERATION  LAG  NOTES\n"
					     "0  ready  1796169176867001   12  SIGKILL 3 s ago;\n"
					     "                                 restarts in 12 s\n");
}

static void a_narrower_one_leaves_out_what_can_be_spared(void **state)
{
	struct ctl_table table = partitions(42, "SIGKILL 3 s ago; restarts in 12 s");
	(void)state;
	assert_string_equal(printed(&table), "P  STATE  LAG  NOTES\n"
					     "0  ready   12  SIGKILL 3 s ago; restarts\n"
					     "               in 12 s\n");
	table = partitions(34, "SIGKILL 3 s ago; restarts in 12 s");
	assert_string_equal(printed(&table), "P  STATE  NOTES\n"
					     "0  ready  SIGKILL 3 s ago;\n"
					     "          restarts in 12 s\n");
	/* Not before there is need. */
	table = partitions(34, "-");
	assert_string_equal(printed(&table), "P  STATE  LAG  NOTES\n"
					     "0  ready   12  -\n");
	table = partitions(38, "-");
	assert_string_equal(printed(&table), "P  STATE        GENERATION  LAG  NOTES\n"
					     "0  ready  1796169176867001   12  -\n");
}

/* The policy that a stream has, and the bucket it counts in. */
static struct ctl_table policies(unsigned screen, const char *policy, const char *bucket)
{
	static const char *const headings[] = {">STREAMS", "POLICY", "COUNTS IN"};
	struct ctl_table table;
	ctl_table_start(&table, 3, headings);
	table.screen = screen;
	ctl_table_row(&table, (const char *[]){"123456", policy, bucket});
	return table;
}

static void repeat(char to[LONG_SIZE], const char *what, size_t n)
{
	*to = 0;
	for (size_t i = 0; i < n; i++)
		snprintf(to + i * strlen(what), LONG_SIZE - i * strlen(what), "%s", what);
}

static unsigned widest_line(const char *text)
{
	char line[8192];
	unsigned widest = 0;
	for (size_t n; *text; text += n + 1) {
		n = strcspn(text, "\n");
		snprintf(line, sizeof line, "%.*s", (int)n, text);
		widest = ctl_width(line) > widest ? ctl_width(line) : widest;
	}
	return widest;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;
	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

static void names_of_any_length_stay_in_their_columns_and_whole(void **state)
{
	static const struct {
		const char *what;
		size_t n;
	} names[] = {{"x", 256}, {"\u65e5", 85}, {"e\u0301", 85}, {"\\x1b", 256}};
	char name[LONG_SIZE], other[LONG_SIZE];
	(void)state;
	repeat(other, "y", 100);
	for (unsigned screen = 40; screen < 130; screen++)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			repeat(name, names[i].what, names[i].n);
			struct ctl_table table = policies(screen, name, other);
			printed(&table);
			assert_in_range(widest_line(said), 30, screen);
			assert_int_equal(count(said, "123456"), 1);
			assert_int_equal(count(said, "y"), 100);
			if (names[i].n < 256 || *names[i].what == 'x')
				assert_int_equal(count(said, names[i].what), names[i].n);
		}
}

static void a_pipe_has_each_row_in_one_line(void **state)
{
	char name[LONG_SIZE], line[2 * LONG_SIZE];
	(void)state;
	repeat(name, "\\x1b", 256);
	struct ctl_table table = policies(0, name, "b");
	snprintf(line, sizeof line, "\n 123456  %s  b\n", name);
	assert_non_null(strstr(printed(&table), line));
	assert_int_equal(count(said, "\n"), 2);
}

static void a_frame_has_each_row_in_one_line_that_is_cut(void **state)
{
	struct ctl_table table = partitions(0, "SIGKILL 3 s ago; restarts in 12 s");
	(void)state;
	table.width = 44;
	assert_string_equal(printed(&table), "P  STATE        GENERATION  LAG  NOTES\n"
					     "0  ready  1796169176867001   12  SIGKILL 3 …\n");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_table_is_as_wide_as_its_content),
		TEST(a_narrow_terminal_has_all_of_it_in_its_columns),
		TEST(a_narrower_one_leaves_out_what_can_be_spared),
		TEST(names_of_any_length_stay_in_their_columns_and_whole),
		TEST(a_pipe_has_each_row_in_one_line),
		TEST(a_frame_has_each_row_in_one_line_that_is_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
