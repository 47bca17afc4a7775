/*
 * peer_dns.c - names of peers -> addresses, looked up in a thread of its own.
 *
 *	thread: getaddrinfo of each name -> found[] --ev_async--> loop: options.found
 *	          ^ sleeps for every_ms, or until somebody is in a hurry
 *
 * getaddrinfo may take half a minute, and cannot be broken off: when the loop
 * ends, the thread is left to itself, and frees what is shared when it is back.
 *
 * Runs in: queryd, a thread of its own and the loop's.  Blocks in: getaddrinfo (its own thread).
 */
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "peers_private.h"

#include "shm/check.h"
#include "shm/log.h"

#define HURRY_MS 1000 /* not more often */

struct peer_dns {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct ev_loop *loop;
	ev_async mail;
	struct peer_name names[PEERS_MAX];
	size_t n;
	unsigned every_ms;
	void (*found)(void *arg, size_t name, const struct addrinfo *list);
	void *arg;
	/* With the lock. */
	bool hurry, ended;
	struct addrinfo *fresh[PEERS_MAX]; /* NULL = nothing new */
	/* Of the thread. */
	bool failing[PEERS_MAX];
};

/* --- the thread --------------------------------------------------------------------------------- */

static void say(struct peer_dns *dns, size_t i, int error)
{
	char quoted[2 * PEER_HOST_SIZE];

	if ((error != 0) == dns->failing[i])
		return;
	dns->failing[i] = error != 0;
	log_quote(quoted, sizeof(quoted), dns->names[i].host);
	if (error != 0)
		log_warn("peer.name",
			"name=%s text=\"%s; the addresses that were known are used on\"", quoted,
			gai_strerror(error));
	else
		log_info("peer.name", "name=%s text=\"found again\"", quoted);
}

/* false: the loop has gone. */
static bool hand_over(struct peer_dns *dns, size_t i, struct addrinfo *list)
{
	bool ended;

	pthread_mutex_lock(&dns->lock);
	ended = dns->ended;
	if (list != NULL) {
		if (dns->fresh[i] != NULL)
			freeaddrinfo(dns->fresh[i]);
		dns->fresh[i] = list;
		if (!ended)
			ev_async_send(dns->loop, &dns->mail);
	}
	pthread_mutex_unlock(&dns->lock);
	return !ended;
}

static bool look_up(struct peer_dns *dns, size_t i)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	int error = getaddrinfo(dns->names[i].host, dns->names[i].port, &hints, &list);

	say(dns, i, error);
	return hand_over(dns, i, error == 0 ? list : NULL);
}

static void wait_until(struct peer_dns *dns, const struct timespec *from, unsigned ms, bool hurry)
{
	struct timespec until = *from;

	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	while (!dns->ended && !(hurry && dns->hurry) &&
		pthread_cond_timedwait(&dns->wake, &dns->lock, &until) == 0)
		;
}

/* false: the loop has gone. */
static bool rest(struct peer_dns *dns)
{
	struct timespec now;
	unsigned least = dns->every_ms < HURRY_MS ? dns->every_ms : HURRY_MS;
	bool ended;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&dns->lock);
	wait_until(dns, &now, least, false);
	wait_until(dns, &now, dns->every_ms, true);
	dns->hurry = false;
	ended = dns->ended;
	pthread_mutex_unlock(&dns->lock);
	return !ended;
}

static void destroy(struct peer_dns *dns)
{
	for (size_t i = 0; i < dns->n; i++)
		if (dns->fresh[i] != NULL)
			freeaddrinfo(dns->fresh[i]);
	pthread_cond_destroy(&dns->wake);
	pthread_mutex_destroy(&dns->lock);
	free(dns);
}

static void *run(void *arg)
{
	struct peer_dns *dns = arg;
	bool on = true;

	while (on) {
		for (size_t i = 0; on && i < dns->n; i++)
			if (!dns->names[i].literal)
				on = look_up(dns, i);
		on = on && rest(dns);
	}
	destroy(dns);
	return NULL;
}

/* --- the loop ----------------------------------------------------------------------------------- */

static void on_mail(struct ev_loop *loop, ev_async *mail, int events)
{
	struct peer_dns *dns = mail->data;

	(void)loop, (void)events;
	for (size_t i = 0; i < dns->n; i++) {
		struct addrinfo *list;

		pthread_mutex_lock(&dns->lock);
		list = dns->fresh[i];
		dns->fresh[i] = NULL;
		pthread_mutex_unlock(&dns->lock);
		if (list == NULL)
			continue;
		dns->found(dns->arg, i, list);
		freeaddrinfo(list);
	}
}

static bool start_thread(struct peer_dns *dns)
{
	sigset_t all, before;
	pthread_t thread;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&thread, NULL, run, dns) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (started)
		pthread_detach(thread);
	return started;
}

struct peer_dns *peer_dns_new(struct ev_loop *loop, const struct peer_name *names, size_t n,
	unsigned every_ms, void (*found)(void *arg, size_t name, const struct addrinfo *list),
	void *arg)
{
	struct peer_dns *dns = calloc(1, sizeof(*dns));
	pthread_condattr_t monotonic;

	must_get(dns != NULL && n <= PEERS_MAX);
	memcpy(dns->names, names, n * sizeof(*names));
	dns->loop = loop;
	dns->n = n;
	dns->every_ms = every_ms;
	dns->found = found;
	dns->arg = arg;
	pthread_mutex_init(&dns->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&dns->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	ev_async_init(&dns->mail, on_mail);
	dns->mail.data = dns;
	ev_async_start(loop, &dns->mail);
	if (start_thread(dns))
		return dns;
	ev_async_stop(loop, &dns->mail);
	destroy(dns);
	return NULL;
}

void peer_dns_hurry(struct peer_dns *dns)
{
	if (dns == NULL)
		return;
	pthread_mutex_lock(&dns->lock);
	dns->hurry = true;
	pthread_cond_signal(&dns->wake);
	pthread_mutex_unlock(&dns->lock);
}

void peer_dns_free(struct peer_dns **handle)
{
	struct peer_dns *dns = *handle;

	if (dns == NULL)
		return;
	*handle = NULL;
	ev_async_stop(dns->loop, &dns->mail);
	pthread_mutex_lock(&dns->lock);
	dns->ended = true;
	pthread_cond_signal(&dns->wake);
	pthread_mutex_unlock(&dns->lock);
}
