/*
 * test_store.c - the LMDB wrapper: errors that stick, files that are safe, readers beside a writer.
 *
 * A store may be open once in a process, so whoever reads beside the writer is a
 * child.  Children are forked before the parent has anything open, and say what
 * they found with their exit code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/store.h"

#define MAP (UINT64_C(4) << 20)

static char dir[64], data_path[96], lock_path[96];

/* --- kit ------------------------------------------------------------------------------------- */

static struct store_bytes text(const char *s)
{
	return (struct store_bytes){.data = s, .len = strlen(s)};
}

static bool is(struct store_bytes bytes, const char *s)
{
	return bytes.len == strlen(s) && memcmp(bytes.data, s, bytes.len) == 0;
}

static void clean(void)
{
	unlink(data_path);
	unlink(lock_path);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/tally-test-store.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(data_path, sizeof(data_path), "%s/data.mdb", dir);
	snprintf(lock_path, sizeof(lock_path), "%s/lock.mdb", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	clean();
	return rmdir(dir);
}

static int each_setup(void **state)
{
	(void)state;
	clean();
	return 0;
}

static struct store *open_writer(void)
{
	struct store *store;

	assert_int_equal(store_open_writer(dir, MAP, 8, &store), 0);
	return store;
}

static int put(struct store *store, const char *key, const char *value)
{
	struct store_txn txn;

	store_begin(&txn, store);
	store_reserve(&txn, 64);
	store_put(&txn, text(key), text(value));
	return store_commit(&txn);
}

/* In a child: a failed check is its exit code. */
#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: child: %s\n", __FILE__, __LINE__, #x);             \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

struct child {
	pid_t pid;
	int to, from; /* one byte each way: go on, done so far */
};

/* A child that runs `body` with a pipe each way.  Nothing is open in the parent at this time. */
static struct child start(void (*body)(int in, int out))
{
	int down[2], up[2];
	struct child child;

	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		close(down[1]);
		close(up[0]);
		alarm(60);
		body(down[0], up[1]);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	child.to = down[1];
	child.from = up[0];
	return child;
}

static void give(int fd)
{
	if (write(fd, "x", 1) != 1)
		abort();
}

static void await(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(2);
}

/* One step of the child. */
static void step(struct child *child)
{
	char byte;

	give(child->to);
	assert_int_equal(read(child->from, &byte, 1), 1);
}

static void finish(struct child *child)
{
	int status;

	close(child->to);
	close(child->from);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- values ---------------------------------------------------------------------------------- */

static void store_finds_what_was_put(void **state)
{
	struct store *store = open_writer();
	struct store_bytes key, value;
	struct store_txn txn;

	(void)state;
	assert_int_equal(put(store, "b", "two"), 0);
	assert_int_equal(put(store, "a", "one"), 0);
	assert_int_equal(put(store, "d", "four"), 0);
	store_begin_read(&txn, store);
	assert_true(store_get(&txn, text("b"), &value) && is(value, "two"));
	assert_false(store_get(&txn, text("c"), &value));
	assert_true(store_seek(&txn, text("c"), &key, &value) && is(key, "d") && is(value, "four"));
	assert_false(store_next(&txn, &key, &value));
	assert_true(store_seek(&txn, text("a"), &key, &value) && is(key, "a"));
	assert_true(store_next(&txn, &key, &value) && is(key, "b") && is(value, "two"));
	assert_false(store_seek(&txn, text("e"), &key, &value));
	assert_int_equal(txn.err, 0);
	store_abort(&txn);
	store_abort(&txn);
	store_close(&store);
	assert_null(store);
	store_close(&store);
	store = open_writer();
	store_begin_read(&txn, store);
	assert_true(store_get(&txn, text("d"), &value) && is(value, "four"));
	store_abort(&txn);
	store_close(&store);
}

static void store_replaces_and_deletes_in_a_transaction(void **state)
{
	struct store *store = open_writer();
	struct store_bytes key, value;
	struct store_txn txn;

	(void)state;
	assert_int_equal(put(store, "a", "one"), 0);
	assert_int_equal(put(store, "b", "two"), 0);
	store_begin(&txn, store);
	assert_true(store_seek(&txn, text("a"), &key, &value));
	store_put_current(&txn, text("a"), text("ONE"));
	assert_true(store_get(&txn, text("a"), &value) && is(value, "ONE"));
	store_delete(&txn, text("b"));
	store_delete(&txn, text("never there"));
	assert_int_equal(store_commit(&txn), 0);
	store_begin(&txn, store);
	store_put(&txn, text("a"), text("aborted"));
	store_abort(&txn);
	store_begin_read(&txn, store);
	assert_true(store_get(&txn, text("a"), &value) && is(value, "ONE"));
	assert_false(store_get(&txn, text("b"), &value));
	assert_int_equal(txn.err, 0);
	store_abort(&txn);
	store_close(&store);
}

static void store_keeps_the_first_error_and_commits_nothing(void **state)
{
	struct store *store = open_writer();
	struct store_bytes key, value;
	struct store_txn txn;

	(void)state;
	store_begin(&txn, store);
	store_put(&txn, text("a"), text("one"));
	store_put(&txn, text(""), text("LMDB has no empty keys"));
	assert_int_equal(txn.err, ERR_CORRUPT);
	txn.err = ERR_LEASE; /* as a caller sets its own */
	store_put(&txn, text("b"), text("two"));
	assert_false(store_get(&txn, text("a"), &value));
	assert_false(store_seek(&txn, text("a"), &key, &value));
	assert_int_equal(store_commit(&txn), ERR_LEASE);
	store_begin_read(&txn, store);
	assert_false(store_get(&txn, text("a"), &value));
	assert_false(store_get(&txn, text("b"), &value));
	store_abort(&txn);
	store_close(&store);
}

static void store_commit_says_full_at_the_end_of_the_map_and_goes_on(void **state)
{
	struct store *store = open_writer();
	struct store_txn txn;
	char big[4080] = "big", name[16];
	struct store_bytes value = {.data = big, .len = sizeof(big)};
	int err;

	(void)state;
	assert_int_equal(put(store, "a", "one"), 0);
	store_begin(&txn, store);
	store_reserve(&txn, 3000); /* more than the map has: LMDB will say so */
	assert_int_equal(txn.err, 0);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		store_put(&txn, text(name), value);
	}
	err = store_commit(&txn);
	assert_int_equal(err, ERR_FULL);
	assert_int_equal(put(store, "b", "two"), 0);
	store_begin_read(&txn, store);
	assert_true(store_get(&txn, text("a"), &value));
	assert_false(store_get(&txn, text("k0"), &value));
	store_abort(&txn);
	store_close(&store);
}

/* --- files ----------------------------------------------------------------------------------- */

static void store_files_have_their_modes_whatever_the_umask(void **state)
{
	static const mode_t masks[] = {0, 022, 077, 0777};
	struct stat st;

	(void)state;
	for (int i = 0; i < 4; i++) {
		mode_t before = umask(masks[i]);
		struct store *store;
		int err = store_open_writer(dir, MAP, 1000, &store);

		umask(before);
		assert_int_equal(err, 0);
		assert_int_equal(stat(data_path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0640);
		assert_int_equal(stat(lock_path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0660);
		/* All of the lock file has blocks: a reader cannot fault in it. */
		assert_true(st.st_blocks * 512 >= st.st_size);
		store_close(&store);
		clean();
	}
}

static void store_open_reader_creates_nothing(void **state)
{
	struct store *store;

	(void)state;
	assert_int_equal(store_open_reader(dir, &store), ERR_NOT_FOUND);
	assert_null(store);
	store = open_writer();
	assert_int_equal(put(store, "a", "one"), 0);
	store_close(&store);
	assert_int_equal(unlink(lock_path), 0);
	assert_int_equal(store_open_reader(dir, &store), ERR_NOT_FOUND);
	assert_int_equal(access(lock_path, F_OK), -1);
	store = open_writer();
	store_close(&store);
	assert_int_equal(unlink(data_path), 0);
	assert_int_equal(store_open_reader(dir, &store), ERR_NOT_FOUND);
	assert_int_equal(access(data_path, F_OK), -1);
	assert_int_equal(store_open_reader("/nonexistent", &store), ERR_NOT_FOUND);
}

static void write_file(const char *path, const char *content, size_t len, off_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, len), len);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static void store_open_says_corrupt_when_the_file_is_none_of_lmdb(void **state)
{
	struct store *store;
	char junk[8192];

	(void)state;
	memset(junk, 'x', sizeof(junk));
	write_file(lock_path, "", 0, 0);
	write_file(data_path, junk, sizeof(junk), sizeof(junk));
	assert_int_equal(store_open_writer(dir, MAP, 8, &store), ERR_CORRUPT);
	assert_null(store);
	assert_int_equal(store_open_reader(dir, &store), ERR_CORRUPT);
	write_file(data_path, junk, 5, 5);
	assert_int_equal(store_open_writer(dir, MAP, 8, &store), ERR_CORRUPT);
	assert_int_equal(store_open_reader(dir, &store), ERR_CORRUPT);
	write_file(data_path, "", 0, 0);
	assert_int_equal(store_open_reader(dir, &store), ERR_CORRUPT);
}

static void store_open_says_corrupt_when_the_file_was_cut_short(void **state)
{
	struct store *store = open_writer();
	char key[16];

	(void)state;
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		assert_int_equal(put(store, key, "a value of some length to fill pages with"), 0);
	}
	store_close(&store);
	assert_int_equal(truncate(data_path, 4 * 4096), 0);
	assert_int_equal(store_open_reader(dir, &store), ERR_CORRUPT);
	assert_int_equal(store_open_writer(dir, MAP, 8, &store), ERR_CORRUPT);
	assert_null(store);
}

static void store_open_refuses_what_is_no_regular_file(void **state)
{
	struct store *store;

	(void)state;
	assert_int_equal(symlink("/dev/null", data_path), 0);
	assert_true(store_open_writer(dir, MAP, 8, &store) < 0);
	assert_true(store_open_reader(dir, &store) < 0);
	assert_int_equal(unlink(data_path), 0);
	assert_int_equal(mkfifo(data_path, 0600), 0);
	assert_true(store_open_writer(dir, MAP, 8, &store) < 0);
	assert_true(store_open_reader(dir, &store) < 0);
	assert_int_equal(store_open_writer(dir, 0, 8, &store), ERR_INVALID);
	assert_int_equal(store_open_writer(dir, MAP, 0, &store), ERR_INVALID);
}

static void store_map_is_not_in_core_dumps(void **state)
{
	struct store *store = open_writer();
	char line[512];
	bool here = false, dumped = true;
	FILE *smaps = fopen("/proc/self/smaps", "re");

	(void)state;
	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (strstr(line, data_path))
			here = true;
		if (here && strncmp(line, "VmFlags:", 8) == 0) {
			dumped = !strstr(line, " dd");
			break;
		}
	}
	fclose(smaps);
	assert_true(here);
	assert_false(dumped);
	store_close(&store);
}

