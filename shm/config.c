/*
 * config.c - tally.yaml into struct config, strictly.
 *
 *	file --load--> text --libyaml events--> key, value --row--> field --rules--> done
 *
 * The first mistake ends it with one line.  What a mistake left behind is freed
 * here, and the text, which may hold passwords, is wiped.
 *
 * Runs in: supervisor, query process, tests.  Blocks in: reading the file, at
 * most 1 MiB.
 */
#include "shm/config_yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"

#define FILE_SIZE_MAX (1 << 20)

/* --- options --------------------------------------------------------------------------------- */

static int fail_unknown(
	struct config_reader *r, unsigned line, const char *section, const char *key)
{
	char name[CONFIG_VALUE_SIZE], near[CONFIG_VALUE_SIZE];

	snprintf(name, sizeof(name), "%.60s%s%.80s", section, *section ? "." : "", key);
	if (config_nearest(section, key, near))
		return config_fail(
			&r->source, line, name, "no such option; did you mean %s?", near);
	if (strcmp(section, "kafka") == 0 && strchr(key, '.'))
		return config_fail(&r->source, line, name,
			"no such option; properties of librdkafka go under kafka.properties");
	return config_fail(&r->source, line, name,
		"no such option; tallyd --print-config shows all that there are");
}

static int read_option(struct config_reader *r, const struct config_option *option, unsigned line)
{
	char name[CONFIG_VALUE_SIZE], kind[CONFIG_VALUE_SIZE], why[CONFIG_WHY_SIZE];
	unsigned *seen = &r->source.line[config_option_index(option)];
	const char *text;
	int err;

	config_option_name(option, name);
	if (*seen)
		return config_fail(&r->source, line, name,
			"is given twice, first on line %u; take one out", *seen);
	*seen = line;
	err = config_yaml_next(r);
	if (err)
		return err;
	if (config_is_map(option->type))
		return config_map_read(r, option);
	err = config_yaml_scalar(r, name, config_value_kind(option, kind), &text);
	if (err)
		return err;
	if (config_value_set(option, text, r->config, why) != 0)
		return config_fail(&r->source, line, name, "%s", why);
	return 0;
}

/* The options of one section; its map is in hand.  At top level, sections too. */
static int read_section(struct config_reader *r, const char *section);

static int read_named_section(struct config_reader *r, int index, const char *name, unsigned line)
{
	unsigned *seen = &r->source.section_line[index];
	int err;

	if (*seen)
		return config_fail(&r->source, line, name,
			"is given twice, first on line %u; write its options there", *seen);
	*seen = line;
	err = config_yaml_next(r);
	if (err || (config_yaml_null(r)))
		return err;
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return config_fail(&r->source, config_yaml_line(r), name,
			"is a section; write its options on the lines below, indented");
	return read_section(r, name);
}

static int read_section(struct config_reader *r, const char *section)
{
	char *key;
	int err;

	while ((err = config_yaml_key(r, &key)) == 0 && key) {
		const struct config_option *option = config_option_find(section, key);
		int index = *section || !*key ? -1 : config_section_index(key);
		unsigned line = config_yaml_line(r);

		if (option)
			err = read_option(r, option, line);
		else if (index >= 0)
			err = read_named_section(r, index, key, line);
		else
			err = fail_unknown(r, line, section, key);
		free(key);
		if (err)
			break;
	}
	return err;
}

/* --- the file -------------------------------------------------------------------------------- */

static int read_file(struct config_reader *r)
{
	int err = config_yaml_next(r); /* begin of stream */

	if (!err)
		err = config_yaml_next(r); /* begin of document, or the end already */
	if (!err && r->event.type == YAML_DOCUMENT_START_EVENT)
		err = config_yaml_next(r);
	if (err)
		return err;
	if (r->event.type == YAML_STREAM_END_EVENT || (config_yaml_null(r)))
		return config_fail(&r->source, 0, NULL,
			"has no options; tallyd --print-config writes a file to begin with");
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return config_fail(&r->source, config_yaml_line(r), NULL,
			"must be lines of \"option: value\"; tallyd --print-config writes an "
			"example");
	err = read_section(r, "");
	return err ? err : config_yaml_end(r);
}

