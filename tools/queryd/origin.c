/*
 * origin.c - whether a request was meant for us, or a web page of somebody else made a browser
 * send it.
 *
 *	Host --address, localhost, one of ours?--> Sec-Fetch-Site, Origin --> verdict
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "shm/log.h"

#define LOG_EVERY_MS 10000
#define NAME_SHOWN   253

static struct {
	pthread_mutex_t lock;
	struct log_limit limit;
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- names -------------------------------------------------------------------------------------- */

static bool same(const char *text, size_t len, const char *other)
{
	return strlen(other) == len && strncasecmp(text, other, len) == 0;
}

/* The host's length without its port. */
static size_t name_len(const char *host)
{
	size_t len = strlen(host), digits = 0;

	while (digits < len && host[len - digits - 1] >= '0' && host[len - digits - 1] <= '9')
		digits++;
	return digits < len && host[len - digits - 1] == ':' ? len - digits - 1 : len;
}

/* No name that somebody could own. */
static bool is_address(const char *host, size_t len)
{
	char text[INET_ADDRSTRLEN];
	struct in_addr address;

	if (len > 2 && host[0] == '[' && host[len - 1] == ']')
		return true;
	if (len >= sizeof(text))
		return false;
	memcpy(text, host, len);
	text[len] = '\0';
	return inet_pton(AF_INET, text, &address) == 1;
}

static bool is_listed(const char *names, const char *host, size_t len)
{
	while (*names != '\0') {
		size_t skip = strspn(names, " ,"), word = strcspn(names + skip, " ,");

		names += skip;
		if ((word == 1 && *names == '*') ||
			(word == len && strncasecmp(names, host, len) == 0))
			return true;
		names += word;
	}
	return false;
}

/* It came to a loopback address; so does what cannot be told. */
static bool is_local(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to = {.any = {.sa_family = AF_UNSPEC}};
	socklen_t len = sizeof(to);

	if (getsockname(fd, &to.any, &len) != 0)
		return true;
	if (to.any.sa_family == AF_INET)
		return ntohl(to.v4.sin_addr.s_addr) >> 24 == 127;
	if (to.any.sa_family != AF_INET6)
		return true;
	return IN6_IS_ADDR_LOOPBACK(&to.v6.sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&to.v6.sin6_addr) && to.v6.sin6_addr.s6_addr[12] == 127);
}

/* Browsers send a host; who sends none (HTTP/1.0) is none. */
static bool is_our_name(const struct origin_rules *rules, const struct origin *origin)
{
	const char *host = origin->host;
	bool given = rules->names != NULL && rules->names[0] != '\0';
	size_t len = host == NULL ? 0 : name_len(host);

	if (len == 0 || is_address(host, len) || same(host, len, "localhost") ||
		same(host, len, rules->own))
		return true;
	if (given)
		return is_listed(rules->names, host, len);
	return rules->guarded || !is_local(origin->fd);
}

/* --- pages -------------------------------------------------------------------------------------- */

/* "http://host:port", of our own? */
static bool is_our_page(const char *page, const char *host)
{
	const char *authority = strstr(page, "://");

	return authority != NULL && host != NULL && strcasecmp(authority + 3, host) == 0;
}

/* A link that somebody clicks on is not the page's doing, and the page sees nothing of the answer. */
static bool is_link(const struct origin *origin)
{
	return strcmp(origin->method, "GET") == 0 && origin->mode != NULL &&
	       strcmp(origin->mode, "navigate") == 0;
}

static bool is_other_page(const struct origin *origin)
{
	const char *site = origin->site;

	if (site != NULL)
		return strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0 &&
		       !is_link(origin);
	return origin->origin != NULL && !is_our_page(origin->origin, origin->host);
}

enum origin_verdict origin_judge(const struct origin_rules *rules, const struct origin *origin)
{
	if (!is_our_name(rules, origin))
		return ORIGIN_OTHER_NAME;
	return is_other_page(origin) ? ORIGIN_OTHER_PAGE : ORIGIN_OURS;
}

/* --- the log ------------------------------------------------------------------------------------ */

void origin_log(enum origin_verdict verdict, const struct origin *origin)
{
	static const char *const reasons[] = {"", "name", "page"};
	const char *text = verdict == ORIGIN_OTHER_NAME ? origin->host : origin->origin;
	char shown[NAME_SHOWN + 1], quoted[4 * sizeof(shown) + 3];
	unsigned suppressed;
	bool say;

	pthread_mutex_lock(&said.lock);
	say = log_limit_pass(&said.limit, LOG_EVERY_MS, &suppressed);
	pthread_mutex_unlock(&said.lock);
	if (!say)
		return;
	snprintf(shown, sizeof(shown), "%s", text == NULL ? "" : text);
	log_warn("http.refused", "reason=%s from=%s suppressed=%u", reasons[verdict],
		log_quote(quoted, sizeof(quoted), shown), suppressed);
}