/* --- readers beside a writer ----------------------------------------------------------------- */

static void read_steps(int in, int out)
{
	struct store *store;
	struct store_txn txn, second;
	struct store_bytes value;

	await(in); /* a = 1 is there */
	CHECK(store_open_reader(dir, &store) == 0);
	store_begin_read(&txn, store);
	CHECK(store_get(&txn, text("a"), &value) && is(value, "1"));
	give(out);
	await(in); /* a = 2 by now */
	CHECK(store_get(&txn, text("a"), &value) && is(value, "1"));
	store_begin_read(&second, store);
	CHECK(store_get(&second, text("a"), &value) && is(value, "2"));
	store_abort(&second);
	store_abort(&txn);
	for (int i = 0; i < 3; i++) {
		store_begin_read(&txn, store);
		CHECK(store_get(&txn, text("a"), &value) && is(value, "2"));
		CHECK(store_commit(&txn) == 0);
	}
	give(out);
	await(in); /* the writer has gone */
	store_begin_read(&txn, store);
	CHECK(store_get(&txn, text("a"), &value) && is(value, "2"));
	store_abort(&txn);
	store_close(&store);
	give(out);
}

static void store_reader_sees_one_commit_at_a_time(void **state)
{
	struct child child = start(read_steps);
	struct store *store = open_writer();
	struct store_facts facts;

	(void)state;
	assert_int_equal(put(store, "a", "1"), 0);
	step(&child);
	for (int i = 0; i < 20; i++)
		assert_int_equal(put(store, "other", "x"), 0);
	store_facts(store, &facts);
	assert_int_equal(facts.last_txn - facts.oldest_reader, 20);
	assert_true(facts.readers >= 1);
	assert_int_equal(facts.page_size, 4096);
	assert_int_equal(facts.map_bytes, MAP);
	assert_true(facts.used_bytes > 0 && facts.used_bytes < MAP);
	assert_int_equal(put(store, "a", "2"), 0);
	step(&child);
	store_facts(store, &facts);
	assert_int_equal(facts.last_txn, facts.oldest_reader);
	assert_true(facts.free_pages > 0);
	store_close(&store);
	step(&child);
	finish(&child);
}

