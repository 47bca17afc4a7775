/*
 * fuzz_yaml.c - tally.yaml and limits.yaml: taken, or refused with one line.
 *
 *	which:1 text		even: tally.yaml; odd: limits.yaml, with what options say in its bits
 */
#include "fuzz.h"

#include "shm/config.h"
#include "supervisor/limits_yaml.h"

static void hold_refusal(const struct config_error *error)
{
	hold_line(error->line, sizeof(error->line));
	hold(strncmp(error->line, "f.yaml:", 7) == 0 && strlen(error->line) > 15);
}

static void run_config(const char *text, size_t len)
{
	static struct config config;
	struct config_error error = {0};

	if (config_parse("f.yaml", text, len, &config, &error) != 0) {
		hold_refusal(&error);
		return;
	}
	hold(config.n_properties <= CONFIG_PROPERTIES_MAX);
	for (uint32_t i = 0; i < config.n_properties; i++)
		config_hides(&config, config.properties[i].name);
	hold(config.brokers[0] != '\0' && config.topic[0] != '\0');
	hold(memchr(config.run_dir, '\0', sizeof(config.run_dir)) != NULL);
	config_free(&config);
}

static void hold_limit(uint64_t streams)
{
	hold(streams == LIMIT_NONE || (streams >= 1 && streams <= LIMITS_STREAMS_MAX));
}

static void run_limits(unsigned how, const char *text, size_t len)
{
	const struct limits_defaults defaults = {.streams = how & 2 ? 100 : LIMIT_NONE,
		.dry_run = how & 4,
		.ignore_unknown = how & 8};
	struct config_error error = {0};
	struct limits_yaml yaml;

	if (limits_yaml_parse("f.yaml", text, len, &defaults, &yaml, &error) != 0) {
		hold_refusal(&error);
		return;
	}
	for (size_t i = 0; i < yaml.source.n_tenants; i++) {
		const struct limits_tenant *tenant = &yaml.source.tenants[i];

		hold(strlen(tenant->name) >= 1 && strlen(tenant->name) <= LIMITS_NAME_MAX);
		if (tenant->has_streams)
			hold_limit(tenant->streams);
		for (size_t p = 0; p < tenant->n_policies; p++) {
			hold(strlen(tenant->policies[p].name) <= LIMITS_NAME_MAX);
			hold_limit(tenant->policies[p].streams);
		}
	}
	limits_yaml_free(&yaml);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct input in = {data, len};
	unsigned which = (unsigned)take(&in, 1);
	char *text = (char *)fuzz_copy(in.at, in.left);

	if (which % 2 == 0)
		run_config(text, in.left);
	else
		run_limits(which, text, in.left);
	free(text);
	return 0;
}
