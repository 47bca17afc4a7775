/*
 * query.c - asks the tally-queryd of the run directory, over HTTP.
 *
 *	<run_dir>/query.http --> http://127.0.0.1:3100/path --POST--> JSON
 *	  "tls sha256//..."  --> https, to whoever has that key and to nobody else
 *
 * The only thing in tallyctl that needs a server.  Straight to the address that
 * was announced: no proxy, no redirect, no more bytes than an answer can have.
 * Whoever can write the run directory is believed, as in all else; so the key that
 * is announced there is worth more than a name in a certificate.
 */
#include <curl/curl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#include "shm/tokens.h"

#define ANSWER_MAX (64u << 20)
#define TIMEOUT_MS 10000L

/* The whole file; TALLY_ENOTFOUND: there is none. */
static int read_announced(const struct ctl *ctl, const char *name, char text[CTL_ADDRESS_SIZE])
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", ctl->run_dir, name);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, CTL_ADDRESS_SIZE - 1);
	if (fd >= 0)
		close(fd);
	text[len < 0 ? 0 : len] = 0;
	return len < 0 ? TALLY_ENOTFOUND : 0;
}

/* "127.0.0.1:3100", "[::1]:3100": nothing else becomes a part of a URL. */
int ctl_address(const struct ctl *ctl, const char *name, char address[CTL_ADDRESS_SIZE])
{
	int err = read_announced(ctl, name, address);
	if (err)
		return err;
	address[strcspn(address, "\n")] = 0;
	size_t good = strspn(address, "0123456789abcdefABCDEF.:[]");
	return good && !address[good] && strchr(address, ':') ? 0 : TALLY_EINVALID;
}

/* "sha256//..." of the second line; "" = no TLS. */
static void read_pin(const struct ctl *ctl, char pin[CTL_ADDRESS_SIZE])
{
	char text[CTL_ADDRESS_SIZE], *line;
	*pin = 0;
	if (read_announced(ctl, "query.http", text) || !(line = strchr(text, '\n')) ||
		strncmp(++line, "tls ", 4))
		return;
	line[strcspn(line, "\n")] = 0;
	strcpy(pin, line + 4);
}

static bool read_address(const struct ctl *ctl, char address[CTL_ADDRESS_SIZE])
{
	int err = ctl_address(ctl, "query.http", address);
	if (err == TALLY_ENOTFOUND)
		ctl_usage("no tally-queryd listens for %s: 'tallyctl status' says whether it is "
			  "starting, dying or disabled (query.enabled)",
			ctl->run_dir);
	else if (err)
		ctl_usage("%s/query.http does not hold an address; restart tally-queryd",
			ctl->run_dir);
	return !err;
}

struct received {
	char *text;
	size_t len;
};

static size_t receive(char *data, size_t size, size_t n, void *arg)
{
	struct received *to = arg;
	size_t more = size * n;
	if (more > ANSWER_MAX - to->len)
		return 0;
	char *grown = realloc(to->text, to->len + more + 1);
	if (!grown)
		return 0;
	to->text = grown;
	memcpy(to->text + to->len, data, more);
	to->len += more;
	return more;
}

/* What it is asked with, beside the question. */
struct credentials {
	char pin[CTL_ADDRESS_SIZE]; /* "" = no TLS */
	const char *cert_file;
	char *authorization; /* a header; NULL = none; wiped */
};

static const char *option_or_env(const char *option, const char *name)
{
	const char *value = option ? option : getenv(name);
	return value && *value ? value : NULL;
}

/* false after a line on stderr. */
static bool take_credentials(const struct ctl *ctl, struct credentials *with)
{
	const char *file = option_or_env(ctl->token_file, "TALLY_TOKEN_FILE");
	char why[TOKENS_WHY_SIZE], *token;
	unsigned mode;
	*with = (struct credentials){.cert_file = option_or_env(ctl->cert_file, "TALLY_CERT_FILE")};
	read_pin(ctl, with->pin);
	if (!file)
		return true;
	token = tokens_read_one(file, &mode, why);
	if (!token)
		return !ctl_usage("token file %s", why);
	if (asprintf(&with->authorization, "Authorization: Bearer %s", token) < 0)
		abort();
	tokens_wipe(&token);
	return true;
}

