/*
 * config_show.c - what holds: every option with its value as one would write it, and where it is from.
 *
 *	struct config --config_each--> { name, value, default, line }, secrets hidden
 *
 * Runs in: supervisor, tests.
 */
#include "shm/config_table.h"

#include <string.h>

#define HIDDEN "(hidden)"

static const char *value_of(const struct config_option *option, const struct config *config,
	char number[CONFIG_VALUE_SIZE])
{
	if (option->type == CONFIG_TEXT || option->type == CONFIG_LISTEN)
		return (const char *)config + option->offset;
	return config_value_text(option, config_value_get(option, config), number);
}

static void each_property(const struct config_option *option, const struct config *config,
	config_shown_fn *each, void *arg)
{
	bool files = option->type == CONFIG_SECRET_FILES;
	char section[CONFIG_VALUE_SIZE], name[2 * CONFIG_VALUE_SIZE];

	config_option_name(option, section);
	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *property = &config->properties[i];
		struct config_shown shown = {
			.name = name, .value = property->path, .line = property->line};

		if (!property->path != !files)
			continue;
		snprintf(name, sizeof(name), "%s.%.150s", section, property->name);
		if (!files)
			shown.value =
				config_property_secret(property->name) ? HIDDEN : property->value;
		each(arg, &shown);
	}
}

void config_each(const struct config *config, config_shown_fn *each, void *arg)
{
	size_t n;
	const struct config_option *options = config_options(&n);

	for (size_t i = 0; i < n; i++) {
		char name[CONFIG_VALUE_SIZE], number[CONFIG_VALUE_SIZE];
		struct config_shown shown = {.preset = options[i].preset, .line = config->lines[i]};

		if (config_is_map(options[i].type)) {
			each_property(&options[i], config, each, arg);
			continue;
		}
		shown.name = config_option_name(&options[i], name);
		shown.value = value_of(&options[i], config, number);
		each(arg, &shown);
	}
}
