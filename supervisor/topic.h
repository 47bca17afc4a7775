/*
 * topic.h - how many partitions the topic has, asked in a thread of its own.
 *
 * rd_kafka_metadata blocks; the loop must not.  The thread asks every second
 * until the topic is there, then every 5 s and when it is told to, and wakes
 * the loop by an eventfd when the answer has changed.
 *
 * A topic never loses partitions but by being made anew, while a broker that
 * has just started may tell of fewer than there are: fewer is believed when it
 * was the answer TOPIC_FEWER_TIMES in a row, or when there was no such topic in
 * between.  Of a row only answers count that are a second apart, and any other
 * answer, none included, ends it.  More is believed at once.  No answer, or "no
 * such topic", changes nothing that is known.
 */
#ifndef TALLY_SUPERVISOR_TOPIC_H
#define TALLY_SUPERVISOR_TOPIC_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#define TOPIC_FEWER_TIMES 5

enum topic_state { TOPIC_ASKING, TOPIC_NO_BROKER, TOPIC_MISSING, TOPIC_REFUSED, TOPIC_FOUND };

/* What is believed of the count. */
struct topic_belief {
	uint32_t partitions;  /* 0 = none yet */
	uint32_t fewer;	      /* told last, and not believed yet */
	unsigned fewer_times; /* in a row */
	uint64_t fewer_at;    /* when the last of them counted */
	bool gone;	      /* it was known, and then there was no such topic */
};

/*
 * An answer, or TOPIC_NO_BROKER for none, at `now_ns` of a clock that never goes
 * back.  True: the count that is believed is another one now.  Pure.
 */
bool topic_believe(
	struct topic_belief *belief, enum topic_state answer, uint32_t partitions, uint64_t now_ns);

struct topic;

/* `rk` is kept until topic_free. */
int topic_watch(rd_kafka_t *rk, const char *name, struct topic **out);

/* Readable when the answer has changed. */
int topic_fd(const struct topic *topic);

/* Reads the eventfd and gives the answer.  `why` for the states that are none. */
enum topic_state topic_answer(struct topic *topic, uint32_t *partitions, char why[256]);

/* Ask at once: somebody seems to know more than we do.  Any thread. */
void topic_ask_now(struct topic *topic);

/* Waits for a question under way: up to 2 s when the broker is silent. */
void topic_free(struct topic **topic);

#endif
