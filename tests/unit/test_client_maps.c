/*
 * test_client_maps.c - one map per store and process, however many handles,
 * generations, threads and children there are.
 */
#include <pthread.h>

#include "client_reader.h"

/* ------------------------------------------------------------------ maps and descriptors */

static unsigned count_lines(const char *path, const char *needle)
{
	char line[512];
	unsigned n = 0;
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof line, file))
		n += strstr(line, needle) != NULL;
	fclose(file);
	return n;
}

static unsigned count_fds(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void client_opens_64_generations_and_leaks_nothing(void **state)
{
	(void)state;
	assert_streams(tally, 3);
	unsigned fds = count_fds(), maps = count_lines("/proc/self/maps", ".mdb");
	assert_int_equal(maps, 2);
	for (uint64_t g = 100; g < 164; g++) {
		run_write_n(&run, 0, g, g - 99);
		run_publish(&run, 0, PART_READY, g);
		assert_streams(tally, g - 99);
	}
	assert_int_equal(count_fds(), fds);
	assert_int_equal(count_lines("/proc/self/maps", ".mdb"), maps);
	tally_close(&tally);
	assert_int_equal(count_lines("/proc/self/maps", ".mdb"), 0);
}

static void client_shares_one_map_between_handles(void **state)
{
	(void)state;
	struct tally *second;
	char path[160];
	assert_streams(tally, 3);
	unsigned fds = count_fds();
	assert_int_equal(tally_open(run.dir, TALLY_STALE_OK, &second), 0);
	assert_streams(second, 3);
	assert_int_equal(client_env_count(), 1);
	assert_true(second->parts[0].env == tally->parts[0].env);
	assert_int_equal(count_fds(), fds + 1); /* its run directory, nothing of the store */
	assert_int_equal(count_lines("/proc/self/maps", "data.mdb"), 1);
	tally_close(&second);
	assert_int_equal(client_env_count(), 1);
	/* LMDB's lock of this process must still be there: in /proc/locks by inode. */
	struct stat st;
	char inode[64];
	run_path(&run, 0, 3, path);
	strcat(path, "/lock.mdb");
	assert_int_equal(stat(path, &st), 0);
	snprintf(inode, sizeof inode, ":%lu ", (unsigned long)st.st_ino);
	assert_true(count_lines("/proc/locks", inode) > 0);
	assert_streams(tally, 3);
}

static void client_keeps_parent_and_child_apart_after_a_fork(void **state)
{
	(void)state;
	int status = -1;
	assert_streams(tally, 3);
	pid_t pid = fork();
	if (pid == 0) {
		struct tally *mine = NULL;
		bool ok = tally_tenant(tally, "t", &usage) == TALLY_EINVALID;
		ok = ok && client_env_count() == 0;
		ok = ok && !tally_still_valid(tally);
		ok = ok && tally_open(run.dir, 0, &mine) == 0;
		ok = ok && tally_tenant(mine, "t", &usage) == 0 && usage.streams == 3;
		tally_close(&mine);
		tally_close(&tally);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_streams(tally, 3);
}

/* As a program does that does not call fork(): nobody tells us then. */
static void client_knows_a_child_however_it_was_made(void **state)
{
	(void)state;
	int status = -1;
	assert_streams(tally, 3);
	pid_t pid = _Fork();
	if (pid == 0)
		_exit(tally_tenant(tally, "t", &usage) != TALLY_EINVALID ||
			tally_still_valid(tally));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_streams(tally, 3);
}

/* ------------------------------------------------------------------ many at once */

enum { FLIPS = 5000, ANSWERS = 500, READERS = 3 };

static _Atomic int flipping;
static _Atomic unsigned answered;

/* Ready 3 and ready 5 in turn, with other states in between, until there were answers enough. */
static void *flip(void *arg)
{
	(void)arg;
	uint64_t end = host_boot_ns() + UINT64_C(120000000000);
	for (int i = 0; i < FLIPS || atomic_load(&answered) < ANSWERS; i++) {
		if (host_boot_ns() > end)
			break;
		atomic_store(&table_head_mut(&run.table)->heartbeat, host_boot_ns());
		run_publish(&run, 0, PART_READY, i % 2 ? 3 : 5);
		if (i % 3 == 0)
			run_publish(&run, 0, PART_DRAINING, i % 2 ? 3 : 5);
		if (i % 7 == 0)
			run_lease(&run, 0, 0);
		if (i % 50 == 0)
			usleep(100);
	}
	atomic_store(&flipping, 0);
	return NULL;
}

struct reader {
	uint64_t wrong, odd;
};

static void *read_hard(void *arg)
{
	struct reader *reader = arg;
	struct tally *mine;
	struct tally_part_usage part;
	struct tally_usage sum;
	if (tally_open(run.dir, 0, &mine))
		return NULL;
	while (atomic_load(&flipping)) {
		int err = tally_partition_usage(mine, 0, "t", &part);
		atomic_fetch_add(&answered, !err);
		reader->odd += err && err != TALLY_ENOTREADY;
		reader->wrong += !err && part.streams != part.generation;
		reader->wrong += !err && part.generation != 3 && part.generation != 5;
		err = tally_tenant(mine, "t", &sum);
		reader->odd += err && err != TALLY_ENOTREADY;
		reader->wrong += !err && sum.streams != 3 && sum.streams != 5;
		struct tally_cursor cursor = {0};
		struct tally_stream page[16];
		size_t n;
		err = tally_streams(mine, "t", &cursor, page, 16, &n, NULL);
		reader->odd += err && err != TALLY_ENOTREADY;
		reader->wrong += !err && n != 3 && n != 5;
		tally_idle(mine);
	}
	tally_close(&mine);
	return NULL;
}

static void client_never_mixes_generations_while_words_change_hard(void **state)
{
	(void)state;
	pthread_t flipper, readers[READERS];
	struct reader result[READERS] = {0};
	atomic_store(&answered, 0);
	atomic_store(&flipping, 1);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, read_hard, &result[i]), 0);
	assert_int_equal(pthread_create(&flipper, NULL, flip, NULL), 0);
	pthread_join(flipper, NULL);
	for (int i = 0; i < READERS; i++) {
		pthread_join(readers[i], NULL);
		assert_int_equal(result[i].wrong, 0);
		assert_int_equal(result[i].odd, 0);
	}
	assert_true(atomic_load(&answered) >= ANSWERS);
}

