/*
 * limits_yaml.c - limits.yaml into struct limits_source, strictly.
 *
 *	file -> text -> libyaml events -> fields -> rows -> duplicates? -> limits_source
 *	     limits_text                            limits_rows
 *
 * A table of fields for each kind of map says what may be in it.  The first
 * mistake ends it with one line.
 *
 * Runs in: supervisor, the thread of limits_load.c; at start the main thread.  Blocks
 * in: reading the file.
 */
#include "supervisor/limits_yaml.h"

#include <stdlib.h>
#include <string.h>

#include "supervisor/limits_rows.h"
#include "supervisor/limits_text.h"

#define DEPTH_MAX 100 /* of what is passed over */

/* --- values ---------------------------------------------------------------------------------- */

/* The value of `key` that comes next must be a plain scalar. */
static int read_plain(
	struct limits_rows *rows, const char *key, const char *kind, const char **text)
{
	const yaml_event_t *e = &rows->r.event;
	int err = config_yaml_next(&rows->r);
	unsigned line = config_yaml_line(&rows->r);

	if (err)
		return err;
	if (e->type != YAML_SCALAR_EVENT)
		return LIMITS_FAIL(rows, line, key, "must be one value, not a %s; write %s",
			e->type == YAML_MAPPING_START_EVENT ? "map" : "list", kind);
	if (config_yaml_null(&rows->r))
		return LIMITS_FAIL(
			rows, line, key, "has no value; write %s, or take the line out", kind);
	*text = (const char *)e->data.scalar.value;
	if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE ||
		strlen(*text) != e->data.scalar.length)
		return LIMITS_FAIL(
			rows, line, key, "is text in quotes; write %s, without quotes", kind);
	return 0;
}

/* What is wrong with a number, and what to write; NULL: nothing. */
static const char *number_wrong(const char *text, uint64_t *value)
{
	size_t digits = strspn(text, "0123456789");

	if (text[0] == '-' && text[1])
		return "is negative; write 0 for no limit";
	if (digits == 0 || text[digits])
		return "is no whole number; write digits only, like 5000, or 0 for no limit";
	if (text[0] == '0' && digits > 1)
		return "begins with 0, which YAML reads as octal; write it without";
	*value = digits > 13 ? UINT64_MAX : strtoull(text, NULL, 10);
	if (*value > LIMITS_STREAMS_MAX)
		return "is more than 1000000000000; write 0 for no limit";
	return NULL;
}

static int read_streams(struct limits_rows *rows, uint64_t *streams)
{
	const char *text, *wrong;
	int err =
		read_plain(rows, LIMITS_STREAMS_KEY, "a number of streams, 0 for no limit", &text);

	if (err)
		return err;
	wrong = number_wrong(text, streams);
	if (wrong)
		return LIMITS_FAIL(rows, config_yaml_line(&rows->r), LIMITS_STREAMS_KEY,
			"%.40s%s %s", text, strlen(text) > 40 ? "..." : "", wrong);
	if (*streams == 0)
		*streams = LIMIT_NONE;
	return 0;
}

static int read_dry_run(struct limits_rows *rows, bool *dry_run)
{
	const char *text;
	int err = read_plain(rows, LIMITS_DRY_RUN_KEY, "true or false", &text);

	if (err)
		return err;
	*dry_run = strcmp(text, "true") == 0;
	if (!*dry_run && strcmp(text, "false") != 0)
		return LIMITS_FAIL(rows, config_yaml_line(&rows->r), LIMITS_DRY_RUN_KEY,
			"%.40s is %s", text, "neither true nor false; write one of them");
	return 0;
}

/* --- keys ------------------------------------------------------------------------------------ */

/* A key that we know; `read` takes its value, which comes next. */
struct field {
	const char *key;
	int (*read)(struct limits_rows *rows);
};

#define FIELDS_MAX 3

/* Passes over one value, whatever it is. */
static int skip_value(struct limits_rows *rows)
{
	int depth = 0, err;

	do {
		err = config_yaml_next(&rows->r);
		if (err)
			return err;
		switch (rows->r.event.type) {
		case YAML_MAPPING_START_EVENT:
		case YAML_SEQUENCE_START_EVENT:
			depth++;
			break;
		case YAML_MAPPING_END_EVENT:
		case YAML_SEQUENCE_END_EVENT:
			depth--;
			break;
		default:
			break;
		}
		if (depth > DEPTH_MAX)
			return config_fail(&rows->r.source, config_yaml_line(&rows->r), NULL,
				"maps and lists are nested more than %d deep; no limits are so",
				DEPTH_MAX);
	} while (depth > 0);
	return 0;
}

