/*
 * group_rebalance.c - the answers to what the group decides.
 *
 *	ASSIGN  --> assign(nothing)                --> on.assigned
 *	REVOKE  --> on.revoked --> group_ack       --> unassign(nothing)
 *	failed  --> on.revoked (lost, all of them) --> group_ack --> unassign(nothing)
 *
 * Every REBALANCE event gets exactly one answer of the protocol in force
 * (assign / incremental_assign, with an empty list).  A loss that comes while
 * a revocation waits for its answer is passed on at once, because it must stop
 * the workers now; each of the two then gets its own group_ack.
 *
 * Runs in: supervisor.  Blocks in: nowhere.
 */
#include "supervisor/group_private.h"

#include <string.h>

#include "shm/log.h"

static bool is_cooperative(const struct group *group)
{
	const char *protocol = rd_kafka_rebalance_protocol(group->rk);
	return protocol && !strcmp(protocol, "COOPERATIVE");
}

static void check_error(struct group *group, rd_kafka_error_t *error, const char *what)
{
	if (!error)
		return;
	group_give_up(group, what, rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
}

static void check_code(struct group *group, rd_kafka_resp_err_t err, const char *what)
{
	if (err)
		group_give_up(group, what, rd_kafka_err2str(err));
}

/* The empty list: accepted, and nothing is fetched. */
static void answer_assign(struct group *group)
{
	rd_kafka_topic_partition_list_t *none = rd_kafka_topic_partition_list_new(0);
	if (is_cooperative(group))
		check_error(
			group, rd_kafka_incremental_assign(group->rk, none), "incremental_assign");
	else
		check_code(group, rd_kafka_assign(group->rk, none), "assign");
	rd_kafka_topic_partition_list_destroy(none);
}

static void answer_revoke(struct group *group)
{
	rd_kafka_topic_partition_list_t *none = rd_kafka_topic_partition_list_new(0);
	if (is_cooperative(group))
		check_error(group, rd_kafka_incremental_unassign(group->rk, none),
			"incremental_unassign");
	else
		check_code(group, rd_kafka_assign(group->rk, NULL), "assign");
	rd_kafka_topic_partition_list_destroy(none);
}

/* Only our topic's, only what can exist. */
static size_t own_partitions(
	const struct group *group, const rd_kafka_topic_partition_list_t *list, uint32_t *out)
{
	size_t n = 0;
	int strange = 0;
	for (int i = 0; list && i < list->cnt; i++) {
		const rd_kafka_topic_partition_t *p = &list->elems[i];
		if (strcmp(p->topic, group->config->topic) || p->partition < 0 ||
			p->partition >= TABLE_CAPACITY || n == TABLE_CAPACITY)
			strange++;
		else
			out[n++] = (uint32_t)p->partition;
	}
	if (strange) /* a topic of more partitions than we can serve has many */
		log_warn("group.strange_partitions", "partitions=%d most=%u", strange,
			TABLE_CAPACITY);
	return n;
}

static enum group_loss kind_of_loss(const struct group *group)
{
	if (rd_kafka_assignment_lost(group->rk))
		return GROUP_LOSS;
	return is_cooperative(group) ? GROUP_REVOKED : GROUP_EAGER;
}

static void on_revoke(struct group *group, const uint32_t *list, size_t n)
{
	static const char *const words[] = {"revoked", "eager", "lost"};
	enum group_loss loss = kind_of_loss(group);
	if (group->closing) {
		log_info("group.closing_revoke", "partitions=%zu", n);
		answer_revoke(group);
		return;
	}
	log_line(loss == GROUP_LOSS ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "group.revoke",
		"partitions=%zu kind=%s", n, words[loss]);
	group->unanswered++;
	group->member = loss != GROUP_LOSS;
	if (loss == GROUP_LOSS && group->shown != GROUP_NO_TOPIC) /* which is why */
		group_show(group, GROUP_LOST);
	group->on.revoked(group->on.arg, list, n, loss);
}

static void on_assign(struct group *group, const uint32_t *list, size_t n)
{
	bool full = !is_cooperative(group);
	log_info("group.assign", "partitions=%zu protocol=%s", n, full ? "eager" : "cooperative");
	answer_assign(group);
	group->assigned = true;
	if (group->fatal)
		return;
	group->member = true;
	group_show(group, GROUP_MEMBER);
	if (!group->closing)
		group->on.assigned(group->on.arg, list, n, full);
}

static void on_lost_all(struct group *group, const uint32_t *list, size_t n)
{
	group_show(group, GROUP_LOST);
	group->unanswered++;
	group->on.revoked(group->on.arg, list, n, GROUP_LOSS);
}

void group_rebalance(struct group *group, rd_kafka_event_t *event)
{
	static uint32_t list[TABLE_CAPACITY];
	size_t n = own_partitions(group, rd_kafka_event_topic_partition_list(event), list);
	switch (rd_kafka_event_error(event)) {
	case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
		on_assign(group, list, n);
		break;
	case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
		on_revoke(group, list, n);
		break;
	default: /* the rebalance itself failed: we own nothing, whatever is in the list */
		log_warn("group.rebalance_failed", "error=%s",
			rd_kafka_err2name(rd_kafka_event_error(event)));
		for (n = 0; n < TABLE_CAPACITY; n++) /* whatever the topic has by now */
			list[n] = (uint32_t)n;
		on_lost_all(group, list, n);
	}
}

void group_ack(struct group *group)
{
	if (!group->unanswered)
		return;
	group->unanswered--;
	answer_revoke(group);
}
