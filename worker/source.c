/*
 * source.c - one partition of a Kafka topic as a sequence of events.
 *
 *	broker --librdkafka's threads--> queue --eventfd--> source_fetch -> source_next
 *
 * The simple consumer interface: no group, no coordinator, nothing committed,
 * absolute offsets only, and no reset policy: an offset that is out of range
 * is an event, and the worker decides.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere (stopping a partition is
 * a message between threads of this process).
 */
#include "source.h"

#include "memory.h"
#include "quit.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <syslog.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/log.h"
#include "shm/record.h"

#define VERSION_2_2  0x02020000 /* the first with fetch.queue.backoff.ms */
#define LOOKED_AT    0x020fffff /* up to 2.15: what has_room rests on is in the source */
#define API_METADATA 3
/* RD_KAFKA_RESP_ERR__LOG_TRUNCATION, from 2.1 on: the library may be newer than its header. */
#define LOG_TRUNCATION (-139)
#if RD_KAFKA_VERSION >= 0x02010000
_Static_assert(RD_KAFKA_RESP_ERR__LOG_TRUNCATION == LOG_TRUNCATION, "librdkafka's own number");
#endif

struct source {
	rd_kafka_t *client;
	rd_kafka_topic_t *topic;
	rd_kafka_queue_t *queue;
	int32_t partition;
	int fd;
	bool started;
	_Atomic unsigned asked; /* requests for metadata, and answers to them */
	unsigned trusted;	/* so many at source_trust */
	bool doubt;		/* to be told */
	bool in_place;		/* see has_room */
	struct log_limit client_limit, error_limit;
	rd_kafka_message_t *batch[SOURCE_BATCH];
	size_t n, next;
};

bool source_needs_hurry(void)
{
	return rd_kafka_version() < VERSION_2_2;
}

/* --- making the client --------------------------------------------------------------------- */

struct property {
	const char *name, *value;
};

/* In force unless the handoff says otherwise. */
static const struct property defaults[] = {
	{"fetch.wait.max.ms", "100"}, /* also how late an end-of-partition event comes */
	{"queued.max.messages.kbytes", "16384"},
	{"reconnect.backoff.max.ms", "1000"},
	{"topic.metadata.refresh.interval.ms", "30000"},
	{"socket.nagle.disable", "true"},
};

/* In force whatever the handoff says: the worker depends on them. */
static const struct property fixed[] = {
	{"auto.offset.reset", "error"},
	{"enable.partition.eof", "true"},
	{"enable.auto.commit", "false"},
	{"enable.auto.offset.store", "false"}, /* with nothing stored, nothing can be committed */
	{"check.crcs", "true"},
	{"statistics.interval.ms", "0"},
	{"log.queue", "true"},
};

/* Group membership is the supervisor's; with a group id each worker would look for a coordinator.
 */
static bool is_group_property(const char *name)
{
	return strcmp(name, "group.id") == 0 || strcmp(name, "group.instance.id") == 0;
}

static int set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	/* Not librdkafka's words: they repeat the value, which may be a secret. */
	if (rd_kafka_conf_set(conf, name, value, NULL, 0) == RD_KAFKA_CONF_OK)
		return 0;
	log_error("source.option_refused",
		"name=%s hint=\"librdkafka refuses its value; see kafka.properties\"", name);
	return ERR_INVALID;
}

static int set_all(rd_kafka_conf_t *conf, const struct handoff *handoff)
{
	char text[32];
	int err = 0;

	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]) && !err; i++)
		err = set(conf, defaults[i].name, defaults[i].value);
	/* Known from 2.2 on; an older library has its pause built in, see locate_hurry. */
	(void)rd_kafka_conf_set(conf, "fetch.queue.backoff.ms", "10", NULL, 0);
	snprintf(text, sizeof(text), "tally-worker-%u", handoff->partition);
	if (!err)
		err = set(conf, "client.id", text);
	snprintf(text, sizeof(text), "%u", handoff->queue_records);
	if (!err && handoff->queue_records)
		err = set(conf, "queued.min.messages", text);
	for (uint32_t i = 0; i < handoff->n_properties && !err; i++) {
		const struct handoff_property *p = &handoff->properties[i];

		if (!is_group_property(p->name) && p->client != FOR_PRODUCERS)
			err = set(conf, p->name, p->value);
	}
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && !err; i++)
		err = set(conf, fixed[i].name, fixed[i].value);
	return err;
}

static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	struct source *source = rd_kafka_opaque(client);
	char quoted[512];
	unsigned swallowed;

	/* FAIL comes to on_error too; CONF shows values that may be secrets. */
	if (strcmp(facility, "CONF") == 0)
		return;
	log_quote(quoted, sizeof(quoted), text);
	if (level >= LOG_INFO || strcmp(facility, "FAIL") == 0 ||
		strcmp(facility, "PARTCNT") == 0) /* the supervisor says it once */
		log_debug("kafka.log", "facility=%s text=%s", facility, quoted);
	else if (log_limit_pass(&source->client_limit, 10000, &swallowed))
		log_warn("kafka.log", "facility=%s text=%s suppressed=%u", facility, quoted,
			swallowed);
}

