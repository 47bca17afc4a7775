/*
 * limits_yaml.c - limits.yaml into struct limits_source, strictly.
 *
 *	file -> text -> libyaml events -> tenants, policies, names -> duplicates? -> limits_source
 *
 * The first mistake ends it with one line.  Rows and names are gathered in
 * three arrays that grow; pointers between them are set when all is read.
 *
 * Runs in: supervisor, the thread of limits_load.c; at start the main thread.  Blocks
 * in: reading the file, at most 64 MiB.
 */
#include "supervisor/limits_yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/config_yaml.h"
#include "shm/err.h"

#define DEPTH_MAX  100 /* of what is passed over */
#define SHOWN	   48  /* bytes of a name in a message */
#define PLACE_SIZE 240

static const char overrides_key[] = "overrides";
static const char streams_key[] = "max_global_streams_per_user";
static const char dry_run_key[] = "dry_run";
static const char policies_key[] = "policy_override_limits";

/* A name, and the line that has it. */
struct mark {
	size_t name; /* where it begins among the names */
	unsigned line;
};

struct array {
	void *at;
	size_t n, room;
};

struct builder {
	struct config_reader r;
	const struct limits_defaults *defaults;
	struct array tenants, policies; /* struct limits_tenant, struct limits_policy */
	struct array tenant_marks, policy_marks;
	struct array names; /* char, NUL-terminated */
	/* Where we are, for messages; NULL: not in one. */
	const char *tenant, *policy;
	uint64_t policy_streams; /* of the policy that is being read; 0: none yet */
};

/* --- messages -------------------------------------------------------------------------------- */

/* "tenant-a", or its beginning and "...", between characters. */
static int shown(const char *name)
{
	size_t len = strlen(name);

	if (len > SHOWN)
		for (len = SHOWN - 3; len > 0 && ((unsigned char)name[len] & 0xc0) == 0x80;)
			len--;
	return (int)len;
}

static void add_part(char place[PLACE_SIZE], const char *name)
{
	size_t len = strlen(place);
	int n = shown(name);

	snprintf(place + len, PLACE_SIZE - len, "%s%.*s%s", len ? "." : "", n, name,
		name[n] ? "..." : "");
}

/* "overrides.tenant-a.policy_override_limits.finance.KEY" */
static const char *place_of(const struct builder *b, const char *key, char place[PLACE_SIZE])
{
	place[0] = '\0';
	if (b->tenant) {
		add_part(place, overrides_key);
		add_part(place, b->tenant);
	}
	if (b->policy) {
		add_part(place, policies_key);
		add_part(place, b->policy);
	}
	if (key)
		add_part(place, key);
	return place;
}

#define FAIL(b, line, key, fmt, ...)                                                               \
	config_fail(&(b)->r.source, line, NULL, "%s: " fmt,                                        \
		place_of(b, key, (char[PLACE_SIZE]){0}), __VA_ARGS__)

static int fail_memory(struct builder *b)
{
	return config_no_memory(&b->r.source);
}

/* --- arrays ---------------------------------------------------------------------------------- */

/* Room for `n` more of `size` bytes; NULL: no memory. */
static void *grow(struct array *array, size_t n, size_t size)
{
	if (array->n + n > array->room) {
		size_t room = (array->n + n) * 2 + 64;
		void *at = reallocarray(array->at, room, size);

		if (!at)
			return NULL;
		array->at = at;
		array->room = room;
	}
	array->n += n;
	return (char *)array->at + (array->n - n) * size;
}

static int add_mark(struct builder *b, struct array *marks, const char *name, unsigned line)
{
	size_t size = strlen(name) + 1, at = b->names.n;
	struct mark *mark = grow(marks, 1, sizeof(*mark));
	char *copy = mark ? grow(&b->names, size, 1) : NULL;

	if (!copy)
		return fail_memory(b);
	memcpy(copy, name, size);
	*mark = (struct mark){at, line};
	return 0;
}

/* --- values ---------------------------------------------------------------------------------- */

/* The value of `key` that comes next must be a plain scalar. */
static int read_plain(struct builder *b, const char *key, const char *kind, const char **text)
{
	const yaml_event_t *e = &b->r.event;
	int err = config_yaml_next(&b->r);
	unsigned line = config_yaml_line(&b->r);

	if (err)
		return err;
	if (e->type != YAML_SCALAR_EVENT)
		return FAIL(b, line, key, "must be one value, not a %s; write %s",
			e->type == YAML_MAPPING_START_EVENT ? "map" : "list", kind);
	if (config_yaml_null(&b->r))
		return FAIL(b, line, key, "has no value; write %s, or take the line out", kind);
	*text = (const char *)e->data.scalar.value;
	if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE ||
		strlen(*text) != e->data.scalar.length)
		return FAIL(b, line, key, "is text in quotes; write %s, without quotes", kind);
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

