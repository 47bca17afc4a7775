/*
 * kafka-acl.h - kafka-do's acl: one rule, allowed or dropped.
 *
 *	words --> struct rule --> CreateAcls | DeleteAcls --> DescribeAcls: is it so?
 *
 * A name that ends in * is a prefix; * alone is every name.
 */
#ifndef TALLY_TESTS_KAFKA_ACL_H
#define TALLY_TESTS_KAFKA_ACL_H

#include "tests/tools/kafka.h"

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

static inline int code_of(const struct word *list, const char *name)
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

static inline struct rule rule_of(char **arg)
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

static inline rd_kafka_AclBinding_t *binding_of(const struct rule *rule)
{
	char why[512];
	rd_kafka_AclBinding_t *binding =
		rd_kafka_AclBinding_new(rule->type, rule->name, rule->pattern, rule->principal, "*",
			rule->operation, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, why, sizeof(why));

	if (binding == NULL)
		kafka_fail("acl", why);
	return binding;
}

static inline rd_kafka_AclBindingFilter_t *filter_of(const struct rule *rule)
{
	char why[512];
	rd_kafka_AclBindingFilter_t *filter = rd_kafka_AclBindingFilter_new(rule->type, rule->name,
		rule->pattern, rule->principal, "*", rule->operation,
		RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, why, sizeof(why));

	if (filter == NULL)
		kafka_fail("acl", why);
	return filter;
}

struct rule_wish {
	struct kafka_run *run;
	const struct rule *rule;
	bool there;
};

static inline bool rule_is_so(void *arg)
{
	const struct rule_wish *wish = arg;
	rd_kafka_AclBindingFilter_t *filter = filter_of(wish->rule);
	rd_kafka_event_t *event;
	size_t n;

	rd_kafka_DescribeAcls(wish->run->rk, filter, wish->run->options, wish->run->queue);
	event = kafka_answer(wish->run, "acl");
	rd_kafka_DescribeAcls_result_acls(rd_kafka_event_DescribeAcls_result(event), &n);
	rd_kafka_event_destroy(event);
	rd_kafka_AclBinding_destroy(filter);
	return (n > 0) == wish->there;
}

static inline void acl_allow(struct kafka_run *r, const struct rule *rule)
{
	rd_kafka_AclBinding_t *binding = binding_of(rule);
	const rd_kafka_acl_result_t **result;
	rd_kafka_event_t *event;
	size_t n;

	rd_kafka_CreateAcls(r->rk, &binding, 1, r->options, r->queue);
	event = kafka_answer(r, "acl");
	result = rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(event), &n);
	for (size_t i = 0; i < n; i++)
		kafka_check("acl", rd_kafka_acl_result_error(result[i]));
}

static inline void acl_drop(struct kafka_run *r, const struct rule *rule)
{
	rd_kafka_AclBindingFilter_t *filter = filter_of(rule);
	const rd_kafka_DeleteAcls_result_response_t **response;
	rd_kafka_event_t *event;
	size_t n;

	rd_kafka_DeleteAcls(r->rk, &filter, 1, r->options, r->queue);
	event = kafka_answer(r, "acl");
	response =
		rd_kafka_DeleteAcls_result_responses(rd_kafka_event_DeleteAcls_result(event), &n);
	for (size_t i = 0; i < n; i++)
		kafka_check("acl", rd_kafka_DeleteAcls_result_response_error(response[i]));
	rd_kafka_DeleteAcls_result_response_matching_acls(response[0], &n);
	if (n == 0)
		kafka_fail("acl", "there is no such rule");
}

static inline void acl_run(struct kafka_run *r)
{
	bool allow = strcmp(r->arg[0], "allow") == 0;
	struct rule rule;

	if (!allow && strcmp(r->arg[0], "drop") != 0)
		kafka_fail(r->arg[0], "acl: allow or drop");
	rule = rule_of(r->arg + 1);
	(allow ? acl_allow : acl_drop)(r, &rule);
	kafka_wait(rule_is_so, &(struct rule_wish){r, &rule, allow}, "acl");
}

#endif
