/*
 * test_limits.c - the compiled limits: what was written is found, and no garbled file is followed.
 */
#include "scratch.h"

#include "shm/err.h"
#include "shm/limits.h"

#define HEAD 56 /* bytes before the first row */

static const struct limits_policy finance[] = {
	{"operations", 5000}, {"finance", LIMIT_NONE}, {"fin", 7}, {"Finance", 1}};

/* Not in order, and names that begin one another. */
static const struct limits_tenant some[] = {
	{"tenant-b", 50000, true, false, finance, 4},
	{"tenant", LIMIT_NONE, true, true, NULL, 0},
	{"tenant-a", 0, false, true, finance, 1},
	{"\xc3\xa4", 3, true, false, NULL, 0},
	{"Z", 1, true, false, NULL, 0},
};

static const struct limits_source source = {
	.version = 42,
	.default_streams = 5000,
	.default_dry_run = false,
	.scope = LIMIT_PARTITION,
	.tenants = some,
	.n_tenants = sizeof some / sizeof *some,
};

static struct limits attached(int dirfd)
{
	struct limits limits;

	assert_int_equal(limits_attach(dirfd, &limits), 0);
	return limits;
}

static struct limits_entry found(const struct limits *limits, const char *name)
{
	struct limits_entry entry;

	limits_find(limits, name, strlen(name), &entry);
	return entry;
}

static uint64_t policy(
	const struct limits *limits, const struct limits_entry *entry, const char *name)
{
	uint64_t streams = 0;

	return limits_policy(limits, entry, name, strlen(name), &streams) ? streams : 0;
}

static void limits_finds_what_was_written_when_it_is_in_any_order(void **state)
{
	const struct scratch *s = *state;
	struct stat st;

	assert_int_equal(limits_write(s->fd, &source), 0);
	assert_false(scratch_has(s->fd, "limits.new"));
	assert_int_equal(fstatat(s->fd, "limits", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0440);
	struct limits limits = attached(s->fd);
	assert_int_equal(limits_version(&limits), 42);
	assert_int_equal(limits_scope(&limits), LIMIT_PARTITION);
	for (size_t i = 0; i < source.n_tenants; i++) {
		struct limits_entry e = found(&limits, some[i].name);

		assert_true(e.listed);
		assert_int_equal(e.is_default, !some[i].has_streams);
		assert_true(e.streams == (some[i].has_streams ? some[i].streams : 5000));
		assert_int_equal(e.dry_run, some[i].dry_run);
		assert_int_equal(e.n_policies, some[i].n_policies);
		for (size_t k = 0; k < some[i].n_policies; k++)
			assert_true(policy(&limits, &e, finance[k].name) == finance[k].streams);
	}
	limits_detach(&limits);
	limits_detach(&limits);
}

static void limits_gives_the_default_when_a_tenant_is_not_listed(void **state)
{
	const struct scratch *s = *state;
	static const char *const others[] = {"", "t", "tenan", "tenant-", "tenant-c", "tenant-aa",
		"\xc3", "a", "zzz", "Y", "[", "\xff"};

	assert_int_equal(limits_write(s->fd, &source), 0);
	struct limits limits = attached(s->fd);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct limits_entry e = found(&limits, others[i]);

		assert_false(e.listed);
		assert_true(e.is_default);
		assert_false(e.dry_run);
		assert_true(e.streams == 5000);
		assert_int_equal(policy(&limits, &e, "finance"), 0);
	}
	/* By length, not by NUL. */
	struct limits_entry e;
	limits_find(&limits, "tenant-bX", 8, &e);
	assert_true(e.streams == 50000);
	limits_find(&limits, "Z\0", 2, &e);
	assert_false(e.listed);
	limits_detach(&limits);
}

