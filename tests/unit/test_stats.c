/*
 * test_stats.c - a worker's counters: one owner at a time, read by others whatever is in the file.
 */
#include "scratch.h"

#include <sys/file.h>

#include "shm/err.h"
#include "shm/host.h"
#include "shm/stats.h"

#define P	 7u
#define G	 UINT64_C(1234)
#define DIR_NAME "p7.1234"

/* What shm/README.md says of the file. */
_Static_assert(sizeof(struct stats) == 544, "README");
_Static_assert(offsetof(struct stats, partition) == 24, "README");
_Static_assert(offsetof(struct stats, pid) == 32, "README");

struct held {
	struct stats *stats;
	int fd;
};

static int open_dir(const struct scratch *s)
{
	mkdirat(s->fd, DIR_NAME, 0750);
	int dir = openat(s->fd, DIR_NAME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	return dir;
}

static int create(int dir, unsigned wait_ms, struct held *held)
{
	held->stats = NULL;
	return stats_create(dir, P, G, wait_ms, &held->stats, &held->fd);
}

/* As when the worker dies: the map and the lock go. */
static void drop(struct held *held)
{
	struct segment seg = {held->stats, sizeof(struct stats), 0, 0};
	segment_detach(&seg);
	close(held->fd);
}

/* Sets every field to a value of its own, from `base` on. */
static void fill(struct stats *stats, uint64_t base)
{
#define X(name) stats_set(stats, name, base++);
	STATS_FIELDS(X)
#undef X
	for (int i = 0; i < SKIP_REASONS; i++)
		stats_set(stats, skipped[i], base++);
}

static void assert_filled(const struct stats_copy *copy, uint64_t base)
{
#define X(name) assert_int_equal(copy->name, base++);
	STATS_FIELDS(X)
#undef X
	for (int i = 0; i < SKIP_REASONS; i++)
		assert_int_equal(copy->skipped[i], base++);
}

static void stats_say_whose_they_are_when_new(void **state)
{
	const struct scratch *s = *state;
	struct stats_copy copy;
	struct held held;
	struct stat st;
	uint64_t before = host_boot_ns();
	int dir = open_dir(s);
	assert_int_equal(create(dir, 0, &held), 0);
	assert_int_equal(stats_pread(s->fd, DIR_NAME, &copy), 0);
	assert_int_equal(copy.partition, P);
	assert_int_equal(copy.generation, G);
	assert_int_equal(copy.pid, getpid());
	assert_int_equal(copy.phase, PHASE_STARTING);
	assert_true(copy.heartbeat >= before && copy.heartbeat <= host_boot_ns());
	assert_int_equal(copy.records, 0);
	assert_int_equal(copy.in_hand, 0);
	assert_int_equal(fstatat(dir, STATS_NAME, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_false(scratch_has(dir, STATS_NAME ".new"));
	assert_int_equal(fcntl(held.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	drop(&held);
	close(dir);
}

static void stats_are_the_same_by_map_and_by_read(void **state)
{
	const struct scratch *s = *state;
	struct stats_copy read, mapped;
	struct segment seg;
	struct held held;
	int dir = open_dir(s);
	assert_int_equal(create(dir, 0, &held), 0);
	fill(held.stats, 1000);
	assert_int_equal(stats_pread(s->fd, DIR_NAME, &read), 0);
	assert_filled(&read, 1000);
	assert_int_equal(stats_attach(dir, &seg), 0);
	stats_copy(&seg, &mapped);
	assert_filled(&mapped, 1000);
	assert_int_equal(mapped.partition, P);
	stats_set(held.stats, records, -1);
	stats_copy(&seg, &mapped);
	assert_int_equal(mapped.records, UINT64_MAX);
	segment_detach(&seg);
	drop(&held);
	close(dir);
}

static void stats_keep_their_counters_when_taken_over(void **state)
{
	const struct scratch *s = *state;
	struct stats_copy copy;
	struct held held;
	int dir = open_dir(s);
	assert_int_equal(create(dir, 0, &held), 0);
	fill(held.stats, 50);
	drop(&held);
	assert_int_equal(create(dir, 0, &held), 0);
	assert_int_equal(stats_pread(s->fd, DIR_NAME, &copy), 0);
	assert_int_equal(copy.pid, getpid());
	assert_int_equal(copy.generation, G);
	assert_int_equal(copy.phase, PHASE_STARTING);
	uint64_t base = 50;
#define X(name)                                                                                    \
	if (strcmp(#name, "pid") && strcmp(#name, "generation") && strcmp(#name, "phase") &&       \
		strcmp(#name, "heartbeat"))                                                        \
		assert_int_equal(copy.name, base);                                                 \
	base++;
	STATS_FIELDS(X)
#undef X
	for (int i = 0; i < SKIP_REASONS; i++)
		assert_int_equal(copy.skipped[i], base++);
	drop(&held);
	close(dir);
}

/* A child that holds them; it writes a byte when it does, and ends by itself after `ms`. */
static pid_t hold_in_child(int dir, int ms)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = scratch_fork();
	if (!pid) {
		struct held held;
		if (create(dir, 0, &held) || write(ready[1], "x", 1) != 1)
			_exit(1);
		usleep((useconds_t)ms * 1000);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void stats_are_busy_as_long_as_another_process_lives(void **state)
{
	const struct scratch *s = *state;
	struct held held;
	int dir = open_dir(s);
	pid_t pid = hold_in_child(dir, 600000);
	uint64_t began = host_boot_ns();
	assert_int_equal(create(dir, 0, &held), ERR_BUSY);
	assert_int_equal(create(dir, 200, &held), ERR_BUSY);
	assert_true(host_boot_ns() - began >= 200 * UINT64_C(1000000));
	kill(pid, SIGKILL);
	assert_int_equal(scratch_wait(pid), 128 + SIGKILL);
	assert_int_equal(create(dir, 0, &held), 0);
	assert_int_equal(stats_get(held.stats, pid), getpid());
	drop(&held);
	close(dir);
}

static void stats_are_had_when_the_other_ends_in_time(void **state)
{
	const struct scratch *s = *state;
	struct held held;
	int dir = open_dir(s);
	pid_t pid = hold_in_child(dir, 100);
	assert_int_equal(create(dir, 60000, &held), 0);
	assert_int_equal(scratch_wait(pid), 0);
	assert_int_equal(create(dir, 0, &(struct held){0}), ERR_BUSY); /* now it is ours */
	drop(&held);
	close(dir);
}

static void stats_are_made_anew_when_the_old_ones_are_of_another_kind(void **state)
{
	const struct scratch *s = *state;
	struct stats_copy copy;
	struct held held;
	size_t len;
	int dir = open_dir(s);
	assert_int_equal(create(dir, 0, &held), 0);
	fill(held.stats, 9);
	drop(&held);
	char *data = scratch_read(dir, STATS_NAME, &len);
	data[8]++; /* version */
	scratch_write(dir, STATS_NAME, data, len);
	assert_int_equal(create(dir, 0, &held), 0);
	assert_int_equal(stats_pread(s->fd, DIR_NAME, &copy), 0);
	assert_int_equal(copy.records, 0);
	drop(&held);
	scratch_write(dir, STATS_NAME, data, 100);
	assert_int_equal(create(dir, 0, &held), 0);
	drop(&held);
	free(data);
	assert_int_equal(unlinkat(dir, STATS_NAME, 0), 0);
	assert_int_equal(symlinkat("elsewhere", dir, STATS_NAME), 0);
	assert_int_equal(create(dir, 0, &held), ERR_ACCESS);
	assert_int_equal(unlinkat(dir, STATS_NAME, 0), 0);
	assert_int_equal(mkdirat(dir, STATS_NAME, 0750), 0);
	assert_true(create(dir, 0, &held) < 0);
	close(dir);
}

static int pread_of(const struct scratch *s)
{
	struct stats_copy copy;
	alarm(20);
	int err = stats_pread(s->fd, DIR_NAME, &copy);
	alarm(0);
	return err;
}

static void stats_are_refused_when_cut_short_or_garbled(void **state)
{
	const struct scratch *s = *state;
	struct held held;
	struct segment seg;
	size_t len;
	int dir = open_dir(s);
	assert_int_equal(pread_of(s), ERR_NOT_FOUND);
	assert_int_equal(create(dir, 0, &held), 0);
	drop(&held);
	char *data = scratch_read(dir, STATS_NAME, &len);
	for (size_t n = 0; n < len; n++) {
		scratch_write(dir, STATS_NAME, data, n);
		assert_int_equal(pread_of(s), ERR_FORMAT);
		assert_int_equal(stats_attach(dir, &seg), ERR_FORMAT);
	}
	for (size_t at = 0; at < len; at++) {
		data[at] ^= 0x40;
		scratch_write(dir, STATS_NAME, data, len);
		assert_int_equal(pread_of(s), at < sizeof(struct segment_head) ? ERR_FORMAT : 0);
		data[at] ^= 0x40;
	}
	free(data);
	close(dir);
}

static void stats_are_refused_when_they_are_no_plain_file(void **state)
{
	const struct scratch *s = *state;
	struct stats_copy copy;
	struct held held;
	char name[300];
	int dir = open_dir(s);
	assert_int_equal(create(dir, 0, &held), 0);
	drop(&held);
	assert_int_equal(renameat(dir, STATS_NAME, dir, "real"), 0);
	assert_int_equal(symlinkat("real", dir, STATS_NAME), 0);
	assert_true(pread_of(s) < 0);
	assert_int_equal(unlinkat(dir, STATS_NAME, 0), 0);
	assert_int_equal(mkfifoat(dir, STATS_NAME, 0640), 0);
	assert_true(pread_of(s) < 0); /* and does not hang */
	assert_int_equal(unlinkat(dir, STATS_NAME, 0), 0);
	assert_int_equal(mkdirat(dir, STATS_NAME, 0750), 0);
	assert_true(pread_of(s) < 0);
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	assert_int_equal(stats_pread(s->fd, name, &copy), ERR_INVALID);
	close(dir);
}

static void stats_have_a_word_for_every_phase_and_reason(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PHASE_COUNT; i++)
		assert_string_not_equal(worker_phase_word((enum worker_phase)i), "unknown");
	for (unsigned i = 0; i < REBUILD_REASONS; i++)
		assert_string_not_equal(rebuild_reason_word((enum rebuild_reason)i), "unknown");
	assert_string_equal(worker_phase_word(PHASE_COUNT), "unknown");
	assert_string_equal(rebuild_reason_word((enum rebuild_reason) - 1), "unknown");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(stats_say_whose_they_are_when_new),
		TEST(stats_are_the_same_by_map_and_by_read),
		TEST(stats_keep_their_counters_when_taken_over),
		TEST(stats_are_busy_as_long_as_another_process_lives),
		TEST(stats_are_had_when_the_other_ends_in_time),
		TEST(stats_are_made_anew_when_the_old_ones_are_of_another_kind),
		TEST(stats_are_refused_when_cut_short_or_garbled),
		TEST(stats_are_refused_when_they_are_no_plain_file),
		cmocka_unit_test(stats_have_a_word_for_every_phase_and_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
