/*
 * test_confine.c - what a confined process can no longer do, tried from inside; and what it still can.
 *
 *	fork -> confine -> one try -> its errno is the exit code, or SIGSYS ends it
 */
#include "scratch.h"

#include <linux/bpf.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "shm/confine_private.h"

#define KILLED (128 + SIGSYS)

/* Every child's; set before the fork. */
static struct {
	char reads[96], writes[96], owns[96], others[96];
	char file[160]; /* if any: one that may be read */
	uint16_t port;	/* of a listener, which may be connected to */
	uint16_t other_port;
} at;

static void path_of(char out[96], const struct scratch *s, const char *name)
{
	int fd;

	snprintf(out, 96, "%s/%s", s->path, name);
	assert_int_equal(mkdir(out, 0750), 0);
	fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch_write(fd, "there", "x", 1);
	close(fd);
}

static int setup(void **state)
{
	if (scratch_setup(state) != 0)
		return -1;
	path_of(at.reads, *state, "reads");
	path_of(at.writes, *state, "writes");
	path_of(at.owns, *state, "owns");
	path_of(at.others, *state, "others");
	return 0;
}

/* It knows neither seccomp nor Landlock. */
static bool in_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "valgrind");
}

/* The run time of a sanitizer makes calls of its own. */
static bool is_unconfinable(void)
{
	return CONFINE_SANITIZED || in_valgrind();
}

static struct confine confine;

static void confine_me(enum confine_role role)
{
	confine_begin(&confine, role);
	confine_allow(&confine, at.reads, CONFINE_READ);
	confine_allow(&confine, at.writes, CONFINE_WRITE);
	confine_allow(&confine, at.owns, CONFINE_OWN);
	if (at.file[0])
		confine_allow_file(&confine, at.file);
	if (at.port)
		confine_connect(&confine, at.port);
	confine_enter(&confine);
}

/* Its errno, 0 when it worked, or 128 + the signal. */
static int tried(enum confine_role role, int (*try)(void))
{
	pid_t pid = scratch_fork();

	if (pid)
		return scratch_wait(pid);
	confine_me(role);
	errno = 0;
	_exit(try() < 0 ? errno : 0);
}

static bool has_landlock(int abi)
{
	confine_begin(&confine, CONFINE_WORKER);
	if (confine.ruleset >= 0)
		close(confine.ruleset);
	return confine.abi >= abi;
}

static int open_in(const char *dir, const char *name, int flags)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, flags | O_CLOEXEC, 0640);
}

/* --- privileges ------------------------------------------------------------------------------ */

static int field(const char *name, unsigned long long *value)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "re");
	size_t len = strlen(name);
	int found = -1;

	while (status && fgets(line, sizeof(line), status))
		if (strncmp(line, name, len) == 0 && line[len] == ':') {
			*value = strtoull(line + len + 1, NULL, 16);
			found = 0;
		}
	if (status)
		fclose(status);
	return found;
}

static int has_privileges(void)
{
	static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapAmb"};
	unsigned long long value, bounding;

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		if (field(sets[i], &value) || value)
			return 0;
	/* Only root may make the bounding set smaller; for others nothing can come from it. */
	if (field("CapBnd", &bounding) || (geteuid() == 0 && bounding))
		return 0;
	errno = ENOENT;
	return !field("NoNewPrivs", &value) && value == 1 ? -1 : 0;
}

static void confine_leaves_no_privileges(void **state)
{
	(void)state;
	if (in_valgrind())
		return;
	assert_int_equal(tried(CONFINE_WORKER, has_privileges), ENOENT);
	assert_int_equal(tried(CONFINE_QUERY, has_privileges), ENOENT);
}

static int is_dumpable(void)
{
	errno = ENOENT;
	return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) ? 0 : -1;
}

static void confine_leaves_a_worker_its_core_and_a_query_process_none(void **state)
{
	(void)state;
	if (is_unconfinable())
		return;
	assert_int_equal(tried(CONFINE_WORKER, is_dumpable), 0);
	assert_int_equal(tried(CONFINE_QUERY, is_dumpable), ENOENT);
}

/* --- calls ----------------------------------------------------------------------------------- */

static int do_execve(void)
{
	char *argv[] = {(char *)"true", NULL};

	return execve("/bin/true", argv, NULL);
}

