/*
 * confine_files.c - which files a process may still open, by Landlock.
 *
 *	ruleset: access rights that are handled -> a rule for each path -> restrict_self
 *
 * Rules are for directories and what is beneath, now and later, and go with the
 * directory when it is renamed.  A file has a rule of its own only where nobody
 * replaces it: a rule is for an inode.
 *
 * Runs in: worker, query process, before there are threads.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/confine_private.h"
#include "shm/log.h"

/* Younger than the headers of Debian 12: the numbers are the kernel's. */
#define FS_TRUNCATE   (UINT64_C(1) << 14) /* ABI 3 */
#define FS_IOCTL_DEV  (UINT64_C(1) << 15) /* ABI 5 */
#define NET_BIND      (UINT64_C(1) << 0)  /* ABI 4 */
#define NET_CONNECT   (UINT64_C(1) << 1)  /* ABI 4 */
#define SCOPE_SOCKETS (UINT64_C(1) << 0)  /* ABI 6: abstract ones */
#define SCOPE_SIGNALS (UINT64_C(1) << 1)  /* ABI 6 */
#define RULE_NET_PORT 2

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

struct net_port_attr {
	uint64_t access, port;
};

#define READS	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITES	(READS | LANDLOCK_ACCESS_FS_WRITE_FILE)
#define OF_FILE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
#define OWNS                                                                                       \
	(WRITES | FS_TRUNCATE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |       \
		LANDLOCK_ACCESS_FS_REMOVE_FILE)

/* Rights of this ABI: what is not handled is not restricted. */
static struct ruleset_attr handled(int abi, enum confine_role role)
{
	struct ruleset_attr attr = {.fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1};

	if (abi >= 2)
		attr.fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		attr.fs |= FS_TRUNCATE;
	if (abi >= 4)
		attr.net = NET_BIND | (role == CONFINE_QUERY ? NET_CONNECT : 0);
	if (abi >= 5)
		attr.fs |= FS_IOCTL_DEV;
	if (abi >= 6)
		attr.scoped = SCOPE_SOCKETS | SCOPE_SIGNALS;
	return attr;
}

/* An older kernel does not take more than it knows. */
static size_t attr_size(int abi)
{
	return abi < 4	 ? sizeof(uint64_t)
	       : abi < 6 ? 2 * sizeof(uint64_t)
			 : sizeof(struct ruleset_attr);
}

/* What any program reads: libraries loaded late, names, certificates, time zones, itself. */
static void allow_system(struct confine *confine)
{
	static const char *const readable[] = {"/etc", "/usr", "/lib", "/lib64", "/proc", "/sys",
		"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/run/systemd/resolve",
		"/run/NetworkManager", "/run/resolvconf", "/run/nscd", "/var/lib/sss"};

	for (size_t i = 0; i < sizeof(readable) / sizeof(readable[0]); i++)
		confine_allow(confine, readable[i], CONFINE_READ);
	confine_allow(confine, "/dev/null", CONFINE_WRITE);
	confine_allow_file(confine, "/etc/resolv.conf");
}

/* Libraries may lie elsewhere, and load others from beside them. */
static int allow_library(struct dl_phdr_info *info, size_t size, void *confine)
{
	(void)size;
	if (info->dlpi_name && info->dlpi_name[0] == '/')
		confine_allow_file(confine, info->dlpi_name);
	return 0;
}

void confine_begin(struct confine *confine, enum confine_role role)
{
	struct ruleset_attr attr;
	long abi = syscall(
		SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);

	*confine = (struct confine){.role = role, .ruleset = -1};
	if (CONFINE_SANITIZED || abi < 1)
		return;
	confine->abi = (int)abi;
	attr = handled(confine->abi, role);
	confine->ruleset =
		(int)syscall(SYS_landlock_create_ruleset, &attr, attr_size(confine->abi), 0);
	allow_system(confine);
	dl_iterate_phdr(allow_library, confine);
}

static uint64_t rights(const struct confine *confine, enum confine_access access, bool is_dir)
{
	static const uint64_t of[] = {
		[CONFINE_READ] = READS, [CONFINE_WRITE] = WRITES, [CONFINE_OWN] = OWNS};

	return of[access] & handled(confine->abi, confine->role).fs &
	       (is_dir ? UINT64_MAX : OF_FILE);
}

void confine_allow(struct confine *confine, const char *path, enum confine_access access)
{
	struct landlock_path_beneath_attr rule;
	struct stat st;
	bool failed;

	if (confine->ruleset < 0)
		return;
	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0) {
		if (errno != ENOENT && errno != EACCES && errno != ENOTDIR)
			log_warn("confine.left_out", "path=%s error=\"%s\"", path, strerror(errno));
		return;
	}
	failed = fstat(rule.parent_fd, &st) != 0;
	if (!failed) {
		rule.allowed_access = rights(confine, access, S_ISDIR(st.st_mode));
		failed = syscall(SYS_landlock_add_rule, confine->ruleset,
				 LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0;
	}
	if (failed)
		log_warn("confine.left_out", "path=%s error=\"%s\"", path, strerror(errno));
	close(rule.parent_fd);
}

/* Never the root directory: that would be everything. */
static void allow_directory_of(struct confine *confine, char *path)
{
	const char *dir = dirname(path);

	if (strcmp(dir, "/") != 0 && strcmp(dir, ".") != 0)
		confine_allow(confine, dir, CONFINE_READ);
}

void confine_allow_file(struct confine *confine, const char *path)
{
	char named[PATH_MAX], real[PATH_MAX];

	if (confine->ruleset < 0)
		return;
	confine_allow(confine, path, CONFINE_READ);
	if (realpath(path, real))
		allow_directory_of(confine, real);
	snprintf(named, sizeof(named), "%s", path);
	allow_directory_of(confine, named);
}

void confine_connect(struct confine *confine, uint16_t port)
{
	struct net_port_attr rule = {.access = NET_CONNECT, .port = port};

	if (confine->ruleset >= 0 && confine->abi >= 4 &&
		syscall(SYS_landlock_add_rule, confine->ruleset, RULE_NET_PORT, &rule, 0) != 0)
		log_warn("confine.left_out", "port=%u error=\"%s\"", (unsigned)port,
			strerror(errno));
}

int confine_files_enter(struct confine *confine)
{
	int err = 0;

	if (confine->ruleset < 0)
		return confine->abi ? EINVAL : ENOSYS;
	if (syscall(SYS_landlock_restrict_self, confine->ruleset, 0) != 0)
		err = errno;
	close(confine->ruleset);
	confine->ruleset = -1;
	return err;
}
