/*
 * main.c - a worker: replays one partition, sole writer of its store.
 *
 *	tallyd --exec, handoff--> birth -> table -> privilege_drop -> stats (lock) -> usage_open -> worker_run
 *
 * The arguments only tell `ps` which partition it is.  All that a worker knows
 * comes from the handoff; all that it does can be cut off by SIGKILL at any
 * instruction.
 *
 * Runs in: worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <mimalloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "birth.h"
#include "control.h"
#include "facts.h"
#include "memory.h"
#include "now.h"
#include "privilege.h"
#include "quit.h"
#include "worker.h"

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/log.h"

#define LOCK_WAIT_MS   2000
#define OPEN_RETRY_MS  100
#define OPEN_RETRY_MAX 2000

/* The table must be the one of the supervisor that started us. */
static void attach_table(const struct handoff *handoff, int run_fd, struct table *table)
{
	int err = table_attach(run_fd, table);

	if (err == ERR_NOT_FOUND || err == ERR_STALE)
		quit_orphan("the table is gone");
	if (err)
		quit_internal("table", err);
	if (table->head->nonce != handoff->table_nonce)
		quit_orphan("the table is another supervisor's");
}

static int open_dir(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int open_run_dir(const char *path)
{
	int fd = open_dir(AT_FDCWD, path);

	if (fd < 0) {
		log_error("worker.no_run_dir", "path=%s", path);
		quit_internal("run_dir", ERR_NOT_FOUND);
	}
	return fd;
}

/* The supervisor has made it; if it is gone, only a new one helps. */
static int open_generation(int run_fd, const char *name)
{
	int fd = open_dir(run_fd, name);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		quit_rebuild(NULL, REBUILD_CORRUPT, "the directory of this generation is gone");
	if (fd < 0)
		quit_internal("directory", err_from_errno(errno));
	return fd;
}

static void open_stats(const struct handoff *handoff, int dir_fd, struct facts *facts)
{
	struct stats *stats = NULL;
	int fd, err;

	err = stats_create(
		dir_fd, handoff->partition, handoff->generation, LOCK_WAIT_MS, &stats, &fd);
	if (err == ERR_BUSY)
		quit_rebuild(NULL, REBUILD_LOCKED, "an orphan still holds the stats file");
	if (err == ERR_ACCESS) /* a link: not ours, so the rest is not either */
		quit_rebuild(NULL, REBUILD_CORRUPT, "the stats file cannot be opened");
	if (err)
		quit_internal("stats", err);
	facts_start(facts, stats); /* fd stays open for life: it is the lock */
}

/* Waits for room in the file system; what the supervisor says meanwhile is heard. */
static void wait_for_room(const struct handoff *handoff, struct facts *facts, int ms)
{
	struct pollfd control = {.fd = HANDOFF_CONTROL_FD, .events = POLLIN};

	if (facts_flag(facts, FLAG_STORE_FULL, true))
		log_warn("worker.no_room", "run_dir=%s action=\"trying again\"", handoff->run_dir);
	(void)poll(&control, 1, ms);
	switch (control_receive(handoff->generation)) {
	case CONTROL_STOP:
		_exit(0);
	case CONTROL_DRAIN:
		(void)control_send(CONTROL_DRAINED, handoff->generation);
		break;
	default:
		break;
	}
	stats_set(facts->stats, heartbeat, host_boot_ns());
}

static _Noreturn void refuse_store(struct stats *stats, int err, bool boot_differs)
{
	if (boot_differs)
		quit_rebuild(stats, REBUILD_BOOT, "the machine was booted since it was written");
	if (err == ERR_IDENTITY)
		quit_rebuild(stats, REBUILD_IDENTITY, "the store is of another log");
	if (err == ERR_CORRUPT || err == ERR_FORMAT)
		quit_rebuild(stats, REBUILD_CORRUPT, "the store cannot be read");
	if (err == ERR_INVALID) {
		log_error("worker.store_refused", "hint=\"see store.map_size and store.readers\"");
		_exit(EXIT_CONFIG);
	}
	quit_internal("store", err);
}

static bool reads_uncommitted(const struct handoff *handoff)
{
	for (uint32_t i = 0; i < handoff->n_properties; i++)
		if (strcmp(handoff->properties[i].name, "isolation.level") == 0)
			return strcmp(handoff->properties[i].value, "read_uncommitted") == 0;
	return false;
}

static struct usage *open_usage(
	const struct handoff *handoff, const char *path, struct facts *facts)
{
	struct usage_options options = {
		.path = path,
		.identity = {.format = USAGE_FORMAT,
			.partition = handoff->partition,
			.partitions = handoff->partitions,
			.window_minutes = handoff->window_minutes,
			.read_uncommitted = reads_uncommitted(handoff),
			.generation = handoff->generation},
		.map_bytes = handoff->map_bytes,
		.readers_max = handoff->readers_max,
	};
	struct usage *usage = NULL;
	bool boot_differs = false;
	int err, wait_ms = OPEN_RETRY_MS;

	snprintf(options.identity.topic, sizeof(options.identity.topic), "%s", handoff->topic);
	err = host_boot_id(options.identity.boot_id);
	if (err)
		quit_internal("boot id", err);
	while ((err = usage_open(&options, &usage, &boot_differs)) == ERR_FULL) {
		wait_for_room(handoff, facts, wait_ms);
		wait_ms = wait_ms * 2 < OPEN_RETRY_MAX ? wait_ms * 2 : OPEN_RETRY_MAX;
	}
	if (err)
		refuse_store(facts->stats, err, boot_differs);
	facts_flag(facts, FLAG_STORE_FULL, false);
	return usage;
}

#ifdef WITH_MIMALLOC
/*
 * LMDB asks for 2 MiB of zeroes, one cache line of which it uses for a record at most.  mimalloc
 * writes them all; pages that come from the system are zeroes already.
 */
__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
	size_t len;
	char *block;

	if (__builtin_mul_overflow(n, size, &len) || len < MEMORY_LARGE)
		return mi_calloc(n, size);
	block = mi_malloc(len);
	if (block)
		memory_zero(block, len);
	return block;
}
#endif

