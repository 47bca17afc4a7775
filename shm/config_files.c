/*
 * config_files.c - the files that options name: can they be opened?
 *
 *	kafka.properties    ssl.ca.location: /nope --> "cannot read /nope: No such file ..."
 *	query.grpc_tls_*    /nope                  --> "/nope: No such file ..."
 *	query.tokens_file   /bad                   --> "/bad:7: the token has no scope ..."
 *
 * librdkafka and the query process open them too: the one says it in OpenSSL's
 * words, the other where nobody looks.  What is in them is left to these two, but
 * that it is PEM at all.
 *
 * Runs in: supervisor, tests.
 */
#include "shm/config_table.h"
#include "shm/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

void config_each_path(const struct config *config, const char *section,
	void (*found)(void *arg, const char *path), void *arg)
{
	size_t n;
	const struct config_option *options = config_options(&n);

	for (size_t i = 0; i < n; i++) {
		const char *text = (const char *)config + options[i].offset;

		if (strcmp(options[i].section, section) == 0 && options[i].type == CONFIG_TEXT &&
			text[0] == '/')
			found(arg, text);
	}
}

/* --- query.*_tls_*, tokens ----------------------------------------------------------------------- */

#define PEM_MAX ((size_t)1 << 20) /* looked through */

struct pem_file {
	const char *option, *path;
	unsigned line;
	const char *kind, *label; /* of the block that it must have; the end of its name */
};

/* "-----BEGIN EC PRIVATE KEY-----" at the beginning of a line. */
static bool has_block(const char *text, size_t len, const char *label)
{
	static const char begin[] = "-----BEGIN ";
	const char *at = text, *end = text + len;
	size_t label_len = strlen(label);

	while ((at = memmem(at, (size_t)(end - at), begin, sizeof(begin) - 1))) {
		const char *name = at + sizeof(begin) - 1;
		const char *stop = memmem(name, (size_t)(end - name), "-----", 5);

		if (stop && !memchr(name, '\n', (size_t)(stop - name)) &&
			(size_t)(stop - name) >= label_len && (at == text || at[-1] == '\n') &&
			memcmp(stop - label_len, label, label_len) == 0)
			return true;
		at = name;
	}
	return false;
}

/* 0, or the errno; *pem when it has the block. */
static int look_into(const char *path, const char *label, bool *pem)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = malloc(PEM_MAX);
	size_t len = 0;
	ssize_t n = 1;
	int err = fd < 0 ? errno : text ? 0 : ENOMEM;

	while (!err && n > 0 && len < PEM_MAX) {
		n = read(fd, text + len, PEM_MAX - len);
		if (n < 0)
			err = errno;
		else
			len += (size_t)n;
	}
	*pem = !err && has_block(text, len, label);
	if (text)
		explicit_bzero(text, len);
	free(text);
	if (fd >= 0)
		close(fd);
	return err;
}

static int check_pem(
	const struct config *config, const struct pem_file *file, struct config_error *error)
{
	struct config_source source = {.name = config->source, .error = error};
	bool pem;
	int err = file->path[0] ? look_into(file->path, file->label, &pem) : 0;

	if (!file->path[0] || (!err && pem))
		return 0;
	if (err)
		return config_fail(&source, file->line, file->option, "%.200s: %s; %s", file->path,
			strerror(err), config_file_action(err));
	return config_fail(&source, file->line, file->option,
		"%.200s: is no %s in PEM; it must have a line -----BEGIN %s-----", file->path,
		file->kind, file->label);
}

static int check_tokens(const struct config *config, struct config_error *error)
{
	struct config_source source = {.name = config->source, .error = error};
	char why[TOKENS_WHY_SIZE];
	struct tokens *tokens;
	unsigned mode;

	if (!config->tokens_file[0])
		return 0;
	tokens = tokens_load(config->tokens_file, &mode, why);
	if (!tokens)
		return config_fail(
			&source, config->query_file_lines[6], "query.tokens_file", "%s", why);
	tokens_free(&tokens);
	return 0;
}

static int check_peers_token(const struct config *config, struct config_error *error)
{
	struct config_source source = {.name = config->source, .error = error};
	char why[TOKENS_WHY_SIZE], *token;
	unsigned mode;

	if (!config->peers_token_file[0])
		return 0;
	token = tokens_read_one(config->peers_token_file, &mode, why);
	if (!token)
		return config_fail(
			&source, config->query_file_lines[7], "query.peers_token_file", "%s", why);
	tokens_wipe(&token);
	return 0;
}

int config_query_files_check(const struct config *config, struct config_error *error)
{
	static const char cert[] = "certificate", key[] = "private key";
	const struct {
		const char *option, *path, *kind, *label;
	} of[] = {
		{"query.grpc_tls_cert", config->grpc_tls_cert, cert, "CERTIFICATE"},
		{"query.grpc_tls_key", config->grpc_tls_key, key, "PRIVATE KEY"},
		{"query.grpc_tls_client_ca", config->grpc_tls_client_ca, cert, "CERTIFICATE"},
		{"query.http_tls_cert", config->http_tls_cert, cert, "CERTIFICATE"},
		{"query.http_tls_key", config->http_tls_key, key, "PRIVATE KEY"},
		{"query.http_tls_client_ca", config->http_tls_client_ca, cert, "CERTIFICATE"},
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(of) / sizeof(*of) && !err; i++)
		err = check_pem(config,
			&(struct pem_file){of[i].option, of[i].path, config->query_file_lines[i],
				of[i].kind, of[i].label},
			error);
	if (!err)
		err = check_tokens(config, error);
	return err ? err : check_peers_token(config, error);
}