static void set_tls(CURL *curl, const struct credentials *with)
{
	/* Whose key it is was said where the address was; its name need not be an address. */
	curl_easy_setopt(curl, CURLOPT_PINNEDPUBLICKEY, with->pin);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
	if (!with->cert_file)
		return;
	curl_easy_setopt(curl, CURLOPT_SSLCERT, with->cert_file);
	curl_easy_setopt(curl, CURLOPT_SSLKEY, with->cert_file);
}

static CURLcode post(const char *url, const char *body, const struct credentials *with,
	struct received *answer, long *status)
{
	CURL *curl = curl_easy_init();
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (!curl || !headers)
		abort();
	headers = curl_slist_append(headers, "Expect:");
	if (with->authorization)
		headers = curl_slist_append(headers, with->authorization);
	if (!headers)
		abort(); /* not without the token */
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, *with->pin ? "https" : "http");
	if (*with->pin)
		set_tls(curl, with);
	curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
	CURLcode rc = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	return rc;
}

/* In TLS 1.3 a client learns that it should have shown a certificate when it sends or reads. */
static bool lacks_certificate(const struct credentials *with, CURLcode rc)
{
	return *with->pin &&
	       (rc == CURLE_SSL_CERTPROBLEM || rc == CURLE_SSL_CONNECT_ERROR ||
		       (!with->cert_file && (rc == CURLE_SEND_ERROR || rc == CURLE_RECV_ERROR ||
						    rc == CURLE_GOT_NOTHING)));
}

/* What was asked may have been done: whoever gets no answer has to know that. */
static void say_failed(const char *address, const struct credentials *with, CURLcode rc)
{
	ctl_usage("tally-queryd at %s: %s%s", address, curl_easy_strerror(rc),
		rc == CURLE_COULDNT_CONNECT ? "; is it running?"
		: rc == CURLE_SSL_PINNEDPUBKEYNOTMATCH
			? "; another process has its address, or it has just got a new "
			  "certificate"
		: lacks_certificate(with, rc)
			? "; does it want a certificate? --cert-file names one, with its key"
			: "; what was asked may have been done all the same");
}

static void say_refused(const char *address, long status, const json_t *answer)
{
	const char *reason = json_string_value(json_object_get(answer, "reason"));
	char clean[CTL_NAME_SIZE];
	ctl_usage("tally-queryd at %s answered %ld: %s%s", address, status,
		reason ? ctl_name(clean, reason) : "not in a way that can be read",
		status == 401 || status == 403 ? "; --token-file names a file with one" : "");
}

json_t *ctl_query(const struct ctl *ctl, const char *path, json_t *question)
{
	char address[CTL_ADDRESS_SIZE], url[CTL_ADDRESS_SIZE + 100];
	struct received received = {0};
	struct credentials with;
	long status = 0;
	if (!read_address(ctl, address) || !take_credentials(ctl, &with))
		return NULL;
	snprintf(url, sizeof url, "http%s://%s%s", *with.pin ? "s" : "", address, path);
	char *body = json_dumps(question, JSON_COMPACT);
	if (!body)
		abort();
	CURLcode rc = post(url, body, &with, &received, &status);
	tokens_wipe(&with.authorization);
	free(body);
	json_t *answer =
		rc || !received.text ? NULL : json_loadb(received.text, received.len, 0, NULL);
	if (rc)
		say_failed(address, &with, rc);
	else if (status != 200 || !json_is_object(answer))
		say_refused(address, status, answer);
	free(received.text);
	if (status == 200 && json_is_object(answer))
		return answer;
	json_decref(answer);
	return NULL;
}