static void limits_policies_are_the_tenants_own_and_in_order(void **state)
{
	const struct scratch *s = *state;
	static const char *const order[] = {"Finance", "fin", "finance", "operations"};

	assert_int_equal(limits_write(s->fd, &source), 0);
	struct limits limits = attached(s->fd);
	struct limits_entry a = found(&limits, "tenant-a"), b = found(&limits, "tenant-b");
	for (uint32_t i = 0; i < 4; i++) {
		const char *name;
		uint64_t streams;
		size_t len;

		limits_policy_at(&limits, &b, i, &name, &len, &streams);
		assert_int_equal(len, strlen(order[i]));
		assert_memory_equal(name, order[i], len);
		assert_true(streams == policy(&limits, &b, order[i]));
	}
	assert_int_equal(policy(&limits, &a, "operations"), 5000);
	assert_int_equal(policy(&limits, &a, "finance"), 0);
	assert_int_equal(policy(&limits, &b, "financ"), 0);
	assert_int_equal(policy(&limits, &b, "zzz"), 0);
	limits_detach(&limits);
}

static void limits_has_defaults_when_no_tenant_is_listed(void **state)
{
	const struct scratch *s = *state;
	const struct limits_source none = {
		.version = UINT64_MAX, .default_streams = LIMIT_NONE, .default_dry_run = true};

	assert_int_equal(limits_write(s->fd, &none), 0);
	struct limits limits = attached(s->fd);
	struct limits_entry e = found(&limits, "anybody");
	assert_true(e.streams == LIMIT_NONE);
	assert_true(e.dry_run);
	assert_true(limits_version(&limits) == UINT64_MAX);
	assert_int_equal(limits_scope(&limits), LIMIT_INSTANCE);
	limits_detach(&limits);
}

/* Readers of the old one keep it until they let it go. */
static void limits_are_replaced_when_they_are_written_again(void **state)
{
	const struct scratch *s = *state;
	struct limits_source next = source;

	assert_int_equal(limits_write(s->fd, &source), 0);
	struct limits before = attached(s->fd);
	next.version = 43;
	next.n_tenants = 1;
	assert_int_equal(limits_write(s->fd, &next), 0);
	struct limits after = attached(s->fd);
	assert_int_equal(limits_version(&before), 42);
	assert_true(found(&before, "tenant").listed);
	assert_int_equal(limits_version(&after), 43);
	assert_false(found(&after, "tenant").listed);
	limits_detach(&before);
	limits_detach(&after);
}

static void limits_are_not_found_before_they_are_written(void **state)
{
	const struct scratch *s = *state;
	struct limits limits;

	assert_int_equal(limits_attach(s->fd, &limits), ERR_NOT_FOUND);
	limits_detach(&limits);
	assert_int_equal(mkdirat(s->fd, "limits", 0750), 0);
	assert_true(limits_write(s->fd, &source) < 0);
	assert_false(scratch_has(s->fd, "limits.new"));
}

/* ------------------------------------------------------------------ garbled files */

static volatile uint64_t seen; /* that nothing is left out as unused */

/* Whatever can be asked: must not leave the map, which ASan and the kernel both watch. */
static void use(const struct limits *limits)
{
	static const char *const names[] = {"tenant", "tenant-a", "tenant-b", "Z", "\xc3\xa4", ""};

	seen = limits_version(limits) + limits_scope(limits);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct limits_entry e = found(limits, names[i]);

		for (uint32_t k = 0; k < e.n_policies; k++) {
			const char *name;
			uint64_t streams;
			size_t len;

			limits_policy_at(limits, &e, k, &name, &len, &streams);
			for (size_t c = 0; c < len; c++)
				seen += (unsigned char)name[c];
			assert_true(limits_policy(limits, &e, name, len, &streams));
		}
		seen += policy(limits, &e, "finance");
		seen += policy(limits, &e, "zzzz");
	}
}

/* 0 or the error; what is attached is used. */
static int attach(int dirfd, const void *data, size_t len)
{
	struct limits limits;
	int err;

	scratch_write(dirfd, "limits", data, len);
	err = limits_attach(dirfd, &limits);
	if (err)
		assert_null(limits.segment.map);
	else
		use(&limits);
	limits_detach(&limits);
	return err;
}