static int unknown_key(
	struct limits_rows *rows, const char *key, const struct field *fields, size_t n)
{
	const char *names[FIELDS_MAX], *near;
	char known[128] = "";

	if (rows->defaults->ignore_unknown)
		return skip_value(rows);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(known);

		names[i] = fields[i].key;
		snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "", names[i]);
	}
	near = config_nearest_of(key, names, n);
	if (near)
		return LIMITS_FAIL(rows, config_yaml_line(&rows->r), key,
			"no such key; did you mean %s?", near);
	return LIMITS_FAIL(rows, config_yaml_line(&rows->r), key,
		"no such key; known here: %s; limits.unknown_keys: ignore passes over others",
		known);
}

static int read_field(struct limits_rows *rows, const char *key, const struct field *fields,
	size_t n, unsigned seen[FIELDS_MAX])
{
	unsigned line = config_yaml_line(&rows->r);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(key, fields[i].key) != 0)
			continue;
		if (seen[i])
			return LIMITS_FAIL(rows, line, key,
				"is given twice, first on line %u; take one out", seen[i]);
		seen[i] = line;
		return fields[i].read(rows);
	}
	return unknown_key(rows, key, fields, n);
}

/* The map in hand, key by key. */
static int read_fields(struct limits_rows *rows, const struct field *fields, size_t n)
{
	unsigned seen[FIELDS_MAX] = {0};
	char *key;
	int err;

	while ((err = config_yaml_key(&rows->r, &key)) == 0 && key) {
		err = read_field(rows, key, fields, n, seen);
		free(key);
		if (err)
			break;
	}
	return err;
}

/* The map in hand, whose keys are names. */
static int read_names(struct limits_rows *rows, const char *kind,
	int (*read)(struct limits_rows *rows, const char *name))
{
	char *name;
	int err;

	while ((err = config_yaml_key(&rows->r, &name)) == 0 && name) {
		size_t len = strlen(name);

		if (len == 0)
			err = LIMITS_FAIL(rows, config_yaml_line(&rows->r),
				rows->tenant ? LIMITS_POLICIES_KEY : LIMITS_OVERRIDES_KEY,
				"a %s has no name; write it before the colon", kind);
		else if (len > LIMITS_NAME_MAX)
			err = LIMITS_FAIL(rows, config_yaml_line(&rows->r),
				rows->tenant ? LIMITS_POLICIES_KEY : LIMITS_OVERRIDES_KEY,
				"the name of a %s, %.20s..., has %zu bytes; at most %d can be",
				kind, name, len, LIMITS_NAME_MAX);
		else
			err = read(rows, name);
		free(name);
		if (err)
			break;
	}
	return err;
}

/* The value that comes next must be a map, or nothing: *empty. */
static int enter_map(struct limits_rows *rows, const char *key, const char *of_what, bool *empty)
{
	int err = config_yaml_next(&rows->r);

	*empty = !err && config_yaml_null(&rows->r);
	if (err || *empty || rows->r.event.type == YAML_MAPPING_START_EVENT)
		return err;
	return LIMITS_FAIL(rows, config_yaml_line(&rows->r), key,
		"must be a map; write %s on the lines below, indented", of_what);
}

/* --- policies -------------------------------------------------------------------------------- */

static int read_policy_streams(struct limits_rows *rows)
{
	return read_streams(rows, &rows->policy_streams);
}

static const struct field policy_fields[] = {{LIMITS_STREAMS_KEY, read_policy_streams}};

static int read_policy(struct limits_rows *rows, const char *name)
{
	unsigned line = config_yaml_line(&rows->r);
	bool empty = false;
	int err;

	rows->policy = name;
	rows->policy_streams = 0;
	err = enter_map(rows, NULL, LIMITS_STREAMS_KEY, &empty);
	if (!err && !empty)
		err = read_fields(rows, policy_fields, 1);
	if (!err && rows->policy_streams != 0)
		err = limits_rows_policy(rows, line);
	else if (!err &&
		 !rows->defaults->ignore_unknown) /* else it may have other limits of Loki */
		err = LIMITS_FAIL(rows, line, NULL,
			"has no limit; write %s below it, or take it out", LIMITS_STREAMS_KEY);
	rows->policy = NULL;
	return err;
}

static int read_policies(struct limits_rows *rows)
{
	bool empty;
	int err = enter_map(rows, LIMITS_POLICIES_KEY, "each policy", &empty);

	return err || empty ? err : read_names(rows, "policy", read_policy);
}

