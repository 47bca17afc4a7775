/*
 * raw_consumer.c - the yardstick: librdkafka alone, reading one partition to its end.
 *
 *	raw_consumer BROKERS TOPIC PARTITION RECORDS	-> "records=N seconds=S"
 *
 * The same calls and settings as worker/source.c, and its allocator (the linker
 * is told to keep it), but what arrives is only counted, and the queue never
 * fills.  No worker can be faster than this on the same log.
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BATCH 10000

static double seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[256];
	if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK) {
		fprintf(stderr, "raw_consumer: %s\n", why);
		exit(2);
	}
}

static rd_kafka_t *open_consumer(const char *brokers)
{
	char why[256];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	set(conf, "bootstrap.servers", brokers);
	set(conf, "enable.partition.eof", "true");
	set(conf, "check.crcs", "true");
	set(conf, "fetch.wait.max.ms", "10");
	set(conf, "queued.min.messages", "1000000"); /* never full: no stall to cure */
	rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
	if (!rk) {
		fprintf(stderr, "raw_consumer: %s\n", why);
		exit(1);
	}
	return rk;
}

static long count(rd_kafka_queue_t *queue, long want)
{
	static rd_kafka_message_t *messages[BATCH];
	long got = 0;
	while (got < want) {
		ssize_t n = rd_kafka_consume_batch_queue(queue, 100, messages, BATCH);
		for (ssize_t i = 0; i < n; i++) {
			got += !messages[i]->err;
			rd_kafka_message_destroy(messages[i]);
		}
	}
	return got;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fputs("usage: raw_consumer BROKERS TOPIC PARTITION RECORDS\n", stderr);
		return 2;
	}
	double began = seconds();
	rd_kafka_t *rk = open_consumer(argv[1]);
	rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, argv[2], NULL);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
	if (rd_kafka_consume_start_queue(topic, atoi(argv[3]), 0, queue)) {
		fputs("raw_consumer: cannot start\n", stderr);
		return 1;
	}
	long got = count(queue, atol(argv[4]));
	printf("records=%ld seconds=%.3f\n", got, seconds() - began);
	fflush(stdout);
	_exit(0); /* taking it down is not what is measured */
}
