/*
 * locate.c - the side thread that asks the broker for offsets.
 *
 *	[question] --mutex, cond--> loop: ask | hurry | sleep --[answer], eventfd-->
 *
 * End before start before time: a record that arrives in between is then below
 * no answer that could make us skip it.  rd_kafka_offsets_for_times is used for
 * all three (-1 = end, -2 = start): the watermark query of 2.0.2 ignores its
 * timeout.  It reports errors in two places, and on a timeout the element still
 * holds the question with no error in it, so both are looked at.
 *
 * Runs in: worker, its own thread.  Blocks in: librdkafka, for at most timeout_ms a call.
 */
#include "locate.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"

#define HURRY_TIMEOUT_MS 1000 /* a question that comes meanwhile must not wait longer */

struct locate {
	struct locate_options options;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int fd;
	_Atomic int64_t end;
	/* Under the lock: */
	bool stopping, hurry;
	unsigned id; /* of the latest question */
	bool asked, answered;
	int64_t since_ms;
	struct locate_answer answer;
};

/* --- the thread ---------------------------------------------------------------------------- */

static const char *resp_text(rd_kafka_resp_err_t err)
{
	return err == RD_KAFKA_RESP_ERR_NO_ERROR ? "the broker gave no offset"
						 : rd_kafka_err2str(err);
}

/* One look-up.  False, with a sentence in `why`, when there is no answer. */
static bool look_up(
	struct locate *locate, int64_t what, int timeout_ms, int64_t *offset, const char **why)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_resp_err_t err;

	rd_kafka_topic_partition_list_add(list, locate->options.topic, locate->options.partition)
		->offset = what;
	err = rd_kafka_offsets_for_times(locate->options.client, list, timeout_ms);
	if (!err)
		err = list->elems[0].err;
	*offset = list->elems[0].offset;
	rd_kafka_topic_partition_list_destroy(list);
	*why = resp_text(err);
	return err == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static bool look_up_end(struct locate *locate, int timeout_ms, int64_t *offset, const char **why)
{
	if (!look_up(locate, RD_KAFKA_OFFSET_END, timeout_ms, offset, why) || *offset < 0)
		return false;
	atomic_store_explicit(&locate->end, *offset, memory_order_relaxed);
	return true;
}

static void learn_cluster(struct locate *locate, struct locate_answer *answer)
{
	char *id = rd_kafka_clusterid(locate->options.client, locate->options.timeout_ms);

	if (!id)
		return; /* an old broker: it stays unknown */
	snprintf(answer->cluster, sizeof(answer->cluster), "%s", id);
	rd_kafka_mem_free(locate->options.client, id);
}

static void learn_time(
	struct locate *locate, int64_t since_ms, struct locate_answer *answer, const char **why)
{
	int64_t offset;

	if (!look_up(locate, since_ms, locate->options.timeout_ms, &offset, why))
		return;
	answer->time = offset < 0 ? TIME_NONE : TIME_FOUND;
	answer->time_offset = offset;
	*why = "";
}

/* Asks all of one question.  Stops at the first failure: the rest would only wait as long again. */
static void ask_all(struct locate *locate, int64_t since_ms, struct locate_answer *answer)
{
	int timeout_ms = locate->options.timeout_ms;
	const char *why = "";
	int64_t end, start;

	if (!look_up_end(locate, timeout_ms, &end, &why) ||
		!look_up(locate, RD_KAFKA_OFFSET_BEGINNING, timeout_ms, &start, &why) ||
		start < 0) {
		snprintf(answer->error, sizeof(answer->error), "%s", why);
		return;
	}
	if (start > end) { /* it was cut in between: neither is true any more */
		snprintf(
			answer->error, sizeof(answer->error), "the log was cut while it was asked");
		return;
	}
	answer->end = end;
	answer->start = start;
	learn_cluster(locate, answer);
	if (since_ms >= 0)
		learn_time(locate, since_ms, answer, &why);
	if (since_ms >= 0 && answer->time == TIME_UNKNOWN)
		snprintf(answer->error, sizeof(answer->error), "%s", why);
}

