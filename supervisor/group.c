/*
 * group.c - membership of the Kafka consumer group, on a libev loop.
 *
 *	consumer queue --eventfd, and a timer--> drain --> REBALANCE | STATS | ERROR | LOG
 *	topic thread   --eventfd-------------> partitions, then subscribe
 *
 * REBALANCE is answered in group_rebalance.c.
 *
 * Runs in: supervisor.  Blocks in: group_free, up to 2 s when the broker is silent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/host.h"
#include "shm/log.h"
#include "supervisor/group_conf.h"
#include "supervisor/group_private.h"
#include "supervisor/lease.h"
#include "supervisor/topic.h"

#define DRAIN_MAX   1000 /* events in one turn of the loop */
#define STATS_MS(c) ((uint64_t)GROUP_STATS_MS(c))
#define DENIED_MS   60000

void group_show(struct group *group, enum group_state state)
{
	group->shown = state;
	group->on.state(group->on.arg, state);
}

void group_give_up(struct group *group, const char *what, const char *error)
{
	char why[300], quoted[400];
	if (group->fatal)
		return;
	group->fatal = true;
	snprintf(why, sizeof why, "%s: %s", what, error);
	if (group->closing && !group->closed) {
		log_warn("group.close_failed", "error=%s", log_quote(quoted, sizeof quoted, why));
		group->closed = true;
		group->on.closed(group->on.arg);
	} else {
		group->on.fatal(group->on.arg, why, false);
	}
}

/* ---------------------------------------------------------------- statistics, errors */

static uint64_t monotonic_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What was shown instead of "member" is no longer so: the session has outlived it. */
static bool is_over(const struct group *group)
{
	switch (group->shown) {
	case GROUP_NO_BROKER:
	case GROUP_LOGIN_REFUSED:
	case GROUP_TLS_FAILED:
		return true;
	case GROUP_NOT_ALLOWED: /* said again at each refresh of the metadata */
		return !trouble_denied(&group->trouble, DENIED_MS);
	default:
		return false;
	}
}

/*
 * librdkafka's clock stands still while the machine sleeps, the broker's does
 * not.  The distance between the two clocks only grows, so the one seen the
 * last time can only make the contact look older than it is, never younger.
 */
static void on_stats(struct group *group, rd_kafka_event_t *event)
{
	const char *json = rd_kafka_event_stats(event);
	uint64_t contact, now = host_boot_ns(), ahead = now - monotonic_ns();
	uint64_t session = (uint64_t)group->config->session_timeout_ms * 1000000;
	uint64_t interval = STATS_MS(group->config) * 1000000;
	struct lease_past past = {group->stats_at, group->contact, group->assigned};
	bool joining;
	bool known = json && lease_contact(json, strlen(json), group->config->session_timeout_ms,
				     &contact, &joining);
	if (known && (!joining || lease_join_counts(&past, now, interval, session))) {
		if (contact + group->boot_ahead_ns > group->contact)
			group->contact = contact + group->boot_ahead_ns;
		group->on.contact(group->on.arg, contact + group->boot_ahead_ns);
		if (group->member && is_over(group))
			group_show(group, GROUP_MEMBER);
	}
	group->boot_ahead_ns = ahead;
	group->stats_at = now;
}

static void on_fatal(struct group *group)
{
	char text[256];
	rd_kafka_resp_err_t err = rd_kafka_fatal_error(group->rk, text, sizeof text);
	if (group->fatal)
		return;
	group->fatal = true;
	if (group->closing && !group->closed) { /* it will never say so itself any more */
		group->closed = true;
		group->on.closed(group->on.arg);
		return;
	}
	char line[400];
	snprintf(line, sizeof line, "%s: %s", rd_kafka_err2name(err), text);
	group->on.fatal(group->on.arg, line, err == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID);
}

static void on_error(struct group *group, rd_kafka_event_t *event)
{
	rd_kafka_resp_err_t err = rd_kafka_event_error(event);
	enum group_state state;
	if (err == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE) {
		/* It does not try again to start a thread that it needs. */
		group_give_up(group, rd_kafka_event_error_string(event), err_advice(EAGAIN));
		return;
	}
	if (rd_kafka_event_error_is_fatal(event) || err == RD_KAFKA_RESP_ERR__FATAL) {
		on_fatal(group);
		return;
	}
	state = trouble_error(&group->trouble, err, rd_kafka_event_error_string(event));
	if (state != GROUP_STATES)
		group_show(group, state);
}

static void on_log(struct group *group, rd_kafka_event_t *event)
{
	const char *facility, *message;
	int level;
	if (!rd_kafka_event_log(event, &facility, &message, &level))
		trouble_log(&group->trouble, level, facility, message);
}

/* ------------------------------------------------------------------------ the queue */

