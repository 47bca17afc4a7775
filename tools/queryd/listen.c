/*
 * listen.c - an address to listen on.
 *
 *	query.http_listen -> config_listen_split -> getaddrinfo -> bind, listen -> query.http
 *	query.grpc_listen ->                  "                                 -> query.grpc
 *
 * A mistake of the operator is one line that names the address and says what
 * to do about it.
 *
 * Runs in: queryd, main thread, at start and stop.  Blocks in: getaddrinfo.
 */
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/config.h"

#define LISTEN_BACKLOG	 1024
#define LISTEN_HOST_SIZE 256

static const struct advice {
	int error;
	const char *cause, *to;
} advices[] = {
	{EADDRINUSE, "another process listens there: stop it, or ", "another port"},
	{EADDRNOTAVAIL, "this machine has no such address: ", "one it has"},
	{EACCES, "ports below 1024 need a privilege: ", "a higher one"},
	{0, "", "an address that can be used"},
};

static void say_bind(char why[LISTEN_WHY_SIZE], const char *text, const char *option, int error)
{
	const struct advice *advice = advices;

	while (advice->error != 0 && advice->error != error)
		advice++;
	snprintf(why, LISTEN_WHY_SIZE, "cannot listen on %s: %s; %sset %s to %s", text,
		strerror(error), advice->cause, option, advice->to);
}

/* One candidate of getaddrinfo.  -1 with errno set. */
static int open_one(const struct addrinfo *info, bool shared)
{
	const int on = 1, off = 0;
	int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
		info->ai_protocol);
	int error;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (shared)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (info->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static bool bound_text(int fd, char bound[LISTEN_TEXT_SIZE])
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	char host[LISTEN_HOST_SIZE], port[8];

	if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
		getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return false;
	snprintf(bound, LISTEN_TEXT_SIZE, address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
		port);
	return true;
}

int listen_open(const char *text, const char *option, bool shared, char bound[LISTEN_TEXT_SIZE],
	char why[LISTEN_WHY_SIZE])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	char host[LISTEN_HOST_SIZE], service[8];
	struct addrinfo *list = NULL;
	uint16_t port;
	int fd = -1, err;

	if (config_listen_split(text, host, sizeof(host), &port) != 0) {
		snprintf(why, LISTEN_WHY_SIZE,
			"%s: \"%s\" is not host:port; write for example 127.0.0.1:3100 or "
			"[::1]:3100",
			option, text);
		return -1;
	}
	snprintf(service, sizeof(service), "%u", (unsigned)port);
	err = getaddrinfo(host, service, &hints, &list);
	if (err != 0) {
		snprintf(why, LISTEN_WHY_SIZE,
			"%s: cannot find host \"%s\" (%s); write its IP address", option, host,
			gai_strerror(err));
		return -1;
	}
	for (const struct addrinfo *info = list; info != NULL && fd < 0; info = info->ai_next)
		fd = open_one(info, shared);
	err = errno;
	freeaddrinfo(list);
	if (fd < 0)
		say_bind(why, text, option, err);
	else if (!bound_text(fd, bound)) {
		snprintf(bound, LISTEN_TEXT_SIZE, "%s", text);
		if (port == 0) { /* nobody would find it */
			snprintf(why, LISTEN_WHY_SIZE,
				"cannot learn which port %s has become: set %s to a fixed one",
				text, option);
			close(fd);
			fd = -1;
		}
	}
	return fd;
}

int listen_inherit(
	int fd, const char *option, char bound[LISTEN_TEXT_SIZE], char why[LISTEN_WHY_SIZE])
{
	int listens = 0;
	socklen_t len = sizeof(listens);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || !listens ||
		!bound_text(fd, bound)) {
		snprintf(why, LISTEN_WHY_SIZE,
			"%s: the socket that was handed over does not listen", option);
		return -1;
	}
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return fd;
}

bool listen_is_local(const char *bound)
{
	return strncmp(bound, "127.", 4) == 0 || strncmp(bound, "[::1]:", 6) == 0 ||
	       strncmp(bound, "[::ffff:127.", 12) == 0;
}

static bool write_file(int dir, const char *name, const char *line)
{
	size_t len = strlen(line);
	bool ok;
	int fd;

	fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return false;
	ok = fchmod(fd, 0644) == 0 && write(fd, line, len) == (ssize_t)len;
	close(fd);
	return ok;
}

bool listen_announce(
	const char *run_dir, const char *name, const char *bound, char why[LISTEN_WHY_SIZE])
{
	char line[LISTEN_LINES_SIZE], temporary[64];
	int dir = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ok = false;

	if (dir >= 0) {
		snprintf(line, sizeof(line), "%s\n", bound);
		snprintf(temporary, sizeof(temporary), "%s.%ld", name, (long)getpid());
		ok = write_file(dir, temporary, line) && renameat(dir, temporary, dir, name) == 0;
	}
	if (!ok)
		snprintf(why, LISTEN_WHY_SIZE, "cannot write %s/%s: %s; %s", run_dir, name,
			strerror(errno),
			errno == ENOENT ? "run_dir is made by tallyd: start that first"
					: "it needs write access to run_dir");
	if (dir >= 0) {
		if (!ok)
			unlinkat(dir, temporary, 0);
		close(dir);
	}
	return ok;
}

void listen_withdraw(const char *run_dir, const char *name, const char *bound)
{
	char path[4096], line[LISTEN_TEXT_SIZE] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", run_dir, name);
	file = fopen(path, "re");
	if (file == NULL)
		return;
	if (fgets(line, sizeof(line), file) != NULL)
		line[strcspn(line, "\n")] = '\0';
	fclose(file);
	if (strcmp(line, bound) == 0)
		unlink(path);
}
