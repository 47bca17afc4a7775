/*
 * confine_calls.c - which system calls a process may still make, by seccomp.
 *
 *	allowed, some by their arguments | forbidden: SIGSYS | all others: ENOSYS
 *
 * The lists were made from what the programs do in the system tests (strace),
 * and widened by the calls of the same kind that another version of a library
 * may take instead.
 *
 * Runs in: worker, query process, before there are threads.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/confine_private.h"

#define NAME_MEMORY 0x53564d41 /* PR_SET_VMA of linux/prctl.h */

/* clang-format off */
static const int allowed[] = {
	/* files: which ones is Landlock's affair */
	SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(read),
	SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(preadv), SCMP_SYS(preadv2), SCMP_SYS(write),
	SCMP_SYS(writev), SCMP_SYS(pwrite64), SCMP_SYS(pwritev), SCMP_SYS(pwritev2), SCMP_SYS(lseek),
	SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
	SCMP_SYS(statfs), SCMP_SYS(fstatfs), SCMP_SYS(access), SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getcwd),
	SCMP_SYS(getdents), SCMP_SYS(getdents64), SCMP_SYS(fcntl), SCMP_SYS(flock), SCMP_SYS(dup),
	SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(pipe), SCMP_SYS(pipe2), SCMP_SYS(fadvise64),
	SCMP_SYS(umask),
	/* memory */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(msync),
	SCMP_SYS(membarrier),
	/* waiting */
	SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(eventfd), SCMP_SYS(eventfd2),
	SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime), SCMP_SYS(timerfd_gettime),
	/* time */
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(times),
	/* threads and signals */
	SCMP_SYS(clone3), /* but see load_quiet */
	SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list),
	SCMP_SYS(set_tid_address), SCMP_SYS(rseq), SCMP_SYS(arch_prctl), SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler), SCMP_SYS(getpriority), SCMP_SYS(getcpu), SCMP_SYS(exit),
	SCMP_SYS(exit_group), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(rt_sigsuspend), SCMP_SYS(sigaltstack), SCMP_SYS(pause), SCMP_SYS(restart_syscall),
	/* who, where and how much */
	SCMP_SYS(getpid), SCMP_SYS(getppid), SCMP_SYS(gettid), SCMP_SYS(getpgrp), SCMP_SYS(getuid),
	SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getresuid),
	SCMP_SYS(getresgid), SCMP_SYS(getgroups), SCMP_SYS(capget), SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage), SCMP_SYS(sysinfo), SCMP_SYS(uname), SCMP_SYS(getrandom),
	/* sockets */
	SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(accept), SCMP_SYS(accept4),
	SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),
	SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg), SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg), SCMP_SYS(recvmmsg), SCMP_SYS(shutdown),
};

static const int of_worker[] = {
	SCMP_SYS(listen), SCMP_SYS(fallocate), SCMP_SYS(ftruncate), SCMP_SYS(chmod),
	SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(rename),
	SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
};

/* Nobody here makes them by mistake, and no library tries them for the better. */
static const int forbidden[] = {
	SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev), SCMP_SYS(pidfd_getfd), SCMP_SYS(mount), SCMP_SYS(umount2),
	SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsopen), SCMP_SYS(fsmount),
	SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns), SCMP_SYS(unshare), SCMP_SYS(bpf),
	SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(init_module),
	SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(reboot), SCMP_SYS(swapon),
	SCMP_SYS(swapoff), SCMP_SYS(acct), SCMP_SYS(iopl), SCMP_SYS(ioperm),
	SCMP_SYS(userfaultfd), SCMP_SYS(perf_event_open),
};
/* clang-format on */

static int add(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int rc = seccomp_rule_add(filter, action, calls[i], 0);

		if (rc != 0 && rc != -EDOM) /* EDOM: not on this architecture */
			return rc;
	}
	return 0;
}
#define ADD(filter, action, calls) add(filter, action, calls, sizeof(calls) / sizeof((calls)[0]))

struct by_argument {
	int call;
	unsigned n;
	struct scmp_arg_cmp args[2];
};

#define EQ(arg, value)                                                                             \
	{                                                                                          \
		arg, SCMP_CMP_EQ, value, 0                                                         \
	}
