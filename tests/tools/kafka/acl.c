/*
 * acl.c - kafka-do's acl: one rule, allowed or dropped.
 *
 *	words --> struct rule --> CreateAcls | DeleteAcls --> DescribeAcls: is it so?
 *
 * A name that ends in * is a prefix; * alone is every name.
 */
#include "tests/tools/kafka/acl.h"

#include <string.h>

struct word {
	const char *name;
	int code;
};

static const struct word operations[] = {{"all", RD_KAFKA_ACL_OPERATION_ALL},
	{"read", RD_KAFKA_ACL_OPERATION_READ}, {"write", RD_KAFKA_ACL_OPERATION_WRITE},
	{"create", RD_KAFKA_ACL_OPERATION_CREATE}, {"delete", RD_KAFKA_ACL_OPERATION_DELETE},
	{"alter", RD_KAFKA_ACL_OPERATION_ALTER}, {"describe", RD_KAFKA_ACL_OPERATION_DESCRIBE},
	{"cluster_action", RD_KAFKA_ACL_OPERATION_CLUSTER_ACTION},
	{"describe_configs", RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS},
	{"alter_configs", RD_KAFKA_ACL_OPERATION_ALTER_CONFIGS},
	{"idempotent_write", RD_KAFKA_ACL_OPERATION_IDEMPOTENT_WRITE}, {NULL, 0}};

static const struct word resources[] = {{"topic", RD_KAFKA_RESOURCE_TOPIC},
	{"group", RD_KAFKA_RESOURCE_GROUP}, {"cluster", RD_KAFKA_RESOURCE_BROKER}, {NULL, 0}};

static int code_of(const struct word *list, const char *name)
{
	while (list->name != NULL && strcmp(list->name, name) != 0)
		list++;
	if (list->name == NULL)
		kafka_fail(name, "acl: no such word");
	return list->code;
}

struct rule {
	rd_kafka_ResourceType_t type;
	const char *name, *principal;
	rd_kafka_ResourcePatternType_t pattern;
	rd_kafka_AclOperation_t operation;
};

static struct rule rule_of(char **arg)
{
	char *name = strchr(arg[2], ':');
	struct rule rule = {.principal = arg[0], .pattern = RD_KAFKA_RESOURCE_PATTERN_LITERAL};

	if (name == NULL)
		kafka_fail(arg[2], "expected TYPE:NAME");
	if (strncmp(arg[2], "transactional_id:", 17) == 0)
		kafka_fail(arg[2], "librdkafka 2.0.2 has no rules for those; take the Java tool");
	*name++ = '\0';
	if (strlen(name) > 1 && name[strlen(name) - 1] == '*') {
		name[strlen(name) - 1] = '\0';
		rule.pattern = RD_KAFKA_RESOURCE_PATTERN_PREFIXED;
	}
	rule.name = name;
	rule.type = (rd_kafka_ResourceType_t)code_of(resources, arg[2]);
	rule.operation = (rd_kafka_AclOperation_t)code_of(operations, arg[1]);
	return rule;
}

/* A rule to be made, or one to be looked for: librdkafka has one type, and a maker for each. */
static rd_kafka_AclBinding_t *binding_of(const struct rule *rule, bool made)
{
	char why[512];
	rd_kafka_AclBinding_t *binding =
		(made ? rd_kafka_AclBinding_new : rd_kafka_AclBindingFilter_new)(rule->type,
			rule->name, rule->pattern, rule->principal, "*", rule->operation,
			RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, why, sizeof(why));

	if (binding == NULL)
		kafka_fail("acl", why);
	return binding;
}

struct rule_wish {
	struct kafka_run *run;
	const struct rule *rule;
	bool there;
};

static bool rule_is_so(void *arg)
{
	const struct rule_wish *wish = arg;
	rd_kafka_AclBinding_t *filter = binding_of(wish->rule, false);
	rd_kafka_event_t *event;
	size_t n;

	rd_kafka_DescribeAcls(wish->run->rk, filter, wish->run->options, wish->run->queue);
	event = kafka_answer(wish->run, "acl");
	rd_kafka_DescribeAcls_result_acls(rd_kafka_event_DescribeAcls_result(event), &n);
	rd_kafka_event_destroy(event);
	rd_kafka_AclBinding_destroy(filter);
	return (n > 0) == wish->there;
}

/* One rule was sent, so there is one result. */
static void check_created(rd_kafka_event_t *event)
{
	size_t n;

	kafka_check("acl", rd_kafka_acl_result_error(rd_kafka_CreateAcls_result_acls(
				   rd_kafka_event_CreateAcls_result(event), &n)[0]));
}

static void check_deleted(rd_kafka_event_t *event)
{
	size_t n;
	const rd_kafka_DeleteAcls_result_response_t *response =
		rd_kafka_DeleteAcls_result_responses(
			rd_kafka_event_DeleteAcls_result(event), &n)[0];

	kafka_check("acl", rd_kafka_DeleteAcls_result_response_error(response));
	rd_kafka_DeleteAcls_result_response_matching_acls(response, &n);
	if (n == 0)
		kafka_fail("acl", "there is no such rule");
}

void acl_run(struct kafka_run *r)
{
	bool allow = strcmp(r->arg[0], "allow") == 0;
	rd_kafka_AclBinding_t *binding;
	rd_kafka_event_t *event;
	struct rule rule;

	if (!allow && strcmp(r->arg[0], "drop") != 0)
		kafka_fail(r->arg[0], "acl: allow or drop");
	rule = rule_of(r->arg + 1);
	binding = binding_of(&rule, allow);
	(allow ? rd_kafka_CreateAcls : rd_kafka_DeleteAcls)(
		r->rk, &binding, 1, r->options, r->queue);
	event = kafka_answer(r, "acl");
	(allow ? check_created : check_deleted)(event);
	rd_kafka_event_destroy(event);
	rd_kafka_AclBinding_destroy(binding);
	kafka_wait(rule_is_so, &(struct rule_wish){r, &rule, allow}, "acl");
}
