/*
 * http_tls.c - certificate, key and client authority of HTTP, and what the HTTP library makes of them.
 *
 * The library's GnuTLS says nothing about what is wrong with a file, so OpenSSL, which
 * gRPC has anyway, looks at them first.
 *
 * Runs in: queryd; http_tls_begin in the library's threads.  Blocks in: reading the files.
 */
#include "http_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include "given.h"
#include "tls.h"

#include "shm/check.h"

#define FILE_MAX_SIZE ((size_t)1 << 20)

/* As gRPC has it: TLS 1.2 and 1.3, ECDHE, AEAD. */
static const char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA:"
				 "-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305:"
				 "%SERVER_PRECEDENCE:%SAFE_RENEGOTIATION";

_Static_assert(HTTP_WHY_SIZE >= TLS_WHY_SIZE, "tls_context writes into it");

struct http_tls {
	char *cert, *key, *client_ca; /* PEM; client_ca NULL = any client */
	char pin[HTTP_PIN_SIZE];
};

static void wipe(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

void http_tls_free(struct http_tls **tls)
{
	if (*tls == NULL)
		return;
	wipe((*tls)->cert);
	wipe((*tls)->key);
	wipe((*tls)->client_ca);
	free(*tls);
	*tls = NULL;
}

/* NULL with errno. */
static char *read_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;
	char *text = fd < 0 ? NULL : malloc(FILE_MAX_SIZE + 1), *fitting;
	size_t len = 0;
	ssize_t n = 1;

	while (text != NULL && n > 0 && len < FILE_MAX_SIZE) {
		n = read(fd, text + len, FILE_MAX_SIZE - len);
		if (n > 0)
			len += (size_t)n;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	if (text == NULL)
		return NULL;
	text[len] = '\0';
	fitting = n < 0 ? NULL : strdup(text);
	explicit_bzero(text, len);
	free(text);
	return fitting;
}

static bool take(char **text, const char *option, const char *file, char why[HTTP_WHY_SIZE])
{
	*text = read_text(file);
	if (*text == NULL)
		snprintf(why, HTTP_WHY_SIZE, "query.http_tls_%s: %.300s: %s", option, file,
			strerror(errno));
	return *text != NULL;
}

static void write_pin(const SSL_CTX *context, char pin[HTTP_PIN_SIZE])
{
	const X509 *cert = SSL_CTX_get0_certificate(context);
	unsigned char *key = NULL, hash[SHA256_DIGEST_LENGTH];
	int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &key);

	must_get(len > 0); /* a certificate that was read has a key: what can lack is memory */
	SHA256(key, (size_t)len, hash);
	OPENSSL_free(key);
	memcpy(pin, "sha256//", 8);
	EVP_EncodeBlock((unsigned char *)pin + 8, hash, sizeof(hash));
}

struct http_tls *http_tls_load(const struct http_tls_files *files, char why[HTTP_WHY_SIZE])
{
	SSL_CTX *context = tls_context("http", files->cert, files->key, files->client_ca, why);
	struct http_tls *tls;

	if (context == NULL)
		return NULL;
	tls = calloc(1, sizeof(*tls));
	must_get(tls != NULL);
	write_pin(context, tls->pin);
	SSL_CTX_free(context);
	if (!take(&tls->cert, "cert", files->cert, why) ||
		!take(&tls->key, "key", files->key, why) ||
		(is_given(files->client_ca) &&
			!take(&tls->client_ca, "client_ca", files->client_ca, why)))
		http_tls_free(&tls);
	return tls;
}

static bool same(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool http_tls_same(const struct http_tls *a, const struct http_tls *b)
{
	return same(a->cert, b->cert) && same(a->key, b->key) && same(a->client_ca, b->client_ca);
}

const char *http_tls_pin(const struct http_tls *tls)
{
	return tls->pin;
}

static struct MHD_OptionItem item(enum MHD_OPTION option, const char *text)
{
	return (struct MHD_OptionItem){option, 0, (void *)(uintptr_t)text};
}

void http_tls_options(const struct http_tls *tls, struct MHD_OptionItem items[HTTP_TLS_ITEMS_MAX])
{
	unsigned n = 0;

	if (tls != NULL) {
		items[n++] = item(MHD_OPTION_HTTPS_MEM_CERT, tls->cert);
		items[n++] = item(MHD_OPTION_HTTPS_MEM_KEY, tls->key);
		items[n++] = item(MHD_OPTION_HTTPS_PRIORITIES, priorities);
		if (tls->client_ca != NULL)
			items[n++] = item(MHD_OPTION_HTTPS_MEM_TRUST, tls->client_ca);
	}
	items[n] = item(MHD_OPTION_END, NULL);
}

/* The library asks for a certificate and then looks at none: GnuTLS is told to, in the handshake. */
void http_tls_begin(const struct http_tls *tls, struct MHD_Connection *connection)
{
	static gnutls_typed_vdata_st client = {
		GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT, 0};
	const union MHD_ConnectionInfo *info;
	gnutls_session_t session;

	if (tls == NULL || tls->client_ca == NULL)
		return;
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	must_get(info != NULL); /* else whoever comes would be let in */
	session = info->tls_session;
	gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
	gnutls_session_set_verify_cert2(session, &client, 1, 0);
}
