/*
 * client_run.h - a run directory for the tests of libtally: the test plays
 * supervisor (table) and, in child processes, worker (store, stats).
 *
 * The writer is always another process: LMDB forbids to open a store twice in one.
 */
#ifndef TALLY_TESTS_CLIENT_RUN_H
#define TALLY_TESTS_CLIENT_RUN_H

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/client_private.h"
#include "shm/err.h"
#include "shm/stats.h"

#define RUN_WINDOW     120
#define RUN_PARTITIONS 4
#define TEST_SUPPRESS  __attribute__((unused))

struct run {
	char dir[64];
	int dirfd;
	struct table table;
};

struct put {
	const char *tenant, *policy;
	uint64_t hash, size;
	int64_t age_s; /* how long before the commit's now */
};

static int run_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

TEST_SUPPRESS static struct table_head run_facts(void)
{
	struct table_head facts = {
		.nonce = 7,
		.pid_namespace = host_pid_namespace(),
		.started_at = (uint64_t)host_wall_ms() * 1000000,
		.supervisor_pid = (uint32_t)getpid(),
		.capacity = 64,
		.window_minutes = RUN_WINDOW,
		.rate_minutes = 5,
		.lost_timeout_ms = 5000,
		.topic = "usage",
		.group = "tally",
		.zone = "zone-a",
		.instance = "tally-a",
	};
	assert_int_equal(host_boot_id(facts.boot_id), 0);
	return facts;
}

/* A new supervisor takes the directory over. */
TEST_SUPPRESS static void run_install(struct run *run, const struct table_head *facts)
{
	table_detach(&run->table);
	assert_int_equal(table_create(run->dirfd, facts, &run->table), 0);
	struct table_head *head = table_head_mut(&run->table);
	atomic_store(&head->heartbeat, host_boot_ns());
	atomic_store(&head->partitions, RUN_PARTITIONS);
	atomic_store(&head->group_state, GROUP_MEMBER);
	assert_int_equal(table_install(run->dirfd, &run->table), 0);
}

