/*
 * test_rundir.c - the run directory: one supervisor, nothing touched that is not its own.
 */
#include "scratch.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include "shm/err.h"
#include "shm/host.h"
#include "shm/table.h"
#include "supervisor/rundir.h"

struct run {
	struct scratch *s;
	char path[96], why[512];
	int fd;
	struct rundir *rd;
};

static int setup(void **state)
{
	struct run *run = calloc(1, sizeof *run);
	void *scratch;
	if (scratch_setup(&scratch))
		return -1;
	run->s = scratch;
	snprintf(run->path, sizeof run->path, "%s/run", run->s->path);
	run->fd = -1;
	*state = run;
	return 0;
}

static int teardown(void **state)
{
	struct run *run = *state;
	void *scratch = run->s;
	rundir_close(&run->rd);
	if (run->fd >= 0)
		close(run->fd);
	scratch_teardown(&scratch);
	free(run);
	return 0;
}

static int reopen(struct run *run)
{
	rundir_close(&run->rd);
	run->why[0] = 0;
	int err = rundir_open(run->path, "", &run->rd, run->why);
	if (err)
		assert_null(run->rd);
	if (!err && run->fd < 0)
		run->fd = open(run->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return err;
}

/* The operator's line: what it must say, and that it is one line. */
static void assert_why(const struct run *run, const char *what)
{
	if (!strstr(run->why, what) || strchr(run->why, '\n'))
		fail_msg("\"%s\" does not say \"%s\"", run->why, what);
}

/* An empty run directory to put things into before it is opened. */
static void prepare(struct run *run)
{
	assert_int_equal(mkdir(run->path, 0750), 0);
	run->fd = open(run->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A generation with files in it, as a worker leaves them. */
static void plant(struct run *run, const char *name)
{
	char file[300];
	assert_int_equal(mkdirat(run->fd, name, 0750), 0);
	for (int i = 0; i < 3; i++) {
		static const char *const files[] = {"data.mdb", "lock.mdb", "stats"};
		snprintf(file, sizeof file, "%s/%s", name, files[i]);
		scratch_write(run->fd, file, "content", 7);
	}
}

static bool has(const struct run *run, const char *name)
{
	return scratch_has(run->fd, name);
}

static unsigned count(const struct run *run)
{
	char command[200];
	unsigned n = 0;
	snprintf(command, sizeof command, "ls -A '%s' | wc -l", run->path);
	FILE *ls = popen(command, "r");
	assert_int_equal(fscanf(ls, "%u", &n), 1);
	pclose(ls);
	return n;
}

static void rundir_is_made_when_only_its_last_part_is_missing(void **state)
{
	struct run *run = *state;
	struct stat st;
	assert_int_equal(reopen(run), 0);
	assert_int_equal(stat(run->path, &st), 0);
	assert_int_equal(st.st_mode & 0027, 0);
	assert_int_equal(fstat(rundir_fd(run->rd), &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(reopen(run), 0); /* and opened when it is there */
	strcat(run->path, "/a/b");
	assert_true(reopen(run) < 0);
	assert_why(run, run->path);
	assert_why(run, "create it");
}

static void rundir_is_refused_when_it_is_no_directory_of_ours(void **state)
{
	struct run *run = *state;
	scratch_write(run->s->fd, "run", "x", 1);
	assert_true(reopen(run) < 0);
	assert_why(run, "must be a directory");
	assert_int_equal(unlinkat(run->s->fd, "run", 0), 0);

	assert_int_equal(mkdirat(run->s->fd, "real", 0750), 0);
	assert_int_equal(symlinkat("real", run->s->fd, "run"), 0);
	assert_true(reopen(run) < 0);
	assert_why(run, "not a link");
	assert_int_equal(unlinkat(run->s->fd, "run", 0), 0);
	assert_int_equal(symlinkat("nowhere", run->s->fd, "run"), 0);
	assert_true(reopen(run) < 0);
}

static void rundir_is_refused_when_others_may_write_into_it(void **state)
{
	struct run *run = *state;
	static const mode_t bad[] = {0770, 0777, 0752, 02770, 01777};
	assert_int_equal(mkdir(run->path, 0750), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(chmod(run->path, bad[i]), 0);
		assert_int_equal(reopen(run), ERR_ACCESS);
		assert_why(run, "chmod it to 2750");
	}
	assert_int_equal(chmod(run->path, 02750), 0);
	assert_int_equal(reopen(run), 0);
}

static void rundir_is_refused_when_another_user_owns_it(void **state)
{
	struct run *run = *state;
	if (geteuid()) {
		print_message("only root can give a directory away\n");
		skip();
	}
	assert_int_equal(mkdir(run->path, 0750), 0);
	assert_int_equal(chown(run->path, 65534, 65534), 0);
	assert_int_equal(reopen(run), ERR_ACCESS);
	assert_why(run, "belongs to user 65534");
}

static void rundir_is_refused_when_the_group_is_none(void **state)
{
	struct run *run = *state;
	assert_true(rundir_open(run->path, "no-such-group-here", &run->rd, run->why) < 0);
	assert_why(run, "no group no-such-group-here");
	assert_null(run->rd);
}

static void rundir_is_refused_when_another_supervisor_has_it(void **state)
{
	struct run *run = *state;
	char pid_text[32];
	int ready[2], code;
	char byte;
	assert_int_equal(reopen(run), 0);
	rundir_close(&run->rd);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = scratch_fork();
	if (!pid) {
		if (rundir_open(run->path, "", &run->rd, run->why) || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	plant(run, "p0.9");
	assert_int_equal(reopen(run), ERR_BUSY);
	snprintf(pid_text, sizeof pid_text, "pid %d)", pid);
	assert_why(run, pid_text);
	assert_true(has(run, "p0.9"));
	kill(pid, SIGKILL);
	code = scratch_wait(pid);
	assert_int_equal(code, 128 + SIGKILL);
	assert_int_equal(reopen(run), 0);
}

static void rundir_is_refused_when_the_lock_is_not_a_file_of_ours(void **state)
{
	struct run *run = *state;
	struct stat st;
	size_t len;
	prepare(run);
	scratch_write(run->s->fd, "victim", "precious", 8);
	assert_int_equal(symlinkat("../victim", run->fd, "lock"), 0);
	assert_int_equal(reopen(run), ERR_ACCESS);
	assert_why(run, "lock");
	char *victim = scratch_read(run->s->fd, "victim", &len);
	assert_int_equal(len, 8);
	free(victim);
	assert_int_equal(unlinkat(run->fd, "lock", 0), 0);
	assert_int_equal(mkfifoat(run->fd, "lock", 0600), 0);
	alarm(20);
	assert_int_equal(reopen(run), ERR_ACCESS);
	alarm(0);
	assert_int_equal(unlinkat(run->fd, "lock", 0), 0);
	scratch_write(run->fd, "lock", "12x\xff garbage", 12);
	assert_int_equal(reopen(run), 0);
	assert_int_equal(fstatat(run->fd, "lock", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0440);
}

/* Whoever is told to remove the lock of a supervisor that runs may start a second one. */
static void rundir_blames_no_file_when_descriptors_are_short(void **state)
{
	struct run *run = *state;
	struct rlimit before, few;
	prepare(run);
	int lowest = dup(run->fd);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)lowest + 1; /* the directory, but not its lock */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	int err = reopen(run);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(err, ERR_IO);
	assert_why(run, "/lock: Too many open files");
	assert_int_equal(reopen(run), 0);
}

static void rundir_keeps_the_newest_leftover_and_unlinks_the_older(void **state)
{
	struct run *run = *state;
	prepare(run);
	plant(run, "p0.5");
	plant(run, "p0.12");
	plant(run, "p0.7");
	plant(run, "p3.4");
	plant(run, "trash.p9.1"); /* a supervisor was killed while it unlinked */
	assert_int_equal(reopen(run), 0);
	assert_int_equal(rundir_take_leftover(run->rd, 0), 12);
	assert_int_equal(rundir_take_leftover(run->rd, 0), 0);
	assert_int_equal(rundir_take_leftover(run->rd, 1), 0);
	assert_int_equal(rundir_take_leftover(run->rd, TABLE_CAPACITY), 0);
	assert_int_equal(rundir_take_leftover(run->rd, UINT32_MAX), 0);
	assert_false(has(run, "p0.5") || has(run, "p0.7"));
	assert_true(has(run, "p0.12/data.mdb"));
	assert_int_equal(rundir_evict_leftovers(run->rd), 1); /* what was not taken */
	assert_false(has(run, "p3.4"));
	assert_int_equal(rundir_evict_leftovers(run->rd), 0);
	rundir_close(&run->rd);
	assert_true(has(run, "p0.12/data.mdb"));
	assert_int_equal(count(run), 2); /* that, and the lock */
}

static void rundir_touches_nothing_when_it_is_not_its_own(void **state)
{
	static const char *const kept[] = {"p0.1", "p0.5", "p1.77", "p1.+8", "p01.8", "p5000.8",
		"notes", "trash.mine", "trash.", "trash.p1", "trash.p4.1", "p0.0", "p2.9"};
	struct run *run = *state;
	prepare(run);
	assert_int_equal(mkdirat(run->s->fd, "elsewhere", 0750), 0);
	scratch_write(run->s->fd, "elsewhere/data.mdb", "x", 1);
	assert_int_equal(symlinkat("../elsewhere", run->fd, "p0.1"), 0);
	scratch_write(run->fd, "p0.5", "x", 1); /* a file */
	plant(run, "p1.77");
	assert_int_equal(fchmodat(run->fd, "p1.77", 0770, 0), 0); /* who has written here? */
	plant(run, "p1.+8");
	plant(run, "p01.8");
	plant(run, "p5000.8");
	plant(run, "notes");
	plant(run, "trash.mine");
	plant(run, "trash.");
	plant(run, "trash.p1");
	assert_int_equal(symlinkat("../elsewhere", run->fd, "trash.p4.1"), 0);
	plant(run, "p0.0");
	plant(run, "p2.9");
	if (!geteuid())
		assert_int_equal(fchownat(run->fd, "p2.9", 65534, 65534, 0), 0);
	assert_int_equal(reopen(run), 0);
	assert_int_equal(rundir_take_leftover(run->rd, 0), 0);
	assert_int_equal(rundir_take_leftover(run->rd, 1), 0);
	assert_int_equal(rundir_take_leftover(run->rd, 2), geteuid() ? 9 : 0);
	assert_int_equal(rundir_evict_leftovers(run->rd), 0);
	rundir_close(&run->rd);
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (!has(run, kept[i]))
			fail_msg("%s is gone", kept[i]);
	assert_true(has(run, "notes/data.mdb") && has(run, "trash.mine/data.mdb"));
	assert_true(scratch_has(run->s->fd, "elsewhere/data.mdb"));
}

static void rundir_never_makes_a_number_twice(void **state)
{
	struct run *run = *state;
	uint64_t last = 0, generation = 0;
	for (int open = 0; open < 10; open++) {
		assert_int_equal(reopen(run), 0);
		for (uint32_t p = 0; p < 30; p++) {
			char name[TABLE_DIR_NAME_SIZE];
			assert_int_equal(rundir_new_generation(run->rd, p % 3, &generation), 0);
			assert_true(generation > last && generation <= TABLE_GENERATION_MAX);
			last = generation;
			table_dir_name(name, p % 3, generation);
			assert_true(has(run, name));
			assert_int_equal(rundir_evict(run->rd, p % 3, generation), 0);
		}
	}
	/* The clock is set back: the lock file remembers. */
	rundir_close(&run->rd);
	char text[64];
	uint64_t ahead = (uint64_t)host_wall_ms() * 1000 + UINT64_C(3600) * 1000000;
	snprintf(text, sizeof text, "%d %llu\n", getpid(), (unsigned long long)ahead);
	scratch_write(run->fd, "lock", text, strlen(text));
	assert_int_equal(reopen(run), 0);
	assert_int_equal(rundir_new_generation(run->rd, 0, &generation), 0);
	assert_true(generation > ahead);
}

static void rundir_counts_on_from_any_name_that_lies_there(void **state)
{
	struct run *run = *state;
	uint64_t generation, ahead = (uint64_t)host_wall_ms() * 1000 + UINT64_C(86400) * 1000000;
	char name[TABLE_DIR_NAME_SIZE];
	prepare(run);
	table_dir_name(name, 4000, ahead);
	scratch_write(run->fd, name, "x", 1);
	assert_int_equal(reopen(run), 0);
	assert_int_equal(rundir_new_generation(run->rd, 0, &generation), 0);
	assert_true(generation > ahead);
	/* There is none above the highest: an error, not a word that cannot be published. */
	table_dir_name(name, 0, TABLE_GENERATION_MAX);
	plant(run, name);
	assert_int_equal(reopen(run), 0);
	assert_true(rundir_new_generation(run->rd, 0, &generation) < 0);
}

static void rundir_lets_readers_look_into_a_generation(void **state)
{
	struct run *run = *state;
	char name[TABLE_DIR_NAME_SIZE];
	uint64_t generation;
	struct stat st;
	mode_t before = umask(0077);
	assert_int_equal(reopen(run), 0);
	assert_int_equal(rundir_new_generation(run->rd, 1, &generation), 0);
	umask(before);
	table_dir_name(name, 1, generation);
	assert_int_equal(fstatat(run->fd, name, &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0750);
}

static void rundir_hides_at_once_what_it_evicts_and_unlinks_it_in_the_end(void **state)
{
	struct run *run = *state;
	char name[TABLE_DIR_NAME_SIZE], file[TABLE_DIR_NAME_SIZE + 16];
	uint64_t generation;
	assert_int_equal(reopen(run), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(rundir_new_generation(run->rd, 1, &generation), 0);
		table_dir_name(name, 1, generation);
		snprintf(file, sizeof file, "%s/data.mdb", name);
		scratch_write(run->fd, file, "x", 1);
		assert_int_equal(rundir_evict(run->rd, 1, generation), 0);
		assert_false(has(run, name));
		assert_int_equal(rundir_evict(run->rd, 1, generation), 0); /* missing: no error */
	}
	rundir_close(&run->rd);
	assert_int_equal(count(run), 1); /* the lock */
}

static void rundir_keeps_the_rest_when_a_directory_lies_deeper(void **state)
{
	struct run *run = *state;
	prepare(run);
	plant(run, "p0.5");
	assert_int_equal(mkdirat(run->fd, "p0.5/deep", 0750), 0);
	scratch_write(run->fd, "p0.5/deep/file", "x", 1);
	assert_int_equal(reopen(run), 0);
	assert_int_equal(rundir_evict(run->rd, 0, 5), 0);
	rundir_close(&run->rd);
	assert_true(has(run, "trash.p0.5/deep/file"));
	assert_false(has(run, "trash.p0.5/data.mdb"));
}

static void rundir_reports_it_when_evicting_fails(void **state)
{
	struct run *run = *state;
	prepare(run);
	plant(run, "p0.5");
	scratch_write(run->fd, "trash.p0.5", "in the way", 10);
	assert_int_equal(reopen(run), 0);
	assert_true(rundir_evict(run->rd, 0, 5) < 0);
	assert_true(has(run, "p0.5/data.mdb"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rundir_is_made_when_only_its_last_part_is_missing),
		TEST(rundir_is_refused_when_it_is_no_directory_of_ours),
		TEST(rundir_is_refused_when_others_may_write_into_it),
		TEST(rundir_is_refused_when_another_user_owns_it),
		TEST(rundir_is_refused_when_the_group_is_none),
		TEST(rundir_is_refused_when_another_supervisor_has_it),
		TEST(rundir_is_refused_when_the_lock_is_not_a_file_of_ours),
		TEST(rundir_blames_no_file_when_descriptors_are_short),
		TEST(rundir_keeps_the_newest_leftover_and_unlinks_the_older),
		TEST(rundir_touches_nothing_when_it_is_not_its_own),
		TEST(rundir_never_makes_a_number_twice),
		TEST(rundir_counts_on_from_any_name_that_lies_there),
		TEST(rundir_lets_readers_look_into_a_generation),
		TEST(rundir_hides_at_once_what_it_evicts_and_unlinks_it_in_the_end),
		TEST(rundir_keeps_the_rest_when_a_directory_lies_deeper),
		TEST(rundir_reports_it_when_evicting_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
