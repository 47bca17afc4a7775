/*
 * http_private.h - what http.c (a request) and http_serve.c (servers that come and go) share.
 */
#ifndef TALLY_QUERYD_HTTP_PRIVATE_H
#define TALLY_QUERYD_HTTP_PRIVATE_H

#include <microhttpd.h>

#include "http.h"

#define RETIRED_MAX 4

/* A daemon of the library, with what it was started with: it knows no other certificate. */
struct server {
	struct http *http;
	struct MHD_Daemon *daemon;
	struct http_tls *tls; /* NULL = cleartext */
	int fd;		      /* listening; retired: taken from the daemon, closed after it */
	uint64_t retired_ns;
	_Atomic bool ending; /* nobody may sleep any more */
};

struct http {
	struct query *query;
	struct http_tls_files files;
	struct server *now, *retired[RETIRED_MAX];
};

/* What the library calls; arg: NULL of http_begin_request, the server, the struct http. */
void *http_begin_request(void *arg, const char *target, struct MHD_Connection *connection);
enum MHD_Result http_handle(void *arg, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **context);
void http_completed(void *arg, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode code);

#endif
