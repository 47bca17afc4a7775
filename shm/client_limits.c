/*
 * client_limits.c - a tenant's buckets: what each limit counts, and how much room is left.
 *
 *	limits (map) --limits_find--> buckets: default | policies with an own limit
 *	rows (tenant, policy) of each partition --by name--> bucket += active streams
 *	ceil(limit x owned / all) - streams = headroom
 *
 * On the path of every question that needs room: nothing is allocated per
 * partition, and the name of a policy is looked up only when the tenant has an
 * own limit for one.
 *
 * What is owned and not ready counts as well, as far as its store can be read:
 * its streams come back, and the share is made for them, too.  An answer does
 * not stand on such a partition.
 *
 * Runs in: every reader.  Blocks in: opening files.
 */
#include <stdlib.h>
#include <string.h>

#include "shm/client_private.h"
#include "shm/err.h"

/* ------------------------------------------------------------------ the map */

void client_limits_drop(struct tally *tally)
{
	if (tally->limits.segment.map)
		limits_detach(&tally->limits);
	tally->limits = (struct limits){0};
}

/*
 * The file of the version that the table's head names.  None there: no limits have
 * been published.  One that cannot be used: the last one that could stays, else it
 * is an error; looked at again when the head names another.
 */
int client_limits_use(struct tally *tally)
{
	struct limits limits = {0};
	uint64_t version =
		atomic_load_explicit(&tally->table.head->limits_version, memory_order_acquire);
	if (tally->limits_tried && tally->limits_at == version)
		return tally->limits_err;
	int err = limits_attach(tally->dirfd, &limits);
	/* What may pass (no memory, no descriptors) is tried again by the next call. */
	tally->limits_tried =
		!err || err == ERR_NOT_FOUND || err == ERR_FORMAT || err == ERR_CORRUPT;
	tally->limits_at = version;
	if (!err || err == ERR_NOT_FOUND) {
		client_limits_drop(tally);
		tally->limits = limits;
		err = 0;
	}
	tally->limits_err = tally->limits.segment.map ? 0 : err;
	return tally->limits_err;
}

/* ------------------------------------------------------------------ buckets */

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
	return order ? order : (a_len > b_len) - (a_len < b_len);
}

uint32_t client_bucket_of(const struct client_buckets *buckets, const char *policy)
{
	uint32_t low = 0, high = buckets->entry.n_policies;
	size_t len = strlen(policy), name_len;
	const char *name;
	uint64_t limit;
	while (low < high) {
		uint32_t i = low + (high - low) / 2;
		limits_policy_at(
			&buckets->tally->limits, &buckets->entry, i, &name, &name_len, &limit);
		int order = compare(policy, len, name, name_len);
		if (!order)
			return i + 1;
		if (order < 0)
			high = i;
		else
			low = i + 1;
	}
	return 0;
}

static uint64_t limit_of(
	const struct client_buckets *buckets, uint32_t bucket, const char **name, size_t *len)
{
	uint64_t limit = buckets->entry.streams;
	*name = "";
	*len = 0;
	if (bucket)
		limits_policy_at(
			&buckets->tally->limits, &buckets->entry, bucket - 1, name, len, &limit);
	return limit;
}

/* Four numbers for each bucket, in memory that the handle keeps. */
static int reserve(struct client_buckets *buckets, struct tally *tally)
{
	if (tally->counts_cap < buckets->n) {
		void *grown = reallocarray(tally->counts, buckets->n, 4 * sizeof *tally->counts);
		if (!grown)
			return ERR_NOMEM;
		tally->counts = grown;
		tally->counts_cap = buckets->n;
	}
	buckets->read = tally->counts;
	buckets->streams = buckets->read + buckets->n;
	buckets->headroom = buckets->streams + buckets->n;
	buckets->sure = buckets->headroom + buckets->n;
	memset(buckets->read, 0, 4 * (size_t)buckets->n * sizeof *buckets->read);
	return 0;
}

int client_buckets_start(struct client_buckets *buckets, struct tally *tally, const char *tenant)
{
	*buckets = (struct client_buckets){
		.tally = tally,
		.tenant = tenant,
		.entry = {.streams = LIMIT_NONE, .is_default = true},
		.only = -1,
	};
	int err = client_limits_use(tally);
	if (!err && tally->limits.segment.map) {
		limits_find(&tally->limits, tenant, strlen(tenant), &buckets->entry);
		buckets->version = limits_version(&tally->limits);
		buckets->by_partition = limits_scope(&tally->limits) == LIMIT_PARTITION;
	}
	buckets->n = buckets->entry.n_policies + 1;
	return err ? err : reserve(buckets, tally);
}

