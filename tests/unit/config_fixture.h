/*
 * config_fixture.h - a file of options as a string, read, and what came of it.
 *
 * For the tests of config alone; each of them is one executable.
 */
#ifndef TALLY_TESTS_CONFIG_FIXTURE_H
#define TALLY_TESTS_CONFIG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/config_table.h"
#include "shm/err.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MIN_YAML "kafka:\n  brokers: a:9092\n  topic: t\n"

static struct config config;
static struct config_error error;

static inline int parse(const char *text)
{
	int err = config_parse("t.yaml", text, strlen(text), &config, &error);

	if (err)
		assert_int_equal(config.n_properties, 0); /* nothing left to free */
	return err;
}

static inline void accepts(const char *text)
{
	if (parse(text) != 0)
		fail_msg("refused: %s", error.line);
}

static inline void refuses(const char *text, const char *line)
{
	assert_int_equal(parse(text), ERR_INVALID);
	assert_string_equal(error.line, line);
}

static inline char *printed(size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	assert_non_null(out);
	config_print(out);
	assert_int_equal(fclose(out), 0);
	return text;
}

#endif