static int read_streams(struct builder *b, uint64_t *streams)
{
	const char *text, *wrong;
	int err = read_plain(b, streams_key, "a number of streams, 0 for no limit", &text);

	if (err)
		return err;
	wrong = number_wrong(text, streams);
	if (wrong)
		return FAIL(b, config_yaml_line(&b->r), streams_key, "%.40s%s %s", text,
			strlen(text) > 40 ? "..." : "", wrong);
	if (*streams == 0)
		*streams = LIMIT_NONE;
	return 0;
}

static int read_dry_run(struct builder *b, bool *dry_run)
{
	const char *text;
	int err = read_plain(b, dry_run_key, "true or false", &text);

	if (err)
		return err;
	*dry_run = strcmp(text, "true") == 0;
	if (!*dry_run && strcmp(text, "false") != 0)
		return FAIL(b, config_yaml_line(&b->r), dry_run_key, "%.40s is %s", text,
			"neither true nor false; write one of them");
	return 0;
}

/* --- keys ------------------------------------------------------------------------------------ */

/* A key that we know; `read` takes its value, which comes next. */
struct field {
	const char *key;
	int (*read)(struct builder *b);
};

#define FIELDS_MAX 3

/* Passes over one value, whatever it is. */
static int skip_value(struct builder *b)
{
	int depth = 0, err;

	do {
		err = config_yaml_next(&b->r);
		if (err)
			return err;
		switch (b->r.event.type) {
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
			return config_fail(&b->r.source, config_yaml_line(&b->r), NULL,
				"maps and lists are nested more than %d deep; no limits are so",
				DEPTH_MAX);
	} while (depth > 0);
	return 0;
}

static int unknown_key(struct builder *b, const char *key, const struct field *fields, size_t n)
{
	const char *names[FIELDS_MAX], *near;
	char known[128] = "";

	if (b->defaults->ignore_unknown)
		return skip_value(b);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(known);

		names[i] = fields[i].key;
		snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "", names[i]);
	}
	near = config_nearest_of(key, names, n);
	if (near)
		return FAIL(b, config_yaml_line(&b->r), key, "no such key; did you mean %s?", near);
	return FAIL(b, config_yaml_line(&b->r), key,
		"no such key; known here: %s; limits.unknown_keys: ignore passes over others",
		known);
}

static int read_field(struct builder *b, const char *key, const struct field *fields, size_t n,
	unsigned seen[FIELDS_MAX])
{
	unsigned line = config_yaml_line(&b->r);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(key, fields[i].key) != 0)
			continue;
		if (seen[i])
			return FAIL(b, line, key, "is given twice, first on line %u; take one out",
				seen[i]);
		seen[i] = line;
		return fields[i].read(b);
	}
	return unknown_key(b, key, fields, n);
}

/* The map in hand, key by key. */
static int read_fields(struct builder *b, const struct field *fields, size_t n)
{
	unsigned seen[FIELDS_MAX] = {0};
	char *key;
	int err;

	while ((err = config_yaml_key(&b->r, &key)) == 0 && key) {
		err = read_field(b, key, fields, n, seen);
		free(key);
		if (err)
			break;
	}
	return err;
}

/* The map in hand, whose keys are names. */
static int read_names(
	struct builder *b, const char *kind, int (*read)(struct builder *b, const char *name))
{
	char *name;
	int err;

	while ((err = config_yaml_key(&b->r, &name)) == 0 && name) {
		size_t len = strlen(name);

		if (len == 0)
			err = FAIL(b, config_yaml_line(&b->r),
				b->tenant ? policies_key : overrides_key,
				"a %s has no name; write it before the colon", kind);
		else if (len > LIMITS_NAME_MAX)
			err = FAIL(b, config_yaml_line(&b->r),
				b->tenant ? policies_key : overrides_key,
				"the name of a %s, %.20s..., has %zu bytes; at most %d can be",
				kind, name, len, LIMITS_NAME_MAX);
		else
			err = read(b, name);
		free(name);
		if (err)
			break;
	}
	return err;
}

/* The value that comes next must be a map, or nothing: *empty. */
static int enter_map(struct builder *b, const char *key, const char *of_what, bool *empty)
{
	int err = config_yaml_next(&b->r);

	*empty = !err && config_yaml_null(&b->r);
	if (err || *empty || b->r.event.type == YAML_MAPPING_START_EVENT)
		return err;
	return FAIL(b, config_yaml_line(&b->r), key,
		"must be a map; write %s on the lines below, indented", of_what);
}

/* --- policies -------------------------------------------------------------------------------- */

static int read_policy_streams(struct builder *b)
{
	return read_streams(b, &b->policy_streams);
}

static const struct field policy_fields[] = {{streams_key, read_policy_streams}};

