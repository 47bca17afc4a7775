/*
 * host.c - what the machine says of itself: clocks, boot, namespace.
 *
 * Runs in: every process.
 */
#include "shm/host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"

static struct timespec read_clock(clockid_t id)
{
	struct timespec ts;

	must(clock_gettime(id, &ts) == 0);
	return ts;
}

int64_t host_wall_ms(void)
{
	struct timespec ts = read_clock(CLOCK_REALTIME);

	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

uint64_t host_boot_ns(void)
{
	struct timespec ts = read_clock(CLOCK_BOOTTIME);

	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* "1b4e28ba-2fa1-..." -> 16 bytes. */
static int parse_uuid(const char *text, size_t len, uint8_t id[HOST_BOOT_ID_SIZE])
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < 2 * HOST_BOOT_ID_SIZE; i++) {
		int digit = hex_digit(text[i]);

		if (text[i] == '-')
			continue;
		if (digit < 0)
			return ERR_IO;
		id[n / 2] = (uint8_t)(n % 2 ? id[n / 2] | digit : digit << 4);
		n++;
	}
	return n == 2 * HOST_BOOT_ID_SIZE ? 0 : ERR_IO;
}

int host_boot_id(uint8_t id[HOST_BOOT_ID_SIZE])
{
	char text[64];
	ssize_t n;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return ERR_IO;
	n = read(fd, text, sizeof(text));
	close(fd);
	return n < 0 ? ERR_IO : parse_uuid(text, (size_t)n, id);
}

uint64_t host_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

uint64_t host_random(void)
{
	uint64_t value;
	ssize_t n;

	do
		n = getrandom(&value, sizeof(value), 0);
	while (n < 0 && errno == EINTR);
	must_get(n == (ssize_t)sizeof(value));
	return value;
}
