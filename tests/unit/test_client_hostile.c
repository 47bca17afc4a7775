/*
 * test_client_hostile.c - nothing that lies in a run directory can hurt a reader
 * or lead it out of there.
 *
 * The store is changed through LMDB: libtally trusts LMDB's pages (only the
 * worker can write them), but no key or value in them.
 */
#include "client_run.h"

static struct run run;
static struct tally *tally;
static struct tally_usage usage;
static uint64_t seed;

static int setup(void **state)
{
	(void)state;
	seed = 88172645463325252u;
	run_start(&run);
	run_write_n(&run, 0, 3, 300);
	run_publish(&run, 0, PART_READY, 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tally_close(&tally);
	run_end(&run);
	return 0;
}

/* xorshift64: the same rounds each time. */
static uint64_t next_random(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static int open_run(unsigned flags)
{
	tally_close(&tally);
	return tally_open(run.dir, flags, &tally);
}

static void assert_code(int err)
{
	assert_true(err <= 0 && err >= TALLY_ENAMESPACE);
	assert_non_null(tally_error(err));
}

static void assert_text(const char *text, size_t size)
{
	assert_non_null(memchr(text, 0, size));
}

/* Everything that can be asked: no matter what comes back, it has its shape. */
static void ask_all(void)
{
	static struct tally_minute minutes[WINDOW_MINUTES_MAX + 1];
	static struct tally_partition parts[4];
	static struct tally_usage list[8];
	static struct tally_policy policies[4];
	static struct tally_stream page[64];
	struct tally_lookup ask[3] = {{.hash = 0}, {.hash = 4}, {.hash = 17}};
	struct tally_part_usage part;
	struct tally_instance in;
	struct tally_basis basis;
	struct tally_cursor cursor = {0};
	size_t n;
	assert_code(tally_instance(tally, &in));
	assert_text(in.topic, sizeof in.topic);
	assert_text(in.instance, sizeof in.instance);
	assert_text(in.group_state, sizeof in.group_state);
	assert_code(tally_partitions(tally, parts, 4, &n));
	assert_text(parts[0].state, sizeof parts[0].state);
	assert_text(parts[0].problems, sizeof parts[0].problems);
	assert_text(parts[0].death_detail, sizeof parts[0].death_detail);
	assert_code(tally_partition(tally, 0, parts));
	assert_code(tally_tenant(tally, "t", &usage));
	assert_code(tally_policies(tally, "t", policies, 4, &n, &basis));
	assert_code(tally_histogram(tally, "t", minutes, WINDOW_MINUTES_MAX + 1, &n, &basis));
	assert_code(tally_tenants(tally, NULL, list, 8, &n, &basis));
	for (size_t i = 0; i < n; i++)
		assert_text(list[i].tenant, sizeof list[i].tenant);
	assert_code(tally_top(tally, list, 8, &n, &basis));
	assert_code(tally_stream(tally, "t", 4, page));
	assert_code(tally_lookup(tally, "t", ask, 3));
	assert_code(tally_partition_usage(tally, 0, "t", &part));
	for (int pages = 0; !cursor.done && pages < 1000; pages++) {
		int err = tally_streams(tally, "t", &cursor, page, 64, &n, &basis);
		assert_code(err);
		if (err)
			break;
	}
	tally_still_valid(tally);
	tally_idle(tally);
	tally_now_ms(tally);
}

/* ------------------------------------------------------------------ who may, and where */

static void client_refuses_a_table_of_another_namespace_or_boot(void **state)
{
	(void)state;
	struct table_head facts = run_facts();
	facts.pid_namespace++;
	run_install(&run, &facts);
	assert_int_equal(open_run(TALLY_STALE_OK), TALLY_ENAMESPACE);
	facts = run_facts();
	facts.boot_id[3] ^= 1;
	run_install(&run, &facts);
	assert_int_equal(open_run(TALLY_STALE_OK), TALLY_ESTALE);
}

static void client_refuses_a_directory_that_everybody_can_write(void **state)
{
	(void)state;
	assert_int_equal(chmod(run.dir, 0777), 0);
	assert_int_equal(open_run(0), TALLY_EACCESS);
	assert_int_equal(chmod(run.dir, 0750), 0);
	assert_int_equal(open_run(0), 0);
}

static void client_refuses_what_is_no_run_directory(void **state)
{
	(void)state;
	char path[96];
	struct tally *none;
	snprintf(path, sizeof path, "%s/nothing", run.dir);
	assert_int_equal(tally_open(path, 0, &none), TALLY_ENOTFOUND);
	snprintf(path, sizeof path, "%s/table", run.dir);
	assert_int_equal(tally_open(path, 0, &none), TALLY_ENOTFOUND);
	assert_int_equal(unlinkat(run.dirfd, "table", 0), 0);
	assert_int_equal(open_run(0), TALLY_ENOTFOUND);
	assert_int_equal(mkfifoat(run.dirfd, "table", 0600), 0);
	assert_int_equal(open_run(0), TALLY_EFORMAT);
	assert_int_equal(unlinkat(run.dirfd, "table", 0), 0);
	assert_int_equal(symlinkat("/etc/hostname", run.dirfd, "table"), 0);
	assert_int_equal(open_run(0), TALLY_EFORMAT);
}

static void client_refuses_numbers_in_the_table_that_cannot_be(void **state)
{
	(void)state;
	struct table_head facts = run_facts();
	facts.window_minutes = WINDOW_MINUTES_MAX + 1;
	run_install(&run, &facts);
	assert_int_equal(open_run(0), TALLY_EFORMAT);
	facts = run_facts();
	facts.rate_minutes = 6;
	run_install(&run, &facts);
	assert_int_equal(open_run(0), TALLY_EFORMAT);
	facts = run_facts();
	memset(facts.topic, 0xff, sizeof facts.topic); /* no NUL, no UTF-8 */
	run_install(&run, &facts);
	atomic_store(&table_head_mut(&run.table)->partitions, UINT32_MAX);
	assert_int_equal(open_run(0), 0);
	struct tally_instance in;
	assert_int_equal(tally_instance(tally, &in), 0);
	assert_int_equal(strlen(in.topic), sizeof in.topic - 1);
	assert_int_equal(strspn(in.topic, "?"), sizeof in.topic - 1);
	assert_int_equal(in.partitions, 64); /* what the file has room for */
}

/* ------------------------------------------------------------------ a store that is another's */

static void expect_unanswered(int err)
{
	assert_int_equal(tally_tenant(tally, "t", &usage), err);
	assert_int_equal(usage.basis.owned, 1);
	assert_int_equal(usage.basis.answered, 0);
	assert_int_equal(client_env_count(), 0);
}

static void client_reads_no_store_that_says_it_is_another(void **state)
{
	(void)state;
	const struct put put = {"t", "", 0, 1, 0};
	static const struct worker_how others[] = {
		{.generation = 99}, {.window = 60}, {.other_boot = true}};
	assert_int_equal(open_run(TALLY_STALE_OK), 0);
	for (uint64_t i = 0; i < 3; i++) {
		run_write_how(&run, 0, 20 + i, &put, 1, &others[i]);
		run_publish(&run, 0, PART_READY, 20 + i);
		expect_unanswered(TALLY_ENOTREADY);
	}
	/* Partition 0's store where partition 1's should be. */
	char from[160], to[160];
	run_write_n(&run, 0, 30, 1);
	run_path(&run, 0, 30, from);
	run_path(&run, 1, 30, to);
	assert_int_equal(rename(from, to), 0);
	run_publish(&run, 0, PART_FREE, 0);
	run_publish(&run, 1, PART_READY, 30);
	expect_unanswered(TALLY_ENOTREADY);
}

static void put_file(const char *path, const char *content, size_t len, off_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, len), (ssize_t)len);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static void client_survives_files_that_are_no_store(void **state)
{
	(void)state;
	char dir[160], data[176], lock[176];
	char garbage[8192];
	for (size_t i = 0; i < sizeof garbage; i++)
		garbage[i] = (char)next_random(256);
	assert_int_equal(open_run(0), 0);
	run_path(&run, 0, 3, dir);
	snprintf(data, sizeof data, "%s/data.mdb", dir);
	snprintf(lock, sizeof lock, "%s/lock.mdb", dir);
	put_file(data, "", 0, 0);
	expect_unanswered(TALLY_ECORRUPT);
	put_file(data, "", 0, 1 << 20);
	expect_unanswered(TALLY_ECORRUPT);
	put_file(data, garbage, sizeof garbage, 1 << 20);
	expect_unanswered(TALLY_ECORRUPT);
	assert_int_equal(unlink(lock), 0);
	expect_unanswered(TALLY_ENOTREADY);
	assert_int_equal(access(lock, F_OK), -1); /* LMDB would have made a second one */
	assert_int_equal(symlink("/etc/hostname", lock), 0);
	expect_unanswered(TALLY_EFORMAT);
}

static void client_follows_no_link_out_of_the_run_directory(void **state)
{
	(void)state;
	char dir[160], aside[180];
	struct tally_partition part;
	assert_int_equal(open_run(0), 0);
	run_path(&run, 0, 3, dir);
	snprintf(aside, sizeof aside, "%s.elsewhere", dir);
	assert_int_equal(rename(dir, aside), 0);
	assert_int_equal(symlink(aside, dir), 0); /* a good store, but not by this way */
	expect_unanswered(TALLY_EFORMAT);
	assert_int_equal(tally_partition(tally, 0, &part), 0);
	assert_false(part.has_stats);
}

static void client_reports_a_lock_file_it_may_not_use(void **state)
{
	(void)state;
	char lock[180];
	int status = -1;
	if (geteuid() != 0)
		skip(); /* the owner may always */
	run_path(&run, 0, 3, lock);
	assert_int_equal(chmod(run.dir, 0755), 0);
	assert_int_equal(chmod(lock, 0755), 0);
	strcat(lock, "/lock.mdb");
	assert_int_equal(chmod(lock, 0644), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int err = setgid(65534) || setuid(65534) ? 1 : 0;
		err = err ? err : chmod(run.dir, 0755) == 0; /* not ours: must fail */
		/* The table is 0640: a reader outside of the group gets no further. */
		_exit(err || tally_open(run.dir, 0, &tally) != TALLY_EACCESS);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(fchmodat(run.dirfd, "table", 0644, 0), 0);
	pid = fork();
	if (pid == 0) {
		int err = setgid(65534) || setuid(65534) ? 1 : 0;
		err = err ? err : tally_open(run.dir, 0, &tally);
		_exit(err || tally_tenant(tally, "t", &usage) != TALLY_EACCESS);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ------------------------------------------------------------------ changed at random */

static void flip_bytes(int fd, size_t size, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint8_t byte = (uint8_t)next_random(256);
		off_t at = (off_t)next_random(size);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
}

static void client_survives_a_table_changed_at_random(void **state)
{
	(void)state;
	struct table_head facts = run_facts();
	unsigned opened = 0;
	for (int round = 0; round < 1500; round++) {
		if (round % 4 == 0) {
			run_install(&run, &facts);
			run_publish(&run, 0, PART_READY, 3);
		}
		if (round % 2 == 0)
			opened += open_run(round % 3 ? TALLY_STALE_OK : 0) == 0;
		assert_int_equal(fchmodat(run.dirfd, "table", 0640, 0), 0);
		int fd = openat(run.dirfd, "table", O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0);
		/* Half of them in the head and the first slots, where something is. */
		flip_bytes(fd, round % 8 < 4 ? TABLE_SIZE(8) : sizeof(struct table_head), 4);
		close(fd);
		if (tally)
			ask_all();
	}
	assert_true(opened > 100);
}

static void client_survives_stats_changed_at_random(void **state)
{
	(void)state;
	char path[180];
	assert_int_equal(open_run(0), 0);
	run_path(&run, 0, 3, path);
	strcat(path, "/stats");
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	unsigned described = 0;
	for (int round = 0; round < 3000; round++) {
		struct tally_partition part;
		if (round % 50 == 49)
			assert_int_equal(
				ftruncate(fd, (off_t)next_random(2 * sizeof(struct stats))), 0);
		/* Behind the head and the two numbers that say whose it is, mostly. */
		uint8_t byte = (uint8_t)next_random(256);
		off_t at = (off_t)(next_random(64) ? 48 + next_random(sizeof(struct stats) - 48)
						   : next_random(48));
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		assert_int_equal(tally_partition(tally, 0, &part), 0);
		assert_text(part.phase, sizeof part.phase);
		assert_text(part.problems, sizeof part.problems);
		assert_true(part.progress >= 0 && part.progress <= 1);
		described += part.has_stats != 0;
	}
	assert_true(described > 10);
	close(fd);
}

/* In the child: one value changed, cut, lengthened or removed, through LMDB. */
static int change_store(const char *path, uint64_t random)
{
	struct store *store;
	struct store_txn txn;
	struct store_bytes key = {.data = "", .len = 1}, value;
	uint8_t kept[512], bytes[8192] = {0};
	seed = random | 1;
	for (int i = 0; i < 20; i++)
		next_random(2);
	if (store_open_writer(path, 64 << 20, 64, &store))
		return 1;
	store_begin(&txn, store);
	store_reserve(&txn, &(struct store_need){.pages = 64});
	bool found = store_seek(&txn, key, &key, &value);
	for (uint64_t skip = next_random(12); found && skip; skip--)
		found = store_next(&txn, &key, &value);
	if (found && (*(const char *)key.data != 'm' || next_random(10) == 0)) {
		size_t len = value.len < 4200 ? value.len : 4200;
		memcpy(kept, key.data, key.len);
		memcpy(bytes, value.data, len);
		key.data = kept;
		for (uint64_t n = 1 + next_random(6); n; n--)
			bytes[next_random(len < 24 || next_random(2) ? len : 24)] =
				(uint8_t)next_random(256);
		if (next_random(5) == 0)
			len = next_random(4200);
		if (next_random(8) == 0)
			kept[1 + next_random(key.len > 1 ? key.len - 1 : 1) % sizeof kept] ^= 1;
		if (next_random(10) == 0)
			store_delete(&txn, key);
		else
			store_put(&txn, key, (struct store_bytes){bytes, len});
	}
	int err = store_commit(&txn);
	store_close(&store);
	return err ? 2 : 0;
}

static void client_survives_a_store_changed_at_random(void **state)
{
	(void)state;
	uint64_t generation = 3;
	unsigned answered = 0, refused = 0;
	assert_int_equal(open_run(0), 0);
	for (int round = 0; round < 400; round++) {
		char path[160];
		int status = -1;
		uint64_t random = next_random(UINT64_MAX);
		if (round % 10 == 9) {
			generation++;
			run_write_n(&run, 0, generation, 300);
			run_publish(&run, 0, PART_READY, generation);
		}
		run_path(&run, 0, generation, path);
		pid_t pid = fork();
		if (pid == 0)
			_exit(change_store(path, random));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		ask_all();
		int err = tally_tenant(tally, "t", &usage);
		answered += !err;
		refused += err == TALLY_ECORRUPT;
	}
	assert_true(answered > 20);
	assert_true(refused > 20);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(client_refuses_a_table_of_another_namespace_or_boot),
		TEST(client_refuses_a_directory_that_everybody_can_write),
		TEST(client_refuses_what_is_no_run_directory),
		TEST(client_refuses_numbers_in_the_table_that_cannot_be),
		TEST(client_reads_no_store_that_says_it_is_another),
		TEST(client_survives_files_that_are_no_store),
		TEST(client_follows_no_link_out_of_the_run_directory),
		TEST(client_reports_a_lock_file_it_may_not_use),
		TEST(client_survives_a_table_changed_at_random),
		TEST(client_survives_stats_changed_at_random),
		TEST(client_survives_a_store_changed_at_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
