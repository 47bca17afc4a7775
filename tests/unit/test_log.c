/*
 * test_log.c - what a log line looks like, and what cannot get into one.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "shm/check.h"
#include "shm/host.h"
#include "shm/log.h"

static int saved_stderr, pipe_fds[2];

/* From here on stderr is a pipe that claims to be the journal's stream. */
static void capture(const char *program, int instance, enum log_level level, bool journal)
{
	char stream[64];
	struct stat st;

	assert_int_equal(pipe(pipe_fds), 0);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(dup2(pipe_fds[1], STDERR_FILENO) >= 0);
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino + !journal);
	setenv("JOURNAL_STREAM", stream, 1);
	log_init(program, instance, level);
}

/* All that was written, as one string. */
static const char *captured_raw(void)
{
	static char text[65536];
	ssize_t n;

	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(pipe_fds[1]);
	n = read(pipe_fds[0], text, sizeof(text) - 1);
	close(pipe_fds[0]);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* The same without the priorities, as the journal shows it. */
static const char *captured(void)
{
	static char shown[65536];
	const char *from = captured_raw();
	size_t len = 0;

	for (bool begins = true; *from; from++) {
		if (begins && from[0] == '<' && from[2] == '>')
			from += 3;
		begins = *from == '\n';
		shown[len++] = *from;
	}
	shown[len] = '\0';
	return shown;
}

static void log_signs_a_line_with_program_and_instance(void **state)
{
	(void)state;
	capture("worker", 7, LOG_LEVEL_INFO, true);
	log_info("replay.commit", "records=%d next=%d", 500, 81200);
	assert_string_equal(captured(), "worker[7] info replay.commit records=500 next=81200\n");
	capture("supervisor", -1, LOG_LEVEL_INFO, true);
	log_error("group.lost", "%s", "");
	log_warn("group.lost", NULL);
	assert_string_equal(
		captured(), "supervisor error group.lost\nsupervisor warn group.lost\n");
}

static void log_begins_with_the_time_when_stderr_is_not_the_journal(void **state)
{
	int year, month, day, hour, minute, second, ms, rest = 0;
	const char *line;
	struct tm tm = {0};
	int64_t said, now = host_wall_ms();

	(void)state;
	capture("worker", 7, LOG_LEVEL_INFO, false);
	log_info("x.y", "a=1");
	line = captured();
	assert_int_equal(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &year, &month, &day, &hour,
				 &minute, &second, &ms, &rest),
		7);
	assert_int_equal(rest, 25);
	assert_string_equal(line + rest, "worker[7] info x.y a=1\n");
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	tm.tm_mday = day;
	tm.tm_hour = hour;
	tm.tm_min = minute;
	tm.tm_sec = second;
	said = (int64_t)timegm(&tm) * 1000 + ms;
	assert_true(said >= now && said < now + 60000);
}

static void log_says_the_priority_to_the_journal_alone(void **state)
{
	(void)state;
	capture("t", -1, LOG_LEVEL_DEBUG, true);
	log_error("a", NULL);
	log_warn("b", NULL);
	log_info("c", NULL);
	log_set_format(LOG_JSON);
	log_debug("d", NULL);
	log_set_format(LOG_LOGFMT);
	assert_string_equal(captured_raw(),
		"<3>t error a\n<4>t warn b\n<6>t info c\n"
		"<7>{\"program\":\"t\",\"level\":\"debug\",\"event\":\"d\"}\n");
	capture("t", -1, LOG_LEVEL_INFO, false);
	log_error("a", NULL);
	assert_null(strchr(captured_raw(), '<'));
}

static void log_swallows_lines_below_its_level(void **state)
{
	(void)state;
	capture("t", -1, LOG_LEVEL_WARN, true);
	log_info("no", "a=1");
	log_debug("no", "a=1");
	log_warn("yes", "a=1");
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("now", "a=1");
	assert_string_equal(captured(), "t warn yes a=1\nt debug now a=1\n");
}

