/*
 * http_tls.h - certificate, key and client authority of HTTP, and what the HTTP library makes of them.
 *
 *	files --http_tls_load--> checked by OpenSSL, kept as text --> GnuTLS, inside libmicrohttpd
 *
 * TLS 1.2 or newer with ephemeral keys and AEAD ciphers; with an authority, a client has
 * to show a certificate of it in the handshake.
 */
#ifndef TALLY_QUERYD_HTTP_TLS_H
#define TALLY_QUERYD_HTTP_TLS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#define HTTP_WHY_SIZE	   512
#define HTTP_PIN_SIZE	   64 /* "sha256//" and 44 characters of base64 */
#define HTTP_TLS_ITEMS_MAX 5

struct http_tls;

/* Names of files; all "" or NULL = cleartext. */
struct http_tls_files {
	const char *cert, *key, *client_ca;
};

/* NULL with one line in `why` that names option, file and reason. */
struct http_tls *http_tls_load(const struct http_tls_files *files, char why[HTTP_WHY_SIZE]);

/* Wiped.  No daemon has it any more. */
void http_tls_free(struct http_tls **tls);

/* They hold the same. */
bool http_tls_same(const struct http_tls *a, const struct http_tls *b);

/* How curl knows the certificate's key again: CURLOPT_PINNEDPUBLICKEY. */
const char *http_tls_pin(const struct http_tls *tls);

/* Options for MHD_OPTION_ARRAY, ended; they point into tls.  NULL: cleartext, none. */
void http_tls_options(const struct http_tls *tls, struct MHD_OptionItem items[HTTP_TLS_ITEMS_MAX]);

/* A connection has come, nothing has been said on it: asks for a certificate when one is wanted. */
void http_tls_begin(const struct http_tls *tls, struct MHD_Connection *connection);

#endif
