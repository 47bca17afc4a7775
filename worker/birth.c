/*
 * birth.c - makes the process what a worker is, before anything else runs in it.
 *
 *	0 1 2 | HANDOFF_FD: sealed memfd, read once | HANDOFF_CONTROL_FD: end of file = supervisor
 * gone
 *
 * A worker never outlives its supervisor: the kernel kills it then
 * (PR_SET_PDEATHSIG), and the one that was late is caught by comparing the
 * parent with the pid in the handoff, after the signal has been asked for.
 *
 * Runs in: worker, before any thread.
 */
#include "birth.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quit.h"

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/log.h"

static void ignore_signals(void)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ};

	/* The supervisor stops us through the control socket, or by SIGKILL. */
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
}

static void close_strangers(void)
{
	DIR *fds = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned closed = 0;

	if (!fds)
		return;
	while ((entry = readdir(fds)) != NULL) {
		int fd = atoi(entry->d_name);

		if (fd > HANDOFF_CONTROL_FD && fd != dirfd(fds)) {
			close(fd);
			closed++;
		}
	}
	closedir(fds);
	if (closed)
		log_warn("worker.strange_descriptors", "closed=%u", closed);
}

/* Best effort: when memory is short, a worker is the one that costs least. */
static void volunteer_for_oom(void)
{
	FILE *file = fopen("/proc/self/oom_score_adj", "we");

	if (!file)
		return;
	fputs("500", file);
	fclose(file);
}

void birth(struct handoff *handoff)
{
	char name[32];
	int err;

	log_init("worker", -1, LOG_LEVEL_INFO);
	ignore_signals();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	FAULT("birth.begin");
	err = handoff_unpack(HANDOFF_FD, handoff);
	if (err) {
		log_error("worker.no_handoff", "error=%s hint=\"%s\"", err_word(err),
			"tally-worker is started by tallyd, of the same version");
		_exit(EXIT_HANDOFF);
	}
	close(HANDOFF_FD);
	FAULT("birth.handed");
	log_init("worker", (int)handoff->partition, handoff->log_level);
	log_set_format(handoff->log_format);
	if (getppid() != handoff->supervisor_pid)
		quit_orphan("the supervisor ended before we started");
	close_strangers();
	if (fcntl(HANDOFF_CONTROL_FD, F_SETFD, FD_CLOEXEC) != 0 ||
		fcntl(HANDOFF_CONTROL_FD, F_SETFL, O_NONBLOCK) != 0) {
		log_error("worker.no_control", "fd=%d", HANDOFF_CONTROL_FD);
		_exit(EXIT_HANDOFF);
	}
	/* The kernel keeps 15 bytes. */
	snprintf(name, sizeof(name), handoff->partition < 100 ? "tally-worker/%u" : "tally-work/%u",
		handoff->partition);
	prctl(PR_SET_NAME, name);
	umask(0007);
	volunteer_for_oom();
	FAULT("birth.done");
}