static void log_escapes_what_could_forge_a_line(void **state)
{
	(void)state;
	capture("t", -1, LOG_LEVEL_INFO, true);
	log_info("e", "tenant=%s", "a\nt info forged x=1\r\t\x1b[31m\x7f");
	log_info("e", "tenant=%s", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x98");
	log_info("e", "c1=%s",
		"\xc2\x9b"
		"31m");
	log_info("e", "bad=%s", "\xff\xc3(\xe2\x82\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80");
	log_info("e", "turned=%s",
		"a\xe2\x80\xae"
		"b\xe2\x81\xa6"
		"c\xef\xbb\xbf\xe2\x80\xa8\xd8\x9c");
	assert_string_equal(captured(),
		"t info e tenant=a\\x0at info forged x=1\\x0d\\x09\\x1b[31m\\x7f\n"
		"t info e tenant=gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x98\n"
		"t info e c1=\\xc2\\x9b31m\n"
		"t info e "
		"bad=\\xff\\xc3(\\xe2\\x82\\xed\\xa0\\x80\\xc0\\xaf\\xf4\\x90\\x80\\x80\n"
		"t info e turned=a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c"
		"\\xef\\xbb\\xbf\\xe2\\x80\\xa8\\xd8\\x9c\n");
}

static void log_cuts_a_long_line_between_characters(void **state)
{
	static char value[5000];
	const char *line;

	(void)state;
	for (size_t shift = 0; shift < 4; shift++) {
		memset(value, 'x', shift);
		for (size_t i = shift; i + 2 < sizeof(value); i += 2)
			memcpy(value + i, "\xc3\xbc", 3);
		capture("t", -1, LOG_LEVEL_INFO, true);
		log_info("e", "%s", value);
		line = captured();
		assert_true(strlen(line) <= 1024 && strlen(line) > 1015);
		assert_string_equal(line + strlen(line) - 4, "...\n");
		assert_memory_equal(line + strlen(line) - 6, "\xc3\xbc", 2);
		assert_null(strstr(line, "\\x"));
	}
	memset(value, '\n', sizeof(value) - 1);
	capture("t", -1, LOG_LEVEL_INFO, true);
	log_info("e", "%s", value);
	line = captured();
	assert_string_equal(line + strlen(line) - 8, "\\x0a...\n");
}

static void log_does_not_cut_a_line_that_just_fits(void **state)
{
	char value[1200];
	const char *line;

	(void)state;
	memset(value, 'x', sizeof(value));
	value[1024 - strlen("<6>t info e \n")] = '\0';
	capture("t", -1, LOG_LEVEL_INFO, true);
	log_info("e", "%s", value);
	line = captured();
	assert_int_equal(strlen(line), 1024 - 3);
	assert_string_equal(line + 1022 - 3, "x\n");
}

static void log_keeps_errno_when_its_write_fails(void **state)
{
	(void)state;
	capture("t", -1, LOG_LEVEL_INFO, true);
	close(STDERR_FILENO);
	errno = ENOSPC;
	log_info("e", "a=1");
	assert_int_equal(errno, ENOSPC); /* not the write's EBADF */
	captured();
}

static void log_level_parse_knows_the_four_words(void **state)
{
	static const char *const words[] = {"error", "warn", "info", "debug"};
	enum log_level level;

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_true(log_level_parse(words[i], &level));
		assert_int_equal(level, i);
	}
	assert_false(log_level_parse("", &level));
	assert_false(log_level_parse("INFO", &level));
	assert_false(log_level_parse("warning", &level));
}

