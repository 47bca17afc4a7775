/*
 * test_tallyctl.c - what tallyctl says of a run directory whose content is known.
 */
#include "client_run.h"

#include "tools/tallyctl/ctl.h"

static struct run run;
static struct ctl ctl;
static char said[65536]; /* stdout and stderr of the last command */

static int setup(void **state)
{
	(void)state;
	run_start(&run);
	static const struct put puts[] = {
		{"a", "", 4, 100, 0},
		{"a", "gold", 8, 50, 0},
		{"b\x1b[31m\xc2\x9b", "", UINT64_MAX - 3, 1, 0},
	};
	run_write(&run, 0, 10, puts, 3);
	run_write_n(&run, 1, 11, 3);
	run_publish(&run, 0, PART_READY, 10);
	run_publish(&run, 1, PART_READY, 11);
	ctl = (struct ctl){.run_dir = run.dir};
	assert_int_equal(tally_open(run.dir, TALLY_STALE_OK, &ctl.tally), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tally_close(&ctl.tally);
	run_end(&run);
	return 0;
}

/* Runs a command as main does, and keeps what it says. */
static int say(int (*command)(struct ctl *, int, char **), const char *const *words)
{
	int argc = 0, out = dup(1), err = dup(2);
	FILE *file = tmpfile();
	assert_non_null(file);
	while (words[argc])
		argc++;
	assert_int_equal(tally_instance(ctl.tally, &ctl.instance), 0);
	fflush(NULL);
	dup2(fileno(file), 1);
	dup2(fileno(file), 2);
	optind = 0;
	int code = command(&ctl, argc, (char **)(uintptr_t)words);
	fflush(NULL);
	dup2(out, 1);
	dup2(err, 2);
	close(out);
	close(err);
	rewind(file);
	said[fread(said, 1, sizeof said - 1, file)] = 0;
	fclose(file);
	return code;
}
#define SAY(command, ...) say(command, (const char *const[]){__VA_ARGS__, NULL})

static void assert_says(const char *text)
{
	if (!strstr(said, text))
		fail_msg("'%s' is not in:\n%s", text, said);
}

static json_t *parsed(void)
{
	json_error_t error;
	json_t *object = json_loads(said, 0, &error);
	if (!object)
		fail_msg("%s in:\n%s", error.text, said);
	return object;
}

/* ------------------------------------------------------------------ commands */

static void status_ends_with_one_line_that_says_it_all(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("\n2 of 2 partitions ready\n");
	struct table_slot *slot = table_slot_mut(&run.table, 1);
	run_publish(&run, 0, PART_REPLAYING, 10);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("\n1 of 2 not ready: p0 replaying 50% (ETA 4.0 s)\n");
	atomic_store(&slot->death, DEATH_SIGNAL);
	atomic_store(&slot->death_code, 11);
	atomic_store(&slot->death_at, (uint64_t)host_wall_ms() * 1000000);
	atomic_store(&slot->retry_in_ms, 12000);
	run_publish(&run, 1, PART_FAILED, 11);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("2 of 2 not ready: p0 replaying 50% (ETA 4.0 s), "
		    "p1 failed (SIGSEGV, restarts in 12 s)\n");
	run_publish(&run, 0, PART_FREE, 0);
	run_publish(&run, 1, PART_READY, 11);
	run_lease(&run, 1, 0);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("1 of 1 not ready: p1 lease over");
	run_publish(&run, 1, PART_FREE, 0);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("no partition is assigned here");
}

static void status_says_when_the_topic_has_more_or_fewer_partitions(void **state)
{
	struct table_head *head = table_head_mut(&run.table);
	(void)state;
	atomic_store(&head->topic_partitions, 4);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_null(strstr(said, "topic has"));
	atomic_store(&head->topic_partitions, 12);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("\ntopic has 12 partitions, 4 are served (kafka.partitions)\n");
	atomic_store(&head->topic_partitions, 1);
	run_publish(&run, 1, PART_FAILED, 0);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("\ntopic has 1 partition, 4 are routed (kafka.partitions): 3 are missing\n");
	assert_says("  the topic does not have it\n");
	assert_says("\n1 of 2 not ready: p1 failed (the topic does not have it)\n");
	atomic_store(&head->topic_partitions, 3);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("\ntopic has 3 partitions, 4 are routed (kafka.partitions): 1 is missing\n");
	assert_null(strstr(said, "does not have it")); /* it failed by itself */
}

static void status_names_a_few_of_many_that_are_not_ready(void **state)
{
	(void)state;
	atomic_store(&table_head_mut(&run.table)->partitions, 64);
	for (uint32_t p = 0; p < 64; p++)
		run_publish(&run, p, PART_PENDING, 100 + p);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("64 of 64 not ready: p0 pending, p1 pending, p2 pending, p3 pending, "
		    "p4 pending, p5 pending and 58 more\n");
}

static void commands_answer_and_say_so_when_tallyd_is_stopped(void **state)
{
	(void)state;
	atomic_store(&table_head_mut(&run.table)->stopped, 1);
	run_publish(&run, 0, PART_STOPPED, 10);
	run_publish(&run, 1, PART_STOPPED, 11);
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_OK);
	assert_int_equal(strncmp(said, "tallyd is not running: it was stopped", 37), 0);
	assert_says("a: 2 active streams, 150 B in 120 minutes");
	assert_says("2 of 2 partitions answered");
	ctl.json = true;
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_OK);
	json_t *object = parsed();
	assert_true(json_is_true(json_object_get(object, "stale")));
	assert_true(json_is_false(json_object_get(object, "alive")));
	json_decref(object);
}

