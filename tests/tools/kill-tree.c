/*
 * kill-tree.c - SIGKILLs a supervisor and sees that its children do not survive it.
 *
 *	kill-tree [--within MS] PID
 *
 *	SIGSTOP (it starts nothing more) -> its children, each held by a pidfd
 *	    -> SIGKILL -> every pidfd readable within MS?
 *
 * Children are those of this instant, one that has not executed its program
 * yet among them; a pidfd cannot be fooled by a number that is used again.
 *
 * Prints `children=N last_ms=MS`; exit code 1 when one was alive after MS
 * (default 1000), and then a line for each.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/tools/text.h"

#define CHILDREN_MAX 2048
#define STOP_MS	     2000

struct child {
	pid_t pid;
	char name[32];
};

static struct child children[CHILDREN_MAX];
static struct pollfd fds[CHILDREN_MAX];
static int n_children;

static _Noreturn void fail(const char *what, int number)
{
	fprintf(stderr, "kill-tree: %s: %d: %s\n", what, number, strerror(errno));
	exit(2);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* False when there is no such process any more. */
static bool read_stat(pid_t pid, char name[32], char *state, pid_t *parent)
{
	char path[64], line[512], *behind;
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	ok = fgets(line, sizeof(line), file) != NULL && (behind = strrchr(line, ')')) != NULL &&
	     sscanf(behind, ") %c %d", state, parent) == 2 &&
	     sscanf(line, "%*d (%31[^)]", name) == 1;
	fclose(file);
	return ok;
}

/* Stopped, so that the list of its children stays what it is. */
static void freeze(pid_t pid)
{
	int64_t until = now_ms() + STOP_MS;
	char name[32], state = '?';
	pid_t parent;

	if (kill(pid, SIGSTOP) != 0)
		fail("SIGSTOP", pid);
	while (read_stat(pid, name, &state, &parent) && state != 'T' && now_ms() < until)
		usleep(200);
	/* In the middle of a vfork it cannot stop before its child has executed. */
	if (state != 'T' && state != 'D')
		fprintf(stderr, "kill-tree: %d does not stop, state %c\n", pid, state);
}

static void hold_child(pid_t pid, const char *name)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0 && errno == ESRCH)
		return;
	if (fd < 0 || n_children == CHILDREN_MAX)
		fail("pidfd_open", pid);
	children[n_children].pid = pid;
	snprintf(children[n_children].name, sizeof(children[n_children].name), "%s", name);
	fds[n_children++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void hold_children(pid_t of)
{
	DIR *proc = opendir("/proc");
	const struct dirent *d;

	if (proc == NULL)
		fail("/proc", 0);
	while ((d = readdir(proc)) != NULL) {
		pid_t pid = atoi(d->d_name), parent;
		char name[32], state;

		if (pid > 0 && read_stat(pid, name, &state, &parent) && parent == of &&
			state != 'Z')
			hold_child(pid, name);
	}
	closedir(proc);
}

/* How many are left; *last_ms = when the last one that ended had been seen to. */
static int wait_for_end(int64_t within_ms, int64_t *last_ms)
{
	int64_t start = now_ms(), left_ms;
	int left = n_children;

	*last_ms = 0;
	while (left > 0 && (left_ms = start + within_ms - now_ms()) >= 0) {
		if (poll(fds, (nfds_t)n_children, (int)left_ms) <= 0)
			continue;
		for (int i = 0; i < n_children; i++) {
			if (fds[i].fd < 0 || !(fds[i].revents & POLLIN))
				continue;
			fds[i].fd = -1; /* poll passes over it */
			left--;
			*last_ms = now_ms() - start;
		}
	}
	return left;
}

/* What it is doing instead of being dead. */
static void print_survivor(const struct child *child)
{
	char path[64], wchan[64] = "?", name[32], state = '?';
	pid_t parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/wchan", child->pid);
	file = fopen(path, "re");
	if (file != NULL) {
		(void)!fgets(wchan, sizeof(wchan), file);
		fclose(file);
	}
	(void)read_stat(child->pid, name, &state, &parent);
	printf("survivor: %d %s state=%c parent=%d wchan=%s\n", child->pid, child->name, state,
		parent, wchan);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"within", required_argument, NULL, 'w'}, {0}};
	int64_t within_ms = 1000, last_ms;
	pid_t pid;
	int left;

	while (getopt_long(argc, argv, "", options, NULL) == 'w')
		within_ms = text_number("--within", optarg);
	if (optind + 1 != argc) {
		fprintf(stderr, "usage: kill-tree [--within MS] PID\n");
		return 2;
	}
	pid = (pid_t)text_number("PID", argv[optind]);
	freeze(pid);
	hold_children(pid);
	if (kill(pid, SIGKILL) != 0)
		fail("SIGKILL", pid);
	left = wait_for_end(within_ms, &last_ms);
	printf("children=%d last_ms=%lld\n", n_children, (long long)last_ms);
	for (int i = 0; i < n_children; i++)
		if (fds[i].fd >= 0)
			print_survivor(&children[i]);
	return left > 0;
}
