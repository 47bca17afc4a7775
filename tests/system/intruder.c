/*
 * intruder.c - what somebody could do who runs code in a worker or query process: tried on SIGUSR1.
 *
 *	LD_PRELOAD=intruder.so INTRUDER_DIR=... tally-worker
 *	SIGUSR1 --> a line "intruder PROGRAM WHAT ERRNO" for each try
 *	SIGUSR2 --> execve
 *
 * Made and used by 53-confined.sh.  Runs in: the main thread of these programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void say(const char *what, int result)
{
	dprintf(STDERR_FILENO, "intruder %s %s %d\n", program_invocation_short_name, what,
		result < 0 ? errno : 0);
}

static const char *in(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", getenv("INTRUDER_DIR"), name);
	return path;
}

static void on_try(int sig)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;

	(void)sig;
	say("read-other", open(in("secret"), O_RDONLY | O_CLOEXEC));
	say("write-etc", open("/etc/passwd", O_WRONLY | O_CLOEXEC));
	say("make-in-run-dir", open(in("a/intruded"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	say("cut-table", open(in("a/table"), O_WRONLY | O_TRUNC | O_CLOEXEC));
	say("remove-table", unlink(in("a/table")));
	say("chmod-table", chmod(in("a/table"), 0440));
	say("write-table", open(in("a/table"), O_WRONLY | O_CLOEXEC));
	say("write-limits", open(in("a/limits"), O_WRONLY | O_CLOEXEC));
	say("write-lock", open(in("a/lock"), O_WRONLY | O_CLOEXEC));
	say("bind", bind(fd, (struct sockaddr *)&any, sizeof(any)));
	say("signal-parent", kill(getppid(), 0));
	pid = fork();
	if (pid == 0)
		_exit(0);
	say("fork", pid);
	say("done", 0);
}

static void on_execve(int sig)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo intruder runs a shell >&2", NULL};

	(void)sig;
	say("execve", execve("/bin/sh", argv, NULL));
}

__attribute__((constructor)) static void come_in(void)
{
	signal(SIGUSR1, on_try);
	signal(SIGUSR2, on_execve);
}
