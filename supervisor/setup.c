/*
 * setup.c - what tallyd needs before it can start: the configuration, checked, and its programs.
 *
 * A mistake is one line on stderr that says what to do.
 *
 * Runs in: supervisor, before anything is started.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/log.h"
#include "supervisor/group_conf.h"
#include "supervisor/kafka_version.h"
#include "supervisor/setup.h"

int setup_fail(const char *what, const char *why)
{
	fprintf(stderr, "tallyd: %s%s%s\n", what, what[0] ? ": " : "", why);
	return EXIT_OPERATOR;
}

int setup_fail_err(int err, const char *what, const char *why)
{
	setup_fail(what, why);
	return err == ERR_NOMEM || err == ERR_IO || err == ERR_FULL ? EXIT_FATAL : EXIT_OPERATOR;
}

/* The programs lie beside ours unless the configuration says otherwise. */
static void find_program(char *out, size_t size, const char *configured, const char *name)
{
	char self[CONFIG_TEXT_SIZE];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	char *slash = strrchr(self, '/');
	if (configured[0] || !slash)
		snprintf(out, size, "%s", configured);
	else
		snprintf(out, size, "%.*s/%s", (int)(slash - self), self, name);
}

static int check_program(const char *path, const char *option)
{
	if (!access(path, X_OK))
		return 0;
	char what[CONFIG_TEXT_SIZE + 100];
	char why[200];
	snprintf(what, sizeof what, "%s: cannot execute %s", option, path);
	snprintf(why, sizeof why, "%s; install it there, or set %s", strerror(errno), option);
	return setup_fail(what, why);
}

/* Not refused: on some mounts nobody can take the bits away. */
static void warn_exposed(const char *path, unsigned mode, const char *property)
{
	log_warn("secret.exposed",
		"file=%s mode=%04o property=%s hint=\"every user can read it; chmod o-rwx it\"",
		path, mode, property);
}

static void warn_unused(const char *property, const char *protocol, const char *instead)
{
	log_warn("kafka.unused", "property=%s hint=\"security.protocol is %s; set it to %s\"",
		property, protocol, instead);
}

static void warn(const char *path, const struct config *config)
{
	config_exposed(path, config, warn_exposed);
	group_conf_unused(config, warn_unused);
	kafka_version_warn(config);
}

static int read_secrets(const char *path, struct setup *s)
{
	struct config_secrets secrets;
	struct config_error error;
	int err = config_secrets_load(path, &s->config, &secrets, &error);
	if (err)
		return setup_fail_err(err, "", error.line);
	config_secrets_swap(&s->config, &secrets);
	config_secrets_free(&secrets);
	return 0;
}

int setup_load(const char *path, struct setup *s)
{
	struct config_error error;
	int err = config_load(path, &s->config, &error);
	if (err)
		return setup_fail_err(err, "", error.line);
	int failed = read_secrets(path, s);
	if (failed)
		return failed;
	if (!s->config.instance[0] &&
		gethostname(s->config.instance, sizeof s->config.instance - 1))
		snprintf(s->config.instance, sizeof s->config.instance, "tally");
	if (group_conf_check(&s->config, &error))
		return setup_fail("", error.line);
	if (s->config.query_enabled && config_query_files_check(&s->config, &error))
		return setup_fail("", error.line);
	config_forget_lines(&s->config);
	find_program(s->worker_program, sizeof s->worker_program, s->config.worker_program,
		"tally-worker");
	find_program(
		s->query_program, sizeof s->query_program, s->config.query_program, "tally-queryd");
	failed = check_program(s->worker_program, "supervisor.worker_program");
	if (!failed && s->config.query_enabled)
		failed = check_program(s->query_program, "supervisor.query_program");
	log_init("supervisor", -1, (enum log_level)s->config.log_level);
	log_set_format((enum log_format)s->config.log_format);
	if (!failed)
		warn(path, &s->config);
	return failed;
}

void setup_renew_secrets(const char *path, struct setup *s)
{
	struct config_secrets secrets;
	struct config_error error;
	char quoted[600];
	if (!s->config.n_secret_files)
		return;
	if (config_secrets_load(path, &s->config, &secrets, &error)) {
		log_error("reload.secrets_refused", "error=%s action=\"the old values stay\"",
			log_quote(quoted, sizeof quoted, error.line));
		return;
	}
	config_secrets_swap(&s->config, &secrets);
	bool refused = group_conf_check(&s->config, &error);
	if (refused)
		config_secrets_swap(&s->config, &secrets); /* the old ones back */
	config_secrets_free(&secrets);
	if (refused)
		log_error("reload.secrets_refused", "error=%s action=\"the old values stay\"",
			log_quote(quoted, sizeof quoted, error.line));
	else
		log_info("reload.secrets", "files=%u for=\"workers that start from now on\"",
			s->config.n_secret_files);
	config_exposed(path, &s->config, warn_exposed);
}