static void tell(struct locate *locate, const struct locate_answer *answer)
{
	static const uint64_t one = 1;

	pthread_mutex_lock(&locate->lock);
	if (answer->id == locate->id) { /* else: replaced meanwhile */
		locate->answer = *answer;
		locate->answered = true;
	}
	pthread_mutex_unlock(&locate->lock);
	(void)!write(locate->fd, &one, sizeof(one));
}

/* Waits for something to do.  Called and left with the lock held. */
static void doze(struct locate *locate)
{
	struct timespec until;

	if (!locate->hurry) {
		pthread_cond_wait(&locate->wake, &locate->lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LOCATE_HURRY_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_cond_timedwait(&locate->wake, &locate->lock, &until);
}

static void *run(void *arg)
{
	struct locate *locate = arg;

	pthread_mutex_lock(&locate->lock);
	while (!locate->stopping) {
		struct locate_answer answer = {.id = locate->id, .end = -1, .start = -1};
		int64_t since_ms = locate->since_ms, end;
		bool asked = locate->asked, hurry;
		const char *why;

		if (!asked)
			doze(locate);
		hurry = !asked && locate->hurry && !locate->asked && !locate->stopping;
		locate->asked = locate->asked && !asked;
		pthread_mutex_unlock(&locate->lock);
		if (asked) {
			ask_all(locate, since_ms, &answer);
			tell(locate, &answer);
		} else if (hurry) {
			(void)look_up_end(locate, HURRY_TIMEOUT_MS, &end, &why);
		}
		pthread_mutex_lock(&locate->lock);
	}
	pthread_mutex_unlock(&locate->lock);
	return NULL;
}

/* --- the main thread ----------------------------------------------------------------------- */

int locate_start(const struct locate_options *options, struct locate **out)
{
	struct locate *locate = calloc(1, sizeof(*locate));
	pthread_condattr_t attr;
	int err;

	must_get(locate);
	locate->options = *options;
	locate->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	must_get(locate->fd >= 0);
	atomic_init(&locate->end, -1);
	pthread_mutex_init(&locate->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&locate->wake, &attr);
	pthread_condattr_destroy(&attr);
	err = pthread_create(&locate->thread, NULL, run, locate);
	if (err) {
		close(locate->fd);
		free(locate);
		return err_from_errno(err);
	}
	*out = locate;
	return 0;
}

void locate_stop(struct locate **locate)
{
	struct locate *l = *locate;

	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->lock);
	close(l->fd);
	free(l);
	*locate = NULL;
}

int locate_fd(const struct locate *locate)
{
	return locate->fd;
}

unsigned locate_ask(struct locate *locate, int64_t since_ms)
{
	unsigned id;

	pthread_mutex_lock(&locate->lock);
	id = ++locate->id;
	locate->asked = true;
	locate->answered = false;
	locate->since_ms = since_ms;
	pthread_cond_signal(&locate->wake);
	pthread_mutex_unlock(&locate->lock);
	return id;
}

bool locate_answer(struct locate *locate, struct locate_answer *answer)
{
	uint64_t count;
	bool answered;

	(void)!read(locate->fd, &count, sizeof(count));
	pthread_mutex_lock(&locate->lock);
	answered = locate->answered;
	if (answered)
		*answer = locate->answer;
	locate->answered = false;
	pthread_mutex_unlock(&locate->lock);
	return answered;
}

void locate_hurry(struct locate *locate, bool on)
{
	if (!locate->options.hurry)
		return;
	pthread_mutex_lock(&locate->lock);
	if (locate->hurry != on) {
		locate->hurry = on;
		pthread_cond_signal(&locate->wake);
	}
	pthread_mutex_unlock(&locate->lock);
}

int64_t locate_end(const struct locate *locate)
{
	return atomic_load_explicit(&locate->end, memory_order_relaxed);
}
