/*
 * test_check.c - how a broken promise ends a process, and how a lack does.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/check.h"

static void break_a_promise(void)
{
	must(1 + 1 == 3);
}

static void lack_memory(void)
{
	const void *memory = NULL;

	errno = ENOMEM;
	must_get(memory);
}

static void lack_nothing(void)
{
	must(1 + 1 == 2);
	must_get("memory");
	_exit(0);
}

/* What it writes to stderr is in `text`; gives its status. */
static int run(void (*what)(void), char text[512])
{
	int pipe_fd[2], status;
	struct rlimit no_core = {0, 0};

	assert_int_equal(pipe(pipe_fd), 0);
	pid_t pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		dup2(pipe_fd[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL); /* cmocka's would go on with the next test */
		what();
		_exit(99);
	}
	close(pipe_fd[1]);
	ssize_t n = read(pipe_fd[0], text, 511);
	text[n > 0 ? n : 0] = '\0';
	close(pipe_fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_one_line(const char *text)
{
	const char *end = strchr(text, '\n');

	assert_non_null(end);
	assert_string_equal(end, "\n");
}

static void check_ends_by_a_signal_when_a_promise_is_broken(void **state)
{
	char text[512];
	int status = run(break_a_promise, text);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_one_line(text);
	assert_non_null(strstr(text, "bug: must(1 + 1 == 3) at tests/unit/test_check.c:"));
}

static void check_ends_without_a_signal_when_something_is_lacking(void **state)
{
	char text[512];
	int status = run(lack_memory, text);

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_one_line(text);
	assert_non_null(strstr(text, " error lack what=\"memory\" at=tests/unit/test_check.c:"));
	assert_non_null(strstr(text, "Cannot allocate memory"));
	assert_non_null(strstr(text, "MemoryMax"));
}

static void check_says_nothing_when_all_is_well(void **state)
{
	char text[512];

	(void)state;
	assert_int_equal(run(lack_nothing, text), 0);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_ends_by_a_signal_when_a_promise_is_broken),
		cmocka_unit_test(check_ends_without_a_signal_when_something_is_lacking),
		cmocka_unit_test(check_says_nothing_when_all_is_well),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