static void log_limit_passes_once_per_interval(void **state)
{
	struct log_limit limit = {0};
	struct timespec pause = {.tv_nsec = 60 * 1000000};
	unsigned suppressed = 99;

	(void)state;
	assert_true(log_limit_pass(&limit, 3600000, &suppressed));
	assert_int_equal(suppressed, 0);
	for (int i = 0; i < 5; i++)
		assert_false(log_limit_pass(&limit, 3600000, &suppressed));

	limit = (struct log_limit){0};
	assert_true(log_limit_pass(&limit, 50, &suppressed));
	assert_false(log_limit_pass(&limit, 50, &suppressed));
	assert_false(log_limit_pass(&limit, 50, &suppressed));
	nanosleep(&pause, NULL);
	assert_true(log_limit_pass(&limit, 50, &suppressed));
	assert_int_equal(suppressed, 2);
}

static void log_quote_quotes_only_when_it_must(void **state)
{
	static const struct {
		const char *value, *quoted;
	} cases[] = {
		{"plain", "plain"},
		{"a/b:c,d", "a/b:c,d"},
		{"", "\"\""},
		{"two words", "\"two words\""},
		{"a=b", "\"a=b\""},
		{"say \"no\"", "\"say \\\"no\\\"\""},
		{"back\\slash", "\"back\\\\slash\""},
		{"line\nbreak", "\"line\\x0abreak\""},
		{"\xc3\xbc", "\xc3\xbc"},
	};
	char buf[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(log_quote(buf, sizeof(buf), cases[i].value), cases[i].quoted);
	assert_string_equal(log_quote(buf, sizeof(buf), NULL), "\"\"");
}

static void log_quote_closes_its_quotes_when_it_must_cut(void **state)
{
	(void)state;
	for (unsigned size = 0; size < 40; size++) {
		char *buf = malloc(size + 1); /* exact, for the sanitizer */
		const char *out;

		assert_non_null(buf);
		memset(buf, '#', size + 1);
		out = log_quote(buf, size, "a \"long\" value that does not fit \xe2\x82\xac");
		assert_int_equal(buf[size], '#');
		assert_true(size == 0 || strlen(out) < size);
		if (size >= 3) {
			assert_int_equal(out[0], '"');
			assert_int_equal(out[strlen(out) - 1], '"');
			assert_true(strlen(out) < 3 || out[strlen(out) - 2] != '\\');
		}
		free(buf);
	}
}

static void must_says_what_was_broken_and_aborts(void **state)
{
	const char *text;
	int status;
	pid_t pid;

	(void)state;
	capture("t", -1, LOG_LEVEL_INFO, true);
	pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		must(1 + 1 == 3);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	text = captured();
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(text, "must(1 + 1 == 3)"));
	assert_non_null(strstr(text, "test_log.c:"));
}

static void host_says_the_same_boot_and_namespace_twice(void **state)
{
	uint8_t a[HOST_BOOT_ID_SIZE] = {0}, b[HOST_BOOT_ID_SIZE] = {0},
		zero[HOST_BOOT_ID_SIZE] = {0};
	char text[64] = "", hex[8];
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

	(void)state;
	assert_int_equal(host_boot_id(a), 0);
	assert_int_equal(host_boot_id(b), 0);
	assert_memory_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, zero, sizeof(a));
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	snprintf(hex, sizeof(hex), "%02x%02x%02x", a[0], a[1], a[2]);
	assert_memory_equal(text, hex, 6);
	assert_true(host_pid_namespace() != 0);
	assert_true(host_random() != host_random());
	assert_true(host_boot_ns() <= host_boot_ns());
}

static void capture_json(const char *program, int instance, bool journal)
{
	capture(program, instance, LOG_LEVEL_INFO, journal);
	log_set_format(LOG_JSON);
}

/* The object in the one line that was captured; logfmt holds again. */
static json_t *captured_object(void)
{
	const char *line = captured();
	json_error_t error;
	json_t *object;

	log_set_format(LOG_LOGFMT);
	assert_true(strlen(line) <= 1024);
	assert_int_equal(strcspn(line, "\n"), strlen(line) - 1);
	object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
	if (object == NULL)
		fail_msg("%s: %s", error.text, line);
	return object;
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	assert_non_null(text);
	return text;
}

