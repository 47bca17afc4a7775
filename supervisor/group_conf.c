/*
 * group_conf.c - the Kafka properties of the member and of the workers.
 *
 *	tally.yaml --> group_conf (member) | group_worker_properties --> handoff
 *
 * Whatever librdkafka refuses is the operator's mistake and is found by -t.
 *
 * Runs in: supervisor.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <string.h>
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
	char *why; /* 512; empty while all is well */
};

static const char *map_of(const struct config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_properties; i++)
		if (config->properties[i].path && !strcmp(config->properties[i].name, name))
			return "kafka.secret_files";
	return "kafka.properties";
}

static void set(void *arg, const char *name, const char *value)
{
	struct conf_builder *b = arg;
	char message[400];
	/* Workers see by it whether a topic is still the same, the member whether it has grown. */
	if (!b->why[0] && !strcmp(name, "topic.metadata.refresh.interval.ms") && value[0] == '-')
		snprintf(b->why, 512,
			"kafka.properties: %s: must not be off; Tally depends on it, 30000 is good",
			name);
	if (b->why[0])
		return;
	rd_kafka_conf_res_t result =
		rd_kafka_conf_set(b->conf, name, value, message, sizeof message);
	if (result == RD_KAFKA_CONF_OK)
		return;
	/* librdkafka's words repeat the value. */
	if (result == RD_KAFKA_CONF_UNKNOWN)
		snprintf(b->why, 512, "%s: %s: librdkafka %s has no such property",
			map_of(b->config, name), name, rd_kafka_version_str());
	else if (config_hides(b->config, name))
		snprintf(b->why, 512, "%s: %s: librdkafka refuses its value",
			map_of(b->config, name), name);
	else
		snprintf(b->why, 512, "kafka.properties: %s", message);
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

rd_kafka_conf_t *group_conf(const struct config *config, char why[512])
{
	struct conf_builder b = {config, rd_kafka_conf_new(), why};
	why[0] = 0;
	set_membership(&b, config);
	rd_kafka_conf_set_opaque(b.conf, (void *)config);
	rd_kafka_conf_set_socket_cb(b.conf, open_socket);
	rd_kafka_conf_enable_sasl_queue(b.conf, 1); /* see open_member in group.c */
	group_worker_properties(config, set, &b);
	rd_kafka_conf_set_events(b.conf, RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR |
						 RD_KAFKA_EVENT_LOG | RD_KAFKA_EVENT_STATS);
	if (!why[0])
		return b.conf;
	rd_kafka_conf_destroy(b.conf);
	return NULL;
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
static bool crashes(const struct config *config, char why[512])
{
	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *p = &config->properties[i];
		if (strcmp(p->name, "enable.sasl.oauthbearer.unsecure.jwt") ||
			!strcmp(p->value, "false") || rd_kafka_version() >= 0x02020000)
			continue;
		snprintf(why, 512,
			"kafka.properties: %s: librdkafka %s crashes when the token is renewed; "
			"take librdkafka 2.2 or later, or another mechanism",
			p->name, rd_kafka_version_str());
		return true;
	}
	return false;
}

/*
 * Files of certificates and keys, and what does not go together, are looked at
 * only by rd_kafka_new.  Without brokers nothing is connected to.
 */
int group_check(const struct config *config, char why[512])
{
	char message[400];
	if (crashes(config, why))
		return ERR_INVALID;
	rd_kafka_conf_t *conf = group_conf(config, why);
	if (!conf)
		return ERR_INVALID;
	rd_kafka_conf_set(conf, "bootstrap.servers", "", NULL, 0);
	rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, message, sizeof message);
	if (rk) {
		rd_kafka_destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
		return 0;
	}
	rd_kafka_conf_destroy(conf);
	snprintf(why, 512, "kafka.properties: %s",
		repeats_secret(config, message) ? "librdkafka refuses a secret's value" : message);
	return ERR_INVALID;
}