#define BITS(arg, mask, value)                                                                     \
	{                                                                                          \
		arg, SCMP_CMP_MASKED_EQ, mask, value                                               \
	}

#define NEW_SPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | \
		CLONE_NEWCGROUP)

/* Allowed when all arguments are as said; each row is one way. */
static int add_by_argument(scmp_filter_ctx filter)
{
	const struct by_argument rows[] = {
		/* threads, not processes */
		{SCMP_SYS(clone), 1, {BITS(0, CLONE_THREAD | NEW_SPACES, CLONE_THREAD)}},
		/* code comes from files, and is not written to */
		{SCMP_SYS(mmap), 1, {BITS(2, PROT_EXEC, 0)}},
		{SCMP_SYS(mmap), 2,
			{BITS(2, PROT_EXEC | PROT_WRITE, PROT_EXEC), BITS(3, MAP_ANONYMOUS, 0)}},
		{SCMP_SYS(mprotect), 1, {BITS(2, PROT_EXEC, 0)}},
		{SCMP_SYS(socket), 1, {EQ(0, AF_UNIX)}},
		{SCMP_SYS(socket), 2, {EQ(0, AF_INET), EQ(2, 0)}},
		{SCMP_SYS(socket), 2, {EQ(0, AF_INET), EQ(2, IPPROTO_TCP)}},
		{SCMP_SYS(socket), 2, {EQ(0, AF_INET), EQ(2, IPPROTO_UDP)}},
		{SCMP_SYS(socket), 2, {EQ(0, AF_INET6), EQ(2, 0)}},
		{SCMP_SYS(socket), 2, {EQ(0, AF_INET6), EQ(2, IPPROTO_TCP)}},
		{SCMP_SYS(socket), 2, {EQ(0, AF_INET6), EQ(2, IPPROTO_UDP)}},
		/* getaddrinfo asks which addresses we have */
		{SCMP_SYS(socket), 2, {EQ(0, AF_NETLINK), EQ(2, 0)}},
		{SCMP_SYS(ioctl), 1, {EQ(1, FIONBIO)}},
		{SCMP_SYS(ioctl), 1, {EQ(1, FIONREAD)}},
		{SCMP_SYS(ioctl), 1, {EQ(1, TCGETS)}},
		/* to itself: abort, raise */
		{SCMP_SYS(kill), 1, {EQ(0, (scmp_datum_t)getpid())}},
		{SCMP_SYS(tgkill), 1, {EQ(0, (scmp_datum_t)getpid())}},
		{SCMP_SYS(prlimit64), 1, {EQ(0, 0)}},
		{SCMP_SYS(prctl), 1, {EQ(0, PR_SET_NAME)}},
		{SCMP_SYS(prctl), 1, {EQ(0, PR_GET_NAME)}},
		{SCMP_SYS(prctl), 1, {EQ(0, PR_GET_DUMPABLE)}},
		{SCMP_SYS(prctl), 1, {EQ(0, NAME_MEMORY)}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc = seccomp_rule_add_array(
			filter, SCMP_ACT_ALLOW, rows[i].call, rows[i].n, rows[i].args);

		if (rc != 0)
			return rc;
	}
	return 0;
}

/*
 * Each thread is begun by asking for clone3, whose flags a filter cannot see.  A filter of its own
 * says ENOSYS, because the other one would have the kernel log it each time.
 */
static int load_quiet(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int rc;

	if (filter == NULL)
		return -ENOMEM;
	rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

static int load_lists(enum confine_role role)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int rc;

	if (filter == NULL)
		return -ENOMEM;
	/* Best effort: the kernel's log tells which call it was; a tree is quicker than a list. */
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (rc == 0)
		rc = ADD(filter, SCMP_ACT_ALLOW, allowed);
	if (rc == 0 && role == CONFINE_WORKER)
		rc = ADD(filter, SCMP_ACT_ALLOW, of_worker);
	if (rc == 0)
		rc = add_by_argument(filter);
	if (rc == 0)
		rc = ADD(filter, SCMP_ACT_KILL_PROCESS, forbidden);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

int confine_calls_enter(enum confine_role role)
{
	int rc = load_quiet();

	return -(rc ? rc : load_lists(role));
}
