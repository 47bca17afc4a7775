/*
 * listen.h - an address to listen on: taken apart, bound, and made known in a
 * file of the run directory, which matters when the port was 0 (any free one).
 */
#ifndef TALLY_QUERYD_LISTEN_H
#define TALLY_QUERYD_LISTEN_H

#include <stdbool.h>

#define LISTEN_TEXT_SIZE  300 /* "[host]:port" */
#define LISTEN_LINES_SIZE (LISTEN_TEXT_SIZE + 100)
#define LISTEN_WHY_SIZE	  640
#define LISTEN_HTTP_NAME  "query.http"
#define LISTEN_GRPC_NAME  "query.grpc"

/*
 * Binds and listens on "127.0.0.1:3100", "[::1]:0", "localhost:3100".  `option`
 * is what the operator calls it, "query.http_listen".  `shared`: other processes
 * of ours listen there too, and the kernel spreads the connections over them.
 * `bound` gets the address in numbers with its real port.  Returns a descriptor,
 * or -1 with one line in `why` that says what to do.
 */
int listen_open(const char *text, const char *option, bool shared, char bound[LISTEN_TEXT_SIZE],
	char why[LISTEN_WHY_SIZE]);

/*
 * Takes a socket that listens already: the service manager has opened it, and
 * other processes may share it.  As listen_open; `fd` is returned.
 */
int listen_inherit(
	int fd, const char *option, char bound[LISTEN_TEXT_SIZE], char why[LISTEN_WHY_SIZE]);

/* Only this machine can reach what listen_open has bound: 127.0.0.0/8 or ::1. */
bool listen_is_local(const char *bound);

/*
 * Writes "<bound>\n" (and what its further lines say) to <run_dir>/<name> (LISTEN_*_NAME), by rename.  false with
 * one line in `why`.
 */
bool listen_announce(
	const char *run_dir, const char *name, const char *bound, char why[LISTEN_WHY_SIZE]);

/*
 * Removes that file while it still names `bound`.  Not for a shared address: the
 * others listen on; the supervisor removes it when the last one has gone.
 */
void listen_withdraw(const char *run_dir, const char *name, const char *bound);

#endif
