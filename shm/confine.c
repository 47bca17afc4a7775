/*
 * confine.c - a process gives up what it does not need: the order of it, and capabilities.
 *
 *	capabilities -> no_new_privs -> (no core) -> Landlock -> seccomp -> one line
 *
 * seccomp last: it takes away the calls that the others are made with.
 *
 * Runs in: worker, query process, before there are threads.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/confine_private.h"
#include "shm/log.h"

/* All sets.  For a process that was not started as root there is nothing to do. */
static bool drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0}, now[2];

	/* The bounding set, while we may: it is what a set-user-ID program could get. */
	for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	syscall(SYS_capset, &head, none);
	if (syscall(SYS_capget, &head, now) != 0)
		return false;
	return memcmp(now, none, sizeof(none)) == 0;
}

/* "yes", or why not. */
static const char *outcome(int err, char out[64])
{
	if (CONFINE_SANITIZED)
		return "sanitizer";
	if (err == ENOSYS || err == EOPNOTSUPP)
		return "unknown_to_this_kernel";
	snprintf(out, 64, "errno_%d", err);
	return err ? out : "yes";
}

/* In force, or a kernel without it: that is known. */
static bool is_as_wished(int err)
{
	return err == 0 || err == ENOSYS || err == EOPNOTSUPP;
}

void confine_enter(struct confine *confine)
{
	char files_text[64], calls_text[64];
	bool no_capabilities = drop_capabilities(), no_new_privs;
	int files = 0, calls = 0;

	no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
	if (!CONFINE_SANITIZED) {
		if (confine->role ==
			CONFINE_QUERY) /* it holds keys, and its memory is nobody's business */
			prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		files = confine_files_enter(confine);
		calls = confine_calls_enter(confine->role);
	}
	log_line(no_new_privs && no_capabilities && is_as_wished(calls) && is_as_wished(files)
			 ? LOG_LEVEL_INFO
			 : LOG_LEVEL_WARN,
		"confine.on", "no_new_privs=%s capabilities=%s seccomp=%s landlock=%s abi=%d",
		no_new_privs ? "yes" : "no", no_capabilities ? "none" : "kept",
		outcome(calls, calls_text), outcome(files, files_text), confine->abi);
}
