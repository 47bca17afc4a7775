/*
 * http.h - the HTTP server: connections, requests, and the promise that an
 * answer is still true when it is handed over to be sent.
 */
#ifndef TALLY_QUERYD_HTTP_H
#define TALLY_QUERYD_HTTP_H

#include "answer.h"
#include "http_tls.h"

/* Limits, as in the manual page. */
#define HTTP_CONNECTIONS_MANY 480   /* from here on a new one ends the oldest without a request */
#define HTTP_CONNECTIONS_MAX  1024  /* a hard limit */
#define HTTP_CONNECTIONS_PEER 768   /* of one address */
#define HTTP_MEMORY_MAX	      16384 /* per connection: request line and headers */
#define HTTP_BODY_MAX	      65536 /* a body that nobody wants is read and ignored up to here */
#define HTTP_SILENT_S	      10    /* a connection may be silent for so long */
#define HTTP_WAITING_S	      15    /* ... and be without a whole request for so long */
#define HTTP_ASKING_S	      30    /* an answer must have been read whole after so long */
#define HTTP_RETIRED_S	      40    /* connections may go on with an old certificate for so long */

struct http;

/*
 * Serves on `fd` (taken) with query->threads threads, in cleartext or with `tls` (taken), which
 * came from `files` (their names are kept).  NULL with one line in `why`.
 */
struct http *http_start(struct query *query, int fd, const struct http_tls_files *files,
	struct http_tls *tls, char why[HTTP_WHY_SIZE]);

/*
 * Reads the files of TLS again: connections to come get what is in them, those that are there
 * may go on for HTTP_RETIRED_S.  false with a line in `why`: all is as it was.
 */
bool http_renew_tls(struct http *http, char why[HTTP_WHY_SIZE]);

/* The pin of the certificate; NULL: cleartext. */
const char *http_pin(const struct http *http);

/* About once a second: ends what has been replaced. */
void http_tick(struct http *http);

/*
 * Accepts nothing more, lets answers under way end for up to `grace_ms`, ends.  Who comes
 * meanwhile is refused, or, when the socket is `shared` with others that accept, waits for those.
 */
void http_stop(struct http **http, bool shared, unsigned grace_ms);

#endif
