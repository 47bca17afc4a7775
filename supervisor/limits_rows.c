/*
 * limits_rows.c - what has been read of limits.yaml so far.
 *
 *	tenants  [ row | row | ... ]      tenant_marks [ name, line | ... ]
 *	policies [ those of tenant 0 | those of tenant 1 | ... ]      policy_marks likewise
 *	names    "tenant-a\0finance\0tenant-b\0..."
 *
 * The arrays grow, so what is in them has no fixed address; pointers between
 * them are set when all is read.
 *
 * Runs in: supervisor, the thread of limits_load.c; at start the main thread.
 */
#include "supervisor/limits_rows.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN 48 /* bytes of a name in a message */

/* A name, and the line that has it. */
struct mark {
	size_t name; /* where it begins among the names */
	unsigned line;
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

static void add_part(char place[LIMITS_PLACE_SIZE], const char *name)
{
	size_t len = strlen(place);
	int n = shown(name);

	snprintf(place + len, LIMITS_PLACE_SIZE - len, "%s%.*s%s", len ? "." : "", n, name,
		name[n] ? "..." : "");
}

const char *limits_rows_place(
	const struct limits_rows *rows, const char *key, char place[LIMITS_PLACE_SIZE])
{
	place[0] = '\0';
	if (rows->tenant) {
		add_part(place, LIMITS_OVERRIDES_KEY);
		add_part(place, rows->tenant);
	}
	if (rows->policy) {
		add_part(place, LIMITS_POLICIES_KEY);
		add_part(place, rows->policy);
	}
	if (key)
		add_part(place, key);
	return place;
}

/* --- arrays ---------------------------------------------------------------------------------- */

void *limits_array_grow(struct limits_array *array, size_t n, size_t size)
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

static int fail_memory(struct limits_rows *rows)
{
	return config_no_memory(&rows->r.source);
}

static int add_mark(
	struct limits_rows *rows, struct limits_array *marks, const char *name, unsigned line)
{
	size_t size = strlen(name) + 1, at = rows->names.n;
	struct mark *mark = limits_array_grow(marks, 1, sizeof(*mark));
	char *copy = mark ? limits_array_grow(&rows->names, size, 1) : NULL;

	if (!copy)
		return fail_memory(rows);
	memcpy(copy, name, size);
	*mark = (struct mark){at, line};
	return 0;
}

int limits_rows_tenant(struct limits_rows *rows, unsigned line)
{
	struct limits_tenant *tenant = limits_array_grow(&rows->tenants, 1, sizeof(*tenant));

	if (!tenant)
		return fail_memory(rows);
	*tenant = (struct limits_tenant){.dry_run = rows->defaults->dry_run};
	if (rows->tenants.n > LIMITS_TENANTS_MAX)
		return LIMITS_FAIL(rows, line, NULL,
			"is one tenant too many; at most %d can be in one file",
			LIMITS_TENANTS_MAX);
	return add_mark(rows, &rows->tenant_marks, rows->tenant, line);
}

struct limits_tenant *limits_rows_last(struct limits_rows *rows)
{
	return (struct limits_tenant *)rows->tenants.at + rows->tenants.n - 1;
}

int limits_rows_policy(struct limits_rows *rows, unsigned line)
{
	struct limits_policy *policy = limits_array_grow(&rows->policies, 1, sizeof(*policy));

	if (!policy)
		return fail_memory(rows);
	if (rows->policies.n > LIMITS_POLICIES_MAX)
		return LIMITS_FAIL(rows, line, NULL,
			"is one policy too many; at most %d can be in one file",
			LIMITS_POLICIES_MAX);
	*policy = (struct limits_policy){.streams = rows->policy_streams};
	limits_rows_last(rows)->n_policies++;
	return add_mark(rows, &rows->policy_marks, rows->policy, line);
}

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

/* `n` marks; places come from rows->tenant. */
static int check_twice(
	struct limits_rows *rows, const struct mark *marks, size_t n, struct named *list)
{
	const struct named *twice;
	const char *names = rows->names.at;

	for (size_t i = 0; i < n; i++)
		list[i] = (struct named){names + marks[i].name, marks[i].line};
	qsort(list, n, sizeof(*list), by_name_and_line);
	twice = first_twice(list, n);
	if (!twice)
		return 0;
	if (rows->tenant)
		rows->policy = twice->name;
	else
		rows->tenant = twice->name;
	return LIMITS_FAIL(rows, twice->line, NULL,
		"is given twice, first on line %u; take one out", twice[-1].line);
}

int limits_rows_unique(struct limits_rows *rows)
{
	size_t most = rows->tenants.n > rows->policies.n ? rows->tenants.n : rows->policies.n;
	struct named *list = calloc(most + 1, sizeof(*list));
	const struct limits_tenant *tenants = rows->tenants.at;
	const struct mark *policies = rows->policy_marks.at, *marks = rows->tenant_marks.at;
	const char *names = rows->names.at;
	int err;

	if (!list)
		return fail_memory(rows);
	err = check_twice(rows, marks, rows->tenants.n, list);
	for (size_t i = 0; !err && i < rows->tenants.n; i++) {
		if (tenants[i].n_policies == 0)
			continue;
		rows->tenant = names + marks[i].name;
		err = check_twice(rows, policies, tenants[i].n_policies, list);
		policies += tenants[i].n_policies;
	}
	rows->tenant = rows->policy = NULL;
	free(list);
	return err;
}

/* --- the end --------------------------------------------------------------------------------- */

/* Names and rows do not move any more: they may point at each other. */
void limits_rows_give(struct limits_rows *rows, struct limits_yaml *out)
{
	const struct mark *tenants = rows->tenant_marks.at, *policies = rows->policy_marks.at;
	size_t next = 0;

	limits_yaml_none(rows->defaults, out);
	out->source.tenants = out->tenants = rows->tenants.at;
	out->source.n_tenants = rows->tenants.n;
	out->policies = rows->policies.at;
	out->names = rows->names.at;
	for (size_t i = 0; i < rows->policies.n; i++)
		out->policies[i].name = out->names + policies[i].name;
	for (size_t i = 0; i < rows->tenants.n; i++) {
		out->tenants[i].name = out->names + tenants[i].name;
		out->tenants[i].policies =
			out->tenants[i].n_policies > 0 ? &out->policies[next] : NULL;
		next += out->tenants[i].n_policies;
	}
	rows->tenants = rows->policies = rows->names = (struct limits_array){0};
}

void limits_rows_free(struct limits_rows *rows)
{
	free(rows->tenants.at);
	free(rows->policies.at);
	free(rows->names.at);
	free(rows->tenant_marks.at);
	free(rows->policy_marks.at);
}
