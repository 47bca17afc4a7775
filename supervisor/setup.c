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

#include "supervisor/group.h"
#include "supervisor/setup.h"

int setup_fail(const char *what, const char *why)
{
	fprintf(stderr, "tallyd: %s%s%s\n", what, what[0] ? ": " : "", why);
	return EXIT_OPERATOR;
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
	snprintf(what, sizeof what, "%s: cannot execute %s", option, path);
	return setup_fail(what, strerror(errno));
}

int setup_load(const char *path, struct setup *s)
{
	struct config_error error;
	char why[512];
	if (config_load(path, &s->config, &error))
		return setup_fail("", error.line);
	if (!s->config.instance[0] &&
		gethostname(s->config.instance, sizeof s->config.instance - 1))
		snprintf(s->config.instance, sizeof s->config.instance, "tally");
	if (group_check(&s->config, why))
		return setup_fail(path, why);
	find_program(s->worker_program, sizeof s->worker_program, s->config.worker_program,
		"tally-worker");
	find_program(
		s->query_program, sizeof s->query_program, s->config.query_program, "tally-queryd");
	int failed = check_program(s->worker_program, "supervisor.worker_program");
	if (!failed && s->config.query_enabled)
		failed = check_program(s->query_program, "supervisor.query_program");
	return failed;
}