/* We reach a broker, and it will not have us; or TLS fails.  Tried again for ever. */
static bool is_refusal(int err, const char *text)
{
	return err == RD_KAFKA_RESP_ERR__AUTHENTICATION || err == RD_KAFKA_RESP_ERR__SSL ||
	       strstr(text, "SSL routines") != NULL;
}

/* Transport errors: the library reconnects by itself. */
static void on_error(rd_kafka_t *client, int err, const char *text, void *opaque)
{
	struct source *source = opaque;
	char quoted[512];
	unsigned swallowed;

	(void)client;
	if (err == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE) /* it never tries again */
		quit_internal("a thread of the Kafka client", ERR_BUSY);
	if (!log_limit_pass(
		    &source->error_limit, is_refusal(err, text) ? 30000 : 10000, &swallowed))
		return;
	log_quote(quoted, sizeof(quoted), text);
	if (is_refusal(err, text))
		log_error("kafka.refused",
			"code=%s text=%s action=\"check sasl.* and ssl.* in kafka.properties and "
			"kafka.secret_files, then SIGHUP\" "
			"suppressed=%u",
			rd_kafka_err2name(err), quoted, swallowed);
	else
		log_warn("kafka.error", "code=%s text=%s suppressed=%u", rd_kafka_err2name(err),
			quoted, swallowed);
}