/* One that says: the rows are believed only as far as they were checked. */
static void limits_refuses_rows_that_contradict(void **state)
{
	const struct scratch *s = *state;
	static const struct {
		size_t at, size;
		uint64_t value;
	} bad[] = {
		{32, 8, 0},				       /* default limit 0 */
		{40, 4, 4},				       /* tenants: the size is wrong */
		{40, 4, 1u << 31}, {44, 4, 99},		       /* policies */
		{48, 4, 0},				       /* names */
		{52, 1, 2},				       /* scope */
		{53, 1, 2},				       /* dry run */
		{54, 1, 1},				       /* reserved */
		{HEAD, 8, 0},				       /* a tenant's limit 0 */
		{HEAD + 8, 4, 1u << 20},		       /* its name lies outside */
		{HEAD + 8, 4, UINT32_MAX}, {HEAD + 12, 4, 1},  /* its first policy is another's */
		{HEAD + 16, 4, UINT32_MAX}, {HEAD + 16, 4, 1}, /* a policy too many */
		{HEAD + 20, 2, 0},			       /* name of no bytes */
		{HEAD + 20, 2, 257}, {HEAD + 20, 2, UINT16_MAX},
		{HEAD + 22, 2, 4},	   /* a flag that is none */
		{HEAD + 2 * 24 + 8, 4, 0}, /* the third one begins with Z: not sorted */
		{HEAD + 5 * 24, 8, 0},	   /* a policy's limit 0 */
		{HEAD + 5 * 24 + 8, 4, UINT32_MAX}, {HEAD + 5 * 24 + 12, 4, 0},
		{HEAD + 5 * 24 + 12, 4, 1000},
		{HEAD + 5 * 24 + 3 * 16 + 8, 4, 0}, /* tenant-b's third one: not sorted */
	};
	size_t len;

	assert_int_equal(limits_write(s->fd, &source), 0);
	char *data = scratch_read(s->fd, "limits", &len), *copy = malloc(len);
	assert_int_equal(attach(s->fd, data, len), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		memcpy(copy, data, len);
		memcpy(copy + bad[i].at, &bad[i].value, bad[i].size);
		if (attach(s->fd, copy, len) != ERR_CORRUPT)
			fail_msg("row %zu was believed", i);
	}
	free(copy);
	free(data);
}

static void limits_refuses_a_file_when_it_is_cut_or_longer(void **state)
{
	const struct scratch *s = *state;
	char longer[4096] = {0};
	size_t len;

	assert_int_equal(limits_write(s->fd, &source), 0);
	char *data = scratch_read(s->fd, "limits", &len);
	memcpy(longer, data, len);
	for (size_t size = 0; size < len; size++)
		assert_int_equal(attach(s->fd, data, size), ERR_FORMAT);
	for (size_t size = len + 1; size < len + 50; size++) {
		assert_int_equal(attach(s->fd, longer, size), ERR_FORMAT);
		memcpy(longer + 16, &(uint64_t){size}, 8); /* and says so */
		assert_int_equal(attach(s->fd, longer, size), ERR_CORRUPT);
	}
	free(data);
}

static void limits_stays_within_its_map_when_bytes_are_garbled(void **state)
{
	const struct scratch *s = *state;
	size_t len, refused = 0, tries = 0;

	assert_int_equal(limits_write(s->fd, &source), 0);
	char *data = scratch_read(s->fd, "limits", &len), *copy = malloc(len);
	for (size_t at = 0; at < len; at++) {
		static const unsigned char masks[] = {0x01, 0x80, 0xff};

		for (size_t m = 0; m < sizeof masks; m++, tries++) {
			memcpy(copy, data, len);
			copy[at] ^= (char)masks[m];
			refused += attach(s->fd, copy, len) != 0;
		}
	}
	srand(1);
	for (int i = 0; i < 5000; i++, tries++) {
		memcpy(copy, data, len);
		for (int k = rand() % 8; k >= 0; k--)
			copy[24 + (size_t)rand() % (len - 24)] = (char)(rand() % 3 ? rand() : 0);
		refused += attach(s->fd, copy, len) != 0;
	}
	assert_true(refused > tries / 2);
	assert_true(refused < tries); /* else this tries nothing: a name may be any bytes */
	free(copy);
	free(data);
}

/* ------------------------------------------------------------------ shares */

__extension__ typedef unsigned __int128 wide;

static uint64_t share(uint64_t limit, uint32_t owned, uint32_t all)
{
	return (uint64_t)(((wide)limit * owned + all - 1) / all);
}

