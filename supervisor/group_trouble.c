/*
 * group_trouble.c - what an error of the Kafka client says of our membership, and the line about it.
 *
 * "All brokers down" comes after the errors of each and tells no cause, so the
 * cause is remembered.  A login that is refused, or TLS that fails, is no outage:
 * an operator has to act, here or at the broker.
 *
 * Runs in: supervisor.  Blocks in: nowhere.
 */
#include "supervisor/group_trouble.h"

#include <string.h>
#include <syslog.h>

#include "shm/host.h"

#define REFUSED_EVERY_MS 30000

void trouble_init(struct trouble *trouble, const struct config *config)
{
	*trouble = (struct trouble){.config = config, .down = GROUP_NO_BROKER};
}

/* What an error of a connection says about why there is none. */
static enum group_state why_down(rd_kafka_resp_err_t err, const char *text)
{
	if (err == RD_KAFKA_RESP_ERR__AUTHENTICATION || strstr(text, "SASL "))
		return GROUP_LOGIN_REFUSED;
	if (err == RD_KAFKA_RESP_ERR__SSL || strstr(text, "SSL routines"))
		return GROUP_TLS_FAILED;
	return GROUP_NO_BROKER;
}

static void say_denied(struct trouble *trouble, rd_kafka_resp_err_t err)
{
	bool topic = err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
	const char *what = topic ? "topic" : "group";
	unsigned more;
	trouble->denied_ns = host_boot_ns();
	if (!log_limit_pass(
		    topic ? &trouble->topic_acl : &trouble->group_acl, REFUSED_EVERY_MS, &more))
		return;
	log_error("kafka.refused",
		"reason=not_allowed %s=%s error=%s action=\"grant %s on that %s\" suppressed=%u",
		what, topic ? trouble->config->topic : trouble->config->group,
		rd_kafka_err2name(err), topic ? "DESCRIBE and READ" : "READ", what, more);
}

static void say_refused(struct trouble *trouble, const char *error)
{
	bool tls = trouble->down == GROUP_TLS_FAILED;
	char text[400];
	unsigned more;
	if (!log_limit_pass(tls ? &trouble->tls : &trouble->login, REFUSED_EVERY_MS, &more))
		return;
	log_error("kafka.refused", "reason=%s error=%s action=\"%s\" suppressed=%u",
		group_state_word(trouble->down), log_quote(text, sizeof text, error),
		tls ? "check security.protocol and ssl.* in kafka.properties"
		    : "check sasl.* in kafka.properties and kafka.secret_files, then SIGHUP; for "
		      "SCRAM see tallyd --version too",
		more);
}

enum group_state trouble_error(struct trouble *trouble, rd_kafka_resp_err_t err, const char *text)
{
	char quoted[300];
	unsigned more;
	if (err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ||
		err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
		say_denied(trouble, err);
		return GROUP_NOT_ALLOWED;
	}
	bool all_down = err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
	if (!all_down)
		trouble->down = why_down(err, text);
	if (!all_down && trouble->down != GROUP_NO_BROKER)
		say_refused(trouble, text);
	else if (trouble->down == GROUP_NO_BROKER && log_limit_pass(&trouble->error, 5000, &more))
		log_warn("group.error", "code=%s error=%s suppressed=%u", rd_kafka_err2name(err),
			log_quote(quoted, sizeof quoted, text), more);
	return all_down ? trouble->down : GROUP_STATES;
}

void trouble_log(struct trouble *trouble, int level, const char *facility, const char *message)
{
	char text[512];
	unsigned more;
	/* FAIL comes as an error event too, PARTCNT is our own news; CONF shows values that may be
	 * secrets. */
	if (!strcmp(facility, "CONF"))
		return;
	log_quote(text, sizeof text, message);
	if (level > LOG_WARNING || !strcmp(facility, "FAIL") || !strcmp(facility, "PARTCNT"))
		log_debug("kafka.log", "facility=%s text=%s", facility, text);
	else if (log_limit_pass(&trouble->client, 1000, &more))
		log_warn("kafka.log", "facility=%s text=%s suppressed=%u", facility, text, more);
}

bool trouble_denied(const struct trouble *trouble, uint64_t ms)
{
	return trouble->denied_ns && host_boot_ns() - trouble->denied_ns < ms * 1000000;
}
