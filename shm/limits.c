/*
 * limits.c - the limits of tenants as a compiled file: flat, sorted, immutable.
 *
 *	head | tenant rows, by name | policy rows, by tenant and name | names
 *
 * Attaching believes nothing: every row is looked at once, so that a look-up
 * needs no checks and a garbled file is refused instead of followed.  Names
 * are compared as bytes; a name that begins another one comes before it.
 *
 * Runs in: supervisor (writes), every reader.  Blocks in: nowhere.
 */
#include "shm/limits.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"

#define MAGIC "TALLYLIM"

#define TENANT_HAS_STREAMS 1u
#define TENANT_DRY_RUN	   2u
#define TENANT_FLAGS	   3u

struct limits_head {
	struct segment_head segment;
	uint64_t version;
	uint64_t default_streams; /* LIMIT_NONE or >= 1, as all of them */
	uint32_t n_tenants, n_policies;
	uint32_t names_size; /* bytes of all names */
	uint8_t scope;	     /* enum limit_scope */
	uint8_t dry_run;     /* of tenants that are not listed: 0 or 1 */
	uint8_t reserved[2];
};
_Static_assert(sizeof(struct limits_head) == 56, "file format");

struct limits_tenant_row {
	uint64_t streams;
	uint32_t name; /* where it begins among the names */
	uint32_t first_policy, n_policies;
	uint16_t name_len;
	uint16_t flags;
};
_Static_assert(sizeof(struct limits_tenant_row) == 24, "file format");

struct limits_policy_row {
	uint64_t streams;
	uint32_t name;
	uint32_t name_len;
};
_Static_assert(sizeof(struct limits_policy_row) == 16, "file format");

/* The parts of a mapped file. */
struct view {
	const struct limits_head *head;
	const struct limits_tenant_row *tenants;
	const struct limits_policy_row *policies;
	const char *names;
};

static struct view view_of(const void *map)
{
	struct view v = {.head = map};

	v.tenants = (const void *)(v.head + 1);
	v.policies = (const void *)(v.tenants + v.head->n_tenants);
	v.names = (const char *)(v.policies + v.head->n_policies);
	return v;
}

static uint64_t size_of(uint64_t tenants, uint64_t policies, uint64_t names)
{
	return sizeof(struct limits_head) + tenants * sizeof(struct limits_tenant_row) +
	       policies * sizeof(struct limits_policy_row) + names;
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return order ? order : (a_len > b_len) - (a_len < b_len);
}

/* ------------------------------------------------------------------ writer */