int client_buckets_read(struct client_visit *visit, struct client_buckets *buckets)
{
	char name[USAGE_NAME_SIZE + 1];
	struct window_row row;
	uint32_t tenant, bucket = 0;
	int policy = -1;
	memset(buckets->read, 0, buckets->n * sizeof *buckets->read);
	if (!client_find_tenant(visit, buckets->tenant, &tenant))
		return 0;
	while (client_next_row(visit, tenant, &policy, &row)) {
		uint64_t streams = window_row_streams(&row, visit->now_minute);
		if (streams && buckets->n > 1) {
			if (!usage_policy_name(visit->txn, tenant, (uint32_t)policy, name))
				return ERR_CORRUPT;
			bucket = client_bucket_of(buckets, name);
		}
		buckets->read[bucket] = client_add(buckets->read[bucket], streams);
	}
	return 0;
}

/* What one partition may hold, for limit_scope partition. */
static uint64_t part_share(const struct client_buckets *buckets, uint64_t limit)
{
	return limits_share(limit, 1, buckets->basis.partitions);
}

uint64_t client_bucket_room(const struct client_buckets *buckets, uint32_t bucket)
{
	const char *name;
	size_t len;
	uint64_t share = part_share(buckets, limit_of(buckets, bucket, &name, &len));
	uint64_t streams = buckets->read[bucket];
	return share == LIMIT_NONE ? TALLY_UNLIMITED : share > streams ? share - streams : 0;
}

static void take_counts(struct client_buckets *buckets, bool whole)
{
	buckets->whole += whole;
	for (uint32_t i = 0; i < buckets->n; i++) {
		buckets->streams[i] = client_add(buckets->streams[i], buckets->read[i]);
		if (whole)
			buckets->sure[i] = client_add(buckets->sure[i], buckets->read[i]);
		if (buckets->by_partition)
			buckets->headroom[i] =
				client_add(buckets->headroom[i], client_bucket_room(buckets, i));
	}
}

/* It is not ready again yet; what it had counted is all there. */
static bool is_whole(const struct tally *tally, uint32_t partition)
{
	return table_is_whole(&tally->table, partition, table_word_of(&tally->table, partition));
}

/* 0: ready, or taken as it is because of the handle's flags.  Counted: also what is not ready. */
static int count_partition(
	struct client_buckets *buckets, uint32_t partition, const struct client_scan *how)
{
	struct tally *tally = buckets->tally;
	int err = client_visit(tally, partition, how->read, how->arg);
	int counted =
		err == ERR_NOT_READY ? client_peek(tally, partition, how->read, how->arg) : err;
	if (!counted)
		take_counts(buckets,
			(!err && !client_last(tally)->partial) || is_whole(tally, partition));
	return err;
}

int client_buckets_scan(struct client_buckets *buckets, const struct client_scan *how,
	void (*judge)(void *arg, uint32_t partition, int err))
{
	struct tally *tally = buckets->tally;
	struct tally_basis *basis = &buckets->basis;
	*basis = (struct tally_basis){.partitions = client_partitions(tally)};
	uint32_t p = buckets->only < 0 ? 0 : (uint32_t)buckets->only;
	uint32_t end = buckets->only < 0 ? basis->partitions : p + 1;
	if (end > basis->partitions)
		return ERR_INVALID;
	for (; p < end; p++) {
		enum part_state state = table_word_state(table_word_of(&tally->table, p));
		if (state == PART_FREE || state >= PART_STATES)
			continue;
		basis->owned++;
		int err = count_partition(buckets, p, how);
		if (err == ERR_NOMEM)
			return err;
		if (judge)
			judge(how->arg, p, err);
		if (!err)
			client_basis_add(basis, client_last(tally));
	}
	client_basis_end(basis);
	if (basis->answered || basis->partial)
		return 0;
	int none = client_unanswered(tally);
	return basis->owned && none != ERR_STALE ? 0 : none;
}