static void on_event(struct group *group, rd_kafka_event_t *event)
{
	switch (rd_kafka_event_type(event)) {
	case RD_KAFKA_EVENT_REBALANCE:
		group_rebalance(group, event);
		break;
	case RD_KAFKA_EVENT_ERROR:
		on_error(group, event);
		break;
	case RD_KAFKA_EVENT_LOG:
		on_log(group, event);
		break;
	default: /* a message: the empty acknowledgement has stopped working */
		log_error("group.unexpected_event", "event=%s", rd_kafka_event_name(event));
	}
}

static void check_closed(struct group *group)
{
	if (!group->closing || group->closed || !rd_kafka_consumer_closed(group->rk))
		return;
	group->closed = true;
	group->on.closed(group->on.arg);
}

/* Of several statistics the last one says all; of a thousand partitions one is a megabyte. */
static void drain(struct group *group)
{
	rd_kafka_event_t *event, *stats = NULL;
	int n = 0;
	while (n++ < DRAIN_MAX && (event = rd_kafka_queue_poll(group->queue, 0))) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_STATS) {
			if (stats)
				rd_kafka_event_destroy(stats);
			stats = event;
			continue;
		}
		on_event(group, event);
		rd_kafka_event_destroy(event);
	}
	if (stats) {
		on_stats(group, stats);
		rd_kafka_event_destroy(stats);
	}
	group->polled_at = host_boot_ns();
	/* A timer: others have their turn before it, which they have not before a fed event. */
	if (n > DRAIN_MAX)
		ev_timer_start(group->loop, &group->more);
	check_closed(group);
}

static void on_more(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	drain(w->data);
}

static void on_wake(struct ev_loop *loop, ev_io *w, int revents)
{
	struct group *group = w->data;
	eventfd_t count;
	(void)loop;
	(void)revents;
	eventfd_read(group->fd, &count);
	drain(group);
}

/* Wake-ups come on the empty edge only, and polling is what keeps a member alive. */
static void on_drain_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	drain(w->data);
}

/* ------------------------------------------------------------------------- the topic */

static void subscribe(struct group *group)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_list_add(list, group->config->topic, RD_KAFKA_PARTITION_UA);
	rd_kafka_resp_err_t err = rd_kafka_subscribe(group->rk, list);
	rd_kafka_topic_partition_list_destroy(list);
	group->subscribed = true;
	if (err)
		group_give_up(group, "subscribe", rd_kafka_err2str(err));
	else
		group_show(group, GROUP_JOINING);
}

void group_ask_topic(struct group *group)
{
	topic_ask_now(group->topic);
}

static void on_topic(struct ev_loop *loop, ev_io *w, int revents)
{
	struct group *group = w->data;
	uint32_t partitions;
	char why[256], quoted[300];
	(void)loop;
	(void)revents;
	enum topic_state state = topic_answer(group->topic, &partitions, why);
	log_quote(quoted, sizeof quoted, why);
	if (state == TOPIC_NO_BROKER) {
		log_warn("topic.waiting", "reason=%s brokers=%s error=%s action=\"%s\"",
			group_state_word(group->trouble.down), group->config->brokers, quoted,
			group->trouble.down == GROUP_NO_BROKER
				? "start one, or correct kafka.brokers"
				: "see kafka.refused");
		group_show(group, group->trouble.down);
	} else if (state == TOPIC_MISSING) {
		log_warn(group->subscribed ? "topic.gone" : "topic.waiting",
			"reason=missing topic=%s action=\"create it, or correct kafka.topic\"",
			group->config->topic);
		group_show(group, GROUP_NO_TOPIC);
	} else if (state == TOPIC_REFUSED) {
		group_show(group, trouble_error(&group->trouble,
					  RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, why));
	} else if (state == TOPIC_FOUND) {
		group->on.partitions(group->on.arg, partitions);
		if (group->subscribed && group->shown == GROUP_NO_TOPIC)
			group_show(group, group->member ? GROUP_MEMBER : GROUP_JOINING);
		if (!group->subscribed && !group->closing)
			subscribe(group);
	}
}

/* ---------------------------------------------------------------------- start and end */

static void watch(struct group *group)
{
	uint64_t one = 1;
	rd_kafka_queue_io_event_enable(group->queue, group->fd, &one, sizeof one);
	ev_io_init(&group->wake, on_wake, group->fd, EV_READ);
	ev_timer_init(&group->drain_timer, on_drain_timer, 0.2, 0.2);
	ev_timer_init(&group->more, on_more, 0., 0.);
	group->more.data = group;
	ev_io_init(&group->topic_wake, on_topic, topic_fd(group->topic), EV_READ);
	group->wake.data = group->drain_timer.data = group->topic_wake.data = group;
	ev_io_start(group->loop, &group->wake);
	ev_timer_start(group->loop, &group->drain_timer);
	ev_io_start(group->loop, &group->topic_wake);
}

