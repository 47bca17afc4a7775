/*
 * control.c - the socket to the supervisor.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "quit.h"

#include "shm/log.h"

enum control_kind control_receive(uint64_t generation)
{
	struct control_message message;
	ssize_t n;

	for (;;) {
		n = recv(HANDOFF_CONTROL_FD, &message, sizeof(message), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n <= 0)
			quit_orphan("the supervisor has closed the control socket");
		if (n == sizeof(message) && message.magic == CONTROL_MAGIC &&
			message.generation == generation &&
			(message.kind == CONTROL_DRAIN || message.kind == CONTROL_STOP))
			return (enum control_kind)message.kind;
		log_warn("control.strange", "bytes=%zd", n);
	}
}

bool control_send(enum control_kind kind, uint64_t generation)
{
	struct control_message message = {
		.magic = CONTROL_MAGIC, .kind = kind, .generation = generation};
	ssize_t n;

	do
		n = send(
			HANDOFF_CONTROL_FD, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
		quit_orphan("the supervisor has closed the control socket");
	return n == sizeof(message);
}