static uint64_t any64(void)
{
	uint64_t value = 0;

	for (int i = 0; i < 5; i++)
		value = value << 15 ^ (uint64_t)rand();
	return value >> rand() % 64;
}

static void limits_share_equals_128_bit_arithmetic(void **state)
{
	(void)state;
	srand(2);
	for (int i = 0; i < 2000000; i++) {
		uint32_t all = (uint32_t)any64() >> rand() % 32, owned;
		uint64_t limit = any64();

		all = all ? all : 1;
		owned = (uint32_t)(any64() % ((uint64_t)all + 1));
		if (limit == LIMIT_NONE)
			continue;
		if (limits_share(limit, owned, all) != share(limit, owned, all))
			fail_msg("%llu x %u / %u", (unsigned long long)limit, owned, all);
	}
}

static void limits_spread_is_what_hashes_can_do(void **state)
{
	enum { LIMIT = 5000, ALL = 64, ROUNDS = 2000 };
	static const uint32_t few[] = {1, 2, 31, 62, 63};
	unsigned beyond = 0;

	(void)state;
	srand(3);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t in[ALL] = {0};

		for (int i = 0; i < LIMIT; i++)
			in[rand() % ALL]++;
		for (size_t k = 0; k < sizeof few / sizeof *few; k++) {
			uint64_t sum = 0;

			for (uint32_t p = 0; p < few[k]; p++)
				sum += in[p];
			beyond += sum > limits_share(LIMIT, few[k], ALL) +
						limits_spread(LIMIT, few[k], ALL);
		}
	}
	assert_true(beyond <= 2); /* one in 16,000 each */
	assert_true(limits_spread(800, 4, 8) == 58);
	assert_true(limits_spread(5000, 1, 64) == 36); /* 4 x 71 x 8 / 64, rounded up */
	assert_true(limits_spread(1, 1, 64) == 1);
	assert_true(limits_spread(5000, 0, 64) == 0 && limits_spread(5000, 64, 64) == 0);
	assert_true(limits_spread(0, 1, 64) == 0 && limits_spread(LIMIT_NONE, 1, 64) == 0);
	assert_true(limits_spread(UINT64_MAX - 1, 512, 1024) == UINT64_C(1) << 33);
}

static void limits_share_is_exact_where_it_must_be(void **state)
{
	static const uint64_t limits[] = {1, 2, 63, 64, 65, 500, 5000, UINT64_MAX - 1};

	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		assert_true(limits_share(limits[i], 64, 64) == limits[i]);
		assert_true(limits_share(limits[i], 1, 64) >= 1);
		assert_true(limits_share(limits[i], 0, 64) == 0);
		assert_true(limits_share(limits[i], 65, 64) == limits[i]);
		/* Two instances: no less than the limit, and at most one stream more. */
		wide sum = (wide)limits_share(limits[i], 31, 64) + limits_share(limits[i], 33, 64);
		assert_true(sum >= limits[i] && sum <= (wide)limits[i] + 1);
	}
	assert_true(limits_share(LIMIT_NONE, 1, 64) == LIMIT_NONE);
	assert_true(limits_share(LIMIT_NONE, 0, 64) == LIMIT_NONE);
	assert_true(limits_share(500, 1, 64) == 8); /* the reference: 7 */
	assert_true(limits_share(63, 1, 64) == 1);  /* the reference: 0, no limit at all */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(limits_finds_what_was_written_when_it_is_in_any_order),
		TEST(limits_gives_the_default_when_a_tenant_is_not_listed),
		TEST(limits_policies_are_the_tenants_own_and_in_order),
		TEST(limits_has_defaults_when_no_tenant_is_listed),
		TEST(limits_are_replaced_when_they_are_written_again),
		TEST(limits_are_not_found_before_they_are_written),
		TEST(limits_refuses_rows_that_contradict),
		TEST(limits_refuses_a_file_when_it_is_cut_or_longer),
		TEST(limits_stays_within_its_map_when_bytes_are_garbled),
		cmocka_unit_test(limits_share_equals_128_bit_arithmetic),
		cmocka_unit_test(limits_share_is_exact_where_it_must_be),
		cmocka_unit_test(limits_spread_is_what_hashes_can_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
