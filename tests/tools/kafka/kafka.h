/*
 * kafka.h - handles, metadata and offsets of a Kafka cluster, and waiting for what is so.
 *
 *	--brokers, --property --> kafka_open --> kafka_metadata, kafka_look_up, kafka_wait
 *	                          kafka_open_admin --> a request of librdkafka's --> kafka_answer
 *
 * A broker says yes before all of it is true: the metadata, the log start, the rules are a moment
 * late.  Whoever changes something asks again until it can be seen.
 *
 * For programs that do one thing and end: what fails ends them with one line, and without
 * librdkafka's good-bye (_exit), which would abort an open transaction.
 */
#ifndef TALLY_TESTS_KAFKA_KAFKA_H
#define TALLY_TESTS_KAFKA_KAFKA_H

#include <stdbool.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

#define KAFKA_TIMEOUT_MS     15000
#define KAFKA_PROPERTIES_MAX 32

struct kafka {
	const char *brokers;
	const char *property[KAFKA_PROPERTIES_MAX][2];
	int n_properties;
};

_Noreturn void kafka_fail(const char *what, const char *why);

/* `why` may be NULL.  Errors below 0 are librdkafka's own: its last log line is added. */
_Noreturn void kafka_fail_err(const char *what, rd_kafka_resp_err_t err, const char *why);

/* Borrows; librdkafka's way of saying that nothing went wrong is NULL. */
void kafka_check(const char *what, const rd_kafka_error_t *error);

void kafka_set(rd_kafka_conf_t *conf, const char *name, const char *value);

/* Takes conf.  --property wins over what the caller has set. */
rd_kafka_t *kafka_open(const struct kafka *k, rd_kafka_type_t type, rd_kafka_conf_t *conf);

/* A consumer, which no broker makes topics for; without a group. */
rd_kafka_t *kafka_reader(const struct kafka *k, const char *isolation);

/* Of one topic; its error is in topics[0].err.  Ended by rd_kafka_metadata_destroy. */
const struct rd_kafka_metadata *kafka_metadata(rd_kafka_t *rk, const char *topic);

/* The number of partitions. */
int kafka_partitions(rd_kafka_t *rk, const char *topic);

/* which: -1 = end, -2 = start.  Leaders that move are waited for. */
void kafka_look_up(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int64_t which);
int64_t kafka_look_up_one(rd_kafka_t *rk, const char *topic, int32_t partition, int64_t which);

/* Asks until it is so. */
void kafka_wait(bool (*so)(void *arg), void *arg, const char *what);

/* --- commands ------------------------------------------------------------------------------ */

/* What a command works with. */
struct kafka_run {
	const struct kafka *kafka;
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue;
	rd_kafka_AdminOptions_t *options;
	int n;
	char **arg;
};

/* Opens rk, queue and options. */
void kafka_open_admin(struct kafka_run *r);

/* Gives the answer to the one request that is under way. */
rd_kafka_event_t *kafka_answer(struct kafka_run *r, const char *what);

/* key=value: cut in two; returns the value. */
char *kafka_cut(char *word);

#endif
