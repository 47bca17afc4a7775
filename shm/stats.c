/*
 * stats.c - a worker's counters, mapped, written by that worker alone.
 *
 *	worker --> p7.1234/stats --map--> readers
 *	                        '--pread--> supervisor
 *
 * The flock on the file says that a worker lives in this generation; it goes
 * with the process, however that ends.
 *
 * Runs in: every program; the writing half in the worker only.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/host.h"
#include "shm/stats.h"

#define MAGIC "TALLYSTA"

static const struct segment_spec spec = {MAGIC, STATS_VERSION, sizeof(struct stats)};

static const char *const phase_words[PHASE_COUNT] = {
	[PHASE_STARTING] = "starting",
	[PHASE_OPENING] = "opening",
	[PHASE_LOCATING] = "locating",
	[PHASE_REPLAYING] = "replaying",
	[PHASE_LIVE] = "live",
	[PHASE_DRAINING] = "draining",
	[PHASE_STOPPING] = "stopping",
};

static const char *const rebuild_words[REBUILD_REASONS] = {
	[REBUILD_NONE] = "none",
	[REBUILD_LOCKED] = "locked",
	[REBUILD_IDENTITY] = "identity",
	[REBUILD_BOOT] = "boot",
	[REBUILD_CORRUPT] = "corrupt",
	[REBUILD_FINGERPRINT] = "fingerprint",
	[REBUILD_BEYOND_END] = "beyond_end",
	[REBUILD_GAP] = "gap",
	[REBUILD_CLOCK] = "clock",
	[REBUILD_DEADLY] = "deadly",
};

const char *worker_phase_word(enum worker_phase phase)
{
	return (unsigned)phase < PHASE_COUNT ? phase_words[phase] : "unknown";
}

const char *rebuild_reason_word(enum rebuild_reason reason)
{
	return (unsigned)reason < REBUILD_REASONS ? rebuild_words[reason] : "unknown";
}

/* ------------------------------------------------------------------ writer */

static int lock_for(int fd, unsigned wait_ms)
{
	uint64_t until = host_boot_ns() + (uint64_t)wait_ms * 1000000;
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_from_errno(errno);
		if (host_boot_ns() >= until)
			return ERR_BUSY;
		nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
	}
	return 0;
}

/* A predecessor's file: same size, head and partition, else it is not one. */
static int take_over(int fd, uint32_t partition, struct stats **out)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_from_errno(errno);
	if (!S_ISREG(st.st_mode) || st.st_size != (off_t)sizeof(struct stats))
		return ERR_FORMAT;
	struct stats *map =
		mmap(NULL, sizeof(struct stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_from_errno(errno);
	int err = segment_check(map, sizeof(struct stats), &spec);
	if (!err && map->partition != partition)
		err = ERR_FORMAT;
	if (err)
		munmap(map, sizeof(struct stats));
	else
		*out = map;
	return err;
}

static int create_new(int dirfd, uint32_t partition, struct stats **out, int *fd)
{
	struct segment seg;
	int err = segment_create(dirfd, STATS_NAME, &spec, 0640, &seg, fd);
	if (err)
		return err;
	((struct stats *)seg.map)->partition = partition; /* before anybody can find it */
	/* Nobody can hold a file that has just been made: this never waits. */
	err = lock_for(*fd, 0);
	if (!err)
		err = segment_publish(dirfd, STATS_NAME);
	if (err) {
		close(*fd);
		segment_detach(&seg);
	}
	*out = seg.map;
	return err;
}

static int open_existing(
	int dirfd, uint32_t partition, unsigned wait_ms, struct stats **out, int *fd)
{
	*fd = openat(dirfd, STATS_NAME, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0)
		return err_from_errno(errno);
	int err = lock_for(*fd, wait_ms);
	if (!err)
		err = take_over(*fd, partition, out);
	if (err)
		close(*fd);
	return err;
}

int stats_create(int dirfd, uint32_t partition, uint64_t generation, unsigned wait_ms,
	struct stats **stats, int *fd)
{
	int err = open_existing(dirfd, partition, wait_ms, stats, fd);
	/* Of another version, and nobody holds it: its counters are in the store too. */
	if (err == ERR_NOT_FOUND || err == ERR_FORMAT)
		err = create_new(dirfd, partition, stats, fd);
	if (err)
		return err;
	stats_set(*stats, generation, generation);
	stats_set(*stats, pid, getpid());
	stats_set(*stats, phase, PHASE_STARTING);
	stats_set(*stats, heartbeat, host_boot_ns());
	return 0;
}

/* ------------------------------------------------------------------ reader */

int stats_attach(int dirfd, struct segment *seg)
{
	return segment_attach(dirfd, STATS_NAME, &spec, seg);
}

static void copy_from(const struct stats *stats, struct stats_copy *copy)
{
	copy->partition = stats->partition;
#define X(name) copy->name = stats_get(stats, name);
	STATS_FIELDS(X)
#undef X
	for (int i = 0; i < SKIP_REASONS; i++)
		copy->skipped[i] = stats_get(stats, skipped[i]);
}

void stats_copy(const struct segment *seg, struct stats_copy *copy)
{
	copy_from(seg->map, copy);
}

int stats_pread(int dirfd, const char *name, struct stats_copy *copy)
{
	struct stats stats;
	char path[NAME_MAX + 1];
	int n = snprintf(path, sizeof path, "%s/%s", name, STATS_NAME);
	if (n < 0 || (size_t)n >= sizeof path)
		return ERR_INVALID;
	int fd = openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return err_from_errno(errno);
	ssize_t got = pread(fd, &stats, sizeof stats, 0);
	int err = got < 0 ? err_from_errno(errno) : 0;
	close(fd);
	if (err)
		return err;
	if (got != (ssize_t)sizeof stats)
		return ERR_FORMAT;
	err = segment_check(&stats, sizeof stats, &spec);
	if (!err)
		copy_from(&stats, copy);
	return err;
}