/* Both are called by the client's threads, before the answer can have any effect. */
static rd_kafka_resp_err_t on_request(rd_kafka_t *client, int fd, const char *broker, int32_t id,
	int16_t api, int16_t version, int32_t correlation, size_t size, void *arg)
{
	struct source *source = arg;

	(void)client, (void)fd, (void)broker, (void)id, (void)version, (void)correlation;
	(void)size;
	memory_turn();
	if (api == API_METADATA)
		atomic_fetch_add_explicit(&source->asked, 1, memory_order_release);
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t on_response(rd_kafka_t *client, int fd, const char *broker, int32_t id,
	int16_t api, int16_t version, int32_t correlation, size_t size, int64_t rtt,
	rd_kafka_resp_err_t err, void *arg)
{
	(void)rtt, (void)err;
	return on_request(client, fd, broker, id, api, version, correlation, size, arg);
}

static rd_kafka_resp_err_t on_new(
	rd_kafka_t *client, const rd_kafka_conf_t *conf, void *arg, char *why, size_t size)
{
	(void)conf, (void)why, (void)size;
	must_get(rd_kafka_interceptor_add_on_request_sent(client, "metadata", on_request, arg) ==
		 RD_KAFKA_RESP_ERR_NO_ERROR);
	must_get(rd_kafka_interceptor_add_on_response_received(
			 client, "metadata", on_response, arg) == RD_KAFKA_RESP_ERR_NO_ERROR);
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

int source_open(const struct handoff *handoff, struct source **out)
{
	static const uint64_t one = 1;
	struct source *source = calloc(1, sizeof(*source));
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[512], quoted[600];

	must_get(source && conf);
	if (set_all(conf, handoff) != 0) {
		rd_kafka_conf_destroy(conf);
		free(source);
		return ERR_INVALID;
	}
	rd_kafka_conf_set_log_cb(conf, on_log);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_opaque(conf, source);
	must_get(rd_kafka_conf_interceptor_add_on_new(conf, "metadata", on_new, source) ==
		 RD_KAFKA_RESP_ERR_NO_ERROR);
	source->client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
	if (!source->client) {
		bool threads = rd_kafka_last_error() == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
		log_error("source.refused", "reason=%s action=\"%s\"",
			log_quote(quoted, sizeof(quoted), why),
			threads ? err_advice(EAGAIN) : "see kafka.properties");
		rd_kafka_conf_destroy(conf);
		free(source);
		return ERR_INVALID;
	}
	must_get(rd_kafka_set_log_queue(source->client, NULL) == RD_KAFKA_RESP_ERR_NO_ERROR);
	source->topic = rd_kafka_topic_new(source->client, handoff->topic, NULL);
	source->queue = rd_kafka_queue_new(source->client);
	source->partition = (int32_t)handoff->partition;
	source->in_place = rd_kafka_version() <= LOOKED_AT;
	source->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	must_get(source->topic && source->queue && source->fd >= 0);
	rd_kafka_queue_io_event_enable(source->queue, source->fd, &one, sizeof(one));
	*out = source;
	return 0;
}

int source_fd(const struct source *source)
{
	return source->fd;
}

struct rd_kafka_s *source_client(const struct source *source)
{
	return source->client;
}

void source_poll(struct source *source)
{
	rd_kafka_poll(source->client, 0);
}

/* --- reading ------------------------------------------------------------------------------- */

void source_trust(struct source *source)
{
	source->trusted = atomic_load_explicit(&source->asked, memory_order_acquire);
}

void source_distrust(struct source *source)
{
	atomic_fetch_add_explicit(&source->asked, 1, memory_order_relaxed);
}

void source_start(struct source *source, int64_t offset)
{
	must(offset >= 0);
	source_stop(source);
	must_get(rd_kafka_consume_start_queue(
			 source->topic, source->partition, offset, source->queue) == 0);
	source->started = true;
}

static void drop_batch(struct source *source)
{
	size_t i = source->next > 0 ? source->next - 1 : 0;

	for (; i < source->n; i++)
		rd_kafka_message_destroy(source->batch[i]);
	source->n = source->next = 0;
	source->doubt = false;
}

void source_stop(struct source *source)
{
	drop_batch(source);
	if (source->started)
		(void)rd_kafka_consume_stop(source->topic, source->partition);
	source->started = false;
}

size_t source_fetch(struct source *source, size_t max)
{
	ssize_t n;

	must(source->next == source->n);
	drop_batch(source);
	if (!source->started)
		return 0;
	n = rd_kafka_consume_batch_queue(
		source->queue, 0, source->batch, max < SOURCE_BATCH ? max : SOURCE_BATCH);
	source->n = n > 0 ? (size_t)n : 0;
	/* Looked at after the batch was taken: what is in it was fetched before. */
	if (atomic_load_explicit(&source->asked, memory_order_acquire) == source->trusted)
		return source->n;
	drop_batch(source);
	source->doubt = true;
	return 1;
}

/* What an error entry of the queue means to us. */
static enum source_kind kind_of(rd_kafka_resp_err_t err)
{
	if ((int)err == LOG_TRUNCATION) /* looked at like the others: the fingerprint decides */
		return SOURCE_OUT_OF_RANGE;
	switch (err) {
	case RD_KAFKA_RESP_ERR__PARTITION_EOF:
		return SOURCE_END;
	case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
	case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
		return SOURCE_OUT_OF_RANGE;
	case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
	case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
	case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
		return SOURCE_UNKNOWN;
	case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
		return SOURCE_DENIED;
	case RD_KAFKA_RESP_ERR__BAD_MSG:
	case RD_KAFKA_RESP_ERR__BAD_COMPRESSION:
	case RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED:
	case RD_KAFKA_RESP_ERR_INVALID_MSG:
	case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
	case RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE:
		return SOURCE_BAD;
	default:
		return SOURCE_ERROR;
	}
}

/*
 * Whether our header fits between a record and the one behind it.  librdkafka hands records out
 * where they lie in the broker's answer: value, headers, a few bytes, next key.  To ask it for the
 * headers of a record that has none costs as much as all else it does for the record here.
 */
static bool has_room(const struct source *source, const rd_kafka_message_t *message)
{
	const size_t needs = 3 + sizeof(RECORD_HEADER) - 1 + RECORD_HEADER_SIZE; /* 3: lengths */
	const rd_kafka_message_t *behind;
	uintptr_t end = (uintptr_t)message->payload + message->len, next;

	if (!source->in_place || !message->payload || source->next == source->n)
		return true;
	behind = source->batch[source->next];
	next = (uintptr_t)(behind->key ? behind->key : behind->payload);
	return next < end || next - end >= needs;
}

/* The `tally` header, the last one of that name. */
static void find_header(const rd_kafka_message_t *message, struct source_event *event)
{
	rd_kafka_headers_t *headers;

	if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
		rd_kafka_header_get_last(headers, RECORD_HEADER, &event->header,
			&event->header_len) != RD_KAFKA_RESP_ERR_NO_ERROR) {
		event->header = NULL;
		event->header_len = 0;
	}
}

bool source_next(struct source *source, struct source_event *event)
{
	const rd_kafka_message_t *message;
	rd_kafka_timestamp_type_t type;

	*event = (struct source_event){.kind = SOURCE_DOUBT, .offset = -1, .timestamp_ms = -1};
	if (source->doubt) {
		source->doubt = false;
		return true;
	}
	if (source->next > 0 && source->next <= source->n)
		rd_kafka_message_destroy(source->batch[source->next - 1]);
	if (source->next == source->n) {
		source->n = source->next = 0;
		return false;
	}
	message = source->batch[source->next++];
	if (message->err) { /* before anything else: the payload is a sentence then */
		event->kind = kind_of(message->err);
		if (event->kind == SOURCE_END)
			event->offset = message->offset;
		event->error = rd_kafka_message_errstr(message);
		return true;
	}
	event->kind = SOURCE_RECORD;
	event->offset = message->offset;
	event->key = message->key;
	event->key_len = message->key_len;
	event->value = message->payload;
	event->value_len = message->len;
	event->timestamp_ms = rd_kafka_message_timestamp(message, &type);
	if (type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE)
		event->timestamp_ms = -1;
	if (has_room(source, message))
		find_header(message, event);
	return true;
}

bool source_last(const struct source *source)
{
	return source->next == source->n || source->batch[source->next]->err;
}
