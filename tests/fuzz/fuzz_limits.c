/*
 * fuzz_limits.c - the compiled limits, mapped: hostile bytes, then every kind of look-up.
 *
 *	input: the file.  Its size is put into the head, or nothing else would ever be reached.
 */
#include <fcntl.h>

#include "fuzz.h"
#include "mapped.h"

#include "shm/limits.h"

#define SIZE_AT 16 /* of the size in struct segment_head */

static char path[] = "/dev/shm/tally-fuzz-XXXXXX";
static int dir = -1;

static void remove_dir(void)
{
	unlinkat(dir, LIMITS_NAME, 0);
	rmdir(path);
}

static void make_dir(void)
{
	if (dir < 0) {
		hold(mkdtemp(path) != NULL);
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		hold(dir >= 0);
		atexit(remove_dir);
	}
}

static void write_file(const uint8_t *data, size_t len)
{
	int fd = openat(dir, LIMITS_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t size = len;

	hold(fd >= 0);
	hold(write(fd, data, len) == (ssize_t)len);
	if (len >= SIZE_AT + sizeof(size))
		hold(pwrite(fd, &size, sizeof(size), SIZE_AT) == sizeof(size));
	close(fd);
}

static void look_up(const struct limits *limits, const char *tenant, size_t len)
{
	struct limits_entry entry;
	const char *name;
	uint64_t streams, again;
	size_t n;

	limits_find(limits, tenant, len, &entry);
	hold(entry.streams >= 1);
	for (uint32_t i = 0; i < entry.n_policies; i++) {
		limits_policy_at(limits, &entry, i, &name, &n, &streams);
		hold(n <= LIMITS_NAME_MAX && streams >= 1);
		hold(memchr(name, '\0', n) == NULL);
		hold(limits_policy(limits, &entry, name, n, &again) && again == streams);
		hold(limits_share(streams, 1, 7) >= 1);
		limits_spread(streams, 3, 7);
	}
	limits_policy(limits, &entry, "no such one", 11, &streams);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct limits limits;

	make_dir();
	write_file(data, len);
	if (limits_attach(dir, &limits) != 0)
		return 0;
	hold(limits_scope(&limits) <= LIMIT_PARTITION);
	limits_version(&limits);
	look_up(&limits, "", 0);
	look_up(&limits, "t", 1);
	look_up(&limits, "tenant-a", 8);
	/* The names in it are at its end. */
	for (size_t n = 1; n <= 16 && n <= len; n++)
		look_up(&limits, (const char *)data + len - n, n);
	limits_detach(&limits);
	return 0;
}