static int do_ptrace(void)
{
	return (int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}

static int do_vm_read(void)
{
	char byte;
	struct iovec mine = {&byte, 1}, its = {&at, 1};

	return (int)process_vm_readv(getppid(), &mine, 1, &its, 1, 0);
}

static int do_mount(void)
{
	return mount("none", at.owns, "tmpfs", 0, NULL);
}

static int do_unshare(void)
{
	return unshare(CLONE_NEWUSER);
}

static int do_bpf(void)
{
	union bpf_attr attr = {0};

	return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static int do_module(void)
{
	return (int)syscall(SYS_init_module, NULL, 0L, "");
}

static int do_kexec(void)
{
	return (int)syscall(SYS_kexec_load, 0L, 0L, NULL, 0L);
}

static int do_chroot(void)
{
	return chroot(at.owns);
}

static void confine_kills_who_makes_an_intruders_call(void **state)
{
	static int (*const calls[])(void) = {do_execve, do_ptrace, do_vm_read, do_mount, do_unshare,
		do_bpf, do_module, do_kexec, do_chroot};

	(void)state;
	if (is_unconfinable())
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(tried(CONFINE_WORKER, calls[i]), KILLED);
		assert_int_equal(tried(CONFINE_QUERY, calls[i]), KILLED);
	}
}

static int do_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid;
}

static int do_kill_parent(void)
{
	return kill(getppid(), 0);
}

static int do_packet_socket(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0);
}

static int do_io_uring(void)
{
	return (int)syscall(SYS_io_uring_setup, 1, NULL);
}

static int do_memfd(void)
{
	return memfd_create("code", MFD_CLOEXEC);
}

static int do_writable_code(void)
{
	void *map = mmap(
		NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return map == MAP_FAILED ? -1 : 0;
}

static int do_new_code(void)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return map == MAP_FAILED ? 0 : mprotect(map, 4096, PROT_READ | PROT_EXEC);
}

static int do_setuid(void)
{
	return setuid(65534);
}

static int do_personality(void)
{
	return (int)syscall(SYS_personality, 0x0040000 /* ADDR_NO_RANDOMIZE */);
}

static void confine_knows_no_other_calls(void **state)
{
	static int (*const calls[])(void) = {do_fork, do_kill_parent, do_packet_socket, do_io_uring,
		do_memfd, do_writable_code, do_new_code, do_setuid, do_personality};

	(void)state;
	if (is_unconfinable())
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(tried(CONFINE_WORKER, calls[i]), ENOSYS);
		assert_int_equal(tried(CONFINE_QUERY, calls[i]), ENOSYS);
	}
}

static int do_listen(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket.%d", at.owns, getpid());
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return -1;
	return listen(fd, 1);
}

static int do_chmod(void)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/there", at.writes);
	return chmod(path, 0660);
}

static int do_fchmod(void)
{
	return fchmod(open_in(at.writes, "there", O_RDONLY), 0660);
}

/* fchmodat2, which younger libraries take. */
static int do_fchmodat2(void)
{
	return (int)syscall(452, AT_FDCWD, at.writes, 0770, 0);
}

static void confine_lets_no_query_process_change_modes(void **state)
{
	(void)state;
	if (is_unconfinable())
		return;
	assert_int_equal(tried(CONFINE_WORKER, do_chmod), 0);
	assert_int_equal(tried(CONFINE_QUERY, do_chmod), ENOSYS);
	assert_int_equal(tried(CONFINE_QUERY, do_fchmod), ENOSYS);
	assert_int_equal(tried(CONFINE_QUERY, do_fchmodat2), ENOSYS);
}

static void confine_lets_a_worker_listen_and_no_query_process(void **state)
{
	(void)state;
	if (is_unconfinable())
		return;
	assert_int_equal(tried(CONFINE_WORKER, do_listen), 0);
	assert_int_equal(tried(CONFINE_QUERY, do_listen), ENOSYS);
}

static void *thread(void *arg)
{
	return open_in(at.others, "there", O_RDONLY) < 0 && errno == EACCES ? arg : NULL;
}

static int do_thread(void)
{
	pthread_t id;
	void *result = NULL;
	int err = pthread_create(&id, NULL, thread, &at);

	if (err == 0)
		err = pthread_join(id, &result);
	errno = err ? err : ENOENT;
	return err || (!result && has_landlock(1)) ? -1 : 0;
}

