/*
 * rundir.c - the run directory: opened safely, one supervisor, generations made and evicted.
 *
 *	p7.1234 --rename--> trash.p7.1234 --thread: unlink--> gone
 *
 * Evicting is a rename, which is atomic and quick; unlinking gigabytes is not,
 * so it happens in a thread that nobody waits for.
 *
 * Runs in: supervisor.  Blocks in: nowhere but the thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "shm/log.h"
#include "shm/segment.h"
#include "shm/table.h"
#include "supervisor/rundir.h"

#define TRASH "trash."

struct rundir {
	int fd, lock_fd;
	uint64_t last_generation;
	uint64_t leftover[TABLE_CAPACITY];
	pthread_t sweeper;
	sem_t work;
	_Atomic bool stop;
	bool sweeping;
};

/* ------------------------------------------------------- the unlinking thread */

/* One level deep is all that a generation has; deeper is not ours and stays. */
static void empty_directory(int dirfd)
{
	int copy = dup(dirfd);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;
	if (!dir) {
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((d = readdir(dir)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			unlinkat(dirfd, d->d_name, 0);
	closedir(dir);
}

/* "trash." and one of our names; what somebody else calls trash is not ours to empty. */
static bool is_trash(const char *name)
{
	uint32_t partition;
	uint64_t generation;
	return !strncmp(name, TRASH, strlen(TRASH)) &&
	       table_dir_parse(name + strlen(TRASH), &partition, &generation);
}

static void remove_trash(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		empty_directory(fd);
		FAULT("trash.emptied");
		close(fd);
	}
	if (fd < 0 || unlinkat(dirfd, name, AT_REMOVEDIR)) /* tried again with the next */
		log_warn("trash.kept", "name=%s error=\"%s\"", name, strerror(errno));
}

/* An own description: readdir of one that is shared would move under the others' feet. */
static DIR *open_listing(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

static void sweep_trash(int dirfd)
{
	errno = 0;
	DIR *dir = open_listing(dirfd);
	struct dirent *d;
	while (dir && (errno = 0, d = readdir(dir)))
		if (is_trash(d->d_name))
			remove_trash(dirfd, d->d_name);
	if (errno)
		log_warn("trash.kept", "name=* error=\"%s\"", strerror(errno));
	if (dir)
		closedir(dir);
}

static void *sweeper_main(void *arg)
{
	struct rundir *rd = arg;
	bool last;
	do {
		while (sem_wait(&rd->work) && errno == EINTR)
			;
		last = rd->stop; /* before the sweep: what came during it is swept too */
		sweep_trash(rd->fd);
	} while (!last);
	return NULL;
}

/* --------------------------------------------------------------------- opening */

static int refuse(char why[512], int err, const char *path, const char *what)
{
	snprintf(why, 512, "%s: %s", path, what);
	return err;
}

static int open_directory(const char *path, char why[512])
{
	bool made = !mkdir(path, 0750);
	if (!made && errno != EEXIST) {
		int errnum = errno;
		snprintf(why, 512, "%s: cannot create it: %s; create it for this user, mode 2750",
			path, strerror(errnum));
		errno = errnum;
		return -1;
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		snprintf(why, 512, "%s: %s; run_dir must be a directory of this user, not a link",
			path, strerror(errno));
	else if (made && fchmod(fd, 02750)) { /* mkdir takes no setgid bit, and obeys the umask */
		int errnum = errno;
		snprintf(why, 512, "%s: cannot set its mode: %s; set it to 2750", path,
			strerror(errnum));
		close(fd);
		errno = errnum;
		fd = -1;
	}
	return fd;
}

static int check_directory(int fd, const char *path, char why[512])
{
	struct stat st;
	if (fstat(fd, &st))
		return refuse(why, ERR_IO, path, strerror(errno));
	if (st.st_uid != geteuid()) {
		snprintf(why, 512,
			"%s: belongs to user %u, not to us (%u); chown it or choose another "
			"run_dir",
			path, st.st_uid, geteuid());
		return ERR_ACCESS;
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return refuse(why, ERR_ACCESS, path,
			"others may write into it; chmod it to 2750: who can replace the stores "
			"can forge answers");
	return 0;
}

static int set_group(int fd, const char *path, const char *group, char why[512])
{
	if (!group[0])
		return 0;
	struct group *gr = getgrnam(group);
	if (!gr) {
		snprintf(why, 512,
			"supervisor.reader_group: no group %s on this machine; create it", group);
		return ERR_INVALID;
	}
	if (fchown(fd, (uid_t)-1, gr->gr_gid) || fchmod(fd, 02750)) {
		snprintf(why, 512,
			"%s: cannot give it to group %s: %s; the user of tallyd must be in that "
			"group",
			path, group, strerror(errno));
		return ERR_ACCESS;
	}
	return 0;
}

/* The lock file says "<pid> <last generation>": a clock set back must not make a number twice. */
static bool read_lock(int fd, char pid[16], uint64_t *generation)
{
	char text[64];
	ssize_t n;
	do
		n = pread(fd, text, sizeof text - 1, 0);
	while (n < 0 && errno == EINTR);
	text[n > 0 ? n : 0] = 0;
	size_t len = strspn(text, "0123456789");
	*generation = strtoull(text + len, NULL, 10);
	if (*generation > TABLE_GENERATION_MAX) /* not a number of ours */
		*generation = 0;
	snprintf(pid, 16, "%.*s", (int)(len < 15 ? len : 15), text);
	return n >= 0;
}

static int write_lock(const struct rundir *rd)
{
	char text[64];
	int n = snprintf(text, sizeof text, "%d %" PRIu64 "\n", getpid(), rd->last_generation);
	return pwrite(rd->lock_fd, text, (size_t)n, 0) == n ? 0 : ERR_FULL;
}

/* Nobody may be told to remove it because we are out of descriptors. */
static bool is_foreign(int errnum)
{
	return errnum == ELOOP || errnum == ENXIO || errnum == EISDIR || errnum == EACCES;
}

static int open_lock(struct rundir *rd, const char *path, char why[512])
{
	rd->lock_fd = openat(rd->fd, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0440);
	if (rd->lock_fd < 0 && errno == EEXIST)
		rd->lock_fd = segment_open_own(rd->fd, "lock");
	struct stat st;
	bool failed = rd->lock_fd < 0 || fstat(rd->lock_fd, &st);
	if (failed && !is_foreign(errno)) {
		int err = err_from_errno(errno);
		snprintf(why, 512, "%s/lock: %s", path, strerror(errno));
		return err;
	}
	if (failed || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
		snprintf(why, 512, "%s/lock: is not a file of ours; remove it", path);
		return ERR_ACCESS;
	}
	return 0;
}

static int take_lock(struct rundir *rd, const char *path, char why[512])
{
	char pid[16];
	uint64_t last;
	int err = open_lock(rd, path, why);
	if (err)
		return err;
	bool locked = !flock(rd->lock_fd, LOCK_EX | LOCK_NB);
	if (!locked && errno != EWOULDBLOCK)
		return refuse(why, ERR_IO, path, "cannot lock its lock file");
	bool known = read_lock(rd->lock_fd, pid, &last);
	if (!locked) {
		snprintf(why, 512,
			"%s: another tallyd (pid %s) runs here; stop it or choose another run_dir",
			path, pid[0] ? pid : "unknown");
		return ERR_BUSY;
	}
	if (!known)
		return refuse(why, ERR_IO, path, "cannot read its lock file");
	FAULT("rundir.locked");
	rd->last_generation = (uint64_t)host_wall_ms() * 1000;
	if (last > rd->last_generation)
		rd->last_generation = last;
	if (ftruncate(rd->lock_fd, 0) || write_lock(rd))
		return refuse(why, ERR_IO, path,
			"cannot write its lock file: is the file system full? make room, or "
			"choose another run_dir");
	return 0;
}

/* -------------------------------------------------------------------- leftovers */

static bool is_ours(int dirfd, const char *name)
{
	struct stat st;
	return !fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static void consider(struct rundir *rd, const char *name)
{
	uint32_t partition;
	uint64_t generation;
	if (!table_dir_parse(name, &partition, &generation))
		return;
	if (generation > rd->last_generation)
		rd->last_generation = generation; /* whoever's it is: never make it again */
	if (!is_ours(rd->fd, name) || partition >= TABLE_CAPACITY || !generation) {
		log_warn("leftover.foreign", "name=%s action=left", name);
		return;
	}
	uint64_t *kept = &rd->leftover[partition];
	uint64_t older = generation > *kept ? *kept : generation;
	if (generation > *kept)
		*kept = generation;
	if (older)
		rundir_evict(rd, partition, older);
}

static bool is_known(const char *name)
{
	static const char *const known[] = {".", "..", "lock", "table", "table.new", "limits",
		"limits.new", "history", "history.new", "settings", "settings.new"};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(name, known[i]))
			return true;
	return is_trash(name) || !strncmp(name, "query.", 6);
}

static int find_leftovers(struct rundir *rd)
{
	DIR *dir = open_listing(rd->fd);
	struct dirent *d;
	uint32_t partition;
	uint64_t generation;
	if (!dir)
		return ERR_IO;
	while ((errno = 0, d = readdir(dir))) {
		consider(rd, d->d_name);
		if (!is_known(d->d_name) && !table_dir_parse(d->d_name, &partition, &generation)) {
			char name[300];
			log_warn("leftover.foreign", "name=%s action=left",
				log_quote(name, sizeof name, d->d_name));
		}
	}
	int failed = errno;
	FAULT("rundir.listed");
	closedir(dir);
	return failed ? ERR_IO : 0;
}

static int open_all(struct rundir *rd, const char *path, const char *reader_group, char why[512])
{
	int err = check_directory(rd->fd, path, why);
	if (!err)
		err = set_group(rd->fd, path, reader_group, why);
	if (!err)
		err = take_lock(rd, path, why);
	if (err)
		return err;
	if (pthread_create(&rd->sweeper, NULL, sweeper_main, rd))
		return refuse(why, ERR_NOMEM, path, "cannot start a thread");
	rd->sweeping = true;
	err = find_leftovers(rd);
	if (err)
		return refuse(why, err, path, "cannot be listed");
	sem_post(&rd->work);
	return 0;
}

int rundir_open(const char *path, const char *reader_group, struct rundir **out, char why[512])
{
	struct rundir *rd = calloc(1, sizeof *rd);
	if (!rd)
		return refuse(why, ERR_NOMEM, path, "out of memory");
	rd->lock_fd = -1;
	sem_init(&rd->work, 0, 0);
	rd->fd = open_directory(path, why);
	int err = rd->fd < 0 ? err_from_errno(errno) : open_all(rd, path, reader_group, why);
	if (err)
		rundir_close(&rd);
	*out = rd;
	return err;
}

void rundir_close(struct rundir **rundir)
{
	struct rundir *rd = *rundir;
	if (!rd)
		return;
	if (rd->sweeping) {
		rd->stop = true;
		sem_post(&rd->work);
		pthread_join(rd->sweeper, NULL);
	}
	sem_destroy(&rd->work);
	if (rd->lock_fd >= 0)
		close(rd->lock_fd);
	if (rd->fd >= 0)
		close(rd->fd);
	free(rd);
	*rundir = NULL;
}

int rundir_fd(const struct rundir *rundir)
{
	return rundir->fd;
}

/* ------------------------------------------------------------------ generations */

uint64_t rundir_take_leftover(struct rundir *rundir, uint32_t partition)
{
	uint64_t generation = partition < TABLE_CAPACITY ? rundir->leftover[partition] : 0;
	if (generation)
		rundir->leftover[partition] = 0;
	return generation;
}

unsigned rundir_evict_leftovers(struct rundir *rundir)
{
	unsigned n = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		uint64_t generation = rundir_take_leftover(rundir, p);
		if (generation && !rundir_evict(rundir, p, generation))
			n++;
	}
	return n;
}

int rundir_new_generation(struct rundir *rundir, uint32_t partition, uint64_t *generation)
{
	char name[TABLE_DIR_NAME_SIZE];
	if (rundir->last_generation >= TABLE_GENERATION_MAX) /* a strange leftover has said so */
		return ERR_INVALID;
	*generation = ++rundir->last_generation;
	int err = write_lock(rundir);
	if (err)
		return err;
	FAULT("generation.numbered");
	table_dir_name(name, partition, *generation);
	if (mkdirat(rundir->fd, name, 02750))
		return err_from_errno(errno);
	FAULT("generation.made");
	/* mkdir obeys the umask; the readers' group must be able to look inside. */
	return fchmodat(rundir->fd, name, 02750, 0) ? err_from_errno(errno) : 0;
}

int rundir_evict(struct rundir *rundir, uint32_t partition, uint64_t generation)
{
	char name[TABLE_DIR_NAME_SIZE], trash[TABLE_DIR_NAME_SIZE + sizeof TRASH];
	table_dir_name(name, partition, generation);
	snprintf(trash, sizeof trash, TRASH "%s", name);
	int failed = renameat(rundir->fd, name, rundir->fd, trash);
	if (failed && errno == ENOENT)
		return 0;
	if (failed) {
		log_error("evict.failed", "name=%s error=\"%s\"", name, strerror(errno));
		return err_from_errno(errno);
	}
	FAULT("evict.trashed");
	sem_post(&rundir->work);
	return 0;
}
