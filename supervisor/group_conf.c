/*
 * group_conf.c - the Kafka properties of the member and of the workers.
 *
 *	tally.yaml --> group_conf (member) | group_worker_properties --> handoff
 *
 * A property that is for producers goes to the producers of the workers only, one
 * for consumers to the member and the workers' consumers.
 *
 * Whatever librdkafka refuses is the operator's mistake and is found by -t.
 *
 * Runs in: supervisor.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "shm/err.h"
#include "supervisor/group.h"
#include "supervisor/group_conf.h"

static void number(char text[16], uint32_t value)
{
	snprintf(text, 16, "%u", value);
}

struct conf_builder {
	const struct config *config;
	rd_kafka_conf_t *conf;
	struct config_error *error; /* its line is empty while all is well */
};

/* One line of librdkafka's words. */
static const char *tidy(char *words)
{
	size_t len = strlen(words);
	while (len > 0 && (unsigned char)words[len - 1] <= ' ')
		words[--len] = 0;
	for (char *s = words; *s; s++)
		if ((unsigned char)*s < ' ')
			*s = ' ';
	return words;
}

/* Takes names out of librdkafka's table, a row of text each; they point into it. */
static size_t take_names(char *table, const char *names[], size_t max)
{
	char *row, *rest;
	size_t n = 0;
	for (row = strtok_r(table, "\n", &rest); row && n < max;
		row = strtok_r(NULL, "\n", &rest)) {
		if (*row < 'a' || *row > 'z' || !strchr(row, '|'))
			continue;
		row[strcspn(row, " ")] = 0;
		names[n++] = row;
	}
	return n;
}

/* librdkafka's table; a dump of a configuration would lack the aliases, and what has no value yet. */
static char *show_properties(void)
{
	char *table = NULL;
	size_t size;
	FILE *out = open_memstream(&table, &size);
	if (!out)
		return NULL;
	rd_kafka_conf_properties_show(out);
	if (!fclose(out))
		return table;
	free(table);
	return NULL;
}

/* "name   |  P  | range ...": the second column. */
enum handoff_client group_conf_client(const char *name)
{
	static char *table;
	size_t len = strlen(name);
	if (!table)
		table = show_properties();
	for (const char *row = table; row; row = strchr(row, '\n')) {
		row += *row == '\n';
		if (strncmp(row, name, len) || row[len] != ' ')
			continue;
		row += len + strspn(row + len, " |");
		if (row[0] == 'P' && row[1] == ' ')
			return FOR_PRODUCERS;
		return row[0] == 'C' && row[1] == ' ' ? FOR_CONSUMERS : FOR_ALL_CLIENTS;
	}
	return FOR_ALL_CLIENTS;
}

static void say_unknown(struct conf_builder *b, const char *name)
{
	const char *names[512], *near = NULL;
	char *table = show_properties();
	if (table)
		near = config_nearest_of(name, names, take_names(table, names, 512));
	config_property_fail(b->config, name, b->error,
		"librdkafka %s has no such property; %s%s%s", rd_kafka_version_str(),
		near ? "did you mean " : "take it out", near ? near : "", near ? "?" : "");
	free(table);
}

static void set(void *arg, const char *name, const char *value)
{
	struct conf_builder *b = arg;
	char message[400] = "";
	if (b->error->line[0])
		return;
	/* Workers see by it whether a topic is still the same, the member whether it has grown. */
	if (!strcmp(name, "topic.metadata.refresh.interval.ms") && strtol(value, NULL, 0) <= 0) {
		config_property_fail(b->config, name, b->error,
			"must not be off; Tally depends on it, 30000 is good");
		return;
	}
	rd_kafka_conf_res_t result =
		rd_kafka_conf_set(b->conf, name, value, message, sizeof message);
	if (result == RD_KAFKA_CONF_UNKNOWN)
		say_unknown(b, name);
	else if (result != RD_KAFKA_CONF_OK && config_hides(b->config, name))
		/* librdkafka's words repeat the value. */
		config_property_fail(
			b->config, name, b->error, "librdkafka refuses its value; correct it");
	else if (result != RD_KAFKA_CONF_OK)
		config_property_fail(b->config, name, b->error, "%s", tidy(message));
}