static int do_resolve(void)
{
	struct addrinfo hints = {.ai_flags = AI_ADDRCONFIG}, *list = NULL;

	errno = ENOENT;
	return getaddrinfo("localhost", "9092", &hints, &list) == 0 ? 0 : -1;
}

static int do_raise(void)
{
	raise(SIGTERM);
	return 0;
}

static void confine_leaves_threads_names_and_signals_to_itself(void **state)
{
	(void)state;
	if (is_unconfinable())
		return;
	for (int role = CONFINE_WORKER; role <= CONFINE_QUERY; role++) {
		assert_int_equal(tried(role, do_thread), 0);
		assert_int_equal(tried(role, do_resolve), 0);
		assert_int_equal(tried(role, do_raise), 128 + SIGTERM);
	}
}

/* --- files ----------------------------------------------------------------------------------- */

static int do_read_allowed(void)
{
	return open_in(at.reads, "there", O_RDONLY);
}

static int do_read_system(void)
{
	if (open("/proc/self/maps", O_RDONLY) < 0 || open("/etc/hosts", O_RDONLY) < 0)
		return -1;
	return open("/usr/share", O_RDONLY | O_DIRECTORY);
}

static int do_read_other(void)
{
	return open_in(at.others, "there", O_RDONLY);
}

static int do_write_read_only(void)
{
	return open_in(at.reads, "there", O_RDWR);
}

static int do_make_read_only(void)
{
	return open_in(at.reads, "new", O_WRONLY | O_CREAT);
}

static int do_write_etc(void)
{
	return open("/etc/passwd", O_WRONLY);
}

static int do_write_tmp(void)
{
	return open("/tmp/tally-unit-confine", O_WRONLY | O_CREAT, 0600);
}

static int do_write_written(void)
{
	int fd = open_in(at.writes, "there", O_RDWR | O_CREAT);

	return fd < 0 ? -1 : pwrite(fd, "y", 1, 0) == 1 ? 0 : -1;
}

static int do_make_written(void)
{
	return open_in(at.writes, "new", O_RDWR | O_CREAT);
}

static int do_cut_written(void)
{
	return open_in(at.writes, "there", O_RDWR | O_TRUNC);
}

/* Mode 0440 keeps table and limits from a query process: without capabilities it binds root too. */
static int do_write_kept(void)
{
	return open_in(at.writes, "kept", O_RDWR);
}

static int do_own(void)
{
	char from[160], to[160];
	int fd = open_in(at.owns, "new", O_RDWR | O_CREAT | O_EXCL);

	snprintf(from, sizeof(from), "%s/new", at.owns);
	snprintf(to, sizeof(to), "%s/renamed", at.owns);
	if (fd < 0 || fallocate(fd, 0, 0, 4096) != 0 || ftruncate(fd, 10) != 0 ||
		fchmod(fd, 0600) != 0 || rename(from, to) != 0)
		return -1;
	return unlink(to);
}

static int do_move_out(void)
{
	char from[160], to[160];

	snprintf(from, sizeof(from), "%s/there", at.owns);
	snprintf(to, sizeof(to), "%s/moved", at.writes);
	return rename(from, to);
}

static void confine_lets_nobody_write_where_it_may_not(void **state)
{
	char kept[160];

	(void)state;
	if (is_unconfinable())
		return;
	if (!has_landlock(1))
		skip();
	snprintf(kept, sizeof(kept), "%s/kept", at.writes);
	assert_int_equal(close(open(kept, O_RDWR | O_CREAT | O_CLOEXEC, 0440)), 0);
	for (int role = CONFINE_WORKER; role <= CONFINE_QUERY; role++) {
		assert_int_equal(tried(role, do_write_kept), EACCES);
		assert_int_equal(tried(role, do_read_allowed), 0);
		assert_int_equal(tried(role, do_read_system), 0);
		assert_int_equal(tried(role, do_read_other), EACCES);
		assert_int_equal(tried(role, do_write_read_only), EACCES);
		assert_int_equal(tried(role, do_make_read_only), EACCES);
		assert_int_equal(tried(role, do_write_etc), EACCES);
		assert_int_equal(tried(role, do_write_tmp), EACCES);
		assert_int_equal(tried(role, do_write_written), 0);
		assert_int_equal(tried(role, do_make_written), EACCES);
		if (has_landlock(3))
			assert_int_equal(tried(role, do_cut_written), EACCES);
	}
	assert_int_equal(tried(CONFINE_WORKER, do_own), 0);
	assert_int_equal(tried(CONFINE_WORKER, do_move_out), EACCES);
	assert_int_equal(access("/tmp/tally-unit-confine", F_OK), -1);
}

