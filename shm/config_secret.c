/*
 * config_secret.c - the files of kafka.secret_files: read, put in place, wiped.
 *
 *	config_load --> paths --config_secrets_load--> values --swap--> configuration --> librdkafka
 *	                                                  '-- free: wiped
 *
 * A message names property, path and reason, and shows nothing of the content.
 *
 * Runs in: supervisor, tests.  Blocks in: reading the files, at most 64 KiB each.
 */
#include "shm/config_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/err.h"

#define SECRET_SIZE_MAX (64 * 1024)	      /* a private key with its chain is a tenth of it */
#define FILE_SIZE_MAX	(SECRET_SIZE_MAX + 2) /* and the end of its last line */
#define TOTAL_SIZE_MAX	(512 * 1024)	      /* all properties: they have to fit into a handoff */

/* Gives the text, at most FILE_SIZE_MAX + 1 bytes, or NULL with errno. */
static char *read_file(int fd, size_t *len)
{
	char *text = malloc(FILE_SIZE_MAX + 2);
	ssize_t n = 1;

	while (text && n > 0 && *len <= FILE_SIZE_MAX) {
		n = read(fd, text + *len, FILE_SIZE_MAX + 1 - *len);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			*len += (size_t)n;
	}
	if (text && n < 0) {
		explicit_bzero(text, *len);
		free(text);
		return NULL;
	}
	return text;
}

/* Ends the text as a string; NULL, or what is wrong with it. */
static const char *finish(char *text, size_t len)
{
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if (len > 0 && text[len - 1] == '\r') /* written elsewhere */
		len--;
	if (len > SECRET_SIZE_MAX)
		return "is larger than 64 KiB; name a file that has the value and nothing else";
	text[len] = '\0';
	if (len == 0)
		return "is empty; write the value into it";
	if (memchr(text, '\0', len))
		return "contains a NUL byte; name a file that has the value as text";
	return NULL;
}

static const char *cannot(char why[CONFIG_WHY_SIZE])
{
	int err = errno;

	snprintf(why, CONFIG_WHY_SIZE, "%s; %s", strerror(err), config_file_action(err));
	return why;
}

/* NULL, or the reason why not, perhaps in `why`. */
static const char *read_secret(
	const char *path, char **value, unsigned *mode, char why[CONFIG_WHY_SIZE])
{
	/* NONBLOCK: a FIFO must not hang us before it is refused. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *wrong = NULL;
	struct stat st;
	size_t len = 0;

	if (fd < 0)
		return cannot(why);
	if (fstat(fd, &st) < 0)
		wrong = cannot(why);
	else if (!S_ISREG(st.st_mode))
		wrong = "is not a regular file; name one that has the value and nothing else";
	else if (!(*value = read_file(fd, &len)))
		wrong = cannot(why);
	close(fd);
	if (wrong)
		return wrong;
	*mode = st.st_mode & 07777;
	wrong = finish(*value, len);
	if (wrong) {
		explicit_bzero(*value, len);
		free(*value);
		*value = NULL;
	}
	return wrong;
}

static int check_total(struct config_source *source, const struct config *config,
	const struct config_secrets *secrets)
{
	size_t total = 0;

	for (uint32_t i = 0; i < config->n_properties; i++) {
		const char *value =
			secrets->of[i].value ? secrets->of[i].value : config->properties[i].value;

		total += strlen(config->properties[i].name) + (value ? strlen(value) : 0);
	}
	if (total <= TOTAL_SIZE_MAX)
		return 0;
	return config_fail(source, 0, "kafka.properties and kafka.secret_files",
		"are larger than 512 KiB together; use ssl.ca.location and the like for large "
		"files");
}

int config_secrets_load(const char *config_path, const struct config *config,
	struct config_secrets *secrets, struct config_error *error)
{
	struct config_source source = {.name = config_path, .error = error};
	const char *wrong = NULL;
	int err = 0;

	memset(secrets, 0, sizeof(*secrets));
	secrets->n = config->n_properties;
	for (uint32_t i = 0; i < config->n_properties && !err; i++) {
		const struct config_property *property = &config->properties[i];
		char name[CONFIG_VALUE_SIZE], why[CONFIG_WHY_SIZE];

		if (!property->path)
			continue;
		wrong = read_secret(
			property->path, &secrets->of[i].value, &secrets->of[i].mode, why);
		snprintf(name, sizeof(name), "kafka.secret_files: %.64s", property->name);
		if (wrong)
			err = config_fail(
				&source, property->line, name, "%.200s: %s", property->path, wrong);
	}
	if (!err)
		err = check_total(&source, config, secrets);
	if (err)
		config_secrets_free(secrets);
	return err;
}

void config_secrets_swap(struct config *config, struct config_secrets *secrets)
{
	for (uint32_t i = 0; i < config->n_properties && i < secrets->n; i++) {
		struct config_property *property = &config->properties[i];
		char *value = property->value;
		unsigned mode = property->mode;

		if (!property->path)
			continue;
		property->value = secrets->of[i].value;
		property->mode = secrets->of[i].mode;
		secrets->of[i].value = value;
		secrets->of[i].mode = mode;
	}
}

void config_secrets_free(struct config_secrets *secrets)
{
	for (uint32_t i = 0; i < secrets->n; i++) {
		if (secrets->of[i].value)
			explicit_bzero(secrets->of[i].value, strlen(secrets->of[i].value));
		free(secrets->of[i].value);
	}
	memset(secrets, 0, sizeof(*secrets));
}

bool config_hides(const struct config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_properties; i++) {
		if (config->properties[i].path && strcmp(config->properties[i].name, name) == 0)
			return true;
	}
	return config_property_secret(name);
}

void config_exposed(const char *config_path, const struct config *config,
	void (*say)(const char *path, unsigned mode, const char *property))
{
	bool said = false; /* the configuration once, however many secrets it has */

	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *property = &config->properties[i];

		if (property->path && (property->mode & S_IRWXO))
			say(property->path, property->mode, property->name);
		if (property->path || said || !(config->mode & S_IRWXO) ||
			!config_property_secret(property->name))
			continue;
		say(config_path, config->mode, property->name);
		said = true;
	}
}