static void commands_say_when_an_answer_is_not_complete(void **state)
{
	(void)state;
	run_publish(&run, 1, PART_PENDING, 99);
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_INCOMPLETE);
	assert_says("NOT COMPLETE: 1 of 2 partitions answered");
	assert_int_equal(SAY(ctl_tenants, "tenants"), CTL_INCOMPLETE);
	assert_int_equal(SAY(ctl_top, "top", "-n", "1"), CTL_INCOMPLETE);
	assert_int_equal(SAY(ctl_streams, "streams", "a"), CTL_INCOMPLETE);
	assert_int_equal(SAY(ctl_stream, "stream", "a", "5"), CTL_INCOMPLETE);
	assert_says("belongs to partition 1, which cannot answer");
	run_publish(&run, 0, PART_PENDING, 99);
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_INCOMPLETE);
	assert_says("a: no partition can answer (2 of 4 are assigned here); see");
}

static void tenants_escapes_names_and_pages(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_tenants, "tenants"), CTL_OK);
	assert_says("b\\x1b[31m\\xc2\\x9b\n");
	assert_null(strchr(said, 0x1b));
	assert_says("3 tenants\n");
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limit", "1", "--after", "a"), CTL_OK);
	assert_says("1 tenant, and more: --after 'b");
	ctl.json = true;
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limit=2"), CTL_OK);
	json_t *object = parsed(), *list = json_object_get(object, "tenants");
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(
		json_string_value(json_object_get(object, "next_after")), "b\x1b[31m\xc2\x9b");
	json_t *first = json_array_get(list, 0);
	assert_int_equal(json_integer_value(json_object_get(first, "bytes")), 150);
	json_decref(object);
}