static void set_for_consumer(void *arg, const char *name, const char *value)
{
	if (group_conf_client(name) != FOR_PRODUCERS)
		set(arg, name, value);
}

static void set_for_producer(void *arg, const char *name, const char *value)
{
	if (group_conf_client(name) != FOR_CONSUMERS)
		set(arg, name, value);
}

void group_worker_properties(const struct config *config,
	void (*add)(void *arg, const char *name, const char *value), void *arg)
{
	add(arg, "bootstrap.servers", config->brokers);
	add(arg, "isolation.level",
		config->read_uncommitted ? "read_uncommitted" : "read_committed");
	for (uint32_t i = 0; i < config->n_properties; i++)
		add(arg, config->properties[i].name, config->properties[i].value);
}

static void set_membership(struct conf_builder *b, const struct config *c)
{
	char text[16];
	set(b, "client.id", c->instance[0] ? c->instance : "tally");
	set(b, "group.id", c->group);
	if (c->group_instance_id[0])
		set(b, "group.instance.id", c->group_instance_id);
	set(b, "partition.assignment.strategy", c->assignor);
	number(text, c->session_timeout_ms);
	set(b, "session.timeout.ms", text);
	number(text, c->heartbeat_interval_ms);
	set(b, "heartbeat.interval.ms", text);
	number(text, c->max_poll_interval_ms);
	set(b, "max.poll.interval.ms", text);
	number(text, GROUP_STATS_MS(c)); /* the lease is renewed from these */
	set(b, "statistics.interval.ms", text);
	set(b, "enable.auto.commit", "false");
	set(b, "enable.auto.offset.store", "false");
	set(b, "log.queue", "true");
	set(b, "socket.nagle.disable", "true");
	set(b, "reconnect.backoff.max.ms", "1000");
	set(b, "topic.metadata.refresh.interval.ms",
		"10000"); /* how soon a new partition is ours */
}

/*
 * A coordinator that has gone without a word must be noticed within half a
 * session: lease_contact counts on it while a join is under way.
 */
static int open_socket(int domain, int type, int protocol, void *opaque)
{
	const struct config *config = opaque;
	int fd = socket(domain, type | SOCK_CLOEXEC, protocol);
	int on = 1, probes = 2;
	unsigned silence_ms = config->session_timeout_ms / 2;
	int step_s = (int)(config->session_timeout_ms / 6000);
	if (fd < 0)
		return fd;
	if (step_s < 1)
		step_s = 1;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &step_s, sizeof step_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step_s, sizeof step_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
	return fd;
}

static rd_kafka_conf_t *built(struct conf_builder *b)
{
	if (!b->error->line[0])
		return b->conf;
	rd_kafka_conf_destroy(b->conf);
	return NULL;
}

static rd_kafka_conf_t *build(const struct config *config, struct config_error *error)
{
	struct conf_builder b = {config, rd_kafka_conf_new(), error};
	error->line[0] = 0;
	set_membership(&b, config);
	rd_kafka_conf_set_opaque(b.conf, (void *)config);
	rd_kafka_conf_set_socket_cb(b.conf, open_socket);
	rd_kafka_conf_enable_sasl_queue(b.conf, 1); /* see open_member in group.c */
	group_worker_properties(config, set_for_consumer, &b);
	rd_kafka_conf_set_events(b.conf, RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR |
						 RD_KAFKA_EVENT_LOG | RD_KAFKA_EVENT_STATS);
	return built(&b);
}

/* Like that of a worker (worker/producer.c), as far as properties can contradict it. */
static rd_kafka_conf_t *build_producer(const struct config *config, struct config_error *error)
{
	struct conf_builder b = {config, rd_kafka_conf_new(), error};
	error->line[0] = 0;
	group_worker_properties(config, set_for_producer, &b);
	set(&b, "enable.idempotence", "true");
	set(&b, "max.in.flight", "1");
	set(&b, "message.timeout.ms", "0");
	set(&b, "log.queue", "true"); /* what it has to say, the consumer has said */
	return built(&b);
}

rd_kafka_conf_t *group_conf(const struct config *config, char why[512])
{
	struct config_error error;
	rd_kafka_conf_t *conf = build(config, &error);
	snprintf(why, 512, "%s", error.line);
	return conf;
}

