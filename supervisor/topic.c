/*
 * topic.c - how many partitions the topic has, asked in a thread of its own.
 *
 * Runs in: supervisor, one thread.  Blocks in: that thread only.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/host.h"
#include "supervisor/topic.h"

#define ASK_TIMEOUT_MS	   2000
#define AGAIN_S		   1
#define AGAIN_WHEN_FOUND_S 5
#define APART_NS	   UINT64_C(1000000000)

struct topic {
	rd_kafka_t *rk;
	rd_kafka_topic_t *rkt;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop, ask_now;
	int fd;
	enum topic_state state;
	struct topic_belief belief;
	char why[256];
};

static enum topic_state judge(
	const struct rd_kafka_metadata *md, uint32_t *partitions, char why[256])
{
	const rd_kafka_metadata_topic_t *t = md->topic_cnt == 1 ? &md->topics[0] : NULL;
	if (!t || t->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
		(!t->err && t->partition_cnt == 0))
		return TOPIC_MISSING;
	if (t->err == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE)
		return TOPIC_MISSING;
	if (t->err) {
		snprintf(why, 256, "%s", rd_kafka_err2str(t->err));
		return TOPIC_REFUSED;
	}
	*partitions = (uint32_t)t->partition_cnt;
	return TOPIC_FOUND;
}

/* Fewer than there were, and it is not yet time to believe it. */
static bool is_doubtful(struct topic_belief *b, uint32_t partitions, uint64_t now_ns)
{
	if (b->fewer_times && now_ns - b->fewer_at < APART_NS)
		return true; /* answers of one moment are one answer */
	b->fewer = partitions;
	b->fewer_at = now_ns;
	return ++b->fewer_times < TOPIC_FEWER_TIMES;
}

bool topic_believe(
	struct topic_belief *b, enum topic_state answer, uint32_t partitions, uint64_t now_ns)
{
	bool found = answer == TOPIC_FOUND;
	bool fewer = found && partitions < b->partitions;
	if (!fewer || partitions != b->fewer)
		b->fewer_times = 0;
	if (answer == TOPIC_MISSING && b->partitions)
		b->gone = true;
	if (!found || (fewer && !b->gone && is_doubtful(b, partitions, now_ns)))
		return false;
	bool news = partitions != b->partitions;
	*b = (struct topic_belief){.partitions = partitions};
	return news;
}

/* Something is going on that will be over soon. */
static bool is_unsettled(const struct topic_belief *b)
{
	return !b->partitions || b->fewer_times || b->gone;
}

static void ask(struct topic *topic)
{
	const struct rd_kafka_metadata *md = NULL;
	enum topic_state state = TOPIC_NO_BROKER;
	uint32_t partitions = 0;
	char why[256] = "";
	rd_kafka_resp_err_t err = rd_kafka_metadata(topic->rk, 0, topic->rkt, &md, ASK_TIMEOUT_MS);
	if (err)
		snprintf(why, sizeof why, "%s", rd_kafka_err2str(err));
	else
		state = judge(md, &partitions, why);
	if (md)
		rd_kafka_metadata_destroy(md);
	pthread_mutex_lock(&topic->lock);
	/* Once found, silence is not news: the group's own state tells of it.  That it is gone is, when
	 * it has been said twice. */
	bool gone = state == TOPIC_MISSING && topic->belief.gone;
	bool news = topic->state != state &&
		    (!topic->belief.partitions || state == TOPIC_FOUND || gone);
	news |= topic_believe(&topic->belief, state, partitions, host_boot_ns());
	if (news && !eventfd_write(topic->fd, 1)) { /* else it is news the next time */
		topic->state = state;
		memcpy(topic->why, why, sizeof why);
	}
	pthread_mutex_unlock(&topic->lock);
}

static void *topic_main(void *arg)
{
	struct topic *topic = arg;
	pthread_mutex_lock(&topic->lock);
	while (!topic->stop) {
		struct timespec until;
		topic->ask_now = false; /* what comes from here on asks once more */
		pthread_mutex_unlock(&topic->lock);
		ask(topic);
		pthread_mutex_lock(&topic->lock);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += is_unsettled(&topic->belief) ? AGAIN_S : AGAIN_WHEN_FOUND_S;
		while (!topic->stop && !topic->ask_now &&
			pthread_cond_timedwait(&topic->wake, &topic->lock, &until) != ETIMEDOUT)
			;
	}
	pthread_mutex_unlock(&topic->lock);
	return NULL;
}

int topic_watch(rd_kafka_t *rk, const char *name, struct topic **out)
{
	struct topic *topic = calloc(1, sizeof *topic);
	pthread_condattr_t attr;
	if (!topic)
		return ERR_NOMEM;
	topic->rk = rk;
	topic->rkt = rd_kafka_topic_new(rk, name, NULL);
	topic->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	pthread_mutex_init(&topic->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&topic->wake, &attr);
	if (topic->rkt && topic->fd >= 0 &&
		!pthread_create(&topic->thread, NULL, topic_main, topic)) {
		*out = topic;
		return 0;
	}
	if (topic->rkt)
		rd_kafka_topic_destroy(topic->rkt);
	if (topic->fd >= 0)
		close(topic->fd);
	free(topic);
	return ERR_NOMEM;
}

int topic_fd(const struct topic *topic)
{
	return topic->fd;
}

enum topic_state topic_answer(struct topic *topic, uint32_t *partitions, char why[256])
{
	eventfd_t count;
	eventfd_read(topic->fd, &count);
	pthread_mutex_lock(&topic->lock);
	enum topic_state state = topic->state;
	*partitions = topic->belief.partitions;
	memcpy(why, topic->why, sizeof topic->why);
	pthread_mutex_unlock(&topic->lock);
	return state;
}

void topic_ask_now(struct topic *topic)
{
	pthread_mutex_lock(&topic->lock);
	topic->ask_now = true;
	pthread_cond_signal(&topic->wake);
	pthread_mutex_unlock(&topic->lock);
}

void topic_free(struct topic **topic)
{
	struct topic *t = *topic;
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	rd_kafka_topic_destroy(t->rkt);
	close(t->fd);
	free(t);
	*topic = NULL;
}
