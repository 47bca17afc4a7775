/*
 * client_query.c - what tenants use, added up over all partitions.
 *
 *	rows (tenant, policy) of each partition --> names --> tenant | policies | tenants | top
 *	                                       '--> minutes --> histogram
 *
 * A row that has nothing in the window is not there.  Sums saturate.
 *
 * Runs in: every reader.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "shm/client_private.h"
#include "shm/err.h"

bool client_next_row(
	struct client_visit *visit, uint32_t tenant, int *policy, struct window_row *row)
{
	int last = *policy;
	if (last < 0)
		visit->rows = 0;
	if (usage_next_row(
		    visit->txn, tenant, policy, visit->tally->window, visit->tally->row, row) &&
		*policy > last) {
		visit->rows++;
		return true;
	}
	usage_check_rows(visit->txn, tenant, visit->rows);
	return false;
}

/* false: nothing of it is in the window. */
static bool sums_of(
	const struct client_visit *visit, const struct window_row *row, struct client_sums *sums)
{
	sums->streams = window_row_streams(row, visit->now_minute);
	sums->bytes = window_row_bytes(row, visit->now_minute);
	sums->rate =
		sums->bytes ? window_row_rate(row, visit->tally->now_ms, visit->tally->rate) : 0;
	return sums->streams || sums->bytes;
}

/* ------------------------------------------------------------------ one tenant, by policy */

struct by_policy {
	const char *tenant;
	struct client_names names;
	struct tally_basis basis;
	bool found, known; /* in the partition being read; in any */
};

static int note_policy(struct by_policy *ask, struct client_visit *visit, uint32_t tenant,
	int policy, const struct window_row *row)
{
	char name[USAGE_NAME_SIZE + 1];
	struct client_sums sums;
	uint32_t number;
	if (!sums_of(visit, row, &sums))
		return 0;
	if (!usage_policy_name(visit->txn, tenant, (uint32_t)policy, name))
		return ERR_CORRUPT;
	int err = client_names_intern(&ask->names, name, &number);
	if (!err)
		err = client_names_note(&ask->names, number, "", &sums);
	return err;
}

static int read_policies(struct client_visit *visit, void *arg)
{
	struct by_policy *ask = arg;
	struct window_row row;
	uint32_t tenant;
	int policy = -1, err = 0;
	client_names_drop(&ask->names);
	ask->found = client_find_tenant(visit, ask->tenant, &tenant);
	while (ask->found && !err && client_next_row(visit, tenant, &policy, &row))
		err = note_policy(ask, visit, tenant, policy, &row);
	return err;
}

static int take_policies(void *arg)
{
	struct by_policy *ask = arg;
	ask->known = ask->known || ask->found;
	return client_names_take(&ask->names);
}

static int scan_policies(struct tally *tally, void *arg)
{
	struct by_policy *ask = arg;
	client_names_free(&ask->names);
	client_names_init(&ask->names);
	ask->known = false;
	int err = client_scan(tally,
		&(struct client_scan){.read = read_policies, .take = take_policies, .arg = ask},
		&ask->basis);
	return !err && !ask->known ? ERR_NOT_FOUND : err;
}

int tally_tenant(struct tally *tally, const char *tenant, struct tally_usage *out)
{
	struct by_policy ask = {.tenant = tenant};
	if (!tally || !out || !client_name_ok(tenant))
		return TALLY_EINVALID;
	*out = (struct tally_usage){0};
	int err = client_call(tally, scan_policies, &ask);
	for (uint32_t i = 0; !err && i < ask.names.n; i++) {
		const struct client_name *policy = &ask.names.list[i];
		out->streams = client_add(out->streams, policy->streams);
		out->bytes = client_add(out->bytes, policy->bytes);
		out->bytes_per_sec += policy->rate;
		out->policies += policy->streams || policy->bytes;
	}
	client_text(out->tenant, sizeof out->tenant, tenant, USAGE_NAME_SIZE);
	out->basis = ask.basis;
	client_names_free(&ask.names);
	return err;
}

