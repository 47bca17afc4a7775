/*
 * inherit.c - sockets for the query processes that the service manager has opened.
 *
 * Runs in: supervisor, at start.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "shm/err.h"
#include "supervisor/inherit.h"

/* Where a socket of that name goes; NULL: nowhere. */
static int *place_of(struct inherit *sockets, const char *name)
{
	if (!strcmp(name, "http"))
		return &sockets->http;
	return strcmp(name, "grpc") ? NULL : &sockets->grpc;
}

static int take(struct inherit *sockets, int fd, const char *name, char why[INHERIT_WHY_SIZE])
{
	int *place = place_of(sockets, name);
	if (!place)
		snprintf(why, INHERIT_WHY_SIZE,
			"socket %d is named \"%.60s\": FileDescriptorName= has to be http or grpc",
			fd, name);
	else if (*place >= 0)
		snprintf(why, INHERIT_WHY_SIZE,
			"there are two sockets named %s: give it one ListenStream=", name);
	else if (sd_is_socket_inet(fd, AF_UNSPEC, SOCK_STREAM, 1, 0) <= 0)
		snprintf(why, INHERIT_WHY_SIZE,
			"the socket named %s does not listen for TCP: use "
			"ListenStream=ADDRESS:PORT",
			name);
	else
		*place = fd;
	return place && *place == fd ? 0 : ERR_INVALID;
}

int inherit_sockets(struct inherit *sockets, char why[INHERIT_WHY_SIZE])
{
	char **names = NULL;
	int err = 0, n = sd_listen_fds_with_names(1, &names);
	*sockets = (struct inherit){-1, -1};
	if (n < 0) {
		snprintf(why, INHERIT_WHY_SIZE, "cannot be taken: %s", strerror(-n));
		return ERR_INVALID;
	}
	for (int i = 0; i < n; i++) {
		if (!err)
			err = take(sockets, SD_LISTEN_FDS_START + i, names[i], why);
		free(names[i]);
	}
	free(names);
	return err;
}