static void client_reads_whole_commits_while_a_worker_writes(void **state)
{
	(void)state;
	struct tally_part_usage part;
	int status;
	uint64_t commits = 0, last = 0;
	run_publish(&run, 0, PART_READY, 3);
	pid_t pid = fork();
	if (pid == 0) {
		/* Each commit: 10 more streams, 10 more offsets. */
		for (uint64_t i = 1; i <= 60; i++) {
			struct put puts[10];
			for (uint64_t k = 0; k < 10; k++)
				puts[k] = (struct put){"t", "", (i * 10 + k) * 4, 10, 0};
			int code = worker(&run, 0, 3, puts, 10, &(struct worker_how){0});
			if (code)
				_exit(code);
		}
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		assert_int_equal(tally_partition_usage(tally, 0, "t", &part), 0);
		assert_int_equal(part.streams, part.next_offset);
		assert_true(part.streams >= last);
		commits += part.streams != last;
		last = part.streams;
	}
	assert_int_equal(status, 0);
	assert_true(commits > 2);
	assert_int_equal(tally_partition_usage(tally, 0, "t", &part), 0);
	assert_int_equal(part.streams, 603);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, reader_setup_generations, reader_teardown)
	const struct CMUnitTest tests[] = {
		TEST(client_opens_64_generations_and_leaks_nothing),
		TEST(client_shares_one_map_between_handles),
		TEST(client_keeps_parent_and_child_apart_after_a_fork),
		TEST(client_knows_a_child_however_it_was_made),
		TEST(client_never_mixes_generations_while_words_change_hard),
		TEST(client_reads_whole_commits_while_a_worker_writes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
