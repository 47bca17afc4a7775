/*
 * ports.c - bind() and listen() as librdkafka's mock cluster shall see them.
 *
 *	mock: bind(any port) --> bind(base + n), address may be reused
 *	mock: listen(5)      --> listen(1024)
 *
 * With a backlog of 5, clients that start together lose their SYN and wait a
 * second.  Without address reuse, a broker that is started again on its port
 * waits for the connections of the last one to time out.
 *
 * Runs in: broker; both calls come from the thread that makes the cluster.
 */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ports.h"

#define BACKLOG 1024

/* Under other C names: <sys/socket.h> declares bind() with a type that only libc can spell. */
int ports_bind(int fd, const struct sockaddr *addr, socklen_t len) __asm__("bind")
	__attribute__((visibility("default")));
int ports_listen(int fd, int backlog) __asm__("listen") __attribute__((visibility("default")));

static struct {
	bool active;
	unsigned next; /* 0 = any */
} ports;

void ports_start(unsigned base)
{
	ports.active = true;
	ports.next = base;
}

void ports_end(void)
{
	ports.active = false;
}

static _Noreturn void refused(unsigned port, int errnum)
{
	fprintf(stderr, "tally-broker: port %u: %s; choose another --port\n", port,
		strerror(errnum));
	_exit(2);
}

/* ISO C has no conversion from an object pointer to a function: copy it. */
static void libc_function(const char *name, void *function, size_t size)
{
	void *found = dlsym(RTLD_NEXT, name);

	memcpy(function, &found, size);
}

int ports_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	int (*libc_bind)(int, const struct sockaddr *, socklen_t);
	struct sockaddr_in in;
	int on = 1;

	libc_function("bind", &libc_bind, sizeof(libc_bind));
	if (!ports.active || ports.next == 0 || addr->sa_family != AF_INET || len < sizeof(in))
		return libc_bind(fd, addr, len);
	memcpy(&in, addr, sizeof(in));
	in.sin_port = htons((uint16_t)ports.next);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (libc_bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0)
		refused(ports.next, errno);
	ports.next++;
	return 0;
}

int ports_listen(int fd, int backlog)
{
	int (*libc_listen)(int, int);

	libc_function("listen", &libc_listen, sizeof(libc_listen));
	return libc_listen(fd, backlog < BACKLOG ? BACKLOG : backlog);
}
