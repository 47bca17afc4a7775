/*
 * client_check.c - may these streams come in?  From the map alone.
 *
 *	hash % partitions --> entry active?  yes: known
 *	                                      no: headroom of its policy's bucket --> new | full
 *
 * Most streams that are asked about are known: so first only the partitions
 * that are asked about are read, and the buckets are counted, in one pass over
 * all that is owned, only when somebody is not known.
 *
 * Runs in: every reader.  Blocks in: opening files.
 */
#include <string.h>

#include "shm/client_private.h"
#include "shm/err.h"

#define NOT_ASKED 1 /* in result, while a call goes on */

struct check_ask {
	struct client_buckets buckets;
	struct tally *tally;
	const char *tenant;
	struct tally_check *list;
	size_t n;
	struct tally_tenant_limits *limits; /* NULL: nobody wants to know */
	uint32_t partition;		    /* being read */
	bool counting;			    /* second pass: buckets, too */
	bool strangers;			    /* some stream is not known */
};

static const char *policy_of(const struct tally_check *check)
{
	return check->policy ? check->policy : "";
}

static void tell_known(const struct client_find *find, size_t i, int64_t last_seen_s)
{
	const struct client_visit *visit = find->visit;
	struct tally_check *to = &((struct check_ask *)find->arg)->list[i];
	to->generation = visit->generation;
	to->verdict = client_seen_active(visit, last_seen_s) ? TALLY_KNOWN : TALLY_NEW;
}

static void read_streams(struct client_visit *visit, struct check_ask *ask)
{
	struct client_find find;
	client_find_start(&find, visit, ask->tenant, tell_known, ask);
	for (size_t i = 0; i < ask->n; i++)
		if (ask->list[i].partition == visit->partition)
			client_find_add(&find, i, ask->list[i].hash);
	client_find_end(&find);
}

static int read_check(struct client_visit *visit, void *arg)
{
	struct check_ask *ask = arg;
	read_streams(visit, ask);
	return ask->counting ? client_buckets_read(visit, &ask->buckets) : 0;
}

/* With limit_scope partition a stream is judged by what its own partition holds. */
static void judge_partition(void *arg, uint32_t partition, int err)
{
	struct check_ask *ask = arg;
	bool here = ask->buckets.by_partition;
	bool partial = !err && client_last(ask->tally)->partial;
	for (size_t i = 0; i < ask->n; i++) {
		struct tally_check *to = &ask->list[i];
		if (to->partition != partition)
			continue;
		to->result = client_public(err);
		if (partial) /* it may be looked at, but nobody lets streams in there */
			to->result = TALLY_ENOTREADY;
		if (to->result) {
			to->generation = 0;
			to->verdict = TALLY_KNOWN;
			continue;
		}
		ask->strangers |= to->verdict != TALLY_KNOWN;
		if (ask->counting && here && to->verdict == TALLY_NEW &&
			!client_bucket_room(
				&ask->buckets, client_bucket_of(&ask->buckets, policy_of(to))))
			to->verdict = TALLY_FULL;
	}
}

static void judge_instance(struct check_ask *ask)
{
	for (size_t i = 0; i < ask->n; i++) {
		struct tally_check *to = &ask->list[i];
		if (!to->result && to->verdict == TALLY_NEW &&
			!client_bucket_headroom(
				&ask->buckets, client_bucket_of(&ask->buckets, policy_of(to))))
			to->verdict = TALLY_FULL;
	}
}

static void begin_pass(struct check_ask *ask, uint32_t partitions)
{
	for (size_t i = 0; i < ask->n; i++) {
		struct tally_check *to = &ask->list[i];
		*to = (struct tally_check){
			.hash = to->hash,
			.policy = to->policy,
			.partition = (uint32_t)(to->hash % partitions),
			.result = NOT_ASKED,
		};
	}
}

/* Partitions that nobody asks about count by their state. */
static void basis_of(struct tally_basis *basis, struct tally *tally)
{
	struct client_stand stand;
	*basis = (struct tally_basis){.partitions = client_partitions(tally)};
	uint32_t ready =
		table_count(&tally->table, basis->partitions, host_boot_ns(), &basis->owned);
	if (!tally->flags)
		basis->answered = ready;
	else /* those that are not ready, too: rarely asked for */
		for (uint32_t p = 0; p < basis->partitions; p++)
			if (!client_look(tally, p, &stand))
				client_basis_add(basis, &stand);
	client_basis_end(basis);
}

static void known_pass(struct check_ask *ask, struct tally *tally)
{
	for (size_t i = 0; i < ask->n; i++)
		if (ask->list[i].result == NOT_ASKED) {
			uint32_t partition = ask->list[i].partition;
			int err = client_visit(tally, partition, read_check, ask);
			judge_partition(ask, partition, err);
		}
}

/* All over again, so that what is known and what is counted is of one transaction. */
static int counting_pass(struct check_ask *ask, struct tally *tally, uint32_t partitions)
{
	tally->n_stands = 0;
	ask->counting = true;
	begin_pass(ask, partitions);
	int err = client_buckets_scan(&ask->buckets,
		&(struct client_scan){.read = read_check, .arg = ask}, judge_partition);
	for (size_t i = 0; i < ask->n; i++)
		if (ask->list[i].result == NOT_ASKED)
			ask->list[i].result = TALLY_ENOTREADY; /* not ours */
	if (!err && !ask->buckets.by_partition)
		judge_instance(ask);
	return err;
}

static int check_streams(struct tally *tally, void *arg)
{
	struct check_ask *ask = arg;
	uint32_t partitions = client_partitions(tally);
	if (!partitions)
		return client_unanswered(tally);
	int err = client_limits_use(tally);
	if (err)
		return err;
	ask->counting = ask->strangers = false;
	begin_pass(ask, partitions);
	known_pass(ask, tally);
	if (!ask->strangers && !ask->limits)
		return 0;
	err = client_buckets_start(&ask->buckets, tally, ask->tenant);
	if (err)
		return err;
	if (ask->strangers)
		err = counting_pass(ask, tally, partitions);
	else
		basis_of(&ask->buckets.basis, tally);
	if (ask->limits)
		client_limits_fill(&ask->buckets, ask->limits);
	return err;
}

static bool names_ok(const struct tally_check *streams, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strnlen(policy_of(&streams[i]), USAGE_NAME_SIZE + 1) > USAGE_NAME_SIZE)
			return false;
	return true;
}

int tally_check(struct tally *tally, const char *tenant, struct tally_check *streams, size_t n,
	struct tally_tenant_limits *limits)
{
	struct check_ask ask = {
		.tally = tally, .tenant = tenant, .list = streams, .n = n, .limits = limits};
	if (!tally || (n && !streams) || !client_name_ok(tenant) || !names_ok(streams, n))
		return TALLY_EINVALID;
	if (limits)
		*limits = (struct tally_tenant_limits){0};
	int err = client_call(tally, check_streams, &ask);
	for (size_t i = 0; err && i < n; i++)
		streams[i] = (struct tally_check){
			.hash = streams[i].hash, .policy = streams[i].policy, .result = err};
	return err;
}
