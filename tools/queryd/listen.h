/*
 * listen.h - the address to listen on: taken apart, bound, and made known in
 * <run_dir>/query.http, which matters when the port was 0 (any free one).
 */
#ifndef TALLY_QUERYD_LISTEN_H
#define TALLY_QUERYD_LISTEN_H

#include <stdbool.h>

#define LISTEN_TEXT_SIZE 300 /* "[host]:port" */
#define LISTEN_WHY_SIZE	 640
#define LISTEN_FILE_NAME "query.http"

/*
 * Binds and listens on "127.0.0.1:3100", "[::1]:0", "localhost:3100".  `bound`
 * gets the address in numbers with its real port.  Returns a descriptor, or -1
 * with one line in `why` that says what to do.
 */
int listen_open(const char *text, char bound[LISTEN_TEXT_SIZE], char why[LISTEN_WHY_SIZE]);

/* Writes "<bound>\n" to <run_dir>/query.http, by rename.  false with one line in `why`. */
bool listen_announce(const char *run_dir, const char *bound, char why[LISTEN_WHY_SIZE]);

/* Removes that file while it still names `bound`. */
void listen_withdraw(const char *run_dir, const char *bound);

#endif
