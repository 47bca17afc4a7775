/*
 * producer.c - an idempotent Kafka producer for one partition: records in, and whether they are there.
 *
 *	producer_put -> queue -> librdkafka's threads -> broker
 *	                                |
 *	eventfd <- delivery reports, errors, log lines --> producer_poll
 *
 * Idempotent: a request whose predecessor the broker lacks is refused by it.
 * Gap-less: librdkafka, when it has to give up a batch, does not go on with the next.
 * One request in flight, so that no second one is on its way when the first fails.
 *
 * Runs in: worker, main thread; a closed producer ends in a thread of its own.
 * Blocks in: nowhere.
 */
#include "producer.h"

#include "quit.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/host.h"
#include "shm/log.h"

#define CLOSING_MAX 8 /* one that looks up a name may take long to end */

struct producer {
	rd_kafka_t *client;
	rd_kafka_topic_t *topic;
	rd_kafka_queue_t *queue; /* the main one */
	int32_t partition;
	unsigned in_flight;
	uint64_t confirmed;
	enum producer_error error;
	uint64_t error_ns;
	char words[256];
};

static _Atomic int closing; /* clients that are not gone yet */

/* --- making it ----------------------------------------------------------------------------- */

struct property {
	const char *name, *value;
};

/* In force unless the handoff says otherwise. */
static const struct property defaults[] = {
	{"linger.ms", "5"},
	{"batch.num.messages", "2000"}, /* a full round of emit.c does not linger */
	{"reconnect.backoff.max.ms", "1000"},
	{"topic.metadata.refresh.interval.ms", "30000"},
	{"topic.metadata.propagation.max.ms", "5000"}, /* then it is said that there is none */
	{"socket.nagle.disable", "true"},
};

/* In force whatever the handoff says: order depends on them. */
static const struct property fixed[] = {
	{"enable.idempotence", "true"}, /* and with it acks=all, and retries for ever */
	{"enable.gapless.guarantee", "true"},
	{"max.in.flight", "1"},
	{"message.timeout.ms", "0"},
	{"queue.buffering.max.messages", "20000"},
	{"queue.buffering.max.kbytes", "16384"},
	{"allow.auto.create.topics", "false"},
	{"statistics.interval.ms", "0"},
	{"log.queue", "true"},
};

static int set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	/* Not librdkafka's words: they repeat the value, which may be a secret. */
	if (rd_kafka_conf_set(conf, name, value, NULL, 0) == RD_KAFKA_CONF_OK)
		return 0;
	log_error("emit.option_refused",
		"name=%s hint=\"librdkafka refuses its value; see kafka.properties\"", name);
	return ERR_INVALID;
}

static int set_all(rd_kafka_conf_t *conf, const struct handoff *handoff)
{
	int err = 0;

	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]) && !err; i++)
		err = set(conf, defaults[i].name, defaults[i].value);
	for (uint32_t i = 0; i < handoff->n_properties && !err; i++) {
		const struct handoff_property *p = &handoff->properties[i];

		if (p->client != FOR_CONSUMERS)
			err = set(conf, p->name, p->value);
	}
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && !err; i++)
		err = set(conf, fixed[i].name, fixed[i].value);
	return err;
}

/* The consumer of this process meets the same brokers and says so; here it is detail. */
static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	char quoted[512];

	(void)client;
	(void)level;
	if (strcmp(facility, "CONF") != 0) /* it shows values that may be secrets */
		log_debug("emit.log", "facility=%s text=%s", facility,
			log_quote(quoted, sizeof(quoted), text));
}

static enum producer_error error_of(rd_kafka_resp_err_t err)
{
	switch (err) {
	case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
	case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
		return PRODUCER_DENIED;
	case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
	case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
	case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
		return PRODUCER_NO_TOPIC;
	case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
	case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
		return PRODUCER_TOO_LARGE;
	case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
		return PRODUCER_BAD_TIME;
	case RD_KAFKA_RESP_ERR_INVALID_RECORD:
		return PRODUCER_REFUSED;
	case RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE:
	case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
	case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
	case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
		return PRODUCER_FORMAT;
	default:
		return PRODUCER_FAILED;
	}
}

/* What follows from an error that came before it. */
static bool is_consequence(rd_kafka_resp_err_t err)
{
	return err == RD_KAFKA_RESP_ERR__PURGE_QUEUE || err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ||
	       err == RD_KAFKA_RESP_ERR__FATAL || err == RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE;
}

/* A batch's own error may come after that it has been fatal. */
static void fail(struct producer *producer, rd_kafka_resp_err_t err, const char *words)
{
	if (!producer->error_ns)
		producer->error_ns = host_boot_ns();
	else if (producer->error != PRODUCER_FAILED || is_consequence(err))
		return;
	producer->error = error_of(err);
	snprintf(producer->words, sizeof(producer->words), "%s", words);
}

