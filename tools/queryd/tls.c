/*
 * tls.c - TLS contexts out of files, and a socket that may or may not have TLS on it.
 *
 *	tls_context:  versions -> certificate chain -> key -> do they fit -> client CA -> ALPN
 *
 * A mistake of the operator is one line: which option, which file, why.
 *
 * Runs in: queryd.  Blocks in: reading the files.
 */
#include "tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/x509.h>

#include "given.h"

#include "shm/log.h"

#define CIPHERS_TLS12 "ECDHE+AESGCM:ECDHE+CHACHA20" /* RFC 9113, appendix A */

/* --- contexts ---------------------------------------------------------------------------------- */

/* OpenSSL's reason for the first thing that went wrong, or errno's. */
static const char *reason(void)
{
	unsigned long code = ERR_get_error();
	const char *text = code == 0 ? NULL : ERR_reason_error_string(code);

	ERR_clear_error();
	if (text != NULL)
		return text;
	return code != 0 && ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
						   : "it is not PEM";
}

/* `of`: "grpc" or "http", whose options these are. */
static bool refuse(char why[TLS_WHY_SIZE], const char *of, const char *option, const char *file,
	const char *what)
{
	snprintf(why, TLS_WHY_SIZE, "query.%s_tls_%s: %s: %s", of, option, file, what);
	return false;
}

/* Who may not read it cannot use it: said with errno's words, before OpenSSL gets the file. */
static bool readable(char why[TLS_WHY_SIZE], const char *of, const char *option, const char *file)
{
	if (access(file, R_OK) == 0)
		return true;
	return refuse(why, of, option, file, strerror(errno));
}

static bool is_http(const char *of)
{
	return strcmp(of, "http") == 0;
}

static void warn_open_key(const char *of, const char *file)
{
	char quoted[512];
	struct stat st;

	if (stat(file, &st) == 0 && (st.st_mode & S_IRWXO) != 0)
		log_warn(is_http(of) ? "http.key_mode" : "grpc.key_mode",
			"file=%s text=\"everybody on this machine can read the private key: chmod "
			"o= "
			"it\"",
			log_quote(quoted, sizeof(quoted), file));
}

static void warn_dates(const char *of, SSL_CTX *context, const char *file)
{
	const char *event = is_http(of) ? "http.cert_date" : "grpc.cert_date";
	const X509 *cert = SSL_CTX_get0_certificate(context);
	char quoted[512];

	log_quote(quoted, sizeof(quoted), file);
	if (cert != NULL && X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
		log_warn(event,
			"file=%s text=\"the certificate is no longer valid: clients will refuse "
			"it\"",
			quoted);
	if (cert != NULL && X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		log_warn(event,
			"file=%s text=\"the certificate is not valid yet: clients will refuse it\"",
			quoted);
}

/* A key with a passphrase must not make a daemon ask its terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf, (void)size, (void)writing;
	*(bool *)arg = true;
	return -1;
}

static bool load_key(SSL_CTX *context, const char *of, const char *file, char why[TLS_WHY_SIZE])
{
	bool asked = false, ok;

	SSL_CTX_set_default_passwd_cb(context, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
	ok = SSL_CTX_use_PrivateKey_file(context, file, SSL_FILETYPE_PEM) == 1;
	SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
	if (ok)
		return true;
	if (asked) {
		ERR_clear_error();
		return refuse(why, of, "key", file,
			"the key has a passphrase, and nobody is there to type it: give a key "
			"without one");
	}
	if (ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH ||
		ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_TYPE_MISMATCH) {
		ERR_clear_error();
		return refuse(why, of, "key", file, "it is not the key of the certificate");
	}
	return refuse(why, of, "key", file, reason());
}

bool tls_load_pair(
	SSL_CTX *context, const char *of, const char *cert, const char *key, char why[TLS_WHY_SIZE])
{
	if (!is_given(cert) || !is_given(key)) {
		snprintf(why, TLS_WHY_SIZE,
			"query.%s_tls_cert and query.%s_tls_key belong together: set both, or "
			"neither",
			of, of);
		return false;
	}
	ERR_clear_error();
	if (!readable(why, of, "cert", cert) || !readable(why, of, "key", key))
		return false;
	if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
		return refuse(why, of, "cert", cert, reason());
	return load_key(context, of, key, why);
}

bool tls_load_ca(SSL_CTX *context, const char *of, const char *file, char why[TLS_WHY_SIZE])
{
	if (!readable(why, of, "client_ca", file))
		return false;
	ERR_clear_error();
	if (SSL_CTX_load_verify_file(context, file) != 1)
		return refuse(why, of, "client_ca", file, reason());
	return true;
}

static bool load_client_ca(
	SSL_CTX *context, const char *of, const char *file, char why[TLS_WHY_SIZE])
{
	STACK_OF(X509_NAME) * names;

	if (!tls_load_ca(context, of, file, why))
		return false;
	names = SSL_load_client_CA_file(file);
	if (names == NULL)
		return refuse(why, of, "client_ca", file, reason());
	SSL_CTX_set_client_CA_list(context, names);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return true;
}

static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len, void *arg)
{
	unsigned at = 0;

	(void)ssl, (void)arg;
	while (at < in_len) {
		if (in[at] == 2 && at + 2 < in_len && memcmp(in + at + 1, "h2", 2) == 0) {
			*out = in + at + 1;
			*out_len = 2;
			return SSL_TLSEXT_ERR_OK;
		}
		at += 1u + in[at];
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* False when it would be less strict than that. */
static bool set_rules(SSL_CTX *context)
{
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					     SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE |
					     SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 0);
	SSL_CTX_set_alpn_select_cb(context, choose_h2, NULL);
	return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_cipher_list(context, CIPHERS_TLS12) == 1;
}

SSL_CTX *tls_context(const char *of, const char *cert, const char *key, const char *client_ca,
	char why[TLS_WHY_SIZE])
{
	SSL_CTX *context;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_server_method());
	if (context == NULL || !set_rules(context)) {
		snprintf(why, TLS_WHY_SIZE, "OpenSSL: %s", reason());
		SSL_CTX_free(context);
		return NULL;
	}
	if (tls_load_pair(context, of, cert, key, why) &&
		(!is_given(client_ca) || load_client_ca(context, of, client_ca, why))) {
		warn_open_key(of, key);
		warn_dates(of, context, cert);
		return context;
	}
	SSL_CTX_free(context);
	return NULL;
}