int tally_policies(struct tally *tally, const char *tenant, struct tally_policy *out, size_t cap,
	size_t *n, struct tally_basis *basis)
{
	struct by_policy ask = {.tenant = tenant};
	if (!tally || !n || (cap && !out) || !client_name_ok(tenant))
		return TALLY_EINVALID;
	*n = 0;
	int err = client_call(tally, scan_policies, &ask);
	if (!err)
		client_names_sort(&ask.names, false);
	for (uint32_t i = 0; !err && i < ask.names.n; i++) {
		const struct client_name *policy = &ask.names.list[i];
		if (!policy->streams && !policy->bytes)
			continue; /* noted in a partition that did not count in the end */
		if ((*n)++ >= cap)
			continue;
		struct tally_policy *to = &out[*n - 1];
		client_text(to->policy, sizeof to->policy, client_name_text(&ask.names, policy),
			USAGE_NAME_SIZE);
		to->streams = policy->streams;
		to->bytes = policy->bytes;
	}
	if (basis)
		*basis = ask.basis;
	client_names_free(&ask.names);
	return err;
}

/* ------------------------------------------------------------------ one tenant, by minute */

struct by_minute {
	const char *tenant;
	struct tally_minute *sum, *scratch; /* window + 1 each */
	uint32_t window;
	size_t cap;
	struct tally_basis basis;
	bool found, known;
};

/* Minutes ahead of this reader's clock count as the present one. */
static void add_row(struct by_minute *ask, const struct window_row *row, uint32_t now)
{
	uint32_t window = ask->window;
	uint64_t first = now > window ? now - window : 0;
	uint64_t oldest = row->base > window ? row->base - window : 0;
	if (row->base == 0)
		return;
	for (uint64_t m = first > oldest ? first : oldest; m <= row->base; m++) {
		uint64_t at = (m < now ? m : now) - first;
		struct tally_minute *to = &ask->scratch[at];
		to->streams = client_add(to->streams, row->count[m % row->slots]);
		to->bytes = client_add(to->bytes, row->bytes[m % row->slots]);
	}
}

static int read_minutes(struct client_visit *visit, void *arg)
{
	struct by_minute *ask = arg;
	struct window_row row;
	uint32_t tenant;
	int policy = -1;
	memset(ask->scratch, 0, (ask->window + 1) * sizeof *ask->scratch);
	ask->found = client_find_tenant(visit, ask->tenant, &tenant);
	while (ask->found && client_next_row(visit, tenant, &policy, &row))
		add_row(ask, &row, visit->now_minute);
	return 0;
}

static int take_minutes(void *arg)
{
	struct by_minute *ask = arg;
	ask->known = ask->known || ask->found;
	for (uint32_t i = 0; i <= ask->window; i++) {
		ask->sum[i].streams = client_add(ask->sum[i].streams, ask->scratch[i].streams);
		ask->sum[i].bytes = client_add(ask->sum[i].bytes, ask->scratch[i].bytes);
	}
	return 0;
}

static int scan_minutes(struct tally *tally, void *arg)
{
	struct by_minute *ask = arg;
	uint32_t now = window_minute_of_ms(tally->now_ms);
	ask->window = tally->window;
	ask->known = false;
	if (ask->cap < (size_t)ask->window + 1)
		return ERR_INVALID;
	free(ask->scratch);
	ask->scratch = calloc((size_t)ask->window + 1, sizeof *ask->scratch);
	if (!ask->scratch)
		return ERR_NOMEM;
	for (uint32_t i = 0; i <= ask->window; i++)
		ask->sum[i] = (struct tally_minute){
			.minute = (now > ask->window ? now - ask->window : 0) + i};
	int err = client_scan(tally,
		&(struct client_scan){.read = read_minutes, .take = take_minutes, .arg = ask},
		&ask->basis);
	return !err && !ask->known ? ERR_NOT_FOUND : err;
}

int tally_histogram(struct tally *tally, const char *tenant, struct tally_minute *out, size_t cap,
	size_t *n, struct tally_basis *basis)
{
	struct by_minute ask = {.tenant = tenant, .sum = out, .cap = cap};
	if (!tally || !out || !n || !client_name_ok(tenant))
		return TALLY_EINVALID;
	int err = client_call(tally, scan_minutes, &ask);
	*n = err ? 0 : (size_t)ask.window + 1;
	if (basis)
		*basis = ask.basis;
	free(ask.scratch);
	return err;
}

