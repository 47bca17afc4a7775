/*
 * config_files.c - the files that properties name, like ssl.ca.location: can they be opened?
 *
 *	kafka.properties    ssl.ca.location: /nope --> "cannot read /nope: No such file ..."
 *
 * librdkafka opens them too, and says it in OpenSSL's words.  What is in them is
 * left to it.
 *
 * Runs in: supervisor, tests.
 */
#include "shm/config_table.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct named_file {
	const char *property;
	bool directory;	  /* one of these will do as well */
	const char *word; /* no file, but librdkafka's word for something else */
};

static const struct named_file files[] = {
	{"ssl.ca.location", true, "probe"},
	{"ssl.certificate.location", false, NULL},
	{"ssl.key.location", false, NULL},
	{"ssl.crl.location", false, NULL},
	{"ssl.keystore.location", false, NULL},
};

/* 0, or the errno. */
static int try_open(const char *path, bool directory)
{
	/* NONBLOCK: a FIFO must not hang us. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	struct stat st;

	if (fd < 0)
		return errno;
	if (fstat(fd, &st) < 0)
		err = errno;
	else if (S_ISDIR(st.st_mode) && !directory)
		err = EISDIR;
	close(fd);
	return err;
}

static int check(
	const struct config *config, const struct named_file *file, struct config_error *error)
{
	for (uint32_t i = 0; i < config->n_properties; i++) {
		const struct config_property *property = &config->properties[i];
		const char *path = property->value;
		int err;

		if (strcmp(property->name, file->property) != 0 || !path || !path[0] ||
			(file->word && strcmp(path, file->word) == 0))
			continue;
		err = try_open(path, file->directory);
		if (err)
			return config_property_fail(config, property->name, error,
				"cannot read %.200s: %s; %s",
				property->path ? "the file that it names" : path, strerror(err),
				config_file_action(err));
	}
	return 0;
}

int config_files_check(const struct config *config, struct config_error *error)
{
	int err = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !err; i++)
		err = check(config, &files[i], error);
	return err;
}
