/*
 * lookups.c - a faked rd_kafka_offsets_for_times, put in its place by the linker.
 *
 * The embedded broker knows no look-up by time and never fails; this gives both.
 */
#include "tests/fake/lookups.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

rd_kafka_resp_err_t __real_rd_kafka_offsets_for_times(
	rd_kafka_t *rk, rd_kafka_topic_partition_list_t *offsets, int timeout_ms);
rd_kafka_resp_err_t __wrap_rd_kafka_offsets_for_times(
	rd_kafka_t *rk, rd_kafka_topic_partition_list_t *offsets, int timeout_ms);

static struct {
	pthread_mutex_t lock;
	struct lookups_answer answer[LOOKUPS_WHATS];
	unsigned count[LOOKUPS_WHATS];
	char order[64];
	int64_t last_time;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

void lookups_reset(void)
{
	pthread_mutex_lock(&fake.lock);
	memset(fake.answer, 0, sizeof(fake.answer));
	memset(fake.count, 0, sizeof(fake.count));
	memset(fake.order, 0, sizeof(fake.order));
	pthread_mutex_unlock(&fake.lock);
}

void lookups_set(enum lookups_what what, struct lookups_answer answer)
{
	pthread_mutex_lock(&fake.lock);
	fake.answer[what] = answer;
	pthread_mutex_unlock(&fake.lock);
}

unsigned lookups_count(enum lookups_what what)
{
	unsigned count;

	pthread_mutex_lock(&fake.lock);
	count = fake.count[what];
	pthread_mutex_unlock(&fake.lock);
	return count;
}

void lookups_order(char order[64])
{
	pthread_mutex_lock(&fake.lock);
	memcpy(order, fake.order, sizeof(fake.order));
	pthread_mutex_unlock(&fake.lock);
}

int64_t lookups_last_time(void)
{
	int64_t last;

	pthread_mutex_lock(&fake.lock);
	last = fake.last_time;
	pthread_mutex_unlock(&fake.lock);
	return last;
}

static struct lookups_answer parse(const char *word)
{
	struct lookups_answer answer = {.kind = LOOKUPS_REAL};
	char *end;

	if (strcmp(word, "none") == 0)
		answer.kind = LOOKUPS_NONE;
	else if (strcmp(word, "timeout") == 0)
		answer.kind = LOOKUPS_TIMEOUT;
	else if (strcmp(word, "never") == 0)
		answer.kind = LOOKUPS_NEVER;
	else if (strcmp(word, "unavailable") == 0)
		answer.kind = LOOKUPS_UNAVAILABLE;
	else if (strcmp(word, "unknown") == 0)
		answer.kind = LOOKUPS_UNKNOWN;
	answer.offset = strtoll(word, &end, 10);
	if (end != word && *end == '\0')
		answer.kind = LOOKUPS_OFFSET;
	return answer;
}

static struct lookups_answer answer_from_file(
	const char *path, enum lookups_what what, int partition)
{
	static const char *const names[LOOKUPS_WHATS] = {"end", "start", "time"};
	struct lookups_answer answer = {.kind = LOOKUPS_REAL};
	char name[16], word[32], ours[16];
	FILE *file = fopen(path, "re");

	if (!file)
		return answer;
	snprintf(ours, sizeof(ours), "%s.%d", names[what], partition);
	while (fscanf(file, "%15s %31s", name, word) == 2)
		if (strcmp(name, names[what]) == 0 || strcmp(name, ours) == 0)
			answer = parse(word);
	fclose(file);
	return answer;
}

static void wait_ms(int ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static enum lookups_what note(int64_t question)
{
	enum lookups_what what = question == RD_KAFKA_OFFSET_END	 ? LOOKUPS_END
				 : question == RD_KAFKA_OFFSET_BEGINNING ? LOOKUPS_START
									 : LOOKUPS_TIME;
	size_t n = strlen(fake.order);

	fake.count[what]++;
	if (n + 1 < sizeof(fake.order))
		fake.order[n] = "est"[what];
	if (what == LOOKUPS_TIME)
		fake.last_time = question;
	return what;
}

rd_kafka_resp_err_t __wrap_rd_kafka_offsets_for_times(
	rd_kafka_t *rk, rd_kafka_topic_partition_list_t *offsets, int timeout_ms)
{
	rd_kafka_topic_partition_t *element = &offsets->elems[0];
	const char *path = getenv("TALLY_FAKE_LOOKUPS");
	struct lookups_answer answer;
	enum lookups_what what;

	pthread_mutex_lock(&fake.lock);
	what = note(element->offset);
	answer = path ? answer_from_file(path, what, element->partition) : fake.answer[what];
	pthread_mutex_unlock(&fake.lock);
	if (answer.delay_ms)
		wait_ms((int)answer.delay_ms);
	element->err = RD_KAFKA_RESP_ERR_NO_ERROR;
	switch (answer.kind) {
	case LOOKUPS_OFFSET:
		element->offset = answer.offset;
		break;
	case LOOKUPS_NONE:
		element->offset = RD_KAFKA_OFFSET_END;
		break;
	case LOOKUPS_NEVER:
		wait_ms(timeout_ms);
		return RD_KAFKA_RESP_ERR__TIMED_OUT;
	case LOOKUPS_TIMEOUT:
		return RD_KAFKA_RESP_ERR__TIMED_OUT;
	case LOOKUPS_UNAVAILABLE:
		element->err = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
		break;
	case LOOKUPS_UNKNOWN:
		element->err = RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
		return RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
	case LOOKUPS_REAL:
		return __real_rd_kafka_offsets_for_times(rk, offsets, timeout_ms);
	}
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}
