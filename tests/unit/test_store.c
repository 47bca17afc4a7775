/*
 * test_store.c - the LMDB wrapper: errors that stick, and files that are safe.
 */
#include "store_fixture.h"

/* LMDB 0.9's lock file: magic and format 8, write mutex 40, then the last transaction. */
#define LOCK_LAST_TXN 48

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
	store_reserve(&txn,
		&(struct store_need){.pages = 3000}); /* more than the map has: LMDB will say so */
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
	clean();
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

/*
 * As a reader could, whom nobody trusts with the data: another process writes a
 * wrong "last transaction" into the lock file.
 */
static void forge_last_transaction(int64_t by)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int fd = open(lock_path, O_RDWR | O_CLOEXEC);
		uint64_t last;

		if (fd < 0 || pread(fd, &last, sizeof(last), LOCK_LAST_TXN) != sizeof(last))
			_exit(1);
		last += (uint64_t)by;
		_exit(pwrite(fd, &last, sizeof(last), LOCK_LAST_TXN) != sizeof(last));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void store_says_corrupt_when_the_lock_file_names_another_transaction(void **state)
{
	static const int64_t wrong[] = {-1, -2, 1, 2, 1000};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct store *store = open_writer();

		assert_int_equal(put(store, "a", "one"), 0);
		assert_int_equal(put(store, "b", "two"), 0);
		assert_int_equal(put(store, "c", "three"), 0);
		forge_last_transaction(wrong[i]);
		assert_int_equal(put(store, "d", "four"), ERR_CORRUPT);
		forge_last_transaction(-wrong[i]);
		assert_int_equal(put(store, "d", "four"), 0);
		store_close(&store);
		clean();
	}
}

/* Readers that still have the old one would not be minded by who has another. */
static void store_open_says_corrupt_when_the_lock_file_is_gone(void **state)
{
	struct store *store = open_writer();

	(void)state;
	assert_int_equal(put(store, "a", "one"), 0);
	store_close(&store);
	assert_int_equal(unlink(lock_path), 0);
	assert_int_equal(store_open_writer(dir, MAP, 8, &store), ERR_CORRUPT);
	assert_null(store);
	clean();
	store = open_writer(); /* a new one has neither */
	assert_int_equal(put(store, "a", "one"), 0);
	store_close(&store);
}

/* Twice is not at all.  In a child: closing the file would end this process's locks on it. */
static void garble_lock_head(uint8_t mask)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(lock_path, O_RDWR);
		uint8_t byte = 0;
		bool done = fd >= 0 && pread(fd, &byte, 1, 0) == 1;

		byte ^= mask;
		_exit(done && pwrite(fd, &byte, 1, 0) == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void store_knows_when_its_files_are_not_in_place(void **state)
{
	struct store *store = open_writer();
	char kept[128];

	(void)state;
	snprintf(kept, sizeof(kept), "%s.kept", lock_path);
	assert_int_equal(put(store, "a", "one"), 0);
	assert_true(store_is_in_place(store, dir));
	assert_int_equal(rename(lock_path, kept), 0);
	assert_false(store_is_in_place(store, dir));
	write_file(lock_path, "another", 7, 8192);
	assert_false(store_is_in_place(store, dir));
	assert_int_equal(rename(kept, lock_path), 0);
	assert_true(store_is_in_place(store, dir));
	assert_int_equal(rename(data_path, kept), 0);
	assert_false(store_is_in_place(store, dir));
	assert_int_equal(rename(kept, data_path), 0);
	assert_true(store_is_in_place(store, dir));
	/* Written over where only who opens it looks. */
	garble_lock_head(0xff);
	assert_false(store_is_in_place(store, dir));
	garble_lock_head(0xff);
	assert_true(store_is_in_place(store, dir));
	assert_int_equal(truncate(data_path, 2 * 4096), 0);
	assert_false(store_is_in_place(store, dir));
	assert_false(store_is_in_place(store, "/nowhere"));
	assert_int_equal(truncate(data_path, (off_t)MAP), 0);
	store_close(&store);
}

static void store_is_in_use_from_begin_to_end_of_a_transaction(void **state)
{
	struct store *store = open_writer();
	struct store_txn write, read, held[8];
	struct store_bytes value;

	(void)state;
	assert_false(store_in_use());
	store_begin(&write, store);
	store_begin_read(&read, store);
	assert_false(store_get(&read, text("a"), &value));
	store_abort(&read);
	store_abort(&read);
	assert_true(store_in_use()); /* the other one */
	store_put(&write, text("a"), text("one"));
	assert_int_equal(store_commit(&write), 0);
	assert_false(store_in_use());
	store_begin(&write, store);
	store_abort(&write);
	assert_false(store_in_use());
	for (int i = 0; i < 7; i++)
		store_begin_read(&held[i], store);
	store_begin_read(&held[7], store);
	store_begin_read(&read, store); /* there are 8 slots */
	assert_int_equal(read.err, ERR_BUSY);
	for (int i = 0; i < 8; i++)
		store_abort(&held[i]);
	store_abort(&read);
	assert_false(store_in_use());
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
		TEST(store_open_says_corrupt_when_the_lock_file_is_gone),
		TEST(store_knows_when_its_files_are_not_in_place),
		TEST(store_is_in_use_from_begin_to_end_of_a_transaction),
		cmocka_unit_test_setup(
			store_says_corrupt_when_the_lock_file_names_another_transaction,
			each_setup),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
