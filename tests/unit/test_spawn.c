/*
 * test_spawn.c - a child is born with exactly what it is given, and held until it is reaped.
 *
 * The child is this program itself: see child_main.
 */
#include "scratch.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>

#include "shm/err.h"
#include "supervisor/spawn.h"

/* 32 and 33, which glibc keeps for its threads, start ignored in whatever it spawns. */
#define LIBC_SIGNALS (UINT64_C(3) << 31)

static char self[PATH_MAX];

/* ----------------------------------------------------------------------- the child */

static void report_descriptors(FILE *out)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;
	while ((d = readdir(dir))) {
		int fd = atoi(d->d_name);
		struct stat st;
		if (d->d_name[0] != '.' && fd > 2 && fd != dirfd(dir) && !fstat(fd, &st))
			fprintf(out, "fd %d %ju cloexec=%d\n", fd, (uintmax_t)st.st_ino,
				fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	closedir(dir);
}

static void report_signals(FILE *out)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "re");
	while (fgets(line, sizeof line, status))
		if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6))
			fputs(line, out);
	fclose(status);
}

static int child_main(const char *what)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!strcmp(what, "sleep"))
		for (;;)
			pause();
	if (!strcmp(what, "report")) {
		FILE *out = fdopen(3, "w");
		report_descriptors(out);
		report_signals(out);
		fprintf(out, "group %s\n", getpgrp() == getpid() ? "own" : "shared");
		for (char **e = environ; *e; e++)
			fprintf(out, "env %s\n", *e);
		fclose(out);
	}
	return atoi(what);
}

/* ------------------------------------------------------------------------ the tests */

static void start(const char *what, const int *fds, unsigned n_fds, struct child *child)
{
	char *argv[] = {(char *)"test-child", (char *)"--child", (char *)what, NULL};
	*child = (struct child){0, -1};
	assert_int_equal(spawn_child(self, argv, fds, n_fds, child), 0);
	assert_true(child->pid > 0 && child->pidfd >= 0);
}

static void reap(struct child *child, siginfo_t *status)
{
	struct pollfd p = {.fd = child->pidfd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 60000), 1);
	assert_true(spawn_reap(child, status));
	assert_int_equal(child->pid, 0);
	assert_int_equal(child->pidfd, -1);
}

/* What a child says of itself; the pipe's end comes first, as its descriptor 3. */
static void report(const int *more, unsigned n_more, char text[8192])
{
	int out[2], fds[8];
	struct child child;
	siginfo_t status;
	size_t n = 0;
	ssize_t got;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	fds[0] = out[1];
	for (unsigned i = 0; i < n_more; i++)
		fds[i + 1] = more[i];
	start("report", fds, n_more + 1, &child);
	close(out[1]);
	while ((got = read(out[0], text + n, 8191 - n)) > 0)
		n += (size_t)got;
	text[n] = 0;
	close(out[0]);
	reap(&child, &status);
	assert_int_equal(status.si_code, CLD_EXITED);
}

