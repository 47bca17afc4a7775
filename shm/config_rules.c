/*
 * config_rules.c - what must be there, and what several options must fulfil together.
 *
 * Each option is within its own bounds by now (config_value.c).
 *
 * Runs in: supervisor, query process, tests.
 */
#include "shm/config_table.h"

#include <string.h>
#include <strings.h>

#include "shm/check.h"

struct name {
	const char *section, *key;
};

/* lesser [+ added] < greater, or <= when `equal`. */
struct rule {
	struct name lesser, added, greater;
	bool equal;
	const char *why;
};

/* clang-format off */
static const struct rule rules[] = {
	{ { "kafka", "heartbeat_interval" }, { NULL, NULL }, { "kafka", "session_timeout" }, false,
	  "else the session ends between two heartbeats; a third of it is wise" },
	{ { "kafka", "heartbeat_interval" }, { "supervisor", "commit_allowance" },
	  { "kafka", "session_timeout" }, false, "else there is no time left for a lease" },
	{ { "kafka", "session_timeout" }, { NULL, NULL }, { "kafka", "max_poll_interval" }, true,
	  "Kafka's client refuses it otherwise" },
	{ { "supervisor", "revoke_deadline" }, { NULL, NULL }, { "kafka", "max_poll_interval" }, false,
	  "else the group puts this instance out while it gives partitions back" },
	{ { "supervisor", "drain" }, { NULL, NULL }, { "supervisor", "revoke_deadline" }, false,
	  "else no time is left to end the workers" },
	{ { "supervisor", "restart_min" }, { NULL, NULL }, { "supervisor", "restart_max" }, true,
	  "the pause grows from the one to the other" },
};
/* clang-format on */

static const struct config_option *find(const struct name *name)
{
	const struct config_option *option = config_option_find(name->section, name->key);

	must(option);
	return option;
}

/* "kafka.session_timeout, 45s (the default)" */
static const char *say(const struct config_source *source, const struct config_option *option,
	const struct config *config, char buf[CONFIG_VALUE_SIZE])
{
	char name[CONFIG_VALUE_SIZE], value[CONFIG_VALUE_SIZE];

	snprintf(buf, CONFIG_VALUE_SIZE, "%.64s, %.20s%s", config_option_name(option, name),
		config_value_text(option, config_value_get(option, config), value),
		source->line[config_option_index(option)] ? "" : " (the default)");
	return buf;
}

static int check_rule(
	struct config_source *source, const struct config *config, const struct rule *rule)
{
	const struct config_option *lesser = find(&rule->lesser), *greater = find(&rule->greater);
	const struct config_option *added = rule->added.key ? find(&rule->added) : NULL;
	int64_t sum =
		config_value_get(lesser, config) + (added ? config_value_get(added, config) : 0);
	int64_t limit = config_value_get(greater, config);
	char name[CONFIG_VALUE_SIZE], value[CONFIG_VALUE_SIZE], with[CONFIG_VALUE_SIZE] = "",
								bound[CONFIG_VALUE_SIZE];
	unsigned line = source->line[config_option_index(lesser)];

	if (sum < limit || (rule->equal && sum == limit))
		return 0;
	if (!line && added)
		line = source->line[config_option_index(added)];
	if (!line)
		line = source->line[config_option_index(greater)];
	if (added)
		say(source, added, config, with);
	return config_fail(source, line, config_option_name(lesser, name),
		"%s%s%s%s must be %s than %s; %s",
		config_value_text(lesser, config_value_get(lesser, config), value),
		source->line[config_option_index(lesser)] ? "" : " (the default)",
		added ? " plus " : "", with, rule->equal ? "not longer" : "shorter",
		say(source, greater, config, bound), rule->why);
}

static int check_required(struct config_source *source)
{
	size_t n;
	const struct config_option *options = config_options(&n);

	for (size_t i = 0; i < n; i++) {
		char name[CONFIG_VALUE_SIZE];
		int section = config_section_index(options[i].section);

		if (options[i].preset || source->line[i])
			continue;
		return config_fail(source, source->section_line[section],
			config_option_name(&options[i], name),
			"is required; write it into section %s, like \"%s: %s\"",
			options[i].section, options[i].key, options[i].example);
	}
	return 0;
}

/*
 * The lease lasts session timeout - heartbeat interval - commit allowance, and is
 * renewed from the librdkafka statistics, taken once a heartbeat or a second.  It
 * must outlive the silence between two heartbeats and two statistics, or what is
 * ready would flap.
 */
static int check_lease(struct config_source *source, const struct config *config)
{
	const struct config_option *option = config_option_find("kafka", "heartbeat_interval");
	uint64_t heartbeat = config->heartbeat_interval_ms;
	uint64_t statistics = heartbeat < 1000 ? heartbeat : 1000;
	char name[CONFIG_VALUE_SIZE];
	unsigned line = source->line[config_option_index(option)];

	if (2 * heartbeat + statistics + config->commit_allowance_ms < config->session_timeout_ms)
		return 0;
	if (!line)
		line = source->line[config_option_index(
			config_option_find("kafka", "session_timeout"))];
	return config_fail(source, line, config_option_name(option, name),
		"%llums is too long for a session of %ums with a commit_allowance of %ums: the "
		"lease "
		"would end between two heartbeats; shorten it to a fifth of the session",
		(unsigned long long)heartbeat, config->session_timeout_ms,
		config->commit_allowance_ms);
}

static unsigned line_of(const struct config_source *source, const char *section, const char *key)
{
	return source->line[config_option_index(config_option_find(section, key))];
}