static void take_a_slot(int in, int out)
{
	struct store_txn txn;
	struct store *store;

	await(in);
	CHECK(store_open_reader(dir, &store) == 0);
	store_begin_read(&txn, store);
	CHECK(txn.err == 0);
	give(out);
	await(in); /* for ever: it is killed */
}

static void find_no_slot(int in, int out)
{
	struct store_txn txn;
	struct store *store;

	await(in);
	/* Opening asks for a slot too. */
	CHECK(store_open_reader(dir, &store) == ERR_BUSY);
	give(out);
	await(in); /* one of them is dead by now: its slot is taken over */
	CHECK(store_open_reader(dir, &store) == 0);
	give(out);
	await(in); /* somebody else has taken it */
	store_begin_read(&txn, store);
	CHECK(txn.err == ERR_BUSY);
	give(out);
	await(in); /* and is dead */
	store_begin_read(&txn, store);
	CHECK(txn.err == 0);
	store_abort(&txn);
	store_close(&store);
	give(out);
}

static void kill_child(struct child *child)
{
	kill(child->pid, SIGKILL);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
	close(child->to);
	close(child->from);
}

static void store_reader_takes_the_slot_of_a_dead_one(void **state)
{
	struct child holders[3], last = start(find_no_slot);
	struct store_facts facts;
	struct store *store;

	(void)state;
	for (int i = 0; i < 3; i++)
		holders[i] = start(take_a_slot);
	assert_int_equal(store_open_writer(dir, MAP, 3, &store), 0);
	assert_int_equal(put(store, "a", "1"), 0);
	store_facts(store, &facts);
	assert_int_equal(facts.readers_max, 3);
	assert_int_equal(facts.readers, 1); /* the writer keeps one of its own */
	step(&holders[0]);
	step(&holders[1]);
	step(&last);
	kill_child(&holders[0]);
	step(&last);
	step(&holders[2]);
	step(&last);
	kill_child(&holders[2]);
	step(&last);
	finish(&last);
	kill_child(&holders[1]);
	store_check_readers(store);
	store_facts(store, &facts);
	assert_int_equal(facts.readers, 1);
	store_close(&store);
}