static int by_tenant_name(const void *a, const void *b)
{
	const struct limits_tenant *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int by_policy_name(const void *a, const void *b)
{
	const struct limits_policy *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* The source in the order of the file, and how much there is of it. */
struct plan {
	const struct limits_tenant **tenants;
	const struct limits_policy **policies; /* of all tenants, in their order */
	size_t n_policies, names_size;
};

static size_t name_size(const char *name)
{
	size_t len = strlen(name);

	must(len > 0 && len <= LIMITS_NAME_MAX);
	return len;
}

static void plan_tenant(struct plan *plan, const struct limits_tenant *tenant)
{
	const struct limits_policy **own = plan->policies + plan->n_policies;

	plan->names_size += name_size(tenant->name);
	for (size_t i = 0; i < tenant->n_policies; i++) {
		own[i] = &tenant->policies[i];
		plan->names_size += name_size(own[i]->name);
	}
	qsort(own, tenant->n_policies, sizeof(*own), by_policy_name);
	plan->n_policies += tenant->n_policies;
}

static int plan_make(struct plan *plan, const struct limits_source *source)
{
	size_t policies = 0;

	*plan = (struct plan){0};
	for (size_t i = 0; i < source->n_tenants; i++)
		policies += source->tenants[i].n_policies;
	plan->tenants = calloc(source->n_tenants + 1, sizeof(*plan->tenants));
	plan->policies = calloc(policies + 1, sizeof(*plan->policies));
	if (!plan->tenants || !plan->policies)
		return ERR_NOMEM;
	for (size_t i = 0; i < source->n_tenants; i++)
		plan->tenants[i] = &source->tenants[i];
	qsort(plan->tenants, source->n_tenants, sizeof(*plan->tenants), by_tenant_name);
	for (size_t i = 0; i < source->n_tenants; i++)
		plan_tenant(plan, plan->tenants[i]);
	must(source->n_tenants < UINT32_MAX && policies < UINT32_MAX);
	return plan->names_size < UINT32_MAX ? 0 : ERR_FULL;
}

static void plan_free(struct plan *plan)
{
	free(plan->tenants);
	free(plan->policies);
}

static uint32_t put_name(char *names, uint32_t *at, const char *name, size_t len)
{
	uint32_t begin = *at;

	memcpy(names + begin, name, len);
	*at += (uint32_t)len;
	return begin;
}

static void fill(void *map, const struct limits_source *source, const struct plan *plan)
{
	struct limits_head *head = map;
	struct limits_tenant_row *rows = (void *)(head + 1);
	struct limits_policy_row *policies = (void *)(rows + source->n_tenants);
	char *names = (char *)(policies + plan->n_policies);
	uint32_t at = 0, policy = 0;

	head->version = source->version;
	head->default_streams = source->default_streams;
	head->n_tenants = (uint32_t)source->n_tenants;
	head->n_policies = (uint32_t)plan->n_policies;
	head->names_size = (uint32_t)plan->names_size;
	head->scope = (uint8_t)source->scope;
	head->dry_run = source->default_dry_run;
	for (size_t i = 0; i < source->n_tenants; i++) {
		const struct limits_tenant *tenant = plan->tenants[i];
		struct limits_tenant_row *row = &rows[i];

		row->streams = tenant->has_streams ? tenant->streams : source->default_streams;
		row->name_len = (uint16_t)strlen(tenant->name);
		row->name = put_name(names, &at, tenant->name, row->name_len);
		row->first_policy = policy;
		row->n_policies = (uint32_t)tenant->n_policies;
		row->flags = (uint16_t)((tenant->has_streams ? TENANT_HAS_STREAMS : 0) |
					(tenant->dry_run ? TENANT_DRY_RUN : 0));
		for (size_t k = 0; k < tenant->n_policies; k++, policy++) {
			policies[policy].streams = plan->policies[policy]->streams;
			policies[policy].name_len = (uint32_t)strlen(plan->policies[policy]->name);
			policies[policy].name = put_name(names, &at, plan->policies[policy]->name,
				policies[policy].name_len);
		}
	}
}

int limits_write(int dirfd, const struct limits_source *source)
{
	struct segment segment = {0};
	struct plan plan;
	int err = plan_make(&plan, source);

	if (!err) {
		struct segment_spec spec = {MAGIC, LIMITS_VERSION,
			size_of(source->n_tenants, plan.n_policies, plan.names_size)};

		err = segment_create(dirfd, LIMITS_NAME, &spec, 0440, &segment, NULL);
	}
	if (!err) {
		fill(segment.map, source, &plan);
		segment_detach(&segment);
		err = segment_publish(dirfd, LIMITS_NAME);
		if (err)
			unlinkat(dirfd, LIMITS_NAME ".new", 0);
	}
	plan_free(&plan);
	return err;
}

/* ------------------------------------------------------------------ checks */

static bool limit_good(uint64_t streams)
{
	return streams >= 1;
}

static bool name_good(const struct view *v, uint32_t name, uint32_t len)
{
	return len >= 1 && len <= LIMITS_NAME_MAX && name <= v->head->names_size &&
	       len <= v->head->names_size - name && !memchr(v->names + name, '\0', len);
}

static bool policies_good(const struct view *v, const struct limits_tenant_row *tenant)
{
	for (uint32_t i = 0; i < tenant->n_policies; i++) {
		const struct limits_policy_row *row = &v->policies[tenant->first_policy + i];

		if (!limit_good(row->streams) || !name_good(v, row->name, row->name_len))
			return false;
		if (i > 0 && compare(v->names + row[-1].name, row[-1].name_len,
				     v->names + row->name, row->name_len) >= 0)
			return false;
	}
	return true;
}

/* `policy` is the first one that no tenant before this one has. */
static bool tenant_good(const struct view *v, const struct limits_tenant_row *row, uint32_t policy)
{
	if (!limit_good(row->streams) || (row->flags & ~TENANT_FLAGS) ||
		!name_good(v, row->name, row->name_len))
		return false;
	if (row > v->tenants && compare(v->names + row[-1].name, row[-1].name_len,
					v->names + row->name, row->name_len) >= 0)
		return false;
	return row->first_policy == policy && row->n_policies <= v->head->n_policies - policy &&
	       policies_good(v, row);
}

static int check(const void *map, size_t size)
{
	const struct limits_head *head = map;
	uint32_t policy = 0;

	if (size_of(head->n_tenants, head->n_policies, head->names_size) != size)
		return ERR_CORRUPT;
	if (head->scope > LIMIT_PARTITION || head->dry_run > 1 || head->reserved[0] ||
		head->reserved[1] || !limit_good(head->default_streams))
		return ERR_CORRUPT;
	struct view v = view_of(map);
	for (uint32_t i = 0; i < head->n_tenants; i++) {
		if (!tenant_good(&v, &v.tenants[i], policy))
			return ERR_CORRUPT;
		policy += v.tenants[i].n_policies;
	}
	return policy == head->n_policies ? 0 : ERR_CORRUPT;
}

/* ------------------------------------------------------------------ reader */

int limits_attach(int dirfd, struct limits *limits)
{
	const struct segment_spec spec = {MAGIC, LIMITS_VERSION, sizeof(struct limits_head)};
	int err;

	*limits = (struct limits){0};
	err = segment_attach(dirfd, LIMITS_NAME, &spec, &limits->segment);
	if (!err)
		err = check(limits->segment.map, limits->segment.size);
	if (err)
		limits_detach(limits);
	return err;
}

void limits_detach(struct limits *limits)
{
	segment_detach(&limits->segment);
}

uint64_t limits_version(const struct limits *limits)
{
	return view_of(limits->segment.map).head->version;
}

enum limit_scope limits_scope(const struct limits *limits)
{
	return (enum limit_scope)view_of(limits->segment.map).head->scope;
}

static const struct limits_tenant_row *find_tenant(
	const struct view *v, const char *tenant, size_t len)
{
	uint32_t low = 0, high = v->head->n_tenants;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct limits_tenant_row *row = &v->tenants[middle];
		int order = compare(tenant, len, v->names + row->name, row->name_len);

		if (order == 0)
			return row;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

void limits_find(
	const struct limits *limits, const char *tenant, size_t len, struct limits_entry *entry)
{
	struct view v = view_of(limits->segment.map);
	const struct limits_tenant_row *row = find_tenant(&v, tenant, len);

	if (!row) {
		*entry = (struct limits_entry){.streams = v.head->default_streams,
			.is_default = true,
			.dry_run = v.head->dry_run};
		return;
	}
	*entry = (struct limits_entry){
		.streams = row->streams,
		.is_default = !(row->flags & TENANT_HAS_STREAMS),
		.listed = true,
		.dry_run = (row->flags & TENANT_DRY_RUN) != 0,
		.first_policy = row->first_policy,
		.n_policies = row->n_policies,
	};
}

bool limits_policy(const struct limits *limits, const struct limits_entry *entry,
	const char *policy, size_t len, uint64_t *streams)
{
	struct view v = view_of(limits->segment.map);
	uint32_t low = entry->first_policy, high = low + entry->n_policies;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct limits_policy_row *row = &v.policies[middle];
		int order = compare(policy, len, v.names + row->name, row->name_len);

		if (order == 0) {
			*streams = row->streams;
			return true;
		}
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

void limits_policy_at(const struct limits *limits, const struct limits_entry *entry, uint32_t i,
	const char **name, size_t *len, uint64_t *streams)
{
	struct view v = view_of(limits->segment.map);

	must(i < entry->n_policies);
	const struct limits_policy_row *row = &v.policies[entry->first_policy + i];
	*name = v.names + row->name;
	*len = row->name_len;
	*streams = row->streams;
}

uint64_t limits_share(uint64_t limit, uint32_t owned, uint32_t all)
{
	if (limit == LIMIT_NONE || owned >= all)
		return limit;
	/* limit x owned can be more than 64 bits; limit % all x owned cannot. */
	uint64_t rest = limit % all * owned;
	return limit / all * owned + rest / all + (rest % all != 0);
}

/* The smallest root with root x root >= n. */
static uint64_t root_up(uint64_t n)
{
	uint64_t root = 0;
	for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) < n)
			root += bit;
	return n ? root + 1 : 0;
}

uint64_t limits_spread(uint64_t limit, uint32_t partitions, uint32_t all)
{
	if (limit == LIMIT_NONE || !partitions || partitions >= all)
		return 0;
	uint64_t spread = 4 * root_up(limit) * root_up((uint64_t)partitions * (all - partitions));
	return (spread + all - 1) / all;
}
