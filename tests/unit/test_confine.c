/*
 * test_confine.c - what a confined process can no longer do, tried from inside; and what it still can.
 *
 *	fork -> confine -> one try -> its errno is the exit code, or SIGSYS ends it
 */
#include "confine_fixture.h"

#include <linux/bpf.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

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
	if (confine_in_valgrind())
		return;
	assert_int_equal(confine_tried(CONFINE_WORKER, has_privileges), ENOENT);
	assert_int_equal(confine_tried(CONFINE_QUERY, has_privileges), ENOENT);
}

static int is_dumpable(void)
{
	errno = ENOENT;
	return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) ? 0 : -1;
}

static void confine_leaves_a_worker_its_core_and_a_query_process_none(void **state)
{
	(void)state;
	if (confine_cannot())
		return;
	assert_int_equal(confine_tried(CONFINE_WORKER, is_dumpable), 0);
	assert_int_equal(confine_tried(CONFINE_QUERY, is_dumpable), ENOENT);
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
	struct iovec mine = {&byte, 1}, its = {&confined, 1};

	return (int)process_vm_readv(getppid(), &mine, 1, &its, 1, 0);
}

static int do_mount(void)
{
	return mount("none", confined.owns, "tmpfs", 0, NULL);
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
	return chroot(confined.owns);
}

static void confine_kills_who_makes_an_intruders_call(void **state)
{
	static int (*const calls[])(void) = {do_execve, do_ptrace, do_vm_read, do_mount, do_unshare,
		do_bpf, do_module, do_kexec, do_chroot};

	(void)state;
	if (confine_cannot())
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(confine_tried(CONFINE_WORKER, calls[i]), KILLED);
		assert_int_equal(confine_tried(CONFINE_QUERY, calls[i]), KILLED);
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
	if (confine_cannot())
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(confine_tried(CONFINE_WORKER, calls[i]), ENOSYS);
		assert_int_equal(confine_tried(CONFINE_QUERY, calls[i]), ENOSYS);
	}
}

static int do_listen(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket.%d", confined.owns,
		getpid());
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return -1;
	return listen(fd, 1);
}

static int do_chmod(void)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/there", confined.writes);
	return chmod(path, 0660);
}

static int do_fchmod(void)
{
	return fchmod(confine_open_in(confined.writes, "there", O_RDONLY), 0660);
}

/* fchmodat2, which younger libraries take. */
static int do_fchmodat2(void)
{
	return (int)syscall(452, AT_FDCWD, confined.writes, 0770, 0);
}

static void confine_lets_no_query_process_change_modes(void **state)
{
	(void)state;
	if (confine_cannot())
		return;
	assert_int_equal(confine_tried(CONFINE_WORKER, do_chmod), 0);
	assert_int_equal(confine_tried(CONFINE_QUERY, do_chmod), ENOSYS);
	assert_int_equal(confine_tried(CONFINE_QUERY, do_fchmod), ENOSYS);
	assert_int_equal(confine_tried(CONFINE_QUERY, do_fchmodat2), ENOSYS);
}

static void confine_lets_a_worker_listen_and_no_query_process(void **state)
{
	(void)state;
	if (confine_cannot())
		return;
	assert_int_equal(confine_tried(CONFINE_WORKER, do_listen), 0);
	assert_int_equal(confine_tried(CONFINE_QUERY, do_listen), ENOSYS);
}

static void *thread(void *arg)
{
	return confine_open_in(confined.others, "there", O_RDONLY) < 0 && errno == EACCES ? arg
											  : NULL;
}

static int do_thread(void)
{
	pthread_t id;
	void *result = NULL;
	int err = pthread_create(&id, NULL, thread, &confined);

	if (err == 0)
		err = pthread_join(id, &result);
	errno = err ? err : ENOENT;
	return err || (!result && confine_has_landlock(1)) ? -1 : 0;
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
	if (confine_cannot())
		return;
	for (int role = CONFINE_WORKER; role <= CONFINE_QUERY; role++) {
		assert_int_equal(confine_tried(role, do_thread), 0);
		assert_int_equal(confine_tried(role, do_resolve), 0);
		assert_int_equal(confine_tried(role, do_raise), 128 + SIGTERM);
	}
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, confine_setup, scratch_teardown)
	const struct CMUnitTest tests[] = {
		T(confine_leaves_no_privileges),
		T(confine_leaves_a_worker_its_core_and_a_query_process_none),
		T(confine_kills_who_makes_an_intruders_call),
		T(confine_knows_no_other_calls),
		T(confine_lets_a_worker_listen_and_no_query_process),
		T(confine_lets_no_query_process_change_modes),
		T(confine_leaves_threads_names_and_signals_to_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
