/*
 * test_client_model.c - buckets and verdicts over many partitions, against a plain count.
 *
 *	model: every stream that was written --loops--> expected
 *	store, limits file --libtally--> tally_buckets, tally_check
 */
#include <math.h>

#include "client_reader.h"

#define WIDE 64 /* partitions */

enum { MODEL = 6000, MODEL_POLICIES = 5, MODEL_TENANTS = 2 };
static const char *const model_policies[MODEL_POLICIES] = {"", "gold", "silver", "free", "p"};
static const char *const model_tenants[MODEL_TENANTS] = {"a", "defaulted"};
static struct {
	uint64_t hash;
	unsigned tenant, policy;
} model[MODEL];

/* A plain count: which limit, how much of it is ours, how many there are. */
static uint64_t model_bucket(unsigned tenant, unsigned policy, uint64_t *limit)
{
	if (policy == 1 && tenant == 0) {
		*limit = 700;
		return 1;
	}
	*limit = tenant ? 2500 : 1200;
	return 0;
}

static uint64_t model_count(unsigned tenant, uint64_t bucket, int64_t partition, uint64_t owned)
{
	uint64_t n = 0, limit;
	for (size_t i = 0; i < MODEL; i++)
		n += model[i].tenant == tenant && owned >> model[i].hash % WIDE & 1 &&
		     (partition < 0 || (uint64_t)partition == model[i].hash % WIDE) &&
		     model_bucket(tenant, model[i].policy, &limit) == bucket;
	return n;
}

static void model_write(void)
{
	static struct put puts[MODEL];
	uint64_t random = 88172645463325252;
	for (size_t i = 0; i < MODEL; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		model[i].hash = random;
		model[i].tenant = i % 3 == 0;
		model[i].policy = (unsigned)(random >> 33) % MODEL_POLICIES;
	}
	for (uint32_t p = 0; p < WIDE; p++) {
		size_t n = 0;
		for (size_t i = 0; i < MODEL; i++)
			if (model[i].hash % WIDE == p)
				puts[n++] = (struct put){model_tenants[model[i].tenant],
					model_policies[model[i].policy], model[i].hash, 1,
					(int64_t)(i % 7000)};
		run_write_how(&run, p, 100 + p, puts, n, &(struct worker_how){.partitions = WIDE});
	}
}

static void model_publish(uint64_t owned, uint64_t ready)
{
	atomic_store(&table_head_mut(&run.table)->partitions, WIDE);
	for (uint32_t p = 0; p < WIDE; p++)
		run_publish(&run, p,
			!(owned >> p & 1) ? PART_FREE
			: ready >> p & 1  ? PART_READY
					  : PART_REPLAYING,
			100 + p);
}

static void model_limits(uint64_t version, enum limit_scope scope)
{
	static const struct limits_policy gold = {"gold", 700};
	static const struct limits_tenant a = {.name = "a",
		.streams = 1200,
		.has_streams = true,
		.policies = &gold,
		.n_policies = 1};
	publish_limits(&(struct limits_source){.version = version,
		.default_streams = 2500,
		.scope = scope,
		.tenants = &a,
		.n_tenants = 1});
}

/* Four standard deviations of what so many partitions hold, each root rounded up. */
static uint64_t model_spread(uint64_t limit, uint64_t partitions)
{
	double around = ceil(sqrt((double)limit));
	double part = ceil(sqrt((double)(partitions * (WIDE - partitions))));
	return (uint64_t)ceil(4 * around * part / WIDE);
}