static int open_member(struct group *group, rd_kafka_conf_t *conf, char why[512])
{
	group->rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, 512);
	if (!group->rk) {
		rd_kafka_conf_destroy(conf);
		return ERR_INVALID;
	}
	/* Tokens are renewed in a thread of librdkafka's: our queue carries events, not callbacks. */
	rd_kafka_error_t *error = rd_kafka_sasl_background_callbacks_enable(group->rk);
	rd_kafka_resp_err_t err = rd_kafka_error_code(error);
	rd_kafka_error_destroy(error);
	if (err == RD_KAFKA_RESP_ERR__NOT_CONFIGURED) /* no tokens */
		err = 0;
	if (!err)
		err = rd_kafka_poll_set_consumer(group->rk);
	group->queue = rd_kafka_queue_get_consumer(group->rk);
	if (!err)
		err = rd_kafka_set_log_queue(group->rk, group->queue);
	if (err) {
		snprintf(why, 512, "cannot start the Kafka client: %s", rd_kafka_err2str(err));
		return ERR_IO;
	}
	group->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (group->fd < 0 || topic_watch(group->rk, group->config->topic, &group->topic)) {
		snprintf(why, 512, "cannot start the Kafka client: out of threads or descriptors");
		return ERR_NOMEM;
	}
	watch(group);
	return 0;
}

int group_start(const struct config *config, struct ev_loop *loop,
	const struct group_events *events, struct group **out, char why[512])
{
	rd_kafka_conf_t *conf = group_conf(config, why);
	if (!conf)
		return ERR_INVALID;
	struct group *group = calloc(1, sizeof *group);
	must_get(group);
	group->config = config;
	group->on = *events;
	group->loop = loop;
	group->fd = -1;
	trouble_init(&group->trouble, config);
	group->boot_ahead_ns = host_boot_ns() - monotonic_ns();
	group->polled_at = host_boot_ns();
	int err = open_member(group, conf, why);
	if (err)
		group_free(&group, false);
	*out = group;
	return err;
}

struct credentials {
	const char *username, *password;
};

static void take_credential(void *arg, const char *name, const char *value)
{
	struct credentials *c = arg;
	if (!strcmp(name, "sasl.username"))
		c->username = value;
	else if (!strcmp(name, "sasl.password"))
		c->password = value;
}

void group_renew_credentials(struct group *group)
{
	struct credentials c = {NULL, NULL};
	char text[256];
	group_worker_properties(group->config, take_credential, &c);
	if (!c.username || !c.password)
		return;
	rd_kafka_error_t *error = rd_kafka_sasl_set_credentials(group->rk, c.username, c.password);
	if (error)
		log_error("group.credentials_refused", "error=%s",
			log_quote(text, sizeof text, rd_kafka_error_string(error)));
	rd_kafka_error_destroy(error);
}

void group_close(struct group *group)
{
	rd_kafka_error_t *error = NULL;
	char text[256];
	if (group->closing)
		return;
	group->closing = true;
	while (group->unanswered) /* its stores are being stopped: nothing more to wait for */
		group_ack(group);
	/* After a fatal error librdkafka 2.0.2 never gets to closed. */
	if (!group->fatal)
		error = rd_kafka_consumer_close_queue(group->rk, group->queue);
	if (!group->fatal && !error)
		return;
	if (error)
		log_warn("group.close_failed", "error=%s",
			log_quote(text, sizeof text, rd_kafka_error_string(error)));
	rd_kafka_error_destroy(error);
	group->closed = true;
	group->on.closed(group->on.arg);
}

uint64_t group_polled_at(const struct group *group)
{
	return group->polled_at;
}

static void unwatch(struct group *group)
{
	ev_io_stop(group->loop, &group->wake);
	ev_timer_stop(group->loop, &group->drain_timer);
	ev_timer_stop(group->loop, &group->more);
	ev_io_stop(group->loop, &group->topic_wake);
	rd_kafka_queue_io_event_enable(group->queue, -1, NULL, 0);
}

bool group_free(struct group **group, bool clean)
{
	struct group *g = *group;
	if (!g)
		return true;
	if (g->topic)
		unwatch(g);
	topic_free(&g->topic);
	if (g->queue)
		rd_kafka_queue_destroy(g->queue);
	/* Before 2.3 librdkafka aborts when it frees a joined client that never had an assignment. */
	bool left = g->rk && !g->assigned && rd_kafka_version() < 0x02030000;
	if (g->rk && clean && !left)
		rd_kafka_destroy(g->rk);
	else if (g->rk && !left)
		rd_kafka_destroy_flags(g->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
	if (g->fd >= 0)
		close(g->fd);
	free(g);
	*group = NULL;
	return !left;
}