static void on_error(rd_kafka_t *client, int err, const char *text, void *opaque)
{
	struct producer *producer = opaque;
	char words[256], quoted[512];

	if (err == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE) /* it never tries again */
		quit_internal("a thread of the Kafka client", ERR_BUSY);
	if (err == RD_KAFKA_RESP_ERR__FATAL) {
		rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(client, words, sizeof(words));

		fail(producer, fatal, words);
	} else if (!producer->error_ns) {
		snprintf(producer->words, sizeof(producer->words), "%s", text);
	}
	log_debug("emit.error", "code=%s text=%s", rd_kafka_err2name((rd_kafka_resp_err_t)err),
		log_quote(quoted, sizeof(quoted), text));
}

static void on_report(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
	struct producer *producer = opaque;

	(void)client;
	producer->in_flight--;
	if (message->err)
		fail(producer, message->err, rd_kafka_err2str(message->err));
	else
		producer->confirmed++;
}

static int make_client(struct producer *producer, const struct handoff *handoff)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[512], quoted[600];
	int err = set_all(conf, handoff);

	rd_kafka_conf_set_log_cb(conf, on_log);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_dr_msg_cb(conf, on_report);
	rd_kafka_conf_set_opaque(conf, producer);
	if (!err) {
		producer->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
		if (producer->client)
			return 0;
		log_error("emit.refused_options", "reason=%s hint=\"see kafka.properties\"",
			log_quote(quoted, sizeof(quoted), why));
	}
	rd_kafka_conf_destroy(conf);
	return ERR_INVALID;
}

static void block_signals(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

int producer_open(const struct handoff *handoff, int fd, struct producer **out)
{
	static const uint64_t one = 1;
	struct producer *producer;
	sigset_t before;
	int err;

	if (atomic_load(&closing) >= CLOSING_MAX)
		return ERR_BUSY;
	producer = calloc(1, sizeof(*producer));
	must_get(producer);
	block_signals(&before);
	err = make_client(producer, handoff);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		free(producer);
		return err;
	}
	must_get(rd_kafka_set_log_queue(producer->client, NULL) == RD_KAFKA_RESP_ERR_NO_ERROR);
	producer->partition = (int32_t)handoff->partition;
	producer->topic = rd_kafka_topic_new(producer->client, handoff->topic, NULL);
	producer->queue = rd_kafka_queue_get_main(producer->client);
	must_get(producer->topic && producer->queue);
	rd_kafka_queue_io_event_enable(producer->queue, fd, &one, sizeof(one));
	producer_poll(producer); /* what is there already wakes nobody */
	*out = producer;
	return 0;
}

/* --- using it ------------------------------------------------------------------------------ */

bool producer_put(struct producer *producer, const struct producer_record *record)
{
	const rd_kafka_vu_t what[] = {
		{.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = producer->topic},
		{.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = producer->partition},
		{.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
		{.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)record->key, record->key_len}},
		{.vtype = RD_KAFKA_VTYPE_VALUE,
			.u.mem = {(void *)record->value, record->value_len}},
		{.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = record->timestamp_ms},
		{.vtype = RD_KAFKA_VTYPE_HEADER,
			.u.header = {RECORD_HEADER, record->header, RECORD_HEADER_SIZE}},
	};
	rd_kafka_error_t *error =
		rd_kafka_produceva(producer->client, what, sizeof(what) / sizeof(what[0]));

	if (!error) {
		producer->in_flight++;
		return true;
	}
	fail(producer, rd_kafka_error_code(error), rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return false;
}

void producer_poll(struct producer *producer)
{
	while (rd_kafka_poll(producer->client, 0) > 0)
		;
}

void producer_state(const struct producer *producer, struct producer_state *state)
{
	*state = (struct producer_state){
		.in_flight = producer->in_flight,
		.confirmed = producer->confirmed,
		.error = producer->error,
		.error_ns = producer->error_ns,
		.words = producer->words,
	};
}

/* --- closing it ---------------------------------------------------------------------------- */

static void *end(void *arg)
{
	struct producer *producer = arg;

	rd_kafka_purge(producer->client,
		RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
	rd_kafka_topic_destroy(producer->topic);
	rd_kafka_queue_destroy(producer->queue);
	rd_kafka_destroy_flags(producer->client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
	free(producer);
	atomic_fetch_sub(&closing, 1);
	return NULL;
}

void producer_close(struct producer **producer)
{
	pthread_t thread;
	sigset_t before;

	rd_kafka_queue_io_event_enable((*producer)->queue, -1, NULL, 0);
	atomic_fetch_add(&closing, 1);
	block_signals(&before);
	if (pthread_create(&thread, NULL, end, *producer) == 0)
		pthread_detach(thread);
	else /* it stays, and counts as one that is not gone */
		log_error("emit.no_thread", "hint=\"the producer could not be closed\"");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	*producer = NULL;
}
