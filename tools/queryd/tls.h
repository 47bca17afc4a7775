/*
 * tls.h - TLS contexts out of files, and a socket that may or may not have TLS on it.
 *
 *	certificate, key, client CA --tls_context--> SSL_CTX --wire_open--> wire_read, wire_write
 *
 * TLS 1.2 or newer, ALPN "h2" required, no renegotiation, no resumption: the
 * connections are long, and a certificate that was taken away stays away.
 */
#ifndef TALLY_QUERYD_TLS_H
#define TALLY_QUERYD_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <openssl/ssl.h>

#define TLS_WHY_SIZE 512

/*
 * Gives a context (SSL_CTX_free ends it), or NULL and one line in `why` that
 * names option, file and reason.  client_ca NULL or "": any client may come.
 * `of`: "grpc" or "http", whose options the files are: query.grpc_tls_cert ...
 */
SSL_CTX *tls_context(const char *of, const char *cert, const char *key, const char *client_ca,
	char why[TLS_WHY_SIZE]);

/*
 * What every context needs, of a server or of a client: who we are, and whom we
 * believe.  false with such a line in `why`.  Nobody is asked for a passphrase.
 */
bool tls_load_pair(SSL_CTX *context, const char *of, const char *cert, const char *key,
	char why[TLS_WHY_SIZE]);
bool tls_load_ca(SSL_CTX *context, const char *of, const char *file, char why[TLS_WHY_SIZE]);

struct wire {
	int fd;
	SSL *ssl; /* NULL = cleartext */
	bool read_waits_for_write, write_waits_for_read;
};

enum { WIRE_END = 0, WIRE_AGAIN = -1, WIRE_BROKEN = -2 };

/* Takes fd.  `tls` NULL = cleartext. */
bool wire_open(struct wire *wire, int fd, SSL_CTX *tls);

/* > 0 done; WIRE_AGAIN; WIRE_BROKEN with one line in `why`.  Cleartext is done at once. */
int wire_shake(struct wire *wire, char why[TLS_WHY_SIZE]);

/* Bytes > 0, or one of WIRE_*. */
ssize_t wire_read(struct wire *wire, void *buf, size_t size);
ssize_t wire_write(struct wire *wire, const void *buf, size_t len);

/* There are bytes that the socket will not announce again. */
bool wire_has_more(const struct wire *wire);

/* Says the end, as far as that goes without waiting; the other side may still be read (raw). */
void wire_say_end(struct wire *wire);

void wire_close(struct wire *wire);

#endif