/* --- a socket ---------------------------------------------------------------------------------- */

bool wire_open(struct wire *wire, int fd, SSL_CTX *tls)
{
	*wire = (struct wire){.fd = fd};
	if (tls == NULL)
		return true;
	wire->ssl = SSL_new(tls);
	if (wire->ssl == NULL || SSL_set_fd(wire->ssl, fd) != 1) {
		wire_close(wire);
		return false;
	}
	SSL_set_accept_state(wire->ssl);
	return true;
}

static bool speaks_h2(const struct wire *wire)
{
	const unsigned char *protocol;
	unsigned len;

	SSL_get0_alpn_selected(wire->ssl, &protocol, &len);
	return len == 2 && memcmp(protocol, "h2", 2) == 0;
}

int wire_shake(struct wire *wire, char why[TLS_WHY_SIZE])
{
	int n, error;

	if (wire->ssl == NULL)
		return 1;
	ERR_clear_error();
	n = SSL_do_handshake(wire->ssl);
	if (n == 1) {
		if (speaks_h2(wire))
			return 1;
		snprintf(why, TLS_WHY_SIZE, "the client did not offer ALPN h2");
		return WIRE_BROKEN;
	}
	error = SSL_get_error(wire->ssl, n);
	wire->read_waits_for_write = error == SSL_ERROR_WANT_WRITE;
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		return WIRE_AGAIN;
	snprintf(why, TLS_WHY_SIZE, "%s",
		error == SSL_ERROR_SSL ? reason() : "the client went away");
	return WIRE_BROKEN;
}

static ssize_t plain_result(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? WIRE_AGAIN : WIRE_BROKEN;
}

static ssize_t secure_result(struct wire *wire, int n, bool *waits, int other)
{
	int error;

	*waits = false;
	if (n > 0)
		return n;
	error = SSL_get_error(wire->ssl, n);
	if (error == SSL_ERROR_ZERO_RETURN)
		return WIRE_END;
	*waits = error == other;
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		return WIRE_AGAIN;
	ERR_clear_error();
	return WIRE_BROKEN;
}

ssize_t wire_read(struct wire *wire, void *buf, size_t size)
{
	if (wire->ssl == NULL)
		return plain_result(recv(wire->fd, buf, size, 0));
	ERR_clear_error();
	return secure_result(wire, SSL_read(wire->ssl, buf, (int)size), &wire->read_waits_for_write,
		SSL_ERROR_WANT_WRITE);
}

ssize_t wire_write(struct wire *wire, const void *buf, size_t len)
{
	if (wire->ssl == NULL)
		return plain_result(send(wire->fd, buf, len, MSG_NOSIGNAL));
	ERR_clear_error();
	return secure_result(wire, SSL_write(wire->ssl, buf, (int)len), &wire->write_waits_for_read,
		SSL_ERROR_WANT_READ);
}

bool wire_has_more(const struct wire *wire)
{
	return wire->ssl != NULL && SSL_has_pending(wire->ssl) == 1;
}

void wire_say_end(struct wire *wire)
{
	if (wire->ssl != NULL && SSL_is_init_finished(wire->ssl)) {
		SSL_shutdown(wire->ssl);
		ERR_clear_error();
	}
	shutdown(wire->fd, SHUT_WR);
}

void wire_close(struct wire *wire)
{
	SSL_free(wire->ssl);
	if (wire->fd >= 0)
		close(wire->fd);
	*wire = (struct wire){.fd = -1};
}
