/*
 * config.c - tallyctl config: the options as they hold, and where each is from.
 *
 *	<run_dir>/settings --jansson--> OPTION VALUE FROM
 *
 * The file is tallyd's (supervisor/settings.h), written at its start and after each SIGHUP.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define FILE_SIZE_MAX (1 << 20)

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

static json_t *read_settings(const struct ctl *ctl)
{
	char path[4200];
	json_error_t error;
	snprintf(path, sizeof path, "%s/settings", ctl->run_dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	json_t *json = NULL;
	if (fd >= 0) {
		json = lseek(fd, 0, SEEK_END) > FILE_SIZE_MAX || lseek(fd, 0, SEEK_SET)
			       ? NULL
			       : json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
		close(fd);
	}
	if (json && !json_is_array(json_object_get(json, "options"))) {
		json_decref(json);
		json = NULL;
	}
	if (!json)
		ctl_usage("%s: %s; a tallyd of this version writes it when it starts", path,
			fd < 0 ? "cannot be read" : "is not the file of options");
	return json;
}

/* "tally.yaml:12", "default" */
static void describe_source(const json_t *settings, const json_t *option, char *to, size_t size)
{
	const json_t *line = json_object_get(option, "line");
	const char *file = text_of(settings, "file");
	const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	if (json_is_integer(line))
		snprintf(to, size, "%s:%lld", base, (long long)json_integer_value(line));
	else
		snprintf(to, size, "%s", json_object_get(option, "default") ? "default" : base);
}

/* Options that are named on the command line, or below a section that is; all without any. */
static bool is_wanted(const char *name, char **words, int n)
{
	for (int i = 0; i < n; i++) {
		size_t len = strlen(words[i]);
		if (!strncmp(name, words[i], len) && (name[len] == '.' || !name[len]))
			return true;
	}
	return n == 0;
}

static bool is_changed(const json_t *option)
{
	const json_t *preset = json_object_get(option, "default");
	return json_object_get(option, "waiting") || !preset ||
	       strcmp(text_of(option, "value"),
		       json_string_value(preset) ? json_string_value(preset) : "");
}

/* Keeps what was asked for.  How many options are left. */
static size_t select_options(json_t *options, bool changed, char **words, int n)
{
	for (size_t i = json_array_size(options); i-- > 0;) {
		const json_t *option = json_array_get(options, i);
		if (!is_wanted(text_of(option, "name"), words, n) ||
			(changed && !is_changed(option)))
			json_array_remove(options, i);
	}
	return json_array_size(options);
}

static void print_table(const json_t *settings)
{
	static const char *const headings[] = {"OPTION", "VALUE", "FROM", "NOTE"};
	const json_t *option;
	struct ctl_table table;
	size_t i, waiting = 0;
	ctl_table_start(&table, 4, headings);
	json_array_foreach(json_object_get(settings, "options"), i, option)
	{
		char name[CTL_NAME_SIZE], value[CTL_NAME_SIZE], source[300], next[CTL_NAME_SIZE],
			note[CTL_NAME_SIZE + 40] = "-";
		char shown_source[CTL_NAME_SIZE];
		describe_source(settings, option, source, sizeof source);
		if (json_object_get(option, "waiting")) {
			snprintf(note, sizeof note, "waits for a restart: %s",
				ctl_name(next, text_of(option, "waiting")));
			waiting++;
		}
		ctl_name(value, text_of(option, "value"));
		ctl_table_row(&table,
			(const char *[]){ctl_name(name, text_of(option, "name")),
				*value ? value : "-", ctl_name(shown_source, source), note});
	}
	ctl_table_end(&table);
	if (waiting) {
		char file[CTL_NAME_SIZE];
		printf("\n%zu option%s of %s wait%s for: systemctl restart tally\n", waiting,
			ctl_s(waiting), ctl_name(file, text_of(settings, "file")),
			waiting == 1 ? "s" : "");
	}
}

int ctl_config(struct ctl *ctl, int argc, char **argv)
{
	static const struct option options[] = {{"changed", no_argument, NULL, 'c'}, {0}};
	bool changed = false;
	int c;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c != 'c')
			return ctl_bad_option("config", options, argv, c);
		changed = true;
	}
	json_t *settings = read_settings(ctl);
	if (!settings)
		return CTL_TROUBLE;
	size_t n = select_options(
		json_object_get(settings, "options"), changed, argv + optind, argc - optind);
	int rc = CTL_OK;
	if (!n && optind < argc)
		rc = ctl_usage("no such option: %s; `tallyctl config` shows all that there are",
			argv[optind]);
	else if (!ctl->json)
		print_table(settings);
	if (rc == CTL_OK && ctl->json) {
		json_dumpf(settings, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(settings);
	return rc;
}