/* --- tenants --------------------------------------------------------------------------------- */

static int read_tenant_streams(struct limits_rows *rows)
{
	limits_rows_last(rows)->has_streams = true;
	return read_streams(rows, &limits_rows_last(rows)->streams);
}

static int read_tenant_dry_run(struct limits_rows *rows)
{
	return read_dry_run(rows, &limits_rows_last(rows)->dry_run);
}

static const struct field tenant_fields[] = {
	{LIMITS_STREAMS_KEY, read_tenant_streams},
	{LIMITS_DRY_RUN_KEY, read_tenant_dry_run},
	{LIMITS_POLICIES_KEY, read_policies},
};

static int read_tenant(struct limits_rows *rows, const char *name)
{
	bool empty;
	int err;

	rows->tenant = name;
	err = limits_rows_tenant(rows, config_yaml_line(&rows->r));
	if (!err)
		err = enter_map(rows, NULL, "its limits", &empty);
	if (!err && !empty)
		err = read_fields(rows, tenant_fields, 3);
	rows->tenant = NULL;
	return err;
}

static int read_overrides(struct limits_rows *rows)
{
	bool empty;
	int err = enter_map(rows, LIMITS_OVERRIDES_KEY, "each tenant", &empty);

	return err || empty ? err : read_names(rows, "tenant", read_tenant);
}

static const struct field top_fields[] = {{LIMITS_OVERRIDES_KEY, read_overrides}};

/* --- the file -------------------------------------------------------------------------------- */

/* More often a file that was cut short than one that means it. */
static int fail_empty(struct config_reader *r)
{
	return config_fail(&r->source, 0, NULL,
		"is empty; write \"overrides: {}\" when no tenant has a limit of its own");
}

static int read_document(struct limits_rows *rows)
{
	struct config_reader *r = &rows->r;
	int err = config_yaml_next(r); /* begin of stream */

	if (!err)
		err = config_yaml_next(r); /* begin of document, or the end already */
	if (err)
		return err;
	if (r->event.type == YAML_STREAM_END_EVENT)
		return fail_empty(r);
	err = config_yaml_next(r);
	if (!err && config_yaml_null(r))
		return fail_empty(r);
	if (!err) {
		if (r->event.type != YAML_MAPPING_START_EVENT)
			return config_fail(&r->source, config_yaml_line(r), NULL,
				"must be a map; begin with \"overrides:\" and write each tenant "
				"below it, indented");
		err = read_fields(rows, top_fields, 1);
	}
	return err ? err : config_yaml_end(r);
}

struct limits_defaults limits_defaults_of(const struct config *config)
{
	return (struct limits_defaults){
		.streams = config->default_streams ? config->default_streams : LIMIT_NONE,
		.dry_run = config->limits_dry_run,
		.ignore_unknown = config->limits_ignore_unknown,
		.scope = (enum limit_scope)config->limit_scope,
	};
}

void limits_yaml_none(const struct limits_defaults *defaults, struct limits_yaml *out)
{
	*out = (struct limits_yaml){.source = {
					    .default_streams = defaults->streams,
					    .default_dry_run = defaults->dry_run,
					    .scope = defaults->scope,
				    }};
}

int limits_yaml_parse(const char *name, const char *text, size_t len,
	const struct limits_defaults *defaults, struct limits_yaml *out, struct config_error *error)
{
	struct limits_rows rows = {.defaults = defaults};
	int err;

	rows.r = (struct config_reader){
		.source = {.name = name, .error = error}, .text = text, .len = len};
	error->line[0] = '\0';
	*out = (struct limits_yaml){0};
	err = config_yaml_open(&rows.r);
	if (!err) {
		err = read_document(&rows);
		config_yaml_close(&rows.r);
	}
	if (!err)
		err = limits_rows_unique(&rows);
	if (!err)
		limits_rows_give(&rows, out);
	limits_rows_free(&rows);
	return err;
}

int limits_yaml_load(const char *path, const struct limits_defaults *defaults,
	struct limits_yaml *out, struct config_error *error)
{
	char *text = NULL;
	size_t len = 0;
	int err = limits_text_read(path, &text, &len, error);

	*out = (struct limits_yaml){0};
	if (!err)
		err = limits_yaml_parse(path, text ? text : "", len, defaults, out, error);
	free(text);
	return err;
}

void limits_yaml_free(struct limits_yaml *yaml)
{
	free(yaml->tenants);
	free(yaml->policies);
	free(yaml->names);
	*yaml = (struct limits_yaml){0};
}