static void strip_slashes(char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
}

/* The end of a long path says more than its beginning. */
static void copy_end(char *to, size_t size, const char *from)
{
	size_t len = strlen(from);

	snprintf(to, size, "%s", from + (len < size ? 0 : len - size + 1));
}

int config_parse(const char *name, const char *text, size_t len, struct config *config,
	struct config_error *error)
{
	struct config_reader r = {.source = {.name = name, .error = error}, .config = config};
	int err;

	error->line[0] = '\0';
	config_defaults(config);
	copy_end(config->source, sizeof(config->source), name);
	r.text = text;
	r.len = len;
	err = config_yaml_open(&r);
	if (!err) {
		err = read_file(&r);
		config_yaml_close(&r);
	}
	if (!err)
		err = config_check_rules(&r.source, config);
	memcpy(config->lines, r.source.line, sizeof(config->lines));
	strip_slashes(config->run_dir);
	if (err)
		config_free(config);
	return err;
}

static int fail_file(const char *path, struct config_error *error, const char *what, int err)
{
	struct config_source source = {.name = path, .error = error};

	config_fail(&source, 0, NULL, "%s", what);
	return err;
}

static int fail_errno(const char *path, struct config_error *error)
{
	struct config_source source = {.name = path, .error = error};
	int err = errno;

	config_fail(&source, 0, NULL, "%s; %s", strerror(err), config_file_action(err));
	return err_from_errno(err);
}

/* Gives the file's text; at most FILE_SIZE_MAX, with room for one more to see that it is too long.
 */
static int read_text(int fd, const char *path, char **text, size_t *len, struct config_error *error)
{
	ssize_t n = 1;

	*text = malloc(FILE_SIZE_MAX + 1);
	if (!*text)
		return fail_file(path, error, "out of memory while reading it", ERR_NOMEM);
	while (n > 0 && *len <= FILE_SIZE_MAX) {
		n = read(fd, *text + *len, FILE_SIZE_MAX + 1 - *len);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return fail_errno(path, error);
		else
			*len += (size_t)n;
	}
	if (*len > FILE_SIZE_MAX)
		return fail_file(path, error,
			"is larger than 1 MiB; this cannot be a file of options", ERR_INVALID);
	return 0;
}

int config_load(const char *path, struct config *config, struct config_error *error)
{
	/* NONBLOCK: a FIFO must not hang us before it is refused. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st = {0};
	char *text = NULL;
	size_t len = 0;
	int err;

	config_defaults(config);
	if (fd < 0)
		return fail_errno(path, error);
	if (fstat(fd, &st) < 0)
		err = fail_errno(path, error);
	else if (!S_ISREG(st.st_mode))
		err = fail_file(path, error, "is not a regular file", ERR_INVALID);
	else
		err = read_text(fd, path, &text, &len, error);
	close(fd);
	if (!err)
		err = config_parse(path, text, len, config, error);
	if (!err)
		config->mode = st.st_mode & 07777;
	if (text)
		explicit_bzero(text, len);
	free(text);
	return err;
}

void config_defaults(struct config *config)
{
	size_t n;
	const struct config_option *options = config_options(&n);

	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < n; i++) {
		char why[CONFIG_WHY_SIZE];

		if (options[i].preset && !config_is_map(options[i].type))
			must(config_value_set(&options[i], options[i].preset, config, why) == 0);
	}
}

void config_free(struct config *config)
{
	for (uint32_t i = 0; i < config->n_properties; i++) {
		struct config_property *property = &config->properties[i];

		if (property->value)
			explicit_bzero(property->value, strlen(property->value));
		free(property->value);
		free(property->name);
		free(property->path);
		*property = (struct config_property){0};
	}
	config->n_properties = config->n_secret_files = 0;
}