/* What this instance may admit, once it is known how much it owns. */
static uint64_t share_of(const struct client_buckets *buckets, uint64_t limit)
{
	const struct tally_basis *basis = &buckets->basis;
	uint64_t share;
	if (limit == LIMIT_NONE)
		return TALLY_UNLIMITED;
	if (!buckets->by_partition)
		return limits_share(limit, basis->owned, basis->partitions);
	if (__builtin_mul_overflow(part_share(buckets, limit), basis->owned, &share))
		share = TALLY_UNLIMITED - 1;
	return share;
}

/*
 * While some are being counted anew, nobody knows how many streams they have.  What is
 * whole may admit its own part of the share; but hashes do not fall evenly, so as much
 * stays free as those may have beyond theirs.
 */
static uint64_t room_of(
	const struct client_buckets *buckets, uint32_t bucket, const struct tally_bucket *of)
{
	const struct tally_basis *basis = &buckets->basis;
	uint64_t part = limits_share(of->limit, buckets->whole, basis->partitions);
	uint64_t taken = client_add(buckets->sure[bucket],
		limits_spread(of->limit, basis->owned - buckets->whole, basis->partitions));
	uint64_t all = of->share > of->streams ? of->share - of->streams : 0;
	uint64_t sure = part > taken ? part - taken : 0;
	return all < sure ? all : sure;
}

void client_bucket_fill(
	const struct client_buckets *buckets, uint32_t bucket, struct tally_bucket *out)
{
	const char *name;
	size_t len;
	out->limit = limit_of(buckets, bucket, &name, &len);
	client_text(out->policy, sizeof out->policy, name, len);
	out->share = share_of(buckets, out->limit);
	out->streams = buckets->streams[bucket];
	if (out->share == TALLY_UNLIMITED)
		out->headroom = TALLY_UNLIMITED;
	else if (buckets->by_partition)
		out->headroom = buckets->headroom[bucket];
	else
		out->headroom = room_of(buckets, bucket, out);
}

uint64_t client_bucket_headroom(const struct client_buckets *buckets, uint32_t bucket)
{
	struct tally_bucket filled;
	client_bucket_fill(buckets, bucket, &filled);
	return filled.headroom;
}

void client_limits_fill(const struct client_buckets *buckets, struct tally_tenant_limits *out)
{
	*out = (struct tally_tenant_limits){
		.listed = buckets->entry.listed,
		.is_default = buckets->entry.is_default,
		.dry_run = buckets->entry.dry_run,
		.by_partition = buckets->by_partition,
		.version = buckets->version,
		.basis = buckets->basis,
	};
}

/* ------------------------------------------------------------------ the call */

struct buckets_ask {
	const char *tenant;
	int32_t partition;
	struct tally_tenant_limits *limits;
	struct tally_bucket *out;
	size_t cap, n;
};

static int read_counts(struct client_visit *visit, void *arg)
{
	return client_buckets_read(visit, arg);
}

static int scan_buckets(struct tally *tally, void *arg)
{
	struct buckets_ask *ask = arg;
	struct client_buckets buckets;
	int err = client_buckets_start(&buckets, tally, ask->tenant);
	if (err)
		return err;
	buckets.only = ask->partition;
	err = client_buckets_scan(
		&buckets, &(struct client_scan){.read = read_counts, .arg = &buckets}, NULL);
	client_limits_fill(&buckets, ask->limits);
	if (err)
		return err;
	ask->n = buckets.n;
	for (uint32_t i = 0; i < buckets.n && i < ask->cap; i++)
		client_bucket_fill(&buckets, i, &ask->out[i]);
	return 0;
}

int tally_buckets(struct tally *tally, const char *tenant, int32_t partition,
	struct tally_tenant_limits *limits, struct tally_bucket *out, size_t cap, size_t *n)
{
	struct tally_tenant_limits unused;
	struct buckets_ask ask = {.tenant = tenant,
		.partition = partition < 0 ? -1 : partition,
		.limits = limits ? limits : &unused,
		.out = out,
		.cap = cap};
	if (!tally || !n || (cap && !out) || !client_name_ok(tenant))
		return TALLY_EINVALID;
	*ask.limits = (struct tally_tenant_limits){0};
	int err = client_call(tally, scan_buckets, &ask);
	*n = err ? 0 : ask.n;
	return err;
}