static void log_writes_an_object_when_the_format_is_json(void **state)
{
	json_t *object;

	(void)state;
	capture_json("worker", 7, false);
	log_warn("commit.held",
		"next=%d id=%s off=-3 long=1234567890123456 zero=007 none= error=\"it says "
		"\\\"no\\\" and \"off\", \xff\x1b\" and that is all",
		81200, "a=b");
	object = captured_object();
	assert_string_equal(text_of(object, "program"), "worker");
	assert_int_equal(json_integer_value(json_object_get(object, "instance")), 7);
	assert_string_equal(text_of(object, "level"), "warn");
	assert_string_equal(text_of(object, "event"), "commit.held");
	assert_int_equal(strlen(text_of(object, "time")), 24);
	assert_int_equal(json_integer_value(json_object_get(object, "next")), 81200);
	assert_int_equal(json_integer_value(json_object_get(object, "off")), -3);
	assert_string_equal(text_of(object, "id"), "a=b");
	assert_string_equal(text_of(object, "long"), "1234567890123456");
	assert_string_equal(text_of(object, "zero"), "007");
	assert_string_equal(text_of(object, "none"), "");
	assert_string_equal(text_of(object, "error"), "it says \"no\" and \"off\", \\xff\\x1b");
	assert_string_equal(text_of(object, "text"), "and that is all");
	json_decref(object);
}

static void log_in_json_forges_no_key(void **state)
{
	json_t *object;

	(void)state;
	capture_json("t", -1, true);
	log_info("x.y", "tenant=\"%s\" tenant=b words and", "a\" level=error event=z time=0 more");
	object = captured_object();
	assert_string_equal(text_of(object, "level"), "info");
	assert_string_equal(text_of(object, "event"), "x.y");
	assert_string_equal(text_of(object, "level2"), "error");
	assert_string_equal(text_of(object, "tenant"), "a");
	assert_string_equal(text_of(object, "tenant2"), "b");
	json_decref(object);
}

/* Whatever is logged, and however long: an object in one line. */
static void log_in_json_is_always_whole(void **state)
{
	static const char pieces[] = "ab =\"\\ \x01\x7f\xc3\xa9\xff\xe2\x80\xae,:{}[]12";
	unsigned long long seed = 88172645463325252u;
	char body[2000];

	(void)state;
	for (int round = 0; round < 3000; round++) {
		size_t len = (size_t)(seed >> 20) % (round % 3 ? 80 : 1400);

		for (size_t i = 0; i < len; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			body[i] = pieces[seed % (sizeof(pieces) - 1)];
		}
		seed = seed * 6364136223846793005u + 1;
		body[len] = '\0';
		capture_json("supervisor", -1, round % 2);
		log_info("x.y", "key%d=\"%s\"", round, body);
		json_decref(captured_object());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_signs_a_line_with_program_and_instance),
		cmocka_unit_test(log_begins_with_the_time_when_stderr_is_not_the_journal),
		cmocka_unit_test(log_says_the_priority_to_the_journal_alone),
		cmocka_unit_test(log_swallows_lines_below_its_level),
		cmocka_unit_test(log_escapes_what_could_forge_a_line),
		cmocka_unit_test(log_cuts_a_long_line_between_characters),
		cmocka_unit_test(log_does_not_cut_a_line_that_just_fits),
		cmocka_unit_test(log_keeps_errno_when_its_write_fails),
		cmocka_unit_test(log_writes_an_object_when_the_format_is_json),
		cmocka_unit_test(log_in_json_forges_no_key),
		cmocka_unit_test(log_in_json_is_always_whole),
		cmocka_unit_test(log_level_parse_knows_the_four_words),
		cmocka_unit_test(log_limit_passes_once_per_interval),
		cmocka_unit_test(log_quote_quotes_only_when_it_must),
		cmocka_unit_test(log_quote_closes_its_quotes_when_it_must_cut),
		cmocka_unit_test(must_says_what_was_broken_and_aborts),
		cmocka_unit_test(host_says_the_same_boot_and_namespace_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