static void stream_keeps_all_digits_of_a_hash(void **state)
{
	(void)state;
	const char *name = "b\x1b[31m\xc2\x9b";
	ctl.json = true;
	assert_int_equal(SAY(ctl_stream, "stream", name, "0xfffffffffffffffc"), CTL_OK);
	json_t *object = parsed();
	assert_string_equal(
		json_string_value(json_object_get(object, "hash")), "18446744073709551612");
	assert_true(json_is_true(json_object_get(object, "active")));
	json_decref(object);
	ctl.json = false;
	assert_int_equal(SAY(ctl_stream, "stream", "a", "12"), CTL_INCOMPLETE);
	assert_says("no stream 12");
	assert_int_equal(SAY(ctl_stream, "stream", "a", "-1"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_stream, "stream", "a", "0x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_stream, "stream", "a", "18446744073709551616"), CTL_TROUBLE);
	assert_says("is not a number from 0 to 18446744073709551615");
	assert_int_equal(SAY(ctl_stream, "stream", "a"), CTL_TROUBLE);
}

static void commands_refuse_words_they_do_not_know(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_status, "status", "x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_tenants, "tenants", "x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limit", "0"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limit"), CTL_TROUBLE);
	assert_says("--limit: needs a value");
	assert_int_equal(SAY(ctl_tenant, "tenant"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_top, "top", "-x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_top, "top", "-n", "many"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_tenant, "tenant", "nobody"), CTL_INCOMPLETE);
	assert_says("nobody: not found");
}

static void every_command_prints_json(void **state)
{
	(void)state;
	ctl.json = true;
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	json_t *object = parsed();
	json_t *part = json_array_get(json_object_get(object, "partitions"), 1);
	assert_string_equal(json_string_value(json_object_get(part, "generation")), "11");
	json_t *stats = json_object_get(part, "stats");
	assert_int_equal(json_integer_value(json_object_get(stats, "lag")), 500);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(stats, "skipped"), "too_old")),
		17);
	json_decref(object);
	assert_int_equal(SAY(ctl_top, "top", "-n", "1"), CTL_OK);
	json_decref(parsed());
	assert_int_equal(SAY(ctl_streams, "streams", "t", "--limit", "2"), CTL_OK);
	object = parsed();
	assert_true(json_is_true(json_object_get(object, "more")));
	json_decref(object);
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_OK);
	object = parsed();
	assert_int_equal(json_array_size(json_object_get(object, "by_minute")), RUN_WINDOW + 1);
	assert_int_equal(json_array_size(json_object_get(object, "by_policy")), 2);
	json_decref(object);
}

/* ------------------------------------------------------------------ numbers */

static void numbers_are_short_and_true(void **state)
{
	(void)state;
	char to[CTL_TEXT_SIZE];
	static const struct {
		uint64_t n;
		const char *count, *bytes;
	} cases[] = {
		{0, "0", "0 B"},
		{999, "999", "999 B"},
		{1024, "1024", "1.00 KiB"},
		{99999, "99999", "97.7 KiB"},
		{100000, "100k", "97.7 KiB"},
		{999499, "999k", "976 KiB"},
		{999999, "1.00M", "977 KiB"},
		{1234567, "1.23M", "1.18 MiB"},
		{UINT64_MAX, "18.4E", "16.0 EiB"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_string_equal(ctl_count(to, cases[i].n), cases[i].count);
		assert_string_equal(ctl_bytes(to, (double)cases[i].n), cases[i].bytes);
	}
	assert_string_equal(ctl_span(to, -5), "0.0 s");
	assert_string_equal(ctl_span(to, 4200), "4.2 s");
	assert_string_equal(ctl_span(to, 119999), "119 s");
	assert_string_equal(ctl_span(to, 7199999), "119 min");
	assert_string_equal(ctl_span(to, 7200000 + 300000), "2 h 5 min");
	assert_string_equal(ctl_span(to, INT64_MAX), "106751991167 d 7 h");
	assert_string_equal(ctl_offset(to, -1), "-");
	assert_string_equal(ctl_offset(to, INT64_MAX), "9223372036854775807");
	assert_string_equal(ctl_clock(to, 1740801906000), "2025-03-01 04:05:06Z");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(status_ends_with_one_line_that_says_it_all),
		TEST(status_says_when_the_topic_has_more_or_fewer_partitions),
		TEST(status_names_a_few_of_many_that_are_not_ready),
		TEST(commands_answer_and_say_so_when_tallyd_is_stopped),
		TEST(commands_say_when_an_answer_is_not_complete),
		TEST(tenants_escapes_names_and_pages),
		TEST(stream_keeps_all_digits_of_a_hash),
		TEST(commands_refuse_words_they_do_not_know),
		TEST(every_command_prints_json),
		cmocka_unit_test(numbers_are_short_and_true),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
