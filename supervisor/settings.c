/*
 * settings.c - the options as they hold, for people.
 *
 *	struct config --config_each--> JSON --rename--> <run_dir>/settings --> tallyctl config
 *
 * Runs in: supervisor, at start and after SIGHUP.  Blocks in: writing a file of some KiB.
 */
#include "supervisor/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/host.h"
#include "shm/log.h"

#define TEMPORARY SETTINGS_NAME ".new"

/* --- option -> JSON -------------------------------------------------------------------------- */

static void keep_value(void *arg, const struct config_shown *shown)
{
	json_object_set_new(arg, shown->name, json_string(shown->value ? shown->value : ""));
}

/* Values by name; NULL for want of memory. */
static json_t *values_of(const struct config *config)
{
	json_t *values = json_object();
	if (values)
		config_each(config, keep_value, values);
	return values;
}

struct listing {
	json_t *options;
	json_t *fresh; /* values by name; those that were listed are taken out */
};

static void list_option(void *arg, const struct config_shown *shown)
{
	struct listing *listing = arg;
	const char *value = shown->value ? shown->value : "";
	const char *waiting = json_string_value(json_object_get(listing->fresh, shown->name));
	json_t *option = json_pack("{s:s, s:s}", "name", shown->name, "value", value);
	must_get(option); /* a list with one missing would be a wrong answer */
	if (shown->preset)
		json_object_set_new(option, "default", json_string(shown->preset));
	if (shown->line)
		json_object_set_new(option, "line", json_integer(shown->line));
	if (listing->fresh && (!waiting || strcmp(waiting, value) != 0))
		json_object_set_new(
			option, "waiting", json_string(waiting ? waiting : "(taken out)"));
	json_object_del(listing->fresh, shown->name);
	json_array_append_new(listing->options, option);
}

/* Entries of maps that the file has by now, and we have not. */
static void list_new(struct listing *listing)
{
	const char *name;
	json_t *value;
	json_object_foreach(listing->fresh, name, value)
	{
		json_t *option =
			json_pack("{s:s, s:s, s:O}", "name", name, "value", "", "waiting", value);
		must_get(option);
		json_array_append_new(listing->options, option);
	}
}

static json_t *settings_of(
	const char *path, const struct config *config, const struct config *fresh)
{
	struct listing listing = {json_array(), fresh ? values_of(fresh) : NULL};
	config_each(config, list_option, &listing);
	list_new(&listing);
	json_decref(listing.fresh);
	return json_pack("{s:s, s:I, s:o}", "file", path, "read_at_ms", (json_int_t)host_wall_ms(),
		"options", listing.options);
}

/* --- the file -------------------------------------------------------------------------------- */

static bool write_file(int dirfd, const json_t *json)
{
	unlinkat(dirfd, TEMPORARY, 0);
	int fd = openat(dirfd, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0440);
	if (fd < 0)
		return false;
	bool written = !fchmod(fd, 0440) && !json_dumpfd(json, fd, JSON_COMPACT);
	close(fd);
	if (written && !renameat(dirfd, TEMPORARY, dirfd, SETTINGS_NAME))
		return true;
	int error = errno;
	unlinkat(dirfd, TEMPORARY, 0);
	errno = error;
	return false;
}

void settings_publish(
	int dirfd, const char *path, const struct config *config, const struct config *fresh)
{
	json_t *json = settings_of(path, config, fresh);
	errno = ENOMEM;
	if (!json || !write_file(dirfd, json))
		log_warn("settings.unwritten",
			"error=\"%s\" action=\"tallyctl config has none, or old ones\"",
			strerror(errno));
	json_decref(json);
}

/* --- what a reload has changed --------------------------------------------------------------- */

static void log_change(const char *name, const char *from, const char *to)
{
	char before[300], after[300];
	log_info("reload.changed", "option=%s from=%s to=%s", name,
		log_quote(before, sizeof before, from), log_quote(after, sizeof after, to));
}

void settings_log_changes(const struct config *before, const struct config *now)
{
	json_t *old = values_of(before), *new = values_of(now), *value;
	const char *name;
	json_object_foreach(new, name, value)
	{
		const char *from = json_string_value(json_object_get(old, name));
		const char *to = json_string_value(value);
		if (from && to && strcmp(from, to) != 0)
			log_change(name, from, to);
	}
	json_decref(old);
	json_decref(new);
}