static struct limits_tenant *tenant_row(struct builder *b)
{
	return (struct limits_tenant *)b->tenants.at + b->tenants.n - 1;
}

static int add_policy(struct builder *b, unsigned line)
{
	struct limits_policy *policy = grow(&b->policies, 1, sizeof(*policy));

	if (!policy)
		return fail_memory(b);
	if (b->policies.n > LIMITS_POLICIES_MAX)
		return FAIL(b, line, NULL, "is one policy too many; at most %d can be in one file",
			LIMITS_POLICIES_MAX);
	*policy = (struct limits_policy){.streams = b->policy_streams};
	tenant_row(b)->n_policies++;
	return add_mark(b, &b->policy_marks, b->policy, line);
}

static int read_policy(struct builder *b, const char *name)
{
	unsigned line = config_yaml_line(&b->r);
	bool empty = false;
	int err;

	b->policy = name;
	b->policy_streams = 0;
	err = enter_map(b, NULL, streams_key, &empty);
	if (!err && !empty)
		err = read_fields(b, policy_fields, 1);
	if (!err && b->policy_streams != 0)
		err = add_policy(b, line);
	else if (!err && !b->defaults->ignore_unknown) /* else it may have other limits of Loki */
		err = FAIL(b, line, NULL, "has no limit; write %s below it, or take it out",
			streams_key);
	b->policy = NULL;
	return err;
}

static int read_policies(struct builder *b)
{
	bool empty;
	int err = enter_map(b, policies_key, "each policy", &empty);

	return err || empty ? err : read_names(b, "policy", read_policy);
}

/* --- tenants --------------------------------------------------------------------------------- */

static int read_tenant_streams(struct builder *b)
{
	tenant_row(b)->has_streams = true;
	return read_streams(b, &tenant_row(b)->streams);
}

static int read_tenant_dry_run(struct builder *b)
{
	return read_dry_run(b, &tenant_row(b)->dry_run);
}

static const struct field tenant_fields[] = {
	{streams_key, read_tenant_streams},
	{dry_run_key, read_tenant_dry_run},
	{policies_key, read_policies},
};

static int read_tenant(struct builder *b, const char *name)
{
	struct limits_tenant *tenant = grow(&b->tenants, 1, sizeof(*tenant));
	unsigned line = config_yaml_line(&b->r);
	bool empty;
	int err;

	if (!tenant)
		return fail_memory(b);
	*tenant = (struct limits_tenant){.dry_run = b->defaults->dry_run};
	b->tenant = name;
	if (b->tenants.n > LIMITS_TENANTS_MAX)
		return FAIL(b, line, NULL, "is one tenant too many; at most %d can be in one file",
			LIMITS_TENANTS_MAX);
	err = add_mark(b, &b->tenant_marks, name, line);
	if (!err)
		err = enter_map(b, NULL, "its limits", &empty);
	if (!err && !empty)
		err = read_fields(b, tenant_fields, 3);
	b->tenant = NULL;
	return err;
}

static int read_overrides(struct builder *b)
{
	bool empty;
	int err = enter_map(b, overrides_key, "each tenant", &empty);

	return err || empty ? err : read_names(b, "tenant", read_tenant);
}

static const struct field top_fields[] = {{overrides_key, read_overrides}};

/* --- duplicates ------------------------------------------------------------------------------ */

struct named {
	const char *name;
	unsigned line;
};