/* Several processes can share a port only when it is known to all of them. */
static int check_shared(struct config_source *source, const struct config *config)
{
	const struct {
		const char *key, *address;
	} listens[] = {{"http_listen", config->http_listen}, {"grpc_listen", config->grpc_listen}};

	for (size_t i = 0; config->query_processes > 1 && i < sizeof(listens) / sizeof(*listens);
		i++) {
		char host[CONFIG_TEXT_SIZE], name[CONFIG_VALUE_SIZE];
		unsigned line = line_of(source, "query", listens[i].key);
		uint16_t port;

		if (config_listen_split(listens[i].address, host, sizeof(host), &port) || port)
			continue;
		snprintf(name, sizeof(name), "query.%s", listens[i].key);
		return config_fail(source, line ? line : line_of(source, "query", "processes"),
			name, "port 0 cannot be shared by query.processes: %u; write a port",
			config->query_processes);
	}
	return 0;
}

/* The same address twice: the second of them could not listen. */
static int check_addresses(struct config_source *source, const struct config *config)
{
	char http[CONFIG_TEXT_SIZE], grpc[CONFIG_TEXT_SIZE];
	uint16_t http_port, grpc_port;
	unsigned line = line_of(source, "query", "grpc_listen");

	if (config_listen_split(config->http_listen, http, sizeof(http), &http_port) ||
		config_listen_split(config->grpc_listen, grpc, sizeof(grpc), &grpc_port) ||
		!grpc_port || grpc_port != http_port || strcasecmp(grpc, http) != 0)
		return 0;
	return config_fail(source, line ? line : line_of(source, "query", "http_listen"),
		"query.grpc_listen",
		"%.200s%s is the address of query.http_listen, too; write another port for one of "
		"them",
		config->grpc_listen, line ? "" : " (the default)");
}

/* Files of query that make no sense without another option; config_files.c has the same order. */
static int check_query_files(struct config_source *source, struct config *config)
{
	const struct {
		const char *key, *value, *other, *other_value;
	} pairs[] = {
		{"grpc_tls_cert", config->grpc_tls_cert, "grpc_tls_key", config->grpc_tls_key},
		{"grpc_tls_key", config->grpc_tls_key, "grpc_tls_cert", config->grpc_tls_cert},
		{"grpc_tls_client_ca", config->grpc_tls_client_ca, "grpc_tls_cert",
			config->grpc_tls_cert},
		{"http_tls_cert", config->http_tls_cert, "http_tls_key", config->http_tls_key},
		{"http_tls_key", config->http_tls_key, "http_tls_cert", config->http_tls_cert},
		{"http_tls_client_ca", config->http_tls_client_ca, "http_tls_cert",
			config->http_tls_cert},
		{"tokens_file", config->tokens_file, NULL, "no other"},
		{"peers_token_file", config->peers_token_file, "peers", config->peers},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		char name[CONFIG_VALUE_SIZE];

		config->query_file_lines[i] = line_of(source, "query", pairs[i].key);
		if (!pairs[i].value[0] || pairs[i].other_value[0])
			continue;
		snprintf(name, sizeof(name), "query.%s", pairs[i].key);
		return config_fail(source, line_of(source, "query", pairs[i].key), name,
			"has no use without query.%s; write that too, or take this out",
			pairs[i].other);
	}
	return 0;
}

int config_check_rules(struct config_source *source, struct config *config)
{
	int err = check_required(source);

	for (size_t i = 0; err == 0 && i < sizeof(rules) / sizeof(rules[0]); i++)
		err = check_rule(source, config, &rules[i]);
	if (!err)
		err = check_lease(source, config);
	if (!err)
		err = check_shared(source, config);
	if (!err)
		err = check_addresses(source, config);
	return err ? err : check_query_files(source, config);
}

/* --- two configurations ---------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Its value lies in a file, and is none of ours. */
static bool has_property(const struct config *config, const struct config_property *of)
{
	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *one = &config->properties[i];

		if (same_text(one->name, of->name) && same_text(one->path, of->path))
			return of->path || same_text(one->value, of->value);
	}
	return false;
}

/* Those of one of the two maps that `b` does not have. */
static bool lacks(const struct config *a, const struct config *b, bool files)
{
	for (uint32_t i = 0; i < a->n_properties; i++)
		if (!a->properties[i].path == !files && !has_property(b, &a->properties[i]))
			return true;
	return false;
}

static bool differs(
	const struct config_option *option, const struct config *a, const struct config *b)
{
	const char *at = (const char *)a + option->offset, *bt = (const char *)b + option->offset;
	bool files = option->type == CONFIG_SECRET_FILES;

	if (config_is_map(option->type))
		return lacks(a, b, files) || lacks(b, a, files);
	if (option->type == CONFIG_TEXT || option->type == CONFIG_LISTEN)
		return strcmp(at, bt) != 0;
	return config_value_get(option, a) != config_value_get(option, b);
}

size_t config_differences(const struct config *a, const struct config *b, char *names, size_t size)
{
	size_t n, found = 0, len = 0;
	const struct config_option *options = config_options(&n);

	*names = '\0';
	for (size_t i = 0; i < n; i++) {
		char name[CONFIG_VALUE_SIZE];

		if (!differs(&options[i], a, b))
			continue;
		if (len < size)
			len += (size_t)snprintf(names + len, size - len, "%s%s", found ? "," : "",
				config_option_name(&options[i], name));
		found++;
	}
	return found;
}
