/*
 * wake.c - makes the mock cluster's thread look at its queue now.
 *
 *	wake_begin -> call (waits) -> wake_end
 *	     '-> after WAKE_MS: connect, close; again each WAKE_MS until wake_end
 *
 * Runs in: broker, a thread of its own, asleep between calls.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wake.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool busy;
	struct sockaddr_in broker;
} wake = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, {0}};

static void poke(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	(void)connect(fd, (const struct sockaddr *)&wake.broker, sizeof(wake.broker));
	close(fd);
}

/* False when WAKE_MS have passed without a change. */
static bool wait_for_change(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAKE_MS * 1000000L;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return pthread_cond_timedwait(&wake.changed, &wake.lock, &until) == 0;
}

static void *run(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&wake.lock);
	for (;;) {
		while (!wake.busy)
			pthread_cond_wait(&wake.changed, &wake.lock);
		if (!wait_for_change() && wake.busy)
			poke();
	}
	return NULL;
}

int wake_start(const char *address)
{
	const char *colon = strchr(address, ':');
	pthread_t thread;
	int err;

	wake.broker.sin_family = AF_INET;
	wake.broker.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	wake.broker.sin_port = htons(colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0);
	err = pthread_create(&thread, NULL, run, NULL);
	if (err == 0)
		pthread_detach(thread);
	return err;
}

static void set_busy(bool busy)
{
	pthread_mutex_lock(&wake.lock);
	wake.busy = busy;
	pthread_cond_signal(&wake.changed);
	pthread_mutex_unlock(&wake.lock);
}

void wake_begin(void)
{
	set_busy(true);
}

void wake_end(void)
{
	set_busy(false);
}