TEST_SUPPRESS static void run_start(struct run *run)
{
	struct table_head facts = run_facts();
	*run = (struct run){0};
	snprintf(run->dir, sizeof run->dir, "%s/tally-unit-XXXXXX",
		access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	assert_non_null(mkdtemp(run->dir));
	run->dirfd = open(run->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(run->dirfd >= 0);
	run_install(run, &facts);
}

TEST_SUPPRESS static void run_end(struct run *run)
{
	table_detach(&run->table);
	close(run->dirfd);
	nftw(run->dir, run_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(client_env_count(), 0);
}

TEST_SUPPRESS static void run_lease(struct run *run, uint32_t partition, int64_t ms)
{
	uint64_t until = (uint64_t)((int64_t)host_boot_ns() + ms * 1000000);
	atomic_store(&table_slot_mut(&run->table, partition)->lease_until, until);
}

TEST_SUPPRESS static void run_publish(
	struct run *run, uint32_t partition, enum part_state state, uint64_t generation)
{
	run_lease(run, partition, 60000);
	atomic_store(&table_head_mut(&run->table)->heartbeat, host_boot_ns()); /* it lives */
	if (state == PART_READY)
		atomic_store(&table_slot_mut(&run->table, partition)->whole, generation);
	table_publish(&run->table, partition, state, generation);
}

TEST_SUPPRESS static void run_path(
	const struct run *run, uint32_t partition, uint64_t generation, char path[160])
{
	char name[TABLE_DIR_NAME_SIZE];
	table_dir_name(name, partition, generation);
	snprintf(path, 160, "%s/%s", run->dir, name);
}

/* --- the worker, in a child ------------------------------------------------------------------ */

static int worker_fill(struct usage *usage, const struct put *puts, size_t n, int64_t now_ms)
{
	int64_t offset = usage_meta(usage)->next_offset;
	offset = offset < 0 ? 0 : offset;
	for (size_t i = 0; i < n; i++) {
		struct record record = {
			.tenant = puts[i].tenant,
			.tenant_len = strlen(puts[i].tenant),
			.policy = puts[i].policy,
			.policy_len = strlen(puts[i].policy),
			.hash = puts[i].hash,
			.size = puts[i].size,
			.timestamp_ms = now_ms - puts[i].age_s * 1000,
			.offset = offset++,
		};
		if (usage_add(usage, &record, now_ms) != SKIP_NONE)
			return 3;
	}
	struct usage_fingerprint print = {
		.offset = offset - 1, .timestamp_ms = n ? now_ms - puts[n - 1].age_s * 1000 : 0};
	usage_advance(usage, offset + !n, n ? &print : NULL);
	return usage_commit(usage, &(struct usage_commit){.now_ms = now_ms}) ? 4 : 0;
}

static int worker_stats(const char *path, uint32_t partition, uint64_t generation)
{
	struct stats *stats;
	int fd, dir = open(path, O_RDONLY | O_DIRECTORY);
	if (stats_create(dir, partition, generation, 0, &stats, &fd))
		return 5;
	stats_set(stats, phase, PHASE_REPLAYING);
	stats_set(stats, next_offset, 501);
	stats_set(stats, start_offset, 100);
	stats_set(stats, target_offset, 900);
	stats_set(stats, log_end, 1000);
	stats_set(stats, records_per_sec, 100);
	stats_set(stats, flags, FLAG_DEGRADED | FLAG_STALLED);
	stats_set(stats, skipped[SKIP_TOO_OLD], 17);
	munmap(stats, sizeof *stats);
	close(fd);
	close(dir);
	return 0;
}

struct worker_how {
	uint32_t window;     /* 0 = RUN_WINDOW */
	uint32_t partitions; /* in its identity; 0 = RUN_PARTITIONS */
	uint64_t generation; /* in its identity; 0 = as its directory */
	int64_t back_ms;     /* its clock is so far behind */
	bool other_boot;
};

static int worker(const struct run *run, uint32_t partition, uint64_t generation,
	const struct put *puts, size_t n, const struct worker_how *how)
{
	char path[160];
	bool boot;
	struct usage *usage;
	struct usage_options options = {
		.path = path,
		.map_bytes = 64 << 20,
		.readers_max = 64,
		.identity = {.format = USAGE_FORMAT,
			.partition = partition,
			.partitions = how->partitions ? how->partitions : RUN_PARTITIONS,
			.window_minutes = how->window ? how->window : RUN_WINDOW,
			.generation = how->generation ? how->generation : generation,
			.topic = "usage"},
	};
	run_path(run, partition, generation, path);
	mkdir(path, 0750);
	host_boot_id(options.identity.boot_id);
	options.identity.boot_id[0] ^= how->other_boot;
	if (usage_open(&options, &usage, &boot))
		return 2;
	int code = worker_fill(usage, puts, n, host_wall_ms() - how->back_ms);
	usage_close(&usage);
	return code ? code : worker_stats(path, partition, generation);
}

TEST_SUPPRESS static void run_write_how(const struct run *run, uint32_t partition,
	uint64_t generation, const struct put *puts, size_t n, const struct worker_how *how)
{
	int status = -1;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(worker(run, partition, generation, puts, n, how));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

TEST_SUPPRESS static void run_write(const struct run *run, uint32_t partition, uint64_t generation,
	const struct put *puts, size_t n)
{
	run_write_how(run, partition, generation, puts, n, &(struct worker_how){0});
}

/* `n` streams of tenant "t" in one partition: a generation that can be told by its number. */
TEST_SUPPRESS static void run_write_n(
	const struct run *run, uint32_t partition, uint64_t generation, size_t n)
{
	struct put *puts = calloc(n + 1, sizeof *puts);
	assert_non_null(puts);
	for (size_t i = 0; i < n; i++)
		puts[i] = (struct put){"t", "", (uint64_t)i * RUN_PARTITIONS + partition, 10, 0};
	run_write(run, partition, generation, puts, n);
	free(puts);
}

#endif