/* ------------------------------------------------------------------ all tenants */

struct by_tenant {
	const char *after; /* NULL = all */
	struct client_names names;
	struct tally_basis basis;
};

static int note_tenant(
	struct by_tenant *ask, struct client_visit *visit, uint32_t tenant, const char *name)
{
	char policy_name[USAGE_NAME_SIZE + 1];
	struct window_row row;
	uint32_t number;
	int policy = -1, err = 0;
	while (!err && client_next_row(visit, tenant, &policy, &row)) {
		struct client_sums sums;
		if (!sums_of(visit, &row, &sums))
			continue;
		if (!usage_policy_name(visit->txn, tenant, (uint32_t)policy, policy_name))
			return ERR_CORRUPT;
		err = client_names_intern(&ask->names, name, &number);
		if (!err)
			err = client_names_note(&ask->names, number, policy_name, &sums);
	}
	return err;
}

static int read_tenants(struct client_visit *visit, void *arg)
{
	struct by_tenant *ask = arg;
	char name[USAGE_NAME_SIZE + 1];
	uint32_t tenant = UINT32_MAX, last = UINT32_MAX;
	int err = 0;
	client_names_drop(&ask->names);
	while (!err && usage_next_tenant(visit->txn, &tenant, name)) {
		if (last != UINT32_MAX && tenant <= last)
			return ERR_CORRUPT;
		last = tenant;
		if (!ask->after || strcmp(name, ask->after) > 0)
			err = note_tenant(ask, visit, tenant, name);
		if (tenant == UINT32_MAX)
			break; /* to go on from here would be to start again */
	}
	return err;
}

static int take_tenants(void *arg)
{
	return client_names_take(&((struct by_tenant *)arg)->names);
}

static int scan_tenants(struct tally *tally, void *arg)
{
	struct by_tenant *ask = arg;
	client_names_free(&ask->names);
	client_names_init(&ask->names);
	return client_scan(tally,
		&(struct client_scan){.read = read_tenants, .take = take_tenants, .arg = ask},
		&ask->basis);
}

static void copy_tenants(
	const struct by_tenant *ask, struct tally_usage *out, size_t cap, size_t *n)
{
	for (uint32_t i = 0; i < ask->names.n && *n < cap; i++) {
		const struct client_name *name = &ask->names.list[i];
		if (!name->streams && !name->bytes)
			continue;
		struct tally_usage *to = &out[(*n)++];
		*to = (struct tally_usage){
			.streams = name->streams,
			.bytes = name->bytes,
			.policies = name->policies,
			.bytes_per_sec = name->rate,
			.basis = ask->basis,
		};
		client_text(to->tenant, sizeof to->tenant, client_name_text(&ask->names, name),
			USAGE_NAME_SIZE);
	}
}

static int list_tenants(struct tally *tally, struct by_tenant *ask, bool streams_first,
	struct tally_usage *out, size_t cap, size_t *n)
{
	if (!tally || !n || (cap && !out))
		return TALLY_EINVALID;
	*n = 0;
	int err = client_call(tally, scan_tenants, ask);
	if (!err) {
		client_names_sort(&ask->names, streams_first);
		copy_tenants(ask, out, cap, n);
	}
	client_names_free(&ask->names);
	return err;
}

int tally_tenants(struct tally *tally, const char *after, struct tally_usage *out, size_t cap,
	size_t *n, struct tally_basis *basis)
{
	struct by_tenant ask = {.after = after};
	int err = list_tenants(tally, &ask, false, out, cap, n);
	if (basis)
		*basis = ask.basis;
	return err;
}

int tally_top(struct tally *tally, struct tally_usage *out, size_t cap, size_t *n,
	struct tally_basis *basis)
{
	struct by_tenant ask = {0};
	int err = list_tenants(tally, &ask, true, out, cap, n);
	if (basis)
		*basis = ask.basis;
	return err;
}