static void read_a_growing_map(int in, int out)
{
	struct store *store;
	struct store_txn txn, other;
	struct store_bytes value;

	await(in);
	CHECK(store_open_reader(dir, &store) == 0);
	store_begin_read(&txn, store);
	CHECK(store_get(&txn, text("a"), &value));
	store_abort(&txn);
	store_begin_read(&other, store);
	give(out);
	await(in); /* the map is larger and the end of it is in use */
	store_begin_read(&txn, store);
	CHECK(txn.err == ERR_BUSY); /* `other` still reads in the old map */
	CHECK(store_get(&other, text("a"), &value) && is(value, "1"));
	store_abort(&txn);
	store_abort(&other);
	store_begin_read(&txn, store);
	CHECK(txn.err == 0);
	CHECK(store_get(&txn, text("k1999"), &value) && value.len == 4080);
	store_abort(&txn);
	store_close(&store);
	give(out);
}

static void store_reader_follows_a_map_that_has_grown(void **state)
{
	struct child child = start(read_a_growing_map);
	struct store *store = open_writer();
	struct store_txn txn;
	char big[4080] = "big", name[16];

	(void)state;
	assert_int_equal(put(store, "a", "1"), 0);
	step(&child);
	store_close(&store);
	assert_int_equal(store_open_writer(dir, 8 * MAP, 8, &store), 0);
	store_begin(&txn, store);
	store_reserve(&txn, 3000);
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		store_put(&txn, text(name), (struct store_bytes){.data = big, .len = sizeof(big)});
	}
	assert_int_equal(store_commit(&txn), 0);
	step(&child);
	store_close(&store);
	finish(&child);
}