static unsigned lines_with(const char *text, const char *what)
{
	unsigned n = 0;
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static bool has_fd(const char *text, int number, int source)
{
	char line[100];
	struct stat st;
	assert_int_equal(fstat(source, &st), 0);
	snprintf(line, sizeof line, "fd %d %ju cloexec=0\n", number, (uintmax_t)st.st_ino);
	return strstr(text, line);
}

static unsigned open_descriptors(void)
{
	unsigned n = 0;
	DIR *dir = opendir("/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void spawn_gives_exactly_the_descriptors_it_names(void **state)
{
	char text[8192];
	int stray[3], given[3];
	(void)state;
	for (int i = 0; i < 3; i++) {
		given[i] = memfd_create("given", MFD_CLOEXEC);
		stray[i] = memfd_create("stray", i ? MFD_CLOEXEC : 0);
	}
	int high = fcntl(given[2], F_DUPFD, 500); /* not close-on-exec, and far up */
	close(given[2]);
	given[2] = high;
	report(given, 3, text);
	assert_int_equal(lines_with(text, "fd "), 4);
	for (int i = 0; i < 3; i++)
		assert_true(has_fd(text, 4 + i, given[i]));
	for (int i = 0; i < 3; i++) {
		close(given[i]);
		close(stray[i]);
	}
}

/* The sources are the targets, in another order. */
static void spawn_gives_the_right_descriptors_when_numbers_cross(void **state)
{
	char text[8192];
	int at[4], order[] = {3, 1, 0, 2}, given[4];
	(void)state;
	for (int i = 0; i < 4; i++) {
		int fd = memfd_create("given", MFD_CLOEXEC);
		at[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3 + i);
		close(fd);
	}
	for (int i = 0; i < 4; i++)
		given[i] = at[order[i]];
	report(given, 4, text);
	assert_int_equal(lines_with(text, "fd "), 5);
	for (int i = 0; i < 4; i++)
		assert_true(has_fd(text, 4 + i, given[i]));
	for (int i = 0; i < 4; i++)
		close(at[i]);
}

static void spawn_clears_signals_and_group_whatever_ours_are(void **state)
{
	char text[8192];
	sigset_t all, before;
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	report(NULL, 0, text);
	sigprocmask(SIG_SETMASK, &before, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
	assert_non_null(strstr(text, "SigBlk:\t0000000000000000\n"));
	const char *ignored = strstr(text, "SigIgn:");
	assert_non_null(ignored);
	assert_int_equal(strtoull(ignored + 7, NULL, 16) & ~LIBC_SIGNALS, 0);
	assert_non_null(strstr(text, "group own\n"));
}

static void spawn_passes_on_nothing_secret_of_the_environment(void **state)
{
	char text[8192];
	(void)state;
	setenv("TZ", "UTC", 1);
	setenv("JOURNAL_STREAM", "8:1234", 1);
	setenv("SECRET", "password", 1);
	setenv("NOTIFY_SOCKET", "/run/notify", 1);
	setenv("WATCHDOG_PID", "1", 1);
	setenv("LISTEN_FDS", "1", 1);
	setenv("LD_PRELOAD_X", "x", 1);
	setenv("PATHX", "x", 1);
	report(NULL, 0, text);
	assert_non_null(strstr(text, "env TZ=UTC\n"));
	assert_non_null(strstr(text, "env JOURNAL_STREAM=8:1234\n"));
	assert_non_null(strstr(text, "env PATH="));
	static const char *const gone[] = {
		"SECRET", "NOTIFY", "WATCHDOG", "LISTEN", "LD_PRE", "PATHX", "HOME"};
	for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
		assert_null(strstr(text, gone[i]));
	unsetenv("JOURNAL_STREAM");
}

static void spawn_is_an_error_when_the_program_cannot_run(void **state)
{
	char *argv[] = {(char *)"x", NULL};
	struct child child = {0, -1};
	unsigned before = open_descriptors();
	(void)state;
	assert_int_equal(spawn_child("/nonexistent/program", argv, NULL, 0, &child), ERR_NOT_FOUND);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(spawn_child("/", argv, NULL, 0, &child), ERR_ACCESS);
	assert_int_equal(spawn_child("/dev/null", argv, NULL, 0, &child), ERR_ACCESS);
	int closed[] = {900};
	assert_true(spawn_child(self, argv, closed, 1, &child) < 0);
	assert_true(child.pid == 0 && child.pidfd == -1);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left over */
	assert_int_equal(errno, ECHILD);
}

static void spawn_tells_how_a_child_has_ended(void **state)
{
	struct child child;
	siginfo_t status;
	(void)state;
	start("7", NULL, 0, &child);
	pid_t pid = child.pid;
	reap(&child, &status);
	assert_int_equal(status.si_code, CLD_EXITED);
	assert_int_equal(status.si_status, 7);
	assert_int_equal(status.si_pid, pid);
	start("sleep", NULL, 0, &child);
	assert_false(spawn_reap(&child, &status)); /* not yet */
	assert_true(child.pid > 0);
	spawn_signal(&child, SIGKILL);
	reap(&child, &status);
	assert_int_equal(status.si_code, CLD_KILLED);
	assert_int_equal(status.si_status, SIGKILL);
	assert_false(spawn_reap(&child, &status)); /* there is none */
}

static void spawn_hits_nobody_when_the_child_has_ended(void **state)
{
	struct child child;
	siginfo_t status;
	(void)state;
	start("0", NULL, 0, &child);
	struct pollfd p = {.fd = child.pidfd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 60000), 1);
	spawn_signal(&child, SIGKILL); /* ended, not reaped */
	assert_true(spawn_reap(&child, &status));
	assert_int_equal(status.si_code, CLD_EXITED);
	spawn_signal(&child, SIGKILL); /* reaped: pid 0 would be our own group */
	struct child none = {0, -1};
	spawn_signal(&none, SIGKILL);
}

static void spawn_lets_go_when_somebody_else_has_reaped(void **state)
{
	struct child child;
	siginfo_t status;
	unsigned before = open_descriptors();
	(void)state;
	start("3", NULL, 0, &child);
	assert_int_equal(scratch_wait(child.pid), 3);
	assert_true(spawn_reap(&child, &status));
	assert_int_equal(child.pid, 0);
	assert_int_equal(open_descriptors(), before);
}

static void spawn_leaks_nothing_when_it_is_done_two_hundred_times(void **state)
{
	struct child child;
	siginfo_t status;
	(void)state;
	start("0", NULL, 0, &child);
	reap(&child, &status);
	unsigned before = open_descriptors();
	int fd = memfd_create("given", MFD_CLOEXEC);
	for (int i = 0; i < 200; i++) {
		start(i % 2 ? "0" : "sleep", &fd, 1, &child);
		if (i % 2 == 0)
			spawn_signal(&child, SIGKILL);
		reap(&child, &status);
		assert_int_equal(status.si_code, i % 2 ? CLD_EXITED : CLD_KILLED);
	}
	close(fd);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static bool is_under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");
	return preload && strstr(preload, "vgpreload");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spawn_gives_exactly_the_descriptors_it_names),
		cmocka_unit_test(spawn_gives_the_right_descriptors_when_numbers_cross),
		cmocka_unit_test(spawn_clears_signals_and_group_whatever_ours_are),
		cmocka_unit_test(spawn_passes_on_nothing_secret_of_the_environment),
		cmocka_unit_test(spawn_is_an_error_when_the_program_cannot_run),
		cmocka_unit_test(spawn_tells_how_a_child_has_ended),
		cmocka_unit_test(spawn_hits_nobody_when_the_child_has_ended),
		cmocka_unit_test(spawn_lets_go_when_somebody_else_has_reaped),
		cmocka_unit_test(spawn_leaks_nothing_when_it_is_done_two_hundred_times),
	};
	if (argc == 3 && !strcmp(argv[1], "--child"))
		return child_main(argv[2]);
	if (is_under_valgrind() && pidfd_open(getpid(), 0) < 0) {
		print_message("this valgrind knows no pidfd: nothing can be spawned under it\n");
		return 0;
	}
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n < 0)
		return 1;
	self[n] = 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