/* Those that are not ready have never been. */
static void model_compare(unsigned tenant, uint64_t owned, uint64_t ready, bool by_partition)
{
	struct tally_bucket out[2];
	uint64_t n_owned = (uint64_t)__builtin_popcountll(owned), limit;
	size_t n;
	assert_int_equal(tally_buckets(tally, model_tenants[tenant], -1, NULL, out, 2, &n), 0);
	assert_int_equal(n, tenant ? 1 : 2);
	for (uint64_t b = 0; b < n; b++) {
		uint64_t room = 0, streams = model_count(tenant, b, -1, owned);
		model_bucket(tenant, b ? 1 : 0, &limit);
		uint64_t each = (limit + WIDE - 1) / WIDE,
			 share = (limit * n_owned + WIDE - 1) / WIDE;
		assert_int_equal(out[b].streams, streams);
		assert_int_equal(out[b].share, by_partition ? each * n_owned : share);
		for (uint32_t p = 0; p < WIDE; p++) {
			uint64_t in = model_count(tenant, b, p, owned);
			room += owned >> p & 1 && each > in ? each - in : 0;
		}
		if (!by_partition) {
			uint64_t sure = model_count(tenant, b, -1, ready);
			uint64_t part =
				(limit * (uint64_t)__builtin_popcountll(ready) + WIDE - 1) / WIDE;
			room = share > streams ? share - streams : 0;
			sure += model_spread(
				limit, n_owned - (uint64_t)__builtin_popcountll(ready));
			part = part > sure ? part - sure : 0;
			room = room < part ? room : part;
		}
		assert_int_equal(out[b].headroom, room);
	}
}

/* What is whole has no more of its own part. */
static bool model_full(uint64_t b, uint64_t limit, uint64_t owned, uint64_t ready)
{
	uint64_t pending = (uint64_t)__builtin_popcountll(owned & ~ready);
	uint64_t part = (limit * (uint64_t)__builtin_popcountll(ready) + WIDE - 1) / WIDE;
	return model_count(0, b, -1, ready) + model_spread(limit, pending) >= part;
}

static void model_compare_checks(uint64_t owned, uint64_t ready, bool by_partition)
{
	enum { ASKED = 1500 };
	static struct tally_check list[ASKED];
	uint64_t random = 362436069, limit, n_owned = (uint64_t)__builtin_popcountll(owned);
	for (size_t i = 0; i < ASKED; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		list[i].hash = i % 2 ? random : model[i].hash;
		list[i].policy = model_policies[i % 2 ? i % MODEL_POLICIES : model[i].policy];
	}
	assert_int_equal(tally_check(tally, "a", list, ASKED, NULL), 0);
	for (size_t i = 0; i < ASKED; i++) {
		uint32_t p = (uint32_t)(list[i].hash % WIDE);
		if (!(ready >> p & 1)) {
			assert_int_equal(list[i].result, TALLY_ENOTREADY);
			continue;
		}
		assert_int_equal(list[i].result, 0);
		bool known = i % 2 == 0 && !model[i].tenant;
		unsigned policy = (unsigned)(i % 2 ? i % MODEL_POLICIES : model[i].policy);
		uint64_t b = model_bucket(0, policy, &limit);
		uint64_t share = by_partition ? (limit + WIDE - 1) / WIDE
					      : (limit * n_owned + WIDE - 1) / WIDE;
		bool full = model_count(0, b, by_partition ? (int64_t)p : -1, owned) >= share ||
			    (!by_partition && model_full(b, limit, owned, ready));
		assert_int_equal(list[i].verdict, known	 ? TALLY_KNOWN
						  : full ? TALLY_FULL
							 : TALLY_NEW);
	}
}

static void buckets_and_checks_agree_with_a_plain_count_over_64_partitions(void **state)
{
	static const uint64_t sets[][2] = {
		{UINT64_MAX, UINT64_MAX},
		{UINT64_MAX, 0x00ff00ff00ff00ff},
		{0xfffff, 0xfffff},
		{0x8000000000000001, 1},
		{0xaaaaaaaaaaaaaaaa, 0xaaaa0000aaaa0000},
	};
	(void)state;
	uint64_t version = 0;
	model_write();
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
		for (int scope = LIMIT_INSTANCE; scope <= LIMIT_PARTITION; scope++) {
			for (uint32_t p = 0; p < WIDE; p++)
				atomic_store(&table_slot_mut(&run.table, p)->whole, 0);
			model_publish(sets[i][0], sets[i][1]);
			model_limits(++version, (enum limit_scope)scope);
			model_compare(0, sets[i][0], sets[i][1], scope == LIMIT_PARTITION);
			model_compare(1, sets[i][0], sets[i][1], scope == LIMIT_PARTITION);
			model_compare_checks(sets[i][0], sets[i][1], scope == LIMIT_PARTITION);
		}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, reader_setup, reader_teardown)
	const struct CMUnitTest tests[] = {
		TEST(buckets_and_checks_agree_with_a_plain_count_over_64_partitions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