static bool repeats_secret(const struct config *config, const char *message)
{
	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *p = &config->properties[i];
		if (config_hides(config, p->name) && p->value[0] && strstr(message, p->value))
			return true;
	}
	return false;
}

/*
 * librdkafka before 2.2 crashes when it renews a token that it made itself: its
 * init returns before it has set the queue for that.
 */
static bool crashes(const struct config *config, struct config_error *error)
{
	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *p = &config->properties[i];
		if (strcmp(p->name, "enable.sasl.oauthbearer.unsecure.jwt") ||
			!strcmp(p->value, "false") || rd_kafka_version() >= 0x02020000)
			continue;
		config_property_fail(config, p->name, error,
			"librdkafka %s crashes when the token is renewed; take librdkafka 2.2 or "
			"later, or another mechanism",
			rd_kafka_version_str());
		return true;
	}
	return false;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	return m > 0 && m <= n && !strcmp(text + n - m, end);
}

/* The property that a message is about: the longest name in it, or it ends in the value; or NULL. */
static const char *blamed(const struct config *config, const char *message)
{
	const char *found = NULL, *by_value = NULL;
	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *p = &config->properties[i];
		if (strstr(message, p->name) && (!found || strlen(p->name) > strlen(found)))
			found = p->name;
		if (ends_with(message, p->value))
			by_value = p->name;
	}
	return found ? found : by_value;
}

/*
 * Files of certificates and keys, and what does not go together, are looked at
 * only by rd_kafka_new.  Without brokers nothing is connected to.
 */
static int try_client(const struct config *config, rd_kafka_type_t type, rd_kafka_conf_t *conf,
	struct config_error *error)
{
	char message[400] = "";
	if (!conf)
		return ERR_INVALID;
	rd_kafka_conf_set(conf, "bootstrap.servers", "", NULL, 0);
	/* With GSSAPI it would run kinit, and wait for it. */
	rd_kafka_conf_set(conf, "sasl.kerberos.kinit.cmd", ":", NULL, 0);
	rd_kafka_t *rk = rd_kafka_new(type, conf, message, sizeof message);
	if (rk) {
		rd_kafka_destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
		return 0;
	}
	rd_kafka_conf_destroy(conf);
	bool secret = repeats_secret(config, message); /* before it is tidied */
	const char *name = blamed(config, tidy(message));
	return config_property_fail(config, name, error, "%s",
		secret ? "librdkafka refuses a secret's value; correct it" : message);
}

int group_conf_check(const struct config *config, struct config_error *error)
{
	if (config_files_check(config, error) || crashes(config, error))
		return ERR_INVALID;
	if (try_client(config, RD_KAFKA_CONSUMER, build(config, error), error))
		return ERR_INVALID;
	return try_client(config, RD_KAFKA_PRODUCER, build_producer(config, error), error);
}

/* ------------------------------------------------------------------------- what is of no use */

struct protocol {
	const char *word;
	bool sasl, tls;
};

static const struct protocol protocols[] = {
	{"plaintext", false, false}, /* librdkafka's default */
	{"ssl", false, true},
	{"sasl_plaintext", true, false},
	{"sasl_ssl", true, true},
};

static const struct protocol *protocol_of(const struct config *config)
{
	const struct protocol *found = protocols;
	for (uint32_t i = 0; i < config->n_properties; i++)
		for (size_t k = 0; k < sizeof protocols / sizeof *protocols; k++)
			if (!strcmp(config->properties[i].name, "security.protocol") &&
				!strcasecmp(config->properties[i].value, protocols[k].word))
				found = &protocols[k];
	return found;
}

static const char *first_of(const struct config *config, const char *prefix)
{
	for (uint32_t i = 0; i < config->n_properties; i++)
		if (!strncmp(config->properties[i].name, prefix, strlen(prefix)))
			return config->properties[i].name;
	return NULL;
}

void group_conf_unused(const struct config *config,
	void (*say)(const char *property, const char *protocol, const char *instead))
{
	const struct protocol *protocol = protocol_of(config);
	const char *sasl = first_of(config, "sasl."), *tls = first_of(config, "ssl.");
	if (sasl && !protocol->sasl)
		say(sasl, protocol->word, "sasl_ssl");
	if (tls && !protocol->tls)
		say(tls, protocol->word, sasl || protocol->sasl ? "sasl_ssl" : "ssl");
}