static int make_in(const char *dir, const char *name)
{
	int fd = open_in(dir, name, O_WRONLY | O_CREAT | O_EXCL);

	close(fd);
	return fd;
}

static int read_later(void)
{
	char later[128];

	snprintf(later, sizeof(later), "%s/later", at.reads);
	return open(at.file, O_RDONLY) < 0 ? -1 : open_in(later, "there", O_RDONLY);
}

/* A certificate that is renewed, by a rename and behind a link; the directory of a generation. */
static void confine_reads_what_came_later(void **state)
{
	char target[160], fresh[160], later[128], go = 0;
	int ends[2];
	pid_t pid;

	(void)state;
	if (is_unconfinable())
		return;
	snprintf(at.file, sizeof(at.file), "%s/link", at.owns);
	snprintf(target, sizeof(target), "%s/target", at.others);
	snprintf(fresh, sizeof(fresh), "%s/fresh", at.others);
	assert_int_equal(symlink(target, at.file), 0);
	assert_true(make_in(at.others, "target") >= 0);
	assert_int_equal(pipe(ends), 0);
	pid = scratch_fork();
	if (!pid) {
		confine_me(CONFINE_QUERY);
		_exit(read(ends[0], &go, 1) == 1 && read_later() >= 0 ? 0 : errno);
	}
	assert_true(make_in(at.others, "fresh") >= 0);
	snprintf(later, sizeof(later), "%s/later", at.reads);
	assert_int_equal(mkdir(later, 0750), 0);
	assert_true(make_in(later, "there") >= 0);
	assert_int_equal(rename(fresh, target), 0);
	assert_int_equal(write(ends[1], "g", 1), 1);
	assert_int_equal(scratch_wait(pid), 0);
	close(ends[0]);
	close(ends[1]);
	at.file[0] = '\0';
}

/* --- the network ----------------------------------------------------------------------------- */

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static int do_bind(void)
{
	struct sockaddr_in address = loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return bind(fd, (struct sockaddr *)&address, sizeof(address));
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

static int do_connect(void)
{
	return connect_to(at.port);
}

static int do_connect_other(void)
{
	return connect_to(at.other_port);
}

static int listener(uint16_t *port)
{
	struct sockaddr_in address = loopback(0);
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

static void confine_binds_nothing_and_connects_a_query_process_to_peers_only(void **state)
{
	int first, second;

	(void)state;
	if (is_unconfinable())
		return;
	if (!has_landlock(4))
		skip();
	first = listener(&at.port);
	second = listener(&at.other_port);
	assert_int_equal(tried(CONFINE_WORKER, do_bind), EACCES);
	assert_int_equal(tried(CONFINE_QUERY, do_bind), EACCES);
	assert_int_equal(tried(CONFINE_QUERY, do_connect), 0);
	assert_int_equal(tried(CONFINE_QUERY, do_connect_other), EACCES);
	/* A worker's brokers are where the cluster says. */
	assert_int_equal(tried(CONFINE_WORKER, do_connect_other), 0);
	close(first);
	close(second);
	at.port = 0;
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, scratch_teardown)
	const struct CMUnitTest tests[] = {
		T(confine_leaves_no_privileges),
		T(confine_leaves_a_worker_its_core_and_a_query_process_none),
		T(confine_kills_who_makes_an_intruders_call),
		T(confine_knows_no_other_calls),
		T(confine_lets_a_worker_listen_and_no_query_process),
		T(confine_lets_no_query_process_change_modes),
		T(confine_leaves_threads_names_and_signals_to_itself),
		T(confine_lets_nobody_write_where_it_may_not),
		T(confine_reads_what_came_later),
		T(confine_binds_nothing_and_connects_a_query_process_to_peers_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