static int by_name_and_line(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* The first one in the file that an earlier one is like; NULL: none. */
static const struct named *first_twice(const struct named *list, size_t n)
{
	const struct named *found = NULL;

	for (size_t i = 1; i < n; i++)
		if (strcmp(list[i].name, list[i - 1].name) == 0 &&
			(!found || list[i].line < found->line))
			found = &list[i];
	return found;
}

/* `n` marks; places come from b->tenant. */
static int check_twice(struct builder *b, const struct mark *marks, size_t n, struct named *list)
{
	const struct named *twice;
	const char *names = b->names.at;

	for (size_t i = 0; i < n; i++)
		list[i] = (struct named){names + marks[i].name, marks[i].line};
	qsort(list, n, sizeof(*list), by_name_and_line);
	twice = first_twice(list, n);
	if (!twice)
		return 0;
	if (b->tenant)
		b->policy = twice->name;
	else
		b->tenant = twice->name;
	return FAIL(b, twice->line, NULL, "is given twice, first on line %u; take one out",
		twice[-1].line);
}

static int check_duplicates(struct builder *b)
{
	size_t most = b->tenants.n > b->policies.n ? b->tenants.n : b->policies.n;
	struct named *list = calloc(most + 1, sizeof(*list));
	const struct limits_tenant *tenants = b->tenants.at;
	const struct mark *policies = b->policy_marks.at, *marks = b->tenant_marks.at;
	const char *names = b->names.at;
	int err;

	if (!list)
		return fail_memory(b);
	err = check_twice(b, marks, b->tenants.n, list);
	for (size_t i = 0; !err && i < b->tenants.n; i++) {
		if (tenants[i].n_policies == 0)
			continue;
		b->tenant = names + marks[i].name;
		err = check_twice(b, policies, tenants[i].n_policies, list);
		policies += tenants[i].n_policies;
	}
	b->tenant = b->policy = NULL;
	free(list);
	return err;
}

/* --- the file -------------------------------------------------------------------------------- */

/* More often a file that was cut short than one that means it. */
static int fail_empty(struct config_reader *r)
{
	return config_fail(&r->source, 0, NULL,
		"is empty; write \"overrides: {}\" when no tenant has a limit of its own");
}

static int read_document(struct builder *b)
{
	struct config_reader *r = &b->r;
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
		err = read_fields(b, top_fields, 1);
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

/* Names and rows do not move any more: they may point at each other. */
static void give(struct builder *b, struct limits_yaml *out)
{
	const struct mark *tenants = b->tenant_marks.at, *policies = b->policy_marks.at;
	size_t next = 0;

	limits_yaml_none(b->defaults, out);
	out->source.tenants = out->tenants = b->tenants.at;
	out->source.n_tenants = b->tenants.n;
	out->policies = b->policies.at;
	out->names = b->names.at;
	for (size_t i = 0; i < b->policies.n; i++)
		out->policies[i].name = out->names + policies[i].name;
	for (size_t i = 0; i < b->tenants.n; i++) {
		out->tenants[i].name = out->names + tenants[i].name;
		out->tenants[i].policies =
			out->tenants[i].n_policies > 0 ? &out->policies[next] : NULL;
		next += out->tenants[i].n_policies;
	}
}

int limits_yaml_parse(const char *name, const char *text, size_t len,
	const struct limits_defaults *defaults, struct limits_yaml *out, struct config_error *error)
{
	struct builder b = {.defaults = defaults};
	int err;

	b.r = (struct config_reader){
		.source = {.name = name, .error = error}, .text = text, .len = len};
	error->line[0] = '\0';
	*out = (struct limits_yaml){0};
	err = config_yaml_open(&b.r);
	if (!err) {
		err = read_document(&b);
		config_yaml_close(&b.r);
	}
	if (!err)
		err = check_duplicates(&b);
	if (!err) {
		give(&b, out);
	} else {
		free(b.tenants.at);
		free(b.policies.at);
		free(b.names.at);
	}
	free(b.tenant_marks.at);
	free(b.policy_marks.at);
	return err;
}

static int fail_file(const char *path, struct config_error *error, int errnum)
{
	struct config_source source = {.name = path, .error = error};

	config_fail(&source, 0, NULL, "%s; %s", strerror(errnum), config_file_action(errnum));
	return err_from_errno(errnum);
}

static int fail_kind(const char *path, struct config_error *error, const char *what)
{
	struct config_source source = {.name = path, .error = error};

	return config_fail(&source, 0, NULL, "%s", what);
}

/* At most LIMITS_FILE_MAX, with room for one byte more to see that it is too long. */
static int read_text(int fd, const char *path, struct array *text, struct config_error *error)
{
	ssize_t n = 1;

	while (n > 0 && text->n <= LIMITS_FILE_MAX) {
		size_t piece = LIMITS_FILE_MAX + 1 - text->n;

		piece = piece < 65536 ? piece : 65536;
		if (!grow(text, piece, 1))
			return fail_file(path, error, ENOMEM);
		text->n -= piece;
		n = read(fd, (char *)text->at + text->n, piece);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return fail_file(path, error, errno);
		else
			text->n += (size_t)n;
	}
	return text->n > LIMITS_FILE_MAX
		       ? fail_kind(path, error, "is larger than 64 MiB; these cannot be limits")
		       : 0;
}

int limits_yaml_load(const char *path, const struct limits_defaults *defaults,
	struct limits_yaml *out, struct config_error *error)
{
	/* NONBLOCK: a FIFO must not hang us before it is refused. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct array text = {0};
	struct stat st;
	int err;

	*out = (struct limits_yaml){0};
	if (fd < 0)
		return fail_file(path, error, errno);
	if (fstat(fd, &st) < 0)
		err = fail_file(path, error, errno);
	else if (!S_ISREG(st.st_mode))
		err = fail_kind(path, error, "is not a regular file; name one in limits.file");
	else
		err = read_text(fd, path, &text, error);
	close(fd);
	if (!err)
		err = limits_yaml_parse(path, text.n ? text.at : "", text.n, defaults, out, error);
	free(text.at);
	return err;
}

void limits_yaml_free(struct limits_yaml *yaml)
{
	free(yaml->tenants);
	free(yaml->policies);
	free(yaml->names);
	*yaml = (struct limits_yaml){0};
}