/* --- threads --------------------------------------------------------------------------------- */

static _Atomic bool stop;

static void *read_much(void *arg)
{
	struct store *store = arg;
	struct store_bytes key, value;
	uint64_t a, b, n = 0;

	while (!stop) {
		struct store_txn txn;

		store_begin_read(&txn, store);
		if (txn.err || !store_get(&txn, text("a"), &value))
			abort();
		memcpy(&a, value.data, sizeof(a));
		if (!store_seek(&txn, text("b"), &key, &value))
			abort();
		memcpy(&b, value.data, sizeof(b));
		if (a != b)
			abort();
		store_abort(&txn);
		n++;
	}
	return (void *)(uintptr_t)n;
}

static void put_pair(struct store *store, uint64_t i)
{
	struct store_bytes value = {.data = &i, .len = sizeof(i)};
	struct store_txn txn;

	store_begin(&txn, store);
	store_put(&txn, text("a"), value);
	store_put(&txn, text("b"), value);
	assert_int_equal(store_commit(&txn), 0);
}

static void store_serves_several_threads_through_one_handle(void **state)
{
	struct store *store;
	pthread_t threads[4];

	(void)state;
	/* Room for all 5000 commits: a thread may be off the CPU inside a transaction. */
	assert_int_equal(store_open_writer(dir, 64 * MAP, 8, &store), 0);
	put_pair(store, 0);
	stop = false;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_much, store), 0);
	for (uint64_t i = 1; i < 5000; i++)
		put_pair(store, i);
	stop = true;
	for (int i = 0; i < 4; i++) {
		void *n;

		assert_int_equal(pthread_join(threads[i], &n), 0);
		assert_non_null(n);
	}
	store_close(&store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(store_finds_what_was_put),
		TEST(store_replaces_and_deletes_in_a_transaction),
		TEST(store_keeps_the_first_error_and_commits_nothing),
		TEST(store_commit_says_full_at_the_end_of_the_map_and_goes_on),
		TEST(store_files_have_their_modes_whatever_the_umask),
		TEST(store_open_reader_creates_nothing),
		TEST(store_open_says_corrupt_when_the_file_is_none_of_lmdb),
		TEST(store_open_says_corrupt_when_the_file_was_cut_short),
		TEST(store_open_refuses_what_is_no_regular_file),
		TEST(store_map_is_not_in_core_dumps),
		TEST(store_reader_sees_one_commit_at_a_time),
		TEST(store_reader_takes_the_slot_of_a_dead_one),
		TEST(store_reader_follows_a_map_that_has_grown),
		TEST(store_serves_several_threads_through_one_handle),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
