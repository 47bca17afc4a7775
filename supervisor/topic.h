/*
 * topic.h - how many partitions the topic has, asked in a thread of its own.
 *
 * rd_kafka_metadata blocks; the loop must not.  The thread asks every second
 * until the topic is there, then every 30 s, and wakes the loop by an eventfd
 * when the answer has changed.
 */
#ifndef TALLY_SUPERVISOR_TOPIC_H
#define TALLY_SUPERVISOR_TOPIC_H

#include <librdkafka/rdkafka.h>
#include <stdint.h>

enum topic_state { TOPIC_ASKING, TOPIC_NO_BROKER, TOPIC_MISSING, TOPIC_REFUSED, TOPIC_FOUND };

struct topic;

/* `rk` is kept until topic_free. */
int topic_watch(rd_kafka_t *rk, const char *name, struct topic **out);

/* Readable when the answer has changed. */
int topic_fd(const struct topic *topic);

/* Reads the eventfd and gives the answer.  `why` for the states that are none. */
enum topic_state topic_answer(struct topic *topic, uint32_t *partitions, char why[256]);

/* Waits for a question under way: up to 2 s when the broker is silent. */
void topic_free(struct topic **topic);

#endif
