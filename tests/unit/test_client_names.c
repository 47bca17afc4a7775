/*
 * test_client_names.c - adding up by name: whole partitions or nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/client_private.h"

static void note(struct client_names *names, const char *name, const char *policy, uint64_t streams)
{
	uint32_t number;
	assert_int_equal(client_names_intern(names, name, &number), 0);
	assert_int_equal(client_names_note(names, number, policy,
				 &(struct client_sums){streams, streams * 10, 0.5}),
		0);
}

static void names_counts_nothing_that_was_dropped(void **state)
{
	(void)state;
	struct client_names names;
	client_names_init(&names);
	note(&names, "a", "", 1);
	client_names_drop(&names);
	note(&names, "a", "", 5);
	assert_int_equal(client_names_take(&names), 0);
	note(&names, "b", "", 7);
	client_names_drop(&names);
	assert_int_equal(client_names_take(&names), 0);
	assert_int_equal(names.n, 2);
	assert_int_equal(names.list[0].streams, 5);
	assert_int_equal(names.list[0].bytes, 50);
	assert_int_equal(names.list[0].policies, 1);
	assert_int_equal(names.list[1].streams, 0);
	client_names_free(&names);
}

static void names_counts_a_policy_of_many_partitions_once(void **state)
{
	(void)state;
	struct client_names names;
	client_names_init(&names);
	for (int partition = 0; partition < 5; partition++) {
		note(&names, "a", "gold", 1);
		note(&names, "a", "", 1);
		note(&names, "b", "gold", 1);
		assert_int_equal(client_names_take(&names), 0);
	}
	assert_int_equal(names.list[0].policies, 2);
	assert_int_equal(names.list[1].policies, 1);
	client_names_free(&names);
}

static void names_keeps_many_apart_and_sorts_them(void **state)
{
	(void)state;
	enum { MANY = 20000 };
	struct client_names names;
	char name[24];
	client_names_init(&names);
	for (int partition = 0; partition < 2; partition++) {
		for (int i = MANY - 1; i >= 0; i--) {
			snprintf(name, sizeof name, "tenant-%05d", i);
			note(&names, name, "", (uint64_t)(i % 100));
		}
		assert_int_equal(client_names_take(&names), 0);
	}
	assert_int_equal(names.n, MANY);
	client_names_sort(&names, false);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "tenant-%05d", i);
		assert_string_equal(client_name_text(&names, &names.list[i]), name);
		assert_int_equal(names.list[i].streams, 2 * (i % 100));
	}
	client_names_sort(&names, true);
	assert_string_equal(client_name_text(&names, &names.list[0]), "tenant-00099");
	assert_string_equal(client_name_text(&names, &names.list[1]), "tenant-00199");
	assert_int_equal(names.list[MANY - 1].streams, 0);
	client_names_free(&names);
}

static void names_saturates(void **state)
{
	(void)state;
	struct client_names names;
	uint32_t number;
	client_names_init(&names);
	assert_int_equal(client_names_intern(&names, "a", &number), 0);
	for (int i = 0; i < 3; i++)
		client_names_note(&names, number, "",
			&(struct client_sums){UINT64_MAX - 1, UINT64_MAX - 1, 0});
	assert_int_equal(client_names_take(&names), 0);
	assert_true(names.list[0].streams == UINT64_MAX);
	assert_true(names.list[0].bytes == UINT64_MAX);
	client_names_free(&names);
}

static void text_is_cut_and_cleaned(void **state)
{
	(void)state;
	char to[8];
	client_text(to, sizeof to, "abc", 100);
	assert_string_equal(to, "abc");
	client_text(to, sizeof to, "abcdefghijkl", 12);
	assert_string_equal(to, "abcdefg");
	client_text(to, sizeof to, "ab\xff\xfe", 4);
	assert_string_equal(to, "ab??");
	client_text(to, sizeof to, "abcdef\xc3\xa9", 9); /* cut inside a character */
	assert_string_equal(to, "abcdef?");
	client_text(to, sizeof to, "abcdefgh", 3);
	assert_string_equal(to, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_counts_nothing_that_was_dropped),
		cmocka_unit_test(names_counts_a_policy_of_many_partitions_once),
		cmocka_unit_test(names_keeps_many_apart_and_sorts_them),
		cmocka_unit_test(names_saturates),
		cmocka_unit_test(text_is_cut_and_cleaned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
