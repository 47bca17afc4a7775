/*
 * config_map.c - the two maps of librdkafka properties: name -> value, name -> file.
 *
 *	kafka.properties    sasl.username: tally          --> {name, value}
 *	kafka.secret_files  sasl.password: /etc/tally/pw  --> {name, path}; the value comes later
 *
 * Both fill one list, so that no property can be given twice.  No message
 * shows a value.
 *
 * Runs in: supervisor, query process, tests.
 */
#include "shm/config_yaml.h"

#include <stdlib.h>
#include <string.h>

#include "shm/err.h"

#define PROPERTY_NAME_MAX 128
#define PROPERTY_SIZE_MAX (32 * 1024) /* a chain of certificates fits */
#define PATH_SIZE_MAX	  1000

#define SMALL	 "abcdefghijklmnopqrstuvwxyz0123456789._-"
#define CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* The name only as far as it looks like one: the rest may be a secret in a wrong place. */
static void entry_name(
	const struct config_option *option, const char *key, char name[CONFIG_VALUE_SIZE])
{
	size_t legal = strspn(key, SMALL), shown = strspn(key, SMALL CAPITALS);
	bool good = legal > 0 && !key[legal];

	shown = shown < 64 ? shown : 64;
	snprintf(name, CONFIG_VALUE_SIZE, good ? "kafka.%s: %.*s" : "kafka.%s: \"%.*s%s\"",
		option->key, (int)shown, key, key[shown] ? "..." : "");
}

static int check_twice(struct config_reader *r, const struct config_option *option,
	const char *name, const char *key, unsigned line)
{
	const struct config *config = r->config;

	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *other = &config->properties[i];
		bool from_file = option->type == CONFIG_SECRET_FILES;

		if (strcmp(other->name, key) != 0)
			continue;
		if ((other->path != NULL) == from_file)
			return config_fail(&r->source, line, name, "is given twice; take one out");
		return config_fail(&r->source, line, name,
			"is under kafka.properties and under kafka.secret_files; take one out");
	}
	return 0;
}

static int fail_name(struct config_reader *r, const char *name, const char *key, unsigned line)
{
	size_t len = strspn(key, SMALL CAPITALS);
	char small[65] = "";

	for (size_t i = 0; !key[len] && len < sizeof(small) && i < len; i++)
		small[i] = (char)(key[i] >= 'A' && key[i] <= 'Z' ? key[i] - 'A' + 'a' : key[i]);
	return config_fail(&r->source, line, name,
		"is not the name of a property; they are made of small letters, digits and . _ "
		"-%s%s",
		small[0] ? "; write " : "", small);
}

static int check_name(struct config_reader *r, const struct config_option *option, const char *name,
	const char *key, unsigned line)
{
	const char *refused = config_property_refused(key);
	size_t legal = strspn(key, SMALL);
	int err;

	if (refused)
		return config_fail(&r->source, line, name, "%s", refused);
	if (option->type == CONFIG_SECRET_FILES && strcmp(key, "sasl.kerberos.kinit.cmd") == 0)
		return config_fail(&r->source, line, name,
			"is a command line, and every user can see those; put the secret into a "
			"keytab, see sasl.kerberos.keytab");
	if (legal == 0 || key[legal] || legal > PROPERTY_NAME_MAX)
		return fail_name(r, name, key, line);
	err = check_twice(r, option, name, key, line);
	if (!err && r->config->n_properties == CONFIG_PROPERTIES_MAX)
		err = config_fail(&r->source, line, name, "is one too many; at most %d are allowed",
			CONFIG_PROPERTIES_MAX);
	return err;
}

static int check_value(struct config_reader *r, const char *name, const char *value)
{
	if (strlen(value) > PROPERTY_SIZE_MAX)
		return config_fail(&r->source, config_yaml_line(r), name,
			"is too long; at most %d bytes are allowed", PROPERTY_SIZE_MAX);
	return 0;
}

/* Nothing of it is shown when it is no path: it may be the secret itself. */
static int check_path(struct config_reader *r, const char *name, const char *path)
{
	const char *wrong = config_path_wrong(path);

	if (strlen(path) > PATH_SIZE_MAX)
		wrong = "is too long for a path";
	for (const char *s = path; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			wrong = "must be a path, and has a control character";
	}
	if (!wrong)
		return 0;
	return config_fail(&r->source, config_yaml_line(r), name,
		"%s; write the path of a file that has the value", wrong);
}

/* Takes `key`, whose value comes next. */
static int add_entry(
	struct config_reader *r, const struct config_option *option, char *key, unsigned line)
{
	struct config_property *property = &r->config->properties[r->config->n_properties];
	bool from_file = option->type == CONFIG_SECRET_FILES;
	const char *kind = from_file ? "the path of a file that has the value"
				     : "the property's value, in quotes if need be";
	char name[CONFIG_VALUE_SIZE], *copy;
	const char *text;
	int err;

	entry_name(option, key, name);
	err = check_name(r, option, name, key, line);
	if (!err)
		err = config_yaml_next(r);
	if (!err)
		err = config_yaml_scalar(r, name, kind, &text);
	if (!err)
		err = from_file ? check_path(r, name, text) : check_value(r, name, text);
	if (!err && !(copy = strdup(text)))
		err = config_no_memory(&r->source);
	if (err) {
		free(key);
		return err;
	}
	*property = (struct config_property){.name = key, .line = line};
	*(from_file ? &property->path : &property->value) = copy;
	r->config->n_properties++;
	r->config->n_secret_files += from_file;
	return 0;
}

int config_map_read(struct config_reader *r, const struct config_option *option)
{
	char name[CONFIG_VALUE_SIZE], *key;
	int err;

	if (config_yaml_null(r))
		return 0;
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return config_fail(&r->source, config_yaml_line(r),
			config_option_name(option, name),
			"must be a map; write each property on a line of its own, as name: %s",
			option->type == CONFIG_SECRET_FILES ? "path" : "value");
	while ((err = config_yaml_key(r, &key)) == 0 && key) {
		err = add_entry(r, option, key, config_yaml_line(r));
		if (err)
			break;
	}
	return err;
}