int main(void)
{
	static struct handoff handoff;
	static struct table table;
	static struct facts facts;
	static struct now now;
	struct worker_parts parts = {
		.handoff = &handoff, .table = &table, .facts = &facts, .now = &now};
	char name[TABLE_DIR_NAME_SIZE], path[4096];
	int run_fd, dir_fd;

	birth(&handoff);
	memory_tune();
	memory_bound(&handoff);
	run_fd = open_run_dir(handoff.run_dir);
	attach_table(&handoff, run_fd, &table);
	FAULT("open.table");
	table_dir_name(name, handoff.partition, handoff.generation);
	snprintf(path, sizeof(path), "%s/%s", handoff.run_dir, name);
	dir_fd = open_generation(run_fd, name);
	privilege_drop(&handoff, path);
	open_stats(&handoff, dir_fd, &facts);
	FAULT("open.stats");
	quit_in_store(facts.stats);
	facts_phase(&facts, PHASE_OPENING);
	parts.usage = open_usage(&handoff, path, &facts);
	FAULT("open.store");
	parts.path = path;
	now_start(&now, &table, usage_meta(parts.usage)->clock_ms);
	log_info("worker.started",
		"topic=%s generation=%llu adopted=%s next=%lld streams=%llu pid=%d", handoff.topic,
		(unsigned long long)handoff.generation, handoff.adopt ? "yes" : "no",
		(long long)usage_meta(parts.usage)->next_offset,
		(unsigned long long)usage_meta(parts.usage)->streams, (int)getpid());
	close(run_fd);
	close(dir_fd);
	worker_run(&parts);
}
