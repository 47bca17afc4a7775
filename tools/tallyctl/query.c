/*
 * query.c - asks the tally-queryd of the run directory, over HTTP.
 *
 *	<run_dir>/query.http --> http://127.0.0.1:3100/path --POST--> JSON
 *
 * The only thing in tallyctl that needs a server.  Straight to the address that
 * was announced: no proxy, no redirect, no more bytes than an answer can have.
 */
#include <curl/curl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define ANSWER_MAX (64u << 20)
#define TIMEOUT_MS 10000L

/* "127.0.0.1:3100", "[::1]:3100": nothing else becomes a part of a URL. */
int ctl_address(const struct ctl *ctl, const char *name, char address[CTL_ADDRESS_SIZE])
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", ctl->run_dir, name);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, address, CTL_ADDRESS_SIZE - 1);
	if (fd >= 0)
		close(fd);
	if (len < 0)
		return TALLY_ENOTFOUND;
	address[len] = 0;
	address[strcspn(address, "\n")] = 0;
	size_t good = strspn(address, "0123456789abcdefABCDEF.:[]");
	return good && !address[good] && strchr(address, ':') ? 0 : TALLY_EINVALID;
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

static CURLcode post(const char *url, const char *body, struct received *answer, long *status)
{
	CURL *curl = curl_easy_init();
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (!curl || !headers)
		abort();
	headers = curl_slist_append(headers, "Expect:");
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
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

/* What was asked may have been done: whoever gets no answer has to know that. */
static void say_failed(const char *address, CURLcode rc)
{
	ctl_usage("tally-queryd at %s: %s%s", address, curl_easy_strerror(rc),
		rc == CURLE_COULDNT_CONNECT ? "; is it running?"
					    : "; what was asked may have been done all the same");
}

static void say_refused(const char *address, long status, const json_t *answer)
{
	const char *reason = json_string_value(json_object_get(answer, "reason"));
	char clean[CTL_NAME_SIZE];
	ctl_usage("tally-queryd at %s answered %ld: %s", address, status,
		reason ? ctl_name(clean, reason) : "not in a way that can be read");
}

json_t *ctl_query(const struct ctl *ctl, const char *path, json_t *question)
{
	char address[CTL_ADDRESS_SIZE], url[CTL_ADDRESS_SIZE + 100];
	struct received received = {0};
	long status = 0;
	if (!read_address(ctl, address))
		return NULL;
	snprintf(url, sizeof url, "http://%s%s", address, path);
	char *body = json_dumps(question, JSON_COMPACT);
	if (!body)
		abort();
	CURLcode rc = post(url, body, &received, &status);
	free(body);
	json_t *answer =
		rc || !received.text ? NULL : json_loadb(received.text, received.len, 0, NULL);
	if (rc)
		say_failed(address, rc);
	else if (status != 200 || !json_is_object(answer))
		say_refused(address, status, answer);
	free(received.text);
	if (status == 200 && json_is_object(answer))
		return answer;
	json_decref(answer);
	return NULL;
}
