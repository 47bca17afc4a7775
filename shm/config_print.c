/*
 * config_print.c - the option table as a commented tally.yaml.
 *
 * etc/tally.yaml is this output, byte for byte: make samples compares.
 *
 * Runs in: supervisor (--print-config), tests.
 */
#include "shm/config_table.h"

#include <ctype.h>
#include <string.h>

#define WIDTH 90

/* Comment lines of at most WIDTH, broken at blanks. */
static void print_prose(FILE *out, const char *indent, const char *prose)
{
	while (*prose) {
		size_t room = WIDTH - strlen(indent) - 2, len = strlen(prose);

		if (len > room) {
			for (len = room; len > 0 && prose[len] != ' ';)
				len--;
			if (len == 0)
				len = strcspn(prose, " ");
		}
		fprintf(out, "%s# %.*s\n", indent, (int)len, prose);
		prose += len + strspn(prose + len, " ");
	}
}

/* "  # key:" and a line for each property. */
static void print_map(FILE *out, const char *indent, const struct config_option *option)
{
	fprintf(out, "%s# %s:\n", indent, option->key);
	for (const char *s = option->example; *s;) {
		size_t len = strcspn(s, "\n");

		fprintf(out, "%s#   %.*s\n", indent, (int)len, s);
		s += len + (s[len] == '\n');
	}
}

static void print_option(FILE *out, const char *indent, const struct config_option *option)
{
	char kind[CONFIG_VALUE_SIZE], line[2 * CONFIG_VALUE_SIZE];
	const char *preset = option->preset;

	print_prose(out, indent, option->prose);
	config_value_kind(option, kind);
	snprintf(line, sizeof(line), "%c%s.%s%s%s", toupper((unsigned char)kind[0]), kind + 1,
		preset ? "" : " Required.", preset && *preset ? " Default: " : "",
		preset && *preset ? preset : "");
	print_prose(out, indent, line);
	if (config_is_map(option->type))
		print_map(out, indent, option);
	else if (!preset)
		fprintf(out, "%s%s: %s\n", indent, option->key, option->example);
	else if (*preset == '\0')
		fprintf(out, "%s# %s: %s\n", indent, option->key, option->example);
	else
		fprintf(out, "%s%s: %s\n", indent, option->key, preset);
}

void config_print(FILE *out)
{
	size_t n_options, n_sections;
	const struct config_option *options = config_options(&n_options);
	const struct config_section *sections = config_sections(&n_sections);

	fprintf(out, "# tally.yaml - all options of tallyd, with their defaults.\n"
		     "# Only the required ones must be given.  Printed by: tallyd --print-config\n"
		     "# Durations have units (ms, s, m, h, d), like 90s or 1h30m; sizes KiB, MiB, "
		     "GiB, TiB.\n");
	for (size_t s = 0; s < n_sections; s++) {
		const char *name = sections[s].name, *indent = *name ? "  " : "";

		fprintf(out, "\n# --- %s\n", sections[s].prose);
		if (*name)
			fprintf(out, "%s:\n", name);
		for (size_t i = 0, printed = 0; i < n_options; i++) {
			if (strcmp(options[i].section, name) != 0)
				continue;
			fputs(printed++ || !*name ? "\n" : "", out);
			print_option(out, indent, &options[i]);
		}
	}
}
